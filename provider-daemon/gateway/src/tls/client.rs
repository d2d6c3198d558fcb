//! Client certificates in the handshake: what can be judged without asking anybody.
//!
//! The network's certificates are signed by themselves and say "key encipherment", so ordinary verifiers refuse
//! them. Here one certificate, of the network's form, in its time, for clients, with its key at hand: the chain is
//! asked after the handshake whether it is published and not revoked.

use crate::auth::Clock;
use akash_provider_chain::cert;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};
use std::sync::Arc;

/// Verifies a client certificate as far as its bytes allow; whether the chain knows it is asked after the handshake.
#[derive(Debug)]
pub(super) struct OnChain {
    algorithms: WebPkiSupportedAlgorithms,
    clock: Clock,
}

impl OnChain {
    pub(super) fn new(provider: &CryptoProvider, clock: Clock) -> Self {
        Self {
            algorithms: provider.signature_verification_algorithms,
            clock,
        }
    }
}

fn refused(why: CertificateError) -> Error {
    Error::InvalidCertificate(why)
}

fn facts(der: &CertificateDer<'_>) -> Result<cert::Facts, Error> {
    cert::read_der(der).map_err(|e| refused(CertificateError::Other(OtherError(Arc::new(e)))))
}

impl ClientCertVerifier for OnChain {
    // No authorities are named: every tenant is its own, and some clients send no certificate when none of theirs
    // matches the list.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        // The network's certificates sign themselves. More of them is parsing work that a stranger chooses.
        if !intermediates.is_empty() {
            return Err(refused(CertificateError::ApplicationVerificationFailure));
        }
        let facts = facts(end_entity)?;
        let now = self.clock.now();
        if now < facts.not_before {
            return Err(refused(CertificateError::NotValidYet));
        }
        if now > facts.not_after {
            return Err(refused(CertificateError::Expired));
        }
        if !facts.client {
            return Err(refused(CertificateError::InvalidPurpose));
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        super::no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(facts(certificate)?.public_key);
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        // The only kind of key the network's certificates have.
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}
