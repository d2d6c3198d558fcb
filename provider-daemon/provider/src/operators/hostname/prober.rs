//! HTTP client of probes, with limits of time and size.

use akash_provider_core::error::chain_text;
use akash_provider_operators::hostname::probe::{ProbeRequest, ProbeResponse, Prober};
use async_trait::async_trait;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

/// Time limit of the connection setup, including TLS. The same limit applies separately to the response.
const LIMIT: Duration = Duration::from_secs(4);
/// Maximum size of the status line and headers of a response, in bytes.
const HEAD_MAX: usize = 16_384;
const HEADERS_MAX: usize = 100;
/// Maximum number of bytes read from a response body.
const BODY_MAX: usize = 4_096;

/// HTTP/1.1 client with one connection per request. Does not follow redirects.
#[derive(Clone)]
pub(super) struct ProbeClient {
    /// TLS client; `None` without trusted certificate authorities.
    tls: Option<TlsConnector>,
}

impl std::fmt::Debug for ProbeClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProbeClient")
            .field("tls", &self.tls.is_some())
            .finish()
    }
}

impl ProbeClient {
    /// Creates a client that trusts the certificate authorities of the system.
    pub(super) fn new() -> Self {
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Self::trusting(roots)
    }

    fn trusting(roots: rustls::RootCertStore) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let has_roots = !roots.is_empty();
        let config = builder
            .ok()
            .map(|builder| builder.with_root_certificates(roots).with_no_client_auth());
        Self {
            tls: config
                .filter(|_| has_roots)
                .map(|config| TlsConnector::from(Arc::new(config))),
        }
    }
}

#[async_trait]
impl Prober for ProbeClient {
    async fn ask(&self, question: &ProbeRequest) -> Result<ProbeResponse, String> {
        let stream = within("connection", TcpStream::connect(question.address)).await?;
        if !question.is_tls {
            return within("response", talk(stream, question)).await;
        }
        let tls = self
            .tls
            .as_ref()
            .ok_or("the system trusts no certificate authority")?;
        let name = ServerName::try_from(question.hostname.clone()).map_err(|error| error.to_string())?;
        let stream = within("TLS handshake", tls.connect(name, stream)).await?;
        within("response", talk(stream, question)).await
    }
}

async fn within<T, E: std::error::Error + 'static>(
    what: &str,
    step: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match timeout(LIMIT, step).await {
        Ok(outcome) => outcome.map_err(|error| chain_text(&error)),
        Err(_) => Err(format!("no {what} within {} s", LIMIT.as_secs())),
    }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    question: &ProbeRequest,
) -> hyper::Result<ProbeResponse> {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_MAX).max_headers(HEADERS_MAX);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let mut request = Request::new(Empty::<Bytes>::new());
    let headers = request.headers_mut();
    // A hostname that is not a valid header value cannot be declared.
    let host =
        http::HeaderValue::from_str(&question.hostname).unwrap_or(http::HeaderValue::from_static("invalid"));
    headers.insert(http::header::HOST, host);
    headers.insert(
        http::header::USER_AGENT,
        http::HeaderValue::from_static("akash-provider-probe"),
    );
    headers.insert(http::header::CONNECTION, http::HeaderValue::from_static("close"));
    let answer = sender.send_request(request).await?;
    let status = answer.status().as_u16();
    let mut answer = answer.into_body();
    let mut body = Vec::new();
    while body.len() < BODY_MAX {
        match answer.frame().await {
            Some(frame) => body.extend_from_slice(frame?.data_ref().map_or(&[], |data| data)),
            None => break,
        }
    }
    body.truncate(BODY_MAX);
    Ok(ProbeResponse { status, body })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::sync::Mutex;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// Starts an HTTP server that sends `says` and, if `is_endless` is true, endless zeros.
    async fn server(
        says: &'static [u8],
        is_endless: bool,
    ) -> (SocketAddr, Arc<Mutex<Vec<String>>>, AbortOnDropHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let serving = async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut bytes = [0; 2_048];
                let length = stream.read(&mut bytes).await.unwrap_or(0);
                log.lock()
                    .unwrap()
                    .push(String::from_utf8_lossy(&bytes[..length]).into_owned());
                let _ = stream.write_all(says).await;
                while is_endless && stream.write_all(&[b'0'; 1_024]).await.is_ok() {}
            }
        };
        (at, asked, AbortOnDropHandle::new(tokio::spawn(serving)))
    }

    fn question(address: SocketAddr, is_tls: bool) -> ProbeRequest {
        let hostname = "shop.example.com".to_owned();
        ProbeRequest {
            hostname,
            address,
            is_tls,
        }
    }

    fn http() -> ProbeClient {
        ProbeClient::trusting(rustls::RootCertStore::empty())
    }

    #[tokio::test]
    async fn request_has_the_hostname_and_redirects_are_not_followed() {
        let moved =
            b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest\r\nContent-Length: 2\r\n\r\nhi";
        let (at, asked, _serving) = server(moved, false).await;
        let response = http().ask(&question(at, false)).await.unwrap();
        assert_eq!((response.status, response.body.as_slice()), (302, &b"hi"[..]));
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 1);
        assert!(
            asked[0].starts_with("GET / HTTP/1.1\r\n") && asked[0].contains("host: shop.example.com\r\n"),
            "{asked:?}"
        );
    }

    #[tokio::test]
    async fn endless_response_is_read_up_to_the_limit() {
        let (at, _, _serving) = server(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", true).await;
        let response = http().ask(&question(at, false)).await.unwrap();
        assert_eq!((response.status, response.body.len()), (200, BODY_MAX));
        let (at, _, _serving) = server(b"HTTP/1.1 200 OK\r\nX-Long: ", true).await;
        assert!(
            http().ask(&question(at, false)).await.is_err(),
            "an endless head is invalid"
        );
    }

    #[tokio::test]
    async fn silent_server_times_out() {
        let (at, _, _serving) = server(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n12", false).await;
        assert!(
            http().ask(&question(at, false)).await.is_err(),
            "an interrupted response"
        );
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let begun = std::time::Instant::now();
        let why = http()
            .ask(&question(silent.local_addr().unwrap(), false))
            .await
            .unwrap_err();
        assert!(
            why.contains("no response within") && begun.elapsed() < LIMIT * 2,
            "{why}"
        );
        let gone = silent.local_addr().unwrap();
        drop(silent);
        assert!(http().ask(&question(gone, false)).await.is_err());
        let why = http().ask(&question(at, true)).await.unwrap_err();
        assert!(why.contains("trusts no certificate authority"), "{why}");
    }

    #[tokio::test]
    async fn certificate_must_be_trusted_and_valid_for_the_hostname() {
        let key = rcgen::generate_simple_self_signed(["shop.example.com".to_owned()]).unwrap();
        let der = key.cert.der().clone();
        let secret = rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider);
        let config = config
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(
            config.with_single_cert(vec![der.clone()], secret).unwrap(),
        ));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let _serving = AbortOnDropHandle::new(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if let Ok(mut stream) = acceptor.accept(stream).await {
                    let _ = stream.read(&mut [0; 1_024]).await;
                    let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
                }
            }
        }));
        let mut roots = rustls::RootCertStore::empty();
        roots.add(der).unwrap();
        let http = ProbeClient::trusting(roots);
        assert_eq!(http.ask(&question(at, true)).await.unwrap().status, 204);
        let other = ProbeRequest {
            hostname: "bank.example.com".to_owned(),
            ..question(at, true)
        };
        let why = http.ask(&other).await.unwrap_err();
        assert!(why.contains("certificate"), "{why}");
        if let ProbeClient { tls: Some(_) } = ProbeClient::new() {
            assert!(
                ProbeClient::new()
                    .ask(&question(at, true))
                    .await
                    .unwrap_err()
                    .contains("certificate")
            );
        }
    }
}
