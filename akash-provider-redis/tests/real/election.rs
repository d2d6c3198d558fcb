//! Leader election on a real server that stops, hangs, loses data or is replaced.

use crate::WAIT_LIMIT;
use crate::sentinel::Set;
use crate::server::Server;
use akash_provider_core::ErrorKind;
use akash_provider_core::election::{
    Candidate, Claim, Election, ElectionConfig, ElectionStore, PAYLOAD_MAX, RecordPayload, TERM_LEAP, Timing,
    conformance,
};
use akash_provider_redis::{Location, RedisElection};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// Duration of the election lease: much longer than a response time of the server, but short enough for a
/// test.
const LEASE: Duration = Duration::from_secs(3);

fn contend(location: Location, identity: &str) -> Arc<Election> {
    let mut me = Candidate::new(identity);
    me.address = format!("{identity}:8443");
    let config = ElectionConfig::new("test", me, Timing::for_lease(LEASE));
    Arc::new(Election::start(RedisElection::new(location, "test"), config))
}

async fn leads(election: &Election) -> bool {
    let gate = election.gate();
    timeout(WAIT_LIMIT, gate.opened()).await.is_ok()
}

async fn wait_for_leader(elections: &[Arc<Election>]) -> u64 {
    let began = Instant::now();
    loop {
        let term = elections.iter().find_map(|one| one.gate().term());
        if let Some(term) = term {
            return term;
        }
        assert!(began.elapsed() < WAIT_LIMIT, "no instance leads");
        sleep(Duration::from_millis(20)).await;
    }
}

fn assert_single_leader(elections: &[Arc<Election>]) -> tokio::task::JoinHandle<()> {
    let elections = elections.to_vec();
    tokio::spawn(async move {
        loop {
            let leaders = elections.iter().filter(|one| one.gate().term().is_some()).count();
            assert!(leaders <= 1, "two leaders");
            sleep(Duration::from_millis(5)).await;
        }
    })
}

async fn there_were_assert_single_leader(watching: tokio::task::JoinHandle<()>) {
    watching.abort();
    assert!(
        watching.await.unwrap_err().is_cancelled(),
        "two leaders at the same time"
    );
}

fn claim(term: u64) -> Claim {
    Claim {
        holder: Some("me".to_owned()),
        term,
        is_new_term: true,
        lease: LEASE,
        payload: RecordPayload::default(),
    }
}

#[tokio::test]
async fn redis_election_passes_conformance_suite() {
    let Some(server) = Server::start() else { return };
    let [one, other] = ["x", "x"].map(|name| RedisElection::new(server.location(), name));
    conformance::suite(&one, &other, &conformance::Setup::default()).await;
    // Another name is another election on the same server.
    let another = RedisElection::new(server.location(), "y");
    assert_eq!(another.read().await.unwrap(), None);
}

#[tokio::test]
async fn term_does_not_decrease_when_record_is_deleted() {
    let Some(server) = Server::start() else { return };
    let store = RedisElection::new(server.location(), "test");
    assert_eq!(store.create(&claim(7)).await.unwrap().record.term, 7);
    let _: i64 = server.command(&["DEL", "{akash-provider}:election:test"]).await;
    assert_eq!(store.create(&claim(1)).await.unwrap().record.term, 8);
}

#[tokio::test]
async fn forged_highest_term_is_replaced() {
    let Some(server) = Server::start() else { return };
    let store = RedisElection::new(server.location(), "test");
    let terms = "{akash-provider}:election:test:term";
    let mut stored = store.create(&claim(7)).await.unwrap();
    let far = (100 + TERM_LEAP).to_string();
    let forgeries = [
        "18446744073709551615",
        "9007199254740993",
        "1099511627777",
        "1e300",
        "inf",
        "nan",
        "-7",
        "x",
        &far,
    ];
    for (next, forged) in (8..).zip(forgeries) {
        let _: String = server.command(&["SET", terms, forged]).await;
        stored = store.replace(&claim(next), &stored.version).await.unwrap();
        assert_eq!(stored.record.term, next, "{forged}");
        let highest: String = server.command(&["GET", terms]).await;
        assert_eq!(highest, next.to_string(), "{forged}");
    }
}

#[tokio::test]
async fn invalid_record_is_an_error_and_oversized_record_is_not_read() {
    let Some(server) = Server::start() else { return };
    let store = RedisElection::new(server.location(), "test");
    let key = "{akash-provider}:election:test";
    let _: String = server.command(&["SET", key, "x"]).await;
    let error = store.read().await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::Unavailable && !error.is_transient(),
        "{error}"
    );
    let _: i64 = server.command(&["DEL", key]).await;
    let _: i64 = server.command(&["HSET", key, "holder", "manual"]).await;
    assert_eq!(store.read().await.unwrap(), None, "without a version");
    let long = "x".repeat(PAYLOAD_MAX + 1);
    let words = [
        "HSET", key, "version", "1", "term", "many", "lease_ms", "-3", "beside", &long,
    ];
    let _: i64 = server.command(&words).await;
    let stored = store.read().await.unwrap().unwrap();
    assert_eq!((stored.record.term, stored.record.lease), (0, Duration::ZERO));
    assert_eq!(stored.record.payload, RecordPayload::default());
    assert_eq!(stored.record.holder.as_deref(), Some("manual"));
    // The invalid record is overwritten like any other.
    assert_eq!(store.replace(&claim(1), "1").await.unwrap().record.term, 1);
}

#[tokio::test]
async fn stopped_leader_is_replaced_after_lease_and_resigning_leader_at_once() {
    let Some(server) = Server::start() else { return };
    let first = contend(server.location(), "first");
    assert!(leads(&first).await);
    let second = contend(server.location(), "second");
    let watching = assert_single_leader(&[first.clone(), second.clone()]);
    sleep(LEASE * 2).await;
    assert_eq!(second.status().holder_address.as_deref(), Some("first:8443"));
    let term = first.status().term.unwrap();
    let begun = Instant::now();
    first.release().await;
    assert!(leads(&second).await);
    assert!(begun.elapsed() < LEASE / 2, "{:?}", begun.elapsed());
    assert_eq!(second.status().term, Some(term + 1));
    there_were_assert_single_leader(watching).await;
    let third = contend(server.location(), "third");
    sleep(LEASE / 4).await;
    drop(second);
    let begun = Instant::now();
    assert!(leads(&third).await);
    assert!(begun.elapsed() < LEASE + LEASE / 2, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn hanging_or_emptied_server_causes_no_second_leader() {
    let Some(server) = Server::start() else { return };
    let elections = ["a", "b"].map(|name| contend(server.location(), name));
    wait_for_leader(&elections).await;
    let watching = assert_single_leader(&elections);
    server.redis.freeze().unwrap();
    let all_end = async {
        for one in &elections {
            one.gate().closed().await;
        }
    };
    timeout(LEASE, all_end).await.unwrap();
    sleep(LEASE).await;
    assert!(elections.iter().all(|one| one.gate().term().is_none()));
    server.redis.go_on().unwrap();
    let before = wait_for_leader(&elections).await;
    // An instance that finds no record leads in a later term, and not before the previous leader has stopped.
    let _: String = server.command(&["FLUSHALL"]).await;
    let began = Instant::now();
    let after = loop {
        match elections.iter().find_map(|one| one.gate().term()) {
            Some(term) if term > before => break term,
            _ => assert!(began.elapsed() < WAIT_LIMIT, "no instance leads in a later term"),
        }
        sleep(Duration::from_millis(20)).await;
    };
    assert!(after > before);
    there_were_assert_single_leader(watching).await;
}

#[tokio::test]
async fn after_fail_over_one_instance_leads_in_no_earlier_term() {
    let Some(mut set) = Set::start().await else { return };
    let elections = ["a", "b"].map(|name| contend(set.location(), name));
    let before = wait_for_leader(&elections).await;
    let watching = assert_single_leader(&elections);
    sleep(LEASE).await;
    set.master.redis.kill();
    let began = Instant::now();
    let replica = set.replica.port;
    loop {
        let role: String = set.replica.command(&["INFO", "replication"]).await;
        if role.contains("role:master") {
            break;
        }
        assert!(began.elapsed() < WAIT_LIMIT, "no fail-over at port {replica}");
        sleep(Duration::from_millis(100)).await;
    }
    // The previous leader may have survived the fail-over, until its lease has expired.
    sleep(LEASE * 2).await;
    let after = wait_for_leader(&elections).await;
    assert!(after >= before, "election term {after} was used after {before}");
    there_were_assert_single_leader(watching).await;
}
