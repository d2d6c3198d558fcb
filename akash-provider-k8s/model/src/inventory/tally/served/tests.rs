use crate::inventory::StorageOptions;
use crate::inventory::tally::Tally;
use crate::inventory::tally::settling::SETTLE;
use crate::inventory::tally::tests::{cpu_used, gone, lease, lease_id, pod, spec_of, volume};
use crate::inventory::{FactChange, InventoryKind};
use akash_provider_core::inventory::{ClusterSpec, GpuSpec, NodeSpec, Quantity};
use tokio::time::Instant;

const GIB: i64 = 1 << 30;

/// Returns a cluster with one node and 100 GiB of `local`, of which the operator counts `cpu` and `gib` as used.
fn cluster(cpu: i64, gib: i64) -> ClusterSpec {
    let mut node = NodeSpec::new("n1", 8_000, 64 * GIB, 500 * GIB).with_class("local");
    node.cpu.allocated = cpu;
    node.memory.allocated = 3 * GIB;
    let mut cluster = ClusterSpec::from_nodes([node]);
    cluster
        .storage
        .insert("local".to_owned(), Quantity::used(100 * GIB, gib * GIB));
    cluster
}

fn served(changes: impl IntoIterator<Item = FactChange>, cluster: &ClusterSpec) -> Tally {
    let mut tally = Tally::new(StorageOptions::default());
    tally.serve(cluster);
    for change in changes {
        tally.apply(change);
    }
    tally.snapshot();
    tally
}

fn own_pod(name: &str, cpu: &str) -> FactChange {
    pod(&lease_id(7).namespace(), name, "n1", cpu, |_| ())
}

fn own_volume(name: &str) -> FactChange {
    volume(name, "local", 10, &lease_id(7).namespace(), "n1")
}

#[test]
fn pods_and_volumes_of_own_leases_are_subtracted_from_the_use_that_the_operator_reports() {
    let own = [lease(7, 1), own_pod("web-0", "1500m"), own_volume("v1")];
    let mut tally = served(own, &cluster(2_000, 25));
    let node = spec_of(&tally, "n1");
    assert_eq!(node.cpu, Quantity::used(8_000, 500));
    assert_eq!(node.memory, Quantity::used(64 * GIB, 2 * GIB));
    assert_eq!(tally.spec().storage["local"], Quantity::used(100 * GIB, 15 * GIB));
    assert_eq!(tally.snapshot().placements.len(), 1);
    // A pod of another lease is part of the operator's use only.
    tally.apply(pod("other", "web-0", "n1", "3", |_| ()));
    assert_eq!(cpu_used(&tally, "n1"), 500);
}

#[test]
fn new_pods_and_volumes_are_subtracted_after_the_operator_has_counted_them() {
    let mut tally = served([lease(7, 1)], &cluster(2_000, 25));
    for change in [own_pod("web-0", "1500m"), own_volume("v1")] {
        tally.apply(change);
    }
    tally.snapshot();
    let used = |tally: &Tally| {
        (
            cpu_used(tally, "n1"),
            tally.spec().storage["local"].allocated / GIB,
        )
    };
    assert_eq!(used(&tally), (2_000, 25), "the use may be that of others");
    let start = Instant::now();
    assert_eq!(tally.settle(start), Some(start + SETTLE));
    tally.settle(start + SETTLE);
    assert!(tally.is_dirty());
    tally.snapshot();
    assert_eq!(used(&tally), (500, 15));
    // A deleted pod counts as use of others until the operator stops counting it.
    tally.apply(gone(InventoryKind::Pod, &lease_id(7).namespace(), "web-0"));
    assert_eq!(cpu_used(&tally, "n1"), 2_000);
}

#[test]
fn node_with_pods_of_leases_is_closed_if_the_operator_omits_it() {
    let mut tally = served([lease(7, 1), own_pod("web-0", "1")], &cluster(2_000, 25));
    tally.serve(&ClusterSpec::default());
    let node = spec_of(&tally, "n1");
    assert_eq!(
        node.closed.as_deref(),
        Some("not reported by the inventory operator")
    );
    assert_eq!(node.cpu, Quantity::used(8_000, 1_000));
    tally.serve(&cluster(2_000, 25));
    assert_eq!(spec_of(&tally, "n1").closed, None);
    tally.apply(gone(InventoryKind::Pod, &lease_id(7).namespace(), "web-0"));
    tally.serve(&ClusterSpec::default());
    assert_eq!(tally.spec().nodes, [], "a node without own pods is removed");
}

#[test]
fn outdated_capacity_closes_every_node_and_keeps_its_size() {
    let mut tally = served([], &cluster(2_000, 25));
    assert!(tally.set_outdated(true) && tally.is_dirty());
    tally.snapshot();
    let node = spec_of(&tally, "n1");
    assert_eq!(node.cpu, Quantity::used(8_000, 2_000));
    assert!(node.closed.is_some());
    assert!(!tally.set_outdated(true), "no change");
    assert!(tally.set_outdated(false));
    assert_eq!(spec_of(&tally, "n1").closed, None);
}

#[test]
fn gpus_of_a_message_count_by_vendor_and_kind() {
    let mut node = NodeSpec::new("n1", 1_000, GIB, GIB)
        .with_gpus(GpuSpec::new("NVIDIA", "a100", "80Gi", "SXM4", 4))
        .with_gpus(GpuSpec::new("intel", "max", "", "", 2));
    node.gpu_allocatable = Some(3);
    node.gpu_allocated = 1;
    let tally = served([], &ClusterSpec::from_nodes([node]));
    let gpus = spec_of(&tally, "n1").gpus;
    let [kind] = &gpus[..] else {
        panic!("one kind was expected: {gpus:?}");
    };
    assert_eq!((&*kind.model, kind.count, kind.allocated), ("a100", 3, 1));
}
