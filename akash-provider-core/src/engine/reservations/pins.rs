//! Nodes of a reservation's replicas.

use crate::inventory::{AdjustOptions, Allocation};
use crate::inventory::{InsufficientCapacity, Inventory, ReplicaGroup};
use crate::types::ResourceUnit;

pub(super) fn placed(places: &[ReplicaGroup], unit: u32) -> u32 {
    let of_unit = places.iter().filter(|p| p.unit == unit);
    of_unit.fold(0, |sum, p| sum.saturating_add(p.replicas))
}

pub(super) fn incomplete(units: &[ResourceUnit], places: &[ReplicaGroup]) -> bool {
    units.iter().any(|u| placed(places, u.resources.id) < u.count)
}

/// Returns the node of each replica: the node of its running pod, or the previous node if no pod of the
/// replica runs. Surplus pods of a rollout are ignored.
pub(super) fn moved(
    units: &[ResourceUnit],
    old: &[ReplicaGroup],
    pods: &[ReplicaGroup],
) -> Vec<ReplicaGroup> {
    let mut places = Vec::new();
    for unit in units {
        let mut left = unit.count;
        let mine = |p: &&ReplicaGroup| p.unit == unit.resources.id;
        for pod in pods.iter().filter(mine) {
            // At most `left` replicas are added, so the subtraction cannot underflow.
            left -= add(&mut places, pod, pod.replicas.min(left));
        }
        for pin in old.iter().filter(mine) {
            let pods_there = pods.iter().filter(mine).filter(|p| p.node == pin.node);
            let pods_there = pods_there.fold(0u32, |sum, p| sum.saturating_add(p.replicas));
            // During a rollout, the node may have more pods than pinned replicas.
            let without_pods = pin.replicas.saturating_sub(pods_there);
            left -= add(&mut places, pin, without_pods.min(left));
        }
    }
    places
}

/// Adds replicas on a node to `places`. Returns the number of added replicas.
pub(super) fn add(places: &mut Vec<ReplicaGroup>, place: &ReplicaGroup, replicas: u32) -> u32 {
    let same = |p: &&mut ReplicaGroup| p.unit == place.unit && p.node == place.node;
    match places.iter_mut().find(same) {
        Some(place) => place.replicas = place.replicas.saturating_add(replicas),
        None if replicas == 0 => {}
        None => places.push(ReplicaGroup {
            replicas,
            ..place.clone()
        }),
    }
    replicas
}

/// Reserves all missing replicas in the inventory if they fit together. Otherwise reserves as many replicas
/// of each unit as fit, starting with the last unit.
pub(super) fn find(inventory: &mut dyn Inventory, missing: &[ResourceUnit]) -> Vec<Allocation> {
    if let Ok(all) = inventory.adjust(missing, AdjustOptions::default()) {
        return vec![all];
    }
    let mut found = Vec::new();
    // In reverse order, like the inventory places units.
    for unit in missing.iter().rev() {
        found.extend(most_of(inventory, unit));
    }
    found
}

/// Places as many replicas of one unit as fit.
fn most_of(inventory: &mut dyn Inventory, unit: &ResourceUnit) -> Option<Allocation> {
    // Binary search, because each attempt checks all nodes.
    let (mut fits, mut fails) = (0, unit.count.saturating_add(1));
    while fails - fits > 1 {
        let count = fits + (fails - fits) / 2;
        match adjust(inventory, unit, count, true) {
            Ok(_) => fits = count,
            Err(_) => fails = count,
        }
    }
    if fits == 0 {
        return None;
    }
    adjust(inventory, unit, fits, false).ok()
}

fn adjust(
    inventory: &mut dyn Inventory,
    unit: &ResourceUnit,
    count: u32,
    dry_run: bool,
) -> Result<Allocation, InsufficientCapacity> {
    let some = ResourceUnit {
        count,
        ..unit.clone()
    };
    inventory.adjust(&[some], AdjustOptions { dry_run })
}
