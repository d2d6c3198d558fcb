use super::super::Metrics;
use super::*;
use crate::audit::{self, AuditSettings};
use crate::history::{self, Bounds};
use crate::supervise::{Part, Supervisor};
use akash_provider_core::Config;
use akash_provider_core::audit::{Act, ActKind, Actor};
use akash_provider_core::engine::{Effect, Engine};
use akash_provider_core::pricing::{Scale, ScaleConfig};
use akash_provider_core::record::Recorder;
use akash_provider_core::types::{Event, Now};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const ACCOUNT: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
/// Number of audit lines, more than the log retains during a failure.
const LINES: usize = 3_000;

fn engine() -> Engine {
    Engine::new(Config::new(ACCOUNT.parse().unwrap(), "test")).unwrap()
}

/// Records one step of the engine, with one new order.
fn step(recorder: &mut impl Recorder) {
    recorder.record_input(&engine(), Now::default(), None);
    let order = format!("{ACCOUNT}/1/1/1").parse().unwrap();
    recorder.record_effects(&[Effect::Publish(Arc::new(Event::OrderSeen { order }))]);
}

/// Starts a part that fails twice, and a part that stalls.
async fn parts() -> Supervisor {
    let mut parts = Supervisor::new(CancellationToken::new());
    let mut failures = 0..2;
    parts.again(Part::Metrics, move |_| match failures.next() {
        Some(_) => Box::pin(async { Err("no port".to_owned()) }),
        None => Box::pin(std::future::pending()),
    });
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(60)).await;
    tokio::time::resume();
    parts.pulse(Part::Provider).beat(Duration::ZERO);
    parts
}

/// Starts an audit log in place of a file, and sends lines and two acts that need a durable line.
async fn audit(dir: &Path) -> Audit {
    fs::write(dir, "").unwrap();
    let settings = AuditSettings {
        dir: dir.to_owned(),
        bytes: 64 << 20,
        files: 8,
    };
    let audit = audit::start(settings).unwrap();
    for _ in 0..LINES {
        let act = Act::new(ActKind::Bid, Actor::Provider, "bid").with_reason("\u{1}".repeat(1_000));
        audit.act(act).record_intent().await.unwrap();
    }
    for _ in 0..2 {
        let act = Act::new(ActKind::Teardown, Actor::Provider, "lease");
        audit.act(act).record_intent().await.unwrap_err();
    }
    audit
}

/// Starts an order history in place of a directory, and records four facts.
fn history(home: &Path) -> History {
    fs::create_dir(home.join(history::FILE)).unwrap();
    let bounds = Bounds {
        age: Duration::from_secs(3_600),
        bytes: 64 << 20,
    };
    let mut prices = ScaleConfig::default();
    prices.cpu = "1".parse().unwrap();
    let pricing = Arc::new(Scale::new(prices).unwrap());
    let (mut recorder, history) = history::start(home, bounds, pricing).unwrap().unwrap();
    (0..4).for_each(|_| step(&mut recorder));
    history
}

/// Starts a flight recorder without its directory, and records one step.
fn recording(dir: &Path) -> flight::FlightHealth {
    let (mut recorder, finish) = flight::start(dir, 1 << 20, engine().config()).unwrap();
    fs::remove_dir_all(dir).unwrap();
    step(&mut recorder);
    finish.health()
}

#[tokio::test]
async fn each_failure_of_a_part_and_of_a_file_is_counted_in_a_scrape() {
    let home = tempfile::tempdir().unwrap();
    let [state, recorded, log] = ["state", "recording", "audit"].map(|name| home.path().join(name));
    let (parts, audit) = (parts().await, audit(&log).await);
    let _watchdog = parts.watchdog().unwrap();
    let metrics = Metrics::of(PartsSource {
        pulses: parts.pulses(),
        leadership: None,
        recording: Some(recording(&recorded)),
        history: Some(history(home.path())),
        audit: Some(audit.clone()),
        state,
    });
    fs::remove_file(&log).unwrap();
    audit.finish().await;
    let lines = || {
        let files = fs::read_dir(&log).unwrap().map(|file| file.unwrap().path());
        let texts = files.map(|file| fs::read_to_string(file).unwrap());
        let written: usize = texts.map(|text| text.matches("\"act\":\"bid\"").count()).sum();
        assert!(written < LINES, "{written}");
        format!(
            r#"akash_provider_audit_dropped_lines_total {}.0
            akash_provider_audit_delayed_attempts_total 2.0
            akash_provider_order_history_missed_facts_total 4.0
            akash_provider_recording_missed_turns_total 1.0
            akash_provider_part_restarts_total{{part="metrics_server"}} 2.0
            akash_provider_part_stalls_total{{part="provider_loop"}} 1.0"#,
            LINES - written
        )
    };
    for _ in 0..1_000 {
        if metrics.missing(&lines()).is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    metrics.check(&lines());
}
