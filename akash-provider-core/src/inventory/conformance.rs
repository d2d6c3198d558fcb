//! The conformance suites of [`Inventory`] and [`InventorySource`]. The tests of a backend call the suites. A
//! suite panics with the name of the violated rule.
//!
//! The inventory selects the nodes. The suites accept every suitable node, and check only behavior that the
//! traits document.

use super::{
    AdjustOptions, Allocation, ClusterSpec, GpuSpec, Inventory, InventorySource, InventoryUpdate, NodeSpec,
    ReplicaGroup,
};
use crate::conformance::{Rule, SearchResult, panic_text};
use crate::error::Error;
use crate::types::{Attribute, Cpu, DecCoin, Gpu, Memory, ResourceUnit, Resources, Storage};
use crate::types::{Dec, price::Denom};
use futures::stream::BoxStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

const GIB: i64 = 1 << 30;
/// Maximum time until a source forwards an update.
const PATIENCE: Duration = Duration::from_secs(5);

/// Creates a unit of `count` replicas with the given CPU in millicores, and memory and ephemeral storage in
/// bytes.
#[must_use]
pub fn unit(id: u32, cpu: u64, memory: u64, storage: u64, count: u32) -> ResourceUnit {
    let volume = Storage::new("default", storage, Vec::new());
    ResourceUnit {
        resources: Resources {
            id,
            cpu: Cpu::new(cpu, Vec::new()),
            memory: Memory::new(memory, Vec::new()),
            storage: vec![volume],
            ..Resources::default()
        },
        count,
        price: DecCoin::new(&Denom::from("uact"), Dec::from_int(1)),
    }
}

/// Sets the GPUs of each replica of a unit: `units` devices, of any one of the GPU models in `keys`.
#[must_use]
pub fn with_gpus(mut unit: ResourceUnit, units: u64, keys: &[&str]) -> ResourceUnit {
    let attributes = keys.iter().map(|k| Attribute::new(*k, "true")).collect();
    unit.resources.gpu = Gpu::new(units, attributes);
    unit
}

/// Creates the cluster of the suite: three nodes with 4 cores, 8 GiB and 100 GiB each. The last node has two
/// GPUs.
#[must_use]
pub fn cluster() -> ClusterSpec {
    let node = |name: &str| NodeSpec::new(name, 4000, 8 * GIB, 100 * GIB).with_class("beta2");
    let gpus = GpuSpec::new("nvidia", "a100", "80Gi", "PCIe", 2);
    ClusterSpec::from_nodes([node("n1"), node("n2"), node("n3").with_gpus(gpus)])
        .with_storage("beta2", 10 * GIB)
}

/// Checks every rule of [`Inventory`]. `make` builds an inventory from a cluster.
///
/// # Panics
/// Panics when the inventory violates a rule. The message names the rule. If a call does not return, the
/// suite prints the rule and exits the process.
pub fn suite(make: impl Fn(&ClusterSpec) -> Box<dyn Inventory>) {
    let fresh = || make(&cluster());
    chapter("all or nothing", || all_or_nothing(fresh()));
    chapter("a dry run reserves nothing", || a_try_takes_nothing(fresh()));
    chapter("a copy is independent", || a_copy_is_independent(fresh()));
    chapter("the same calls give the same results", || {
        the_same_calls_give_the_same_results(fresh(), fresh());
    });
    chapter("release undoes adjust", || release_undoes_adjust(fresh()));
    chapter("restore takes what adjust took", || {
        restore_takes_what_adjust_took(fresh(), fresh());
    });
    chapter("reservations without capacity are counted", || {
        beyond_capacity_is_remembered(fresh());
    });
    chapter("a lost node is counted", || nowhere_is_remembered(fresh()));
    chapter("GPU models are made concrete", || {
        gpu_models_are_made_concrete(fresh())
    });
    chapter("explain agrees with adjust", || {
        explain_agrees_with_adjust(fresh())
    });
    chapter("extreme amounts are safe", || odd_amounts_are_harmless(fresh()));
    let mut away = cluster();
    away.nodes[0].closed = Some("not ready".to_owned());
    chapter("a closed node keeps its replicas", || {
        a_closed_node_keeps_what_it_has(make(&away));
    });
}

/// Runs one check. A failure message starts with the name of the check.
fn chapter(name: &'static str, run: impl FnOnce()) {
    let rule = Rule::new(name, PATIENCE);
    let ended = catch_unwind(AssertUnwindSafe(|| rule.at_once("Inventory", run)));
    if let Err(panic) = ended {
        rule.broken(panic_text(&*panic));
    }
}

fn take(inventory: &mut dyn Inventory, units: &[ResourceUnit]) -> Allocation {
    match inventory.adjust(units, AdjustOptions::default()) {
        Ok(taken) => taken,
        Err(misfit) => Rule::new("Inventory", PATIENCE).broken(format!(
            "`adjust` was expected to take {units:?}, which fits on any choice of nodes: {misfit}"
        )),
    }
}

fn half_fitting() -> Vec<ResourceUnit> {
    vec![unit(1, 5000, 1 << 20, 0, 1), unit(2, 1000, 1 << 30, 1 << 30, 5)]
}

/// Returns a group. In every placement of this group, at least 200 millicores of each node stay free.
fn fitting() -> Vec<ResourceUnit> {
    vec![unit(1, 1400, 1 << 30, 1 << 30, 3), unit(2, 1000, 1 << 30, 0, 2)]
}

fn all_or_nothing(mut inventory: Box<dyn Inventory>) {
    let before = inventory.metrics();
    let failed = inventory.adjust(&half_fitting(), AdjustOptions::default());
    let misfit = failed.expect_err("`adjust` was expected to fail: no node has 5 cores");
    assert_eq!(
        misfit.unit, 1,
        "the error was expected to name the unit that does not fit"
    );
    assert!(
        !misfit.message.is_empty(),
        "the error was expected to name the missing capacity"
    );
    assert_eq!(
        inventory.metrics(),
        before,
        "a failed adjust changed the inventory"
    );
    take(&mut inventory, &fitting());
    let after = inventory.metrics();
    assert!(
        inventory
            .adjust(&half_fitting(), AdjustOptions::default())
            .is_err()
    );
    assert_eq!(
        inventory.metrics(),
        after,
        "a failed adjust changed the inventory"
    );
}

fn a_try_takes_nothing(mut inventory: Box<dyn Inventory>) {
    let before = inventory.metrics();
    let tried = inventory.adjust(&fitting(), AdjustOptions { dry_run: true });
    assert_eq!(inventory.metrics(), before, "a dry run reserved capacity");
    let taken = inventory.adjust(&fitting(), AdjustOptions::default());
    assert_eq!(tried, taken, "a dry run returned another result");
    assert_ne!(inventory.metrics(), before, "an adjust reserved nothing");
    let tried = inventory.adjust(&half_fitting(), AdjustOptions { dry_run: true });
    assert!(tried.is_err(), "a dry run found capacity that does not exist");
}

fn a_copy_is_independent(mut inventory: Box<dyn Inventory>) {
    let before = inventory.metrics();
    let mut copy = inventory.dup();
    assert_eq!(copy.metrics(), before, "a copy differs from the original");
    take(&mut copy, &fitting());
    assert_eq!(inventory.metrics(), before, "the copy changed the original");
    let taken = copy.metrics();
    take(&mut inventory, &[unit(1, 100, 1 << 20, 0, 1)]);
    assert_eq!(copy.metrics(), taken, "the original changed the copy");
}

fn the_same_calls_give_the_same_results(mut one: Box<dyn Inventory>, mut other: Box<dyn Inventory>) {
    for units in [fitting(), half_fitting(), fitting(), fitting()] {
        let options = AdjustOptions::default();
        let rule = "the same calls in the same order were expected to return the same";
        assert_eq!(
            one.adjust(&units, options),
            other.adjust(&units, options),
            "{rule} `adjust`"
        );
        assert_eq!(one.metrics(), other.metrics(), "{rule} `metrics`");
        assert_eq!(one.explain(&units), other.explain(&units), "{rule} `explain`");
    }
}

fn release_undoes_adjust(mut inventory: Box<dyn Inventory>) {
    let before = inventory.metrics();
    let first = take(&mut inventory, &fitting());
    let between = inventory.metrics();
    let gpus = with_gpus(unit(7, 100, 1 << 20, 0, 1), 1, &["vendor/nvidia/model/a100"]);
    let second = take(&mut inventory, &[gpus]);
    inventory.release(&second);
    assert_eq!(
        inventory.metrics(),
        between,
        "`release` was expected to undo `adjust`"
    );
    let second = take(&mut inventory, &[unit(9, 500, 1 << 20, 1 << 20, 2)]);
    inventory.release(&first);
    inventory.release(&second);
    assert_eq!(
        inventory.metrics(),
        before,
        "`release` was expected to undo `adjust` in any order"
    );
}

fn restore_takes_what_adjust_took(mut adjusted: Box<dyn Inventory>, mut restored: Box<dyn Inventory>) {
    let gpus = with_gpus(unit(3, 100, 1 << 20, 0, 2), 1, &["vendor/nvidia/model/*"]);
    let mut units = fitting();
    units.push(gpus);
    let taken = take(&mut adjusted, &units);
    let before = restored.metrics();
    restored.restore(&taken);
    assert_eq!(
        restored.metrics(),
        adjusted.metrics(),
        "`restore` was expected to reserve the same as `adjust`"
    );
    restored.release(&taken);
    assert_eq!(
        restored.metrics(),
        before,
        "`release` was expected to undo `restore`"
    );
}

fn beyond_capacity_is_remembered(mut inventory: Box<dyn Inventory>) {
    let before = inventory.metrics();
    let huge = Allocation {
        units: vec![unit(1, 3000, 1 << 30, 1 << 30, 2)],
        places: vec![ReplicaGroup {
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
    assert_eq!(free("n2"), Some(4000), "other nodes are not affected");
    inventory.restore(&huge);
    inventory.release(&huge);
    assert_eq!(inventory.metrics(), metrics, "release is the exact inverse");
    inventory.release(&huge);
    assert_eq!(
        inventory.metrics(),
        before,
        "`release` was expected to undo `restore` also without free capacity"
    );
}

fn nowhere_is_remembered(mut inventory: Box<dyn Inventory>) {
    let before = inventory.metrics();
    let lost = Allocation {
        units: vec![unit(1, 1000, 1 << 30, 0, 3)],
        places: vec![ReplicaGroup {
            unit: 1,
            node: "a deleted node".into(),
            replicas: 1,
        }],
        ..Allocation::default()
    };
    inventory.restore(&lost);
    let metrics = inventory.metrics();
    assert_eq!(metrics.overcommitted_replicas, 3, "replicas without a node");
    assert_eq!(
        metrics.nodes, before.nodes,
        "replicas without a node use no capacity of nodes"
    );
    inventory.release(&lost);
    assert_eq!(
        inventory.metrics(),
        before,
        "`release` was expected to undo `restore` also without a node"
    );
}

fn gpu_models_are_made_concrete(mut inventory: Box<dyn Inventory>) {
    let any = with_gpus(unit(4, 100, 1 << 20, 0, 2), 1, &["vendor/nvidia/model/*"]);
    let taken = take(&mut inventory, std::slice::from_ref(&any));
    let key = taken
        .units
        .first()
        .and_then(|unit| unit.resources.gpu.attributes.first())
        .map(|attribute| attribute.key.clone())
        .unwrap_or_default();
    // The inventory chooses further details of the attribute, such as memory.
    let is_concrete = key == "vendor/nvidia/model/a100" || key.starts_with("vendor/nvidia/model/a100/");
    assert!(
        is_concrete,
        "`adjust` was expected to return the reserved model `vendor/nvidia/model/a100` and returned `{key}`"
    );
    assert!(
        inventory.adjust(&[any], AdjustOptions::default()).is_err(),
        "`adjust` was expected to fail: both GPUs are taken"
    );
    let plain = take(&mut inventory, &[unit(5, 100, 1 << 20, 0, 1)]);
    let nothing = plain.params.get(&5).and_then(Option::as_ref);
    assert_eq!(
        nothing, None,
        "a unit without GPUs was expected to have no scheduler parameters"
    );
}

fn explain_agrees_with_adjust(mut inventory: Box<dyn Inventory>) {
    for units in [fitting(), half_fitting()] {
        let explanation = inventory.explain(&units);
        let fits = inventory.adjust(&units, AdjustOptions { dry_run: true }).is_ok();
        assert_eq!(
            explanation.fits, fits,
            "`explain` was expected to return the result of a dry run for {units:?}"
        );
        assert_eq!(
            explanation.nodes.len(),
            3 * units.len(),
            "`explain` was expected to judge each unit on each node"
        );
        for verdict in &explanation.nodes {
            let count = units.iter().find(|u| u.resources.id == verdict.unit);
            let whole = count.is_some_and(|u| u.count == verdict.replicas);
            assert!(
                whole || !verdict.missing.is_empty(),
                "`explain` was expected to name the missing capacity for the next replica: {verdict:?}"
            );
        }
        take(&mut inventory, &[unit(1, 10, 1 << 20, 0, 1)]);
    }
}

fn a_closed_node_keeps_what_it_has(mut inventory: Box<dyn Inventory>) {
    let before = inventory.metrics();
    let small = [unit(1, 100, 1 << 20, 0, 1)];
    let taken = take(&mut inventory, &small);
    let is_there = taken.places.iter().any(|place| &*place.node == "n1");
    assert!(!is_there, "a closed node was expected to take no new replicas");
    inventory.release(&taken);
    let explanation = inventory.explain(&small);
    let closed = explanation.nodes.iter().find(|v| &*v.node == "n1");
    assert!(
        closed.is_none_or(|v| v.replicas == 0 && !v.missing.is_empty()),
        "`explain` was expected to report that a closed node takes no replicas: {explanation:?}"
    );
    let pinned = Allocation {
        places: vec![ReplicaGroup {
            unit: 1,
            node: "n1".into(),
            replicas: 1,
        }],
        units: small.to_vec(),
        ..Allocation::default()
    };
    inventory.restore(&pinned);
    let lost = inventory.metrics().overcommitted_replicas;
    assert_eq!(
        lost, 0,
        "existing replicas on a closed node were expected to have capacity there"
    );
    inventory.release(&pinned);
    assert_eq!(
        inventory.metrics(),
        before,
        "`release` was expected to undo `restore` also on a closed node"
    );
}

fn odd_amounts_are_harmless(mut inventory: Box<dyn Inventory>) {
    let before = inventory.metrics();
    for huge in [
        unit(1, u64::MAX, u64::MAX, u64::MAX, u32::MAX),
        unit(1, 1, 1, u64::MAX, 1),
    ] {
        let fits = inventory.adjust(std::slice::from_ref(&huge), AdjustOptions::default());
        assert!(fits.is_err(), "`adjust` was expected to fail for {huge:?}");
    }
    let none = take(&mut inventory, &[]);
    assert!(
        none.places.is_empty(),
        "an empty list of units was expected to reserve nothing"
    );
    let odd = Allocation {
        units: vec![unit(1, u64::MAX, u64::MAX, u64::MAX, u32::MAX)],
        places: vec![ReplicaGroup {
            unit: 1,
            node: "n1".into(),
            replicas: u32::MAX,
        }],
        ..Allocation::default()
    };
    inventory.restore(&odd);
    inventory.release(&odd);
    assert_eq!(
        inventory.metrics(),
        before,
        "`release` was expected to undo `restore` of any amount"
    );
}

/// Checks every rule of [`InventorySource`]. `push` makes the source observe the given capacity. The source
/// may send error items and repeated updates.
///
/// # Panics
/// Panics when the source violates a rule. The message names the rule.
pub async fn source_suite<S: InventorySource>(source: S, push: impl Fn(&S, InventoryUpdate)) {
    let update = |names: &[&str]| {
        InventoryUpdate::new(
            std::sync::Arc::new(super::NodeInventory::new(&ClusterSpec::null(names))),
            Vec::new(),
        )
    };
    let first = Rule::new("the first update arrives as soon as capacity is known", PATIENCE);
    let mut early = first.at_once("watch", || source.watch());
    push(&source, update(&["a", "b"]));
    tells_nodes(&first, &mut early, 2).await;
    let late = Rule::new("a late watcher receives the known capacity", PATIENCE);
    let mut second = late.at_once("watch", || source.watch());
    tells_nodes(&late, &mut second, 2).await;
    let change = Rule::new("every watcher receives changes", PATIENCE);
    push(&source, update(&["a", "b", "c"]));
    for watcher in [&mut early, &mut second] {
        tells_nodes(&change, watcher, 3).await;
    }
}

async fn tells_nodes(
    rule: &Rule,
    watcher: &mut BoxStream<'static, Result<InventoryUpdate, Error>>,
    wanted: usize,
) {
    let mut last = None;
    let found = rule.find("watch", watcher, |update| {
        let nodes = update.ok()?.inventory.metrics().nodes.len();
        last = Some(nodes);
        (nodes == wanted).then_some(())
    });
    let how = match found.await {
        SearchResult::Item(()) => return,
        SearchResult::Ended => "the stream ended",
        SearchResult::Late => "the update did not arrive",
    };
    let last = last.map_or_else(
        || "no update arrived".to_owned(),
        |nodes| format!("the last update had {nodes}"),
    );
    rule.broken(format!(
        "`watch` was expected to return {wanted} nodes within {PATIENCE:?}: {how}; {last}"
    ));
}

#[cfg(test)]
mod tests;
