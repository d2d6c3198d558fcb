//! Lost responses. The publisher does not know whether the server stored the event, so it sends the event
//! again. The server stores the event once.

use crate::server::Server;
use crate::{delivery_of, fact, next};
use akash_provider_core::bus::Bus;
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::types::Topic;
use akash_provider_redis::RedisBus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Starts a TCP proxy to the server. If `keeps_back` is true, the proxy drops the next response to a
/// published event, and closes the connection.
async fn proxy(to: u16, keeps_back: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
            tokio::spawn(pass(near, far, Arc::clone(&keeps_back)));
        }
    });
    port
}

async fn pass(near: TcpStream, far: TcpStream, keeps_back: Arc<AtomicBool>) {
    let (mut from_near, mut to_near) = near.into_split();
    let (mut from_far, mut to_far) = far.into_split();
    let was_event = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&was_event);
    let up = tokio::spawn(async move {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from_near.read(&mut buffer).await {
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            asked.store(text.contains("breaker_tripped"), Ordering::SeqCst);
            if to_far.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    });
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from_far.read(&mut buffer).await {
        let refused = buffer.starts_with(b"-NOSCRIPT");
        if was_event.load(Ordering::SeqCst) && !refused && keeps_back.swap(false, Ordering::SeqCst) {
            break;
        }
        if to_near.write_all(&buffer[..length]).await.is_err() {
            break;
        }
    }
    up.abort();
}

#[tokio::test]
async fn event_with_lost_response_is_stored_once() {
    let Some(server) = Server::start() else { return };
    let keeps_back = Arc::new(AtomicBool::new(false));
    let port = proxy(server.port, Arc::clone(&keeps_back)).await;
    let bus = RedisBus::new(
        format!("redis://127.0.0.1:{port}").parse().unwrap(),
        LeadershipGate::new(true),
    );
    let reader = RedisBus::new(server.location(), LeadershipGate::new(true));
    let mut facts = reader.subscribe(&[Topic::Facts]).await.unwrap();
    for number in 0..10 {
        keeps_back.store(number % 2 == 1, Ordering::SeqCst);
        bus.publish(Topic::Facts, fact(number)).await.unwrap();
        assert!(!keeps_back.load(Ordering::SeqCst), "no response was held back");
    }
    for number in 0..10 {
        assert_eq!(next(&mut facts).await, delivery_of(Topic::Facts, number));
    }
    let length: u32 = server
        .command(&["XLEN", "{akash-provider}:stream:akash.provider.facts"])
        .await;
    assert_eq!(length, 10);
}
