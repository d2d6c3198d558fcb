//! Names and labels of the metrics of the Go provider.

use crate::scrape::Values;
use std::collections::{BTreeMap, BTreeSet};

/// Prefix of the metrics of the Go provider.
const PREFIX: &str = "provider_";
/// Metrics that are not histograms, and the labels of their samples.
const VALUES: [(&str, &[&str]); 16] = [
    ("provider_order_handler", &["action=start", "action=stop"]),
    ("provider_order_manager", &[""]),
    (
        "provider_bid",
        &[
            "action=open result=success",
            "action=open result=fail",
            "action=close result=success",
            "action=close result=fail",
        ],
    ),
    (
        "provider_reservation",
        &[
            "action=open result=success",
            "action=open result=fail",
            "action=close result=success",
            "action=close result=fail",
        ],
    ),
    (
        "provider_should_bid",
        &["result=accept", "result=decline", "result=fail"],
    ),
    (
        "provider_order_complete",
        &[
            "result=lease-won",
            "result=lease-lost",
            "result=order-closed",
            "result=bid-closed-external",
            "result=bid-timeout",
        ],
    ),
    ("provider_manifest_manager", &[""]),
    ("provider_order_watchdog", &[""]),
    ("provider_deployment_manager", &[""]),
    (
        "provider_deployment",
        &[
            "action=reserve-hostnames result=success",
            "action=reserve-hostnames result=err",
            "action=deploy result=success",
            "action=deploy result=fail",
            "action=teardown result=success",
            "action=teardown result=fail",
        ],
    ),
    ("provider_deployment_monitor", &["action=start", "action=stop"]),
    (
        "provider_deployment_monitor_health",
        &["state=up", "state=down", "state=err", "state=failed"],
    ),
    (
        "provider_inventory_requests",
        &[
            "action=reserve result=create",
            "action=reserve result=insufficient-capacity",
            "action=lookup result=found",
            "action=lookup result=not-found",
            "action=unreserve result=destroyed",
            "action=unreserve result=not-found",
            "action=status result=success",
            "action=status result=error",
        ],
    ),
    (
        "provider_inventory_reservations_total",
        &[
            "classification=none quantity=quantity",
            "classification=none quantity=allocated",
            "classification=active quantity=cpu",
            "classification=active quantity=gpu",
            "classification=active quantity=memory",
            "classification=active quantity=storage-ephemeral",
            "classification=active quantity=endpoints",
            "classification=pending quantity=cpu",
            "classification=pending quantity=gpu",
            "classification=pending quantity=memory",
            "classification=pending quantity=storage-ephemeral",
            "classification=pending quantity=endpoints",
        ],
    ),
    (
        "provider_inventory_allocatable_total",
        &[
            "quantity=nodes",
            "quantity=cpu",
            "quantity=gpu",
            "quantity=memory",
            "quantity=storage-ephemeral",
            "quantity=storage-beta2",
            "quantity=endpoints",
        ],
    ),
    (
        "provider_inventory_available_total",
        &[
            "quantity=cpu",
            "quantity=memory",
            "quantity=storage-ephemeral",
            "quantity=storage-beta2",
            "quantity=endpoints",
        ],
    ),
];
const HISTOGRAMS: [&str; 2] = ["provider_bid_pricing_duration", "provider_reservation_duration"];

/// Bucket bounds as formatted by the Go provider.
const BOUNDS: [&str; 11] = [
    "150000", "300000", "600000", "1.2e+06", "2.4e+06", "4.8e+06", "9.6e+06", "1.92e+07", "3.84e+07",
    "7.68e+07", "+Inf",
];

type Series = BTreeMap<String, BTreeSet<String>>;

/// Returns the expected label sets by sample name.
fn expected() -> Series {
    let mut series = Series::new();
    for (name, labels) in VALUES {
        let labels = labels.iter().map(|labels| (*labels).to_owned());
        series.insert(name.to_owned(), labels.collect());
    }
    for name in HISTOGRAMS {
        let bounds = BOUNDS.iter().map(|bound| format!("le={bound}"));
        series.insert(format!("{name}_bucket"), bounds.collect());
        for part in ["sum", "count"] {
            series.insert(format!("{name}_{part}"), [String::new()].into());
        }
    }
    series
}

/// Returns the label sets of a scrape by sample name.
fn found(values: &Values) -> Series {
    let mut series = Series::new();
    for sample in values.keys().filter(|sample| sample.starts_with(PREFIX)) {
        let (name, labels) = sample.split_once('{').unwrap_or((sample, "}"));
        let labels = labels.trim_end_matches('}').split(',');
        let mut labels: Vec<String> = labels
            .filter(|label| !label.is_empty())
            .map(|label| label.replace('"', ""))
            .collect();
        labels.sort();
        series
            .entry(name.to_owned())
            .or_default()
            .insert(labels.join(" "));
    }
    series
}

/// Asserts that the metric names and labels are the same as in the Go provider. Metrics about Kubernetes
/// requests are not expected.
pub(crate) fn check(values: &Values) {
    let (found, expected) = (found(values), expected());
    let names: BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
    for name in names {
        assert_eq!(found.get(name), expected.get(name), "{name}");
    }
}
