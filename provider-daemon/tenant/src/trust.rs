//! Verification that a server is the provider.
//!
//! The server presents a certificate of a public CA for its name, or an Akash certificate. An Akash
//! certificate is self-signed, names the account of the provider and is identical to the certificate on the
//! chain. The handshake verifies the form and the validity. Directly after the handshake, and before any data
//! is sent, the certificate is compared with the certificate on the chain.

use super::error::ProviderError;
use akash_provider_chain::Reader;
use akash_provider_chain::cert::{self, CertificateInfo};
use akash_provider_core::chain::{Certificate, ChainQuery};
use akash_provider_core::error::chain_text;
use akash_provider_core::types::Address;
use akash_provider_gateway::tls::no_tls12;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// CA certificates of the system, or from `SSL_CERT_FILE`.
#[derive(Debug, Clone)]
pub(super) struct CaCertificates(Option<Arc<WebPkiServerVerifier>>);

impl CaCertificates {
    /// Loads the CA certificates. The set may be empty, because most providers use self-signed certificates.
    pub(super) fn from_system(provider: &Arc<CryptoProvider>) -> Self {
        let mut roots = RootCertStore::empty();
        // An invalid certificate does not prevent the others from being trusted.
        let (_, ignored) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if ignored > 0 {
            tracing::debug!(ignored, "invalid CA certificates of the system");
        }
        let built =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build();
        Self(
            built
                .inspect_err(|error| tracing::debug!(%error, "no public CA certificates"))
                .ok(),
        )
    }
}

/// Kind of server certificate in the handshake.
#[derive(Debug, Clone)]
enum ServerIdentity {
    /// Certificate of a public CA.
    PublicCa,
    /// Self-signed Akash certificate, which must match the certificate on the chain.
    SelfSigned(Box<CertificateInfo>, Vec<u8>),
}

/// Certificate verifier of one connection.
#[derive(Debug)]
pub(super) struct ServerVerifier {
    ca_certificates: CaCertificates,
    algorithms: WebPkiSupportedAlgorithms,
    identity: OnceLock<ServerIdentity>,
}

impl ServerVerifier {
    pub(super) fn new(ca_certificates: &CaCertificates, provider: &CryptoProvider) -> Self {
        Self {
            ca_certificates: ca_certificates.clone(),
            algorithms: provider.signature_verification_algorithms,
            identity: OnceLock::new(),
        }
    }

    /// Compares the server's self-signed certificate with the certificate on the chain.
    ///
    /// # Errors
    /// Returns an error if the server is not the provider, or if the chain query fails.
    pub(super) async fn confirm(
        &self,
        at: &str,
        provider: &Address,
        chain: Option<&Reader>,
    ) -> Result<(), ProviderError> {
        let unverified = |why: String| ProviderError::Unverified {
            at: at.to_owned(),
            why,
        };
        let (facts, der) = match self.identity.get() {
            Some(ServerIdentity::PublicCa) => return Ok(()),
            Some(ServerIdentity::SelfSigned(facts, der)) => (facts, der),
            None => return Err(unverified("the server presented no certificate".to_owned())),
        };
        // Any account can publish a certificate, so the owner must be this provider.
        if facts.owner != *provider {
            return Err(unverified(format!(
                "the certificate belongs to {}, not to {provider}",
                facts.owner
            )));
        }
        let Some(chain) = chain else {
            return Err(unverified(
                "the certificate is self-signed, and its verification on the chain requires a connection without --offline"
                    .to_owned(),
            ));
        };
        let found = chain.certificates(provider, Some(&facts.serial)).await;
        let found = found.map_err(|source| ProviderError::Chain {
            at: at.to_owned(),
            source,
        })?;
        check_published(&facts.serial, der, found.first()).map_err(unverified)
    }

    fn verify_self_signed(
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: Duration,
    ) -> Option<Result<ServerIdentity, Error>> {
        // Akash certificates are self-signed. Certificate chains are verified with the CA certificates only.
        if !intermediates.is_empty() {
            return None;
        }
        // Other certificates are verified with the CA certificates only.
        let facts = cert::read_der(end_entity).ok()?;
        let refused = |why| Some(Err(Error::InvalidCertificate(why)));
        if now < facts.not_before {
            return refused(CertificateError::NotValidYet);
        }
        if now > facts.not_after {
            return refused(CertificateError::Expired);
        }
        if !facts.server {
            return refused(CertificateError::InvalidPurpose);
        }
        Some(Ok(ServerIdentity::SelfSigned(
            Box::new(facts),
            end_entity.to_vec(),
        )))
    }
}

/// Returns an error with the reason if the certificate differs from the one on the chain.
fn check_published(serial: &str, der: &[u8], found: Option<&Certificate>) -> Result<(), String> {
    let Some(found) = found else {
        return Err(format!("certificate {serial} is not on the chain"));
    };
    if !found.valid {
        return Err(format!("certificate {serial} is revoked on the chain"));
    }
    match cert::decode_pem(&found.cert) {
        // The bytes are compared, because serial and name can be copied into a certificate with another key.
        Ok(published) if published == der => Ok(()),
        Ok(_) => Err(format!("certificate {serial} differs from the one on the chain")),
        Err(error) => Err(format!(
            "invalid certificate {serial} on the chain: {}",
            chain_text(&error)
        )),
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // Public CAs first: such a certificate needs no chain query.
        let verified = match &self.ca_certificates.0 {
            Some(public) => public.verify_server_cert(end_entity, intermediates, name, ocsp, now),
            None => Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)),
        };
        let identity = match verified {
            Ok(_) => ServerIdentity::PublicCa,
            Err(error) => {
                let since_epoch = Duration::from_secs(now.as_secs());
                // If the certificate is not an Akash certificate, the error of the CA verification is returned.
                Self::verify_self_signed(end_entity, intermediates, since_epoch).unwrap_or(Err(error))?
            }
        };
        // A connection has one handshake, so the cell is empty.
        drop(self.identity.set(identity));
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.identity.get() {
            // The standard verifiers reject Akash certificates, so the signature is verified with the key of the
            // certificate.
            Some(ServerIdentity::SelfSigned(facts, _)) => {
                let key = SubjectPublicKeyInfoDer::from(facts.public_key.as_slice());
                verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
            }
            _ => verify_tls13_signature(message, certificate, signature, &self.algorithms),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_chain::cert::{CertUsage, OwnCertificate};

    const PROVIDER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

    fn made(usage: &CertUsage, seconds: u64) -> OwnCertificate {
        OwnCertificate::make(&PROVIDER.parse().unwrap(), usage, Duration::from_secs(seconds)).unwrap()
    }

    fn server(seconds: u64) -> OwnCertificate {
        let domains = vec!["localhost".to_owned()];
        made(&CertUsage::Server { domains }, seconds)
    }

    fn published(own: &OwnCertificate, valid: bool) -> Certificate {
        Certificate {
            serial: own.info().serial.clone(),
            valid,
            cert: own.cert_pem().into_bytes(),
            pubkey: own.public_key_pem().into_bytes(),
        }
    }

    fn verified(der: &[u8], seconds: u64) -> Option<Result<ServerIdentity, Error>> {
        ServerVerifier::verify_self_signed(&CertificateDer::from(der), &[], Duration::from_secs(seconds))
    }

    #[test]
    fn requires_a_valid_server_certificate() {
        let own = server(1_700_000_000);
        assert!(matches!(
            verified(own.der(), 1_700_000_001),
            Some(Ok(ServerIdentity::SelfSigned(..)))
        ));
        let refused = |der: &[u8], at| match verified(der, at) {
            Some(Err(Error::InvalidCertificate(why))) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused(own.der(), 1_600_000_000), CertificateError::NotValidYet);
        assert_eq!(refused(own.der(), 1_800_000_000), CertificateError::Expired);
        let client = made(&CertUsage::Client, 1_700_000_000);
        assert_eq!(
            refused(client.der(), 1_700_000_001),
            CertificateError::InvalidPurpose
        );
        // Other certificates are verified with CA certificates only.
        assert!(verified(b"nonsense", 1_700_000_001).is_none());
    }

    #[test]
    fn requires_the_same_unrevoked_certificate_on_the_chain() {
        let (own, other) = (server(1_700_000_000), server(1_700_000_001));
        let serial = &own.info().serial;
        let check = |found: Option<Certificate>| check_published(serial, own.der(), found.as_ref());
        assert_eq!(check(Some(published(&own, true))), Ok(()));
        assert!(check(None).unwrap_err().contains("not on the chain"));
        assert!(
            check(Some(published(&own, false)))
                .unwrap_err()
                .contains("revoked")
        );
        assert!(
            check(Some(published(&other, true)))
                .unwrap_err()
                .contains("differs from")
        );
    }

    #[tokio::test]
    async fn rejects_certificates_of_other_accounts_and_unknown_certificates() {
        let crypto = rustls::crypto::ring::default_provider();
        let judge = ServerVerifier::new(&CaCertificates(None), &crypto);
        let own = server(1_700_000_000);
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_700_000_001));
        let name = ServerName::try_from("localhost").unwrap();
        let der = CertificateDer::from(own.der().to_vec());
        judge.verify_server_cert(&der, &[], &name, &[], now).unwrap();
        let other: Address = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla".parse().unwrap();
        let why = |result: Result<(), ProviderError>| result.unwrap_err().to_string();
        let text = why(judge.confirm("https://p", &other, None).await);
        assert!(
            text.contains(&format!("belongs to {PROVIDER}, not to {other}")),
            "{text}"
        );
        let text = why(judge.confirm("https://p", &PROVIDER.parse().unwrap(), None).await);
        assert!(text.contains("--offline"), "{text}");
    }
}
