//! Where the replicas of a reservation are: moved by pods, never lost.

use crate::inventory::{AdjustOptions, Allocation};
use crate::inventory::{InsufficientCapacity, Inventory, Place};
use crate::types::ResourceUnit;

/// Replicas of a unit that are somewhere.
pub(super) fn placed(places: &[Place], unit: u32) -> u32 {
    let of_unit = places.iter().filter(|p| p.unit == unit);
    of_unit.fold(0, |sum, p| sum.saturating_add(p.replicas))
}

/// True when a replica is nowhere.
pub(super) fn incomplete(units: &[ResourceUnit], places: &[Place]) -> bool {
    units.iter().any(|u| placed(places, u.resources.id) < u.count)
}

/// Places after the pods were looked at: pods say where replicas are, the rest stays where it was. A rollout
/// shows more pods than there are replicas; only as many as are reserved count.
pub(super) fn moved(units: &[ResourceUnit], old: &[Place], pods: &[Place]) -> Vec<Place> {
    let mut places = Vec::new();
    for unit in units {
        let mut left = unit.count;
        let mine = |p: &&Place| p.unit == unit.resources.id;
        for pod in pods.iter().filter(mine) {
            // No more than `left` is added, so this stays above zero.
            left -= add(&mut places, pod, pod.replicas.min(left));
        }
        for pin in old.iter().filter(mine) {
            let pods_there = pods.iter().filter(mine).filter(|p| p.node == pin.node);
            let pods_there = pods_there.fold(0u32, |sum, p| sum.saturating_add(p.replicas));
            // A rollout may have more pods on the node than replicas were pinned there.
            let without_pods = pin.replicas.saturating_sub(pods_there);
            left -= add(&mut places, pin, without_pods.min(left));
        }
    }
    places
}

/// Adds some replicas of a place to others; returns how many.
pub(super) fn add(places: &mut Vec<Place>, place: &Place, replicas: u32) -> u32 {
    let same = |p: &&mut Place| p.unit == place.unit && p.node == place.node;
    match places.iter_mut().find(same) {
        Some(known) => known.replicas = known.replicas.saturating_add(replicas),
        None if replicas == 0 => {}
        None => places.push(Place {
            replicas,
            ..place.clone()
        }),
    }
    replicas
}

/// Takes places for as many of the missing replicas as possible: all of them at once or, where that fails,
/// unit by unit as many as fit. What is returned is taken.
pub(super) fn find(inventory: &mut dyn Inventory, missing: &[ResourceUnit]) -> Vec<Allocation> {
    if let Ok(all) = inventory.adjust(missing, AdjustOptions::default()) {
        return vec![all];
    }
    let mut found = Vec::new();
    // From the last to the first, as an inventory places them.
    for unit in missing.iter().rev() {
        found.extend(most_of(inventory, unit));
    }
    found
}

/// The largest number of replicas of one unit that fits.
fn most_of(inventory: &mut dyn Inventory, unit: &ResourceUnit) -> Option<Allocation> {
    // By halves, because every try looks at all nodes.
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
