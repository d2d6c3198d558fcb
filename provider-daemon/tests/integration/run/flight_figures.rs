//! Measures the cost of a recording and the speed of a replay. Prints one JSON object per line: `{"name",
//! "value", "unit"}`. `cargo xtask bench ha` runs the measurement on a release build for `FIGURES_SECONDS`.
//! Without the variable a short form runs.

use crate::run::load::Crowd;
use crate::run::served::Served;
use crate::stage::{Running, Stage, until};
use akash_provider_core::Config;
use akash_provider_core::engine::{Call, Completion, Effect, EffectId, Engine, Input, Leadership};
use akash_provider_core::inventory::InventoryUpdate;
use akash_provider_core::inventory::node_inventory::NodeInventory;
use akash_provider_core::inventory::spec::{ClusterSpec, NodeSpec};
use akash_provider_core::market::{Market, MarketConfig, TenantMsg};
use akash_provider_core::record::Recorder;
use akash_provider_core::sdl::{self, Sdl};
use akash_provider_core::types::{
    Address, Agreement, BlockTime, ChainEvent, Coin, Dec, DecCoin, DeploymentId, Mono, Msg, Now, Observed,
    ProviderRecord, TxOutcome,
};
use akash_provider_service::flight;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Block time of most tests, shorter than in the Akash network.
const FAST: Option<Duration> = Some(Duration::from_millis(250));
const NETWORK: Option<Duration> = Some(Duration::from_secs(6));
/// Interval between two orders. Each order gets a lease, and the lease is then closed.
const PAUSE: Duration = Duration::from_millis(50);
/// Clock ticks per second in `/proc`.
const TICKS: f64 = 100.0;
/// Duration of each measurement of the benchmark, in seconds.
const WHOLE: u64 = 40;

fn print(name: &str, value: f64, unit: &str) {
    println!("{}", json!({"name": name, "value": value, "unit": unit}));
}

/// Returns the duration of each measurement, in seconds; by default 1.
fn seconds() -> u64 {
    std::env::var("FIGURES_SECONDS").map_or(1, |text| text.parse().unwrap())
}

/// Converts a count per `WHOLE` seconds to a count for the configured duration.
fn share(count: u64) -> u64 {
    count * seconds().min(WHOLE) / WHOLE
}

fn cpu_seconds(one: &Running) -> f64 {
    let stat = std::fs::read_to_string(one.about("stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.map(|field| field.parse::<f64>().unwrap()).sum::<f64>() / TICKS
}

fn bytes_of(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

fn served(name: &str, blocks: Option<Duration>, record: Option<&Path>) -> Served {
    let mut flags = vec![
        "--nodes=64",
        "--node-cpu=64",
        "--node-memory=256Gi",
        "--node-storage=16Ti",
        "--gas-ceiling=hour=1000000000000",
        "--fee-ceiling=hour=1000000000000",
    ];
    if let Some(dir) = record {
        flags.extend(["--record", dir.to_str().unwrap()]);
    }
    let served = Served::start(name, blocks, &flags);
    served.stage.chain.market(|market| {
        let amount = 1_000_000_000_000_000;
        market.fund(served.tenant.address(), &Coin::new("uact", amount));
    });
    served
}

/// Returns the CPU time of the provider process per order, in seconds.
fn cost_of_an_order(name: &str, record: Option<&Path>) -> f64 {
    let served = served(name, FAST, record);
    let mut crowd = Crowd::new(&served, Duration::from_secs(seconds().min(10)));
    let (began, before) = (Instant::now(), cpu_seconds(&served.provider));
    crowd.lives(began, Duration::from_secs(seconds()), PAUSE, |_| ());
    let took = cpu_seconds(&served.provider) - before;
    let orders = crowd.ordered();
    crowd.reap(true);
    took / orders as f64
}

#[test]
fn measures_cost_of_recording() {
    let dir = tempfile::tempdir().unwrap();
    // Alternating runs, and the minimum of each, so that other load affects both or none.
    let (mut without, mut with) = (f64::INFINITY, f64::INFINITY);
    for turn in 0..1 + share(2) {
        without = without.min(cost_of_an_order(&format!("figures-without-{turn}"), None));
        let folder = dir.path().join(turn.to_string());
        with = with.min(cost_of_an_order(&format!("figures-with-{turn}"), Some(&folder)));
    }
    print("recorder_order_cpu_us", without * 1e6, "us");
    print("recorder_order_cpu_recorded_us", with * 1e6, "us");
    print("recorder_overhead_percent", (with / without - 1.0) * 100.0, "%");
}

#[test]
fn measures_size_of_recording_with_live_leases() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("flight");
    let is_whole = seconds() >= WHOLE;
    let (blocks, leases) = if is_whole { (NETWORK, 100) } else { (FAST, 5) };
    let served = served("figures-idle", blocks, Some(&folder));
    let mut crowd = Crowd::new(&served, Duration::from_secs(86_400));
    for _ in 0..leases {
        crowd.order();
    }
    until(
        "every order has a lease",
        || served.provider.dump(),
        || {
            crowd.lease();
            crowd.is_leased()
        },
    );
    crowd.reap(true);
    // Wait until the work for the last manifest is done.
    sleep(Duration::from_secs(if is_whole { 10 } else { 1 }));
    let (began, before) = (Instant::now(), bytes_of(&folder));
    sleep(Duration::from_secs(seconds()));
    let hours = began.elapsed().as_secs_f64() / 3600.0;
    let bytes = (bytes_of(&folder) - before) as f64;
    // Includes blocks and periodic work of the program, shared by all leases.
    print(
        "recorder_bytes_per_lease_hour",
        bytes / hours / f64::from(leases),
        "bytes",
    );
}

/// An engine with a simulated market.
struct RecordedEngine {
    market: Market,
    engine: Engine,
    recorder: flight::FlightRecorder,
    turn: u64,
    calls: VecDeque<(EffectId, Call)>,
}

fn account(number: u8) -> Address {
    Address::from_bytes(&[number; 20]).unwrap()
}

fn uact(amount: u128) -> Coin {
    Coin::new("uact", amount)
}

impl RecordedEngine {
    fn new(config: Config, recorder: flight::FlightRecorder) -> Self {
        let mut market = Market::new(MarketConfig::new(&*config.chain_id, BlockTime(1_000_000)));
        market.fund(&config.provider, &uact(1 << 60));
        market.fund(&account(2), &uact(1 << 60));
        let record = ProviderRecord {
            owner: config.provider.clone(),
            host_uri: "https://provider.example:8443".to_owned(),
            info: Default::default(),
            attributes: Vec::new(),
        };
        market.execute(&Msg::CreateProvider(record)).unwrap();
        let snapshot = Arc::new(market.snapshot(&config.provider));
        let mut deciding = Self {
            market,
            engine: Engine::new(config).unwrap(),
            recorder,
            turn: 0,
            calls: VecDeque::new(),
        };
        let node = NodeSpec::new("node-1", 1_000_000, 4 << 40, 40 << 40);
        deciding.take(Input::Leadership(Leadership::Leader { epoch: 1 }));
        deciding.take(Input::Inventory(InventoryUpdate {
            inventory: Arc::new(NodeInventory::new(&ClusterSpec::from_nodes([node]))),
            placements: Vec::new(),
            leased_ips: None,
        }));
        deciding.take(Input::Chain(ChainEvent::Resync(snapshot)));
        deciding.settle();
        deciding
    }

    fn take(&mut self, input: Input) {
        self.turn += 1;
        let now = Now {
            mono: Mono(1_000 + self.turn),
            ..Now::default()
        };
        self.recorder.record_input(&self.engine, now, Some(&input));
        let effects = self.engine.step(now, input);
        self.recorder.record_effects(&effects);
        for effect in effects {
            if let Effect::Call(id, call) = effect {
                self.calls.push_back((id, call));
            }
        }
        // Let the writer thread catch up. Its speed is not measured here.
        if self.turn.is_multiple_of(2_000) {
            sleep(Duration::from_millis(120));
        }
    }

    fn settle(&mut self) {
        while let Some((id, call)) = self.calls.pop_front() {
            let completion = self.answer(&call);
            self.take(Input::Completed(id, completion));
        }
    }

    fn answer(&mut self, call: &Call) -> Completion {
        let us = self.engine.config().provider.clone();
        match call {
            Call::FetchOrder(id) => Completion::Order(Ok(self.market.order(id).cloned())),
            Call::CountBids(_) => Completion::BidCount(Ok(0)),
            Call::FetchProvider => Completion::Provider(Ok(self.market.provider(&us).cloned())),
            Call::FetchBalances(denoms) => Completion::Balances(Ok(denoms
                .iter()
                .map(|denom| self.market.balance(&us, denom))
                .collect())),
            Call::FetchSnapshot => Completion::Snapshot(Ok(Arc::new(self.market.snapshot(&us)))),
            Call::CalculatePrice(_) => Completion::Price(Ok(DecCoin::new(&"uact".into(), Dec::from_int(10)))),
            Call::Broadcast(msg) => {
                let events = self.market.execute(msg).unwrap();
                let height = self.market.height();
                self.tell(events);
                Completion::Tx(Ok(TxOutcome::Committed { height }))
            }
            Call::FetchBid(id) => Completion::Bid(Ok(Observed {
                value: self.market.bid(id).cloned(),
                height: self.market.height(),
                agreement: Agreement::Single,
            })),
            Call::FetchDeployment(id) => Completion::Deployment(Ok(self.market.deployment(id))),
            Call::ListWorkloads => Completion::Workloads(Ok(Default::default())),
            other => panic!("unexpected call {other:?}"),
        }
    }

    fn tell(&mut self, events: Vec<ChainEvent>) {
        for event in events {
            self.take(Input::Chain(event));
        }
    }

    /// Creates a deployment, and closes it one block later.
    fn order(&mut self, dseq: u64, sdl: &Sdl) {
        let id = DeploymentId::new(account(2), dseq);
        let order = TenantMsg::create_deployment(id.clone(), sdl, uact(5_000_000));
        for message in [order, TenantMsg::CloseDeployment { id }] {
            let events = self.market.tenant(message).unwrap();
            self.tell(events);
            let block = self.market.end_block(Duration::from_secs(6));
            self.take(Input::Chain(block));
            self.settle();
        }
    }
}

#[test]
fn measures_speed_of_replay() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config::new(account(1), "figures");
    let (recorder, recording) = flight::start(dir.path(), 1 << 30, &config).unwrap();
    let health = recording.health();
    let sdl = sdl::parse(include_str!("../../../samples/web.yaml")).unwrap();
    let mut deciding = RecordedEngine::new(config, recorder);
    // Each order causes about ten inputs.
    let orders = share(20_000);
    for dseq in 1..=orders {
        deciding.order(dseq, &sdl);
    }
    let turns = deciding.turn;
    drop(deciding);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(recording.wait());
    assert_eq!(health.status().missed, 0);
    let stage = Stage::new("figures-replay", false);
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let began = Instant::now();
        let (code, out, err) = stage.ran(&["replay", dir.path().to_str().unwrap(), "--output", "json"]);
        best = best.min(began.elapsed().as_secs_f64());
        assert_eq!(code, 0, "{out}{err}");
        let report: Value = serde_json::from_str(out.trim()).unwrap();
        assert_eq!(report["replay"]["inputs"], turns, "{out}");
        // At least the record, the price and the bid of each order were requested again.
        assert!(
            report["replay"]["effects"].as_u64().unwrap() >= orders * 3,
            "{out}"
        );
    }
    print("replay_inputs_per_s", turns as f64 / best, "1/s");
}
