use super::*;
use crate::inventory::{AdjustOptions, GpuSpec, IgnoredKind, Inventory, NodeSpec, ReplicaGroup};
use crate::types::{Attribute, DecCoin, Gpu, ResourceUnit, Resources};
use proptest::prelude::*;

const GIB: i64 = 1 << 30;

fn unit(cpu: u64, gpus: u64, key: &str, count: u32) -> ResourceUnit {
    let mut resources = Resources {
        id: 1,
        ..Resources::default()
    };
    resources.cpu.units = cpu;
    resources.gpu = Gpu::new(gpus, vec![Attribute::new(key, "true")]);
    ResourceUnit::new(
        resources,
        count,
        DecCoin::new(&"uact".into(), crate::types::Dec::ZERO),
    )
}

fn mixed() -> NodeInventory {
    let node = NodeSpec::new("mixed", 100_000, 100 * GIB, 100 * GIB)
        .with_gpus(GpuSpec::new("NVIDIA", "a100", "80Gi", "SXM4", 2))
        .with_gpus(GpuSpec::new("nvidia", "a100", "40Gi", "PCIe", 1))
        .with_gpus(GpuSpec::new("nvidia", "h100", "80Gi", "SXM5", 1));
    NodeInventory::new(&ClusterSpec::from_nodes([node]))
}

fn take(inventory: &mut NodeInventory, gpus: u64, key: &str) -> bool {
    let unit = unit(1, gpus, key, 1);
    inventory.adjust(&[unit], AdjustOptions::default()).is_ok()
}

#[test]
fn w14_a_model_on_a_mixed_node_is_never_oversold() {
    let mut inventory = mixed();
    assert!(take(&mut inventory, 1, "vendor/nvidia/model/h100"));
    assert!(!take(&mut inventory, 1, "vendor/nvidia/model/h100"));
    assert!(take(&mut inventory, 3, "vendor/nvidia/model/a100"));
    assert!(!take(&mut inventory, 1, "vendor/nvidia/model/*"));
}

#[test]
fn w14_a_size_is_not_sold_twice_through_a_model() {
    let mut inventory = mixed();
    assert!(take(&mut inventory, 1, "vendor/nvidia/model/a100"));
    assert!(take(&mut inventory, 2, "vendor/nvidia/model/a100/ram/80Gi"));
    assert!(!take(&mut inventory, 1, "vendor/nvidia/model/a100/ram/40Gi"));
    assert!(!take(&mut inventory, 1, "vendor/nvidia/model/a100"));
    assert!(take(&mut inventory, 1, "vendor/nvidia/model/h100"));
}

#[test]
fn available_devices_of_a_model_are_the_devices_that_an_order_can_get() {
    let mut inventory = mixed();
    let models = |inventory: &NodeInventory| {
        let metrics = inventory.metrics();
        let models = metrics.gpus_by_model();
        let of = |model| models[&("nvidia", model)];
        [of("a100"), of("h100")].map(|devices| (devices.available, devices.allocatable))
    };
    assert_eq!(models(&inventory), [(3, 3), (1, 1)]);
    // The lease gets one of two sizes; the choice is open.
    assert!(take(&mut inventory, 1, "vendor/nvidia/model/a100"));
    assert_eq!(models(&inventory), [(2, 3), (1, 1)]);
    assert!(take(&mut inventory, 2, "vendor/nvidia/model/a100/ram/80Gi"));
    assert_eq!(models(&inventory), [(0, 3), (1, 1)]);
    let closed = NodeSpec::new("closed", 1000, GIB, GIB)
        .with_gpus(GpuSpec::new("nvidia", "a100", "80Gi", "", 1))
        .closed_because("cordoned");
    let inventory = NodeInventory::new(&ClusterSpec::from_nodes([closed]));
    assert_eq!(inventory.metrics().nodes[0].gpus[0].available, 0);
}

#[test]
fn used_devices_of_unknown_kind_count_against_every_kind() {
    let mut node = NodeSpec::new("mixed", 1000, GIB, 4 * GIB)
        .with_gpus(GpuSpec::new("nvidia", "a100", "80Gi", "", 2))
        .with_gpus(GpuSpec::new("nvidia", "h100", "80Gi", "", 2));
    node.gpu_allocated = 1;
    node.gpu_allocatable = Some(4);
    let mut inventory = NodeInventory::new(&ClusterSpec::from_nodes([node]));
    assert!(!take(&mut inventory, 2, "vendor/nvidia/model/a100"));
    assert!(take(&mut inventory, 1, "vendor/nvidia/model/a100"));
    assert!(take(&mut inventory, 1, "vendor/nvidia/model/h100"));
    assert!(!take(&mut inventory, 1, "vendor/nvidia/model/h100"));
    assert_eq!(inventory.metrics().nodes[0].gpu.available, 1);
}

#[test]
fn a_replica_without_ephemeral_storage_takes_the_default() {
    let node = NodeSpec::new("n", 1000, 100 * GIB, 5 * GIB / 2);
    let mut inventory = NodeInventory::new(&ClusterSpec::from_nodes([node]));
    let mut one = unit(1, 0, "", 2);
    let mut volume = crate::types::Storage::new("scratch", 1 << 30, vec![Attribute::new("class", "ram")]);
    one.resources.storage = vec![volume.clone()];
    let left = |inventory: &NodeInventory| inventory.metrics().nodes[0].storage_ephemeral.available;
    inventory
        .adjust(&[one.clone()], AdjustOptions::default())
        .unwrap();
    assert_eq!(left(&inventory), 1 << 29);
    one.count = 1;
    assert!(
        inventory
            .adjust(&[one.clone()], AdjustOptions::default())
            .is_err()
    );
    volume.attributes.clear();
    volume.bytes = 1 << 20;
    one.resources.storage = vec![volume];
    inventory.adjust(&[one], AdjustOptions::default()).unwrap();
    assert_eq!(
        left(&inventory),
        (1 << 29) - (1 << 20),
        "a listed volume replaces the default"
    );
}

#[test]
fn an_unhealthy_device_reduces_free_devices_without_overflow() {
    let mut node = NodeSpec::new("n", 1000, GIB, GIB);
    node = node.with_gpus(GpuSpec::new("nvidia", "a100", "80Gi", "", 2));
    node.gpu_allocatable = Some(1);
    node.cpu.allocated = 5000;
    let mut inventory = NodeInventory::new(&ClusterSpec::from_nodes([node]));
    let metrics = inventory.metrics();
    assert_eq!(metrics.nodes[0].cpu.available, 0);
    assert_eq!(
        (metrics.nodes[0].gpu.allocatable, metrics.nodes[0].gpu.available),
        (1, 1)
    );
    assert_eq!(
        metrics.overcommitted_replicas, 0,
        "the excess of other workloads is not counted as our replicas"
    );
    let none = unit(0, 2, "vendor/nvidia/model/a100", 1);
    assert!(inventory.adjust(&[none], AdjustOptions::default()).is_err());
    let one = unit(0, 1, "vendor/nvidia/model/a100", 1);
    assert!(inventory.adjust(&[one], AdjustOptions::default()).is_ok());
}

#[test]
fn unlimited_quantities_stay_unlimited() {
    let spec = ClusterSpec::from_nodes([NodeSpec::new("n", -1, -1, -1)]);
    let mut inventory = NodeInventory::new(&spec);
    let many = unit(384_000, 0, "", 10_000);
    assert!(inventory.adjust(&[many], AdjustOptions::default()).is_ok());
    assert_eq!(
        inventory.metrics().nodes[0].cpu.available,
        super::super::Pair::UNLIMITED
    );
}

#[test]
fn ignored_resources_are_listed_with_the_reason() {
    let twice = NodeSpec::new("n", 1, 1, 1);
    let odd = NodeSpec::new("odd", 1, 1, 1).with_gpus(GpuSpec::new("intel", "max", "", "", 1));
    let mut spec = ClusterSpec::from_nodes([twice.clone(), twice, odd]);
    spec.ignored.push(IgnoredResource::new(
        IgnoredKind::StorageClass,
        "storage class `x` has no label",
        "set the label",
    ));
    let inventory = NodeInventory::new(&spec);
    let ignored = inventory.explain(&[]).ignored;
    assert_eq!(ignored.len(), 3, "{ignored:?}");
    assert_eq!(inventory.metrics().ignored, ignored);
}

#[test]
fn specs_are_plain_json() {
    let text = r#"{"nodes":[{"name":"n","cpu":{"allocatable":4000},"memory":{"allocatable":-1},
        "gpus":[{"vendor":"nvidia","model":"a100","count":2}]}],"storage":{"beta2":{"allocatable":5,"allocated":7}}}"#;
    let spec: ClusterSpec = serde_json::from_str(text).unwrap();
    let back: ClusterSpec = serde_json::from_value(serde_json::to_value(&spec).unwrap()).unwrap();
    assert_eq!(spec, back);
    let metrics = NodeInventory::new(&spec).metrics();
    assert_eq!(metrics.storage["beta2"].available, 0);
    assert_eq!(metrics.nodes[0].gpu.available, 2);
}

#[cfg(feature = "conformance")]
mod conformance {
    use super::*;
    use crate::inventory::InventorySource;
    use crate::inventory::conformance::{source_suite, suite};

    #[test]
    fn the_ledger_passes_the_suite() {
        suite(|spec| Box::new(NodeInventory::new(spec)));
    }

    #[test]
    fn a_boxed_ledger_passes_the_suite() {
        suite(|spec| {
            let inner: Box<dyn Inventory> = Box::new(NodeInventory::new(spec));
            Box::new(inner)
        });
    }

    #[tokio::test]
    async fn the_memory_source_passes_the_suite() {
        source_suite(MemoryInventorySource::new(), MemoryInventorySource::push).await;
    }

    #[tokio::test]
    async fn a_failure_is_an_item_and_the_update_before_it_is_not_lost() {
        use crate::error::{ErrorKind, Failure};
        use futures::StreamExt;
        let source = MemoryInventorySource::new();
        let mut stream = source.watch();
        let fixed = StaticInventorySource::new(mixed());
        source.push(fixed.watch().next().await.unwrap().unwrap());
        source.fail(Failure::transient(ErrorKind::Unavailable, "gone"));
        assert!(stream.next().await.unwrap().is_ok());
        let error = stream.next().await.unwrap().unwrap_err();
        assert_eq!(
            (error.kind(), error.is_transient()),
            (ErrorKind::Unavailable, true)
        );
        source.close();
        assert!(stream.next().await.is_none());
    }
}

fn any_unit() -> impl Strategy<Value = ResourceUnit> {
    let key = prop::sample::select(vec![
        "vendor/nvidia/model/*",
        "vendor/nvidia/model/a100",
        "vendor/nvidia/model/a100/ram/80Gi",
        "vendor/nvidia/model/h100/interface/sxm",
        "nonsense",
    ]);
    (0u64..40_000, 0u64..3, key, 0u32..6).prop_map(|(cpu, gpus, key, count)| unit(cpu, gpus, key, count))
}

proptest! {
    #[test]
    fn a_failed_adjust_changes_nothing_and_release_is_exact(units in prop::collection::vec(any_unit(), 1..6)) {
        let mut inventory = mixed();
        let fresh = inventory.clone();
        let mut taken = Vec::new();
        for (id, mut unit) in (1u32..).zip(units) {
            unit.resources.id = id;
            let before = inventory.clone();
            match inventory.adjust(&[unit], AdjustOptions::default()) {
                Ok(allocation) => {
                    let mut restored = before.clone();
                    restored.restore(&allocation);
                    prop_assert_eq!(&restored, &inventory);
                    taken.push(allocation);
                }
                Err(_) => prop_assert_eq!(&before, &inventory),
            }
            prop_assert!(inventory.free.iter().all(|f| f.cpu >= 0 && f.gpu >= 0));
        }
        for allocation in &taken {
            inventory.release(allocation);
        }
        prop_assert_eq!(inventory, fresh);
    }

    #[test]
    fn restore_and_release_commute(
        units in prop::collection::vec((any_unit(), 0u32..9, prop::sample::select(vec!["mixed", "gone"])), 1..6),
    ) {
        let fresh = mixed();
        let mut inventory = fresh.clone();
        let allocations: Vec<_> = units.into_iter().map(|(unit, replicas, node)| Allocation {
            units: vec![unit],
            places: vec![ReplicaGroup { unit: 1, node: node.into(), replicas }],
            ..Allocation::default()
        }).collect();
        for allocation in &allocations {
            inventory.restore(allocation);
        }
        for allocation in &allocations {
            inventory.release(allocation);
        }
        prop_assert_eq!(inventory, fresh);
    }
}

/// Generates nodes with a few kinds of GPU. Nodes with the same index differ only in amounts.
fn any_node(index: usize) -> impl Strategy<Value = NodeSpec> {
    let amounts = (0i64..9_000, -1i64..50, 0i64..50, 0u32..4, 0u32..3, any::<bool>());
    let shape = (0usize..3, proptest::option::of(0u32..5));
    (amounts, shape).prop_map(
        move |((cpu, memory, used, gpus, allocated, closed), (kinds, healthy))| {
            let mut node = NodeSpec::new(format!("n{index}"), cpu, memory, 100).with_class("beta2");
            node.ephemeral = Quantity::used(100, used);
            for model in ["a100", "h100"].into_iter().take(kinds) {
                node = node.with_gpus(GpuSpec::new("nvidia", model, "80Gi", "", gpus));
            }
            node.gpu_allocated = allocated;
            node.gpu_allocatable = healthy;
            node.closed = closed.then(|| "not ready".to_owned());
            node
        },
    )
}

fn any_cluster() -> impl Strategy<Value = ClusterSpec> {
    let nodes = (any_node(0), any_node(1), any_node(2));
    (nodes, 0i64..100, 0usize..2).prop_map(|((a, b, c), pool, ignored)| {
        let mut spec = ClusterSpec::from_nodes([a, b, c]).with_storage("beta2", pool);
        spec.ignored = vec![IgnoredResource::new(IgnoredKind::Other, "something", ""); ignored];
        spec
    })
}

proptest! {
    #[test]
    fn a_revised_inventory_equals_a_new_one(old in any_cluster(), new in any_cluster()) {
        let fresh = NodeInventory::new(&new);
        let revised = NodeInventory::new(&old).revised(&new.nodes, &new.storage, &Arc::new(new.ignored.clone()));
        let shape = |s: &ClusterSpec| s.nodes.iter().map(|n| n.gpus.len()).collect::<Vec<_>>();
        prop_assert_eq!(revised.is_some(), shape(&old) == shape(&new));
        if let Some(revised) = revised {
            prop_assert_eq!(revised, fresh);
        }
    }
}

#[test]
fn changes_of_more_than_amounts_are_not_revised() {
    let spec = ClusterSpec::null(&["a", "b"]);
    let inventory = NodeInventory::new(&spec);
    let none = Arc::new(Vec::new());
    let stranger = [NodeSpec::new("c", 1, 1, 1)];
    assert_eq!(inventory.revised(&stranger, &spec.storage, &none), None);
    assert_eq!(inventory.revised(&[], &BTreeMap::new(), &none), None);
    let odd = [NodeSpec::new("a", 1, 1, 1).with_gpus(GpuSpec::new("intel", "max", "", "", 1))];
    assert_eq!(inventory.revised(&odd, &spec.storage, &none), None);
}
