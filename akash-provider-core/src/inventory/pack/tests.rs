use super::*;
use crate::inventory::{AdjustOptions, ClusterSpec, GpuSpec, Inventory, NodeSpec, Quantity};
use crate::manifest::SchedulerParams;
use crate::types::{Attribute, Dec, DecCoin, Gpu, Resources, Storage};

const MI: u64 = 1 << 20;
const GI: u64 = 1 << 30;
const NODE_MEMORY: i64 = 439_822_204_928;

fn volume(name: &str, bytes: u64, attributes: &[(&str, &str)]) -> Storage {
    let attributes = attributes.iter().map(|(k, v)| Attribute::new(*k, *v));
    Storage::new(name, bytes, attributes.collect())
}

fn sized(id: u32, cpu: u64, memory: u64, storage: u64, count: u32) -> ResourceUnit {
    let mut resources = Resources {
        id,
        storage: vec![volume("default", storage, &[])],
        ..Resources::default()
    };
    resources.cpu.units = cpu;
    resources.memory.bytes = memory;
    ResourceUnit::new(resources, count, DecCoin::new(&"uact".into(), Dec::ZERO))
}

fn unit(cpu: u64, count: u32) -> ResourceUnit {
    sized(1, cpu, 16 * GI, 8 * GI, count)
}

fn gpus(mut unit: ResourceUnit, units: u64, keys: &[&str]) -> ResourceUnit {
    let attributes = keys.iter().map(|k| Attribute::new(*k, "true")).collect();
    unit.resources.gpu = Gpu::new(units, attributes);
    unit
}

fn node(name: &str, cpu: i64) -> NodeSpec {
    NodeSpec::new(name, cpu, NODE_MEMORY, 1 << 43)
}

fn vectors(interface: &str) -> NodeInventory {
    let a100 = GpuSpec::new("nvidia", "a100", "80Gi", interface, 2);
    let nodes = [
        node("n1", 68780),
        node("n2", 68800).with_gpus(a100),
        node("n3", 119_525),
        node("n4", 119_495),
    ];
    NodeInventory::new(&ClusterSpec::from_nodes(nodes))
}

fn fits(units: &[ResourceUnit]) -> Result<Allocation, InsufficientCapacity> {
    let mut inventory = vectors("pcie");
    let before = inventory.clone();
    let result = inventory.adjust(units, AdjustOptions::default());
    match &result {
        Ok(allocation) => {
            assert_ne!(inventory, before);
            inventory.release(allocation);
        }
        Err(misfit) => assert!(!misfit.message.is_empty()),
    }
    assert_eq!(inventory, before);
    result
}

fn params_of(allocation: &Allocation, unit: u32) -> &SchedulerParams {
    allocation.params[&unit].as_ref().unwrap()
}

#[test]
fn replicas_spread_over_nodes() {
    for (cpu, count, expected) in [
        (100_000, 2, true),
        (68780, 4, true),
        (68800, 3, true),
        (119_495, 2, true),
        (68780, 1, true),
        (70000, 4, false),
        (100_000, 3, false),
        (119_525, 2, false),
    ] {
        let result = fits(&[unit(cpu, count)]);
        assert_eq!(result.is_ok(), expected, "{cpu}m x {count}");
        if let Ok(allocation) = result {
            assert_eq!(allocation.params.get(&1), Some(&None), "present and null");
            let placed: u32 = allocation.places.iter().map(|p| p.replicas).sum();
            assert_eq!(placed, count);
        }
    }
}

#[test]
fn a_gpu_is_found_and_promised() {
    let allocation = fits(&[gpus(unit(68780, 1), 1, &["vendor/nvidia/model/a100"])]).unwrap();
    assert_eq!(&*allocation.places[0].node, "n2");
    let json = serde_json::to_string(params_of(&allocation, 1)).unwrap();
    assert_eq!(
        json,
        r#"{"runtime_class":"nvidia","resources":{"gpu":{"vendor":"nvidia","model":"a100","memory_size":"","interface":""}}}"#
    );
}

#[test]
fn units_are_placed_from_the_last_to_the_first() {
    let plain = sized(1, 68700, 16 * GI, 8 * GI, 1);
    let with_gpu = sized(2, 68700, 16 * GI, 8 * GI, 1);
    let with_gpu = gpus(with_gpu, 1, &["vendor/nvidia/model/a100"]);
    let allocation = fits(&[plain, with_gpu]).unwrap();
    assert_eq!(allocation.params.get(&1), Some(&None));
    assert_eq!(params_of(&allocation, 2).runtime_class, "nvidia");
    let nodes: Vec<_> = allocation.places.iter().map(|p| (p.unit, &*p.node)).collect();
    assert_eq!(nodes, [(1, "n1"), (2, "n2")]);
}

#[test]
fn too_many_gpus() {
    let misfit = fits(&[gpus(unit(68780, 1), 3, &["vendor/nvidia/model/a100"])]).unwrap_err();
    assert_eq!(misfit.unit, 1);
    assert!(
        misfit.message.contains("vendor/nvidia/model/a100"),
        "{}",
        misfit.message
    );
}

#[test]
fn gpu_attributes() {
    for (key, interface, narrowed) in [
        ("model/*", "pcie", Some("model/a100")),
        ("model/a100/ram/81920Mi", "pcie", Some("model/a100/ram/80Gi")),
        ("model/a100/ram/40Gi", "pcie", None),
        ("model/a100/interface/sxm", "pcie", None),
        (
            "model/a100/interface/pcie",
            "PCIe",
            Some("model/a100/interface/pcie"),
        ),
        (
            "model/a100/interface/sxm",
            "SXM4",
            Some("model/a100/interface/sxm"),
        ),
        ("model/v100", "pcie", None),
    ] {
        let key = format!("vendor/nvidia/{key}");
        let wanted = gpus(unit(1000, 1), 1, &[&key]);
        let result = vectors(interface).adjust(&[wanted], AdjustOptions::default());
        let attributes = result.ok().map(|a| a.units[0].resources.gpu.attributes.clone());
        let expected = narrowed.map(|n| vec![Attribute::new(format!("vendor/nvidia/{n}"), "true")]);
        assert_eq!(attributes, expected, "{key} on {interface}");
    }
}

#[test]
fn persistent_storage_is_a_pool_that_some_nodes_mount() {
    let nodes = [
        node("without", 100_000),
        node("with", 100_000).with_class("beta2"),
    ];
    let spec = ClusterSpec::from_nodes(nodes).with_storage("beta2", 10 << 30);
    let wanted = |count, class: &str| {
        let mut unit = sized(1, 100, MI, 0, count);
        let attributes = [("class", class), ("persistent", "true")];
        unit.resources.storage.push(volume("data", GI, &attributes));
        NodeInventory::new(&spec).adjust(&[unit], AdjustOptions::default())
    };
    let ten = wanted(10, "beta2").unwrap();
    assert_eq!(ten.places.len(), 1);
    assert_eq!((&*ten.places[0].node, ten.places[0].replicas), ("with", 10));
    assert!(wanted(11, "beta2").is_err());
    for impossible in ["beta3", "", "ram"] {
        let misfit = wanted(1, impossible).unwrap_err();
        assert!(misfit.message.contains("volume `data`"), "{}", misfit.message);
    }
}

#[test]
fn ram_volumes_come_from_memory() {
    let spec = ClusterSpec::from_nodes([NodeSpec::new("n", 1000, 7 << 30, 1 << 30)]);
    let mut wanted = sized(1, 100, 4 * GI, 0, 1);
    let ram = |size| volume("shm", size, &[("class", "ram"), ("persistent", "false")]);
    wanted.resources.storage = vec![ram(4 * GI)];
    let mut inventory = NodeInventory::new(&spec);
    assert!(
        inventory
            .adjust(std::slice::from_ref(&wanted), AdjustOptions::default())
            .is_err()
    );
    wanted.resources.storage = vec![ram(3 * GI)];
    assert!(inventory.adjust(&[wanted], AdjustOptions::default()).is_ok());
}

#[test]
fn a_sequence_of_orders_on_the_null_nodes() {
    let mut inventory = NodeInventory::new(&ClusterSpec::null(&["a", "b"]));
    const GB: u64 = 1_000_000_000;
    for (cpu, memory, storage, count) in [
        (750, 3 * GI, GI, 1),
        (100, 4 * GI, GI, 2),
        (2000, 3 * GI, GI, 2),
        (250, 12 * GI, GI, 2),
        (100, GB, GI, 2),
        (100, 4 * GB, GI, 1),
        (100, 4 * GB, 98 * GI, 1),
        (250, GB, GI, 1),
    ] {
        let order = sized(1, cpu, memory, storage, count);
        let result = inventory.adjust(&[order], AdjustOptions::default());
        assert!(result.is_ok(), "{cpu}m {memory} {storage} x {count}: {result:?}");
    }
}

#[test]
fn a_null_node_takes_one_large_order() {
    let mut inventory = NodeInventory::new(&ClusterSpec::null(&["a"]));
    let large = [sized(1, 4000, 30 * GI, 100 * GI - MI, 1)];
    assert!(inventory.adjust(&large, AdjustOptions::default()).is_ok());
    assert!(inventory.adjust(&large, AdjustOptions::default()).is_err());
}

fn two_models() -> NodeInventory {
    let poor = NodeSpec::new("node1", 100_000, 1 << 20, 1 << 40);
    let rich = node("node2", 100_000);
    NodeInventory::new(&ClusterSpec::from_nodes([
        poor.with_gpus(GpuSpec::new("nvidia", "a100", "80Gi", "pcie", 4)),
        rich.with_gpus(GpuSpec::new("nvidia", "h100", "80Gi", "sxm", 4)),
    ]))
}

#[test]
fn w14_a_node_that_does_not_fit_does_not_restrict_a_wildcard() {
    let wanted = gpus(unit(1000, 2), 1, &["vendor/nvidia/model/*"]);
    let allocation = two_models().adjust(&[wanted], AdjustOptions::default()).unwrap();
    assert_eq!(&*allocation.places[0].node, "node2");
    assert_eq!(
        allocation.units[0].resources.gpu.attributes[0].key,
        "vendor/nvidia/model/h100"
    );
}

#[test]
fn all_replicas_of_a_unit_get_one_model() {
    let small = |count| gpus(sized(1, 100, 1000, 0, count), 1, &["vendor/nvidia/model/*"]);
    let fits = |count| {
        two_models()
            .adjust(&[small(count)], AdjustOptions::default())
            .is_ok()
    };
    assert!(fits(4));
    assert!(
        !fits(5),
        "four of each model are eight GPUs, and no model has five"
    );
}

#[test]
fn w14_two_memory_sizes_of_a_model_are_both_acceptable() {
    for size in ["40Gi", "80Gi"] {
        let gpu = GpuSpec::new("nvidia", "a100", size, "pcie", 1);
        let spec = ClusterSpec::from_nodes([node("n", 1000).with_gpus(gpu)]);
        let keys = [
            "vendor/nvidia/model/a100/ram/40Gi",
            "vendor/nvidia/model/a100/ram/80Gi",
        ];
        let wanted = gpus(sized(1, 1, MI, 0, 1), 1, &keys);
        let allocation = NodeInventory::new(&spec)
            .adjust(&[wanted], AdjustOptions::default())
            .unwrap();
        let gpu = params_of(&allocation, 1).resources.clone().unwrap().gpu.unwrap();
        assert_eq!(gpu.memory_size, size);
    }
}

#[test]
fn the_search_backtracks_when_a_later_unit_needs_the_model() {
    let spec = ClusterSpec::from_nodes([
        node("n1", 1000).with_gpus(GpuSpec::new("nvidia", "a100", "", "", 1)),
        node("n2", 1000).with_gpus(GpuSpec::new("nvidia", "h100", "", "", 1)),
    ]);
    let picky = gpus(sized(1, 1, MI, 0, 1), 1, &["vendor/nvidia/model/a100"]);
    let open = gpus(sized(2, 1, MI, 0, 1), 1, &["vendor/nvidia/model/*"]);
    let mut inventory = NodeInventory::new(&spec);
    let allocation = inventory
        .adjust(&[picky, open], AdjustOptions::default())
        .unwrap();
    let nodes: Vec<_> = allocation.places.iter().map(|p| (p.unit, &*p.node)).collect();
    assert_eq!(nodes, [(1, "n1"), (2, "n2")]);
}

#[test]
fn the_model_of_the_earliest_node_is_chosen() {
    let gpus_of = |model: &str| GpuSpec::new("nvidia", model, "", "", 1);
    let mut full = node("n1", 1000).with_gpus(gpus_of("a100"));
    full.gpu_allocated = 1;
    let spec = ClusterSpec::from_nodes([
        full,
        node("n2", 1000).with_gpus(gpus_of("h100")),
        node("n3", 1000).with_gpus(gpus_of("a100")),
    ]);
    let open = gpus(sized(1, 1, MI, 0, 1), 1, &["vendor/nvidia/model/*"]);
    let allocation = NodeInventory::new(&spec)
        .adjust(&[open], AdjustOptions::default())
        .unwrap();
    assert_eq!(&*allocation.places[0].node, "n2");
}

#[test]
fn gpus_without_a_readable_attribute_match_nothing() {
    for keys in [&[][..], &["vendor/intel/model/max"], &["junk"]] {
        assert!(fits(&[gpus(unit(1000, 1), 1, keys)]).is_err(), "{keys:?}");
    }
    let one_good = gpus(unit(1000, 1), 1, &["junk", "vendor/nvidia/model/a100"]);
    assert!(fits(&[one_good]).is_ok());
}

#[test]
fn w37_a_thousand_nodes_are_made_from_plain_data_and_searched_in_order() {
    let nodes = (0..1000).map(|i| node(&format!("node-{i:04}"), 4000 + i64::from(i == 999)));
    let mut inventory = NodeInventory::new(&ClusterSpec::from_nodes(nodes));
    let last = inventory
        .adjust(&[unit(4001, 1)], AdjustOptions::default())
        .unwrap();
    assert_eq!(&*last.places[0].node, "node-0999");
    assert!(
        inventory
            .adjust(&[unit(4002, 1)], AdjustOptions::default())
            .is_err()
    );
}

#[test]
fn explain_lists_the_missing_capacity_of_each_node() {
    let mut spec = ClusterSpec::from_nodes([
        NodeSpec::new("small", 500, GI as i64, 1 << 40).with_class("beta2"),
        node("big", 4000),
    ]);
    spec.storage.insert("beta2".into(), Quantity::used(5 << 30, 0));
    let mut wanted = gpus(sized(1, 1000, 2 * GI, 0, 1), 1, &["vendor/nvidia/model/a100"]);
    let attributes = [("class", "beta2"), ("persistent", "true")];
    wanted
        .resources
        .storage
        .push(volume("data", 10 * GI, &attributes));
    let explanation = NodeInventory::new(&spec).explain(&[wanted]);
    assert!(!explanation.fits);
    assert_eq!(
        explanation.cluster,
        [
            "unit 1: storage class `beta2`: 10Gi requested, 5Gi free",
            "unit 1: the cluster has no GPU `vendor/nvidia/model/a100`",
        ]
    );
    assert_eq!(
        explanation.nodes[0].missing,
        [
            "cpu: 1 requested, 0.5 free",
            "memory: 2Gi requested, 1Gi free",
            "gpu: 1 requested, the node has none",
            "storage class `beta2`: the pool of the cluster is exhausted",
        ]
    );
    assert!(
        explanation.nodes[1]
            .missing
            .contains(&"storage class `beta2` is not offered by this node".to_owned())
    );
}
