//! What every [`Inventory`] and every [`InventorySource`] keeps to. Call the suites from a backend's own tests;
//! they panic with what is wrong.

use super::{
    AdjustOptions, Allocation, ClusterSpec, GpuSpec, Inventory, InventorySource, InventoryUpdate, NodeSpec,
    Place,
};
use crate::types::{Attribute, Cpu, DecCoin, Gpu, Memory, ResourceUnit, Resources, Storage};
use crate::types::{Dec, price::Denom};
use futures::StreamExt;
use std::time::Duration;

const GIB: i64 = 1 << 30;
/// Longest that a source may take to pass on what it was given.
const PATIENCE: Duration = Duration::from_secs(5);

/// A unit of `count` replicas with this much milli-CPU, bytes of memory and bytes of ephemeral storage.
#[must_use]
pub fn unit(id: u32, cpu: u64, memory: u64, storage: u64, count: u32) -> ResourceUnit {
    let volume = Storage {
        name: "default".to_owned(),
        bytes: storage,
        attributes: Vec::new(),
    };
    ResourceUnit {
        resources: Resources {
            id,
            cpu: Cpu {
                units: cpu,
                attributes: Vec::new(),
            },
            memory: Memory {
                bytes: memory,
                attributes: Vec::new(),
            },
            storage: vec![volume],
            ..Resources::default()
        },
        count,
        price: DecCoin::new(&Denom::from("uact"), Dec::from_int(1)),
    }
}

/// The same with GPUs, any one of the keys.
#[must_use]
pub fn with_gpus(mut unit: ResourceUnit, units: u64, keys: &[&str]) -> ResourceUnit {
    let attributes = keys.iter().map(|k| Attribute::new(*k, "true")).collect();
    unit.resources.gpu = Gpu { units, attributes };
    unit
}

/// The cluster the suite works on: three nodes of 4 cores, 8 GiB and 100 GiB; the last with two GPUs.
#[must_use]
pub fn cluster() -> ClusterSpec {
    let node = |name: &str| NodeSpec::new(name, 4000, 8 * GIB, 100 * GIB).with_class("beta2");
    let gpus = GpuSpec::new("nvidia", "a100", "80Gi", "PCIe", 2);
    ClusterSpec::of_nodes([node("n1"), node("n2"), node("n3").with_gpus(gpus)])
        .with_storage("beta2", 10 * GIB)
}

/// Every chapter of the contract of [`Inventory`]. `make` builds one from a cluster.
pub fn suite(make: impl Fn(&ClusterSpec) -> Box<dyn Inventory>) {
    let fresh = || make(&cluster());
    all_or_nothing(fresh());
    a_try_takes_nothing(fresh());
    a_copy_is_independent(fresh());
    the_same_calls_give_the_same_results(fresh(), fresh());
    release_undoes_adjust(fresh());
    restore_takes_what_adjust_took(fresh(), fresh());
    beyond_capacity_is_remembered(fresh());
    nowhere_is_remembered(fresh());
    gpu_models_are_made_concrete(fresh());
    explain_agrees_with_adjust(fresh());
    odd_amounts_are_harmless(fresh());
    let mut away = cluster();
    away.nodes[0].closed = Some("not ready".to_owned());
    a_closed_node_keeps_what_it_has(make(&away));
}

fn take(inventory: &mut dyn Inventory, units: &[ResourceUnit]) -> Allocation {
    let taken = inventory.adjust(units, AdjustOptions::default());
    taken.expect("the suite's cluster has room for this")
}

/// A group of which one unit fits and another does not.
fn half_fitting() -> Vec<ResourceUnit> {
    vec![unit(1, 5000, 1 << 20, 0, 1), unit(2, 1000, 1 << 30, 1 << 30, 5)]
}

fn fitting() -> Vec<ResourceUnit> {
    vec![unit(1, 1500, 1 << 30, 1 << 30, 3), unit(2, 1000, 1 << 30, 0, 2)]
}

fn all_or_nothing(mut inventory: Box<dyn Inventory>) {
    let before = inventory.metrics();
    let failed = inventory.adjust(&half_fitting(), AdjustOptions::default());
    let misfit = failed.expect_err("no node has 5 cores");
    assert_eq!(misfit.unit, 1, "the unit that found no place is named");
    assert!(!misfit.message.is_empty(), "what was missing is said");
    assert_eq!(inventory.metrics(), before, "a failed adjust left a trace");
    take(&mut inventory, &fitting());
    let after = inventory.metrics();
    assert!(
        inventory
            .adjust(&half_fitting(), AdjustOptions::default())
            .is_err()
    );
    assert_eq!(inventory.metrics(), after, "a failed adjust left a trace");
}

fn a_try_takes_nothing(mut inventory: Box<dyn Inventory>) {
    let before = inventory.metrics();
    let tried = inventory.adjust(&fitting(), AdjustOptions { dry_run: true });
    assert_eq!(inventory.metrics(), before, "a dry run took something");
    let taken = inventory.adjust(&fitting(), AdjustOptions::default());
    assert_eq!(tried, taken, "a dry run answered something else");
    assert_ne!(inventory.metrics(), before, "an adjust took nothing");
    let tried = inventory.adjust(&half_fitting(), AdjustOptions { dry_run: true });
    assert!(tried.is_err(), "a dry run found room that is not there");
}

fn a_copy_is_independent(mut inventory: Box<dyn Inventory>) {
    let before = inventory.metrics();
    let mut copy = inventory.dup();
    assert_eq!(copy.metrics(), before, "a copy is the same at first");
    take(&mut copy, &fitting());
    assert_eq!(inventory.metrics(), before, "the copy changed the original");
    let taken = copy.metrics();
    take(&mut inventory, &[unit(1, 100, 1 << 20, 0, 1)]);
    assert_eq!(copy.metrics(), taken, "the original changed the copy");
}

fn the_same_calls_give_the_same_results(mut one: Box<dyn Inventory>, mut other: Box<dyn Inventory>) {
    for units in [fitting(), half_fitting(), fitting(), fitting()] {
        let options = AdjustOptions::default();
        assert_eq!(one.adjust(&units, options), other.adjust(&units, options));
        assert_eq!(one.metrics(), other.metrics());
        assert_eq!(one.explain(&units), other.explain(&units));
    }
}

fn release_undoes_adjust(mut inventory: Box<dyn Inventory>) {
    let before = inventory.metrics();
    let first = take(&mut inventory, &fitting());
    let between = inventory.metrics();
    let gpus = with_gpus(unit(7, 100, 1 << 20, 0, 1), 1, &["vendor/nvidia/model/a100"]);
    let second = take(&mut inventory, &[gpus]);
    inventory.release(&second);
    assert_eq!(inventory.metrics(), between);
    let second = take(&mut inventory, &[unit(9, 500, 1 << 20, 1 << 20, 2)]);
    inventory.release(&first);
    inventory.release(&second);
    assert_eq!(inventory.metrics(), before, "in any order");
}

fn restore_takes_what_adjust_took(mut adjusted: Box<dyn Inventory>, mut restored: Box<dyn Inventory>) {
    let gpus = with_gpus(unit(3, 100, 1 << 20, 0, 2), 1, &["vendor/nvidia/model/*"]);
    let mut units = fitting();
    units.push(gpus);
    let taken = take(&mut adjusted, &units);
    let before = restored.metrics();
    restored.restore(&taken);
    assert_eq!(restored.metrics(), adjusted.metrics());
    restored.release(&taken);
    assert_eq!(restored.metrics(), before);
}

fn beyond_capacity_is_remembered(mut inventory: Box<dyn Inventory>) {
    let before = inventory.metrics();
    let huge = Allocation {
        units: vec![unit(1, 3000, 1 << 30, 1 << 30, 2)],
        places: vec![Place {
            unit: 1,
            node: "n1".into(),
            replicas: 2,
        }],
        ..Allocation::default()
    };
    inventory.restore(&huge);
    let metrics = inventory.metrics();
    let free = |name: &str| {
        metrics
            .nodes
            .iter()
            .find(|n| n.name == name)
            .map(|n| n.cpu.available)
    };
    assert_eq!(free("n1"), Some(0), "free capacity is never below zero");
    assert_eq!(metrics.overcommitted_replicas, 1, "4 cores hold one of 3");
    assert_eq!(free("n2"), Some(4000), "other nodes are not concerned");
    inventory.restore(&huge);
    inventory.release(&huge);
    assert_eq!(inventory.metrics(), metrics, "release is the exact inverse");
    inventory.release(&huge);
    assert_eq!(inventory.metrics(), before);
}

fn nowhere_is_remembered(mut inventory: Box<dyn Inventory>) {
    let before = inventory.metrics();
    let lost = Allocation {
        units: vec![unit(1, 1000, 1 << 30, 0, 3)],
        places: vec![Place {
            unit: 1,
            node: "a node that is gone".into(),
            replicas: 1,
        }],
        ..Allocation::default()
    };
    inventory.restore(&lost);
    let metrics = inventory.metrics();
    assert_eq!(metrics.overcommitted_replicas, 3, "replicas without a node");
    assert_eq!(metrics.nodes, before.nodes, "they take nothing on nodes");
    inventory.release(&lost);
    assert_eq!(inventory.metrics(), before);
}

fn gpu_models_are_made_concrete(mut inventory: Box<dyn Inventory>) {
    let any = with_gpus(unit(4, 100, 1 << 20, 0, 2), 1, &["vendor/nvidia/model/*"]);
    let taken = take(&mut inventory, std::slice::from_ref(&any));
    let key = &taken.units[0].resources.gpu.attributes[0].key;
    assert_eq!(key, "vendor/nvidia/model/a100");
    let params = taken.params.get(&4).cloned().flatten();
    assert_eq!(params.map(|p| p.runtime_class), Some("nvidia".to_owned()));
    assert!(
        inventory.adjust(&[any], AdjustOptions::default()).is_err(),
        "both GPUs are taken"
    );
    let plain = take(&mut inventory, &[unit(5, 100, 1 << 20, 0, 1)]);
    assert_eq!(
        plain.params.get(&5),
        Some(&None),
        "nothing special is said as such"
    );
}

fn explain_agrees_with_adjust(mut inventory: Box<dyn Inventory>) {
    for units in [fitting(), half_fitting()] {
        let explanation = inventory.explain(&units);
        let fits = inventory.adjust(&units, AdjustOptions { dry_run: true }).is_ok();
        assert_eq!(explanation.fits, fits);
        assert_eq!(explanation.nodes.len(), 3 * units.len(), "each unit on each node");
        for verdict in &explanation.nodes {
            let count = units.iter().find(|u| u.resources.id == verdict.unit);
            let whole = count.is_some_and(|u| u.count == verdict.replicas);
            assert_eq!(verdict.missing.is_empty(), whole, "{verdict:?}");
        }
        take(&mut inventory, &[unit(1, 10, 1 << 20, 0, 1)]);
    }
}

fn a_closed_node_keeps_what_it_has(mut inventory: Box<dyn Inventory>) {
    let before = inventory.metrics();
    assert_eq!(before.nodes.len(), 3, "a closed node is still there");
    let small = [unit(1, 100, 1 << 20, 0, 1)];
    let taken = take(&mut inventory, &small);
    assert_eq!(&*taken.places[0].node, "n2", "a closed node takes nothing new");
    inventory.release(&taken);
    let explanation = inventory.explain(&small);
    let says = |v: &super::NodeVerdict| v.missing.iter().any(|m| m.contains("not ready"));
    let closed = explanation.nodes.iter().find(|v| &*v.node == "n1");
    assert!(closed.is_some_and(says), "the reason is said: {explanation:?}");
    let pinned = Allocation {
        places: vec![Place {
            unit: 1,
            node: "n1".into(),
            replicas: 1,
        }],
        units: small.to_vec(),
        ..Allocation::default()
    };
    inventory.restore(&pinned);
    let lost = inventory.metrics().overcommitted_replicas;
    assert_eq!(lost, 0, "what is there stays there");
    inventory.release(&pinned);
    assert_eq!(inventory.metrics(), before);
}

fn odd_amounts_are_harmless(mut inventory: Box<dyn Inventory>) {
    let before = inventory.metrics();
    for huge in [
        unit(1, u64::MAX, u64::MAX, u64::MAX, u32::MAX),
        unit(1, 1, 1, u64::MAX, 1),
    ] {
        assert!(inventory.adjust(&[huge], AdjustOptions::default()).is_err());
    }
    let none = take(&mut inventory, &[]);
    assert!(none.places.is_empty());
    let odd = Allocation {
        units: vec![unit(1, u64::MAX, u64::MAX, u64::MAX, u32::MAX)],
        places: vec![Place {
            unit: 1,
            node: "n1".into(),
            replicas: u32::MAX,
        }],
        ..Allocation::default()
    };
    inventory.restore(&odd);
    inventory.release(&odd);
    assert_eq!(inventory.metrics(), before);
}

/// The contract of [`InventorySource`]; `push` makes the source see this capacity.
pub async fn source_suite<S: InventorySource>(source: S, push: impl Fn(&S, InventoryUpdate)) {
    let update = |names: &[&str]| InventoryUpdate {
        inventory: std::sync::Arc::new(super::NodeInventory::new(&ClusterSpec::null(names))),
        placements: Vec::new(),
        leased_ips: None,
    };
    let nodes = |update: &InventoryUpdate| update.inventory.metrics().nodes.len();
    let mut early = source.watch();
    push(&source, update(&["a", "b"]));
    let first = tokio::time::timeout(PATIENCE, early.next()).await;
    let first = first.expect("a first update comes").expect("the stream goes on");
    assert_eq!(nodes(&first.expect("capacity is known")), 2);
    let mut late = source.watch();
    let same = tokio::time::timeout(PATIENCE, late.next()).await;
    let same = same
        .expect("a late watcher gets the capacity")
        .expect("the stream goes on");
    assert_eq!(nodes(&same.expect("capacity is known")), 2);
    push(&source, update(&["a", "b", "c"]));
    for watcher in [&mut early, &mut late] {
        let next = tokio::time::timeout(PATIENCE, watcher.next()).await;
        let next = next.expect("a change comes").expect("the stream goes on");
        assert_eq!(nodes(&next.expect("capacity is known")), 3);
    }
}
