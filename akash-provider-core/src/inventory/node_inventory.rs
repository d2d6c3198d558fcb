//! The ledger of all backends: a list of nodes with first-fit placement.
//!
//! Internal amounts are signed. Reserving more than exists and releasing it again therefore restores the
//! previous state, in any order. Reported amounts are never negative. The amount that a lease reserves on a
//! node depends only on its units, not on other reservations.
//!
//! GPUs are counted by kind. If several kinds of devices on a node satisfy a reservation, the reservation is
//! a claim on the set of these kinds. The number of free devices of a kind is limited by every set that
//! contains the kind (Hall's condition), so that no device is sold twice.

use super::layout::{Free, Layout};
use super::need::Need;
use super::spec::{ClusterSpec, NodeSpec, Quantity};
use super::{Allocation, GpuMetrics, IgnoredResource, ReplicaGroup};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

#[cfg(feature = "runtime")]
pub use super::source::{MemoryInventorySource, StaticInventorySource};

#[cfg(test)]
mod tests;

/// Free capacity of a cluster of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInventory {
    pub(super) layout: Arc<Layout>,
    pub(super) free: Vec<Free>,
    /// Free storage by class.
    pub(super) storage: Vec<i64>,
    /// Number of devices that the provider has reserved, by node and by bit mask of the accepted kinds.
    gpu_claims: BTreeMap<(usize, u16), i64>,
    /// Number of the provider's replicas on each node.
    replicas: Vec<i64>,
    /// For each storage class, the number of the provider's replicas with a volume of this class.
    class_replicas: Vec<i64>,
    /// Number of reserved replicas that have no known node.
    nowhere: i64,
}

impl NodeInventory {
    /// Creates the inventory of a cluster without reservations. Invalid entries, such as a duplicate node or
    /// a GPU of an unknown vendor, are omitted. [`Inventory::explain`](super::Inventory::explain) lists these entries as ignored.
    #[must_use]
    pub fn new(spec: &ClusterSpec) -> Self {
        Self::from_layout(Layout::new(spec))
    }

    /// Returns an inventory with new amounts and without reservations. The result equals the result of
    /// [`Self::new`] for the whole cluster. Returns `None` for other changes, such as a new node, another
    /// kind of GPU, another storage class or an invalid entry.
    #[must_use]
    pub fn revised(
        &self,
        nodes: &[NodeSpec],
        storage: &BTreeMap<String, Quantity>,
        ignored: &Arc<Vec<IgnoredResource>>,
    ) -> Option<Self> {
        let layout = self.layout.revised(nodes, storage, ignored)?;
        Some(Self::from_layout(layout))
    }

    fn from_layout(layout: Layout) -> Self {
        Self {
            free: layout.nodes.iter().map(|n| n.base).collect(),
            storage: layout.classes.iter().map(|c| c.base).collect(),
            gpu_claims: BTreeMap::new(),
            replicas: vec![0; layout.nodes.len()],
            class_replicas: vec![0; layout.classes.len()],
            nowhere: 0,
            layout: Arc::new(layout),
        }
    }

    /// Reserves `replicas` of a unit on a node. A negative number releases replicas. A release exactly
    /// reverses a reservation of the same size, even if an amount overflows.
    pub(super) fn take(&mut self, node: usize, need: &Need, mask: u16, replicas: i64) {
        let free = &mut self.free[node];
        free.cpu = free.cpu.wrapping_sub(need.cpu.wrapping_mul(replicas));
        free.memory = free.memory.wrapping_sub(need.memory.wrapping_mul(replicas));
        free.ephemeral = free.ephemeral.wrapping_sub(need.ephemeral.wrapping_mul(replicas));
        self.replicas[node] = self.replicas[node].wrapping_add(replicas);
        for &(class, bytes) in &need.volumes {
            self.storage[class] = self.storage[class].wrapping_sub(bytes.wrapping_mul(replicas));
            self.class_replicas[class] = self.class_replicas[class].wrapping_add(replicas);
        }
        if need.gpu > 0 {
            let devices = need.gpu.wrapping_mul(replicas);
            free.gpu = free.gpu.wrapping_sub(devices);
            let claim = self.gpu_claims.entry((node, mask)).or_default();
            *claim = claim.wrapping_add(devices);
            // An empty entry would make equal ledgers compare as different.
            if *claim == 0 {
                self.gpu_claims.remove(&(node, mask));
            }
        }
    }

    /// Returns the number of free devices of the kinds in `mask` on a node. A new reservation can use these
    /// devices.
    pub(super) fn gpus_free(&self, node: usize, mask: u16) -> i64 {
        // Without an acceptable device no set limits the number.
        if mask == 0 {
            return 0;
        }
        let slots = &self.layout.slots[self.layout.nodes[node].slots.clone()];
        // A node has at most 8 kinds, so every set can be evaluated.
        let sets = (0..1u32 << slots.len()).filter(|set| set & u32::from(mask) == u32::from(mask));
        let slack = |set: u32| {
            let inside = |bit: usize| set & (1 << bit) != 0;
            let devices = slots.iter().enumerate().filter(|(bit, _)| inside(*bit));
            let devices: i64 = devices.map(|(_, slot)| slot.free).sum();
            let claims = self.gpu_claims.range((node, 0)..=(node, u16::MAX));
            let claims = claims.filter(|((_, claim), _)| u32::from(*claim) & !set == 0);
            let claims = claims.fold(0i64, |sum, (_, devices)| sum.wrapping_add(*devices));
            (devices - self.layout.nodes[node].gpu_unknown).wrapping_sub(claims)
        };
        let least = sets.map(slack).min().unwrap_or(0);
        least.min(self.free[node].gpu).max(0)
    }

    /// Returns the GPUs of a node, by kind. For a model with several kinds, the sum of `available` is the
    /// number of devices that one order can get.
    pub(super) fn gpus(&self, index: usize) -> Vec<GpuMetrics> {
        let node = &self.layout.nodes[index];
        let mut gpus = self.layout.gpus(node);
        // Free capacity of a closed node is not available.
        if node.closed.is_some() {
            return gpus;
        }
        for last in 0..gpus.len() {
            let is_same =
                |other: &GpuMetrics| (&other.vendor, &other.model) == (&gpus[last].vendor, &gpus[last].model);
            let free = |kinds: usize| {
                let bits = (0..kinds).filter(|bit| is_same(&gpus[*bit]));
                self.gpus_free(index, bits.fold(0, |mask, bit| mask | 1 << bit))
            };
            gpus[last].available = u32::try_from(free(last + 1) - free(last)).unwrap_or(0);
        }
        gpus
    }

    /// Reserves an allocation on its nodes. With a negative `sign`, releases the allocation.
    pub(super) fn move_allocation(&mut self, allocation: &Allocation, sign: i64) {
        for unit in &allocation.units {
            let need = Need::new(&self.layout, unit);
            let mut placed = 0i64;
            let mine = |p: &&ReplicaGroup| p.unit == unit.resources.id;
            for place in allocation.places.iter().filter(mine) {
                let Some(node) = self.layout.node(&place.node) else {
                    // A deleted node holds nothing, so its replicas count as replicas without a node.
                    continue;
                };
                // Based on the accepted kinds instead of the free devices, so that a release is an exact
                // inverse.
                let mask = self.layout.mask(node, &need.wants);
                self.take(node, &need, mask, sign.wrapping_mul(i64::from(place.replicas)));
                placed = placed.saturating_add(i64::from(place.replicas));
            }
            let missing = i64::from(unit.count).saturating_sub(placed).max(0);
            self.nowhere = self.nowhere.wrapping_add(sign * missing);
        }
    }

    /// Returns the number of reserved replicas for which capacity is missing. Replicas without a node are
    /// included. If a tenth of the reserved amount of a node or storage pool is missing, a tenth of its
    /// replicas is added, rounded up.
    pub(super) fn overcommitted(&self) -> u32 {
        let nodes = self.layout.nodes.iter().zip(&self.free).enumerate();
        let on_nodes = nodes.map(|(i, (node, free))| {
            let replicas = self.replicas[i];
            let lacks = [
                lack(node.base.cpu, free.cpu, replicas),
                lack(node.base.memory, free.memory, replicas),
                lack(node.base.ephemeral, free.ephemeral, replicas),
                lack(node.base.gpu, free.gpu, replicas),
            ];
            lacks.into_iter().max().unwrap_or(0)
        });
        let pools = self.layout.classes.iter().zip(&self.storage).enumerate();
        let in_pools = pools.map(|(i, (class, free))| lack(class.base, *free, self.class_replicas[i]));
        let total = on_nodes.chain(in_pools).fold(self.nowhere, i64::saturating_add);
        u32::try_from(total.max(0)).unwrap_or(u32::MAX)
    }
}

/// Returns the number of `replicas` that exceed the capacity of a resource, rounded up.
fn lack(base: i64, free: i64, replicas: i64) -> i64 {
    let taken = i128::from(base) - i128::from(free);
    if free >= 0 || taken <= 0 || replicas <= 0 {
        return 0;
    }
    // Rounded up, in 128 bits, because both factors can be large.
    let concerned = (i128::from(replicas) * -i128::from(free) + taken - 1) / taken;
    i64::try_from(concerned).map_or(replicas, |c| c.min(replicas))
}
