//! Malformed and malicious input. The client gets a clear error or a closed connection, and other clients are
//! served.

use super::world::{SDL, World, claims, signed, tenant, token_for, until};
use akash_provider_chain::cert::{CertUsage, OwnCertificate};
use akash_provider_core::cluster::Operation;
use akash_provider_core::sdl;
use akash_provider_core::types::Address;
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_body_that_is_too_large_or_too_slow_is_refused() {
    let world = World::with(|s| {
        s.limits.body_bytes = 10_000;
        s.limits.body = Duration::from_millis(100);
    })
    .await;
    let key = world.known_tenant(1);
    world.lease(key.address(), 7, &sdl::parse(SDL).unwrap()).await;
    let large = "x".repeat(10_001);
    let reply = world.ask(&key, "PUT", "/deployment/7/manifest", &large).await;
    assert_eq!(reply.status, 413, "{}", reply.body);
    let token = token_for(&key, &json!({"access": "full"}));
    let head = format!(
        "PUT /deployment/7/manifest HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
         Connection: close\r\nContent-Length: 100\r\n\r\nonly this"
    );
    let reply = world.client().try_raw(head.as_bytes()).await.unwrap();
    assert_eq!(reply.status, 408, "{}", reply.body);
    world.stop().await;
}

#[tokio::test]
async fn slow_head_only_holds_its_own_connection_until_the_timeout() {
    let world = World::with(|s| s.limits.idle = Duration::from_millis(200)).await;
    let mut slow = world.client().connect().await.unwrap();
    slow.write_all(b"GET /status HTTP/1.1\r\nHost: x\r\n")
        .await
        .unwrap();
    assert_eq!(world.client().get("/status").await.status, 200);
    let mut rest = Vec::new();
    // Closed by the gateway, with or without a response.
    drop(
        timeout(TIMEOUT, slow.read_to_end(&mut rest))
            .await
            .expect("an end"),
    );
    assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
    world.stop().await;
}

#[tokio::test]
async fn connection_without_handshake_times_out_and_frees_its_place() {
    let world = World::with(|s| {
        s.limits.connections = 1;
        s.limits.handshake = Duration::from_millis(200);
    })
    .await;
    let silent = tokio::net::TcpStream::connect(world.address).await.unwrap();
    let reply = timeout(TIMEOUT, world.client().get("/status"))
        .await
        .expect("a place");
    assert_eq!(reply.status, 200);
    drop(silent);
    let mut nonsense = tokio::net::TcpStream::connect(world.address).await.unwrap();
    nonsense.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut rest = Vec::new();
    drop(
        timeout(TIMEOUT, nonsense.read_to_end(&mut rest))
            .await
            .expect("an end"),
    );
    assert_eq!(world.client().get("/status").await.status, 200);
    world.stop().await;
}

#[tokio::test]
async fn invalid_paths_and_queries_get_an_error_response() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    let bomb: String = (0..5_000).map(|n| format!("a{n}=b&")).collect();
    for (path, status) in [
        ("/lease/x/1/1/status".to_owned(), 400),
        ("/lease/-1/1/1/status".to_owned(), 400),
        ("/lease/99999999999999999999/1/1/status".to_owned(), 400),
        ("/lease/1/4294967296/1/status".to_owned(), 400),
        ("/lease/1/1/%00/status".to_owned(), 400),
        ("/lease/1/1/1/service/%2e%2e%2f/status".to_owned(), 404),
        ("/lease/1/1/%ff/status".to_owned(), 400),
        (format!("/lease/1/1/1/logs?{bomb}"), 400),
        (format!("/lease/1/1/1/shell?{bomb}"), 400),
        (format!("/lease/{}/1/1/status", "1".repeat(60_000)), 400),
    ] {
        let reply = world.ask(&key, "GET", &path, "").await;
        let short_path: String = path.chars().take(60).collect();
        assert_eq!(reply.status, status, "{short_path}: {}", reply.body);
        assert!(reply.body.len() < 500, "{short_path}");
    }
    // Refused for its path or its head, or disconnected: whichever comes first.
    let long = format!("/lease/{}/1/1/status", "1".repeat(300_000));
    for (path, filler) in [(long.as_str(), ""), ("/status", &"y".repeat(300_000))] {
        let reply = world.client().header("X", filler).try_send("GET", path, "").await;
        let is_refused = |status| [414, 431].contains(&status);
        assert!(reply.as_ref().map_or(true, |r| is_refused(r.status)), "{reply:?}");
    }
    world.stop().await;
}

#[tokio::test]
async fn thousands_of_unknown_issuers_do_not_lock_out_known_tenants() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    assert_eq!(world.ask(&key, "GET", "/address", "").await.status, 200);
    let mut responses = std::collections::BTreeMap::new();
    for number in 0..=100_u8 {
        let stranger = tenant(100 + number);
        let reply = world.ask(&stranger, "GET", "/address", "").await;
        *responses.entry(reply.status).or_insert(0) += 1;
    }
    // Some were looked up, the rest were not.
    assert_eq!(
        responses.keys().copied().collect::<Vec<_>>(),
        [401, 429],
        "{responses:?}"
    );
    assert_eq!(responses[&401], 60);
    assert_eq!(world.ask(&key, "GET", "/address", "").await.status, 200);
    world.stop().await;
}

#[tokio::test]
async fn a_frame_without_end_closes_its_stream() {
    let world = World::with(|s| s.limits.frame_bytes = 1000).await;
    let key = world.known_tenant(1);
    world.running(key.address(), 7, SDL).await;
    let token = token_for(&key, &json!({"access": "full"}));
    let path = "/lease/7/1/1/shell?cmd0=cat&tty=0&stdin=1&service=web&podIndex=0";
    let mut channel = world.client().bearer(&token).open(path).await.ok().unwrap();
    let large = vec![104; 5000];
    channel
        .send(tokio_tungstenite::tungstenite::Message::Binary(large.into()))
        .await;
    let (frames, _) = channel.rest().await;
    assert!(frames.is_empty(), "{frames:?}");
    assert_eq!(world.client().get("/status").await.status, 200);
    world.stop().await;
}

#[tokio::test]
async fn thousands_of_concurrent_unknown_issuers_do_not_delay_tenants() {
    const CONNECTIONS: u16 = 10;
    const EACH: u16 = 200;
    let world = World::start().await;
    let (key, forger) = (world.known_tenant(1), tenant(99));
    let access = json!({"access": "full"});
    let token = |number: u16| {
        let mut account = [7; 20];
        account[..2].copy_from_slice(&number.to_be_bytes());
        signed(&forger, &claims(&Address::from_bytes(&account).unwrap(), &access))
    };
    let flood = |from: u16| {
        let requests = (0..EACH).map(|n| {
            let end = if n + 1 == EACH {
                "Connection: close\r\n"
            } else {
                ""
            };
            let bearer = token(from * EACH + n);
            format!("GET /address HTTP/1.1\r\nHost: x\r\n{end}Authorization: Bearer {bearer}\r\n\r\n")
        });
        let all: String = requests.collect();
        let client = world.client();
        async move {
            let mut connection = client.connect().await.unwrap();
            let (mut reading, mut writing) = tokio::io::split(&mut connection);
            let mut responses = Vec::new();
            let asking = async { writing.write_all(all.as_bytes()).await.unwrap() };
            let exchange = timeout(TIMEOUT, async {
                tokio::join!(asking, reading.read_to_end(&mut responses))
            });
            drop(exchange.await.expect("all responses"));
            let text = String::from_utf8_lossy(&responses).into_owned();
            [401, 429].map(|status| text.matches(&format!("HTTP/1.1 {status} ")).count())
        }
    };
    // A known caller stays so; an unknown one from the same address must wait.
    assert_eq!(world.ask(&key, "GET", "/address", "").await.status, 200);
    let knowing = async {
        for _ in 0..20 {
            assert_eq!(world.ask(&key, "GET", "/address", "").await.status, 200);
        }
    };
    let (counts, ()) = tokio::join!(futures::future::join_all((0..CONNECTIONS).map(flood)), knowing);
    let sum = |at: usize| counts.iter().map(|c| c[at]).sum::<usize>();
    assert_eq!(sum(0) + sum(1), usize::from(CONNECTIONS * EACH));
    // All concurrent queries may be in flight when the limit is reached.
    assert!((60..60 + 16).contains(&sum(0)), "{} were looked up", sum(0));
    world.stop().await;
}

#[tokio::test]
async fn unknown_certificates_have_a_query_budget_and_others_are_served() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    let own = world.certificate(&key);
    assert_eq!(world.client().certificate(&own).get("/address").await.status, 200);
    let made = Duration::from_secs(super::world::NOW - 60);
    let (mut closed, mut refusals) = (0, 0);
    for seed in 100..170 {
        let stranger = OwnCertificate::make(tenant(seed).address(), &CertUsage::Client, made).unwrap();
        match world
            .client()
            .certificate(&stranger)
            .try_send("GET", "/address", "")
            .await
        {
            Err(_) => closed += 1,
            Ok(reply) => {
                assert_eq!(reply.status, 429, "{}", reply.body);
                refusals += 1;
            }
        }
    }
    assert_eq!((closed, refusals), (60, 10));
    assert_eq!(world.client().certificate(&own).get("/address").await.status, 200);
    world.stop().await;
}

#[tokio::test]
async fn a_message_whose_pieces_never_end_closes_its_stream() {
    use tokio_tungstenite::tungstenite::Message;
    use tokio_tungstenite::tungstenite::protocol::frame::Frame;
    use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
    let world = World::with(|s| s.limits.frame_bytes = 1000).await;
    let key = world.known_tenant(1);
    world.running(key.address(), 7, SDL).await;
    let token = token_for(&key, &json!({"access": "full"}));
    let path = "/lease/7/1/1/shell?cmd0=cat&tty=0&stdin=1&service=web&podIndex=0";
    let mut channel = world.client().bearer(&token).open(path).await.ok().unwrap();
    let mut code = Data::Binary;
    for _ in 0..20 {
        let frame = Frame::message(vec![104; 100], OpCode::Data(code), false);
        // The gateway may have closed before the last of them.
        if futures::SinkExt::send(&mut channel.0, Message::Frame(frame))
            .await
            .is_err()
        {
            break;
        }
        code = Data::Continue;
    }
    let (frames, _) = channel.rest().await;
    assert!(frames.is_empty(), "{frames:?}");
    world.stop().await;
}

#[tokio::test]
async fn open_request_is_served_during_shutdown_and_new_clients_are_refused() {
    let world = World::with(|s| s.limits.grace = TIMEOUT).await;
    let key = world.known_tenant(1);
    let lease = world.running(key.address(), 7, SDL).await;
    world.cluster.hang(Operation::Status);
    let before = world.cluster.calls(&lease);
    let asking = world.ask(&key, "GET", "/lease/7/1/1/status", "");
    let stopping = async {
        until("the query at the cluster", || async {
            world.cluster.calls(&lease) != before
        })
        .await;
        world.stop_gateway();
        let client = world.client();
        until("a closed port", || async { client.connect().await.is_err() }).await;
        world.cluster.restore(Operation::Status);
    };
    let (reply, ()) = tokio::join!(asking, stopping);
    assert_eq!(reply.status, 200, "{}", reply.body);
    world.stop().await;
}

#[tokio::test]
async fn a_stream_keeps_the_place_of_its_connection() {
    let world = World::with(|s| s.limits.connections = 1).await;
    let key = world.known_tenant(1);
    world.running(key.address(), 7, SDL).await;
    let token = token_for(&key, &json!({"access": "full"}));
    let client = world.client();
    let follow = "/lease/7/1/1/logs?follow=true";
    let stream = client.clone().bearer(&token).open(follow).await.ok().unwrap();
    let waiting = tokio::spawn(async move { client.get("/address").await.status });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    drop(stream);
    let served = timeout(TIMEOUT, waiting).await.expect("a place");
    assert_eq!(served.unwrap(), 200);
    world.stop().await;
}
