//! TLS of the gateway: version 1.3, a certificate by name, client certificates without a question to anybody.
//!
//! A client that asks for the public name, where there is a public certificate, is shown that one and shows none
//! itself. Every other client is shown the provider's own certificate, which the chain vouches for, and may show
//! its own. Both can be replaced while connections are open; those keep what they have.

mod client;

use akash_provider_chain::cert::{CertError, OwnCertificate};
use akash_provider_chain::regular_file;
use client::OnChain;
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

use super::auth::Clock;
use super::listen::Protocol;

/// True when a handshake takes this for the certificate of a client.
#[cfg(feature = "fuzzing")]
pub(super) fn client_certificate(der: &[u8], clock: &Clock) -> bool {
    use rustls::server::danger::ClientCertVerifier;
    let verifier = OnChain::new(&ring::default_provider(), clock.clone());
    let now = rustls::pki_types::UnixTime::since_unix_epoch(clock.now());
    verifier
        .verify_client_cert(&CertificateDer::from(der), &[], now)
        .is_ok()
}

/// The answer of a verifier to a signature of TLS 1.2, which neither side speaks.
///
/// # Errors
/// Always.
pub fn no_tls12() -> Result<HandshakeSignatureValid, rustls::Error> {
    Err(rustls::Error::PeerIncompatible(
        PeerIncompatible::ServerDoesNotSupportTls12Or13,
    ))
}

/// Largest file of a certificate or key that is read.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The provider's own certificate.
    #[error("the provider's own certificate")]
    Own(#[from] CertError),
    /// A file that cannot be read, is too large, or holds no usable PEM.
    #[error("{file}: {why}")]
    File {
        /// Path of the file, as it was given.
        file: String,
        /// What is wrong with it, in words of the system or the parser.
        why: String,
    },
    /// The library refuses, mostly because key and certificate do not belong together.
    #[error("TLS")]
    Library(#[from] rustls::Error),
}

/// What the gateway shows, whichever protocol is spoken.
#[derive(Debug)]
pub struct Tls {
    clock: Clock,
    provider: Arc<CryptoProvider>,
    shown: RwLock<Shown>,
}

#[derive(Debug, Clone)]
struct Shown {
    own: Config,
    public: Option<(Arc<str>, Config)>,
}

/// One certificate for each protocol.
#[derive(Debug, Clone)]
struct Config {
    /// Offers no protocol, so that no client takes it for HTTP/2.
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
    /// Shows the provider's own certificate.
    ///
    /// # Errors
    /// The certificate cannot be used.
    pub fn new(own: &OwnCertificate, clock: Clock) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let shown = Shown {
            own: own_config(&provider, own, &clock)?,
            public: None,
        };
        Ok(Self {
            clock,
            provider,
            shown: RwLock::new(shown),
        })
    }

    /// Shows another certificate of the provider's own from now on.
    ///
    /// # Errors
    /// It cannot be used; the one before stays.
    pub fn set_own(&self, own: &OwnCertificate) -> Result<(), TlsError> {
        let config = own_config(&self.provider, own, &self.clock)?;
        self.change(|shown| shown.own = config);
        Ok(())
    }

    /// Shows a public certificate from now on to whoever asks for that name.
    ///
    /// # Errors
    /// The files cannot be used; the certificate before stays.
    pub fn set_public(&self, name: &str, certificate: &Path, key: &Path) -> Result<(), TlsError> {
        let chain = read_chain(certificate)?;
        // A path that was mistaken for a log or a device is not read into memory whole.
        check_size(key)?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|e| file_error(key, e))?;
        let config = builder(&self.provider)?.with_no_client_auth();
        let config = Config::from(config.with_single_cert(chain, private)?);
        // Everything that can fail is behind us: chain and key change together, under one lock, or not at all.
        let name: Arc<str> = name.to_ascii_lowercase().into();
        self.change(|shown| shown.public = Some((name, config)));
        Ok(())
    }

    /// What a client is shown that asks for a name, or for none.
    pub(super) fn config_for(&self, hello: &ClientHello<'_>, protocol: Protocol) -> Arc<ServerConfig> {
        let shown = self.shown.read().unwrap_or_else(PoisonError::into_inner);
        let config = match (&shown.public, hello.server_name()) {
            (Some((public, config)), Some(name)) if name.eq_ignore_ascii_case(public) => config,
            _ => &shown.own,
        };
        match protocol {
            Protocol::Http1 => Arc::clone(&config.http1),
            Protocol::Http2 => Arc::clone(&config.http2),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Shown)) {
        change(&mut self.shown.write().unwrap_or_else(PoisonError::into_inner));
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
    let shown = SingleCertAndKey::from(CertifiedKey::new(chain, key));
    let verifier = OnChain::new(provider, clock.clone());
    let mut config = builder(provider)?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(Arc::new(shown));
    // A resumed session would show no certificate, so a revoked one would go on.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config.into())
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    check_size(path)?;
    let read = CertificateDer::pem_file_iter(path).map_err(|e| file_error(path, e))?;
    let chain: Vec<_> = read.collect::<Result<_, _>>().map_err(|e| file_error(path, e))?;
    if chain.is_empty() {
        return Err(file_error(path, "there is no certificate in it"));
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
