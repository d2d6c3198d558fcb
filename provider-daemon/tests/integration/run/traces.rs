//! Traces and logs: a collector receives the spans and the log records of a provider, across a restart.

use crate::collector::{Behavior, Collector, attribute, message, tree};
use crate::run::served::Served;
use crate::scrape::scraped;
use crate::stage::{PRICES, Stage, until};
use akash_provider_core::types::Address;
use nix::sys::signal::Signal;
use opentelemetry_proto::tonic::trace::v1::Span;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use testbed::free_port;

const FAST: Option<Duration> = Some(Duration::from_millis(250));
const WEB: &str = include_str!("../../../samples/web.yaml");

fn stop(served: &mut Served) {
    served.provider.signal(Signal::SIGTERM);
    assert_eq!(served.provider.ended(), Some(0), "{}", served.provider.dump());
}

fn find<'a>(spans: &'a [Span], order: &str, name: &str) -> &'a Span {
    let found = spans
        .iter()
        .find(|span| span.name == name && attribute(span, "akash.order").unwrap() == order);
    found.unwrap_or_else(|| panic!("no span {name} of {order} in {spans:#?}"))
}

/// Checks the spans that the provider sent before the restart.
fn check_lease(served: &Served, spans: &[Span], order: &str) {
    let found: BTreeSet<(String, String)> = tree(spans, order).into_iter().collect();
    let expected = [
        ("bid", "order"),
        ("deploy", "lease"),
        ("evaluate", "order"),
        ("lease", "order"),
        ("manifest", "lease"),
        ("order", ""),
        ("payout", "lease"),
        ("price", "evaluate"),
    ];
    let expected = expected.map(|(name, parent)| (name.to_owned(), parent.to_owned()));
    assert_eq!(found, expected.into_iter().collect());
    let price = served.stage.chain.market(|market| {
        let lease = market.leases().next().unwrap();
        lease.lease.price.to_string()
    });
    for name in ["order", "price", "bid", "lease"] {
        let span = find(spans, order, name);
        assert_eq!(attribute(span, "akash.price"), Some(price.clone()), "{name}");
    }
    // The node finds the transactions by their hash.
    for (name, message) in [("bid", "MsgCreateBid"), ("payout", "MsgWithdrawLease")] {
        let hash = attribute(find(spans, order, name), "akash.transaction.hash").unwrap();
        let (code, text, problem) = served.stage.ran(&["query", "tx", &hash, "-o", "json"]);
        assert!(code == 0 && text.contains(message), "{text}{problem}");
    }
}

/// Checks the log records of a lease. After the lease was won, the log level changed from `info` to `trace`.
fn check_log(collector: &Collector, spans: &[Span], order: &str) {
    let logs = collector.logs();
    let (_, won) = logs
        .iter()
        .find(|(_, record)| message(record) == "lease won")
        .unwrap();
    let lease = find(spans, order, "lease");
    assert_eq!(
        (&won.trace_id, &won.span_id),
        (&lease.trace_id, &lease.span_id),
        "{won:?}"
    );
    assert!(has_debug_records(collector));
    let is_of_export =
        |target: &str| target.starts_with("hyper_util") || target.starts_with("akash_provider_service::otlp");
    assert_eq!(logs.iter().find(|(target, _)| is_of_export(target)), None);
}

fn has_debug_records(collector: &Collector) -> bool {
    collector
        .logs()
        .iter()
        .any(|(_, record)| record.severity_text == "DEBUG")
}

/// Waits until the metrics agree with the spans and the log records of the collector.
fn check_metrics(served: &Served, collector: &Collector, port: u16) {
    scraped(port, &served.provider, "exported spans and records", |values| {
        let value = |name: &str| values[&format!("akash_provider_otlp_{name}")];
        let (spans, records) = (collector.spans().len() as f64, collector.logs().len() as f64);
        let lost = ["spans", "log_records"].into_iter().flat_map(|name| {
            ["queue_full", "rejected", "unsent"].map(|result| format!("{name}_total{{result=\"{result}\"}}"))
        });
        spans > 0.0
            && records > 0.0
            && value("spans_total{result=\"exported\"}") == spans
            && value("log_records_total{result=\"exported\"}") == records
            && value("waiting_spans") + value("waiting_log_records") == 0.0
            && value("failed_requests_total{signal=\"traces\"}") == 0.0
            && lost.map(|name| value(&name)).sum::<f64>() == 0.0
    });
}

#[test]
fn each_order_has_one_trace_across_a_restart() {
    let collector = Collector::start(Behavior::Accept);
    let endpoint = format!("--otlp-endpoint={}", collector.url());
    let port = free_port().unwrap();
    let listener = format!("--metrics-listener=127.0.0.1:{port}");
    let flags = [
        endpoint.as_str(),
        &listener,
        "--log-level=info",
        "--lease-funds-monitor-interval=1m",
        "--withdrawal-period=1m",
    ];
    let mut served = Served::start("traces", FAST, &flags);
    let tenant: Address = served.tenant.address().clone();
    let expensive = WEB.replace("amount: 100 ", "amount: 0.1 ");
    served.stage.order_from(&tenant, 21, &expensive);
    served.until("a decline", || served.has_printed("\"event\":\"order_declined\""));
    assert!(!has_debug_records(&collector));
    check_metrics(&served, &collector, port);
    let (code, _, problem) = served.stage.ran(&["log-level", "trace"]);
    assert_eq!(code, 0, "{problem}");
    // The next withdrawal is due after one minute of block time.
    served.stage.chain.advance(Duration::from_secs(120));
    served.until("a withdrawal", || served.has_printed("\"event\":\"withdrawn\""));
    stop(&mut served);
    let first = collector.spans();
    let order = |dseq: u64| format!("{tenant}/{dseq}/1/1");
    check_lease(&served, &first, &order(9));
    let declined = find(&first, &order(21), "evaluate");
    let code = attribute(declined, "akash.decline.code").unwrap();
    assert_eq!(code, "price_too_high");
    assert_ne!(declined.trace_id, find(&first, &order(9), "order").trace_id);

    check_log(&collector, &first, &order(9));

    served.replace(&flags);
    served.until("the adopted lease", || {
        served.has_printed("\"event\":\"lease_adopted\"")
    });
    let lease = served
        .stage
        .chain
        .market(|market| market.leases().next().unwrap().lease.id.clone());
    let id = lease.deployment().clone();
    served.stage.close(id);
    served.until("the end of the lease", || {
        served.has_printed("\"event\":\"lease_closed\"")
    });
    stop(&mut served);
    let spans = collector.spans();
    let second: BTreeSet<(String, String)> = tree(&spans, &order(9)).into_iter().collect();
    for (name, parent) in [("close", "lease"), ("teardown", "close")] {
        let expected = (name.to_owned(), parent.to_owned());
        assert!(second.contains(&expected), "{second:?}");
    }
    let roots = tree(&spans, &order(9));
    let roots = roots.iter().filter(|(name, _)| name == "order");
    assert_eq!(roots.count(), 1);
}

#[test]
fn dead_collector_is_reported_once_for_each_signal_and_delays_no_bid() {
    const DEAD: &str =
        "cannot export to the OpenTelemetry collector, no lease is affected; check --otlp-endpoint";
    let collector = Collector::start(Behavior::Status(503));
    let mut stage = Stage::new("traces-dead", true);
    stage.start_node(FAST);
    let endpoint = format!("--otlp-endpoint={}", collector.url());
    let mut provider = stage.provider("provider", &[&endpoint, "--log-level=info"]);
    for dseq in 1..=3 {
        let id = stage.order(dseq);
        stage.bid(&id, &provider);
    }
    for path in ["post /v1/traces ", "post /v1/logs "] {
        let requests = || {
            let received = collector.received();
            received
                .iter()
                .filter(|request| request.head.starts_with(path))
                .count()
        };
        until("a repeated request", || provider.dump(), || requests() > 2);
    }
    provider.signal(Signal::SIGTERM);
    assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
    let dump = provider.dump();
    assert_eq!(dump.matches(DEAD).count(), 2, "{dump}");
}

#[test]
fn hanging_collector_delays_neither_bids_nor_the_end() {
    let collector = Collector::start(Behavior::Hang);
    let mut stage = Stage::new("traces-hanging", true);
    stage.start_node(FAST);
    let flags = [&["run", "--output=json", "--log-level=info"], &PRICES[..]].concat();
    let mut provider = stage.running_with("provider", &flags, |command| {
        command
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())
            .env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret");
    });
    let id = stage.order(9);
    stage.bid(&id, &provider);
    let dump = || provider.dump();
    for path in ["post /v1/traces ", "post /v1/logs "] {
        let is_sent = |head: &str| head.starts_with(path) && head.contains("x-key: secret");
        until(path, dump, || {
            collector.received().iter().any(|request| is_sent(&request.head))
        });
    }
    // While the request hangs.
    let next = stage.order(10);
    stage.bid(&next, &provider);
    let ending = Instant::now();
    provider.signal(Signal::SIGTERM);
    assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
    assert!(
        ending.elapsed() < Duration::from_secs(10),
        "{:?}",
        ending.elapsed()
    );
    let dump = provider.dump();
    let lost = dump.matches("last spans or log records not exported");
    assert_eq!(lost.count(), 2, "{dump}");
    assert!(!dump.contains("secret"), "{dump}");
}
