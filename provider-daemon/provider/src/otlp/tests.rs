//! Tests of the recorder and of the exports, with a collector on loopback.

use super::*;
use crate::metrics::Metrics;
use crate::otlp::collector_of_tests::{Behavior, Collector, attribute, message, tree, value};
use akash_provider_core::Config;
use akash_provider_core::cluster::Teardown;
use akash_provider_core::engine::{Call, Completion, Effect, EffectId, Engine, Input, Leadership};
use akash_provider_core::error::{ErrorKind, Failure};
use akash_provider_core::record::Recorder;
use akash_provider_core::types::{
    BidOutcome, CloseReason, DecCoin, DeclineCode, Event, LeaseId, Msg, Now, OrderId, TxOutcome,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tracing_subscriber::layer::SubscriberExt;

const OWNER: &str = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
const PROVIDER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
const FAST: ExportTiming = ExportTiming {
    collect: Duration::from_millis(5),
    backoff: Duration::from_millis(10),
    request: Duration::from_millis(200),
    last: Duration::from_millis(200),
};

fn order(dseq: u64) -> OrderId {
    format!("{OWNER}/{dseq}/1/1").parse().unwrap()
}

fn lease(dseq: u64) -> LeaseId {
    format!("{OWNER}/{dseq}/1/1/{PROVIDER}").parse().unwrap()
}

fn price() -> DecCoin {
    DecCoin::new(&"uact".into(), "1.5".parse().unwrap())
}

fn exported<S: Signal>(
    url: &str,
    queue: ItemReceiver<S::Item>,
    timing: ExportTiming,
) -> anyhow::Result<Export> {
    let resource = resource(&PROVIDER.parse().unwrap(), "test");
    export::<S>(&format!("{url}/v1/{}", S::NAME), queue, &resource, timing)
}

/// Recorder with the engine that it observes.
struct Recording {
    recorder: TraceRecorder,
    engine: Engine,
}

fn started(url: &str, timing: ExportTiming) -> (Recording, Export) {
    let (sender, spans) = queue();
    let export = exported::<SpanExporter>(url, spans, timing).unwrap();
    let transaction_of = Box::new(|msg: &Msg| Some(format!("HASH OF {}", msg.name())));
    let recorder = TraceRecorder::new(sender, PROVIDER.parse().unwrap(), transaction_of);
    let engine = Engine::new(Config::new(PROVIDER.parse().unwrap(), "test")).unwrap();
    (Recording { recorder, engine }, export)
}

fn publish(event: Event) -> Effect {
    Effect::Publish(Arc::new(event))
}

fn completed(id: u64, completion: Completion) -> Option<Input> {
    Some(Input::Completed(EffectId(id), completion))
}

fn committed() -> Completion {
    Completion::Tx(Ok(TxOutcome::Committed { height: 7 }))
}

fn failure(message: &str) -> Failure {
    Failure {
        kind: ErrorKind::Unavailable,
        transient: true,
        message: message.to_owned(),
    }
}

fn bid(dseq: u64) -> Msg {
    Msg::CreateBid {
        id: lease(dseq),
        price: price(),
        deposit: "500000uact".parse().unwrap(),
        resources_offer: Vec::new(),
        reclamation_window: None,
    }
}

fn seen(dseq: u64) -> Effect {
    publish(Event::OrderSeen { order: order(dseq) })
}

fn broadcast(id: u64, msg: Msg) -> Effect {
    Effect::Call(EffectId(id), Call::Broadcast(msg))
}

impl Recording {
    fn step(&mut self, input: Option<Input>, effects: Vec<Effect>) {
        self.recorder
            .record_input(&self.engine, Now::default(), input.as_ref());
        self.recorder.record_effects(&effects);
    }

    fn win(&mut self, dseq: u64) {
        self.step(None, vec![seen(dseq)]);
        self.step(None, vec![broadcast(1, bid(dseq))]);
        let placed = Event::BidPlaced {
            bid: lease(dseq),
            price: price(),
        };
        self.step(completed(1, committed()), vec![publish(placed)]);
        let won = Event::LeaseWon {
            lease: lease(dseq),
            price: price(),
        };
        self.step(None, vec![publish(won)]);
    }

    /// Records that the provider closes a lease, and that the first teardown fails.
    fn close(&mut self, dseq: u64) {
        let reason = CloseReason::Unstable;
        let ending = Event::LeaseEnding {
            lease: lease(dseq),
            reason,
        };
        let msg = Msg::CloseBid {
            id: lease(dseq),
            reason,
        };
        self.step(None, vec![publish(ending), broadcast(2, msg)]);
        let teardown = |id| Effect::Call(EffectId(id), Call::Teardown(lease(dseq)));
        self.step(completed(2, committed()), vec![teardown(3)]);
        let result = Completion::Teardown(Err(failure("no connection")));
        self.step(completed(3, result), vec![teardown(4)]);
        let result = Completion::Teardown(Ok(Teardown::InProgress));
        self.step(completed(4, result), vec![teardown(5)]);
        let closed = Event::LeaseClosed {
            lease: lease(dseq),
            reason: Some(reason),
        };
        let result = Completion::Teardown(Ok(Teardown::Done));
        self.step(completed(5, result), vec![publish(closed)]);
    }
}

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    spans.iter().find(|span| span.name == name).unwrap()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, parent): &(&str, &str)| ((*name).to_owned(), (*parent).to_owned());
    expected.iter().map(owned).collect()
}

/// Spans of [`Recording::win`], each with the name of its parent.
const WON: [(&str, &str); 4] = [
    ("evaluate", "order"),
    ("bid", "order"),
    ("order", ""),
    ("lease", "order"),
];

/// Spans of [`Recording::close`], each with the name of its parent.
const CLOSED: [(&str, &str); 4] = [
    ("close_transaction", "close"),
    ("teardown", "close"),
    ("teardown", "close"),
    ("close", "lease"),
];

#[tokio::test]
async fn a_lease_has_one_trace_from_the_order_to_the_teardown() {
    let collector = Collector::start(Behavior::Accept);
    let (mut recorder, traces) = started(collector.url(), FAST);
    recorder.win(1);
    let received = Event::ManifestReceived {
        deployment: order(1).deployment().clone(),
        hash: "ab".to_owned(),
    };
    recorder.step(None, vec![publish(received)]);
    let withdraw = Msg::WithdrawLease { id: lease(1) };
    recorder.step(None, vec![broadcast(9, withdraw)]);
    let unknown = TxOutcome::Unknown {
        expires: akash_provider_core::types::BlockTime(0),
    };
    recorder.step(completed(9, Completion::Tx(Ok(unknown))), Vec::new());
    recorder.close(1);
    drop(recorder);
    traces.finish().await;
    let spans = collector.spans();
    let expected = [&WON[..], &[("manifest", "lease"), ("payout", "lease")], &CLOSED].concat();
    assert_eq!(tree(&spans, &order(1).to_string()), pairs(&expected));
    let root = named(&spans, "order");
    let values = ["owner", "dseq", "gseq", "oseq", "price"];
    let values = values.map(|name| attribute(root, &format!("akash.{name}")).unwrap());
    assert_eq!(values, [OWNER, "1", "1", "1", "1.5uact"]);
    let hash = |name: &str| attribute(named(&spans, name), "akash.transaction.hash").unwrap();
    assert_eq!(hash("bid"), "HASH OF MsgCreateBid");
    assert_eq!(hash("close_transaction"), "HASH OF MsgCloseBid");
    let error = |span: &Span| span.status.clone().unwrap_or_default().message;
    assert!(error(named(&spans, "payout")).contains("unknown"));
    let teardowns: Vec<String> = spans
        .iter()
        .filter(|span| span.name == "teardown")
        .map(error)
        .collect();
    assert_eq!(teardowns, ["no connection", ""]);
    let ids: std::collections::BTreeSet<_> = spans.iter().map(|span| &span.span_id).collect();
    assert_eq!(ids.len(), spans.len(), "every span has its own id");
}

#[tokio::test]
async fn declined_lost_and_closed_orders_have_their_outcome() {
    let collector = Collector::start(Behavior::Accept);
    let (mut recorder, traces) = started(collector.url(), FAST);
    let declined = |reason| {
        publish(Event::OrderDeclined {
            order: order(1),
            reason,
            message: "x".repeat(5000),
        })
    };
    recorder.step(None, vec![seen(1), declined(DeclineCode::Gpu)]);
    // Evaluated again: the trace has one root.
    recorder.step(None, vec![seen(1), declined(DeclineCode::Price)]);
    recorder.step(None, vec![seen(2), broadcast(1, bid(2))]);
    let ended = Event::BidEnded {
        bid: lease(2),
        outcome: BidOutcome::Lost,
    };
    recorder.step(completed(1, committed()), vec![publish(ended)]);
    recorder.step(None, vec![seen(3)]);
    let closed = akash_provider_core::types::ChainEvent::OrderClosed { id: order(3) };
    recorder.step(Some(Input::Chain(closed)), Vec::new());
    traces.finish().await;
    let spans = collector.spans();
    let expected = [("evaluate", "order"), ("order", ""), ("evaluate", "order")];
    assert_eq!(tree(&spans, &order(1).to_string()), pairs(&expected));
    let code = |at: usize| attribute(&spans[at], "akash.decline.code");
    let codes = [code(0), code(1), code(2)].map(Option::unwrap);
    assert_eq!(codes, ["gpu", "gpu", "price"]);
    let message = attribute(&spans[0], "akash.decline.message").unwrap();
    assert!((400..500).contains(&message.len()), "{}", message.len());
    let expected = [&WON[..3], &[("bid_ended", "order")]].concat();
    assert_eq!(tree(&spans, &order(2).to_string()), pairs(&expected));
    let ended = named(&spans, "bid_ended");
    assert_eq!(attribute(ended, "akash.outcome").unwrap(), "lost");
    assert_eq!(tree(&spans, &order(3).to_string()), pairs(&[("order", "")]));
    let last = spans.last().unwrap();
    assert_eq!(attribute(last, "akash.outcome").unwrap(), "order_closed");
}

#[tokio::test]
async fn standby_and_restarted_provider_continue_the_trace() {
    let collector = Collector::start(Behavior::Accept);
    let (mut leader, traces) = started(collector.url(), FAST);
    let (mut standby, of_standby) = started(collector.url(), FAST);
    let role = |role| Some(Input::Leadership(role));
    standby.step(role(Leadership::Standby), Vec::new());
    leader.win(1);
    standby.win(1);
    // The leader ends, and exports its spans.
    traces.finish().await;
    let first = collector.spans().len();
    assert_eq!(first, 4);
    standby.step(role(Leadership::Leader { epoch: 2 }), Vec::new());
    let withdraw = |id| broadcast(id, Msg::WithdrawLease { id: lease(1) });
    standby.step(None, vec![withdraw(8)]);
    standby.step(completed(8, committed()), Vec::new());
    of_standby.finish().await;
    // A restarted provider finds the lease on the chain.
    let (mut restarted, traces) = started(collector.url(), FAST);
    let adopted = Event::LeaseAdopted {
        lease: lease(1),
        price: price(),
    };
    restarted.step(None, vec![publish(adopted)]);
    restarted.close(1);
    traces.finish().await;
    let spans = collector.spans();
    let expected = [&WON[..], &[("payout", "lease")], &CLOSED].concat();
    assert_eq!(tree(&spans, &order(1).to_string()), pairs(&expected));
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

async fn until(counter: &AtomicU64, value: u64) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while count(counter) != value {
        assert!(Instant::now() < deadline, "{} instead of {value}", count(counter));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn failed_requests_are_repeated_and_rejected_spans_are_counted() {
    let collector = Collector::start(Behavior::Status(503));
    let (mut recorder, traces) = started(collector.url(), FAST);
    let counts = Arc::clone(traces.counts());
    recorder.win(1);
    while collector.received().len() < 2 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!((count(&counts.exported), counts.waiting()), (0, 4));
    collector.set(Behavior::Accept);
    until(&counts.exported, 4).await;
    assert!(count(&counts.failures) >= 2);
    // The first request failed with all spans, so the repeated request has them too.
    assert_eq!(
        collector.received().last().unwrap().body,
        collector.received()[0].body
    );
    collector.set(Behavior::Status(400));
    recorder.win(2);
    until(&counts.rejected, 4).await;
    collector.set(Behavior::Reject(3));
    recorder.win(3);
    until(&counts.rejected, 7).await;
    assert_eq!((count(&counts.exported), counts.waiting()), (5, 0));
    let otlp = Otlp {
        traces: Some(traces),
        logs: None,
    };
    // The collector has accepted two requests.
    let failed = collector.received().len() - 2;
    Metrics::of(OtlpSource::new(&otlp)).check(&format!(
        r#"akash_provider_otlp_spans_total{{result="rejected"}} 7.0
        akash_provider_otlp_spans_total{{result="exported"}} 5.0
        akash_provider_otlp_failed_requests_total{{signal="traces"}} {failed}.0"#
    ));
    otlp.finish().await;
    let head = &collector.received()[0].head;
    assert!(head.starts_with("post /v1/traces "), "{head}");
    assert!(head.contains("content-type: application/x-protobuf"), "{head}");
}

#[tokio::test]
async fn unavailable_collector_blocks_neither_the_engine_nor_the_end() {
    let hanging = Collector::start(Behavior::Hang);
    // Nothing listens on the port of a closed listener.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = closed.local_addr().unwrap();
    let slow = ExportTiming {
        request: Duration::from_secs(60),
        ..FAST
    };
    for (url, limit) in [
        (hanging.url().to_owned(), 2500),
        (format!("http://{closed}"), 1000),
    ] {
        let (mut recorder, traces) = started(&url, slow);
        let counts = Arc::clone(traces.counts());
        let began = Instant::now();
        for dseq in 0..6000 {
            recorder.step(None, vec![seen(dseq)]);
            let declined = Event::OrderDeclined {
                order: order(dseq),
                reason: DeclineCode::Gpu,
                message: String::new(),
            };
            recorder.step(None, vec![publish(declined)]);
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        println!(
            "record_spans_us {:.1}",
            began.elapsed().as_secs_f64() * 1e6 / 12_000.0
        );
        let otlp = Otlp {
            traces: None,
            logs: Some(traces),
        };
        let metrics = Metrics::of(OtlpSource::new(&otlp));
        let ending = Instant::now();
        otlp.finish().await;
        assert!(
            ending.elapsed() < Duration::from_millis(limit),
            "{:?}",
            ending.elapsed()
        );
        let sent = count(&counts.queued);
        let lost = count(&counts.queue_full) + count(&counts.unsent);
        assert_eq!((lost, count(&counts.exported)), (12_000, 0), "{counts:?}");
        assert!(count(&counts.queue_full) > 0 && count(&counts.unsent) > 0);
        metrics.check(&format!(
            r#"akash_provider_otlp_log_records_total{{result="queue_full"}} {}.0
            akash_provider_otlp_log_records_total{{result="unsent"}} {sent}.0"#,
            12_000 - sent
        ));
    }
}

#[tokio::test]
async fn invalid_endpoint_is_an_error_with_a_remedy() {
    let wrong = exported::<SpanExporter>("http://[", queue().1, FAST);
    let text = akash_provider_cli::error::error_text(&wrong.err().unwrap(), &crate::error::REMEDIES);
    for part in ["invalid endpoint", "\nhelp: check --otlp-endpoint"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn flag_and_standard_variables_select_the_endpoint_of_each_signal() {
    const BASE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT=http://b";
    let cases: [(&str, &[&str], &str, &str); 7] = [
        ("", &[], "", ""),
        ("http://a/", &[], "http://a/v1/traces", "http://a/v1/logs"),
        (
            "https://a/x",
            &[BASE],
            "https://a/x/v1/traces",
            "https://a/x/v1/logs",
        ),
        ("", &[BASE], "http://b/v1/traces", "http://b/v1/logs"),
        ("", &["OTEL_EXPORTER_OTLP_LOGS_ENDPOINT=http://c"], "", "http://c"),
        ("http://a", &["OTEL_LOGS_EXPORTER=none"], "http://a/v1/traces", ""),
        ("", &[BASE, "OTEL_TRACES_EXPORTER=none"], "", "http://b/v1/logs"),
    ];
    for (flag, variables, traces, logs) in cases {
        let otlp_endpoint = (!flag.is_empty()).then(|| akash_provider_cli::values::web_url(flag).unwrap());
        let args = OtlpArgs { otlp_endpoint };
        let variable = |name: &str| {
            let of_name = |set: &&str| set.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
            variables.iter().find_map(of_name)
        };
        let found = |signal| endpoint(&args, signal, variable).unwrap_or_default();
        assert_eq!(found(SpanExporter::NAME), traces, "{flag} {variables:?}");
        assert_eq!(found(LogExporter::NAME), logs, "{flag} {variables:?}");
    }
}

#[tokio::test]
async fn log_records_have_the_trace_of_their_order_and_none_is_of_the_export() {
    let collector = Collector::start(Behavior::Accept);
    let (sender, records) = queue();
    let log = tracing_subscriber::registry().with(logs::layer(sender));
    logs::PROVIDER.get_or_init(|| PROVIDER.parse().unwrap());
    let export = exported::<LogExporter>(collector.url(), records, FAST).unwrap();
    let (mut recorder, traces) = started(collector.url(), FAST);
    recorder.win(1);
    let guard = tracing::subscriber::set_default(log);
    tracing::info!(target: "market", order = %order(1), "of the order");
    tracing::info!(target: "market", bid = %lease(1), "of the bid");
    tracing::warn!(target: "market", lease = %lease(1), attempts = 3, "of the lease");
    tracing::info!(target: "market", "of no order");
    tracing::warn!(target: "akash_provider_service::otlp::exporter", "of the export");
    // The HTTP client of the export runs on this thread, so its records reach the layer.
    tokio::join!(traces.finish(), export.finish());
    drop(guard);
    let spans = collector.spans();
    let ids = |name| {
        let span = named(&spans, name);
        (span.trace_id.clone(), span.span_id.clone())
    };
    let logs = collector.logs();
    let found = logs.iter().map(|(target, record)| {
        let ids = (record.trace_id.clone(), record.span_id.clone());
        (target.as_str(), message(record), ids)
    });
    let expected = [
        ("market", "of the order".to_owned(), ids("order")),
        ("market", "of the bid".to_owned(), ids("order")),
        ("market", "of the lease".to_owned(), ids("lease")),
        ("market", "of no order".to_owned(), (Vec::new(), Vec::new())),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    let of_lease = &logs[2].1;
    assert_eq!(value(&of_lease.attributes, "attempts").unwrap(), "3");
    assert_eq!(of_lease.severity_text, "WARN");
    assert!(of_lease.time_unix_nano > 0);
}
