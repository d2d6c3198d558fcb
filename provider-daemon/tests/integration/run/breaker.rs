//! The circuit breaker of a running provider, and other operator commands.

use crate::stage::{ADDRESS, Stage, until};
use akash_provider_core::types::{Address, BidId};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

const FAST: Option<Duration> = Some(Duration::from_millis(250));
/// Time after which the provider closes a lease without a manifest.
const MANIFEST: &str = "--manifest-timeout=3s";
/// Maximum number of blocks, of 250 ms each, until a lease without a manifest is closed.
const LONG_DUE: u64 = 40;

fn object(stage: &Stage, words: &[&str]) -> Value {
    let (code, stdout, problem) = stage.ran(words);
    assert_eq!(code, 0, "{stdout}{problem}");
    serde_json::from_str(&stdout).unwrap()
}

#[test]
fn breaker_is_released_by_command_and_not_by_file() {
    let mut stage = Stage::new("breaker", true);
    stage.start_node(FAST);
    let file = stage.path(&format!("{ADDRESS}.devnet.breaker-tripped"));
    std::fs::write(&file, "tripped").unwrap();
    let (code, _, problem) = stage.ran(&["breaker", "show"]);
    assert!(
        code == 1 && problem.contains("no provider runs with this home directory"),
        "{problem}"
    );
    let provider = stage.provider("provider", &[MANIFEST]);
    provider.says("waiting for the circuit breaker to be released: `provider-daemon breaker release`");
    let id = stage.order(1);
    let bid = stage.bid(&id, &provider);
    stage.accept(bid.id);
    provider.says("lease won");
    std::fs::remove_file(&file).unwrap();
    let height = || stage.chain.market(|market| market.height());
    let won = height();
    until("blocks", || provider.dump(), || height() > won + LONG_DUE);
    assert_eq!(
        stage.live_leases(),
        1,
        "the breaker did not hold the close: {}",
        provider.dump()
    );
    assert!(
        file.exists(),
        "the file is not written again: {}",
        provider.dump()
    );
    let printed_object = object(&stage, &["breaker", "show", "--output=json"]);
    assert_eq!(printed_object["tripped"], json!(true), "{printed_object}");
    assert_eq!(
        printed_object["waiting"].as_array().unwrap().len(),
        1,
        "{printed_object}"
    );
    let (_, stdout, _) = stage.ran(&["breaker", "show"]);
    assert!(
        stdout.contains("circuit breaker tripped") && stdout.contains("/1/1/1/"),
        "{stdout}"
    );
    let (code, stdout, problem) = stage.ran(&["breaker", "release"]);
    assert!(
        code == 0 && stdout.contains("circuit breaker released") && stdout.contains("/1/1/1/"),
        "{stdout}{problem}"
    );
    until("the close", || provider.dump(), || stage.live_leases() == 0);
    provider.says("ready: bidding");
    until("the file is deleted", || provider.dump(), || !file.exists());
    let again = object(&stage, &["breaker", "release", "-o", "json"]);
    assert_eq!(again, json!({ "was_tripped": false, "waited": [] }));
    let printed_object = object(&stage, &["breaker", "show", "-o", "json"]);
    assert_eq!(printed_object["tripped"], json!(false), "{printed_object}");
}

#[test]
fn breaker_of_one_owner_stays_tripped_across_restarts_until_released() {
    let mut stage = Stage::new("breaker-owner", true);
    stage.start_node(FAST);
    let file = stage.path(&format!("{ADDRESS}.devnet.breaker-tripped"));
    std::fs::write(&file, format!("owner {ADDRESS}\n")).unwrap();
    for name in ["first", "second"] {
        let mut provider = stage.provider(name, &[]);
        provider.says("ready: bidding");
        let printed_object = object(&stage, &["breaker", "show", "-o", "json"]);
        assert_eq!(
            (&printed_object["tripped"], &printed_object["held_owners"]),
            (&json!(false), &json!([ADDRESS]))
        );
        std::fs::remove_file(&file).unwrap();
        until("the file is written again", || provider.dump(), || file.exists());
        provider.signal(nix::sys::signal::Signal::SIGTERM);
        assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
        let stored = std::fs::read_to_string(&file).unwrap();
        assert!(stored.ends_with(&format!("\nowner {ADDRESS}\n")), "{stored}");
    }
    let provider = stage.provider("third", &[]);
    provider.says("ready: bidding");
    let (_, stdout, problem) = stage.ran(&["breaker", "show"]);
    assert!(
        stdout.contains("owners for which the breaker tripped") && stdout.contains(ADDRESS),
        "{stdout}{problem}"
    );
    let other = Address::from_bytes(&[9; 20]).unwrap();
    let (code, stdout, problem) = stage.ran(&["breaker", "release", "--owner", other.as_str()]);
    assert!(
        code == 1 && problem.contains("has not tripped for"),
        "{stdout}{problem}"
    );
    let (code, stdout, problem) = stage.ran(&["breaker", "release", "--owner", ADDRESS]);
    let released = format!("circuit breaker released for {ADDRESS}");
    assert!(code == 0 && stdout.contains(&released), "{stdout}{problem}");
    until("the file is deleted", || provider.dump(), || !file.exists());
}

#[test]
fn control_socket_serves_operator_commands_only() {
    let mut stage = Stage::new("operator", true);
    stage.start_node(FAST);
    let socket = stage.path("provider.sock");
    // The socket file of a killed provider does not prevent a start.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let mut provider = stage.provider("provider", &[]);
    provider.says("ready: bidding");
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let scanned = object(&stage, &["reconcile", "--dry-run", "-o", "json"]);
    assert_eq!(scanned, json!({ "dry_run": true, "findings": [] }));
    let (code, stdout, problem) = stage.ran(&["scan"]);
    assert_eq!((code, stdout.as_str()), (0, "no differences\n"), "{problem}");
    let lease = format!("{ADDRESS}/1/1/1/{ADDRESS}");
    let (code, stdout, problem) = stage.ran(&["harden", &lease]);
    assert!(
        code == 1 && stdout.contains("leases run in memory"),
        "{stdout}{problem}"
    );
    let (code, stdout, problem) = stage.ran(&["harden", "--all"]);
    assert_eq!((code, stdout.as_str()), (0, ""), "{problem}");
    // An empty request, a request that is too long, and a request of another version.
    let long = vec![b'x'; 8 * 1024];
    for question in [&b"\n"[..], &long, b"{\"ask\":\"tea\"}\n"] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        // A request may be refused before it was sent completely.
        let _ = stream.write_all(question);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(
            answer.contains("invalid request") || question.len() > 4096,
            "{answer}"
        );
    }
    // Silent connections do not block other requests for long.
    let silent: Vec<_> = (0..20).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    let printed_object = object(&stage, &["breaker", "show", "-o", "json"]);
    assert_eq!(printed_object["tripped"], json!(false), "{printed_object}");
    drop(silent);
    provider.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
    assert!(!socket.exists(), "the socket is deleted with its provider");
}

/// Asserts that the reported earnings of a lease match the age of the lease in blocks. Checks the earnings
/// before and after a full scan.
fn check_earnings(stage: &Stage, lease: &BidId) {
    let height = || stage.chain.market(|market| market.height());
    let record = stage.chain.market(|market| market.lease(lease)).unwrap().lease;
    let price: f64 = record.price.amount.to_plain().parse().unwrap();
    let amount = |line: &Value, name: &str| -> f64 {
        assert_eq!(line[name]["denom"], json!("uact"), "{name} in {line}");
        line[name]["amount"].as_str().unwrap().parse().unwrap()
    };
    let check = || {
        // The provider processes a block shortly after the market.
        let first = height().saturating_sub(4);
        let listed = object(stage, &["leases", "--output=json"]);
        let last = height();
        let lines = listed["leases"].as_array().unwrap();
        let line = lines
            .iter()
            .find(|line| line["lease"] == json!(lease.to_string()))
            .unwrap();
        let blocks = amount(line, "accrued") / price;
        let limits = first.saturating_sub(record.created_at)..=last - record.created_at;
        assert!(
            (blocks - blocks.round()).abs() < 1e-6 && limits.contains(&(blocks.round() as u64)),
            "{limits:?} {line}"
        );
        assert_eq!((amount(line, "price"), amount(line, "withdrawn")), (price, 0.0));
        // Blocks take between 1 ms and 6.5 s.
        assert!(
            (398_769.0..=2.6e9).contains(&(amount(line, "price_30_days") / price).ceil()),
            "{line}"
        );
    };
    check();
    // A scan fails if a block is added between its queries.
    let has_scanned = || stage.ran(&["reconcile", "--dry-run"]).0 == 0;
    until("a full scan", String::new, has_scanned);
    check();
}

#[test]
fn operator_closes_exactly_one_lease_by_command() {
    let mut stage = Stage::new("end-lease", true);
    stage.start_node(FAST);
    let provider = stage.provider("provider", &["--manifest-timeout=1h"]);
    provider.says("ready: bidding");
    let leases = [1, 2].map(|number| {
        let id = stage.order(number);
        let bid = stage.bid(&id, &provider).id;
        stage.accept(bid.clone());
        bid
    });
    let listed = || {
        object(&stage, &["leases", "--output=json"])["leases"]
            .as_array()
            .unwrap()
            .len()
    };
    until(
        "the provider has observed both leases",
        || provider.dump(),
        || listed() == 2,
    );
    check_earnings(&stage, &leases[0]);
    let [ended, other] = &leases;
    let ended = ended.to_string();
    let closed = object(
        &stage,
        &["end-lease", &ended, "--reason=decommission", "--output=json"],
    );
    assert_eq!(
        (&closed["lease"], &closed["reason"]),
        (&json!(ended), &json!("decommission"))
    );
    until(
        "the lease is closed",
        || provider.dump(),
        || stage.live_leases() == 1,
    );
    until("the lease is removed", || provider.dump(), || listed() == 1);
    let left = object(&stage, &["leases", "--output=json"]);
    assert_eq!(left["leases"][0]["lease"], json!(other.to_string()), "{left}");
    let (code, _, problem) = stage.ran(&["end-lease", &ended]);
    assert!(code == 1 && problem.contains("refused"), "{problem}");
    let (code, _, problem) = stage.ran(&["end-lease", &ended, "--reason=owner"]);
    assert!(code == 2 && problem.contains("decommission"), "{problem}");
}

#[test]
fn log_level_of_a_running_provider_is_changed_by_command() {
    let mut stage = Stage::new("log-level", true);
    stage.start_node(FAST);
    let provider = stage.provider("provider", &["--log-level=warn"]);
    provider.says("ready: bidding");
    assert!(!provider.dump().contains("TRACE"), "{}", provider.dump());
    let changed = object(&stage, &["log-level", "trace", "--output=json"]);
    assert_eq!(changed, json!({"level": "trace", "before": "warn"}));
    until(
        "a trace",
        || provider.dump(),
        || provider.dump().contains("TRACE"),
    );
    let printed_object = object(&stage, &["log-level", "--output=json"]);
    assert_eq!(printed_object["level"], json!("trace"));
    let (code, _, problem) = stage.ran(&["log-level", "verbose"]);
    assert!(
        code == 2 && problem.contains("invalid log level `verbose`"),
        "{problem}"
    );
}
