//! Downloads with limits of time and size.

use akash_provider_core::error::chain_text;
use bytes::Bytes;
use http::header::LOCATION;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Body;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::RootCertStore;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use url::Url;

/// Timeout of a download, including redirects.
const ANSWER_TIME: Duration = Duration::from_secs(20);
/// Maximum number of redirects.
const REDIRECTS: usize = 3;

pub(crate) type HttpsClient<B> = Client<HttpsConnector<HttpConnector>, B>;

/// Creates a client with the system's certificate authorities. At most `idle` connections to a server remain
/// open while unused.
///
/// # Errors
/// Returns an error if TLS cannot be configured.
pub(crate) fn https_client<B>(idle: usize) -> Result<HttpsClient<B>, String>
where
    B: Body + Send,
    B::Data: Send,
{
    https_client_with(Arc::new(system_roots()), idle)
}

/// Returns the system's certificate authorities.
pub(crate) fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Creates a client as [`https_client`] does, with these certificate authorities.
///
/// # Errors
/// As [`https_client`].
pub(crate) fn https_client_with<B>(roots: Arc<RootCertStore>, idle: usize) -> Result<HttpsClient<B>, String>
where
    B: Body + Send,
    B::Data: Send,
{
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let tls = builder.map_err(|error| error.to_string())?;
    let tls = tls.with_root_certificates(roots).with_no_client_auth();
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .build();
    Ok(Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(idle)
        .build(connector))
}

/// Downloads a file of at most `most` bytes.
///
/// # Errors
/// Returns an error if the server does not respond in time, or reports an error.
pub async fn download(url: &Url, most: usize) -> Result<Vec<u8>, String> {
    let asked = timeout(ANSWER_TIME, fetch(url, most)).await;
    asked.map_err(|_| format!("no response within {ANSWER_TIME:?}"))?
}

/// Follows redirects and returns the body of the response.
async fn fetch(url: &Url, most: usize) -> Result<Vec<u8>, String> {
    // Downloads are minutes apart, so connections are not reused.
    let client = https_client::<Empty<Bytes>>(0)?;
    let mut url = url.clone();
    for _ in 0..=REDIRECTS {
        let request = Request::get(url.as_str())
            .header("user-agent", "provider-daemon")
            .body(Empty::new());
        let request = request.map_err(|error| error.to_string())?;
        let answer = client
            .request(request)
            .await
            .map_err(|error| chain_text(&error))?;
        let status = answer.status();
        if status.is_redirection() {
            url = onward(&url, answer.headers().get(LOCATION))?;
            continue;
        }
        if status != StatusCode::OK {
            return Err(format!("the server responded with status {status}"));
        }
        let body = Limited::new(answer.into_body(), most).collect().await;
        let body =
            body.map_err(|error| format!("incomplete response, or more than {most} bytes: {error}"))?;
        return Ok(body.to_bytes().to_vec());
    }
    Err(format!("more than {REDIRECTS} redirects"))
}

/// Returns the target URL of a redirect.
pub(crate) fn onward(from: &Url, location: Option<&http::HeaderValue>) -> Result<Url, String> {
    let text = location
        .and_then(|value| value.to_str().ok())
        .ok_or("redirect without a location")?;
    let to = from
        .join(text)
        .map_err(|error| format!("redirect to an invalid URL: {error}"))?;
    // A downgrade from TLS is rejected.
    if to.scheme() != "https" && to.scheme() != from.scheme() {
        return Err("redirect from https to another scheme".to_owned());
    }
    Ok(to)
}
