//! The order history on a full disk, and with a file that is damaged or of a later version. Only the
//! recording stops; the provider continues to bid.

use crate::stage::{PRICES, Running, Stage, until};
use nix::sys::signal::Signal;
use redb::{Database, TableDefinition};
use serde_json::Value;
use std::time::Duration;

const FAST: Option<Duration> = Some(Duration::from_millis(250));
/// Script that mounts a small file system for the started process only.
const SMALL: &str = r#"mount -t tmpfs -o size=8m tmpfs "$1" && chmod 700 "$1" && shift && exec "$@""#;
const INTERRUPTED: &str = "order history not recorded, no lease is affected";
/// Number of orders that fill the small file system.
const ORDERS_MAX: u64 = 60;

/// Runs a command with the directory `home`, and returns its JSON output.
fn object(stage: &Stage, home: &str, words: &[&str]) -> Value {
    let (code, out, err) = stage.ran(&[words, &["--home", home, "-o", "json"]].concat());
    assert!(code == 0 || words[0] == "doctor", "{out}{err}");
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"))
}

/// Returns the severity and the remedy that `doctor` reports for the order history.
fn checked(stage: &Stage, home: &str) -> (String, Option<String>) {
    let report = object(stage, home, &[&["doctor"], &PRICES[..]].concat());
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["subject"] == "order history");
    let check = check.unwrap_or_else(|| panic!("{report}"));
    let text = |name: &str| check[name].as_str().map(str::to_owned);
    (text("severity").unwrap(), text("help"))
}

fn dseqs(stage: &Stage, home: &str) -> Vec<u64> {
    let orders = object(stage, home, &["orders", "--limit=1000"]);
    let orders = orders["orders"].as_array().unwrap();
    let dseq = |order: &Value| order["order"].as_str()?.split('/').nth(1)?.parse().ok();
    orders.iter().filter_map(dseq).collect()
}

fn bids(stage: &Stage, provider: &Running, dseq: u64) {
    let id = stage.order(dseq);
    drop(stage.bid(&id, provider));
}

#[test]
fn full_disk_stops_only_the_recording_until_space_is_free() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root may mount a file system");
        return;
    }
    let mut stage = Stage::new("orders-full", true);
    stage.start_node(FAST);
    let home = stage.path("home");
    std::fs::create_dir(&home).unwrap();
    let home = home.to_str().unwrap();
    let before = ["unshare", "--mount", "sh", "-c", SMALL, "sh", home];
    let words = [&["run"], &PRICES[..], &["--home", home]].concat();
    let mut provider = stage.started("provider", stage.command_after(&before, &words));
    provider.says("ready: bidding");
    // The home directory in the mount namespace of the process.
    let inside = provider.about("root").join(home.trim_start_matches('/'));
    let inside = inside.to_str().unwrap();
    bids(&stage, &provider, 1);
    until(
        "the first order",
        || provider.dump(),
        || dseqs(&stage, inside) == [1],
    );

    let full = format!("{inside}/full");
    std::fs::write(&full, vec![0; 16 << 20]).unwrap_err();
    let mut dseq = 1;
    while !provider.output().contains("order history not recorded, retrying") {
        dseq += 1;
        assert!(dseq < ORDERS_MAX, "{}", provider.dump());
        bids(&stage, &provider, dseq);
        std::thread::sleep(Duration::from_millis(600));
    }
    for _ in 0..3 {
        dseq += 1;
        bids(&stage, &provider, dseq);
    }
    let orders = object(&stage, inside, &["orders", "--limit=1000"]);
    assert!(
        orders["problem"].as_str().unwrap().contains("No space left"),
        "{orders}"
    );
    assert!(dseqs(&stage, inside).contains(&1), "{orders}");
    let (severity, help) = checked(&stage, inside);
    assert!(
        severity == "warning" && help.unwrap().starts_with("free space"),
        "{severity}"
    );
    let output = provider.dump();
    assert_eq!(output.matches(INTERRUPTED).count(), 1, "{output}");
    assert!(output.matches("state file not written").count() <= 1, "{output}");

    std::fs::remove_file(&full).unwrap();
    // The free space is found after at most a second.
    std::thread::sleep(Duration::from_millis(1_200));
    bids(&stage, &provider, 500);
    provider.says("order history can be written again");
    until(
        "the last order",
        || provider.dump(),
        || dseqs(&stage, inside).contains(&500),
    );
    assert_eq!(checked(&stage, inside).0, "ok");
    provider.signal(Signal::SIGTERM);
    assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
}

#[test]
fn file_of_a_later_version_is_reported_once_and_the_provider_runs() {
    const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("about");
    let mut stage = Stage::new("orders-later", true);
    stage.start_node(FAST);
    let path = stage.path("orders.redb");
    let database = Database::create(&path).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(ABOUT).unwrap().insert("layout", 99).unwrap();
    write.commit().unwrap();
    drop(database);
    let mut provider = stage.provider("provider", &[]);
    provider.says("order history not recorded, retrying");
    for dseq in 1..=3 {
        bids(&stage, &provider, dseq);
    }
    let (code, out, err) = stage.ran(&["orders"]);
    assert!(code == 1 && err.contains("later version"), "{out}{err}");
    let home = stage.path("");
    assert_eq!(checked(&stage, home.to_str().unwrap()).0, "warning");
    provider.signal(Signal::SIGTERM);
    assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
    let output = provider.dump();
    assert_eq!(output.matches(INTERRUPTED).count(), 1, "{output}");
}

#[test]
fn truncated_file_is_moved_aside_once_and_recording_continues() {
    let mut stage = Stage::new("orders-truncated", true);
    stage.start_node(FAST);
    let home = stage.path("");
    let home = home.to_str().unwrap();
    let path = stage.path("orders.redb");
    let mut first = stage.provider("first", &[]);
    bids(&stage, &first, 1);
    until("the first order", || first.dump(), || dseqs(&stage, home) == [1]);
    first.signal(Signal::SIGTERM);
    assert_eq!(first.ended(), Some(0), "{}", first.dump());
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let mut second = stage.provider("second", &[]);
    bids(&stage, &second, 2);
    until(
        "the second order",
        || second.dump(),
        || dseqs(&stage, home).contains(&2),
    );
    second.signal(Signal::SIGTERM);
    assert_eq!(second.ended(), Some(0), "{}", second.dump());
    let output = second.dump();
    assert_eq!(output.matches("moved aside").count(), 1, "{output}");
}
