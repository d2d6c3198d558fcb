//! Connections of HTTP/2 on which nothing is under way, or whose other end is dead.

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

const PATIENCE: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_millis(400);

/// Kinds of frames.
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

/// A client that answers nothing, pings neither.
struct Mute(Connection);

impl Mute {
    /// One that has greeted.
    async fn connect(world: &World) -> Self {
        let tls = Client::new(world.grpc).alpn(&["h2"]).connect().await.unwrap();
        let mut mute = Self(tls);
        mute.say(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        mute.say(&frame(SETTINGS, 0, 0, &[])).await;
        mute
    }

    async fn say(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
        self.0.flush().await.unwrap();
    }

    /// Begins a call, and ends its request or not.
    async fn call(&mut self, method: &str, is_whole: bool) {
        // POST, https, then a path, an authority and a kind of content, each as it is.
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
        self.say(&frame(HEADERS, END_HEADERS, 1, &head)).await;
        if is_whole {
            self.say(&frame(DATA, END_STREAM, 1, &[0; 5])).await;
        }
    }

    /// The next frame: its kind and what is in it; `None` at the end of the connection.
    async fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let reading = async {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).await.ok()?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            self.0.read_exact(&mut payload).await.ok()?;
            Some((head[3], payload))
        };
        timeout(PATIENCE, reading).await.expect("a frame, or the end")
    }

    /// What comes until the end.
    async fn rest(&mut self) -> Vec<(u8, Vec<u8>)> {
        let mut all = Vec::new();
        while let Some(frame) = self.next().await {
            all.push(frame);
        }
        all
    }
}

/// True where somebody was told to go away, and that nothing was wrong.
fn is_sent_away(frames: &[(u8, Vec<u8>)]) -> bool {
    let words = frames.iter().filter(|(kind, _)| *kind == GOAWAY);
    let codes: Vec<&[u8]> = words.map(|(_, payload)| &payload[4..8]).collect();
    !codes.is_empty() && codes.iter().all(|code| *code == [0; 4])
}

#[tokio::test]
async fn an_idle_connection_of_http2_is_sent_away_and_closed() {
    let world = World::with(|s| {
        s.limits.idle = IDLE;
        s.limits.grace = Duration::from_millis(200);
        s.limits.body = Duration::from_millis(200);
    })
    .await;
    // One that was never asked anything on, one that was, and one on which a request never ends.
    let mut silent = Mute::connect(&world).await;
    assert!(is_sent_away(&silent.rest().await));
    let mut done = Mute::connect(&world).await;
    done.call("GetStatus", true).await;
    let asked = Instant::now();
    let frames = done.rest().await;
    assert!(
        frames
            .iter()
            .any(|(kind, payload)| *kind == DATA && payload.len() > 5)
    );
    assert!(
        is_sent_away(&frames) && asked.elapsed() >= IDLE,
        "{:?}",
        asked.elapsed()
    );
    let mut endless = Mute::connect(&world).await;
    endless.call("GetStatus", false).await;
    let frames = endless.rest().await;
    assert!(frames.iter().any(|(kind, _)| *kind == HEADERS), "it is answered");
    assert!(is_sent_away(&frames));
    // A library of others goes without an error.
    let tls = Client::new(world.grpc).alpn(&["h2"]).connect().await.unwrap();
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(tls))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let path = format!("{SERVICE}/GetStatus");
    let answer = grpc::call(&mut sender, &path, "application/grpc", &[], Vec::new()).await;
    assert_eq!(grpc::whole(answer).await.1, "0");
    let ended = timeout(PATIENCE, connection).await.expect("an end");
    assert!(ended.unwrap().is_ok());
    assert!(sender.is_closed());
    world.stop().await;
}

#[tokio::test]
async fn a_stream_that_waits_for_news_is_not_idle() {
    let world = World::with(|s| s.limits.idle = IDLE).await;
    let key = world.known(1);
    let mut sender = grpc::connect(&world).await;
    let path = format!("{SERVICE}/StreamStatus");
    let mut stream = grpc::call(&mut sender, &path, "application/grpc", &[], Vec::new()).await;
    let mut active = async || {
        let frame = timeout(PATIENCE, stream.body_mut().frame())
            .await
            .expect("a message");
        let data = frame.unwrap().unwrap().into_data().unwrap();
        let status = Status::decode(&data[5..]).unwrap();
        status.cluster.unwrap().leases.unwrap().active
    };
    assert_eq!(active().await, 0);
    // Others that began later are gone by now.
    let mut silent = Mute::connect(&world).await;
    silent.rest().await;
    tokio::time::sleep(2 * IDLE).await;
    world.running(key.address(), 7, SDL).await;
    while active().await != 1 {}
    drop(stream);
    // With its last stream the time of the connection begins.
    let gone = async {
        while !sender.is_closed() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, gone).await.expect("an end");
    world.stop().await;
}

#[tokio::test]
async fn who_answers_no_ping_is_dead_and_its_stream_is_ended() {
    let world = World::with(|s| {
        s.limits.ping = Duration::from_millis(100);
        s.limits.pong = Duration::from_millis(300);
    })
    .await;
    let mut dead = Mute::connect(&world).await;
    dead.call("StreamStatus", true).await;
    let frames = dead.rest().await;
    assert!(
        frames.iter().any(|(kind, _)| *kind == DATA),
        "it was served before"
    );
    world.stop().await;
}
