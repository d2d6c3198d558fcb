//! Capacity: allocatable, reserved and available.

use super::super::Measure;
use super::super::convert::{gauge, length, number};
use super::Values;
use akash_provider_core::engine::status::ReservationStatus;
use akash_provider_core::inventory::{NodeMetrics, Pair};

/// Returns the sum of amounts, or infinity if an amount is unlimited.
pub(super) fn sum(amounts: impl Iterator<Item = u64>) -> f64 {
    amounts
        .map(|amount| match amount {
            Pair::UNLIMITED => f64::INFINITY,
            amount => number(amount),
        })
        // The sum of no numbers would be -0.
        .fold(0.0, |sum, amount| sum + amount)
}

type CapacityAmounts = [f64; 4];
const STATES: [&str; 4] = ["allocatable", "available", "active", "pending"];

/// Returns the amounts of one resource: of all nodes, of active reservations and of pending reservations.
fn amounts(
    values: &Values<'_>,
    of_node: impl Fn(&NodeMetrics) -> Pair,
    of_reservation: impl Fn(&ReservationStatus) -> u64,
) -> CapacityAmounts {
    let inventory = &values.status.inventory;
    let nodes = || inventory.available.nodes.iter().map(&of_node);
    [
        sum(nodes().map(|pair| pair.allocatable)),
        sum(nodes().map(|pair| pair.available)),
        sum(inventory.active.iter().map(&of_reservation)),
        sum(inventory.pending.iter().map(&of_reservation)),
    ]
}

fn by_state(measure: Measure, amounts: CapacityAmounts) -> Measure {
    let states = STATES.into_iter().zip(amounts);
    states.fold(measure, |measure, (state, amount)| {
        measure.with([("state", state)], amount)
    })
}

pub(super) fn measures(values: &Values<'_>) -> Vec<Measure> {
    let mut measures = nodes(values);
    measures.extend(other(values));
    measures
}

fn nodes(values: &Values<'_>) -> Vec<Measure> {
    let inventory = &values.status.inventory;
    let cpu = amounts(values, |node| node.cpu, |reserved| reserved.cpu).map(|millicores| millicores / 1000.0);
    vec![
        gauge(
            "akash_provider_capacity_nodes",
            "Nodes that count as capacity",
            length(inventory.available.nodes.len()),
        ),
        by_state(
            Measure::gauge("akash_provider_capacity_cpu_cores", "CPU cores by state"),
            cpu,
        ),
        by_state(
            Measure::gauge("akash_provider_capacity_memory_bytes", "Memory by state"),
            amounts(values, |node| node.memory, |reserved| reserved.memory),
        ),
        by_state(
            Measure::gauge("akash_provider_capacity_gpus", "GPUs by state"),
            amounts(values, |node| node.gpu, |reserved| reserved.gpu),
        ),
        by_state(
            Measure::gauge(
                "akash_provider_capacity_ephemeral_storage_bytes",
                "Ephemeral storage by state",
            ),
            amounts(
                values,
                |node| node.storage_ephemeral,
                |reserved| reserved.storage_ephemeral,
            ),
        ),
        storage(values),
    ]
}

fn other(values: &Values<'_>) -> Vec<Measure> {
    let inventory = &values.status.inventory;
    let ports = [
        values.external_ports,
        inventory.external_ports_free,
        inventory.external_ports_active,
        inventory.external_ports_pending,
    ];
    let ips = Measure::gauge(
        "akash_provider_capacity_leased_ips",
        "Leased IP addresses by state",
    );
    let ips = inventory.leased_ips.iter().fold(ips, |ips, pool| {
        ips.with([("state", "allocatable")], f64::from(pool.total))
            .with([("state", "active")], f64::from(pool.allocated))
            .with([("state", "available")], f64::from(pool.available))
    });
    let [total, available, reserved] = devices(values);
    vec![
        total,
        available,
        reserved,
        by_state(
            Measure::gauge(
                "akash_provider_capacity_external_ports",
                "External ports by state",
            ),
            ports.map(f64::from),
        ),
        ips,
        gauge(
            "akash_provider_capacity_overcommitted_replicas",
            "Reserved replicas beyond the capacity",
            f64::from(inventory.available.overcommitted_replicas),
        ),
        gauge(
            "akash_provider_capacity_ignored_resources",
            "Cluster resources that the command `capacity` lists as not offered",
            length(inventory.available.ignored.len()),
        ),
    ]
}

fn devices(values: &Values<'_>) -> [Measure; 3] {
    let mut measures = [
        Measure::gauge(
            "akash_provider_capacity_gpu_devices",
            "GPUs by vendor and model, including GPUs in use",
        ),
        Measure::gauge(
            "akash_provider_capacity_gpu_devices_available",
            "GPUs by vendor and model that orders can get",
        ),
        Measure::gauge(
            "akash_provider_capacity_gpu_devices_reserved",
            "GPUs by vendor and model that orders cannot get: reserved, used by other workloads, unhealthy or on a closed \
             node",
        ),
    ];
    for ((vendor, model), gpus) in values.status.inventory.available.gpus_by_model() {
        let reserved = gpus.allocatable.saturating_sub(gpus.available);
        let counts = [gpus.allocatable, gpus.available, reserved];
        let mut counts = counts.into_iter();
        measures = measures.map(|measure| {
            let count = number(counts.next().unwrap_or_default());
            measure.with([("vendor", vendor), ("model", model)], count)
        });
    }
    measures
}

fn storage(values: &Values<'_>) -> Measure {
    let inventory = &values.status.inventory;
    let mut storage = Measure::gauge(
        "akash_provider_capacity_storage_bytes",
        "Persistent storage by class and state",
    );
    for (class, pair) in &inventory.available.storage {
        storage = storage
            .with(
                [("class", class), ("state", "allocatable")],
                sum([pair.allocatable].into_iter()),
            )
            .with(
                [("class", class), ("state", "available")],
                sum([pair.available].into_iter()),
            );
    }
    for (state, reservations) in [("active", &inventory.active), ("pending", &inventory.pending)] {
        for (class, bytes) in reservations.iter().flat_map(|reservations| &reservations.storage) {
            storage = storage.with([("class", class), ("state", state)], number(*bytes));
        }
    }
    storage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_is_positive_zero_or_infinite() {
        assert!(sum([].into_iter()).is_sign_positive());
        assert_eq!(sum([1, 2].into_iter()), 3.0);
        assert_eq!(sum([1, Pair::UNLIMITED].into_iter()), f64::INFINITY);
    }
}
