//! A scripted API server on loopback.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Resource or subresource: the last segment of the path.
    pub(crate) resource: String,
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) body: String,
    pub(crate) at: Instant,
}

impl Request {
    pub(crate) fn is_watch(&self) -> bool {
        self.query.contains_key("watch")
    }

    pub(crate) fn get(&self, key: &str) -> &str {
        self.query.get(key).map_or("", String::as_str)
    }
}

/// Part of a streamed response.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Bytes(Vec<u8>),
    Pause(Duration),
    /// Sends no more data, but keeps the response open.
    Stall,
    /// Closes the connection.
    Cut,
}

#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Json(u16, Vec<(&'static str, String)>, Value),
    Text(u16, Vec<(&'static str, String)>, &'static str),
    Stream(Vec<Part>),
    /// Closes the connection without a response.
    Nothing,
    /// Keeps the connection open without a response.
    Silence,
}

impl Reply {
    pub(crate) fn status(code: u16, reason: &str) -> Self {
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
            "message": format!("scripted {code}"),
        });
        Self::Json(code, Vec::new(), body)
    }

    pub(crate) fn list(version: &str, items: Vec<Value>) -> Self {
        Self::page(version, items, "")
    }

    pub(crate) fn page(version: &str, items: Vec<Value>, next: &str) -> Self {
        let body = json!({
            "kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": version, "continue": next},
            "items": items,
        });
        Self::Json(200, Vec::new(), body)
    }

    /// Returns an access review that grants the requested right.
    fn allowed() -> Self {
        let body = json!({
            "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": {},
            "status": {"allowed": true},
        });
        Self::Json(201, Vec::new(), body)
    }

    pub(crate) fn watch(events: &[Value], then: Option<Part>) -> Self {
        let line = |event: &Value| Part::Bytes(format!("{event}\n").into_bytes());
        Self::Stream(events.iter().map(line).chain(then).collect())
    }
}

pub(crate) fn event(kind: &str, object: &Value) -> Value {
    json!({"type": kind, "object": object})
}

pub(crate) fn bookmark(version: &str) -> Value {
    event(
        "BOOKMARK",
        &json!({"kind": "X", "apiVersion": "v1", "metadata": {"resourceVersion": version}}),
    )
}

/// Function that returns the reply to a request. The second argument is the number of earlier requests with
/// the same path; watches count separately. If the function returns `None`, the server sends an empty list,
/// no events, or a granted access review.
pub(crate) type Script = dyn Fn(&Request, usize) -> Option<Reply> + Send + Sync;

pub(crate) struct Server {
    pub(crate) port: u16,
    log: Arc<Mutex<Vec<Request>>>,
    sent: Arc<Sent>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Sent {
    /// Number of response parts that the server has written.
    parts: AtomicUsize,
    /// Number of streams that wait for the client to close the connection.
    stalled: AtomicUsize,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn start(
        script: impl Fn(&Request, usize) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, script)
    }

    pub(crate) fn on(
        listener: TcpListener,
        script: impl Fn(&Request, usize) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        let port = listener.local_addr().unwrap().port();
        let log = Arc::new(Mutex::new(Vec::new()));
        let script: Arc<Script> = Arc::new(script);
        let sent = Arc::<Sent>::default();
        let task = tokio::spawn(accept(listener, Arc::clone(&log), script, Arc::clone(&sent)));
        Self {
            port,
            log,
            sent,
            task,
        }
    }

    pub(crate) fn parts_sent(&self) -> usize {
        self.sent.parts.load(Ordering::Relaxed)
    }

    pub(crate) fn stalled(&self) -> usize {
        self.sent.stalled.load(Ordering::Relaxed)
    }

    /// Returns a client without retries, so that requests can be counted.
    pub(crate) fn client(&self) -> kube::Client {
        client(self.port, false)
    }

    pub(crate) fn calls(&self, resource: &str, watch: bool) -> Vec<Request> {
        let log = self.log.lock().unwrap();
        let of = |r: &&Request| r.resource == resource && r.is_watch() == watch;
        log.iter().filter(of).cloned().collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.log.lock().unwrap().len()
    }
}

pub(crate) fn client(port: u16, retry: bool) -> kube::Client {
    let mut config = kube::Config::new(format!("http://127.0.0.1:{port}").parse().unwrap());
    config.default_retry = retry;
    kube::Client::try_from(config).unwrap()
}

async fn accept(listener: TcpListener, log: Arc<Mutex<Vec<Request>>>, script: Arc<Script>, sent: Arc<Sent>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (log, script, sent) = (Arc::clone(&log), Arc::clone(&script), Arc::clone(&sent));
        connections.spawn(serve(stream, log, script, sent));
    }
}

async fn serve(stream: TcpStream, log: Arc<Mutex<Vec<Request>>>, script: Arc<Script>, sent: Arc<Sent>) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await {
        let nth = {
            let mut log = log.lock().unwrap();
            let alike = |r: &&Request| r.path == request.path && r.is_watch() == request.is_watch();
            let nth = log.iter().filter(alike).count();
            log.push(request.clone());
            nth
        };
        let reply = script(&request, nth).unwrap_or_else(|| {
            if request.is_watch() {
                Reply::Stream(vec![Part::Stall])
            } else if request.resource == "selfsubjectaccessreviews" {
                Reply::allowed()
            } else {
                Reply::list("1", Vec::new())
            }
        });
        if !answer(&mut stream, reply, &sent).await {
            return;
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut first = String::new();
    stream.read_line(&mut first).await.ok().filter(|n| *n > 0)?;
    let mut length = 0;
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await.ok().filter(|n| *n > 0)?;
        if header == "\r\n" {
            break;
        }
        if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    tokio::io::AsyncReadExt::read_exact(stream, &mut body)
        .await
        .ok()?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    Some(Request {
        method: method.to_owned(),
        body: String::from_utf8(body).ok()?,
        resource: path.rsplit('/').next()?.to_owned(),
        path: path.to_owned(),
        query: pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        at: Instant::now(),
    })
}

/// Sends a response. Returns `false` if the connection is closed.
async fn answer(stream: &mut BufReader<TcpStream>, reply: Reply, sent: &Sent) -> bool {
    let (code, headers, body) = match reply {
        Reply::Nothing => return false,
        Reply::Silence => {
            let mut rest = Vec::new();
            let _ = tokio::io::AsyncReadExt::read_to_end(stream, &mut rest).await;
            return false;
        }
        Reply::Stream(parts) => return send(stream, parts, sent).await.is_some(),
        Reply::Json(code, headers, value) => (code, headers, value.to_string()),
        Reply::Text(code, headers, text) => (code, headers, text.to_owned()),
    };
    let headers: String = headers.iter().map(|(k, v)| format!("{k}: {v}\r\n")).collect();
    let head = format!(
        "HTTP/1.1 {code} X\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.is_ok()
}

async fn send(stream: &mut BufReader<TcpStream>, parts: Vec<Part>, sent: &Sent) -> Option<()> {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.ok()?;
    for part in parts {
        match part {
            Part::Bytes(bytes) => {
                let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
                chunk.extend(bytes);
                chunk.extend(b"\r\n");
                stream.write_all(&chunk).await.ok()?;
                stream.flush().await.ok()?;
                sent.parts.fetch_add(1, Ordering::Relaxed);
            }
            Part::Pause(time) => tokio::time::sleep(time).await,
            Part::Stall => {
                // Wait until the client closes the connection.
                let mut rest = Vec::new();
                sent.stalled.fetch_add(1, Ordering::Relaxed);
                let _ = tokio::io::AsyncReadExt::read_to_end(stream, &mut rest).await;
                sent.stalled.fetch_sub(1, Ordering::Relaxed);
                return None;
            }
            Part::Cut => return None,
        }
    }
    stream.write_all(b"0\r\n\r\n").await.ok()
}
