//! Broken connections, and servers that lose data, hang or are down.

use crate::server::Server;
use crate::{delivery_of, fact, next, publish};
use akash_provider_core::bus::{Bus, Delivery};
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::types::Topic;
use akash_provider_redis::RedisBus;
use std::time::{Duration, Instant};
use testbed::free_port;

#[tokio::test]
async fn reader_resumes_at_its_position_after_broken_connection() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location(), LeadershipGate::new(true));
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    for number in 0..40 {
        publish(&bus, Topic::Facts, number).await;
        if number % 10 == 5 {
            let _: i64 = server
                .command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
                .await;
        }
        if number % 7 == 0 {
            // Some events are read before the cut, some after it.
            assert_eq!(next(&mut facts).await, delivery_of(Topic::Facts, number / 7));
        }
    }
    for number in 6..40 {
        assert_eq!(next(&mut facts).await, delivery_of(Topic::Facts, number));
    }
}

#[tokio::test]
async fn pipelined_events_are_delivered_individually_and_once() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location(), LeadershipGate::new(true));
    let mut all = bus
        .subscribe(&[Topic::Facts, Topic::ClusterStatus])
        .await
        .unwrap();
    let topic = |number: u32| match number % 10 {
        9 => Topic::ClusterStatus,
        _ => Topic::Facts,
    };
    for turn in 0..3 {
        let numbers = turn * 300..(turn + 1) * 300;
        let events: Vec<_> = numbers
            .clone()
            .map(|number| (topic(number), fact(number)))
            .collect();
        let outcomes = bus.publish_all(&events).await;
        assert!(
            outcomes.len() == 300 && outcomes.iter().all(Result::is_ok),
            "{outcomes:?}"
        );
        for number in numbers {
            assert_eq!(next(&mut all).await, delivery_of(topic(number), number));
        }
    }
    assert_eq!(bus.last(Topic::ClusterStatus).await.unwrap(), Some(fact(899)));
    let length: i64 = server
        .command(&["XLEN", "{akash-provider}:stream:akash.provider.facts"])
        .await;
    assert_eq!(length, 810);
}

#[tokio::test]
async fn emptied_server_is_reported_as_loss_and_later_events_are_read() {
    let Some(mut server) = Server::start() else { return };
    let bus = RedisBus::new(server.location(), LeadershipGate::new(true));
    let mut all = bus
        .subscribe(&[Topic::Facts, Topic::ClusterStatus])
        .await
        .unwrap();
    for number in 0..5 {
        publish(&bus, Topic::Facts, number).await;
        assert_eq!(next(&mut all).await, delivery_of(Topic::Facts, number));
    }
    server.redis.kill();
    assert!(bus.publish(Topic::Facts, fact(5)).await.is_err());
    let Some(server) = Server::on(server.port, &[]) else {
        return;
    };
    publish(&bus, Topic::ClusterStatus, 6).await;
    assert_eq!(next(&mut all).await, Delivery::Lagged(None));
    // Once for retained events, and once for new events.
    for _ in 0..2 {
        assert_eq!(next(&mut all).await, delivery_of(Topic::ClusterStatus, 6));
    }
    publish(&bus, Topic::Facts, 7).await;
    assert_eq!(next(&mut all).await, delivery_of(Topic::Facts, 7));
    drop(server);
}

#[tokio::test]
async fn keys_deleted_during_a_read_are_reported_as_loss() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location(), LeadershipGate::new(true));
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    publish(&bus, Topic::Facts, 1).await;
    assert_eq!(next(&mut facts).await, delivery_of(Topic::Facts, 1));
    let _: String = server.command(&["FLUSHALL"]).await;
    assert_eq!(next(&mut facts).await, Delivery::Lagged(None));
    publish(&bus, Topic::Facts, 2).await;
    assert_eq!(next(&mut facts).await, delivery_of(Topic::Facts, 2));
}

/// A busy reader does not check for lost events. The publisher detects lost events, because it stores the
/// highest published sequence number.
#[tokio::test]
async fn publisher_detects_truncated_stream() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location(), LeadershipGate::new(true));
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    for number in 0..3 {
        publish(&bus, Topic::Facts, number).await;
        assert_eq!(next(&mut facts).await, delivery_of(Topic::Facts, number));
    }
    for number in 3..6 {
        publish(&bus, Topic::Facts, number).await;
    }
    // Same as a fail-over to a server without the last three events.
    let keys = [
        "{akash-provider}:stream:akash.provider.facts",
        "4-4",
        "5-5",
        "6-6",
    ];
    let _: i64 = server.command(&[&["XDEL"], &keys[..]].concat()).await;
    let _: String = server.command(&["SET", "{akash-provider}:sequence", "3"]).await;
    let _: i64 = server
        .command(&["HSET", "{akash-provider}:counts", "akash.provider.facts", "3"])
        .await;
    publish(&bus, Topic::Facts, 7).await;
    publish(&bus, Topic::Facts, 8).await;
    assert_eq!(next(&mut facts).await, Delivery::Lagged(None));
    assert_eq!(next(&mut facts).await, delivery_of(Topic::Facts, 7));
    assert_eq!(next(&mut facts).await, delivery_of(Topic::Facts, 8));
}

#[tokio::test]
async fn hanging_server_delays_bus_by_seconds_only() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location(), LeadershipGate::new(true));
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    publish(&bus, Topic::Facts, 1).await;
    assert_eq!(next(&mut facts).await, delivery_of(Topic::Facts, 1));
    server.redis.freeze().unwrap();
    let began = Instant::now();
    assert!(bus.publish(Topic::Facts, fact(2)).await.is_err());
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    server.redis.go_on().unwrap();
    publish(&bus, Topic::Facts, 3).await;
    // It is undefined whether the second event was stored when the server continued.
    loop {
        match next(&mut facts).await {
            delivery if delivery == delivery_of(Topic::Facts, 3) => break,
            delivery => assert_eq!(delivery, delivery_of(Topic::Facts, 2)),
        }
    }
}

#[tokio::test]
async fn unavailable_server_is_an_error_with_its_address() {
    let port = free_port().unwrap();
    let place = format!("redis://user:secret@127.0.0.1:{port}");
    let bus = RedisBus::new(place.parse().unwrap(), LeadershipGate::new(true));
    let errors = [
        bus.publish(Topic::Facts, fact(1)).await.unwrap_err(),
        bus.subscribe(&[Topic::Facts]).await.map(drop).unwrap_err(),
        bus.last(Topic::ClusterStatus).await.unwrap_err(),
    ];
    for error in errors {
        let error = error.to_string();
        assert!(error.contains(&format!("redis://127.0.0.1:{port}/0")), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn read_only_server_is_reported_and_publishing_resumes() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location(), LeadershipGate::new(true));
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    let _: String = server.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = bus.publish(Topic::Facts, fact(1)).await.unwrap_err().to_string();
    assert!(error.contains("OOM") || error.contains("maxmemory"), "{error}");
    let _: String = server.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    publish(&bus, Topic::Facts, 2).await;
    assert_eq!(next(&mut facts).await, delivery_of(Topic::Facts, 2));
}
