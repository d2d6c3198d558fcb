//! The audit log of a running and of a killed provider, and of a provider with a full disk.

use crate::http::curl;
use crate::run::served::Served;
use crate::stage::{PRICES, Running, Stage, until};
use akash_provider_core::types::BidId;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

pub(super) const FAST: Option<Duration> = Some(Duration::from_millis(250));

pub(super) fn audit(stage: &Stage, more: &[&str]) -> Vec<Value> {
    let (code, said, problem) = stage.ran(&[&["audit", "-o", "json"], more].concat());
    assert_eq!(code, 0, "{said}{problem}");
    said.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn outcome(lines: &[Value], act: &str) -> Option<Value> {
    let is_it = |line: &&Value| line["act"] == act && line["stage"] == "outcome";
    lines.iter().rfind(is_it).cloned()
}

fn lease(stage: &Stage, provider: &Running, dseq: u64) -> BidId {
    let id = stage.order(dseq);
    let bid = stage.bid(&id, provider).id;
    stage.accept(bid.clone());
    until(
        "the lease",
        || provider.dump(),
        || stage.ran(&["leases"]).1.contains(&bid.to_string()),
    );
    bid
}

#[test]
fn acts_of_a_provider_and_of_its_operator_are_listed_with_their_transactions() {
    let mut served = Served::start("audit", FAST, &[]);
    let stage = &served.stage;
    let (code, _, problem) = stage.ran(&["log-level", "error"]);
    assert_eq!(code, 0, "{problem}");
    let id: BidId = stage
        .chain
        .market(|market| market.leases().next().unwrap().lease.id);
    let lease = id.to_string();
    let (code, _, problem) = stage.ran(&["end-lease", &lease, "--reason=decommission"]);
    assert_eq!(code, 0, "{problem}");
    served.until("the teardown", || {
        outcome(&audit(stage, &[]), "teardown").is_some_and(|line| line["outcome"]["result"] == "done")
    });
    let lines = audit(stage, &[]);
    for act in ["certificate_publish", "bid", "lease_close"] {
        let line = outcome(&lines, act).unwrap();
        assert_eq!(line["outcome"]["result"], "committed", "{line}");
        assert_eq!(line["actor"], json!({"kind": "provider"}), "{line}");
        let (hash, fee) = (&line["outcome"]["tx_hash"], &line["outcome"]["fee"]);
        assert!(hash.as_str().is_some_and(|hash| hash.len() == 64), "{line}");
        assert!(fee.as_str().is_some_and(|fee| fee.ends_with("uakt")), "{line}");
        assert!(line["outcome"]["height"].as_u64().is_some(), "{line}");
    }
    // The provider still runs, so the act has no outcome.
    assert_eq!((&lines[0]["act"], outcome(&lines, "run")), (&json!("run"), None));
    for act in ["log_level", "end_lease"] {
        let line = outcome(&lines, act).unwrap();
        assert_eq!(line["outcome"], json!({"result": "done"}), "{line}");
        assert_eq!(line["actor"]["kind"], "user", "{line}");
        assert_eq!(line["actor"]["uid"], nix::unistd::getuid().as_raw(), "{line}");
        assert!(line["actor"]["pid"].as_u64().is_some_and(|pid| pid > 0), "{line}");
    }
    let closed = outcome(&lines, "lease_close").unwrap();
    assert_eq!(
        (&closed["subject"], &closed["reason"]),
        (&json!(lease), &json!("decommission"))
    );
    let teardown = outcome(&lines, "teardown").unwrap();
    let evidence = &teardown["evidence"];
    assert_eq!(evidence["report"]["source"], "chain", "{teardown}");
    assert_eq!(evidence["record"]["reason"], "decommission", "{teardown}");
    // The filter by lease, and the text.
    let of_lease = audit(stage, &["--lease", &lease]);
    assert!(of_lease.iter().all(|line| line["subject"] == lease.as_str()));
    assert_eq!(of_lease.first().map(|line| &line["act"]), Some(&json!("bid")));
    let (_, text, _) = stage.ran(&["audit", "--lease", &lease]);
    assert_eq!(text.lines().count(), of_lease.len(), "{text}");
    assert!(
        text.contains("lease_close") && text.contains("reason decommission"),
        "{text}"
    );
    let (_, text, _) = stage.ran(&["audit", "--since", "0s"]);
    assert_eq!(text, "no acts within this time\n");
    let folder = stage.path("audit");
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(folder.clone()), mode(folder.join("000001.jsonl"))),
        (0o700, 0o600)
    );
    readiness_reports_an_unwritable_log(&served);
    served.provider.signal(Signal::SIGTERM);
    assert_eq!(served.provider.ended(), Some(0), "{}", served.provider.dump());
    let ended = outcome(&audit(&served.stage, &[]), "run").unwrap();
    assert_eq!(ended["outcome"], json!({"result": "done"}));
}

fn readiness_reports_an_unwritable_log(served: &Served) {
    let ready = format!("{}/readyz", served.url);
    // The newest file cannot be opened because it is a directory.
    let newest = served.stage.path("audit/000002.jsonl");
    std::fs::create_dir(&newest).unwrap();
    let (code, _, problem) = served.stage.ran(&["log-level", "warn"]);
    assert_eq!(code, 0, "{problem}");
    let problem = "audit log not writable, closes of leases and teardowns wait";
    let is_reported = || curl(&[&ready]).is_some_and(|(code, body)| code == 200 && body.contains(problem));
    // Without curl, only the log is tested.
    if curl(&[&ready]).is_some() {
        served.until("the problem", is_reported);
    }
    std::fs::remove_dir(&newest).unwrap();
    let is_recovered = || {
        let lines = audit(&served.stage, &[]);
        lines.iter().any(|line| line["act"] == "audit_log_failure")
    };
    served.until("the recovery", is_recovered);
    if let Some((code, body)) = curl(&[&ready]) {
        assert!(code == 200 && !body.contains("audit"), "{body}");
    }
}

#[test]
fn intent_of_a_close_is_visible_after_a_kill_before_its_outcome() {
    let mut stage = Stage::new("audit-kill", true);
    stage.start_node(FAST);
    let mut provider = stage.provider("first", &["--manifest-timeout=1h"]);
    provider.says("ready: bidding");
    let lease = lease(&stage, &provider, 1).to_string();
    // Without a node the transaction has no outcome.
    stage.stop_node();
    let (code, _, problem) = stage.ran(&["end-lease", &lease]);
    assert_eq!(code, 0, "{problem}");
    let closes = |stage: &Stage| -> Vec<Value> {
        let lines = audit(stage, &["--lease", &lease]).into_iter();
        lines.filter(|line| line["act"] == "lease_close").collect()
    };
    until("the intent", || provider.dump(), || !closes(&stage).is_empty());
    provider.kill();
    let before = closes(&stage);
    assert_eq!(before.len(), 1, "{before:?}");
    assert_eq!(before[0]["stage"], "intent");
    // A truncated line does not stop the next start.
    let path = stage.path("audit").join("000001.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}{{\"time\":\"20")).unwrap();
    stage.start_node(FAST);
    let provider = stage.provider("second", &["--manifest-timeout=1h"]);
    provider.says("ready: bidding");
    let (code, _, problem) = stage.ran(&["end-lease", &lease]);
    assert_eq!(code, 0, "{problem}");
    let is_closed = || {
        closes(&stage)
            .iter()
            .any(|line| line["outcome"]["result"] == "committed")
    };
    until("the close", || provider.dump(), is_closed);
    assert_eq!(closes(&stage)[0], before[0]);
    let (_, _, problem) = stage.ran(&["audit"]);
    assert!(problem.contains("lines that cannot be decoded: 1"), "{problem}");
}

#[test]
fn full_disk_delays_closes_and_not_bids_until_space_is_free() {
    /// Script that mounts a full file system and starts a program. Other programs do not see the mount.
    const FULL: &str = r#"mount -t tmpfs -o size=64k tmpfs "$1" && ! head -c 1M /dev/zero >"$1/full" 2>/dev/null &&
        shift && exec "$@""#;
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root may mount a file system");
        return;
    }
    let mut stage = Stage::new("audit-full", true);
    stage.start_node(FAST);
    let dir = stage.path("audit");
    std::fs::create_dir_all(&dir).unwrap();
    let dir = dir.to_str().unwrap();
    let before = ["unshare", "--mount", "sh", "-c", FULL, "sh", dir];
    let words = [&["run"], &PRICES[..], &["--manifest-timeout=1h"]].concat();
    let mut provider = stage.started("provider", stage.command_after(&before, &words));
    provider.says("ready: bidding");
    let first = lease(&stage, &provider, 1).to_string();
    let (code, _, problem) = stage.ran(&["end-lease", &first]);
    assert_eq!(code, 0, "{problem}");
    provider.says("audit log not writable, closes of leases and teardowns wait: ");
    let (code, said, problem) = stage.ran(&["harden", &first]);
    assert!(code == 1 && said.contains("nothing was done"), "{said}{problem}");
    drop(lease(&stage, &provider, 2));
    assert_eq!(stage.live_leases(), 2, "{}", provider.dump());
    let dump = provider.dump();
    assert_eq!(
        dump.matches("audit log not writable: closes").count(),
        1,
        "{dump}"
    );
    assert!(dump.contains("No space left on device"), "{dump}");
    // Free space in the mount namespace of the process.
    let inside = provider.about("root").join(dir.trim_start_matches('/'));
    std::fs::remove_file(inside.join("full")).unwrap();
    provider.says("audit log is writable again");
    until("the close", || provider.dump(), || stage.live_leases() == 1);
    let lines = audit(&stage, &["--audit-log", inside.to_str().unwrap()]);
    // The retained lines of two bids, and the close.
    let bids = lines.iter().filter(|line| line["act"] == "bid").count();
    assert_eq!(bids, 4, "{lines:?}");
    assert!(lines.iter().any(|line| line["act"] == "lease_close"), "{lines:?}");
    provider.signal(Signal::SIGTERM);
    assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
}
