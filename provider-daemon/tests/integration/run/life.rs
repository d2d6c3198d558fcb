//! Orders, bids and leases of a provider on a working network.

use crate::stage::{ADDRESS, Stage, until};
use akash_provider_core::types::BidState;
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

const FAST: Option<Duration> = Some(Duration::from_millis(250));

#[test]
fn order_gets_bid_and_lease_and_is_closed() {
    let mut stage = Stage::new("life", true);
    stage.start_node(FAST);
    let mut provider = stage.provider("provider", &["--output=json"]);
    provider.says("\"is_ready\":true");
    assert!(provider.output().contains(ADDRESS), "{}", provider.dump());
    let id = stage.order(1);
    let bid = stage.bid(&id, &provider);
    provider.says("\"event\":\"bid_placed\"");
    stage.accept(bid.id.clone());
    provider.says("\"event\":\"lease_won\"");
    assert_eq!(stage.live_leases(), 1);
    stage.close(id);
    provider.says("\"event\":\"lease_closed\"");
    let lines = provider.output();
    let parsed = lines.lines().map(serde_json::from_str::<serde_json::Value>);
    let parsed: Vec<_> = parsed.map(Result::unwrap).collect();
    let is_event = |line: &serde_json::Value| line["event"].is_string() && line["at"].is_string();
    assert!(parsed.iter().all(is_event), "{lines}");
    // The time of an order counts from the order, not from the start of the provider.
    let placed = parsed.iter().find(|line| line["event"] == "bid_placed").unwrap();
    let (since, at) = (placed["since_order_ms"].as_u64(), placed["at_ms"].as_u64());
    assert!(since.unwrap() < at.unwrap(), "{placed}");
    provider.signal(Signal::SIGTERM);
    assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
    assert!(provider.output().contains("shutting down"), "{}", provider.dump());
}

#[test]
fn queries_use_grpc_and_blocks_use_rpc() {
    let mut stage = Stage::new("grpc", true);
    stage.start_node(FAST);
    let nodes = format!("{},{}", stage.url(), stage.grpc_url());
    let mut provider = stage.provider("provider", &["--node", &nodes]);
    provider.says("ready: bidding");
    let id = stage.order(1);
    stage.bid(&id, &provider);
    provider.says("bid placed");
    let (code, out, err) = stage.ran(&["query", "bids", "--node", &stage.grpc_url(), "-o", "json"]);
    assert_eq!(code, 0, "{err}");
    let bids: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(bids["bids"][0]["bid"]["id"]["provider"], ADDRESS);
    provider.signal(Signal::SIGINT);
    assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
}

/// The next start adopts open bids, after `kill -9` and after a normal shutdown.
#[test]
fn bids_survive_every_kind_of_stop() {
    let mut stage = Stage::new("restart", true);
    stage.start_node(FAST);
    let mut first = stage.provider("first", &[]);
    first.says("ready: bidding");
    let id = stage.order(1);
    let bid = stage.bid(&id, &first);
    first.says("bid placed");
    first.kill();
    let mut second = stage.provider("second", &[]);
    second.says("bid adopted");
    // Two providers with the same home folder would overwrite each other's state.
    let mut beside = stage.provider("beside", &[]);
    assert_eq!(beside.ended(), Some(1));
    assert!(
        beside.dump().contains("in use by another provider"),
        "{}",
        beside.dump()
    );
    let begun = Instant::now();
    second.signal(Signal::SIGTERM);
    assert_eq!(second.ended(), Some(0), "{}", second.dump());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let mut third = stage.provider("third", &[]);
    third.says("bid adopted");
    let bids = stage.bids(&id);
    assert_eq!(
        (bids.len(), bids[0].state, &bids[0].id),
        (1, BidState::Open, &bid.id)
    );
    // The adopted bid is valid and wins.
    stage.accept(bid.id);
    third.says("lease won");
    assert_eq!(stage.live_leases(), 1);
    third.kill();
    let fourth = stage.provider("fourth", &[]);
    fourth.says("lease adopted");
    let output = fourth.output();
    let line = output.lines().find(|l| l.contains("lease adopted")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert!(humantime::parse_rfc3339(words[0]).is_ok(), "{line}");
    assert_eq!(words[1], id.to_string(), "the lease id is complete");
}

#[test]
fn hourly_gas_limit_survives_kill() {
    let mut stage = Stage::new("hour", true);
    stage.start_node(FAST);
    // Enough gas for one bid: bids may use three quarters of the limit, and each takes between 113,000 and
    // 225,000.
    let hour = ["--gas-ceiling=hour=300000"];
    let mut first = stage.provider("first", &hour);
    first.says("ready: bidding");
    stage.bid(&stage.order(1), &first);
    first.says("bid placed");
    first.kill();
    let second = stage.provider("second", &hour);
    second.says("bid adopted");
    let id = stage.order(2);
    until(
        "the limit is reported",
        || second.dump(),
        || second.dump().contains("225000 for an hour (bid)"),
    );
    assert!(stage.bids(&id).is_empty(), "{}", second.dump());
}

#[test]
fn provider_bids_after_late_registration() {
    let mut stage = Stage::new("later", false);
    stage.start_node(FAST);
    let provider = stage.provider("provider", &[]);
    provider
        .says("waiting for this provider to be registered on the chain: `provider-daemon tx provider create");
    let id = stage.order(1);
    provider.says("not registered");
    assert!(stage.bids(&id).is_empty());
    let file = stage.path("provider.yaml");
    std::fs::write(&file, "host: https://provider.example.com:8443\nattributes: []\n").unwrap();
    let (code, _, err) = stage.ran(&["tx", "provider", "create", file.to_str().unwrap(), "--yes"]);
    assert_eq!(code, 0, "{err}");
    until(
        "a bid on one of two orders",
        || provider.dump(),
        || !stage.bids(&id).is_empty(),
    );
}
