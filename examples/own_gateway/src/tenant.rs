//! Tenant that sends requests to the gateway over the network, like consoles and tools.

use akash_provider_chain::cert;
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::chain::{ChainQuery, MemoryChain};
use akash_provider_core::types::Address;
use akash_provider_gateway::auth::token::{self, Algorithm};
use akash_provider_gateway::tls::no_tls12;
use example_embedded::{Failed, PROVIDER, TENANT};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Maximum size of a response, in bytes.
const ANSWER_MAX: usize = 1 << 20;
/// Lifetime of a token, in seconds.
const TOKEN_FOR: u64 = 3600;

/// Tenant that authenticates with a token.
#[derive(Debug)]
pub struct Caller {
    gateway: SocketAddr,
    tls: Arc<ClientConfig>,
    token: String,
}

/// HTTP status and body of a response.
pub type HttpReply = (u16, String);

impl Caller {
    /// Creates the tenant of the scenario, and stores the tenant's public key on the chain. On a real chain,
    /// the first transaction of an account publishes the key.
    ///
    /// # Errors
    /// The provider has no certificate on the chain.
    pub async fn new(gateway: SocketAddr, chain: &MemoryChain) -> Result<Self, Failed> {
        let published = chain.certificates(&PROVIDER.parse()?, None).await?;
        let valid = published.iter().find(|one| one.valid);
        let pem = &valid.ok_or("the provider has no certificate")?.cert;
        let crypto = Arc::new(ring::default_provider());
        let verifier = PublishedCertVerifier {
            der: cert::decode_pem(pem)?,
            public_key: cert::read(pem)?.public_key,
            algorithms: crypto.signature_verification_algorithms,
        };
        let tls = ClientConfig::builder_with_provider(crypto)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();

        let (tenant, key) = (TENANT.parse::<Address>()?, PrivateKey::from_bytes(&[7; 32])?);
        let public = key.public().as_bytes().to_vec();
        chain.market(|market| market.set_pubkey(&tenant, public));
        let now = UNIX_EPOCH.elapsed()?.as_secs();
        let claims = json!({
            "iss": TENANT, "iat": now, "nbf": now, "exp": now + TOKEN_FOR, "version": "v1",
            "leases": { "access": "full" },
        });
        let token = token::encode(Algorithm::Es256k, &tenant, &claims, |text| key.sign(text));
        Ok(Self {
            gateway,
            tls: Arc::new(tls),
            token,
        })
    }

    /// Returns the request as a `curl` command for a terminal.
    #[must_use]
    pub fn curl(&self, path: &str) -> String {
        format!(
            "curl -sk https://{}{path} -H 'Authorization: Bearer {}'",
            self.gateway, self.token
        )
    }

    /// Sends a request with the token.
    ///
    /// # Errors
    /// The server is not the provider, or does not respond.
    pub async fn get(&self, path: &str) -> Result<HttpReply, Failed> {
        self.send(path, &format!("Bearer {}", self.token)).await
    }

    /// Sends a request without a token.
    ///
    /// # Errors
    /// The errors of [`Caller::get`].
    pub async fn get_anonymously(&self, path: &str) -> Result<HttpReply, Failed> {
        self.send(path, "").await
    }

    async fn send(&self, path: &str, authorization: &str) -> Result<HttpReply, Failed> {
        let tcp = TcpStream::connect(self.gateway).await?;
        let tls = TlsConnector::from(Arc::clone(&self.tls));
        let stream = tls.connect(ServerName::try_from("localhost")?, tcp).await?;
        exchange(stream, path, authorization).await
    }
}

/// Requests a page from a server on this machine, without TLS.
///
/// # Errors
/// The server does not respond.
pub async fn ask(address: SocketAddr, path: &str) -> Result<HttpReply, Failed> {
    exchange(TcpStream::connect(address).await?, path, "").await
}

/// Sends one request on a new connection.
async fn exchange<I>(stream: I, path: &str, authorization: &str) -> Result<HttpReply, Failed>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let mut request = Request::get(path).header("host", "localhost");
    if !authorization.is_empty() {
        request = request.header("authorization", authorization);
    }
    let answer = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
    let status = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await;
    let body = body.map_err(|error| -> Failed { error })?;
    connection.abort();
    Ok((status, String::from_utf8(body.to_bytes().to_vec())?))
}

/// Verifies that the server has the certificate that is published on the chain. Needs no certificate
/// authority.
#[derive(Debug)]
struct PublishedCertVerifier {
    der: Vec<u8>,
    public_key: Vec<u8>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for PublishedCertVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if certificate.as_ref() == self.der {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(
                CertificateError::ApplicationVerificationFailure,
            ))
        }
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
        _: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // Ordinary verifiers refuse the network's certificates, but their keys are ordinary.
        let key = SubjectPublicKeyInfoDer::from(self.public_key.as_slice());
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
