//! Files of other servers, within limits of time and size.

use akash_provider_core::error::chain_text;
use bytes::Bytes;
use http::header::LOCATION;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use url::Url;

/// Time for the whole of an answer, redirects included.
const ANSWER_TIME: Duration = Duration::from_secs(20);
/// Redirects that are followed.
const REDIRECTS: usize = 3;

type Https = Client<HttpsConnector<HttpConnector>, Empty<Bytes>>;

fn client() -> Result<Https, String> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let tls = builder.map_err(|error| error.to_string())?;
    let tls = tls.with_root_certificates(roots).with_no_client_auth();
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .build();
    // Asked every few minutes: a connection for each is cheap, and none stays open.
    Ok(Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build(connector))
}

/// What a server answers, of `most` bytes at most.
///
/// # Errors
/// It does not answer in time, or with something else than such a file.
pub(crate) async fn download(url: &Url, most: usize) -> Result<Vec<u8>, String> {
    let asked = timeout(ANSWER_TIME, fetch(url, most)).await;
    asked.map_err(|_| format!("no answer within {ANSWER_TIME:?}"))?
}

/// The answer of the server, after some redirects at most.
async fn fetch(url: &Url, most: usize) -> Result<Vec<u8>, String> {
    let client = client()?;
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
            return Err(format!("the server answers {status}"));
        }
        let body = Limited::new(answer.into_body(), most).collect().await;
        let body =
            body.map_err(|error| format!("the answer broke off, or is longer than {most} bytes: {error}"))?;
        return Ok(body.to_bytes().to_vec());
    }
    Err(format!("more than {REDIRECTS} redirects"))
}

/// Where a redirect leads.
pub(crate) fn onward(from: &Url, location: Option<&http::HeaderValue>) -> Result<Url, String> {
    let text = location
        .and_then(|value| value.to_str().ok())
        .ok_or("a redirect to nowhere")?;
    let to = from
        .join(text)
        .map_err(|error| format!("a redirect to no URL: {error}"))?;
    // Who listens in between must not take TLS off.
    if to.scheme() != "https" && to.scheme() != from.scheme() {
        return Err("a redirect away from https".to_owned());
    }
    Ok(to)
}
