//! Tests of the recorder, the writer and the file.

use super::fact::{Fact, FactKind, FactSubject};
use super::record::{Moment, OrderRecord, RecordedDecline, Requested, Winner};
use super::*;
use crate::flight::wall_ms;
use crate::state::{SmallDisk, StateError};
use akash_provider_core::Config;
use akash_provider_core::engine::{Effect, Engine, Input};
use akash_provider_core::pricing::{PriceRequest, Scale, ScaleConfig};
use akash_provider_core::record::Recorder;
use akash_provider_core::sdl;
use akash_provider_core::types::{
    BidOutcome, ChainEvent, CloseReason, DecCoin, DeclineCode, Event, GroupSpec, LeaseId, Now, OrderId,
};
use redb::{Database, TableDefinition};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const OWNER: &str = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
const PROVIDER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
const OTHER: &str = "akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0";
const BOUNDS: Bounds = Bounds {
    age: Duration::from_secs(7 * 24 * 3600),
    bytes: 64 << 20,
};

fn order(dseq: u64) -> OrderId {
    format!("{OWNER}/{dseq}/1/1").parse().unwrap()
}

fn lease(dseq: u64, provider: &str) -> LeaseId {
    format!("{OWNER}/{dseq}/1/1/{provider}").parse().unwrap()
}

fn coin(amount: &str) -> DecCoin {
    DecCoin::new(&"uact".into(), amount.parse().unwrap())
}

fn group(sample: &str) -> Arc<GroupSpec> {
    Arc::new(sdl::parse(sample).unwrap().groups.remove(0))
}

fn web() -> Arc<GroupSpec> {
    group(include_str!("../../../samples/web.yaml"))
}

fn pricing() -> Arc<dyn PricingStrategy> {
    let mut config = ScaleConfig::default();
    config.cpu = "0.05".parse().unwrap();
    config.memory = "0.01".parse().unwrap();
    config.storage = [("ephemeral".to_owned(), "0.001".parse().unwrap())].into();
    Arc::new(Scale::new(config).unwrap())
}

fn started(home: &Path) -> (HistoryRecorder, History) {
    let (recorder, history) = start(home, BOUNDS, pricing()).unwrap().unwrap();
    (recorder.of_provider(PROVIDER.parse().unwrap()), history)
}

fn engine() -> Engine {
    Engine::new(Config::new(PROVIDER.parse().unwrap(), "test")).unwrap()
}

fn step(recorder: &mut HistoryRecorder, engine: &Engine, input: Option<ChainEvent>, events: Vec<Event>) {
    let input = input.map(Input::Chain);
    recorder.record_input(engine, Now::default(), input.as_ref());
    let effects: Vec<Effect> = events
        .into_iter()
        .map(|event| Effect::Publish(Arc::new(event)))
        .collect();
    recorder.record_effects(&effects);
}

fn seen(dseq: u64) -> Event {
    Event::OrderSeen { order: order(dseq) }
}

fn declined(dseq: u64, reason: DeclineCode, message: &str) -> Event {
    Event::OrderDeclined {
        order: order(dseq),
        reason,
        message: message.to_owned(),
    }
}

fn placed(dseq: u64, price: &str) -> Event {
    Event::BidPlaced {
        bid: lease(dseq, PROVIDER),
        price: coin(price),
    }
}

fn won(dseq: u64, price: &str) -> Event {
    Event::LeaseWon {
        lease: lease(dseq, PROVIDER),
        price: coin(price),
    }
}

fn closed(dseq: u64, reason: Option<CloseReason>) -> Event {
    Event::LeaseClosed {
        lease: lease(dseq, PROVIDER),
        reason,
    }
}

/// Returns the current time at a height.
fn at(height: u64) -> Moment {
    Moment {
        height,
        time: wall_ms(),
    }
}

fn dseqs(store: &HistoryStore) -> Vec<u64> {
    let records = all(store).into_iter();
    records.map(|record| record.order.deployment().dseq).collect()
}

fn all(store: &HistoryStore) -> Vec<OrderRecord> {
    let filter = OrderFilter {
        limit: usize::MAX,
        ..OrderFilter::default()
    };
    filter.read(store).unwrap()
}

/// Records a won, a lost, a declined and a closed order.
fn record_outcomes(recorder: &mut HistoryRecorder) {
    let engine = engine();
    let (first, second) = (placed(1, "100"), placed(2, "100"));
    let events = vec![seen(1), first, seen(2), second, seen(3), seen(4)];
    step(recorder, &engine, None, events);
    let created = |dseq, provider, price| ChainEvent::LeaseCreated {
        id: lease(dseq, provider),
        price: coin(price),
    };
    let created_by_us = created(1, PROVIDER, "100");
    step(recorder, &engine, Some(created_by_us), vec![won(1, "100")]);
    let lost = Event::BidEnded {
        bid: lease(2, PROVIDER),
        outcome: BidOutcome::Lost,
    };
    step(recorder, &engine, Some(created(2, OTHER, "88")), vec![lost]);
    let gpu = declined(3, DeclineCode::Gpu, "unit 1: none of the GPU models is declared");
    step(recorder, &engine, None, vec![gpu]);
    let order_closed = ChainEvent::OrderClosed { id: order(4) };
    step(recorder, &engine, Some(order_closed), Vec::new());
    let received = Event::ManifestReceived {
        deployment: order(1).deployment().clone(),
        hash: "ab".repeat(32),
    };
    let closed = closed(1, Some(CloseReason::Owner));
    step(recorder, &engine, None, vec![received, closed]);
}

#[tokio::test]
async fn records_decisions_and_outcomes_across_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let (mut recorder, history) = started(home.path());
    record_outcomes(&mut recorder);
    drop(recorder);
    assert_eq!(history.health(), HistoryHealth::default());
    history.finish().await;
    let store = HistoryStore::open(home.path()).unwrap();
    use HistoryOutcome::{Closed, Declined, Lost, Won};
    for (dseq, outcome) in (1..).zip([Won, Lost, Declined, Closed]) {
        let record = store.get(&order(dseq)).unwrap().unwrap();
        assert_eq!(record.outcome, outcome, "{dseq}");
    }
    let first = store.get(&order(1)).unwrap().unwrap();
    let names: Vec<&str> = first.steps.iter().map(|step| &*step.step).collect();
    let steps = "order_seen bid_placed lease_won manifest_received lease_closed";
    assert_eq!(names.join(" "), steps);
    assert_eq!((first.won.unwrap().height, first.winner), (1, None));
    assert_eq!(first.end.unwrap().reason, Some(CloseReason::Owner));
    let second = store.get(&order(2)).unwrap().unwrap();
    assert_eq!(second.winner.unwrap().price, coin("88"));
    let summary = Summary::read(&store, 0, None).unwrap();
    assert_eq!(summary.lost_by_price, 1);
    assert_eq!(summary.declines[&DeclineCode::Gpu], 1);
    let change = "a price 12 % lower would have matched the winner of 1";
    assert!(summary.changes[0].text.contains(change), "{summary:?}");
    let filter = OrderFilter {
        declined: true,
        code: Some(DeclineCode::Gpu),
        since: 0,
        limit: 10,
    };
    assert_eq!(filter.read(&store).unwrap().len(), 1);
    let other = OrderFilter {
        code: Some(DeclineCode::Storage),
        ..filter
    };
    assert!(other.read(&store).unwrap().is_empty());
}

#[test]
fn records_the_price_with_its_lines_and_the_requested_resources() {
    let request = PriceRequest {
        owner: OWNER.parse().unwrap(),
        group: web(),
        allocated: None,
        precision: 6,
        utilization: None,
        height: None,
    };
    let apply = |price: DecCoin| {
        let mut record = OrderRecord::new(order(1), Moment::default());
        let fact = Fact {
            subject: FactSubject::Order(order(1)),
            at: Moment::default(),
            kind: FactKind::Price(Box::new(request.clone()), price),
        };
        fact.apply(&mut record, &*pricing());
        record
    };
    // 1 core, 1 GiB memory and 2 GiB storage in both replicas.
    let record = apply(coin("62.288"));
    let requested = record.requested.as_ref().unwrap();
    assert_eq!(
        (requested.cpu, requested.memory, requested.maximum.clone()),
        (1000, 1 << 30, Some(coin("200")))
    );
    let lines = record.price_lines.iter();
    let lines: Vec<String> = lines
        .map(|line| format!("{} {}", line.what, line.amount.to_plain()))
        .collect();
    let expected = ["CPU 50", "memory 10.24", "storage of class ephemeral 2.048"];
    assert_eq!(lines, expected);
    let text = timeline(&record);
    let requested = "requested: 1 CPU, 1Gi memory, 2Gi storage of class ephemeral";
    assert!(text.contains(requested), "{text}");
    // The prices changed between the calculation and the record.
    assert!(apply(coin("70")).price_lines.is_empty());
}

#[test]
fn lease_accrues_from_its_creation_to_its_close_on_the_chain() {
    let home = tempfile::tempdir().unwrap();
    let store = HistoryStore::open(home.path()).unwrap();
    let mut record = OrderRecord::new(order(1), at(9));
    let mut apply = |height, kind| {
        let fact = Fact {
            subject: FactSubject::Order(order(1)),
            at: at(height),
            kind,
        };
        fact.apply(&mut record, &*pricing());
        store.write([&record].into_iter(), BOUNDS).unwrap();
        let known = OrderRef::Dseq(1)
            .read_with_accrued(&store, Some(30))
            .unwrap()
            .remove(0);
        (known.accrued.clone(), timeline(&known))
    };
    let event = |event| FactKind::Event(Arc::new(event));
    assert_eq!(apply(9, event(placed(1, "1.5"))).0, None);
    let (accrued, text) = apply(10, event(won(1, "1.5")));
    assert_eq!(accrued, Some(coin("30")));
    let line = "accrued:   30uact at the lease price from block 10\n";
    assert!(text.contains(line), "{text}");
    apply(20, FactKind::LeaseEnded(CloseReason::Owner));
    // The removal of the workload takes six blocks.
    let (accrued, text) = apply(26, event(closed(1, None)));
    assert_eq!(accrued, Some(coin("15")));
    let line = "accrued:   15uact at the lease price from block 10 to 20\n";
    assert!(text.contains(line), "{text}");
    assert_eq!(record.end.unwrap().reason, Some(CloseReason::Owner));
}

#[test]
fn bounds_in_days_and_bytes_remove_the_oldest() {
    let home = tempfile::tempdir().unwrap();
    let store = HistoryStore::open(home.path()).unwrap();
    let now = wall_ms();
    let hour = 3_600_000;
    let record = |dseq: u64, age: u64| {
        let at = Moment {
            height: dseq,
            time: now - age * hour,
        };
        let mut record = OrderRecord::new(order(dseq), at);
        record.add_step(at, "declined", "x".repeat(300));
        record
    };
    let records: Vec<OrderRecord> = (0..200).map(|n| record(n, 199 - n)).collect();
    store.write(records.iter(), BOUNDS).unwrap();
    // 7 days are 168 hours.
    assert_eq!(dseqs(&store), (32..200).rev().collect::<Vec<_>>());
    let bounds = Bounds {
        bytes: 16 << 10,
        ..BOUNDS
    };
    store.write([record(200, 0)].iter(), bounds).unwrap();
    let left = dseqs(&store);
    assert!(
        store.bytes() <= 16 << 10 && left.len() > 10 && left[0] == 200,
        "{left:?}"
    );
    assert_eq!(store.orders_with_prefix(OWNER, 1000).unwrap().len(), left.len());
    let bytes = store.bytes();
    // A changed record replaces the old one.
    store.write([record(200, 0)].iter(), bounds).unwrap();
    assert_eq!(store.bytes(), bytes);
    drop(store);
    let store = HistoryStore::open(home.path()).unwrap();
    assert_eq!((store.bytes(), dseqs(&store)), (bytes, left));
}

#[tokio::test]
async fn damaged_file_is_moved_aside() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(FILE);
    let whole = {
        let (mut recorder, history) = started(home.path());
        step(&mut recorder, &engine(), None, vec![seen(1)]);
        history.finish().await;
        std::fs::read(&path).unwrap()
    };
    for content in [&whole[..whole.len() / 2], &whole[..100], b"no database"] {
        std::fs::write(&path, content).unwrap();
        let (mut recorder, history) = started(home.path());
        step(&mut recorder, &engine(), None, vec![seen(2)]);
        history.finish().await;
        let store = HistoryStore::open(home.path()).unwrap();
        assert_eq!(all(&store)[0].order, order(2), "{} bytes", content.len());
    }
    let aside = std::fs::read_dir(home.path()).unwrap().count() - 1;
    assert_eq!(aside, 3, "every damaged file was moved aside");
}

#[tokio::test]
async fn newer_file_is_left_unchanged_and_stops_only_the_history() {
    const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("about");
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(FILE);
    {
        let database = Database::create(&path).unwrap();
        let write = database.begin_write().unwrap();
        write.open_table(ABOUT).unwrap().insert("layout", 99).unwrap();
        write.commit().unwrap();
    }
    let before = std::fs::read(&path).unwrap();
    let place = home.path().to_owned();
    let file = FileAccess {
        open: Box::new(move || HistoryStore::open(&place)),
        has_space: Box::new(|| true),
    };
    let retry = Duration::from_millis(10);
    let (mut recorder, history) = writer::start(file, BOUNDS, pricing(), retry).unwrap();
    // Each fact opens the file again.
    for dseq in 1..=3 {
        step(&mut recorder, &engine(), None, vec![seen(dseq)]);
        assert!(history.store().is_none());
        tokio::time::sleep(retry * 2).await;
    }
    let health = history.health();
    assert_eq!((health.dropped, health.interruptions), (3, 1));
    assert!(health.problem.unwrap().contains("later version"));
    history.finish().await;
    assert_eq!(std::fs::read(&path).unwrap().len(), before.len());
}

#[tokio::test]
async fn full_disk_is_reported_once_and_recording_resumes_with_space() {
    let disk = SmallDisk::default();
    let (open, space) = (disk.clone(), disk.clone());
    let open = move || -> Result<HistoryStore, redb::Error> { HistoryStore::with_database(open.open()?) };
    let file = FileAccess {
        open: Box::new(move || open().map_err(StateError::database)),
        has_space: Box::new(move || space.has_space()),
    };
    // A short pause would try the full disk again and again.
    let retry = Duration::from_millis(20);
    let (mut recorder, history) = writer::start(file, BOUNDS, pricing(), retry).unwrap();
    let engine = engine();
    step(&mut recorder, &engine, None, vec![seen(1)]);
    assert_eq!(all(&history.store().unwrap()).len(), 1);
    disk.fill();
    let started = Instant::now();
    for dseq in 2..500 {
        step(&mut recorder, &engine, None, vec![seen(dseq)]);
    }
    let took = started.elapsed();
    assert!(
        took < Duration::from_secs(1),
        "the engine waited for the disk: {took:?}"
    );
    let store = history.store().unwrap();
    assert_eq!(all(&store).len(), 1, "the records before the failure can be read");
    drop(store);
    tokio::time::sleep(retry * 2).await;
    step(&mut recorder, &engine, None, vec![seen(500)]);
    drop(history.store());
    let health = history.health();
    assert_eq!((health.dropped, health.interruptions), (499, 1), "{health:?}");
    assert!(health.problem.unwrap().contains("no storage space"));
    disk.free();
    tokio::time::sleep(retry * 2).await;
    step(&mut recorder, &engine, None, vec![seen(501)]);
    assert_eq!(dseqs(&history.store().unwrap()), [501, 1]);
    let health = history.health();
    assert_eq!((health.problem, health.dropped), (None, 499));
    history.finish().await;
}

#[tokio::test]
async fn slow_disk_drops_facts_and_blocks_nothing() {
    let is_open = Arc::new(AtomicBool::new(false));
    let of_open = Arc::clone(&is_open);
    let home = tempfile::tempdir().unwrap();
    let path = home.path().to_owned();
    let open = move || {
        while !of_open.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        HistoryStore::open(&path)
    };
    let file = FileAccess {
        open: Box::new(open),
        has_space: Box::new(|| true),
    };
    let (mut recorder, history) = writer::start(file, BOUNDS, pricing(), RETRY).unwrap();
    let engine = engine();
    for dseq in 0..10_000 {
        step(&mut recorder, &engine, None, vec![seen(dseq)]);
    }
    assert_eq!(history.health().dropped, 10_000 - 8192);
    is_open.store(true, Ordering::Relaxed);
    history.finish().await;
    let store = HistoryStore::open(home.path()).unwrap();
    assert_eq!(all(&store).len(), 8192);
}

#[test]
fn many_causes_of_declines_are_summarized() {
    let home = tempfile::tempdir().unwrap();
    let store = HistoryStore::open(home.path()).unwrap();
    let gpu = group(include_str!("../../../samples/gpu.yaml"));
    let record = |dseq: u64, events: Vec<Event>, group: &Arc<GroupSpec>, price: Option<&str>| {
        let at = at(dseq);
        let mut record = OrderRecord::new(order(dseq), at);
        let facts = events.into_iter().map(|event| FactKind::Event(Arc::new(event)));
        for kind in std::iter::once(FactKind::Group(Arc::clone(group))).chain(facts) {
            let subject = FactSubject::Order(order(dseq));
            Fact { subject, at, kind }.apply(&mut record, &*pricing());
        }
        record.price = price.map(coin);
        record
    };
    let (web, capacity) = (web(), DeclineCode::InsufficientCapacity);
    let declined = |dseq, code| vec![seen(dseq), declined(dseq, code, "no free capacity")];
    let mut records = Vec::new();
    records.extend((0..18).map(|n| record(n, declined(n, DeclineCode::Gpu), &gpu, None)));
    records.extend((20..25).map(|n| record(n, declined(n, DeclineCode::PriceTooHigh), &web, Some("250"))));
    records.extend((30..34).map(|n| record(n, declined(n, capacity), &web, None)));
    records.extend((40..41).map(|n| record(n, declined(n, DeclineCode::Storage), &web, None)));
    records.extend((50..99).map(|n| record(n, declined(n, DeclineCode::Attributes), &web, None)));
    store.write(records.iter(), BOUNDS).unwrap();
    let summary = Summary::read(&store, 0, None).unwrap();
    let texts: Vec<&str> = summary.changes.iter().map(|change| &*change.text).collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    for (text, part) in texts.into_iter().zip([
        "declined 18 orders for GPU nvidia/",
        "a price 20 % lower would have admitted 5",
        "1 more free CPU, 1Gi memory and 2Gi storage",
    ]) {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = summary_text(&summary);
    for part in ["attributes 49", "1. declined 18"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(summary.count(HistoryOutcome::Declined), records.len());
}

/// The provider bid the price 100 and lost all orders. Expected changes, by the prices of the winners:
///
/// | reduction | winners matched | matched × remaining price |
/// |---|---|---|
/// | 5 % | 95 | 1 × 95 = 95 |
/// | 10 % | 95, 90, 90 | 3 × 90 = 270 |
/// | 60 % | 95, 90, 90, 40 | 4 × 40 = 160 |
#[test]
fn summary_names_the_three_changes_with_the_most_orders() {
    let home = tempfile::tempdir().unwrap();
    let store = HistoryStore::open(home.path()).unwrap();
    let record = |dseq: u64, outcome: HistoryOutcome, price: &str| {
        let mut record = OrderRecord::new(order(dseq), at(dseq));
        (record.outcome, record.price) = (outcome, Some(coin(price)));
        record
    };
    let lost = |(dseq, winner): (u64, &str)| {
        let mut record = record(dseq, HistoryOutcome::Lost, "100");
        record.winner = Some(Winner {
            provider: OTHER.parse().unwrap(),
            price: coin(winner),
        });
        record
    };
    let declined = |dseq, code, group: &GroupSpec| {
        let mut record = record(dseq, HistoryOutcome::Declined, "220");
        record.requested = Some(Requested::from_group(group));
        record.decline = Some(RecordedDecline {
            code,
            message: String::new(),
        });
        record
    };
    // The winner of the last order has a higher price: the tenant had another reason.
    let mut records: Vec<OrderRecord> = (1..).zip(["95", "90", "40", "90", "120"]).map(lost).collect();
    let gpu = group(include_str!("../../../samples/gpu.yaml"));
    records.extend([10, 11].map(|dseq| declined(dseq, DeclineCode::Gpu, &gpu)));
    // The maximum of the tenant is 200: 20 / 220 is 9.0909 %, rounded up.
    records.push(declined(20, DeclineCode::PriceTooHigh, &web()));
    records.push(declined(21, DeclineCode::Storage, &gpu));
    store.write(records.iter(), BOUNDS).unwrap();
    let summary = Summary::read(&store, 0, None).unwrap();
    assert_eq!(summary.count(HistoryOutcome::Lost), 5);
    assert_eq!(summary.lost_by_price, 4);
    let changes = summary.changes.iter();
    let changes: Vec<(&str, usize, usize)> = changes
        .map(|change| (&*change.cause, change.affected, change.orders))
        .collect();
    let expected = [("lost_by_price", 4, 3), ("gpu", 2, 2), ("price_too_high", 1, 1)];
    assert_eq!(changes, expected);
    let text = summary_text(&summary);
    for part in [
        "lost 4 orders by price: a price 10 % lower would have matched the winner of 3",
        "declined 2 orders for GPU nvidia/a100 or nvidia/h100: offering it would have admitted up to 2",
        "a price 9.1 % lower would have admitted 1",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

/// Prints the time per decision, and the time until all decisions are in the file.
#[tokio::test]
async fn every_decision_of_a_burst_is_stored() {
    const DECISIONS: u64 = 2000;
    let home = tempfile::tempdir().unwrap();
    let (mut recorder, history) = started(home.path());
    let engine = engine();
    let started = Instant::now();
    for dseq in 0..DECISIONS {
        let message = "unit 1: none of the GPU models is declared";
        let reason = declined(dseq, DeclineCode::Gpu, message);
        step(&mut recorder, &engine, None, vec![seen(dseq), reason]);
    }
    let engine_time = started.elapsed();
    assert_eq!(all(&history.store().unwrap()).len() as u64, DECISIONS);
    println!(
        "record_decision_us {:.2} in the engine, {:.2} with the file",
        engine_time.as_secs_f64() * 1e6 / DECISIONS as f64,
        started.elapsed().as_secs_f64() * 1e6 / DECISIONS as f64
    );
    history.finish().await;
}
