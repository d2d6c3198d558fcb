use super::super::super::measure::Value;
use super::*;
use akash_provider_core::engine::Status;
use akash_provider_core::provider::ProviderStatistics;

fn value(measures: &[Measure], name: &str, labels: &[&str]) -> f64 {
    let measure = measures.iter().find(|measure| measure.name() == name).unwrap();
    let found = measure.values().iter().find(|(keys, _)| {
        keys.iter()
            .map(|(_, value)| value.as_str())
            .eq(labels.iter().copied())
    });
    match found {
        Some((_, Value::Number(number))) => *number,
        found => panic!("{name} {labels:?}: {found:?}"),
    }
}

fn counts() -> ProviderStatistics {
    let mut counts = ProviderStatistics::default();
    counts.leases = (2, 100);
    counts.calls = [
        (("record", "success"), 3),
        (("record", "fail"), 50),
        (("deploy", "success"), 4),
        (("deploy", "fail"), 5),
        (("teardown", "in_progress"), 60),
        (("teardown", "success"), 6),
        (("teardown", "fail"), 7),
    ]
    .into();
    counts.manifests = [("hostname", 8), ("accepted", 70)].into();
    counts.bids = [(("open", "unknown"), 80), (("close", "fail"), 90)].into();
    counts.bid_results = [
        (("open", "success"), 9),
        (("open", "fail"), 10),
        (("close", "success"), 11),
        (("close", "fail"), 12),
    ]
    .into();
    counts.order_outcomes = [
        ("lost", 13),
        ("order_closed", 14),
        ("timeout", 15),
        ("no_bid", 99),
    ]
    .into();
    counts.no_bid_outcomes = [("lost", 1000), ("order_closed", 2000)].into();
    counts.reservations = [
        (("open", "success"), 16),
        (("open", "fail"), 98),
        (("close", "success"), 17),
    ]
    .into();
    counts.insufficient_capacity = 18;
    counts.monitors = (19, 20);
    counts
}

#[test]
fn each_value_has_the_count_of_the_go_provider() {
    let counts = counts();
    let mut status = Status::default();
    status.inventory.external_ports_active = 97;
    status.inventory.external_ports_free = 21;
    status.inventory.endpoints_active = 22;
    status.inventory.endpoints_pending = 23;
    let measures = measures(&Values {
        status: &status,
        counts: &counts,
        external_ports: 100,
    });
    let cases: [(&str, &[&str], f64); 23] = [
        ("provider_bid", &["open", "success"], 9.0),
        ("provider_bid", &["open", "fail"], 10.0),
        ("provider_bid", &["close", "success"], 11.0),
        ("provider_bid", &["close", "fail"], 12.0),
        ("provider_order_complete", &["lease-lost"], 1013.0),
        ("provider_order_complete", &["order-closed"], 2014.0),
        ("provider_order_complete", &["bid-timeout"], 15.0),
        ("provider_deployment", &["reserve-hostnames", "success"], 9.0),
        ("provider_deployment", &["reserve-hostnames", "err"], 8.0),
        ("provider_deployment", &["deploy", "success"], 4.0),
        ("provider_deployment", &["deploy", "fail"], 5.0),
        ("provider_deployment", &["teardown", "success"], 6.0),
        ("provider_deployment", &["teardown", "fail"], 7.0),
        ("provider_deployment_monitor", &["start"], 19.0),
        ("provider_deployment_monitor", &["stop"], 20.0),
        // Two leases won, 100 adopted, and three manifests.
        ("provider_inventory_requests", &["lookup", "found"], 3.0),
        ("provider_inventory_requests", &["lookup", "not-found"], 0.0),
        ("provider_inventory_requests", &["reserve", "create"], 16.0),
        (
            "provider_inventory_requests",
            &["reserve", "insufficient-capacity"],
            18.0,
        ),
        ("provider_inventory_requests", &["unreserve", "destroyed"], 17.0),
        (
            "provider_inventory_reservations_total",
            &["active", "endpoints"],
            22.0,
        ),
        (
            "provider_inventory_reservations_total",
            &["pending", "endpoints"],
            23.0,
        ),
        ("provider_inventory_available_total", &["endpoints"], 21.0),
    ];
    for (name, labels, expected) in cases {
        assert_eq!(value(&measures, name, labels), expected, "{name} {labels:?}");
    }
}
