//! Simulated nodes on the loopback interface, for tests.

pub(crate) mod chain;
mod event;
pub(crate) mod grpc;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// A JSON-RPC result.
    Result(Value),
    /// A JSON-RPC error with this code and text.
    Error(i64, String),
    /// An HTTP status with this body.
    Raw(u16, Vec<u8>),
    /// An incomplete response. After this response, the node closes the connection.
    Cut(Vec<u8>),
    /// The node sends no response.
    Hang,
}

type Answer = Arc<dyn Fn(&str, &Value) -> Reply + Send + Sync>;

/// Behavior of the websocket of a node.
#[derive(Debug, Default)]
pub(crate) struct Pushes {
    /// Refuses connections.
    pub(crate) refused: AtomicBool,
    /// Accepts connections but sends nothing, not even a pong.
    pub(crate) frozen: AtomicBool,
    /// Number of subscriptions that the node has accepted.
    pub(crate) subscribed: AtomicU64,
}

/// Simulated node. Dropping the node closes all connections.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) url: String,
    pub(crate) pushes: Arc<Pushes>,
    pub(crate) calls: Arc<AtomicU64>,
    frames: broadcast::Sender<String>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Serving {
    response: Answer,
    pushes: Arc<Pushes>,
    calls: Arc<AtomicU64>,
    frames: broadcast::Sender<String>,
}

impl Node {
    /// Starts a node with a response function, at the given address or on a free port.
    pub(crate) async fn start_at(
        at: Option<SocketAddr>,
        response: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let at = at.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
        let listener = listen(at).await;
        let (frames, _) = broadcast::channel(1024);
        let serving = Serving {
            response: Arc::new(response),
            pushes: Arc::default(),
            calls: Arc::default(),
            frames: frames.clone(),
        };
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (pushes, calls) = (Arc::clone(&serving.pushes), Arc::clone(&serving.calls));
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let serving = serving.clone();
                connections.spawn(async move { serving.connection(stream).await });
                while connections.try_join_next().is_some() {}
            }
        });
        Self {
            url,
            pushes,
            calls,
            frames,
            task,
        }
    }

    pub(crate) async fn start(response: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_at(None, response).await
    }

    pub(crate) fn push(&self, frame: String) {
        drop(self.frames.send(frame));
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.url.trim_start_matches("http://").parse().unwrap()
    }
}

impl Serving {
    async fn connection(self, mut stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let mut start = [0_u8; 14];
        loop {
            let seen = stream.peek(&mut start).await.unwrap_or(0);
            if seen == 0 || seen >= start.len() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if start.starts_with(b"GET /websocket") {
            if !self.pushes.refused.load(Ordering::Relaxed) {
                self.websocket(stream).await;
            }
            return;
        }
        let mut buffer = Vec::new();
        while let Some(body) = request(&mut stream, &mut buffer).await {
            if !self.reply(&mut stream, &body).await {
                return;
            }
        }
    }

    async fn reply(&self, stream: &mut TcpStream, body: &[u8]) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let call: Value = serde_json::from_slice(body).unwrap();
        let reply = (self.response)(call["method"].as_str().unwrap(), &call["params"]);
        let (status, body) = match reply {
            Reply::Result(result) => (
                200,
                json!({"jsonrpc": "2.0", "id": 1, "result": result})
                    .to_string()
                    .into(),
            ),
            Reply::Error(code, data) => {
                let error = json!({"code": code, "message": "Internal error", "data": data});
                (
                    500,
                    json!({"jsonrpc": "2.0", "id": 1, "error": error})
                        .to_string()
                        .into(),
                )
            }
            Reply::Raw(status, body) => (status, body),
            Reply::Cut(body) => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len() + 1000);
                drop(stream.write_all(head.as_bytes()).await);
                drop(stream.write_all(&body).await);
                return false;
            }
            Reply::Hang => {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                return false;
            }
        };
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut response = head.into_bytes();
        response.extend(body);
        stream.write_all(&response).await.is_ok()
    }

    async fn websocket(&self, stream: TcpStream) {
        let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else {
            return;
        };
        let mut frames = None;
        loop {
            if self.pushes.frozen.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_secs(3600)).await;
            }
            let next = async {
                match &mut frames {
                    None => std::future::pending().await,
                    Some(frames) => broadcast::Receiver::<String>::recv(frames).await,
                }
            };
            tokio::select! {
                message = socket.next() => {
                    let Some(Ok(message)) = message else { return };
                    if message.is_text() {
                        frames = Some(self.frames.subscribe());
                        self.pushes.subscribed.fetch_add(1, Ordering::Relaxed);
                        let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}}).to_string();
                        if socket.send(Message::text(response)).await.is_err() {
                            return;
                        }
                    }
                }
                frame = next => {
                    let Ok(frame) = frame else { return };
                    if socket.send(Message::text(frame)).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// Binds a listener. Retries for one second, because the port may still be in use.
pub(crate) async fn listen(at: SocketAddr) -> TcpListener {
    for _ in 0..200 {
        match TcpListener::bind(at).await {
            Ok(listener) => return listener,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
    TcpListener::bind(at).await.unwrap()
}

/// Reads the body of the next request.
async fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        let end = buffer.windows(4).position(|w| w == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|l| l.strip_prefix("content-length: "));
            let length: usize = length?.trim().parse().unwrap();
            let whole = end + 4 + length;
            if buffer.len() >= whole {
                let body = buffer[end + 4..whole].to_vec();
                buffer.drain(..whole);
                return Some(body);
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}
