//! Metrics with the names, labels, units and buckets of the Go provider.
//!
//! Metrics that are wrong in the Go provider are wrong in the same way, so that its dashboards show the same values.
//! `docs/metrics.md` names the correct metric for each of them.

#[cfg(test)]
mod tests;

use super::super::Measure;
use super::super::convert::{gauge, length, micros};
use super::capacity::sum;
use super::{PairCounts, Values, by_name, by_pair, of};
use akash_provider_core::engine::status::ReservationStatus;

const RESULTS: [&str; 2] = ["success", "fail"];

pub(super) fn measures(values: &Values<'_>) -> Vec<Measure> {
    let mut measures = orders(values);
    measures.extend(deployments(values));
    measures.extend(monitors(values));
    measures.extend(inventory(values));
    measures
}

fn counter(name: &'static str, help: &'static str) -> Measure {
    Measure::go_counter(name, help)
}

fn orders(values: &Values<'_>) -> Vec<Measure> {
    let (status, counts) = (values.status, values.counts);
    let finished = counts.order_outcomes.values().sum();
    let handlers = [("start", of(&counts.orders, "event")), ("stop", finished)].into();
    let outcome = |name| of(&counts.order_outcomes, name) + of(&counts.no_bid_outcomes, name);
    let complete = [
        ("lease-won", outcome("won")),
        ("lease-lost", outcome("lost")),
        ("order-closed", outcome("order_closed")),
        ("bid-closed-external", outcome("closed")),
        ("bid-timeout", outcome("timeout")),
    ];
    let actions: [&[&str]; 2] = [&["open", "close"], &RESULTS];
    vec![
        by_name(
            counter(
                "provider_order_handler",
                "Orders from events (start) and finished orders (stop)",
            ),
            "action",
            &[],
            &handlers,
        ),
        gauge(
            "provider_order_manager",
            "Orders in progress",
            length(status.orders.len()),
        ),
        Measure::histogram(
            "provider_bid_pricing_duration",
            "Duration of price calculations, in microseconds",
        )
        .with_histogram([], micros(&counts.pricing)),
        Measure::histogram(
            "provider_reservation_duration",
            "Duration of reservations, in microseconds",
        )
        .with_histogram([], micros(&counts.reserving)),
        by_pair(
            counter("provider_bid", "Orders with an opened or closed bid"),
            ["action", "result"],
            actions,
            &counts.bid_results,
        ),
        by_pair(
            counter(
                "provider_reservation",
                "Always 0, see akash_provider_reservations_total",
            ),
            ["action", "result"],
            actions,
            &PairCounts::new(),
        ),
        by_name(
            counter("provider_should_bid", "Evaluated orders"),
            "result",
            &["accept", "decline", "fail"],
            &counts.evaluations,
        ),
        by_name(
            counter("provider_order_complete", "Finished orders"),
            "result",
            &[],
            &complete.into(),
        ),
    ]
}

fn deployments(values: &Values<'_>) -> Vec<Measure> {
    let (status, counts) = (values.status, values.counts);
    let managers = length(status.deployments.len());
    let deployed = status.leases.iter().filter(|lease| lease.generation.is_some());
    let call = |name, result| counts.calls.get(&(name, result)).copied().unwrap_or_default();
    // Each deploy reserves the hostnames again.
    let deploys = call("deploy", "success") + call("deploy", "fail");
    let deployment: PairCounts = [
        (("reserve-hostnames", "success"), deploys),
        (("reserve-hostnames", "err"), of(&counts.manifests, "hostname")),
        (("deploy", "success"), call("deploy", "success")),
        (("deploy", "fail"), call("deploy", "fail")),
        (("teardown", "success"), call("teardown", "success")),
        (("teardown", "fail"), call("teardown", "fail")),
    ]
    .into();
    vec![
        gauge("provider_manifest_manager", "Deployments with a lease", managers),
        gauge(
            "provider_order_watchdog",
            "Deployments with a lease, see akash_provider_manifest_deadlines",
            managers,
        ),
        gauge(
            "provider_deployment_manager",
            "Deployed leases",
            length(deployed.count()),
        ),
        by_pair(
            counter(
                "provider_deployment",
                "Deploys, teardowns and hostname reservations",
            ),
            ["action", "result"],
            [&[], &[]],
            &deployment,
        ),
    ]
}

fn monitors(values: &Values<'_>) -> Vec<Measure> {
    let counts = values.counts;
    let (started, stopped) = counts.monitors;
    let health = |name| of(&counts.health, name);
    let unhealthy: u64 = counts
        .health
        .iter()
        .filter(|(name, _)| **name != "good")
        .map(|(_, n)| n)
        .sum();
    let states = [
        ("up", health("good")),
        ("down", unhealthy),
        ("err", health("unknown")),
        ("failed", of(&counts.lease_ends, "unstable")),
    ];
    vec![
        by_name(
            counter(
                "provider_deployment_monitor",
                "Started and stopped monitors of workloads",
            ),
            "action",
            &[],
            &[("start", started), ("stop", stopped)].into(),
        ),
        by_name(
            counter(
                "provider_deployment_monitor_health",
                "Health changes of workloads; the Go provider counts periodic checks",
            ),
            "state",
            &[],
            &states.into(),
        ),
    ]
}

fn inventory(values: &Values<'_>) -> Vec<Measure> {
    let (status, counts) = (values.status, values.counts);
    let reservation = |key| counts.reservations.get(&key).copied().unwrap_or_default();
    // The reservation of a lease is looked up once for each manifest.
    let manifests = counts.calls.get(&("record", "success"));
    let requests: PairCounts = [
        (("reserve", "create"), reservation(("open", "success"))),
        (("reserve", "insufficient-capacity"), counts.insufficient_capacity),
        (("lookup", "found"), manifests.copied().unwrap_or_default()),
        (("lookup", "not-found"), 0),
        (("unreserve", "destroyed"), reservation(("close", "success"))),
        (("unreserve", "not-found"), 0),
        (("status", "success"), counts.status_requests),
        (("status", "error"), 0),
    ]
    .into();
    let ledger = &status.inventory;
    let classes: [(&str, &[ReservationStatus], u32); 2] = [
        ("active", &ledger.active, ledger.endpoints_active),
        ("pending", &ledger.pending, ledger.endpoints_pending),
    ];
    let mut reserved = Measure::gauge(
        "provider_inventory_reservations_total",
        "Reservations and reserved amounts, CPU in millicores",
    )
    .with(
        [("classification", "none"), ("quantity", "quantity")],
        length(ledger.active.len() + ledger.pending.len()),
    )
    .with(
        [("classification", "none"), ("quantity", "allocated")],
        length(ledger.active.len()),
    );
    for (class, all, endpoints) in classes {
        let amounts = [
            ("cpu", sum(all.iter().map(|one| one.cpu))),
            ("gpu", sum(all.iter().map(|one| one.gpu))),
            ("memory", sum(all.iter().map(|one| one.memory))),
            ("storage-ephemeral", 0.0),
            ("endpoints", f64::from(endpoints)),
        ];
        for (quantity, amount) in amounts {
            reserved = reserved.with([("classification", class), ("quantity", quantity)], amount);
        }
    }
    vec![
        by_pair(
            counter("provider_inventory_requests", "Requests to the inventory"),
            ["action", "result"],
            [&[], &[]],
            &requests,
        ),
        reserved,
        allocatable(values),
        available(values),
    ]
}

fn allocatable(values: &Values<'_>) -> Measure {
    let metrics = &values.status.inventory.available;
    let nodes = || metrics.nodes.iter();
    let quantities = [
        ("nodes", length(metrics.nodes.len())),
        ("cpu", sum(nodes().map(|node| node.cpu.allocatable)) / 1000.0),
        ("gpu", sum(nodes().map(|node| node.gpu.allocatable)) / 1000.0),
        ("memory", sum(nodes().map(|node| node.memory.allocatable))),
        (
            "storage-ephemeral",
            sum(nodes().map(|node| node.storage_ephemeral.allocatable)),
        ),
        ("endpoints", f64::from(values.external_ports)),
    ];
    let measure = Measure::gauge(
        "provider_inventory_allocatable_total",
        "Allocatable amounts, CPU in cores, GPUs divided by 1000",
    );
    let classes = metrics
        .storage
        .iter()
        .map(|(class, pair)| (class, pair.allocatable));
    with_quantities(measure, quantities, classes)
}

fn available(values: &Values<'_>) -> Measure {
    let inventory = &values.status.inventory;
    let nodes = || inventory.available.nodes.iter();
    let quantities = [
        ("cpu", sum(nodes().map(|node| node.cpu.available)) / 1000.0),
        ("memory", sum(nodes().map(|node| node.memory.available))),
        (
            "storage-ephemeral",
            sum(nodes().map(|node| node.storage_ephemeral.available)),
        ),
        ("endpoints", f64::from(inventory.external_ports_free)),
    ];
    let measure = Measure::gauge(
        "provider_inventory_available_total",
        "Available amounts, CPU in cores",
    );
    let classes = inventory
        .available
        .storage
        .iter()
        .map(|(class, pair)| (class, pair.available));
    with_quantities(measure, quantities, classes)
}

/// Adds one value for each of `quantities` and for each storage class. The label `quantity` contains the name
/// of the quantity, or `storage-<class>`.
fn with_quantities<'a, const N: usize>(
    measure: Measure,
    quantities: [(&str, f64); N],
    classes: impl Iterator<Item = (&'a String, u64)>,
) -> Measure {
    let measure = quantities.into_iter().fold(measure, |measure, (name, value)| {
        measure.with([("quantity", name)], value)
    });
    classes.fold(measure, |measure, (class, bytes)| {
        measure.with(
            [("quantity", &format!("storage-{class}"))],
            sum([bytes].into_iter()),
        )
    })
}
