//! Whether the server that answers is the provider.
//!
//! Either a public authority vouches for its name, as for any server, or it shows a certificate of the network's
//! form: signed by itself, of the provider's own account, and the same, byte for byte, as the one on the chain. The
//! handshake judges what needs no question; the chain is asked right after it, before anything is said.

use super::trouble::{Trouble, with_causes};
use akash_provider_chain::Reader;
use akash_provider_chain::cert::{self, CertificateInfo};
use akash_provider_core::chain::{Certificate, ChainQuery};
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

/// The authorities that the system trusts, or those of the file that `SSL_CERT_FILE` names.
#[derive(Debug, Clone)]
pub(super) struct Authorities(Option<Arc<WebPkiServerVerifier>>);

impl Authorities {
    /// Reads them; there may be none, for the chain vouches for most providers.
    pub(super) fn of_system(provider: &Arc<CryptoProvider>) -> Self {
        let mut roots = RootCertStore::empty();
        // One that cannot be read keeps none of the others from being trusted.
        let (_, ignored) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if ignored > 0 {
            tracing::debug!("{ignored} certificates of the system's authorities cannot be read");
        }
        let built =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build();
        Self(
            built
                .inspect_err(|error| tracing::debug!("no public authorities: {error}"))
                .ok(),
        )
    }
}

/// What the handshake has shown.
#[derive(Debug, Clone)]
enum Shown {
    /// A public authority vouches for it.
    Vouched,
    /// The chain must be asked.
    Own(Box<CertificateInfo>, Vec<u8>),
}

/// The judge of one connection.
#[derive(Debug)]
pub(super) struct Judge {
    authorities: Authorities,
    algorithms: WebPkiSupportedAlgorithms,
    shown: OnceLock<Shown>,
}

impl Judge {
    pub(super) fn new(authorities: &Authorities, provider: &CryptoProvider) -> Self {
        Self {
            authorities: authorities.clone(),
            algorithms: provider.signature_verification_algorithms,
            shown: OnceLock::new(),
        }
    }

    /// After the handshake: asks the chain where it must be asked.
    ///
    /// # Errors
    /// It is somebody else, or the chain cannot be asked.
    pub(super) async fn confirm(
        &self,
        at: &str,
        provider: &Address,
        chain: Option<&Reader>,
    ) -> Result<(), Trouble> {
        let stranger = |why: String| Trouble::Stranger {
            at: at.to_owned(),
            why,
        };
        let (facts, der) = match self.shown.get() {
            Some(Shown::Vouched) => return Ok(()),
            Some(Shown::Own(facts, der)) => (facts, der),
            None => return Err(stranger("it showed no certificate".to_owned())),
        };
        // Anybody can put a certificate of his own on the chain, so it must be this account's.
        if facts.owner != *provider {
            return Err(stranger(format!(
                "its certificate is that of {}, not of {provider}",
                facts.owner
            )));
        }
        let Some(chain) = chain else {
            return Err(stranger(
                "its certificate is its own, for which the chain alone vouches: leave out --offline"
                    .to_owned(),
            ));
        };
        let found = chain.certificates(provider, Some(&facts.serial)).await;
        let found = found.map_err(|source| Trouble::Chain {
            at: at.to_owned(),
            source,
        })?;
        is_published(&facts.serial, der, found.first()).map_err(stranger)
    }

    fn judge_own(
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: Duration,
    ) -> Option<Result<Shown, Error>> {
        // The network's certificates sign themselves. A chain of them is a matter for the authorities.
        if !intermediates.is_empty() {
            return None;
        }
        // A certificate of any other form was a matter for the authorities.
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
        Some(Ok(Shown::Own(Box::new(facts), end_entity.to_vec())))
    }
}

/// Says why a certificate is not the one on the chain.
fn is_published(serial: &str, der: &[u8], found: Option<&Certificate>) -> Result<(), String> {
    let Some(found) = found else {
        return Err(format!("its certificate {serial} is not on the chain"));
    };
    if !found.valid {
        return Err(format!("its certificate {serial} is revoked"));
    }
    match cert::decode_pem(&found.cert) {
        // The bytes and not serial and name: those can be copied into a certificate with another key.
        Ok(published) if published == der => Ok(()),
        Ok(_) => Err(format!("certificate {serial} on the chain is another one")),
        Err(error) => Err(format!(
            "certificate {serial} on the chain: {}",
            with_causes(&error)
        )),
    }
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // Authorities first: who has a public certificate costs no question to the chain, and works without one.
        let vouched = match &self.authorities.0 {
            Some(public) => public.verify_server_cert(end_entity, intermediates, name, ocsp, now),
            None => Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)),
        };
        let shown = match vouched {
            Ok(_) => Shown::Vouched,
            Err(error) => {
                let since_epoch = Duration::from_secs(now.as_secs());
                // Where it is none of the network's either, the reason of the authorities is the one to tell.
                Self::judge_own(end_entity, intermediates, since_epoch).unwrap_or(Err(error))?
            }
        };
        // A connection has one handshake, so there is nothing yet.
        drop(self.shown.set(shown));
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
        match self.shown.get() {
            // Ordinary verifiers do not take the network's certificates; their keys are ordinary.
            Some(Shown::Own(facts, _)) => {
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
    use akash_provider_chain::cert::{OwnCertificate, Usage};

    const PROVIDER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

    fn made(usage: &Usage, seconds: u64) -> OwnCertificate {
        OwnCertificate::make(&PROVIDER.parse().unwrap(), usage, Duration::from_secs(seconds)).unwrap()
    }

    fn server(seconds: u64) -> OwnCertificate {
        let domains = vec!["localhost".to_owned()];
        made(&Usage::Server { domains }, seconds)
    }

    fn published(own: &OwnCertificate, valid: bool) -> Certificate {
        Certificate {
            serial: own.info().serial.clone(),
            valid,
            cert: own.cert_pem().into_bytes(),
            pubkey: own.public_key_pem().into_bytes(),
        }
    }

    fn judged(der: &[u8], seconds: u64) -> Option<Result<Shown, Error>> {
        Judge::judge_own(&CertificateDer::from(der), &[], Duration::from_secs(seconds))
    }

    #[test]
    fn a_certificate_of_its_own_must_be_in_its_time_and_for_servers() {
        let own = server(1_700_000_000);
        assert!(matches!(
            judged(own.der(), 1_700_000_001),
            Some(Ok(Shown::Own(..)))
        ));
        let refused = |der: &[u8], at| match judged(der, at) {
            Some(Err(Error::InvalidCertificate(why))) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused(own.der(), 1_600_000_000), CertificateError::NotValidYet);
        assert_eq!(refused(own.der(), 1_800_000_000), CertificateError::Expired);
        let client = made(&Usage::Client, 1_700_000_000);
        assert_eq!(
            refused(client.der(), 1_700_000_001),
            CertificateError::InvalidPurpose
        );
        // What is none of the network's is for the authorities alone.
        assert!(judged(b"nonsense", 1_700_000_001).is_none());
    }

    #[test]
    fn the_chain_must_have_the_same_certificate_and_not_revoked() {
        let (own, other) = (server(1_700_000_000), server(1_700_000_001));
        let serial = &own.info().serial;
        let check = |found: Option<Certificate>| is_published(serial, own.der(), found.as_ref());
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
                .contains("another one")
        );
    }

    #[tokio::test]
    async fn another_account_s_certificate_and_one_that_nobody_can_look_up_are_refused() {
        let crypto = rustls::crypto::ring::default_provider();
        let judge = Judge::new(&Authorities(None), &crypto);
        let own = server(1_700_000_000);
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_700_000_001));
        let name = ServerName::try_from("localhost").unwrap();
        let der = CertificateDer::from(own.der().to_vec());
        judge.verify_server_cert(&der, &[], &name, &[], now).unwrap();
        let other: Address = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla".parse().unwrap();
        let why = |result: Result<(), Trouble>| result.unwrap_err().to_string();
        let text = why(judge.confirm("https://p", &other, None).await);
        assert!(
            text.contains(&format!("that of {PROVIDER}, not of {other}")),
            "{text}"
        );
        let text = why(judge.confirm("https://p", &PROVIDER.parse().unwrap(), None).await);
        assert!(text.contains("--offline"), "{text}");
    }
}
