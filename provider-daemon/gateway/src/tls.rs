//! TLS 1.3 of the gateway: selection of the server certificate, and client certificates.
//!
//! A client that connects to the public hostname gets the public certificate, if there is one, and cannot send a client
//! certificate. Every other client gets the provider's own certificate, which is published on the chain, and may send a
//! client certificate. The public certificate and the provider's own certificate can be replaced while connections are
//! open. Open connections continue with the previous certificate.

mod client;

use akash_provider_chain::cert::{CertError, OwnCertificate};
use akash_provider_chain::regular_file;
use client::NetworkCertVerifier;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{ConfigBuilder, PeerIncompatible, ServerConfig, WantsVerifier};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use super::clock::Clock;

/// Application protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1 and websockets.
    Http1,
    /// gRPC: many concurrent calls on one connection.
    Http2,
}

/// Returns true if the gateway accepts the client certificate in the TLS handshake.
#[cfg(feature = "fuzzing")]
pub(super) fn client_certificate(der: &[u8], clock: &Clock) -> bool {
    use rustls::server::danger::ClientCertVerifier;
    let verifier = NetworkCertVerifier::new(&ring::default_provider(), clock.clone());
    let now = rustls::pki_types::UnixTime::since_unix_epoch(clock.now());
    verifier
        .verify_client_cert(&CertificateDer::from(der), &[], now)
        .is_ok()
}

/// Rejects every TLS 1.2 signature, because TLS 1.2 is disabled.
///
/// # Errors
/// Always returns an error.
pub fn no_tls12() -> Result<HandshakeSignatureValid, rustls::Error> {
    Err(rustls::Error::PeerIncompatible(
        PeerIncompatible::ServerDoesNotSupportTls12Or13,
    ))
}

/// Maximum size of a certificate or key file, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Reason why TLS cannot be configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The provider's own certificate cannot be used.
    #[error("cannot use the certificate of the provider")]
    Own(#[from] CertError),
    /// The file is unreadable, too large, or has no usable PEM.
    #[error("{file}: {why}")]
    File {
        /// Configured path of the file.
        file: String,
        /// Error text of the operating system or the parser.
        why: String,
    },
    /// TLS library error, usually because key and certificate do not match.
    #[error("cannot configure TLS with these certificates")]
    Library(#[from] rustls::Error),
}

/// Server certificates of the gateway, for REST and gRPC.
#[derive(Debug)]
pub struct Tls {
    clock: Clock,
    provider: Arc<CryptoProvider>,
    configs: RwLock<ServerConfigs>,
}

#[derive(Debug, Clone)]
struct ServerConfigs {
    own: Config,
    public: Option<(Arc<str>, Config)>,
}

/// TLS configurations of both ports, with the same certificate.
#[derive(Debug, Clone)]
struct Config {
    /// Configuration without ALPN, so that clients do not select HTTP/2.
    http1: Arc<ServerConfig>,
    http2: Arc<ServerConfig>,
}

impl From<ServerConfig> for Config {
    fn from(http1: ServerConfig) -> Self {
        let mut http2 = http1.clone();
        http2.alpn_protocols = vec![b"h2".to_vec()];
        Self {
            http1: Arc::new(http1),
            http2: Arc::new(http2),
        }
    }
}

impl Tls {
    /// Creates the TLS state with the provider's own certificate.
    ///
    /// # Errors
    /// Returns an error if the certificate cannot be used.
    pub fn new(own: &OwnCertificate, clock: Clock) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let configs = ServerConfigs {
            own: own_config(&provider, own, &clock)?,
            public: None,
        };
        Ok(Self {
            clock,
            provider,
            configs: RwLock::new(configs),
        })
    }

    /// Replaces the provider's own certificate for new connections.
    ///
    /// # Errors
    /// Returns an error if the certificate cannot be used. The previous certificate then remains in use.
    pub fn set_own(&self, own: &OwnCertificate) -> Result<(), TlsError> {
        let config = own_config(&self.provider, own, &self.clock)?;
        self.change(|configs| configs.own = config);
        Ok(())
    }

    /// Sets the certificate for connections to the hostname `name`.
    ///
    /// # Errors
    /// Returns an error if the files cannot be used. The previous certificate then remains in use.
    pub fn set_public(&self, name: &str, certificate: &Path, key: &Path) -> Result<(), TlsError> {
        let chain = read_chain(certificate)?;
        // A path of a log or a device, set by mistake, is not read into memory.
        check_size(key)?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|e| file_error(key, e))?;
        let config = builder(&self.provider)?.with_no_client_auth();
        let config = Config::from(config.with_single_cert(chain, private)?);
        // Chain and key change together, under one lock, after everything that can fail.
        let name: Arc<str> = name.to_ascii_lowercase().into();
        self.change(|configs| configs.public = Some((name, config)));
        Ok(())
    }

    /// Returns the TLS configuration for the server name in a client hello.
    pub(super) fn config_for(&self, hello: &ClientHello<'_>, protocol: Protocol) -> Arc<ServerConfig> {
        let configs = self.configs.read().unwrap_or_else(PoisonError::into_inner);
        let config = match (&configs.public, hello.server_name()) {
            (Some((public, config)), Some(name)) if name.eq_ignore_ascii_case(public) => config,
            _ => &configs.own,
        };
        match protocol {
            Protocol::Http1 => Arc::clone(&config.http1),
            Protocol::Http2 => Arc::clone(&config.http2),
        }
    }

    fn change(&self, change: impl FnOnce(&mut ServerConfigs)) {
        change(&mut self.configs.write().unwrap_or_else(PoisonError::into_inner));
    }
}

fn builder(provider: &Arc<CryptoProvider>) -> Result<ConfigBuilder<ServerConfig, WantsVerifier>, TlsError> {
    Ok(ServerConfig::builder_with_provider(Arc::clone(provider)).with_protocol_versions(&[&TLS13])?)
}

fn own_config(
    provider: &Arc<CryptoProvider>,
    own: &OwnCertificate,
    clock: &Clock,
) -> Result<Config, TlsError> {
    let private = own.private_key_der()?;
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(private.to_vec()));
    let key = provider.key_provider.load_private_key(private)?;
    let chain = vec![CertificateDer::from(own.der().to_vec())];
    let configs = SingleCertAndKey::from(CertifiedKey::new(chain, key));
    let verifier = NetworkCertVerifier::new(provider, clock.clone());
    let mut config = builder(provider)?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(Arc::new(configs));
    // A resumed session sends no client certificate, so a revoked one would stay in use.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config.into())
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    check_size(path)?;
    let read = CertificateDer::pem_file_iter(path).map_err(|e| file_error(path, e))?;
    let chain: Vec<_> = read.collect::<Result<_, _>>().map_err(|e| file_error(path, e))?;
    if chain.is_empty() {
        return Err(file_error(path, "no certificate in the file"));
    }
    Ok(chain)
}

fn check_size(path: &Path) -> Result<(), TlsError> {
    let read = regular_file::read(path, FILE_BYTES_MAX);
    read.map(drop).map_err(|e| file_error(path, e))
}

fn file_error(path: &Path, why: impl ToString) -> TlsError {
    TlsError::File {
        file: path.display().to_string(),
        why: why.to_string(),
    }
}
