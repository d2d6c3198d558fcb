//! The bus on a real Redis server: guarantees, and behaviour when the server stops, loses data or holds
//! invalid data.
//!
//! Each test starts its own server on an unused port of loopback. If no server can be installed, each test
//! prints the reason.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed test panics with the reason"
)]

#[path = "real/election.rs"]
mod election;
#[path = "real/invalid_data.rs"]
mod invalid_data;
#[path = "real/lost_responses.rs"]
mod lost_responses;
#[path = "real/outages.rs"]
mod outages;
#[path = "real/partition.rs"]
mod partition;
#[path = "real/sentinel.rs"]
mod sentinel;
#[path = "real/server.rs"]
mod server;

use akash_provider_core::bus::{Bus, Delivery, EventStream, conformance};
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::types::{Event, Topic};
use akash_provider_redis::RedisBus;
use futures::StreamExt;
use server::Server;
use std::sync::Arc;
use std::time::Duration;

/// Maximum wait for a condition.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

fn fact(wanted: u32) -> Arc<Event> {
    Arc::new(Event::BreakerTripped { wanted })
}

fn delivery_of(topic: Topic, wanted: u32) -> Delivery {
    Delivery::Event {
        topic,
        event: fact(wanted),
    }
}

async fn next(stream: &mut EventStream) -> Delivery {
    tokio::time::timeout(WAIT_LIMIT, stream.next())
        .await
        .unwrap()
        .unwrap()
}

async fn publish(bus: &RedisBus, topic: Topic, wanted: u32) {
    let taken = async {
        while let Err(error) = bus.publish(topic, fact(wanted)).await {
            println!("publish failed, retrying: {error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(WAIT_LIMIT, taken).await.unwrap();
}

#[tokio::test]
async fn redis_bus_passes_conformance_suite() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::with_stream_length(server.location(), LeadershipGate::new(true), 1024);
    conformance::suite(&bus, &conformance::Setup::default()).await;
}

#[tokio::test]
async fn fact_published_by_two_leaders_is_stored_once_and_observations_each_time() {
    let Some(server) = Server::start() else { return };
    let leaders = [0, 1].map(|_| RedisBus::new(server.location(), LeadershipGate::new(true)));
    let mut facts = leaders[0].subscribe(&[Topic::Facts]).await.unwrap();
    let order = |number: u64| {
        let order = format!("akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/{number}/1/1");
        let order = order.parse().unwrap();
        Arc::new(Event::OrderSeen { order })
    };
    for leader in &leaders {
        let both = [order(1), fact(7), order(1)].map(|event| (Topic::Facts, event));
        assert!(leader.publish_all(&both).await.iter().all(Result::is_ok));
    }
    leaders[1].publish(Topic::Facts, order(2)).await.unwrap();
    for event in [order(1), fact(7), fact(7), order(2)] {
        let topic = Topic::Facts;
        assert_eq!(next(&mut facts).await, Delivery::Event { topic, event });
    }
}

#[tokio::test]
async fn another_process_reads_published_events() {
    let Some(server) = Server::start() else { return };
    let writer = RedisBus::new(server.location(), LeadershipGate::new(true));
    let reader = RedisBus::new(server.location(), LeadershipGate::new(true));
    let mut all = reader.subscribe(&Topic::ALL).await.unwrap();
    for number in 0..1_000 {
        let topic = Topic::ALL[number as usize % Topic::ALL.len()];
        writer.publish(topic, fact(number)).await.unwrap();
    }
    // Eight streams are read with one response and delivered in the order of publication.
    let mut lost = 0;
    let mut expected = 0;
    while expected < 1_000 {
        match next(&mut all).await {
            Delivery::Lagged(some) => lost += some.unwrap(),
            Delivery::Event { event, topic } => {
                let Event::BreakerTripped { wanted } = *event else {
                    panic!()
                };
                assert!(
                    wanted >= expected,
                    "received event {wanted}, expected event {expected} or a later one"
                );
                assert_eq!(topic, Topic::ALL[wanted as usize % Topic::ALL.len()]);
                expected = wanted + 1;
            }
        }
    }
    // The last 64 of 125 events of each status are retained, and all facts.
    assert_eq!(lost, 7 * (125 - 64));
    assert_eq!(reader.last(Topic::ClusterStatus).await.unwrap(), Some(fact(992)));
    assert_eq!(reader.last(Topic::Facts).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn events_that_are_published_concurrently_all_arrive() {
    const EACH: u32 = 500;
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location(), LeadershipGate::new(true));
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    let publishing = (0..8).map(|task| {
        let bus = bus.clone();
        tokio::spawn(async move {
            for number in 0..EACH {
                bus.publish(Topic::Facts, fact(task * EACH + number))
                    .await
                    .unwrap();
            }
        })
    });
    for task in publishing.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    bus.publish(Topic::Facts, fact(u32::MAX)).await.unwrap();
    let mut arrived = std::collections::BTreeSet::new();
    loop {
        match next(&mut facts).await {
            Delivery::Event { event, .. } if event == fact(u32::MAX) => break,
            Delivery::Event { event, .. } => {
                let Event::BreakerTripped { wanted } = *event else {
                    panic!()
                };
                assert!(arrived.insert(wanted), "{wanted} twice");
            }
            Delivery::Lagged(lost) => panic!("{lost:?} lost"),
        }
    }
    assert_eq!(arrived.len(), 8 * EACH as usize);
}

#[tokio::test]
async fn providers_with_different_prefixes_do_not_share_events() {
    let Some(server) = Server::start() else { return };
    let one = RedisBus::new(server.location().with_prefix("one"), LeadershipGate::new(true));
    let two = RedisBus::new(server.location().with_prefix("two"), LeadershipGate::new(true));
    let mut facts = two.subscribe(&[Topic::Facts]).await.unwrap();
    one.publish(Topic::Facts, fact(1)).await.unwrap();
    two.publish(Topic::Facts, fact(2)).await.unwrap();
    assert_eq!(next(&mut facts).await, delivery_of(Topic::Facts, 2));
}

#[tokio::test]
async fn user_password_and_certificates_are_used() {
    let Some(server) = Server::secured() else { return };
    let bus = RedisBus::new(server.secured_location("right"), LeadershipGate::new(true));
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    bus.publish(Topic::Facts, fact(1)).await.unwrap();
    assert_eq!(next(&mut facts).await, delivery_of(Topic::Facts, 1));
    let wrong = RedisBus::new(server.secured_location("wrong"), LeadershipGate::new(true));
    let error = wrong
        .publish(Topic::Facts, fact(2))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("Password") || error.contains("WRONGPASS"),
        "{error}"
    );
    assert!(
        !error.contains("wrong"),
        "the error contains the password: {error}"
    );
    let stranger = RedisBus::new(server.untrusting_location(), LeadershipGate::new(true));
    let error = stranger
        .publish(Topic::Facts, fact(3))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.to_lowercase().contains("certificate"), "{error}");
}
