//! JSON-RPC requests, and the responses of nodes that lag or have pruned blocks.

use crate::faults::ProxyFaults;
use crate::number::number;
use crate::view::{BlockRange, Distance, has_height};
use bytes::Bytes;
use http::{Method, Request, Response, header, request};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use std::io;

/// An unsupported API version.
pub(crate) const UNSUPPORTED: &str = "v9";
/// Maximum size of a response.
const BYTES_MAX: usize = 64 << 20;

/// Client of the upstream node.
pub(crate) type RpcClient = Client<HttpConnector, Full<Bytes>>;

/// Responds to a request as the simulated node. The node can lag, and can lack old blocks.
pub(crate) async fn answer(
    shared: &ProxyFaults,
    http: &RpcClient,
    head: &request::Parts,
    body: Bytes,
) -> io::Result<Response<Bytes>> {
    shared.count(|stats| stats.questions += 1);
    let call = serde_json::from_slice::<Value>(&body)
        .ok()
        .filter(Value::is_object);
    let Some(mut call) = call else {
        // Requests in the URL and other requests are forwarded unchanged.
        return forward(shared, http, head, body).await;
    };
    let method = call["method"].as_str().unwrap_or_default().to_owned();
    match method.as_str() {
        "broadcast_tx_sync" => {
            let answer = forward(shared, http, head, body).await;
            shared.count(|stats| stats.broadcasts += 1);
            return answer;
        }
        "status" | "block" | "block_results" | "header" => shared.count(|stats| stats.polls += 1),
        _ => {}
    }
    let asked = number(&call["params"]["height"]);
    let path = call["params"]["path"].as_str().unwrap_or_default().to_owned();
    let lie = shared.faults().lie;
    let body = match lie {
        Some(lie) => {
            lie.change_request(&method, &mut call["params"]);
            call.to_string().into()
        }
        None => body,
    };
    let answer = apply_view(shared, http, head, body, &method, &mut call).await?;
    let answer = match lie {
        Some(lie) => with_result(shared, answer, |result| {
            lie.change_result(&method, &path, asked, result)
        }),
        None => answer,
    };
    Ok(changed(shared, &method, answer))
}

/// Changes the result in a response, if the response has one.
fn with_result(
    shared: &ProxyFaults,
    mut answer: Response<Bytes>,
    change: impl FnOnce(&mut Value),
) -> Response<Bytes> {
    let parsed = serde_json::from_slice::<Value>(answer.body()).ok();
    let Some(mut body) = parsed.filter(|body| body["result"].is_object()) else {
        return answer;
    };
    let before = body["result"].clone();
    change(&mut body["result"]);
    if body["result"] != before {
        shared.count(|stats| stats.faults += 1);
        *answer.body_mut() = body.to_string().into();
    }
    answer
}

/// Returns the response that a lagging or pruned node would send.
async fn apply_view(
    shared: &ProxyFaults,
    http: &RpcClient,
    head: &request::Parts,
    body: Bytes,
    method: &str,
    call: &mut Value,
) -> io::Result<Response<Bytes>> {
    let Some(distance) = Distance::from_shared(shared) else {
        return forward(shared, http, head, body).await;
    };
    shared.count(|stats| stats.faults += 1);
    let newest = ask(shared, http, "status", json!({})).await?;
    let view = distance.at(number(&newest["sync_info"]["latest_block_height"]));
    match view.change(method, call) {
        Some(refusal) => {
            let mut answer = refusal;
            answer["jsonrpc"] = "2.0".into();
            answer["id"] = call["id"].clone();
            Ok(Response::new(answer.to_string().into()))
        }
        None if method == "status" => older_status(shared, http, &call["id"], view.height).await,
        None => forward(shared, http, head, call.to_string().into()).await,
    }
}

/// Applies the active faults to a response about the node.
fn changed(shared: &ProxyFaults, method: &str, answer: Response<Bytes>) -> Response<Bytes> {
    let faults = shared.faults();
    let is_changed = match method {
        "status" => faults.catching_up,
        "akash" => faults.other_versions,
        "abci_query" => faults.no_state,
        _ => false,
    };
    if !is_changed {
        return answer;
    }
    with_result(shared, answer, |result| match method {
        "status" => result["sync_info"]["catching_up"] = true.into(),
        "abci_query" => result["response"] = json!({"code": 1, "codespace": "undefined", "log": "internal"}),
        _ => {
            let modules = json!([{"module": "market", "version": UNSUPPORTED}]);
            result["client_info"]["api_version"] = UNSUPPORTED.into();
            result["supported_versions"] =
                json!([{"api_version": UNSUPPORTED, "modules": modules, "features": null}]);
        }
    })
}

impl BlockRange {
    /// Changes a request so that the upstream node responds like the simulated node. Returns the simulated
    /// node's error, if any.
    fn change(&self, method: &str, call: &mut Value) -> Option<Value> {
        let asked = number(&call["params"]["height"]);
        let error = |text: String| {
            let error = json!({"code": -32603, "message": "Internal error", "data": text});
            Some(json!({"error": error}))
        };
        match method {
            "block" | "block_results" | "header" if asked > self.height => error(format!(
                "height {asked} must be less than or equal to the current blockchain height {}",
                self.height
            )),
            "block" | "block_results" if asked > 0 && asked < self.oldest => error(format!(
                "height {asked} is not available, lowest height is {}",
                self.oldest
            )),
            "block" | "block_results" | "header" if asked == 0 => {
                call["params"]["height"] = self.height.to_string().into();
                None
            }
            "abci_query" => self.change_query(call, asked),
            _ => None,
        }
    }

    fn change_query(&self, call: &mut Value, asked: u64) -> Option<Value> {
        let path = call["params"]["path"].as_str().unwrap_or_default();
        if !has_height(path) {
            return None;
        }
        if let Some((code, meaning, text)) = self.refusal(asked) {
            let (log, height) = (format!("{text}: {meaning}"), asked.to_string());
            let response =
                json!({"code": code, "codespace": "sdk", "log": log, "value": null, "height": height});
            return Some(json!({"result": {"response": response}}));
        }
        if asked == 0 {
            call["params"]["height"] = self.height.to_string().into();
        }
        None
    }
}

/// Returns the status of the upstream node with `height` as the newest block.
async fn older_status(
    shared: &ProxyFaults,
    http: &RpcClient,
    id: &Value,
    height: u64,
) -> io::Result<Response<Bytes>> {
    let mut status = ask(shared, http, "status", json!({})).await?;
    let block = ask(shared, http, "block", json!({"height": height.to_string()})).await?;
    status["sync_info"]["latest_block_height"] = height.to_string().into();
    status["sync_info"]["latest_block_hash"] = block["block_id"]["hash"].clone();
    status["sync_info"]["latest_block_time"] = block["block"]["header"]["time"].clone();
    let answer = json!({"jsonrpc": "2.0", "id": id, "result": status});
    Ok(Response::new(answer.to_string().into()))
}

/// Sends a request of the proxy itself to the upstream node.
async fn ask(shared: &ProxyFaults, http: &RpcClient, method: &str, params: Value) -> io::Result<Value> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("http://{}/", shared.upstream))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(io::Error::other)?;
    let answer = http.request(request).await.map_err(io::Error::other)?;
    let body = Limited::new(answer.into_body(), BYTES_MAX).collect().await;
    let body = body.map_err(io::Error::other)?.to_bytes();
    let mut answer: Value = serde_json::from_slice(&body)?;
    Ok(answer["result"].take())
}

async fn forward(
    shared: &ProxyFaults,
    http: &RpcClient,
    head: &request::Parts,
    body: Bytes,
) -> io::Result<Response<Bytes>> {
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::builder()
        .method(head.method.clone())
        .uri(format!("http://{}{path}", shared.upstream));
    if let Some(kind) = head.headers.get(header::CONTENT_TYPE) {
        request = request.header(header::CONTENT_TYPE, kind);
    }
    let request = request.body(Full::new(body)).map_err(io::Error::other)?;
    let answer = http.request(request).await.map_err(io::Error::other)?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, BYTES_MAX).collect().await;
    let mut response = Response::new(body.map_err(io::Error::other)?.to_bytes());
    *response.status_mut() = head.status;
    if let Some(kind) = head.headers.get(header::CONTENT_TYPE) {
        response.headers_mut().insert(header::CONTENT_TYPE, kind.clone());
    }
    Ok(response)
}
