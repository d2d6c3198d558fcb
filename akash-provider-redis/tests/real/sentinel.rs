//! Sentinels name the server, which changes during a fail-over.

use crate::server::Server;
use crate::{WAIT_LIMIT, delivery_of, next, publish};
use akash_provider_core::bus::{Bus, Delivery, EventStream};
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::election::{Claim, ElectionStore, RecordPayload};
use akash_provider_core::types::{Event, Topic};
use akash_provider_redis::{Location, RedisBus, RedisElection};
use std::time::{Duration, Instant};
use testbed::free_port;

pub(crate) struct Set {
    pub(crate) master: Server,
    pub(crate) replica: Server,
    sentinel: Server,
}

impl Set {
    pub(crate) async fn start() -> Option<Self> {
        let master = Server::start()?;
        let of = ["--replicaof", "127.0.0.1", &master.port.to_string()];
        let replica = Server::on(free_port().unwrap(), &of)?;
        let sentinel = Server::sentinel(master.port)?;
        let set = Self {
            master,
            replica,
            sentinel,
        };
        let began = Instant::now();
        loop {
            let replication: String = set.replica.command(&["INFO", "replication"]).await;
            let watched: String = set.sentinel.command(&["INFO", "sentinel"]).await;
            if replication.contains("master_link_status:up") && watched.contains("slaves=1") {
                return Some(set);
            }
            assert!(began.elapsed() < WAIT_LIMIT, "{replication}\n{watched}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Returns a location with two sentinels. The first sentinel is unreachable.
    pub(crate) fn location(&self) -> Location {
        let (none, one) = (free_port().unwrap(), self.sentinel.port);
        format!("redis-sentinel://127.0.0.1:{none},127.0.0.1:{one}/main")
            .parse()
            .unwrap()
    }
}

/// Reads up to the event `to`. Asserts that the event `from` is first, that the events are in order, and that
/// each gap was reported. Returns true if a loss was reported.
async fn reads_up_to(facts: &mut EventStream, from: u32, to: u32) -> bool {
    let (mut expected, mut was_loss_reported) = (from, false);
    loop {
        match next(facts).await {
            Delivery::Lagged(lost) => was_loss_reported |= lost.is_none(),
            Delivery::Event { event, .. } => {
                let Event::BreakerTripped { wanted } = *event else {
                    panic!()
                };
                assert!(
                    wanted >= expected || was_loss_reported,
                    "{wanted} after {expected} without a reported loss"
                );
                assert!(
                    wanted == expected || was_loss_reported,
                    "{expected} is missing before {wanted} without a reported loss"
                );
                expected = wanted + 1;
                if wanted == to {
                    return was_loss_reported;
                }
            }
        }
    }
}

#[tokio::test]
async fn bus_follows_sentinels_when_master_dies() {
    let Some(mut set) = Set::start().await else { return };
    let bus = RedisBus::new(set.location(), LeadershipGate::new(true));
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    for number in 0..20 {
        publish(&bus, Topic::Facts, number).await;
    }
    assert!(
        !reads_up_to(&mut facts, 0, 19).await,
        "a loss was reported too early"
    );
    set.master.redis.kill();
    for number in 20..40 {
        publish(&bus, Topic::Facts, number).await;
    }
    assert!(
        reads_up_to(&mut facts, 20, 39).await,
        "the new master may lack events"
    );
    let role: Vec<redis::Value> = set.replica.command(&["ROLE"]).await;
    assert_eq!(role[0], redis::Value::BulkString(b"master".to_vec()));
}

#[tokio::test]
async fn lagging_new_master_is_reported_as_loss() {
    let Some(set) = Set::start().await else { return };
    let bus = RedisBus::new(set.location(), LeadershipGate::new(true));
    let mut facts = bus.subscribe(&[Topic::Facts]).await.unwrap();
    for number in 0..10 {
        publish(&bus, Topic::Facts, number).await;
    }
    assert!(!reads_up_to(&mut facts, 0, 9).await);
    // The replica receives no more updates, and the master continues for a while before it freezes.
    set.replica.redis.freeze().unwrap();
    for number in 10..20 {
        publish(&bus, Topic::Facts, number).await;
    }
    set.master.redis.freeze().unwrap();
    set.replica.redis.go_on().unwrap();
    for number in 20..30 {
        publish(&bus, Topic::Facts, number).await;
    }
    assert!(reads_up_to(&mut facts, 10, 29).await);
    set.master.redis.go_on().unwrap();
    publish(&bus, Topic::Facts, 30).await;
    assert_eq!(next(&mut facts).await, delivery_of(Topic::Facts, 30));
}

/// Two servers accept writes, and sentinels name different masters, as in a network partition.
#[tokio::test]
async fn disagreeing_sentinels_are_reported_and_majority_decides() {
    let (Some(one), Some(other)) = (Server::start(), Server::start()) else {
        return;
    };
    let sentinels = [&one, &other, &other].map(|master| Server::sentinel(master.port));
    let [Some(a), Some(b), Some(c)] = sentinels else {
        return;
    };
    let named = |sentinels: &[&Server]| -> Location {
        let all: Vec<String> = sentinels
            .iter()
            .map(|one| format!("127.0.0.1:{}", one.port))
            .collect();
        format!("redis-sentinel://{}/main", all.join(","))
            .parse()
            .unwrap()
    };
    for undecided in [&[&a, &b][..], &[&b, &a]] {
        let store = RedisElection::new(named(undecided), "test");
        let error = store.read().await.unwrap_err().to_string();
        let ports = [&one, &other].map(|server| server.port.to_string());
        assert!(
            error.contains("the sentinels name different masters")
                && ports.iter().all(|port| error.contains(port)),
            "{error}"
        );
    }
    // For each order of the sentinels.
    for decided in [&[&a, &b, &c][..], &[&c, &b, &a]] {
        let store = RedisElection::new(named(decided), "test");
        assert_eq!(store.read().await.unwrap(), None);
        let claim = Claim {
            holder: Some("me".to_owned()),
            term: 1,
            is_new_term: true,
            lease: Duration::from_secs(3),
            payload: RecordPayload::default(),
        };
        store.create(&claim).await.unwrap();
        let key = "{akash-provider}:election:test";
        assert_eq!(
            other.command::<i64>(&["DEL", key]).await,
            1,
            "the event is on the master named by the majority"
        );
        assert_eq!(one.command::<i64>(&["EXISTS", key]).await, 0);
    }
}
