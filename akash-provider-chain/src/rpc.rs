//! JSON-RPC client of CometBFT over HTTP.

pub(crate) mod types;

use crate::connection;
use crate::convert::excerpt;
use crate::fault::{Fault, causes};
use crate::limits::EndpointLimits;
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::time::Duration;
use types::Envelope;
use url::Url;

/// Time after which an idle connection is closed.
const IDLE: Duration = Duration::from_secs(60);
/// Maximum number of idle connections in the pool.
const IDLE_MAX: usize = 32;

/// Prefix of the methods for which no request is sent twice, even if the node closed the connection without a
/// response.
const NOT_REPEATED: &str = "broadcast_";

#[derive(Clone)]
pub(crate) struct Rpc {
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    uri: http::Uri,
    authorization: Option<http::HeaderValue>,
    limits: EndpointLimits,
}

impl fmt::Debug for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rpc").finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct JsonRpcRequest<'a, P> {
    jsonrpc: &'a str,
    id: u32,
    method: &'a str,
    params: P,
}

impl Rpc {
    /// Creates a client of the node at `url` (`http` or `https`), without opening a connection. `tls` is used
    /// for `https`.
    pub(crate) fn new(
        url: &Url,
        limits: EndpointLimits,
        tls: Option<&rustls::ClientConfig>,
    ) -> Result<Self, String> {
        let mut tcp = HttpConnector::new();
        // The connector below TLS also receives `https` addresses, and would refuse them.
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(limits.connect_time));
        let tls = tls.map_or_else(no_tls, |tls| Ok(tls.clone()))?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let http = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_MAX)
            .build(connector);
        let mut plain = url.clone();
        let authorization = authorization(url)?;
        if plain.set_username("").is_err() || plain.set_password(None).is_err() {
            return Err("the address has no host".to_owned());
        }
        Ok(Self {
            http,
            uri: plain
                .as_str()
                .parse()
                .map_err(|e: http::uri::InvalidUri| e.to_string())?,
            authorization,
            limits,
        })
    }

    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Serialize + Send,
    ) -> Result<T, Fault> {
        let time = self.limits.response_time;
        let answer = tokio::time::timeout(time, self.send(method, params)).await;
        let body = answer.map_err(|_| Fault::Timeout(time))??;
        result(&body)
    }

    async fn send(&self, method: &str, params: impl Serialize + Send) -> Result<Bytes, Fault> {
        let call = JsonRpcRequest {
            jsonrpc: "2.0",
            id: 1,
            method,
            params,
        };
        let internal = |e: String| Fault::Malformed(format!("cannot encode the request: {e}"));
        let body = serde_json::to_vec(&call).map_err(|e| internal(e.to_string()))?;
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(self.uri.clone())
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(value) = &self.authorization {
            request = request.header(header::AUTHORIZATION, value.clone());
        }
        let request = request.body(Full::new(Bytes::from(body)));
        let request = request.map_err(|e| internal(e.to_string()))?;
        let response = match self.http.request(request.clone()).await {
            // The node closed an idle connection at the moment of its reuse.
            Err(error) if connection::is_closed(&error) && !method.starts_with(NOT_REPEATED) => {
                self.http.request(request).await
            }
            response => response,
        };
        let response = response.map_err(|e| connection::fault(&e, e.is_connect()))?;
        let status = response.status();
        let limit = self.limits.response_bytes;
        let body = Limited::new(response.into_body(), limit).collect().await;
        let body = body.map_err(|e| match e.downcast::<LengthLimitError>() {
            Ok(_) => Fault::TooLarge { limit },
            Err(e) => Fault::Unreachable(format!("the response is incomplete: {}", causes(&*e))),
        })?;
        let body = body.to_bytes();
        // A JSON-RPC error has status 500. For a body without JSON-RPC, the status decides.
        if !status.is_success() && serde_json::from_slice::<Envelope<'_>>(&body).is_err() {
            if connection::is_tls_required(&body) {
                return Err(connection::tls_required());
            }
            return Err(Fault::Http {
                status: status.as_u16(),
                beginning: excerpt(&String::from_utf8_lossy(&body)),
            });
        }
        Ok(body)
    }
}

pub(crate) fn result<T: DeserializeOwned>(body: &[u8]) -> Result<T, Fault> {
    let beginning = || excerpt(&String::from_utf8_lossy(body));
    let envelope: Envelope<'_> = serde_json::from_slice(body)
        .map_err(|e| Fault::Malformed(format!("not a JSON-RPC response ({e}): {}", beginning())))?;
    if let Some(error) = envelope.error {
        return Err(error.into_fault());
    }
    let result = envelope.result;
    let result = result.ok_or_else(|| {
        Fault::Malformed(format!(
            "response without a result and without an error: {}",
            beginning()
        ))
    })?;
    serde_json::from_str(result.get()).map_err(|e| Fault::Malformed(e.to_string()))
}

fn authorization(url: &Url) -> Result<Option<http::HeaderValue>, String> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(None);
    }
    let pair = format!("{}:{}", url.username(), url.password().unwrap_or_default());
    let encoded = data_encoding::BASE64.encode(pair.as_bytes());
    let value = http::HeaderValue::from_str(&format!("Basic {encoded}"));
    let mut value = value.map_err(|e| e.to_string())?;
    // Excludes the value from the logs of the HTTP library.
    value.set_sensitive(true);
    Ok(Some(value))
}

/// Returns a TLS configuration without trusted certificates, for addresses without TLS.
fn no_tls() -> Result<rustls::ClientConfig, String> {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|e| e.to_string())?;
    Ok(builder
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// Starts a node that closes each connection at the second request. Also returns the number of accepted
    /// connections.
    async fn node() -> (Url, Arc<AtomicUsize>) {
        const BODY: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    let mut request = vec![0; 4096];
                    assert_ne!(stream.read(&mut request).await.unwrap(), 0);
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", BODY.len());
                    stream
                        .write_all(format!("{head}{BODY}").as_bytes())
                        .await
                        .unwrap();
                    let _ = stream.read(&mut request).await;
                });
            }
        });
        (url.parse().unwrap(), connections)
    }

    #[tokio::test]
    async fn query_on_a_closed_connection_is_retried_but_not_a_transaction() {
        for (method, is_repeated) in [("status", true), ("broadcast_tx_sync", false)] {
            let (url, connections) = node().await;
            let rpc = Rpc::new(&url, EndpointLimits::default(), None).unwrap();
            rpc.call::<Value>("status", json!({})).await.unwrap();
            let second = rpc.call::<Value>(method, json!({})).await;
            assert_eq!(second.is_ok(), is_repeated, "{method}: {second:?}");
            assert_eq!(
                connections.load(Ordering::Relaxed),
                1 + usize::from(is_repeated),
                "{method}"
            );
        }
    }
}
