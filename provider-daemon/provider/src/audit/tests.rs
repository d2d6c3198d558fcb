mod provider;
mod sender;

use super::command::FileLog;
use super::files::EXTENSION;
use super::line::{AuditLine, AuditStage, LineFormat};
use super::reader::AuditReader;
use super::*;
use crate::numbered_files::files;
use akash_provider_core::audit::{
    Act, ActKind, ActOutcome, Actor, AuditEntry, AuditLog, AuditedAct, Evidence, RecordEvidence,
};
use akash_provider_core::chain::{ChainTx, Inclusion, MemoryChain};
use akash_provider_core::market::MarketConfig;
use akash_provider_core::types::{
    Address, Agreement, BidId, BlockTime, CloseReason, DecCoin, LeaseState, Msg, ProviderRecord, TxReceipt,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

const ACCOUNT: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

fn home() -> (TempDir, AuditSettings) {
    let home = tempfile::tempdir().unwrap();
    let settings = AuditSettings {
        dir: home.path().join("audit"),
        bytes: 1 << 20,
        files: 8,
    };
    (home, settings)
}

/// Returns the decodable lines of a log, and the number of other lines.
fn lines(dir: &Path) -> (Vec<AuditLine>, u64) {
    let mut reader = AuditReader {
        start: 0,
        subject: None,
        broken: 0,
    };
    let mut lines = Vec::new();
    reader.read(dir, |line| lines.push(line.clone())).unwrap();
    (lines, reader.broken)
}

fn sizes(settings: &AuditSettings) -> Vec<u64> {
    let size = |path: PathBuf| fs::metadata(path).unwrap().len();
    let files = files(&settings.dir, EXTENSION).unwrap();
    files.into_iter().map(size).collect()
}

fn entry(act: Act) -> AuditEntry {
    AuditEntry {
        number: 7,
        act: Arc::new(act),
        outcome: None,
    }
}

#[test]
fn files_are_rotated_within_both_bounds_and_readable_only_by_their_owner() {
    for (bytes, files) in [(1 << 20, 4), (1 << 20, 1000)] {
        let (_home, mut settings) = home();
        (settings.bytes, settings.files) = (bytes, files);
        let line = format!("{}\n", "x".repeat(20_000 - 1));
        for number in 0..80 {
            settings.append(line.as_bytes()).unwrap();
            let sizes = sizes(&settings);
            assert!(
                sizes.len() <= files && sizes.iter().sum::<u64>() <= bytes,
                "after {number} lines: {sizes:?}"
            );
        }
        // More than half of the permitted size is used.
        assert!(
            sizes(&settings).iter().sum::<u64>() > bytes / 2,
            "{:?}",
            sizes(&settings)
        );
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&settings.dir), 0o700);
        for file in fs::read_dir(&settings.dir).unwrap() {
            assert_eq!(mode(&file.unwrap().path()), 0o600);
        }
    }
}

#[test]
fn hostile_texts_stay_on_one_bounded_line() {
    let (_home, settings) = home();
    let hostile = "\"}\n{\"act\":\"forged\"}\r\n\u{2028}\u{1b}[2J\\\0".to_owned() + &"é\n".repeat(2048);
    let mut act = Act::new(ActKind::Teardown, Actor::Provider, hostile.clone()).with_reason(hostile.clone());
    act.evidence.request = Some(hostile.clone());
    let intent = entry(act);
    let outcome = AuditEntry {
        outcome: Some(ActOutcome::new("failed", Some(hostile.clone()))),
        ..intent.clone()
    };
    let log = FileLog::new(settings.clone());
    log.submit(intent);
    log.submit(outcome);
    let text = fs::read_to_string(&files(&settings.dir, EXTENSION).unwrap()[0]).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.len() < 24 << 10, "{}", text.len());
    let (lines, broken) = lines(&settings.dir);
    assert_eq!((lines.len(), broken), (2, 0));
    for line in lines {
        assert_eq!(line.act, "teardown");
        let start: String = hostile.chars().take(1024).collect();
        assert_eq!(line.subject, start + "…");
        let shown = line.to_text();
        assert_eq!(shown.matches('\n').count(), 1, "{shown}");
        assert!(!shown.contains('\u{1b}') && !shown.contains('\r'), "{shown}");
    }
}

#[test]
fn a_truncated_last_line_is_skipped_and_does_not_join_the_next_line() {
    let (_home, settings) = home();
    let log = FileLog::new(settings.clone());
    let act = || entry(Act::new(ActKind::Teardown, Actor::Provider, "first"));
    log.submit(act());
    let path = &files(&settings.dir, EXTENSION).unwrap()[0];
    let whole = fs::read_to_string(path).unwrap();
    for end in [1, whole.len() / 2, whole.len() - 1] {
        fs::write(path, format!("{whole}{}", &whole[..end])).unwrap();
        assert_eq!(
            lines(&settings.dir).1,
            0,
            "the end of a line that is being written"
        );
        log.submit(act());
        let (lines, broken) = lines(&settings.dir);
        // Without its line feed only, the truncated line is complete.
        let (complete, truncated) = if end == whole.len() - 1 { (3, 0) } else { (2, 1) };
        assert_eq!((lines.len(), broken), (complete, truncated), "{end}");
    }
}

#[test]
fn a_newest_file_that_cannot_be_opened_fails_the_write() {
    let (_home, settings) = home();
    settings.append(b"first\n").unwrap();
    // The file cannot be opened for writing because it is a directory.
    let path = settings.dir.join("000002.jsonl");
    fs::create_dir(&path).unwrap();
    let error = format!("{:#}", settings.append(b"second\n").unwrap_err());
    assert!(
        error.contains("000002.jsonl") && error.contains("directory"),
        "{error}"
    );
    fs::remove_dir(&path).unwrap();
    settings.append(b"third\n").unwrap();
    let text = fs::read_to_string(settings.dir.join("000001.jsonl")).unwrap();
    assert_eq!(text, "first\nthird\n");
}

#[test]
fn writers_of_two_processes_take_turns() {
    let (_home, settings) = home();
    settings.append(b"first\n").unwrap();
    // A second open file excludes the writer as another process does.
    let other = fs::File::open(settings.dir.join("lock")).unwrap();
    other.lock().unwrap();
    let waiting = std::thread::spawn({
        let settings = settings.clone();
        move || settings.append(b"second\n")
    });
    std::thread::sleep(Duration::from_millis(100));
    let path = settings.dir.join("000001.jsonl");
    assert_eq!(fs::read_to_string(&path).unwrap(), "first\n");
    other.unlock().unwrap();
    waiting.join().unwrap().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "first\nsecond\n");
}

#[test]
fn lines_of_concurrent_processes_are_complete_also_at_a_rotation() {
    const LINES: usize = 60;
    let (_home, mut settings) = home();
    settings.files = 16;
    let writers = ["first", "second", "third"].map(|name| {
        let settings = settings.clone();
        std::thread::spawn(move || {
            // Each log opens its own files, as a process does.
            let log = FileLog::new(settings);
            for number in 0..LINES {
                let long = "x".repeat(1000);
                let act = Act::new(ActKind::Bid, Actor::Provider, format!("{name} {number}"));
                log.submit(entry(act.with_reason(long)));
            }
        })
    });
    for writer in writers {
        writer.join().unwrap();
    }
    assert!(sizes(&settings).len() > 1, "no rotation");
    let (lines, broken) = lines(&settings.dir);
    assert_eq!(broken, 0);
    for name in ["first", "second", "third"] {
        let subjects = lines.iter().map(|line| &*line.subject);
        let of_writer: Vec<&str> = subjects.filter(|subject| subject.starts_with(name)).collect();
        let expected: Vec<String> = (0..LINES).map(|number| format!("{name} {number}")).collect();
        assert_eq!(of_writer, expected);
    }
}

#[test]
fn access_is_checked_without_writing() {
    let (home, mut settings) = home();
    settings.check_access().unwrap();
    assert!(!settings.dir.exists(), "created by the check");
    settings.append(b"line\n").unwrap();
    settings.check_access().unwrap();
    fs::write(home.path().join("file"), "").unwrap();
    settings.dir = home.path().join("file/audit");
    let error = settings.check_access().unwrap_err();
    assert!(error.ends_with("/file: not a directory"), "{error}");
}

#[test]
fn lines_have_actor_reason_evidence_and_outcome() {
    let lease = format!("{ACCOUNT}/1/1/1/{ACCOUNT}");
    let mut act = Act::new(ActKind::Teardown, Actor::Provider, lease.clone()).with_reason("owner");
    act.evidence = Evidence {
        height: Some(121),
        report: Some(("chain", 120)),
        record: Some(RecordEvidence {
            height: 121,
            state: LeaseState::Closed,
            agreement: Agreement::Confirmed,
            reason: Some(CloseReason::Owner),
        }),
        ..Evidence::default()
    };
    let intent = entry(act);
    let format = LineFormat::new();
    let line = AuditLine::new(&format, &intent);
    let value: serde_json::Value = serde_json::from_str(&line.to_json()).unwrap();
    assert_eq!(
        value["evidence"],
        serde_json::json!({
            "height": 121,
            "report": {"source": "chain", "height": 120},
            "record": {"height": 121, "state": "closed", "agreement": "confirmed", "reason": "owner"},
        })
    );
    assert_eq!(value["actor"], serde_json::json!({"kind": "provider"}));
    let (_, text) = line
        .to_text()
        .split_once(' ')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    assert_eq!(
        text,
        format!(
            "teardown {lease}: intent (reason owner, by provider, reported by chain at height 120, record closed owner \
             at height 121, confirmed, at height 121)\n"
        )
    );
    let receipt = TxReceipt {
        hash: "AB12".to_owned(),
        fee: "500uakt".parse().unwrap(),
    };
    let outcome = AuditEntry {
        act: Arc::new(Act::new(ActKind::Withdrawal, user(1000, Some(5)), lease.clone())),
        outcome: Some(ActOutcome {
            height: Some(9),
            receipt: Some(receipt),
            ..ActOutcome::new("committed", None)
        }),
        ..intent.clone()
    };
    let line = AuditLine::new(&format, &outcome);
    assert_eq!(
        (line.stage, line.id),
        (AuditStage::Outcome, AuditLine::new(&format, &intent).id)
    );
    let line = AuditLine::new(&format, &outcome);
    let text = line.to_text();
    let expected = format!(
        "withdrawal {lease}: committed in block 9, transaction AB12, fee 500uakt (by user uid 1000 pid 5)\n"
    );
    assert!(text.ends_with(&expected), "{text}");
    let time = &line.time;
    assert!(
        time.ends_with('Z') && humantime::parse_rfc3339(time).is_ok(),
        "{time}"
    );
}

/// Formats of lines in existing logs, with the time `T` and the ID `I`.
const JSON: [&str; 3] = [
    r#"{"time":"T","id":"I","act":"bid","stage":"outcome","actor":{"kind":"user","uid":1000,"pid":5},"subject":"s","reason":"r","evidence":{"height":1,"report":{"source":"chain","height":2},"record":{"height":3,"state":"insufficient_funds","agreement":"single","reason":"owner"},"price":"4.5uakt","deposit":"6uakt","request":"q","object":"o"},"outcome":{"result":"committed","message":"m","height":9,"tx_hash":"AB","fee":"7uakt"}}"#,
    r#"{"time":"T","id":"I","act":"teardown","stage":"intent","actor":{"kind":"provider"},"subject":"s","evidence":{}}"#,
    r#"{"time":"T","id":"I","act":"audit_log_failure","stage":"outcome","actor":{"kind":"provider"},"subject":"/audit","evidence":{},"outcome":{"result":"written_late","message":"full; 2 lines dropped"}}"#,
];

#[test]
fn json_of_lines_is_unchanged_and_readable() {
    let mut act = Act::new(ActKind::Bid, user(1000, Some(5)), "s").with_reason("r");
    act.evidence = Evidence {
        height: Some(1),
        report: Some(("chain", 2)),
        record: Some(RecordEvidence {
            height: 3,
            state: LeaseState::InsufficientFunds,
            agreement: Agreement::Single,
            reason: Some(CloseReason::Owner),
        }),
        price: Some(DecCoin::new(&"uakt".into(), "4.5".parse().unwrap())),
        deposit: Some("6uakt".parse().unwrap()),
        request: Some("q".to_owned()),
        object: Some("o".to_owned()),
    };
    let receipt = TxReceipt {
        hash: "AB".to_owned(),
        fee: "7uakt".parse().unwrap(),
    };
    let outcome = ActOutcome {
        height: Some(9),
        receipt: Some(receipt),
        ..ActOutcome::new("committed", Some("m".to_owned()))
    };
    let bid = AuditEntry {
        outcome: Some(outcome),
        ..entry(act)
    };
    let teardown = entry(Act::new(ActKind::Teardown, Actor::Provider, "s"));
    let format = LineFormat::new();
    let lines = [
        AuditLine::new(&format, &bid),
        AuditLine::new(&format, &teardown),
        AuditLine::failure(&format, 0, Path::new("/audit"), "full", 2),
    ];
    for (mut line, json) in lines.into_iter().zip(JSON) {
        (line.time, line.id) = ("T".to_owned(), "I".to_owned());
        assert_eq!(line.to_json(), format!("{json}\n"));
        assert_eq!(serde_json::from_str::<AuditLine>(json).unwrap(), line);
    }
}

#[test]
fn line_of_a_deletion_has_the_object() {
    let mut act = Act::new(ActKind::ObjectDelete, Actor::Provider, "lease").with_reason("no_manifest");
    act.evidence.object = Some("Secret lease/name, uid u1".to_owned());
    let line = AuditLine::new(&LineFormat::new(), &entry(act));
    let value: serde_json::Value = serde_json::from_str(&line.to_json()).unwrap();
    assert_eq!(value["evidence"]["object"], "Secret lease/name, uid u1");
    let expected =
        " object_delete lease: intent (reason no_manifest, by provider, object Secret lease/name, uid u1)\n";
    assert!(line.to_text().ends_with(expected), "{}", line.to_text());
}

#[tokio::test]
async fn lines_are_retained_while_the_log_fails_and_written_afterwards() {
    let (_home, settings) = home();
    fs::write(&settings.dir, "").unwrap();
    let audit = start(settings.clone()).unwrap();
    for number in 0..20 {
        let act = audit.act(Act::new(ActKind::Bid, Actor::Provider, number.to_string()));
        act.record_intent().await.unwrap();
    }
    let destroying = || audit.act(Act::new(ActKind::Teardown, Actor::Provider, "lease"));
    destroying().record_intent().await.unwrap_err();
    fs::remove_file(&settings.dir).unwrap();
    let delayed: AuditedAct = destroying();
    while delayed.record_intent().await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (lines, broken) = lines(&settings.dir);
    assert_eq!((lines.len(), broken), (22, 0));
    // The line about the failure precedes the retained lines.
    assert_eq!(lines[0].act, "audit_log_failure");
    let why = lines[0].to_text();
    assert!(
        why.contains("written_late: cannot create") && !why.contains("dropped"),
        "{why}"
    );
    let subjects: Vec<&str> = lines[1..21].iter().map(|line| &*line.subject).collect();
    let expected: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    assert_eq!(subjects, expected);
    let health = audit.health();
    assert_eq!((health.lines, health.dropped, health.problem), (22, 0, None));
    audit.finish().await;
}
