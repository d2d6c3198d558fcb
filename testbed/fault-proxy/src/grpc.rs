//! One gRPC connection. Each request is an HTTP/2 stream. The proxy uses the path and the height header of
//! requests, and decodes only messages about the node itself.

mod node_info;

use crate::faults::ProxyFaults;
use crate::http::{ProxyBody, cut, refusal, whole};
use crate::view::{BlockRange, Distance, has_height};
use bytes::{BufMut, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;

/// Header that contains the height, in requests and responses.
const HEIGHT: HeaderName = HeaderName::from_static("x-cosmos-block-height");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// Path of a small request, to read the newest height from the response header.
const SMALL: &str = "/cosmos.base.node.v1beta1.Service/Config";
const BROADCAST: &str = "/cosmos.tx.v1beta1.Service/BroadcastTx";
const NODE: &str = "/cosmos.base.tendermint.";
const KIND: HeaderValue = HeaderValue::from_static("application/grpc");

type GrpcClient = Client<HttpConnector, ProxyBody>;

/// Serves a connection until the client or a fault closes it.
pub(crate) async fn connection(shared: Arc<ProxyFaults>, stream: TcpStream) {
    let http: GrpcClient = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http();
    let service = service_fn(move |request| answer(Arc::clone(&shared), http.clone(), request));
    let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service);
    // A client that disconnects is not an error of the proxy.
    drop(serving.await);
}

/// Responds to a request as the simulated node, which can lag and lack old blocks. An error ends only the
/// stream of this request.
async fn answer(
    shared: Arc<ProxyFaults>,
    http: GrpcClient,
    request: Request<Incoming>,
) -> io::Result<Response<ProxyBody>> {
    shared.thaw().await;
    if shared.faults().refused {
        shared.count(|stats| stats.faults += 1);
        return Ok(refusal());
    }
    let path = request.uri().path().to_owned();
    shared.count(|stats| {
        stats.questions += 1;
        stats.polls += u64::from(path.starts_with(NODE));
    });
    let mut request = request.map(|body| body.map_err(io::Error::other).boxed());
    let answer = match apply_view(&shared, &http, &mut request).await? {
        Some(answer) => answer,
        None => forward(&shared, &http, request).await?,
    };
    if path == BROADCAST {
        shared.count(|stats| stats.broadcasts += 1);
    }
    shared.thaw().await;
    shared.delay().await;
    if shared.injects(shared.faults().swallow) {
        return Err(io::Error::other("swallowed"));
    }
    if !shared.injects(shared.faults().truncate) {
        return Ok(answer);
    }
    let (head, body) = answer.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Response::from_parts(head, cut(body.slice(..body.len() / 2))))
}

/// Changes a request so that the upstream node responds like the simulated node. Returns a response if the
/// request must not be forwarded.
async fn apply_view(
    shared: &ProxyFaults,
    http: &GrpcClient,
    request: &mut Request<ProxyBody>,
) -> io::Result<Option<Response<ProxyBody>>> {
    let path = request.uri().path();
    if let Some(change) = node_info::changed(path, shared.faults()) {
        shared.count(|stats| stats.faults += 1);
        return Ok(Some(node_info::response(change, newest(shared, http).await?)));
    }
    let Some(distance) = Distance::from_shared(shared).filter(|_| has_height(path)) else {
        return Ok(None);
    };
    shared.count(|stats| stats.faults += 1);
    let view = distance.at(newest(shared, http).await?);
    if node_info::is_of_blocks(path) {
        return view.block(request).await;
    }
    Ok(view.pin(request.headers_mut()))
}

impl BlockRange {
    /// Adds the height of the simulated node to a request without a height. Returns an error response for an
    /// unavailable height.
    fn pin(&self, headers: &mut HeaderMap) -> Option<Response<ProxyBody>> {
        let Some(asked) = headers.get(&HEIGHT) else {
            headers.insert(HEIGHT, self.height.into());
            return None;
        };
        // The node itself refuses an invalid height.
        let asked: u64 = asked.to_str().ok()?.parse().ok()?;
        let (_, meaning, text) = self.refusal(asked)?;
        let mut answer = node_info::refused(node_info::UNKNOWN, format!("{text}: {meaning}"));
        answer.headers_mut().insert(HEIGHT, self.height.into());
        Some(answer)
    }
}

/// Returns the newest height of the upstream node.
async fn newest(shared: &ProxyFaults, http: &GrpcClient) -> io::Result<u64> {
    // Flag without compression, and a message of length 0.
    let mut empty = BytesMut::new();
    empty.put_bytes(0, 5);
    let request = Request::post(format!("http://{}{SMALL}", shared.upstream))
        .header(header::CONTENT_TYPE, KIND)
        .header(header::TE, "trailers")
        .body(whole(empty))
        .map_err(io::Error::other)?;
    let answer = http.request(request).await.map_err(io::Error::other)?;
    let height = answer
        .headers()
        .get(&HEIGHT)
        .and_then(|height| height.to_str().ok()?.parse().ok());
    height.ok_or_else(|| io::Error::other("the response has no height"))
}

async fn forward(
    shared: &ProxyFaults,
    http: &GrpcClient,
    request: Request<ProxyBody>,
) -> io::Result<Response<ProxyBody>> {
    let (mut head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    head.uri = Uri::try_from(format!("http://{}{path}", shared.upstream)).map_err(io::Error::other)?;
    let answer = http.request(Request::from_parts(head, body)).await;
    Ok(answer
        .map_err(io::Error::other)?
        .map(|body| body.map_err(io::Error::other).boxed()))
}
