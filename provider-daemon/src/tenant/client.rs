//! A provider's address, and requests to it: each on a connection of its own, as today's tool does it.
//!
//! Redirects are not followed: a token is for the provider alone.

use super::auth::{Credentials, Means};
use super::stream::Stream;
use super::trouble::{Answered, Trouble, with_causes};
use super::trust::{Authorities, Judge};
use akash_provider_chain::Reader;
use akash_provider_core::types::Address;
use akash_provider_gateway::auth::Scope;
use anyhow::{Context, bail};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
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

/// Time for a connection, the handshake included. The chain has limits of its own.
const CONNECT_WITHIN: Duration = Duration::from_secs(20);
/// Time for an answer. Providers ask their cluster for half a minute.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Time for the answer to a manifest: providers think about one for two minutes.
const MANIFEST_WITHIN: Duration = Duration::from_secs(150);
/// Largest answer: the status of a provider with thousands of nodes has some hundred kilobytes.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What today's tool says that it sends.
const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=UTF-8");
const AGENT: HeaderValue = HeaderValue::from_static(concat!("provider-daemon/", env!("CARGO_PKG_VERSION")));

/// One request, as yet without an address and without credentials.
#[derive(Debug, Clone)]
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    /// Below the provider's address, part by part.
    pub(super) path: &'a [&'a str],
    pub(super) query: &'a [(String, String)],
    pub(super) body: Bytes,
    /// What a token must allow.
    pub(super) scope: Scope,
}

impl<'a> Ask<'a> {
    /// A `GET` without a query and without a body.
    pub(super) const fn get(path: &'a [&'a str], scope: Scope) -> Self {
        Self {
            method: Method::GET,
            path,
            query: &[],
            body: Bytes::new(),
            scope,
        }
    }
}

/// A provider as its tenant sees it.
#[derive(Debug, Clone)]
pub(super) struct Client {
    provider: Address,
    base: Url,
    credentials: Credentials,
    authorities: Authorities,
    crypto: Arc<CryptoProvider>,
    chain: Option<Reader>,
}

type Sender = SendRequest<Full<Bytes>>;

impl Client {
    /// A provider at an address, as registered or given.
    ///
    /// # Errors
    /// The address is none.
    pub(super) fn new(
        provider: Address,
        address: &str,
        credentials: Credentials,
        chain: Option<Reader>,
    ) -> anyhow::Result<Self> {
        let crypto = Arc::new(ring::default_provider());
        Ok(Self {
            base: base(address).with_context(|| format!("the address of {provider}"))?,
            provider,
            credentials,
            authorities: Authorities::of_system(&crypto),
            crypto,
            chain,
        })
    }

    /// Where it is, for people.
    pub(super) fn at(&self) -> String {
        self.base.as_str().trim_end_matches('/').to_owned()
    }

    fn means(&self) -> Means {
        self.credentials.means()
    }

    /// Asks, and gives the body of the answer.
    ///
    /// # Errors
    /// Anything but 200.
    pub(super) async fn ask(&self, ask: Ask<'_>) -> Result<Bytes, Trouble> {
        let is_manifest = ask.method == Method::PUT;
        let limit = if is_manifest {
            MANIFEST_WITHIN
        } else {
            ANSWER_WITHIN
        };
        // The token is made and sent only after the other end has shown that it is the provider.
        let mut sender = self.connect().await?;
        let request = self.request(&ask, HeaderMap::new())?;
        // The body is within the limit too: a provider may begin an answer and never end it.
        let answer = async {
            let response = sender.send_request(request).await.map_err(|e| self.cut(&e))?;
            let status = response.status();
            Ok((status, self.body(response).await?))
        };
        let (status, body) = timeout(limit, answer).await.map_err(|_| self.slow(limit))??;
        if status == StatusCode::OK {
            return Ok(body);
        }
        Err(self.refused(status, &body))
    }

    /// Opens a websocket.
    ///
    /// # Errors
    /// The provider does not open it.
    pub(super) async fn open(&self, ask: Ask<'_>) -> Result<Stream, Trouble> {
        let (headers, accept) = Stream::handshake();
        let mut sender = self.connect().await?;
        let request = self.request(&ask, headers)?;
        let opened = async {
            let mut response = sender.send_request(request).await.map_err(|e| self.cut(&e))?;
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                let status = response.status();
                return Err(self.refused(status, &self.body(response).await?));
            }
            // Proof that the handshake was understood, and that this is no stored answer to somebody else's.
            if response.headers().get("sec-websocket-accept") != Some(&accept) {
                return Err(self.strange("it opens a websocket that was not asked for"));
            }
            hyper::upgrade::on(&mut response).await.map_err(|e| self.cut(&e))
        };
        let io = timeout(ANSWER_WITHIN, opened).await;
        let io = io.map_err(|_| self.slow(ANSWER_WITHIN))??;
        Ok(Stream::new(io, self.at(), self.means()).await)
    }

    /// A connection to the provider, and to nobody else.
    async fn connect(&self) -> Result<Sender, Trouble> {
        let judge = Arc::new(Judge::new(&self.authorities, &self.crypto));
        let connecting = async {
            let unreachable = |why: String| Trouble::Unreachable { at: self.at(), why };
            let tcp = self.dial().await.map_err(|e| unreachable(e.to_string()))?;
            // Keys that are typed into a shell are small, and must not wait for more of them.
            tcp.set_nodelay(true).map_err(|e| unreachable(e.to_string()))?;
            let connector = TlsConnector::from(Arc::new(self.config(Arc::clone(&judge))?));
            let name = self.server_name()?;
            connector.connect(name, tcp).await.map_err(|e| self.unshaken(&e))
        };
        let tls = timeout(CONNECT_WITHIN, connecting).await;
        let tls = tls.map_err(|_| self.slow(CONNECT_WITHIN))??;
        judge
            .confirm(&self.at(), &self.provider, self.chain.as_ref())
            .await?;
        let (sender, connection) = http1::handshake(TokioIo::new(tls))
            .await
            .map_err(|e| self.cut(&e))?;
        // It ends with the answer, or with the stream that takes it over.
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!("a connection to a provider: {}", with_causes(&error));
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
            None => Err(std::io::Error::other("it has no host")),
        }
    }

    fn config(&self, judge: Arc<Judge>) -> Result<ClientConfig, Trouble> {
        let strange = |e: rustls::Error| self.strange(&e.to_string());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.crypto));
        // Nothing older: before TLS 1.3 a client's certificate goes over the wire in clear.
        let builder = builder.with_protocol_versions(&[&TLS13]).map_err(strange)?;
        // The verifier takes certificates that sign themselves. `connect` has those confirmed by the chain.
        let builder = builder.dangerous().with_custom_certificate_verifier(judge);
        let mut config = match &self.credentials {
            Credentials::Nothing | Credentials::Key(_) => builder.with_no_client_auth(),
            Credentials::Certificate(own) => {
                let key = own.private_key_der().map_err(|e| self.strange(&e.to_string()))?;
                let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.to_vec()));
                let key = self.crypto.key_provider.load_private_key(key).map_err(strange)?;
                let chain = vec![CertificateDer::from(own.der().to_vec())];
                let shown = SingleCertAndKey::from(CertifiedKey::new(chain, key));
                builder.with_client_cert_resolver(Arc::new(shown))
            }
        };
        // A resumed session shows no certificate that could be judged.
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    /// The name that is asked for: with a certificate, one for which no provider has a public certificate, so that
    /// it shows its own and looks at ours.
    fn server_name(&self) -> Result<ServerName<'static>, Trouble> {
        let name = match (self.base.host(), self.means()) {
            (Some(Host::Ipv4(ip)), _) => return Ok(IpAddr::V4(ip).into()),
            (Some(Host::Ipv6(ip)), _) => return Ok(IpAddr::V6(ip).into()),
            (Some(Host::Domain(name)), Means::Certificate) => format!("mtls.{name}"),
            (Some(Host::Domain(name)), _) => name.to_owned(),
            (None, _) => String::new(),
        };
        ServerName::try_from(name).map_err(|e| self.strange(&e.to_string()))
    }

    fn request(&self, ask: &Ask<'_>, mut headers: HeaderMap) -> Result<Request<Full<Bytes>>, Trouble> {
        let url = self.url(ask);
        let host = &url[Position::BeforeHost..Position::AfterPort];
        let mut set = |name, value: &str| -> Result<(), Trouble> {
            let value = HeaderValue::from_str(value).map_err(|e| self.strange(&e.to_string()))?;
            headers.insert(name, value);
            Ok(())
        };
        set(HOST, host)?;
        if let Some(token) = self.credentials.token(&self.provider, ask.scope) {
            set(AUTHORIZATION, &format!("Bearer {token}"))?;
        }
        headers.insert(USER_AGENT, AGENT);
        if !ask.body.is_empty() {
            headers.insert(CONTENT_TYPE, JSON);
        }
        let target = &url[Position::BeforePath..Position::AfterQuery];
        let mut request = Request::new(Full::new(ask.body.clone()));
        *request.uri_mut() = target
            .parse()
            .map_err(|e: http::uri::InvalidUri| self.strange(&e.to_string()))?;
        *request.method_mut() = ask.method.clone();
        *request.headers_mut() = headers;
        Ok(request)
    }

    fn url(&self, ask: &Ask<'_>) -> Url {
        let mut url = self.base.clone();
        // An address with a host can have a path.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(ask.path);
        }
        if !ask.query.is_empty() {
            url.query_pairs_mut().extend_pairs(ask.query);
        }
        url
    }

    async fn body(&self, response: Response<Incoming>) -> Result<Bytes, Trouble> {
        // A provider is somebody else's: what it answers must not fill the memory.
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX)
            .collect()
            .await;
        let body = body.map_err(|e| Trouble::Cut {
            at: self.at(),
            why: with_causes(&*e),
            means: Means::Nothing,
        })?;
        Ok(body.to_bytes())
    }

    fn refused(&self, status: StatusCode, body: &Bytes) -> Trouble {
        Trouble::Answer(Answered {
            at: self.at(),
            status: status.as_u16(),
            text: String::from_utf8_lossy(body).into_owned(),
            means: self.means(),
        })
    }

    pub(super) fn strange(&self, why: &str) -> Trouble {
        Trouble::Strange {
            at: self.at(),
            why: why.to_owned(),
        }
    }

    fn slow(&self, limit: Duration) -> Trouble {
        Trouble::Slow { at: self.at(), limit }
    }

    fn cut(&self, error: &hyper::Error) -> Trouble {
        Trouble::Cut {
            at: self.at(),
            why: with_causes(error),
            means: self.means(),
        }
    }

    /// A handshake that failed: on account of a certificate, or of anything else.
    fn unshaken(&self, error: &std::io::Error) -> Trouble {
        let tls = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
        match tls {
            Some(rustls::Error::InvalidCertificate(why)) => Trouble::Stranger {
                at: self.at(),
                why: format!(
                    "no public authority vouches for its certificate, and it is none of the network's that holds ({why})"
                ),
            },
            Some(rustls::Error::InvalidMessage(_)) => Trouble::Unreachable {
                at: self.at(),
                why: "this is no https port: what is there speaks something else, such as plain http"
                    .to_owned(),
            },
            _ => Trouble::Unreachable {
                at: self.at(),
                why: format!("no TLS 1.3: {error}"),
            },
        }
    }
}

/// A provider's address taken apart.
fn base(address: &str) -> anyhow::Result<Url> {
    let url = Url::parse(address.trim()).with_context(|| format!("`{address}` is no address"))?;
    if url.scheme() != "https" {
        bail!("`{address}` is not https, and providers speak nothing else: write it as https://host:8443");
    }
    if url.host_str().is_none_or(str::is_empty) {
        bail!("`{address}` has no host: write it as https://host:8443");
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_chain::private_key::PrivateKey;

    fn client(address: &str, credentials: Credentials) -> Client {
        let provider = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse().unwrap();
        Client::new(provider, address, credentials, None).unwrap()
    }

    fn target(address: &str, path: &[&str], query: &[(String, String)]) -> String {
        let ask = Ask {
            query,
            ..Ask::get(path, Scope::Status)
        };
        client(address, Credentials::Nothing).url(&ask).to_string()
    }

    #[test]
    fn paths_stand_below_the_address_and_are_escaped() {
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
    fn an_address_is_https_and_has_a_host() {
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
    fn a_token_goes_with_the_request_and_another_name_with_the_certificate() {
        let key = Arc::new(PrivateKey::from_bytes(&[7; 32]).unwrap());
        let with_key = client("https://p.example:8443", Credentials::Key(key));
        let request = with_key
            .request(&Ask::get(&["status"], Scope::Status), HeaderMap::new())
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
        let usage = akash_provider_chain::cert::Usage::Client;
        let own = akash_provider_chain::cert::OwnCertificate::make(&owner, &usage, Duration::from_secs(9));
        let shown = Credentials::Certificate(Arc::new(own.unwrap()));
        let with_certificate = client("https://p.example:8443", shown.clone());
        let request = with_certificate.request(&Ask::get(&["status"], Scope::Status), HeaderMap::new());
        assert!(!request.unwrap().headers().contains_key(AUTHORIZATION));
        assert_eq!(with_certificate.server_name().unwrap().to_str(), "mtls.p.example");
        assert_eq!(
            client("https://127.0.0.1:8443", shown)
                .server_name()
                .unwrap()
                .to_str(),
            "127.0.0.1"
        );
    }

    #[test]
    fn nobody_there_is_told_with_the_address() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("https://{}", listener.local_addr().unwrap());
        drop(listener);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let there = client(&address, Credentials::Nothing);
        let asked = runtime.block_on(there.ask(Ask::get(&["status"], Scope::Status)));
        let text = asked.unwrap_err().to_string();
        assert!(
            text.contains(&address) && text.contains("cannot be reached"),
            "{text}"
        );
    }
}
