//! One HTTP connection: JSON-RPC requests, or a websocket.

use crate::faults::ProxyFaults;
use crate::rpc::{self, RpcClient};
use crate::websocket;
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// Maximum size of a request or response.
const BYTES_MAX: usize = 64 << 20;

const FLUSH: Duration = Duration::from_millis(20);

pub(crate) type ProxyBody = BoxBody<Bytes, io::Error>;

pub(crate) fn whole(bytes: impl Into<Bytes>) -> ProxyBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed()
}

pub(crate) fn refusal() -> Response<ProxyBody> {
    let page = "<html><body><h1>502 Bad Gateway</h1></body></html>";
    let mut response = Response::new(whole(page));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    let kind = HeaderValue::from_static("text/html");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Serves a connection until the client or a fault closes it.
pub(crate) async fn connection(shared: Arc<ProxyFaults>, stream: TcpStream) {
    let http: RpcClient = Client::builder(TokioExecutor::new()).build_http();
    let service = service_fn(move |request| answer(Arc::clone(&shared), http.clone(), request));
    let serving = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // A client that disconnects is not an error of the proxy.
    drop(serving.await);
}

async fn answer(
    shared: Arc<ProxyFaults>,
    http: RpcClient,
    request: Request<Incoming>,
) -> io::Result<Response<ProxyBody>> {
    shared.thaw().await;
    if shared.faults().refused {
        shared.count(|stats| stats.faults += 1);
        return Ok(refusal());
    }
    if request.headers().contains_key(header::UPGRADE) {
        let response = websocket::upgrade(shared, request)?;
        return Ok(response.map(|()| whole(Bytes::new())));
    }
    let (head, body) = request.into_parts();
    let body = Limited::new(body, BYTES_MAX).collect().await;
    let body = body.map_err(io::Error::other)?.to_bytes();
    let answer = rpc::answer(&shared, &http, &head, body).await?;
    shared.thaw().await;
    shared.delay().await;
    if shared.injects(shared.faults().swallow) {
        return Err(io::Error::other("swallowed"));
    }
    let (head, body) = answer.into_parts();
    if shared.injects(shared.faults().truncate) {
        let half = body.slice(..body.len() / 2);
        let mut response = Response::from_parts(head, cut(half));
        response
            .headers_mut()
            .insert(header::CONTENT_LENGTH, body.len().into());
        return Ok(response);
    }
    Ok(Response::from_parts(head, whole(body)))
}

/// Returns a body that fails after these bytes, so that the connection is closed.
pub(crate) fn cut(beginning: Bytes) -> ProxyBody {
    let frame = stream::iter([Ok(Frame::data(beginning))]);
    let end = stream::once(async {
        // The bytes must be sent before the connection is closed.
        tokio::time::sleep(FLUSH).await;
        Err(io::Error::other("cut"))
    });
    BodyExt::boxed(StreamBody::new(frame.chain(end)))
}
