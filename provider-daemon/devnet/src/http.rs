//! JSON-RPC of the node over HTTP on one port: calls in request bodies, calls in URLs, and the upgrade to websockets.

use super::node::DevnetNode;
use super::rpc::{call, one, parameters};
use super::rpc_call::{JsonRpcCall, RpcFailure, envelope};
use super::rpc_params::Params;
use super::serve::{Served, ServerLimits};
use super::socket;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use std::convert::Infallible;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_util::sync::CancellationToken;

/// Maximum number of calls in one request body.
const BATCH_MAX: usize = 100;

pub(super) async fn connection(
    node: DevnetNode,
    stream: TcpStream,
    limits: ServerLimits,
    stop: CancellationToken,
) -> Served {
    let service = service_fn(move |request: Request<Incoming>| {
        let (node, stop) = (node.clone(), stop.clone());
        async move { Ok::<_, Infallible>(respond(&node, request, limits, stop).await) }
    });
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        // A client that sends its head byte by byte would otherwise hold the connection forever.
        .header_read_timeout(limits.request_time)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await
        .map_err(Into::into)
}

async fn respond(
    node: &DevnetNode,
    request: Request<Incoming>,
    limits: ServerLimits,
    stop: CancellationToken,
) -> Response<Full<Bytes>> {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    if path == "websocket" {
        return upgrade(node, request, limits, stop);
    }
    match *request.method() {
        Method::POST => {
            // Limited during the read: the declared length is untrusted.
            let body = Limited::new(request.into_body(), limits.request_bytes).collect();
            match tokio::time::timeout(limits.request_time, body).await {
                Ok(Ok(body)) => json_response(StatusCode::OK, &in_body(node, &body.to_bytes()).await),
                Ok(Err(error)) => text(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()),
                Err(_) => text(
                    StatusCode::REQUEST_TIMEOUT,
                    "the request did not arrive".to_owned(),
                ),
            }
        }
        Method::GET if path.is_empty() => text(StatusCode::OK, methods()),
        Method::GET => in_address(node, &path, request.uri().query().unwrap_or_default()).await,
        _ => text(StatusCode::METHOD_NOT_ALLOWED, String::new()),
    }
}

fn text(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response
}

fn json_response(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = text(status, body.to_string());
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn methods() -> String {
    "A node of a development network: CometBFT's JSON-RPC, and its websocket at /websocket.\n".to_owned()
}

async fn in_body(node: &DevnetNode, body: &[u8]) -> Value {
    let calls = match serde_json::from_slice::<Value>(body) {
        Ok(Value::Array(calls)) if calls.len() <= BATCH_MAX => calls,
        Ok(Value::Array(_)) => {
            let failure = RpcFailure::parse(format!("more than {BATCH_MAX} calls in one request"));
            return envelope(&Value::Null, Err(failure));
        }
        Ok(call) => return value(node, call).await,
        Err(error) => return envelope(&Value::Null, Err(RpcFailure::parse(error.to_string()))),
    };
    // In order, so that a call sees the effect of the previous one.
    let mut responses = Vec::new();
    for call in calls {
        responses.push(value(node, call).await);
    }
    responses.into()
}

async fn value(node: &DevnetNode, value: Value) -> Value {
    match serde_json::from_value::<JsonRpcCall>(value) {
        Ok(call) => {
            let id = call.id.clone();
            envelope(&id, one(node, call).await)
        }
        Err(error) => envelope(&Value::Null, Err(RpcFailure::parse(error.to_string()))),
    }
}

async fn in_address(node: &DevnetNode, method: &str, query: &str) -> Response<Full<Bytes>> {
    if parameters(method).is_none() {
        return text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned());
    }
    let pairs = url::form_urlencoded::parse(query.as_bytes()).into_owned();
    let result = call(node, method, &Params::Uri(pairs.collect())).await;
    let status = if result.is_ok() {
        StatusCode::OK
    } else {
        StatusCode::INTERNAL_SERVER_ERROR
    };
    json_response(status, &envelope(&Value::Null, result))
}

fn upgrade(
    node: &DevnetNode,
    request: Request<Incoming>,
    limits: ServerLimits,
    stop: CancellationToken,
) -> Response<Full<Bytes>> {
    let headers = request.headers();
    let wanted = headers.get(header::UPGRADE).and_then(|v| v.to_str().ok());
    let key = headers.get(header::SEC_WEBSOCKET_KEY).cloned();
    let Some(key) = key.filter(|_| wanted.is_some_and(|v| v.eq_ignore_ascii_case("websocket"))) else {
        return text(StatusCode::BAD_REQUEST, "Bad Request\n".to_owned());
    };
    let Ok(accepted) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) else {
        return text(StatusCode::BAD_REQUEST, "Bad Request\n".to_owned());
    };
    let node = node.clone();
    // The upgrade completes only after the response below is sent, so it cannot be awaited here.
    tokio::spawn(async move {
        match hyper::upgrade::on(request).await {
            Ok(upgraded) => socket::serve(node, TokioIo::new(upgraded), limits, stop).await,
            Err(error) => tracing::debug!(%error, "websocket upgrade failed"),
        }
    });
    let mut response = text(StatusCode::SWITCHING_PROTOCOLS, String::new());
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accepted);
    response
}
