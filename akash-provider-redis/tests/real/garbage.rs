//! A server with things in it that no provider wrote.

use crate::server::Server;
use crate::{fact, next, publish, told};
use akash_provider_core::bus::{Bus, Delivery};
use akash_provider_core::types::Topic;
use akash_provider_redis::RedisBus;
use std::time::Duration;

const FACTS: &str = "{akash-provider}:stream:akash.provider.facts";

#[tokio::test]
async fn an_entry_that_cannot_be_read_counts_as_lost_and_hides_no_other() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location());
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    publish(&bus, Topic::Facts, 1).await;
    assert_eq!(next(&mut facts).await, told(Topic::Facts, 1));
    let epoch: String = server.say(&["GET", "{akash-provider}:epoch"]).await;
    for (id, version, event) in [("2-2", "1", "{"), ("3-3", "9", "{}"), ("4-4", "1", "\"x\"")] {
        let words = ["XADD", FACTS, id, "v", version, "epoch", &epoch, "event", event];
        let _: String = server.say(&words).await;
        assert_eq!(next(&mut facts).await, Delivery::Lagged(Some(1)), "{id}");
    }
    // The stream is ahead of the sequence: it is another epoch, which is told.
    publish(&bus, Topic::Facts, 5).await;
    assert_eq!(next(&mut facts).await, Delivery::Lagged(None));
    assert_eq!(next(&mut facts).await, told(Topic::Facts, 5));
}

/// `XREAD` and `GET` would bring all of them into memory at once.
#[tokio::test]
async fn entries_that_are_too_large_are_not_sent_and_count_as_lost() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location());
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    publish(&bus, Topic::Facts, 1).await;
    let epoch: String = server.say(&["GET", "{akash-provider}:epoch"]).await;
    // Made by the server, and one by one: it responds within half a second.
    let large = "local large = string.rep(string.rep('x', 10000), 1700)";
    let entry = format!(
        "{large} return redis.call('XADD', KEYS[1], ARGV[1], 'v', 1, 'epoch', ARGV[2], 'event', large)"
    );
    for at in 2..=4 {
        let id = format!("{at}-{at}");
        let _: String = server.say(&["EVAL", &entry, "1", FACTS, &id, &epoch]).await;
    }
    let last = "{akash-provider}:last:akash.provider.cluster.status";
    let status = format!("{large} redis.call('SET', KEYS[1], large) return 'OK'");
    let _: String = server.say(&["EVAL", &status, "1", last]).await;
    let sent = async || {
        let stats: String = server.say(&["INFO", "stats"]).await;
        let line = stats
            .lines()
            .find_map(|line| line.strip_prefix("total_net_output_bytes:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    let before = sent().await;
    assert_eq!(next(&mut facts).await, told(Topic::Facts, 1));
    for at in 2..=4 {
        assert_eq!(next(&mut facts).await, Delivery::Lagged(Some(1)), "{at}");
    }
    let refused = bus.last(Topic::ClusterStatus).await.unwrap_err().to_string();
    assert!(refused.contains("more than 16777216"), "{refused}");
    // The prefix of the last status that shows its size, and no entry.
    let after = sent().await;
    assert!(after - before < 18 << 20, "{}", after - before);
}

#[tokio::test]
async fn a_forged_sequence_is_replaced_and_events_go_on() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location());
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    publish(&bus, Topic::Facts, 1).await;
    assert_eq!(next(&mut facts).await, told(Topic::Facts, 1));
    for (number, forged) in (2..).zip(["18446744073709551615", "9007199254740993", "-1", "nan", "x"]) {
        let _: String = server.say(&["SET", "{akash-provider}:sequence", forged]).await;
        bus.publish(Topic::Facts, fact(number)).await.unwrap();
        let sequence: u64 = server.say(&["GET", "{akash-provider}:sequence"]).await;
        assert_eq!(sequence, u64::from(number), "{forged}");
    }
    while next(&mut facts).await != told(Topic::Facts, 6) {}
}

#[tokio::test]
async fn an_entry_of_somebody_else_between_ours_is_passed_once() {
    let Some(server) = Server::start() else { return };
    let bus = RedisBus::new(server.location());
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    publish(&bus, Topic::Facts, 1).await;
    assert_eq!(next(&mut facts).await, told(Topic::Facts, 1));
    let _: String = server.say(&["XADD", FACTS, "2-2", "theirs", "yes"]).await;
    assert_eq!(next(&mut facts).await, Delivery::Lagged(Some(1)));
    let more = tokio::time::timeout(Duration::from_secs(1), next(&mut facts)).await;
    assert!(more.is_err(), "{more:?} for one entry");
    publish(&bus, Topic::Facts, 3).await;
    assert_eq!(next(&mut facts).await, Delivery::Lagged(None));
    assert_eq!(next(&mut facts).await, told(Topic::Facts, 3));
}

#[tokio::test]
async fn a_stream_of_somebody_else_is_written_to_behind_its_end_and_not_deleted() {
    let Some(server) = Server::start() else { return };
    let _: String = server
        .say(&["XADD", FACTS, "1700000000000-0", "theirs", "yes"])
        .await;
    let bus = RedisBus::new(server.location());
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    publish(&bus, Topic::Facts, 1).await;
    let mut got = vec![next(&mut facts).await];
    while got.last() != Some(&told(Topic::Facts, 1)) && got.len() < 3 {
        publish(&bus, Topic::Facts, 1).await;
        got.push(next(&mut facts).await);
    }
    assert_eq!(got.last(), Some(&told(Topic::Facts, 1)), "{got:?}");
    let length: i64 = server.say(&["XLEN", FACTS]).await;
    assert!(length >= 2);
}

#[tokio::test]
async fn a_key_of_another_kind_is_named_by_the_server_and_left_alone() {
    let Some(server) = Server::start() else { return };
    let _: String = server.say(&["SET", FACTS, "theirs"]).await;
    let bus = RedisBus::new(server.location());
    let error = bus.publish(Topic::Facts, fact(1)).await.unwrap_err().to_string();
    assert!(error.contains("WRONGTYPE"), "{error}");
    let kept: String = server.say(&["GET", FACTS]).await;
    assert_eq!(kept, "theirs");
    // Nothing of the event was written.
    let sequence: Option<u64> = server.say(&["GET", "{akash-provider}:sequence"]).await;
    assert_eq!(sequence, None);
    publish(&bus, Topic::ClusterStatus, 2).await;
    assert_eq!(bus.last(Topic::ClusterStatus).await.unwrap(), Some(fact(2)));
}

#[tokio::test]
async fn a_status_that_is_none_is_said_with_its_key() {
    let Some(server) = Server::start() else { return };
    let key = "{akash-provider}:last:akash.provider.cluster.status";
    let _: String = server.say(&["SET", key, "{\"event\":\"unheard_of\"}"]).await;
    let bus = RedisBus::new(server.location());
    let error = bus.last(Topic::ClusterStatus).await.unwrap_err().to_string();
    assert!(error.contains(key), "{error}");
}
