//! Values of metrics, compared with flags, with the market and with requests.

use crate::run::served::Served;
use crate::scrape::{Values, scraped};
use crate::stage::ADDRESS;
use akash_provider_core::market::BidDeposit;
use akash_provider_core::types::Address;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// Initial balance of the account, in each denomination.
const FUNDS: u128 = 1_000_000_000_000;

#[track_caller]
pub(crate) fn check(values: &Values, expected: &[(&str, f64)]) {
    for (sample, expected) in expected {
        assert_eq!(values.get(*sample), Some(expected), "{sample} in {values:#?}");
    }
}

#[track_caller]
pub(crate) fn assert_close(value: f64, expected: f64) {
    assert!(
        (value - expected).abs() <= expected.abs() * 1e-9,
        "{value}, expected {expected}"
    );
}

/// Compares the capacity metrics with the flags of the cluster. Call after all reservations have ended.
pub(crate) fn check_capacity(values: &Values) {
    let gib = |count: u32| f64::from(count) * f64::from(1 << 30);
    let amounts = [
        ("cpu", 24.0),
        ("memory", gib(3 * 16)),
        ("storage-ephemeral", gib(3 * 32)),
        ("storage-beta2", gib(100)),
        ("endpoints", 100.0),
    ];
    for (quantity, amount) in amounts {
        for kind in ["allocatable", "available"] {
            let sample = format!("provider_inventory_{kind}_total{{quantity=\"{quantity}\"}}");
            check(values, &[(&sample, amount)]);
        }
    }
    check(
        values,
        &[
            ("provider_inventory_allocatable_total{quantity=\"nodes\"}", 3.0),
            ("provider_inventory_allocatable_total{quantity=\"gpu\"}", 0.006),
            ("akash_provider_capacity_nodes", 3.0),
            ("akash_provider_capacity_gpus{state=\"available\"}", 6.0),
            (
                "akash_provider_capacity_gpu_devices{vendor=\"nvidia\",model=\"a100\"}",
                6.0,
            ),
            (
                "akash_provider_capacity_gpu_devices_available{vendor=\"nvidia\",model=\"a100\"}",
                6.0,
            ),
            (
                "akash_provider_capacity_gpu_devices_reserved{vendor=\"nvidia\",model=\"a100\"}",
                0.0,
            ),
        ],
    );
    let reserved = values.iter().filter(|(sample, _)| {
        sample.starts_with("provider_inventory_reservations_total")
            || (sample.starts_with("akash_provider_capacity") && sample.contains("state=\"active\""))
    });
    let reserved: Vec<_> = reserved.filter(|(_, amount)| **amount != 0.0).collect();
    assert!(reserved.is_empty(), "{reserved:?}");
}

/// Compares the metrics of deposits and revenue with the market.
pub(crate) fn check_money(served: &Served, values: &Values) {
    let (locked, returned, blocks, price) = served.stage.chain.market(|market| {
        let own = |provider: &Address| provider.as_str() == ADDRESS;
        let bids = market.bids().filter(|bid| own(&bid.id.provider));
        let deposits: Vec<_> = bids.map(|bid| market.bid_deposit(&bid.id).unwrap()).collect();
        let amount = |deposit: &&BidDeposit| deposit.coin.amount as f64;
        let back = deposits.iter().filter(|deposit| deposit.returned_at.is_some());
        let lease = market
            .leases()
            .find(|lease| own(&lease.lease.id.provider))
            .unwrap()
            .lease;
        let closed = lease.closed_on;
        (
            deposits.iter().map(|deposit| amount(&deposit)).sum::<f64>(),
            back.map(|deposit| amount(&deposit)).sum::<f64>(),
            (closed - lease.created_at) as f64,
            lease.price.amount.to_plain().parse::<f64>().unwrap(),
        )
    });
    check(
        values,
        &[
            (
                "akash_provider_bid_deposits_total{action=\"locked\",denom=\"uact\"}",
                locked,
            ),
            (
                "akash_provider_bid_deposits_total{action=\"returned\",denom=\"uact\"}",
                returned,
            ),
        ],
    );
    let runway = values.get("akash_provider_balance_runway_seconds{denom=\"uact\"}");
    assert_eq!(
        (locked - returned, runway),
        (0.0, None),
        "all deposits were returned"
    );
    // The account pays only fees in this denomination.
    let balance = served
        .stage
        .chain
        .market(|market| market.balance(&ADDRESS.parse().unwrap(), "uakt"));
    let fees = (FUNDS - balance.amount) as f64;
    check(values, &[("akash_provider_tx_fees_total{denom=\"uakt\"}", fees)]);
    let known = values["akash_provider_balance{denom=\"uakt\"}"];
    let runway = values["akash_provider_balance_runway_seconds{denom=\"uakt\"}"];
    assert_close(runway, known * 3600.0 / fees);
    for kind in ["accrued", "withdrawn"] {
        let revenue = values[&format!("akash_provider_revenue_{kind}_total{{denom=\"uact\"}}")];
        assert_close(revenue, price * blocks);
    }
}

/// Requests two scans. Checks the metrics of the scans. Each scan must recount the reserved capacity once.
pub(crate) fn check_scans(served: &Served, port: u16) {
    let starts = |values: &Values, kind: &str, reason: &str| {
        values[&format!("akash_provider_scan_starts_total{{kind=\"{kind}\",reason=\"{reason}\"}}")]
    };
    for _ in 0..2 {
        let (code, out, err) = served.stage.ran(&["reconcile", "--dry-run"]);
        assert_eq!(code, 0, "{out}{err}");
    }
    let started = |values: &Values| -> f64 {
        let starts = values
            .iter()
            .filter(|(sample, _)| sample.starts_with("akash_provider_scan_starts_total"));
        starts.map(|(_, count)| count).sum()
    };
    let ended = |values: &Values, kind: &str| {
        values[&format!("akash_provider_scan_duration_seconds_count{{kind=\"{kind}\"}}")]
    };
    let values = scraped(
        port,
        &served.provider,
        "the end of two requested scans",
        |values| {
            starts(values, "full", "request") >= 2.0
                && ended(values, "full") + ended(values, "cluster") == started(values)
        },
    );
    // A scan starts again without a recount if a block is processed during the scan.
    let repeated = starts(&values, "full", "request") - 2.0;
    assert_eq!(starts(&values, "cluster", "resync"), 1.0);
    assert_eq!(starts(&values, "full", "gap"), 0.0);
    check(
        &values,
        &[
            (
                "akash_provider_ledger_recounts_total",
                started(&values) - repeated,
            ),
            ("akash_provider_ledger_mismatches_total", 0.0),
            (
                "akash_provider_calls_total{call=\"fetch_snapshot\",result=\"success\"}",
                ended(&values, "full"),
            ),
            (
                "akash_provider_scans_total{result=\"success\"}",
                ended(&values, "full"),
            ),
            ("akash_provider_engine_gaps_total", 0.0),
            ("akash_provider_engine_missed_blocks_total", 0.0),
            ("akash_provider_engine_repeated_blocks_total", 0.0),
            ("akash_provider_engine_resyncs_total", 1.0),
        ],
    );
    let now = served
        .stage
        .chain
        .market(|market| market.time().0 as f64 / 1000.0);
    let recounted = values["akash_provider_ledger_last_recount_timestamp_seconds"];
    // Blocks of the chain are faster than real time.
    assert!((now - 60.0..=now).contains(&recounted), "{recounted}, now {now}");
}

/// Sends requests over the operator socket. Checks that the metric counts each of them.
pub(crate) fn check_status_requests(served: &Served, port: u16) {
    const REQUESTS: u32 = 300;
    let sample = "provider_inventory_requests{action=\"status\",result=\"success\"}";
    let count = |what: &str, minimum: f64| {
        let values = scraped(port, &served.provider, what, |values| values[sample] >= minimum);
        values[sample]
    };
    let before = count("the count before the requests", 0.0);
    for _ in 0..REQUESTS {
        let mut stream = UnixStream::connect(served.stage.path("provider.sock")).unwrap();
        stream.write_all(b"{\"ask\":\"leases\"}\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.contains("\"leases\""), "{response}");
    }
    let requests = f64::from(REQUESTS);
    let counted = count("the counted requests", before + requests) - before;
    // Scrapes and the summary of the provider request the status as well.
    assert!(counted < requests * 1.5, "{counted}");
}
