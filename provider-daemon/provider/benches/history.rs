//! Cost of the order history per decision: the recorder in the engine, and the writer until the record is in the file.
//! Prints one JSON object per line.
//!
//! `cargo bench -p akash-provider-service --bench history`

use akash_provider_core::Config;
use akash_provider_core::engine::{Effect, Engine};
use akash_provider_core::pricing::{Scale, ScaleConfig};
use akash_provider_core::record::Recorder;
use akash_provider_core::types::{DeclineCode, Event, Now, OrderId};
use akash_provider_service::history::{self, Bounds, OrderFilter};
use anyhow::{Context, ensure};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of decisions in one measurement, below the capacity of the recorder queue.
const DECISIONS: u64 = if cfg!(debug_assertions) { 200 } else { 2_000 };
const ROUNDS: usize = if cfg!(debug_assertions) { 1 } else { 9 };
const OWNER: &str = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
const PROVIDER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(round(&runtime)?);
    }
    let median = |of: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let figures = [
        ("record_decision_us", median(|round| round.1)),
        ("record_decision_engine_us", median(|round| round.0)),
    ];
    for (name, value) in figures {
        println!("{}", json!({ "name": name, "value": value, "unit": "us" }));
    }
    Ok(())
}

/// Records decisions. Returns two durations per decision, in microseconds: the wait of the engine, and the
/// time until the record is in the file.
fn round(runtime: &tokio::runtime::Runtime) -> anyhow::Result<(f64, f64)> {
    let home = tempfile::tempdir()?;
    let bounds = Bounds {
        age: Duration::from_secs(7 * 24 * 3600),
        bytes: 64 << 20,
    };
    let mut prices = ScaleConfig::default();
    prices.cpu = "0.05".parse()?;
    let pricing = Arc::new(Scale::new(prices)?);
    let (mut recorder, history) =
        history::start(home.path(), bounds, pricing)?.context("history is disabled")?;
    let engine = Engine::new(Config::new(PROVIDER.parse()?, "bench"))?;
    // The file is open before the measurement.
    history.store().context("the file cannot be opened")?;
    let begun = Instant::now();
    for dseq in 0..DECISIONS {
        let order: OrderId = format!("{OWNER}/{dseq}/1/1").parse()?;
        let seen = Event::OrderSeen { order: order.clone() };
        let declined = Event::OrderDeclined {
            order,
            reason: DeclineCode::Gpu,
            message: "unit 1: none of the GPU models is declared".to_owned(),
        };
        let effects = [seen, declined].map(|event| Effect::Publish(Arc::new(event)));
        recorder.record_input(&engine, Now::default(), None);
        recorder.record_effects(&effects);
    }
    let in_engine = begun.elapsed();
    let store = history.store().context("the file is unusable")?;
    let in_file = begun.elapsed();
    let filter = OrderFilter {
        limit: usize::MAX,
        ..OrderFilter::default()
    };
    ensure!(
        filter.read(&store)?.len() as u64 == DECISIONS,
        "decisions are missing"
    );
    drop(store);
    runtime.block_on(history.finish());
    let per_decision = |time: Duration| time.as_secs_f64() * 1e6 / DECISIONS as f64;
    Ok((per_decision(in_engine), per_decision(in_file)))
}
