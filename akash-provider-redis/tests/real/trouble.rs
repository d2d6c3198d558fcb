//! Connections that break, servers that forget, hang or are not there.

use crate::server::Server;
use crate::{fact, next, publish, told};
use akash_provider_core::bus::{Bus, Delivery};
use akash_provider_core::types::Topic;
use akash_provider_redis::RedisBus;
use std::time::{Duration, Instant};
use testbed::free_port;

#[tokio::test]
async fn after_a_connection_that_broke_a_reader_goes_on_where_it_was() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location());
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    for number in 0..40 {
        publish(&bus, Topic::Facts, number).await;
        if number % 10 == 5 {
            let _: i64 = server
                .say(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
                .await;
        }
        if number % 7 == 0 {
            // Some are read before the cut, some after it.
            assert_eq!(next(&mut facts).await, told(Topic::Facts, number / 7));
        }
    }
    for number in 6..40 {
        assert_eq!(next(&mut facts).await, told(Topic::Facts, number));
    }
}

#[tokio::test]
async fn events_that_are_sent_together_come_each_by_itself_and_once() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location());
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
            assert_eq!(next(&mut all).await, told(topic(number), number));
        }
    }
    assert_eq!(bus.last(Topic::ClusterStatus).await.unwrap(), Some(fact(899)));
    let length: i64 = server
        .say(&["XLEN", "{akash-provider}:stream:akash.provider.facts"])
        .await;
    assert_eq!(length, 810);
}

#[tokio::test]
async fn a_server_that_comes_back_empty_is_told_and_what_follows_is_read() {
    let Some(mut server) = Server::start() else { return };
    let bus = RedisBus::new(server.location());
    let mut all = bus
        .subscribe(&[Topic::Facts, Topic::ClusterStatus])
        .await
        .unwrap();
    for number in 0..5 {
        publish(&bus, Topic::Facts, number).await;
        assert_eq!(next(&mut all).await, told(Topic::Facts, number));
    }
    server.redis.kill();
    assert!(bus.publish(Topic::Facts, fact(5)).await.is_err());
    let Some(server) = Server::on(server.port, &[]) else {
        return;
    };
    publish(&bus, Topic::ClusterStatus, 6).await;
    assert_eq!(next(&mut all).await, Delivery::Lagged(None));
    // As what is retained, and as what is new.
    for _ in 0..2 {
        assert_eq!(next(&mut all).await, told(Topic::ClusterStatus, 6));
    }
    publish(&bus, Topic::Facts, 7).await;
    assert_eq!(next(&mut all).await, told(Topic::Facts, 7));
    drop(server);
}

#[tokio::test]
async fn keys_that_are_deleted_while_a_reader_waits_are_told() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location());
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    publish(&bus, Topic::Facts, 1).await;
    assert_eq!(next(&mut facts).await, told(Topic::Facts, 1));
    let _: String = server.say(&["FLUSHALL"]).await;
    assert_eq!(next(&mut facts).await, Delivery::Lagged(None));
    publish(&bus, Topic::Facts, 2).await;
    assert_eq!(next(&mut facts).await, told(Topic::Facts, 2));
}

/// Also where the reader never found the server idle: the publisher knows how far it was.
#[tokio::test]
async fn a_server_that_lost_the_end_is_seen_by_who_publishes() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location());
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    for number in 0..3 {
        publish(&bus, Topic::Facts, number).await;
        assert_eq!(next(&mut facts).await, told(Topic::Facts, number));
    }
    for number in 3..6 {
        publish(&bus, Topic::Facts, number).await;
    }
    // As after a fail-over to a server that had not heard of the last three.
    let keys = [
        "{akash-provider}:stream:akash.provider.facts",
        "4-4",
        "5-5",
        "6-6",
    ];
    let _: i64 = server.say(&[&["XDEL"], &keys[..]].concat()).await;
    let _: String = server.say(&["SET", "{akash-provider}:sequence", "3"]).await;
    let _: i64 = server
        .say(&["HSET", "{akash-provider}:counts", "akash.provider.facts", "3"])
        .await;
    publish(&bus, Topic::Facts, 7).await;
    publish(&bus, Topic::Facts, 8).await;
    assert_eq!(next(&mut facts).await, Delivery::Lagged(None));
    assert_eq!(next(&mut facts).await, told(Topic::Facts, 7));
    assert_eq!(next(&mut facts).await, told(Topic::Facts, 8));
}

#[tokio::test]
async fn a_server_that_hangs_costs_seconds_and_not_the_bus() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location());
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    publish(&bus, Topic::Facts, 1).await;
    assert_eq!(next(&mut facts).await, told(Topic::Facts, 1));
    server.redis.freeze().unwrap();
    let began = Instant::now();
    assert!(bus.publish(Topic::Facts, fact(2)).await.is_err());
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    server.redis.go_on().unwrap();
    publish(&bus, Topic::Facts, 3).await;
    // Whether the second was taken when it went on is nobody's promise.
    loop {
        match next(&mut facts).await {
            delivery if delivery == told(Topic::Facts, 3) => break,
            delivery => assert_eq!(delivery, told(Topic::Facts, 2)),
        }
    }
}

#[tokio::test]
async fn without_a_server_everything_says_so_and_where_it_looked() {
    let port = free_port().unwrap();
    let place = format!("redis://user:secret@127.0.0.1:{port}");
    let bus = RedisBus::new(place.parse().unwrap());
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
async fn a_server_that_takes_no_more_says_why_and_goes_on_later() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location());
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    let _: String = server.say(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = bus.publish(Topic::Facts, fact(1)).await.unwrap_err().to_string();
    assert!(error.contains("OOM") || error.contains("maxmemory"), "{error}");
    let _: String = server.say(&["CONFIG", "SET", "maxmemory", "0"]).await;
    publish(&bus, Topic::Facts, 2).await;
    assert_eq!(next(&mut facts).await, told(Topic::Facts, 2));
}
