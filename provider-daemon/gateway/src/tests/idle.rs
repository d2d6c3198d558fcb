//! HTTP/2 connections without open calls, or with a client that has stopped responding.

use super::clients::{Client, Connection};
use super::grpc::{self, SERVICE};
use super::world::{SDL, World};
use akash_provider_chain::proto::akash::provider::v1::Status;
use http_body_util::BodyExt;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_millis(400);

// Frame types.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// HTTP/2 client that responds to nothing, not even to pings.
struct SilentClient(Connection);

impl SilentClient {
    /// Connects and sends the HTTP/2 connection preface.
    async fn connect(world: &World) -> Self {
        let tls = Client::new(world.grpc).alpn(&["h2"]).connect().await.unwrap();
        let mut client = Self(tls);
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        client.send(&frame(SETTINGS, 0, 0, &[])).await;
        client
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
        self.0.flush().await.unwrap();
    }

    /// Starts a gRPC call. If `is_whole` is false, the request never ends.
    async fn call(&mut self, method: &str, is_whole: bool) {
        // Literal headers: POST, https, a path, an authority and a content type.
        let mut head = vec![0x83, 0x87];
        let path = format!("{SERVICE}/{method}");
        for (name, value) in [
            (&[4][..], path.as_str()),
            (&[1], "localhost"),
            (&[0x0f, 0x10], "application/grpc"),
        ] {
            head.extend(name);
            head.push(u8::try_from(value.len()).unwrap());
            head.extend(value.as_bytes());
        }
        self.send(&frame(HEADERS, END_HEADERS, 1, &head)).await;
        if is_whole {
            self.send(&frame(DATA, END_STREAM, 1, &[0; 5])).await;
        }
    }

    async fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let reading = async {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).await.ok()?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            self.0.read_exact(&mut payload).await.ok()?;
            Some((head[3], payload))
        };
        timeout(TIMEOUT, reading).await.expect("a frame, or the end")
    }

    /// Returns the frames until the end of the connection.
    async fn rest(&mut self) -> Vec<(u8, Vec<u8>)> {
        let mut all = Vec::new();
        while let Some(frame) = self.next().await {
            all.push(frame);
        }
        all
    }
}

fn is_goaway(frames: &[(u8, Vec<u8>)]) -> bool {
    let words = frames.iter().filter(|(kind, _)| *kind == GOAWAY);
    let codes: Vec<&[u8]> = words.map(|(_, payload)| &payload[4..8]).collect();
    !codes.is_empty() && codes.iter().all(|code| *code == [0; 4])
}

#[tokio::test]
async fn idle_http2_connection_gets_goaway_and_closes() {
    let world = World::with(|s| {
        s.limits.idle = IDLE;
        s.limits.grace = Duration::from_millis(200);
        s.limits.body = Duration::from_millis(200);
    })
    .await;
    // A connection without a call, one with a finished call, and one with an endless request.
    let mut silent = SilentClient::connect(&world).await;
    assert!(is_goaway(&silent.rest().await));
    let mut done = SilentClient::connect(&world).await;
    done.call("GetStatus", true).await;
    let asked = Instant::now();
    let frames = done.rest().await;
    assert!(
        frames
            .iter()
            .any(|(kind, payload)| *kind == DATA && payload.len() > 5)
    );
    assert!(
        is_goaway(&frames) && asked.elapsed() >= IDLE,
        "{:?}",
        asked.elapsed()
    );
    let mut endless = SilentClient::connect(&world).await;
    endless.call("GetStatus", false).await;
    let frames = endless.rest().await;
    assert!(frames.iter().any(|(kind, _)| *kind == HEADERS), "no response");
    assert!(is_goaway(&frames));
    // The client of another library closes without an error.
    let tls = Client::new(world.grpc).alpn(&["h2"]).connect().await.unwrap();
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(tls))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let path = format!("{SERVICE}/GetStatus");
    let answer = grpc::call(&mut sender, &path, "application/grpc", &[], Vec::new()).await;
    assert_eq!(grpc::whole(answer).await.1, "0");
    let ended = timeout(TIMEOUT, connection).await.expect("an end");
    assert!(ended.unwrap().is_ok());
    assert!(sender.is_closed());
    world.stop().await;
}

#[tokio::test]
async fn stream_that_waits_for_changes_is_not_idle() {
    let world = World::with(|s| s.limits.idle = IDLE).await;
    let key = world.known_tenant(1);
    let mut sender = grpc::connect(&world).await;
    let path = format!("{SERVICE}/StreamStatus");
    let mut stream = grpc::call(&mut sender, &path, "application/grpc", &[], Vec::new()).await;
    let mut active = async || {
        let frame = timeout(TIMEOUT, stream.body_mut().frame())
            .await
            .expect("a message");
        let data = frame.unwrap().unwrap().into_data().unwrap();
        let status = Status::decode(&data[5..]).unwrap();
        status.cluster.unwrap().leases.unwrap().active
    };
    assert_eq!(active().await, 0);
    // Connections that started later are closed by now.
    let mut silent = SilentClient::connect(&world).await;
    silent.rest().await;
    tokio::time::sleep(2 * IDLE).await;
    world.running(key.address(), 7, SDL).await;
    while active().await != 1 {}
    drop(stream);
    // The idle time of the connection starts with the end of its last stream.
    let gone = async {
        while !sender.is_closed() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(TIMEOUT, gone).await.expect("an end");
    world.stop().await;
}

#[tokio::test]
async fn client_without_ping_response_loses_its_stream() {
    let world = World::with(|s| {
        s.limits.ping = Duration::from_millis(100);
        s.limits.pong = Duration::from_millis(300);
    })
    .await;
    let mut dead = SilentClient::connect(&world).await;
    dead.call("StreamStatus", true).await;
    let frames = dead.rest().await;
    assert!(
        frames.iter().any(|(kind, _)| *kind == DATA),
        "the connection was not served before it was closed"
    );
    world.stop().await;
}
