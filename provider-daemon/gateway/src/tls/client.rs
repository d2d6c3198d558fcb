//! Client certificates in the handshake: checks that need no chain query.
//!
//! Akash certificates are self-signed with the usage "key encipherment", so ordinary verifiers refuse them. This
//! verifier checks the format, the validity period, the purpose and the possession of the key. After the handshake, a
//! chain query checks that the certificate is published and not revoked.

use crate::clock::Clock;
use akash_provider_chain::cert;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};
use std::sync::Arc;

/// Verifier for the format of client certificates. The gateway looks up the certificate on the chain later.
#[derive(Debug)]
pub(super) struct NetworkCertVerifier {
    algorithms: WebPkiSupportedAlgorithms,
    clock: Clock,
}

impl NetworkCertVerifier {
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

fn facts(der: &CertificateDer<'_>) -> Result<cert::CertificateInfo, Error> {
    cert::read_der(der).map_err(|e| refused(CertificateError::Other(OtherError(Arc::new(e)))))
}

impl ClientCertVerifier for NetworkCertVerifier {
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
        // The network's certificates are self-signed. An unauthenticated client must not choose more parsing work.
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
