//! Responses to challenges. The listeners exist only during an order.

use super::error::AcmeError;
use crate::operators::serve;
use axum::Router;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{StatusCode, Uri};
use instant_acme::{ChallengeType, KeyAuthorization};
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Maximum duration of a connection for a TLS-ALPN-01 challenge.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Application protocol of TLS-ALPN-01 (RFC 8737).
const ACME_TLS: &[u8] = b"acme-tls/1";

/// Listeners for challenges.
#[derive(Debug, Clone)]
pub(super) struct ChallengePorts {
    address: IpAddr,
    /// Port for HTTP-01 challenges; 0 disables them.
    http: u16,
    /// Port for TLS-ALPN-01 challenges; 0 disables them.
    tls: u16,
}

impl ChallengePorts {
    pub(super) const fn new(address: IpAddr, http: u16, tls: u16) -> Self {
        Self { address, http, tls }
    }

    /// Returns the challenge to respond to, as the Go provider selects it: TLS-ALPN-01 before HTTP-01.
    pub(super) fn select<'a>(
        &self,
        offered: impl Iterator<Item = &'a ChallengeType> + Clone,
    ) -> Option<(ChallengeType, SocketAddr)> {
        let known = [
            (ChallengeType::TlsAlpn01, self.tls),
            (ChallengeType::Http01, self.http),
        ];
        let mut known = known.into_iter().filter(|(_, port)| *port != 0);
        let (kind, port) = known.find(|(kind, _)| offered.clone().any(|offer| offer == kind))?;
        Some((kind, SocketAddr::new(self.address, port)))
    }
}

/// Values of one challenge.
#[derive(Debug)]
pub(super) struct Challenge {
    pub(super) kind: ChallengeType,
    pub(super) domain: String,
    pub(super) token: String,
    pub(super) response: KeyAuthorization,
}

impl Challenge {
    /// Listens on `address`. The returned future serves the response until it is dropped.
    pub(super) async fn listen(self, address: SocketAddr) -> Result<BoxFuture<'static, ()>, AcmeError> {
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|why| AcmeError::Listen { address, why })?;
        match self.kind {
            ChallengeType::TlsAlpn01 => {
                let acceptor = TlsAcceptor::from(Arc::new(self.tls_config().map_err(AcmeError::Tls)?));
                let answer = move |stream, _| handshake(acceptor.clone(), stream);
                Ok(serve::take(listener, answer, CancellationToken::new()).boxed())
            }
            _ => Ok(serve::serve(listener, self.http_router(), CancellationToken::new()).boxed()),
        }
    }

    fn http_router(self) -> Router {
        let path = format!("/.well-known/acme-challenge/{}", self.token);
        let response = self.response.as_str().to_owned();
        Router::new().fallback(async move |uri: Uri| {
            if uri.path() == path {
                (StatusCode::OK, response)
            } else {
                (StatusCode::NOT_FOUND, String::new())
            }
        })
    }

    /// Returns a TLS server with the certificate that proves control of the hostname (RFC 8737).
    fn tls_config(&self) -> Result<ServerConfig, String> {
        let certificate = || {
            let key = KeyPair::generate()?;
            let mut params = CertificateParams::new([self.domain.clone()])?;
            let digest = self.response.digest();
            params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest.as_ref())];
            Ok((params.self_signed(&key)?, key))
        };
        let (certificate, key) = certificate().map_err(|error: rcgen::Error| error.to_string())?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(ring::default_provider());
        let key = provider.key_provider.load_private_key(key);
        let key = key.map_err(|error| error.to_string())?;
        // Built without a check of the certificate, which would refuse the critical extension of RFC 8737.
        let resolver = SingleCertAndKey::from(CertifiedKey::new(vec![certificate.der().clone()], key));
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| error.to_string())?.with_no_client_auth();
        let mut config = builder.with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = vec![ACME_TLS.to_vec()];
        Ok(config)
    }
}

async fn handshake(acceptor: TlsAcceptor, stream: TcpStream) {
    let handshake = async {
        // The handshake is the response. A failed handshake concerns its client only.
        if let Ok(mut stream) = acceptor.accept(stream).await {
            stream.shutdown().await.ok();
        }
    };
    timeout(HANDSHAKE_TIME, handshake).await.ok();
}
