//! One TLS configuration for every connection to a node: the roots that are trusted, ring as cryptography.

use crate::regular_file;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Largest file of roots that is read; the system's own have some hundred kilobytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Who may vouch for a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Roots {
    /// Those whom the system trusts, or those of the file that the variable `SSL_CERT_FILE` names.
    #[default]
    System,
    /// Those of this PEM file beside the system's: for nodes with an authority of their own.
    File(PathBuf),
}

/// Roots that have been read.
#[derive(Debug, Clone)]
pub(crate) struct Trust {
    /// For HTTP and websockets.
    pub(crate) config: Arc<ClientConfig>,
    /// The file's certificates as they stand, for gRPC.
    pub(crate) extra: Option<Vec<u8>>,
}

impl Trust {
    /// Reads the roots.
    ///
    /// # Errors
    /// When there are none, or the file cannot be used; the text says what is wrong.
    pub(crate) fn read(roots: &Roots) -> Result<Self, String> {
        // Some of the system's roots may be unreadable; that counts only when none is left.
        let found = rustls_native_certs::load_native_certs();
        let mut store = RootCertStore::empty();
        let (mut added, _) = store.add_parsable_certificates(found.certs);
        let extra = match roots {
            Roots::System => None,
            Roots::File(path) => {
                let text = read_file(path).map_err(|e| format!("roots {}: {e}", path.display()))?;
                added += add(&mut store, &text).map_err(|e| format!("roots {}: {e}", path.display()))?;
                Some(text)
            }
        };
        if added == 0 {
            let why = found.errors.first().map(ToString::to_string).unwrap_or_default();
            return Err(format!(
                "no root certificates found ({why}); install the system's certificates or use a plain http address"
            ));
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|e| e.to_string())?;
        let config = builder.with_root_certificates(store).with_no_client_auth();
        Ok(Self {
            config: Arc::new(config),
            extra,
        })
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    regular_file::read(path, FILE_BYTES_MAX).map_err(|e| e.to_string())
}

fn add(store: &mut RootCertStore, text: &[u8]) -> Result<usize, String> {
    let mut added = 0;
    for certificate in CertificateDer::pem_slice_iter(text) {
        let certificate = certificate.map_err(|e| e.to_string())?;
        store.add(certificate).map_err(|e| e.to_string())?;
        added += 1;
    }
    if added == 0 {
        return Err("it holds no certificate in PEM form".to_owned());
    }
    Ok(added)
}

#[cfg(test)]
mod tests;
