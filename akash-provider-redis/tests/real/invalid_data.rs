//! A server with data that no provider wrote.

use crate::server::Server;
use crate::{delivery_of, fact, next, publish};
use akash_provider_core::bus::{Bus, Delivery};
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::types::Topic;
use akash_provider_redis::RedisBus;
use std::time::Duration;

const FACTS: &str = "{akash-provider}:stream:akash.provider.facts";

#[tokio::test]
async fn unreadable_entry_counts_as_lost_and_hides_no_other() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location(), LeadershipGate::new(true));
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    publish(&bus, Topic::Facts, 1).await;
    assert_eq!(next(&mut facts).await, delivery_of(Topic::Facts, 1));
    let epoch: String = server.command(&["GET", "{akash-provider}:epoch"]).await;
    for (id, version, event) in [("2-2", "1", "{"), ("3-3", "9", "{}"), ("4-4", "1", "\"x\"")] {
        let words = ["XADD", FACTS, id, "v", version, "epoch", &epoch, "event", event];
        let _: String = server.command(&words).await;
        assert_eq!(next(&mut facts).await, Delivery::Lagged(Some(1)), "{id}");
    }
    // The stream is ahead of the sequence, which counts as another epoch and is reported.
    publish(&bus, Topic::Facts, 5).await;
    assert_eq!(next(&mut facts).await, Delivery::Lagged(None));
    assert_eq!(next(&mut facts).await, delivery_of(Topic::Facts, 5));
}

/// Without a limit, `XREAD` and `GET` load a whole entry into memory.
#[tokio::test]
async fn oversized_entries_are_not_read_and_count_as_lost() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location(), LeadershipGate::new(true));
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    publish(&bus, Topic::Facts, 1).await;
    let epoch: String = server.command(&["GET", "{akash-provider}:epoch"]).await;
    // Created by the server one by one, so that each command takes less than half a second.
    let large = "local large = string.rep(string.rep('x', 10000), 1700)";
    let entry = format!(
        "{large} return redis.call('XADD', KEYS[1], ARGV[1], 'v', 1, 'epoch', ARGV[2], 'event', large)"
    );
    for at in 2..=4 {
        let id = format!("{at}-{at}");
        let _: String = server.command(&["EVAL", &entry, "1", FACTS, &id, &epoch]).await;
    }
    let last = "{akash-provider}:last:akash.provider.cluster.status";
    let status = format!("{large} redis.call('SET', KEYS[1], large) return 'OK'");
    let _: String = server.command(&["EVAL", &status, "1", last]).await;
    let sent = async || {
        let stats: String = server.command(&["INFO", "stats"]).await;
        let line = stats
            .lines()
            .find_map(|line| line.strip_prefix("total_net_output_bytes:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    let before = sent().await;
    assert_eq!(next(&mut facts).await, delivery_of(Topic::Facts, 1));
    for at in 2..=4 {
        assert_eq!(next(&mut facts).await, Delivery::Lagged(Some(1)), "{at}");
    }
    let refused = bus.last(Topic::ClusterStatus).await.unwrap_err().to_string();
    assert!(refused.contains("more than 16777216"), "{refused}");
    // The prefix of the last status, which contains its size, and no entry.
    let after = sent().await;
    assert!(after - before < 18 << 20, "{}", after - before);
}

#[tokio::test]
async fn forged_sequence_is_replaced_and_events_continue() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location(), LeadershipGate::new(true));
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    publish(&bus, Topic::Facts, 1).await;
    assert_eq!(next(&mut facts).await, delivery_of(Topic::Facts, 1));
    for (number, forged) in (2..).zip(["18446744073709551615", "9007199254740993", "-1", "nan", "x"]) {
        let _: String = server
            .command(&["SET", "{akash-provider}:sequence", forged])
            .await;
        bus.publish(Topic::Facts, fact(number)).await.unwrap();
        let sequence: u64 = server.command(&["GET", "{akash-provider}:sequence"]).await;
        assert_eq!(sequence, u64::from(number), "{forged}");
    }
    while next(&mut facts).await != delivery_of(Topic::Facts, 6) {}
}

#[tokio::test]
async fn foreign_entry_is_delivered_once() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location(), LeadershipGate::new(true));
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    publish(&bus, Topic::Facts, 1).await;
    assert_eq!(next(&mut facts).await, delivery_of(Topic::Facts, 1));
    let _: String = server.command(&["XADD", FACTS, "2-2", "theirs", "yes"]).await;
    assert_eq!(next(&mut facts).await, Delivery::Lagged(Some(1)));
    let more = tokio::time::timeout(Duration::from_secs(1), next(&mut facts)).await;
    assert!(more.is_err(), "{more:?} for one entry");
    publish(&bus, Topic::Facts, 3).await;
    assert_eq!(next(&mut facts).await, Delivery::Lagged(None));
    assert_eq!(next(&mut facts).await, delivery_of(Topic::Facts, 3));
}

#[tokio::test]
async fn foreign_stream_is_appended_to_and_not_deleted() {
    let Some(server) = Server::start() else { return };
    let _: String = server
        .command(&["XADD", FACTS, "1700000000000-0", "theirs", "yes"])
        .await;
    let bus = RedisBus::new(server.location(), LeadershipGate::new(true));
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    publish(&bus, Topic::Facts, 1).await;
    let mut got = vec![next(&mut facts).await];
    while got.last() != Some(&delivery_of(Topic::Facts, 1)) && got.len() < 3 {
        publish(&bus, Topic::Facts, 1).await;
        got.push(next(&mut facts).await);
    }
    assert_eq!(got.last(), Some(&delivery_of(Topic::Facts, 1)), "{got:?}");
    let length: i64 = server.command(&["XLEN", FACTS]).await;
    assert!(length >= 2);
}

#[tokio::test]
async fn key_of_another_type_is_reported_and_unchanged() {
    let Some(server) = Server::start() else { return };
    let _: String = server.command(&["SET", FACTS, "theirs"]).await;
    let bus = RedisBus::new(server.location(), LeadershipGate::new(true));
    let error = bus.publish(Topic::Facts, fact(1)).await.unwrap_err().to_string();
    assert!(error.contains("WRONGTYPE"), "{error}");
    let stored: String = server.command(&["GET", FACTS]).await;
    assert_eq!(stored, "theirs");
    // The event was not written.
    let sequence: Option<u64> = server.command(&["GET", "{akash-provider}:sequence"]).await;
    assert_eq!(sequence, None);
    publish(&bus, Topic::ClusterStatus, 2).await;
    assert_eq!(bus.last(Topic::ClusterStatus).await.unwrap(), Some(fact(2)));
}

#[tokio::test]
async fn invalid_status_is_reported_with_its_key() {
    let Some(server) = Server::start() else { return };
    let key = "{akash-provider}:last:akash.provider.cluster.status";
    let _: String = server.command(&["SET", key, "{\"event\":\"unheard_of\"}"]).await;
    let bus = RedisBus::new(server.location(), LeadershipGate::new(true));
    let error = bus.last(Topic::ClusterStatus).await.unwrap_err().to_string();
    assert!(error.contains(key), "{error}");
}
