//! One TLS configuration for every connection to a node: the system's roots, ring as cryptography.

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;

/// The client side of TLS.
///
/// # Errors
/// When the system has no usable root certificates; the text says what is wrong.
pub(crate) fn client_config() -> Result<Arc<ClientConfig>, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let why = found.errors.first().map(ToString::to_string).unwrap_or_default();
        return Err(format!(
            "no root certificates found ({why}); install the system's certificates or use a plain http address"
        ));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|e| e.to_string())?;
    Ok(Arc::new(
        builder.with_root_certificates(roots).with_no_client_auth(),
    ))
}
