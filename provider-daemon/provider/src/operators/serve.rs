//! HTTP/1.1 server of an operator, for clients in the cluster. The responses are public and cached.

use axum::Router;
use axum::body::Body;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, LAST_MODIFIED};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Maximum number of connections. At this maximum, a new connection closes the oldest connection of the
/// client that has the most connections.
const CONNECTIONS_MAX: usize = 64;
/// Maximum time to receive the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Maximum duration of a connection.
const LIFE_TIME: Duration = Duration::from_secs(60);
/// Time limit for the requests in progress after the server was stopped.
const DRAIN_TIME: Duration = Duration::from_secs(5);
/// Delay after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Delay after a failed attempt to listen.
const LISTEN_PAUSE: Duration = Duration::from_millis(500);
/// Maximum size of a request head, in bytes.
const HEAD_MAX: usize = 64 << 10;
/// Maximum size of a response in bytes, as in the Go operators.
const TEXT_MAX: usize = 8 << 20;

/// Address of the client, for routes that only local clients may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Serves requests until `until` is cancelled, and then finishes the requests in progress.
pub async fn serve(listener: TcpListener, router: Router, until: CancellationToken) {
    let end = until.clone();
    let answer = move |stream, peer| {
        let (router, until) = (router.clone(), end.clone());
        async move {
            // A client can reconnect after the limit.
            let _ = timeout(LIFE_TIME, converse(stream, Peer(peer), router, until)).await;
        }
    };
    take(listener, answer, until).await;
}

/// Listens on an address, with retries. Reports each new error once. Returns `None` when `until` is
/// cancelled.
pub(crate) async fn listen(
    address: impl ToSocketAddrs,
    until: &CancellationToken,
    report: impl Fn(&io::Error),
) -> Option<TcpListener> {
    let mut reported = None;
    loop {
        match TcpListener::bind(&address).await {
            Ok(listener) => return Some(listener),
            Err(error) if reported == Some(error.kind()) => {}
            Err(error) => {
                report(&error);
                reported = Some(error.kind());
            }
        }
        until.run_until_cancelled(sleep(LISTEN_PAUSE)).await?;
    }
}

/// Accepts connections until `until` is cancelled, and then waits at most `DRAIN_TIME` for open connections.
/// At `CONNECTIONS_MAX`, selects the client with the most connections and closes its oldest connection.
pub(crate) async fn take<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    answer: impl Fn(TcpStream, SocketAddr) -> F,
    until: CancellationToken,
) {
    let mut connections = JoinSet::new();
    // Sorted by age, oldest first.
    let mut open: Vec<(IpAddr, AbortHandle)> = Vec::new();
    while let Some(accepted) = until.run_until_cancelled(listener.accept()).await {
        while connections.try_join_next().is_some() {}
        open.retain(|(_, task)| !task.is_finished());
        match accepted {
            Ok((stream, peer)) => {
                if open.len() >= CONNECTIONS_MAX {
                    displace(&mut open);
                }
                open.push((peer.ip(), connections.spawn(answer(stream, peer))));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept connection to the HTTP server of the operator, retrying");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    let rest = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(DRAIN_TIME, rest).await;
}

fn displace(open: &mut Vec<(IpAddr, AbortHandle)>) {
    let of_client = |ip: IpAddr| open.iter().filter(|(other, _)| *other == ip).count();
    // Reversed, because `max_by_key` returns the last of equal elements.
    let most = open
        .iter()
        .enumerate()
        .rev()
        .max_by_key(|(_, (ip, _))| of_client(*ip));
    if let Some((at, (_, task))) = most {
        task.abort();
        open.remove(at);
    }
}

async fn converse(stream: TcpStream, peer: Peer, router: Router, until: CancellationToken) {
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        router.clone().oneshot(request.map(Body::new))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = &mut connection => ended,
        () = until.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "HTTP connection failed");
    }
}

/// Cached response body. After the maximum age, the next request regenerates the body.
#[derive(Debug, Default)]
pub(super) struct CachedBody {
    text: RwLock<Option<(bytes::Bytes, SystemTime)>>,
    /// Time of the last attempt to regenerate the body, and whether the operator was ready at this time.
    looked: Mutex<Option<(Instant, bool)>>,
}

impl CachedBody {
    /// Regenerates the body if the last attempt is older than `every`, or if `is_ready` changed. If `make`
    /// returns `None`, the cached body is retained.
    pub(super) fn renew(&self, every: Duration, is_ready: bool, make: impl FnOnce() -> Option<Vec<u8>>) {
        // Locked during the generation, so that concurrent requests get the new body.
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.is_some_and(|(at, was_ready)| at.elapsed() < every && was_ready == is_ready) {
            return;
        }
        if let Some(text) = make() {
            self.set(text);
        }
        *looked = Some((Instant::now(), is_ready));
    }

    fn set(&self, text: Vec<u8>) {
        let mut cached = self.text.write().unwrap_or_else(PoisonError::into_inner);
        // An unchanged body keeps its time, so that `Last-Modified` is the time of the last change.
        if cached
            .as_ref()
            .is_some_and(|(current, _)| current[..] == text[..])
        {
            return;
        }
        *cached = Some((text.into(), SystemTime::now()));
    }

    /// Returns the cached body. The status is 204 if no body is cached, and 500 if the body exceeds 8 MiB.
    pub(super) fn answer(&self) -> Response<Body> {
        let cached = self.text.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((text, made)) = cached else {
            return status(StatusCode::NO_CONTENT, "");
        };
        if text.len() > TEXT_MAX {
            return status(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the response exceeds 8 MiB; use the query parameters of /status\n",
            );
        }
        let mut answer = typed(StatusCode::OK, "application/json", text);
        let headers = answer.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, max-age=0"));
        if let Ok(made) = HeaderValue::from_str(&http_date(made)) {
            headers.insert(LAST_MODIFIED, made);
        }
        answer
    }
}

/// Returns a plain text response.
pub fn status(code: StatusCode, words: impl Into<String>) -> Response<Body> {
    typed(code, "text/plain; charset=utf-8", words.into())
}

/// Returns a response with a content type.
pub(super) fn typed(code: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = code;
    let content_type = HeaderValue::from_static(content_type);
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}

fn http_date(at: SystemTime) -> String {
    let then = k8s_openapi::jiff::Timestamp::try_from(at).unwrap_or_default();
    then.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn body_is_served_once_generated_and_never_truncated() {
        let cached = CachedBody::default();
        assert_eq!(cached.answer().status(), StatusCode::NO_CONTENT);
        cached.set(b"{}".to_vec());
        let answer = cached.answer();
        assert_eq!(answer.headers()[CACHE_CONTROL], "no-cache, max-age=0");
        let date = answer.headers()[LAST_MODIFIED].to_str().unwrap().to_owned();
        assert!(date.ends_with(" GMT") && date.len() == 29, "{date}");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "{}");
        cached.set(vec![b' '; TEXT_MAX]);
        assert_eq!(cached.answer().status(), StatusCode::OK);
        cached.set(vec![b' '; TEXT_MAX + 1]);
        assert_eq!(cached.answer().status(), StatusCode::INTERNAL_SERVER_ERROR);
    }

    #[tokio::test]
    async fn slow_clients_do_not_block_a_probe() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/health", axum::routing::get(|| async { "OK" }));
        let until = CancellationToken::new();
        let serving = tokio::spawn(serve(listener, router, until.clone()));
        let connect = async |from: &str| {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind(SocketAddr::new(from.parse().unwrap(), 0)).unwrap();
            socket.connect(address).await.unwrap()
        };
        let mut client_with_session = connect("127.0.0.9").await;
        let mut slow = Vec::new();
        for _ in 0..193 {
            let mut client = connect("127.0.0.2").await;
            client.write_all(b"GET /health HTTP/1.1\r\n").await.unwrap();
            slow.push(client);
        }
        // A probe from another address, one from the same address, and an older connection.
        let mut probes = [connect("127.0.0.1").await, connect("127.0.0.2").await];
        for client in probes.iter_mut().chain([&mut client_with_session]) {
            let request = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            client.write_all(request).await.unwrap();
            let mut text = String::new();
            // Half of the time limit for the head of a request.
            timeout(HEAD_TIME / 2, client.read_to_string(&mut text))
                .await
                .unwrap()
                .unwrap();
            assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        }
        until.cancel();
        drop(slow);
        serving.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn body_is_regenerated_on_request_when_it_is_old() {
        let (cached, every) = (CachedBody::default(), Duration::from_secs(5));
        let made = std::cell::Cell::new(0);
        let ask = |is_ready| {
            cached.renew(every, is_ready, || {
                made.set(made.get() + 1);
                Some(b"{}".to_vec())
            });
            made.get()
        };
        assert_eq!(
            (ask(false), ask(false)),
            (1, 1),
            "a second request gets the cached body"
        );
        assert_eq!((ask(true), ask(true)), (2, 2), "readiness regenerates the body");
        tokio::time::advance(every).await;
        assert_eq!((ask(true), ask(true)), (3, 3));
    }
}
