//! Values of the metrics that the Go provider lacks, while a lease runs and after the end of all leases.

use crate::run::metrics_values::{assert_close, check};
use crate::run::served::Served;
use crate::scrape::{Values, scraped};
use std::path::Path;

/// Returns the samples of a metric with their labels.
fn samples<'a>(values: &'a Values, name: &str) -> impl Iterator<Item = (&'a str, f64)> {
    let start = format!("{name}{{");
    let found = values
        .iter()
        .filter(move |(sample, _)| sample.starts_with(&start));
    found.map(|(sample, value)| (sample.as_str(), *value))
}

/// Asserts that the metric has samples, all with this value.
#[track_caller]
fn check_all(values: &Values, name: &str, value: f64) {
    let found: Vec<_> = samples(values, name).collect();
    let differing: Vec<_> = found.iter().filter(|(_, found)| *found != value).collect();
    assert!(!found.is_empty() && differing.is_empty(), "{name}: {found:?}");
}

/// Checks the metrics of a running lease. The only lease of the provider has the deployment 9.
pub(crate) fn check_running(served: &Served, values: &Values) {
    let lease = format!("lease=\"{}/9/1/1\"", served.tenant.address());
    let (price, created) = served.stage.chain.market(|market| {
        let lease = market.leases().next().unwrap().lease;
        (
            lease.price.amount.to_plain().parse::<f64>().unwrap(),
            lease.created_at,
        )
    });
    let of_lease =
        |name: &str, labels: &str| values[&format!("akash_provider_lease_{name}{{{lease}{labels}}}")];
    let denom = ",denom=\"uact\"";
    assert_eq!(of_lease("price_per_block", denom), price);
    assert_eq!(of_lease("withdrawn", denom), 0.0);
    assert_eq!(of_lease("healthy", ""), 1.0);
    assert!((0.0..60.0).contains(&of_lease("unhealthy_seconds", "")));
    let blocks = values["akash_provider_engine_height"] - created as f64;
    // The earnings can be newer than the height.
    let accrued = (of_lease("accrued", denom) / price).round();
    assert!(
        (blocks..=blocks + 3.0).contains(&accrued),
        "{accrued} of {blocks}"
    );
    assert_close(of_lease("accrued", denom), price * accrued);
    // The sample has two replicas of 512Mi. The other amounts are set by flags.
    let gib = f64::from(1 << 30);
    check(
        values,
        &[
            ("akash_provider_leases_won_total", 1.0),
            ("akash_provider_leases_by_health{health=\"good\"}", 1.0),
            ("akash_provider_order_outcomes_total{outcome=\"won\"}", 1.0),
            ("akash_provider_capacity_memory_bytes{state=\"active\"}", gib),
            (
                "akash_provider_capacity_memory_bytes{state=\"available\"}",
                47.0 * gib,
            ),
            (
                "akash_provider_capacity_external_ports{state=\"available\"}",
                100.0,
            ),
            (
                "akash_provider_capacity_storage_bytes{class=\"beta2\",state=\"available\"}",
                100.0 * gib,
            ),
            ("akash_provider_capacity_leased_ips{state=\"available\"}", 3.0),
            ("akash_provider_breaker_allowed_closes", 4.0),
        ],
    );
    check_all(values, "akash_provider_part_running", 1.0);
    for name in ["stalled", "restarts_total", "stalls_total"] {
        check_all(values, &format!("akash_provider_part_{name}"), 0.0);
    }
}

/// Waits until the withdrawn amount of the lease is the amount on the chain.
pub(crate) fn check_withdrawn(served: &Served, port: u16) {
    let lease = format!("lease=\"{}/9/1/1\"", served.tenant.address());
    let sample = format!("akash_provider_lease_withdrawn{{{lease},denom=\"uact\"}}");
    scraped(port, &served.provider, "the withdrawn amount", |values| {
        let withdrawn = served.stage.chain.market(|market| {
            let payment = market.leases().find_map(|lease| lease.payment);
            payment.unwrap().withdrawn.amount as f64
        });
        withdrawn > 0.0 && values.get(&sample) == Some(&withdrawn)
    });
}

/// Checks the orders, calls and transactions of a provider after the end of its leases.
pub(crate) fn check_ended(served: &Served, values: &Values, [bids, deploys, withdrawals]: [f64; 3]) {
    let height = served.stage.chain.market(|market| market.height()) as f64;
    // One certificate, and the close of one bid.
    let messages = 1.0 + bids + 1.0 + withdrawals;
    let expected = [
        ("bids_total{action=\"open\",result=\"success\"}", bids),
        ("bids_total{action=\"close\",result=\"success\"}", 1.0),
        ("bid_delay_seconds_count", bids),
        ("pricing_duration_seconds_count", bids),
        ("reservation_duration_seconds_count", 5.0),
        ("orders_received_total{source=\"event\"}", 6.0),
        ("order_evaluations_total{result=\"accept\"}", 5.0),
        ("order_evaluations_total{result=\"decline\"}", 1.0),
        ("order_outcomes_total{outcome=\"lost\"}", 1.0),
        ("order_outcomes_total{outcome=\"order_closed\"}", 1.0),
        ("order_outcomes_total{outcome=\"timeout\"}", 1.0),
        ("order_outcomes_total{outcome=\"declined\"}", 2.0),
        ("calls_total{call=\"calculate_price\",result=\"success\"}", bids),
        ("calls_total{call=\"deploy\",result=\"success\"}", deploys),
        ("calls_total{call=\"record\",result=\"success\"}", deploys),
        ("tx_outcome_duration_seconds_count", messages),
        // Default of `--gas-prices`.
        ("tx_gas_price{denom=\"uakt\"}", 0.025),
        ("chain_resyncs_total", 1.0),
        ("order_history_active", 1.0),
        ("recording_active", 1.0),
        ("audit_writable", 1.0),
    ];
    for (name, value) in expected {
        check(values, &[(&format!("akash_provider_{name}"), value)]);
    }
    for (message, count) in [
        ("CreateBid", bids),
        ("CloseBid", 1.0),
        ("WithdrawLease", withdrawals),
    ] {
        let labels = format!("message=\"Msg{message}\",outcome=\"committed\"");
        check(
            values,
            &[(&format!("akash_provider_tx_messages_total{{{labels}}}"), count)],
        );
    }
    let included = values["akash_provider_tx_included_total"];
    assert_eq!(values["akash_provider_tx_submissions_total"], included);
    // A transaction can have several messages.
    assert!((1.0..=messages).contains(&included), "{included} of {messages}");
    check_nothing(values);
    for (sample, calls) in samples(values, "akash_provider_call_duration_seconds_count") {
        let (_, call) = sample.trim_end_matches('}').split_once('{').unwrap();
        let results =
            samples(values, "akash_provider_calls_total").filter(|(sample, _)| sample.contains(call));
        assert_eq!(calls, results.map(|(_, count)| count).sum::<f64>(), "{call}");
    }
    let gas = values["akash_provider_tx_fees_total{denom=\"uakt\"}"] / 0.025;
    let used = values["akash_provider_tx_gas_used_total"];
    assert!(used > 0.0 && used <= gas, "{used} of {gas}");
    let blocks: f64 = samples(values, "akash_provider_chain_blocks_total")
        .map(|(_, count)| count)
        .sum();
    assert!(blocks > 0.0 && blocks <= height, "{blocks} of {height}");
    let age = values["akash_provider_engine_block_age_seconds"];
    assert!((0.0..60.0).contains(&age), "{age}");
}

/// Checks that the provider counts no failure, and that nothing is pending.
fn check_nothing(values: &Values) {
    for name in [
        "audit_delayed_attempts_total",
        "audit_dropped_lines_total",
        "breaker_held_closes",
        "breaker_held_owners",
        "breaker_recent_closes",
        "breaker_tripped",
        "calls_in_flight",
        "capacity_ignored_resources",
        "capacity_overcommitted_replicas",
        "chain_malformed_events_total",
        "chain_silence_seconds",
        "chain_skipped_blocks_total",
        "chain_switches_total",
        "failed_payouts",
        "last_scan_findings",
        "leases_adopted_total",
        "order_history_missed_facts_total",
        "recording_missed_turns_total",
        "scan_findings_total",
        "tx_blocked",
        "tx_in_flight",
        "tx_mempool_full_total",
        "tx_queued",
        "unexpected_inputs_total",
    ] {
        check(values, &[(&format!("akash_provider_{name}"), 0.0)]);
    }
    for name in ["lease_ends_total", "leases", "leases_by_health", "orders"] {
        check_all(values, &format!("akash_provider_{name}"), 0.0);
    }
}

/// Returns the size of all files of a directory, and the number of their lines.
fn files(directory: &Path) -> (u64, usize) {
    let files = std::fs::read_dir(directory).unwrap().map(|file| {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        (
            bytes.len() as u64,
            bytes.iter().filter(|byte| **byte == b'\n').count(),
        )
    });
    files.fold((0, 0), |sum, file| (sum.0 + file.0, sum.1 + file.1))
}

/// Waits until the lines of the audit log and the bytes of the recording agree with the files.
pub(crate) fn check_files(served: &Served, port: u16) {
    scraped(port, &served.provider, "the sizes of the files", |values| {
        let lines = files(&served.stage.path("audit")).1 as f64;
        let bytes = files(&served.stage.path("recording")).0 as f64;
        lines > 0.0
            && bytes > 0.0
            && values.get("akash_provider_audit_lines_total") == Some(&lines)
            // The header of the file is not counted.
            && (0.0..1024.0).contains(&(bytes - values["akash_provider_recording_bytes_total"]))
    });
}

/// Compares the metrics of the process with the files of the process in `/proc`.
pub(crate) fn check_process(served: &Served, port: u16) {
    let read = |name: &str| std::fs::read_to_string(served.provider.about(name)).unwrap();
    let field = |text: &str, name: &str, at: usize| -> f64 {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..]
            .split_whitespace()
            .nth(at)
            .unwrap()
            .parse()
            .unwrap()
    };
    let agree = |values: &Values| {
        let status = read("status");
        let files = std::fs::read_dir(served.provider.about("fd")).unwrap().count() as f64;
        let close = |name: &str, expected: f64| (values[name] / expected - 1.0).abs() < 0.2;
        values["process_threads"] == field(&status, "Threads:", 0)
            && close("process_open_fds", files)
            && close(
                "process_resident_memory_bytes",
                field(&status, "VmRSS:", 0) * 1024.0,
            )
            && close(
                "process_virtual_memory_bytes",
                field(&status, "VmSize:", 0) * 1024.0,
            )
    };
    let values = scraped(port, &served.provider, "the metrics of the process", agree);
    let limit = field(&read("limits"), "Max open files", 0);
    assert_eq!(values["process_max_fds"], limit);
    // Fields after the program name. One clock tick has 10 ms.
    let stat = read("stat");
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let number = |at: usize| fields.split(' ').nth(at).unwrap().parse::<f64>().unwrap();
    let used = (number(11) + number(12)) / 100.0;
    let counted = values["process_cpu_seconds_total"];
    assert!(counted > 0.0 && counted <= used, "{counted} of {used}");
    let boot = field(&std::fs::read_to_string("/proc/stat").unwrap(), "btime ", 0);
    let start = values["process_start_time_seconds"];
    assert!((start - boot - number(19) / 100.0).abs() < 5.0, "{start}");
    let build = samples(&values, "akash_provider_build_info").next().unwrap();
    let version = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(build.0.contains(&version) && build.1 == 1.0, "{build:?}");
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(values["akash_provider_runtime_workers"], cores as f64);
    assert!(values["akash_provider_runtime_tasks"] > 1.0);
    assert!(values["akash_provider_runtime_queued_tasks"] >= 0.0);
}
