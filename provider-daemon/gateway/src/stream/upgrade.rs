//! Upgrade of a request to a websocket.
//!
//! This module replaces `ws` of `axum`: `ws` ignores the header `Origin`, and a shutdown cannot wait for its streams.

use super::socket::StreamSocket;
use crate::App;
use crate::auth::CredentialValidity;
use crate::rest::reply::{self, RestReply, RestResult};
use axum::body::Body;
use axum::extract::Request;
use http::header::{
    CONNECTION, HOST, HeaderName, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, Method, Response, StatusCode, Uri};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::sync::Arc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

/// Number of buffered bytes at which the buffer is written.
const WRITE_BUFFER: usize = 32 * 1024;
/// Maximum number of buffered bytes. A writer waits until the buffer has space.
const WRITE_BUFFER_MAX: usize = 1024 * 1024;
/// Size of the read buffer, in bytes. Small, because there may be ten thousand streams.
const READ_BUFFER: usize = 128;

pub(super) fn upgrade<F>(
    app: &Arc<App>,
    validity: CredentialValidity,
    mut request: Request,
    serve: impl FnOnce(Arc<App>, Box<StreamSocket>) -> F + Send + 'static,
) -> RestResult
where
    F: Future<Output = ()> + Send + 'static,
{
    let accept = check(request.method(), request.headers()).map_err(refusal)?;
    // Checked before the response: a websocket that closes at once looks like a broken service.
    if app.draining.is_cancelled() {
        let words = "the provider is stopping; try again";
        return Err(reply::text(StatusCode::SERVICE_UNAVAILABLE, words).into());
    }
    let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() else {
        return Err(refusal(StatusCode::BAD_REQUEST).into());
    };
    let served = Arc::clone(app);
    // The upgrade completes only after the response below is sent, so it cannot be awaited here.
    app.tasks.spawn(async move {
        let io = match upgrade.await {
            Ok(upgraded) => TokioIo::new(upgraded),
            Err(error) => {
                tracing::debug!(%error, "connection closed before the websocket upgrade");
                return;
            }
        };
        let config = config(served.limits.frame_bytes);
        let opening = WebSocketStream::from_raw_socket(io, Role::Server, Some(config));
        let stream = Box::pin(opening).await;
        let socket = StreamSocket::new(stream, &served.limits, served.draining.clone(), validity);
        // A new task, so that the memory of the upgrade is released.
        let serving = serve(Arc::clone(&served), socket);
        served.tasks.spawn(serving);
    });
    let mut reply = Response::new(Body::empty());
    *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = reply.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    Ok(reply)
}

pub(super) fn config(frame_bytes: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_write_buffer_size(WRITE_BUFFER_MAX)
        .max_message_size(Some(frame_bytes))
        .max_frame_size(Some(frame_bytes))
}

fn refusal(status: StatusCode) -> RestReply {
    let mut reply = reply::text(status, status.canonical_reason().unwrap_or_default());
    let version = HeaderValue::from_static("13");
    reply.headers_mut().insert(SEC_WEBSOCKET_VERSION, version);
    reply
}

fn check(method: &Method, headers: &HeaderMap) -> Result<HeaderValue, StatusCode> {
    let has = |name: HeaderName, word: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|v| v.to_str().ok());
        let mut words = values.flat_map(|v| v.split(','));
        words.any(|w| w.trim().eq_ignore_ascii_case(word))
    };
    if !has(CONNECTION, "upgrade") || !has(UPGRADE, "websocket") {
        return Err(StatusCode::BAD_REQUEST);
    }
    if method != Method::GET {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    if !has(SEC_WEBSOCKET_VERSION, "13") {
        return Err(StatusCode::BAD_REQUEST);
    }
    // Browsers send client certificates with requests of any page and do not apply CORS to websockets. Without this,
    // a foreign page could open a shell.
    if !is_same_origin(headers) {
        return Err(StatusCode::FORBIDDEN);
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).ok_or(StatusCode::BAD_REQUEST)?;
    if key.is_empty() {
        return Err(StatusCode::BAD_REQUEST);
    }
    HeaderValue::from_str(&derive_accept_key(key.as_bytes())).map_err(|_| StatusCode::BAD_REQUEST)
}

/// Returns true if the header `Origin` is missing or names the host of the request.
fn is_same_origin(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else {
        return true;
    };
    let host = headers.get(HOST).and_then(|h| h.to_str().ok());
    let origin = origin.to_str().ok().and_then(|o| o.parse::<Uri>().ok());
    let authority = origin.as_ref().and_then(Uri::authority);
    match (authority, host) {
        (Some(origin), Some(host)) => origin.as_str().eq_ignore_ascii_case(host),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        pairs.collect()
    }

    const RIGHT: [(&str, &str); 5] = [
        ("host", "localhost:8443"),
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    #[test]
    fn a_valid_handshake_is_accepted() {
        let accept = check(&Method::GET, &headers(&RIGHT)).unwrap();
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(
            check(&Method::POST, &headers(&RIGHT)),
            Err(StatusCode::METHOD_NOT_ALLOWED)
        );
    }

    #[test]
    fn each_header_of_the_handshake_is_required() {
        for missing in 1..RIGHT.len() {
            let mut pairs = RIGHT.to_vec();
            pairs.remove(missing);
            let checked = check(&Method::GET, &headers(&pairs));
            assert_eq!(checked, Err(StatusCode::BAD_REQUEST), "{missing}");
        }
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let with = |origin| {
            let mut pairs = RIGHT.to_vec();
            pairs.push(("origin", origin));
            check(&Method::GET, &headers(&pairs)).err()
        };
        assert_eq!(with("https://localhost:8443"), None);
        for origin in ["https://evil.example.com", "https://localhost", "null", "", "::"] {
            assert_eq!(with(origin), Some(StatusCode::FORBIDDEN), "{origin}");
        }
    }
}
