//! HTTP client for one provider. As in the Go provider, each request has a separate connection.
//!
//! The client does not follow redirects, because a token is meant for this provider only.

use super::auth::{AuthMethod, TenantCredentials};
use super::error::{ErrorResponse, ProviderError};
use super::stream::Stream;
use super::trust::{CaCertificates, ServerVerifier};
use akash_provider_chain::Reader;
use akash_provider_cli::error::WithHelp;
use akash_provider_core::error::chain_text;
use akash_provider_core::types::Address;
use akash_provider_gateway::auth::Scope;
use anyhow::{Context, bail};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{ClientConfig, client::Resumption};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::{Host, Position, Url};

/// Time limit for connecting with TLS. Chain queries during the handshake have a separate timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum response time. A provider can query its cluster for 30 seconds.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum response time for a manifest. A provider can take two minutes to process a manifest.
const MANIFEST_TIMEOUT: Duration = Duration::from_secs(150);
/// Maximum size of a response, in bytes.
const RESPONSE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Content type of JSON request bodies, as sent by the Go provider's tenant commands.
const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=UTF-8");
const AGENT: HeaderValue = HeaderValue::from_static(concat!("provider-daemon/", env!("CARGO_PKG_VERSION")));

/// Request to a provider, without address and credentials.
#[derive(Debug, Clone)]
pub(super) struct ProviderRequest<'a> {
    pub(super) method: Method,
    /// Path segments, appended to the provider's URL.
    pub(super) path: &'a [&'a str],
    pub(super) query: &'a [(String, String)],
    pub(super) body: Bytes,
    /// Permission that the token needs.
    pub(super) scope: Scope,
    /// Accepted media type of the response; `None` for any.
    pub(super) accept: Option<&'static str>,
}

impl<'a> ProviderRequest<'a> {
    /// Creates a `GET` request without query and body.
    pub(super) const fn get(path: &'a [&'a str], scope: Scope) -> Self {
        Self {
            method: Method::GET,
            path,
            query: &[],
            body: Bytes::new(),
            scope,
            accept: None,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Client {
    provider: Address,
    base: Url,
    credentials: TenantCredentials,
    ca_certificates: CaCertificates,
    crypto: Arc<CryptoProvider>,
    chain: Option<Reader>,
}

type RequestSender = SendRequest<Full<Bytes>>;

impl Client {
    /// Creates a client for a provider at `address`.
    ///
    /// # Errors
    /// Returns an error if the address is invalid.
    pub(super) fn new(
        provider: Address,
        address: &str,
        credentials: TenantCredentials,
        chain: Option<Reader>,
    ) -> anyhow::Result<Self> {
        let crypto = Arc::new(ring::default_provider());
        Ok(Self {
            base: base(address).with_context(|| format!("invalid address of provider {provider}"))?,
            provider,
            credentials,
            ca_certificates: CaCertificates::from_system(&crypto),
            crypto,
            chain,
        })
    }

    /// Returns the URL of the provider's gateway, for error messages.
    pub(super) fn at(&self) -> String {
        self.base.as_str().trim_end_matches('/').to_owned()
    }

    fn auth_method(&self) -> AuthMethod {
        self.credentials.method()
    }

    /// Sends a request and returns the response body.
    ///
    /// # Errors
    /// Returns an error if no response arrives, or for a status other than 200.
    pub(super) async fn send(&self, request: ProviderRequest<'_>) -> Result<Bytes, ProviderError> {
        let is_manifest = request.method == Method::PUT;
        let limit = if is_manifest {
            MANIFEST_TIMEOUT
        } else {
            RESPONSE_TIMEOUT
        };
        // The token is created and sent only after the server has been verified as the provider.
        let mut sender = self.connect().await?;
        let request = self.http_request(&request, HeaderMap::new())?;
        // The timeout covers the body too: a server may start a response and never finish it.
        let answer = async {
            let response = sender
                .send_request(request)
                .await
                .map_err(|e| self.interrupted(&e))?;
            let status = response.status();
            Ok((status, self.body(response).await?))
        };
        let (status, body) = timeout(limit, answer)
            .await
            .map_err(|_| self.timed_out(limit))??;
        if status == StatusCode::OK {
            return Ok(body);
        }
        Err(self.error_response(status, &body))
    }

    /// Opens a websocket.
    ///
    /// # Errors
    /// Returns an error if the provider does not open the websocket.
    pub(super) async fn open(&self, request: ProviderRequest<'_>) -> Result<Stream, ProviderError> {
        let (headers, accept) = Stream::handshake();
        let mut sender = self.connect().await?;
        let request = self.http_request(&request, headers)?;
        let opened = async {
            let mut response = sender
                .send_request(request)
                .await
                .map_err(|e| self.interrupted(&e))?;
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                let status = response.status();
                return Err(self.error_response(status, &self.body(response).await?));
            }
            // Proves that the server understood this handshake and did not replay another response.
            if response.headers().get("sec-websocket-accept") != Some(&accept) {
                return Err(self.invalid("the accept header does not match the websocket handshake"));
            }
            hyper::upgrade::on(&mut response)
                .await
                .map_err(|e| self.interrupted(&e))
        };
        let io = timeout(RESPONSE_TIMEOUT, opened).await;
        let io = io.map_err(|_| self.timed_out(RESPONSE_TIMEOUT))??;
        Ok(Stream::new(io, self.at(), self.auth_method()).await)
    }

    /// Connects to the provider and verifies its certificate.
    async fn connect(&self) -> Result<RequestSender, ProviderError> {
        let verifier = Arc::new(ServerVerifier::new(&self.ca_certificates, &self.crypto));
        let connecting = async {
            let unreachable = |why: String| ProviderError::Unreachable { at: self.at(), why };
            let tcp = self.dial().await.map_err(|e| unreachable(e.to_string()))?;
            // Key presses in a shell are small and must be sent without delay.
            tcp.set_nodelay(true).map_err(|e| unreachable(e.to_string()))?;
            let connector = TlsConnector::from(Arc::new(self.config(Arc::clone(&verifier))?));
            let name = self.server_name()?;
            connector
                .connect(name, tcp)
                .await
                .map_err(|e| self.handshake_failed(&e))
        };
        let tls = timeout(CONNECT_TIMEOUT, connecting).await;
        let tls = tls.map_err(|_| self.timed_out(CONNECT_TIMEOUT))??;
        verifier
            .confirm(&self.at(), &self.provider, self.chain.as_ref())
            .await?;
        let (sender, connection) = http1::handshake(TokioIo::new(tls))
            .await
            .map_err(|e| self.interrupted(&e))?;
        // The task ends with the response, or with the websocket that takes over the connection.
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(error = chain_text(&error), "connection to provider failed");
            }
        });
        Ok(sender)
    }

    async fn dial(&self) -> std::io::Result<TcpStream> {
        let port = self.base.port_or_known_default().unwrap_or(443);
        match self.base.host() {
            Some(Host::Domain(name)) => TcpStream::connect((name, port)).await,
            Some(Host::Ipv4(ip)) => TcpStream::connect((IpAddr::V4(ip), port)).await,
            Some(Host::Ipv6(ip)) => TcpStream::connect((IpAddr::V6(ip), port)).await,
            None => Err(std::io::Error::other("the address has no host")),
        }
    }

    fn config(&self, verifier: Arc<ServerVerifier>) -> Result<ClientConfig, ProviderError> {
        let invalid = |e: rustls::Error| self.invalid(&e.to_string());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.crypto));
        // TLS 1.3 only: earlier versions send the client certificate in clear text.
        let builder = builder.with_protocol_versions(&[&TLS13]).map_err(invalid)?;
        // The verifier accepts self-signed certificates, which `connect` compares with the chain.
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match &self.credentials {
            TenantCredentials::None | TenantCredentials::Key(_) => builder.with_no_client_auth(),
            TenantCredentials::Certificate(own) => {
                let key = own.private_key_der().map_err(|e| self.invalid(&e.to_string()))?;
                let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.to_vec()));
                let key = self.crypto.key_provider.load_private_key(key).map_err(invalid)?;
                let chain = vec![CertificateDer::from(own.der().to_vec())];
                let resolver = SingleCertAndKey::from(CertifiedKey::new(chain, key));
                builder.with_client_cert_resolver(Arc::new(resolver))
            }
        };
        // A resumed session has no certificate to verify.
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    /// Returns the TLS server name (SNI): the host, or `mtls.HOST` with a client certificate. For
    /// `mtls.HOST`, the provider requests a client certificate.
    fn server_name(&self) -> Result<ServerName<'static>, ProviderError> {
        let name = match (self.base.host(), self.auth_method()) {
            (Some(Host::Ipv4(ip)), _) => return Ok(IpAddr::V4(ip).into()),
            (Some(Host::Ipv6(ip)), _) => return Ok(IpAddr::V6(ip).into()),
            (Some(Host::Domain(name)), AuthMethod::Certificate) => format!("mtls.{name}"),
            (Some(Host::Domain(name)), _) => name.to_owned(),
            (None, _) => String::new(),
        };
        ServerName::try_from(name).map_err(|e| self.invalid(&e.to_string()))
    }

    fn http_request(
        &self,
        request: &ProviderRequest<'_>,
        mut headers: HeaderMap,
    ) -> Result<Request<Full<Bytes>>, ProviderError> {
        let url = self.url(request);
        let host = &url[Position::BeforeHost..Position::AfterPort];
        let mut set = |name, value: &str| -> Result<(), ProviderError> {
            let value = HeaderValue::from_str(value).map_err(|e| self.invalid(&e.to_string()))?;
            headers.insert(name, value);
            Ok(())
        };
        set(HOST, host)?;
        if let Some(token) = self.credentials.token(&self.provider, request.scope) {
            set(AUTHORIZATION, &format!("Bearer {token}"))?;
        }
        headers.insert(USER_AGENT, AGENT);
        if let Some(accept) = request.accept {
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
        }
        if !request.body.is_empty() {
            headers.insert(CONTENT_TYPE, JSON);
        }
        let target = &url[Position::BeforePath..Position::AfterQuery];
        let mut http = Request::new(Full::new(request.body.clone()));
        *http.uri_mut() = target
            .parse()
            .map_err(|e: http::uri::InvalidUri| self.invalid(&e.to_string()))?;
        *http.method_mut() = request.method.clone();
        *http.headers_mut() = headers;
        Ok(http)
    }

    fn url(&self, request: &ProviderRequest<'_>) -> Url {
        let mut url = self.base.clone();
        // The address has a host, so its path can be changed.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(request.path);
        }
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(request.query);
        }
        url
    }

    async fn body(&self, response: Response<Incoming>) -> Result<Bytes, ProviderError> {
        // The response of a third party must not exhaust the memory.
        let body = Limited::new(response.into_body(), RESPONSE_BYTES_MAX)
            .collect()
            .await;
        let body = body.map_err(|e| ProviderError::Interrupted {
            at: self.at(),
            why: chain_text(&*e),
            auth: AuthMethod::None,
        })?;
        Ok(body.to_bytes())
    }

    fn error_response(&self, status: StatusCode, body: &Bytes) -> ProviderError {
        ProviderError::Status(ErrorResponse {
            at: self.at(),
            status: status.as_u16(),
            text: String::from_utf8_lossy(body).into_owned(),
            auth: self.auth_method(),
        })
    }

    pub(super) fn invalid(&self, why: &str) -> ProviderError {
        ProviderError::Invalid {
            at: self.at(),
            why: why.to_owned(),
        }
    }

    fn timed_out(&self, limit: Duration) -> ProviderError {
        ProviderError::Timeout { at: self.at(), limit }
    }

    fn interrupted(&self, error: &hyper::Error) -> ProviderError {
        ProviderError::Interrupted {
            at: self.at(),
            why: chain_text(error),
            auth: self.auth_method(),
        }
    }

    fn handshake_failed(&self, error: &std::io::Error) -> ProviderError {
        let tls = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
        match tls {
            Some(rustls::Error::InvalidCertificate(why)) => ProviderError::Unverified {
                at: self.at(),
                why: format!(
                    "the certificate is neither from a public CA nor a valid Akash certificate ({why})"
                ),
            },
            Some(rustls::Error::InvalidMessage(_)) => ProviderError::Unreachable {
                at: self.at(),
                why: "the port does not serve TLS (possibly plain HTTP)".to_owned(),
            },
            _ => ProviderError::Unreachable {
                at: self.at(),
                why: format!("TLS 1.3 handshake failed: {error}"),
            },
        }
    }
}

/// Parses the URL of a provider's gateway.
fn base(address: &str) -> anyhow::Result<Url> {
    let url = Url::parse(address.trim()).with_context(|| format!("invalid URL `{address}`"))?;
    if url.scheme() != "https" {
        bail!(WithHelp::new(
            format!("invalid URL `{address}`: the scheme is not https"),
            "providers require https, as in https://host:8443"
        ));
    }
    if url.host_str().is_none_or(str::is_empty) {
        bail!(WithHelp::new(
            format!("invalid URL `{address}`: missing host"),
            "add the host, as in https://host:8443"
        ));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_chain::private_key::PrivateKey;

    fn client(address: &str, credentials: TenantCredentials) -> Client {
        let provider = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse().unwrap();
        Client::new(provider, address, credentials, None).unwrap()
    }

    fn target(address: &str, path: &[&str], query: &[(String, String)]) -> String {
        let request = ProviderRequest {
            query,
            ..ProviderRequest::get(path, Scope::Status)
        };
        client(address, TenantCredentials::None).url(&request).to_string()
    }

    #[test]
    fn appends_escaped_paths_to_the_address() {
        let at = "https://p.example:8443";
        assert_eq!(target(at, &["status"], &[]), "https://p.example:8443/status");
        assert_eq!(
            target("https://p.example/a/", &["status"], &[]),
            "https://p.example/a/status"
        );
        let odd = target(at, &["service", "a/b?c", "status"], &[]);
        assert_eq!(odd, "https://p.example:8443/service/a%2Fb%3Fc/status");
        let query = [("cmd0".to_owned(), "echo a&b=c".to_owned())];
        assert_eq!(
            target(at, &["shell"], &query),
            "https://p.example:8443/shell?cmd0=echo+a%26b%3Dc"
        );
    }

    #[test]
    fn requires_https_and_a_host() {
        for bad in [
            "http://p.example:8443",
            "p.example:8443",
            "",
            "https://",
            "wss://p.example",
        ] {
            assert!(base(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sends_a_token_with_the_request_or_another_server_name_with_the_certificate() {
        let key = Arc::new(PrivateKey::from_bytes(&[7; 32]).unwrap());
        let with_key = client("https://p.example:8443", TenantCredentials::Key(key));
        let request = with_key
            .http_request(
                &ProviderRequest::get(&["status"], Scope::Status),
                HeaderMap::new(),
            )
            .unwrap();
        assert_eq!(request.headers()[HOST], "p.example:8443");
        assert!(
            request.headers()[AUTHORIZATION]
                .to_str()
                .unwrap()
                .starts_with("Bearer ey")
        );
        assert_eq!(with_key.server_name().unwrap().to_str(), "p.example");
        let owner = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla".parse().unwrap();
        let usage = akash_provider_chain::cert::CertUsage::Client;
        let own = akash_provider_chain::cert::OwnCertificate::make(&owner, &usage, Duration::from_secs(9));
        let certificate = TenantCredentials::Certificate(Arc::new(own.unwrap()));
        let with_certificate = client("https://p.example:8443", certificate.clone());
        let request = with_certificate.http_request(
            &ProviderRequest::get(&["status"], Scope::Status),
            HeaderMap::new(),
        );
        assert!(!request.unwrap().headers().contains_key(AUTHORIZATION));
        assert_eq!(with_certificate.server_name().unwrap().to_str(), "mtls.p.example");
        assert_eq!(
            client("https://127.0.0.1:8443", certificate)
                .server_name()
                .unwrap()
                .to_str(),
            "127.0.0.1"
        );
    }

    #[test]
    fn reports_the_address_of_an_unreachable_provider() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("https://{}", listener.local_addr().unwrap());
        drop(listener);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let there = client(&address, TenantCredentials::None);
        let asked = runtime.block_on(there.send(ProviderRequest::get(&["status"], Scope::Status)));
        let text = asked.unwrap_err().to_string();
        assert!(text.contains(&address) && text.contains("cannot reach"), "{text}");
    }
}
