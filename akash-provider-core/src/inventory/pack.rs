//! Packing: pure first fit of units onto nodes, all or nothing.
//!
//! As the network's provider does it, units are placed from the last to the first and nodes are tried in their
//! order. A unit that accepts several GPU models is tried with each of them, the one that some node takes
//! soonest first, and when a later unit finds no place the choice is made again. Whatever fails is undone from
//! a log of what was taken; nothing is copied.

use super::gpu::Want;
use super::need::Need;
use super::node_inventory::NodeInventory;
use super::{Allocation, InsufficientCapacity, Place};
use crate::types::ResourceUnit;

#[cfg(test)]
mod tests;

/// GPU choices tried for one group before it is given up.
const CHOICES_TRIED: u32 = 64;

/// Replicas taken on a node; enough to give them back.
#[derive(Debug, Clone, Copy)]
struct Taken {
    unit: usize,
    node: usize,
    mask: u16,
    replicas: i64,
}

/// A unit with GPUs, what it could be promised, and where the log was before it.
#[derive(Debug)]
struct Decision {
    unit: usize,
    log: usize,
    /// Still to be tried, last first.
    left: Vec<Want>,
}

#[derive(Debug)]
struct Search<'a> {
    inventory: &'a mut NodeInventory,
    units: &'a [ResourceUnit],
    needs: Vec<Need>,
    chosen: Vec<Option<Want>>,
    log: Vec<Taken>,
    tried: u32,
}

/// Finds places for everything and takes them, unless it is only a try.
pub(super) fn fit(
    inventory: &mut NodeInventory,
    units: &[ResourceUnit],
    dry_run: bool,
) -> Result<Allocation, InsufficientCapacity> {
    let needs: Vec<_> = units.iter().map(|u| Need::of(&inventory.layout, u)).collect();
    // From the last, because that is the first to be placed.
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
    // What a failed search has left goes too: all or nothing.
    if dry_run || allocation.is_err() {
        search.undo(0);
    }
    allocation
}

impl Search<'_> {
    fn run(&mut self) -> Result<(), InsufficientCapacity> {
        let mut decisions: Vec<Decision> = Vec::new();
        let mut failure = None;
        let mut next = self.units.len();
        while let Some(unit) = next.checked_sub(1) {
            if self.needs[unit].gpu == 0 {
                let placed = self.place(unit, None);
                if placed == self.units[unit].count {
                    next = unit;
                    continue;
                }
                // The first failure is the one to tell: those that follow may come from the way back.
                failure.get_or_insert((unit, placed));
            } else {
                decisions.push(Decision {
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

    /// Goes back to the latest choice that is left and makes it; says which unit is now placed.
    fn choose_again(
        &mut self,
        decisions: &mut Vec<Decision>,
        failure: &mut Option<(usize, u32)>,
    ) -> Option<usize> {
        while let Some(decision) = decisions.last_mut() {
            self.undo(decision.log);
            let unit = decision.unit;
            // Bounded, because choices multiply from unit to unit.
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

    /// The choices for a unit that some node takes at all, the soonest last.
    fn order_choices(&self, unit: usize) -> Vec<Want> {
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

    /// Takes as many replicas of a unit as there is room for; returns how many.
    fn place(&mut self, unit: usize, want: Option<&Want>) -> u32 {
        let need = &self.needs[unit];
        let count = i64::from(self.units[unit].count);
        let mut left = count;
        let mut from = 0;
        while left > 0 {
            // The quick look first, because most nodes are full and `room` costs more.
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
                self.log.push(Taken {
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

    /// Gives back what was taken since the log had `length` entries.
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
            let params = chosen.as_ref().and_then(Want::to_params);
            allocation.params.insert(unit.resources.id, params);
        }
        // By unit and node, so that places do not depend on the way the search took.
        let mut log = self.log.clone();
        log.sort_by_key(|taken| (taken.unit, taken.node));
        let places = log.iter().map(|taken| Place {
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
            "unit {id}: {placed} of {} replicas find a place on {nodes} nodes; each takes {}",
            unit.count,
            super::explain::describe(need, unit)
        );
        InsufficientCapacity { unit: id, message }
    }
}
