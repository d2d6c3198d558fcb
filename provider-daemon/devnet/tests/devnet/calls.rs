//! HTTP and JSON-RPC calls to a development network, without a chain client.

use data_encoding::BASE64;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// Sends one HTTP request on a new connection. Returns status and body.
pub(crate) async fn request(url: &str, method: &str, path: &str, body: impl Into<Bytes>) -> (u16, Vec<u8>) {
    let host = url.trim_start_matches("http://").to_owned();
    let stream = TcpStream::connect(&host).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("host", host)
        .body(Full::new(body.into()))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes().to_vec();
    drop(sender);
    connection.await.unwrap().unwrap();
    (status, body)
}

pub(crate) async fn call(url: &str, method: &str, params: Value) -> Value {
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let (_, body) = request(url, "POST", "/", call.to_string()).await;
    serde_json::from_slice(&body).unwrap()
}

pub(crate) async fn get(url: &str, path: &str) -> (u16, Value) {
    let (status, body) = request(url, "GET", path, "").await;
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

pub(crate) async fn broadcast(url: &str, tx: &[u8]) -> Value {
    call(url, "broadcast_tx_sync", json!({"tx": BASE64.encode(tx)})).await
}
