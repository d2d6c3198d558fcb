//! TLS configuration for all connections to nodes.

use crate::regular_file;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum size of a certificate file in bytes. System files have a few hundred kilobytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Trusted root certificates for TLS connections to nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Roots {
    /// Root certificates of the operating system, or of the file `SSL_CERT_FILE`.
    #[default]
    System,
    /// Certificates of a PEM file, in addition to those of the operating system.
    File(PathBuf),
}

/// Root certificates that were loaded according to [`Roots`].
#[derive(Debug, Clone)]
pub(crate) struct Trust {
    /// TLS configuration for HTTP and websockets.
    pub(crate) config: Arc<ClientConfig>,
    /// PEM text of the file in [`Roots::File`], or `None` for [`Roots::System`].
    pub(crate) extra: Option<Vec<u8>>,
}

impl Trust {
    /// Loads the root certificates.
    ///
    /// # Errors
    /// Returns an error if no certificate is found, or if the file is unreadable.
    pub(crate) fn read(roots: &Roots) -> Result<Self, String> {
        // Unreadable certificates of the system are ignored, unless no certificate is left.
        let found = rustls_native_certs::load_native_certs();
        let mut store = RootCertStore::empty();
        let (mut added, _) = store.add_parsable_certificates(found.certs);
        let extra = match roots {
            Roots::System => None,
            Roots::File(path) => {
                let text = read_file(path)
                    .map_err(|e| format!("cannot read root certificates {}: {e}", path.display()))?;
                added += add(&mut store, &text)
                    .map_err(|e| format!("cannot read root certificates {}: {e}", path.display()))?;
                Some(text)
            }
        };
        if added == 0 {
            let why = found.errors.first().map(ToString::to_string).unwrap_or_default();
            return Err(format!(
                "no root certificates found ({why}); install the certificates of the system or use an http address"
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
        return Err("no PEM certificate in the file".to_owned());
    }
    Ok(added)
}

#[cfg(test)]
mod tests;
