//! Packing: pure first-fit placement of units on nodes. Either all units are placed or none.
//!
//! As in the Go provider, units are placed from the last to the first, and nodes are tried in their order. A
//! unit that accepts several GPU models is tried with each model. The first model is the one that fits on the
//! earliest node. If a later unit does not fit, the search returns to an earlier unit and tries another
//! model. A log of reservations undoes failed attempts without copies.

use super::describe::describe;
use super::gpu::GpuRequest;
use super::need::Need;
use super::node_inventory::NodeInventory;
use super::{Allocation, InsufficientCapacity, ReplicaGroup};
use crate::types::ResourceUnit;

#[cfg(test)]
mod tests;

/// Maximum number of GPU choices tried for one group.
const CHOICES_TRIED: u32 = 64;

/// Reserved replicas on a node. Contains the data to release the replicas.
#[derive(Debug, Clone, Copy)]
struct Reservation {
    unit: usize,
    node: usize,
    mask: u16,
    replicas: i64,
}

/// State to which the search can return: a unit with its untried GPU choices, and the length of `Search::log`
/// before the unit was placed.
#[derive(Debug)]
struct ChoicePoint {
    unit: usize,
    log: usize,
    /// Choices that were not tried yet. The last choice is tried first.
    left: Vec<GpuRequest>,
}

#[derive(Debug)]
struct Search<'a> {
    inventory: &'a mut NodeInventory,
    units: &'a [ResourceUnit],
    needs: Vec<Need>,
    chosen: Vec<Option<GpuRequest>>,
    log: Vec<Reservation>,
    tried: u32,
}

/// Places all units. With `dry_run`, reserves nothing.
pub(super) fn fit(
    inventory: &mut NodeInventory,
    units: &[ResourceUnit],
    dry_run: bool,
) -> Result<Allocation, InsufficientCapacity> {
    let needs: Vec<_> = units.iter().map(|u| Need::new(&inventory.layout, u)).collect();
    // Starts at the last unit, which is placed first.
    if let Some((unit, (at, why))) = needs
        .iter()
        .rposition(|n| n.impossible.is_some())
        .and_then(|u| needs[u].impossible.map(|i| (&units[u], i)))
    {
        return Err(InsufficientCapacity {
            unit: unit.resources.id,
            message: format!(
                "unit {}: {}",
                unit.resources.id,
                why.describe(&unit.resources.storage[at])
            ),
        });
    }
    let mut search = Search {
        chosen: vec![None; units.len()],
        log: Vec::new(),
        tried: 0,
        inventory,
        units,
        needs,
    };
    let found = search.run();
    let allocation = found.map(|()| search.allocation());
    // Undoes the rest of a failed search, so that nothing stays reserved.
    if dry_run || allocation.is_err() {
        search.undo(0);
    }
    allocation
}

impl Search<'_> {
    fn run(&mut self) -> Result<(), InsufficientCapacity> {
        let mut decisions: Vec<ChoicePoint> = Vec::new();
        let mut failure = None;
        let mut next = self.units.len();
        while let Some(unit) = next.checked_sub(1) {
            if self.needs[unit].gpu == 0 {
                let placed = self.place(unit, None);
                if placed == self.units[unit].count {
                    next = unit;
                    continue;
                }
                // The first failure is reported, because later failures can result from backtracking.
                failure.get_or_insert((unit, placed));
            } else {
                decisions.push(ChoicePoint {
                    unit,
                    log: self.log.len(),
                    left: self.order_choices(unit),
                });
            }
            match self.choose_again(&mut decisions, &mut failure) {
                Some(unit) => next = unit,
                None => return Err(self.misfit(failure.unwrap_or((unit, 0)))),
            }
        }
        Ok(())
    }

    /// Undoes the last placements until a unit has an untried choice. Places this unit with that choice.
    /// Returns the index of the unit, or `None` if no choice is left.
    fn choose_again(
        &mut self,
        decisions: &mut Vec<ChoicePoint>,
        failure: &mut Option<(usize, u32)>,
    ) -> Option<usize> {
        while let Some(decision) = decisions.last_mut() {
            self.undo(decision.log);
            let unit = decision.unit;
            // Bounded, because the number of combinations grows exponentially.
            let Some(want) = decision.left.pop().filter(|_| self.tried < CHOICES_TRIED) else {
                failure.get_or_insert((unit, 0));
                decisions.pop();
                continue;
            };
            self.tried += 1;
            let placed = self.place(unit, Some(&want));
            if placed == self.units[unit].count {
                self.chosen[unit] = Some(want);
                return Some(unit);
            }
            failure.get_or_insert((unit, placed));
        }
        None
    }

    /// Returns the GPU choices that fit on at least one node. The choices are sorted by the index of their
    /// first fitting node, highest index first.
    fn order_choices(&self, unit: usize) -> Vec<GpuRequest> {
        let need = &self.needs[unit];
        let nodes = 0..self.inventory.free.len();
        let choices = need.choices(&self.inventory.layout).into_iter();
        let mut ordered: Vec<_> = choices
            .filter_map(|want| {
                let soonest = |node: &usize| need.room(self.inventory, *node, Some(&want)) > 0;
                nodes.clone().find(soonest).map(|node| (node, want))
            })
            .collect();
        ordered.sort_by_key(|(node, _)| *node);
        ordered.into_iter().rev().map(|(_, want)| want).collect()
    }

    /// Reserves as many replicas of a unit as fit, and returns their number.
    fn place(&mut self, unit: usize, want: Option<&GpuRequest>) -> u32 {
        let need = &self.needs[unit];
        let count = i64::from(self.units[unit].count);
        let mut left = count;
        let mut from = 0;
        while left > 0 {
            // Fast check first, because most nodes are full and `room` is more expensive.
            let Some(skipped) = self.inventory.free[from..].iter().position(|f| need.fits(f)) else {
                break;
            };
            let node = from + skipped;
            from = node + 1;
            let replicas = need.room(self.inventory, node, want).min(left);
            if replicas > 0 {
                let wants = want.map_or(&[][..], std::slice::from_ref);
                let mask = self.inventory.layout.mask(node, wants);
                self.inventory.take(node, need, mask, replicas);
                self.log.push(Reservation {
                    unit,
                    node,
                    mask,
                    replicas,
                });
                left -= replicas;
            }
        }
        u32::try_from(count - left).unwrap_or(u32::MAX)
    }

    /// Releases all reservations that were logged after the first `length` entries.
    fn undo(&mut self, length: usize) {
        while self.log.len() > length {
            if let Some(taken) = self.log.pop() {
                let need = &self.needs[taken.unit];
                self.inventory.take(taken.node, need, taken.mask, -taken.replicas);
            }
        }
    }

    fn allocation(&self) -> Allocation {
        let mut allocation = Allocation {
            units: self.units.to_vec(),
            ..Allocation::default()
        };
        for (unit, chosen) in allocation.units.iter_mut().zip(&self.chosen) {
            if let Some(want) = chosen {
                unit.resources.gpu.attributes = vec![want.to_attribute()];
            }
            let params = chosen.as_ref().and_then(GpuRequest::to_params);
            allocation.params.insert(unit.resources.id, params);
        }
        // Sorted by unit and node, so that the result does not depend on the search.
        let mut log = self.log.clone();
        log.sort_by_key(|taken| (taken.unit, taken.node));
        let places = log.iter().map(|taken| ReplicaGroup {
            unit: self.units[taken.unit].resources.id,
            node: self.inventory.layout.nodes[taken.node].name.clone(),
            replicas: u32::try_from(taken.replicas).unwrap_or(u32::MAX),
        });
        allocation.places = places.collect();
        allocation
    }

    fn misfit(&self, (unit, placed): (usize, u32)) -> InsufficientCapacity {
        let (need, unit) = (&self.needs[unit], &self.units[unit]);
        let id = unit.resources.id;
        let nodes = self.inventory.free.len();
        let message = format!(
            "unit {id}: {placed} of {} replicas fit on {nodes} nodes; each needs {}",
            unit.count,
            describe(need, unit)
        );
        InsufficientCapacity { unit: id, message }
    }
}
