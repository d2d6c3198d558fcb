//! Check of a certificate before it is used.

use akash_provider_core::error::chain_text;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, RootCertStore};
use std::sync::Arc;
use std::time::Duration;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// Validity period of a certificate, since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    not_before: Duration,
    not_after: Duration,
}

impl Validity {
    pub(super) const fn new(not_before: Duration, not_after: Duration) -> Self {
        Self {
            not_before,
            not_after,
        }
    }

    /// Returns the time of the renewal: after two thirds of the lifetime.
    pub(super) fn renewal(self) -> Duration {
        let lifetime = self.not_after.saturating_sub(self.not_before);
        self.not_before + lifetime * 2 / 3
    }
}

/// Reason why a certificate cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CertificateFault {
    #[error("invalid PEM: {0}")]
    Pem(String),
    #[error("no certificate in the chain")]
    Empty,
    #[error("the certificate has another key")]
    Key,
    #[error("the certificate is not valid for {0}")]
    Name(String),
    #[error("the certificate is expired or not valid yet")]
    Time,
    #[error("the chain does not lead from the certificate to its issuer")]
    Chain,
    #[error("{0}")]
    Other(String),
}

impl CertificateFault {
    fn other(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Other(chain_text(error))
    }
}

/// Checks the chain and the key in `pem`: key, hostname, validity period, and the signatures from the certificate to
/// another certificate of the chain or to one of `roots`.
///
/// # Errors
/// Returns the first fault.
pub(super) fn check(
    pem: &[u8],
    domain: &str,
    now: Duration,
    roots: &RootCertStore,
) -> Result<Validity, CertificateFault> {
    let bad_pem = |error: rustls::pki_types::pem::Error| CertificateFault::Pem(error.to_string());
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(bad_pem)?;
    let key = PrivateKeyDer::from_pem_slice(pem).map_err(bad_pem)?;
    let (leaf, issuers) = chain.split_first().ok_or(CertificateFault::Empty)?;
    let provider = ring::default_provider();
    CertifiedKey::from_der(chain.clone(), key, &provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => CertificateFault::Key,
        error => CertificateFault::other(&error),
    })?;
    let mut roots = roots.clone();
    // The certificate authority need not be trusted here: staging servers and private servers are valid choices.
    roots.add_parsable_certificates(issuers.iter().cloned());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(provider)).build();
    let verifier = verifier.map_err(|_| CertificateFault::Chain)?;
    let name = ServerName::try_from(domain).map_err(|error| CertificateFault::other(&error))?;
    let time = UnixTime::since_unix_epoch(now);
    verifier
        .verify_server_cert(leaf, issuers, &name, &[], time)
        .map_err(|error| fault(&error, domain))?;
    validity(leaf)
}

fn fault(error: &rustls::Error, domain: &str) -> CertificateFault {
    let rustls::Error::InvalidCertificate(reason) = error else {
        return CertificateFault::other(error);
    };
    match reason {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            CertificateFault::Name(domain.to_owned())
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => CertificateFault::Time,
        CertificateError::UnknownIssuer | CertificateError::BadSignature => CertificateFault::Chain,
        _ => CertificateFault::other(error),
    }
}

fn validity(leaf: &CertificateDer<'_>) -> Result<Validity, CertificateFault> {
    let certificate = Certificate::from_der(leaf).map_err(|error| CertificateFault::other(&error))?;
    let validity = certificate.tbs_certificate().validity();
    Ok(Validity::new(
        validity.not_before.to_unix_duration(),
        validity.not_after.to_unix_duration(),
    ))
}
