//! Capacity from an inventory operator.

use super::{NodeEntry, Tally};
use crate::inventory::node::{NodeFacts, Used};
use crate::inventory::pod::PodFacts;
use crate::inventory::reason::ClosedReason;
use crate::inventory::requests::Requests;
use crate::inventory::storage::VolumeFacts;
use akash_provider_core::inventory::{ClusterSpec, NodeName, NodeSpec, Quantity};
use std::collections::{BTreeMap, HashSet};
use tokio::time::Instant;

/// Reason why all nodes are closed while the inventory operator is away.
const OUTDATED: &str = "the inventory operator does not respond";

impl NodeEntry {
    /// Returns the use by others on a node, from the use `all` that an inventory operator reports.
    pub(super) fn used_of(&self, all: Requests) -> Used {
        let new = self.new.entries().fold(Requests::default(), |mut sum, pod| {
            sum += *pod;
            sum
        });
        Used {
            others: all.without(self.ours.amounts().without(new)),
            // The operator counts volumes on the disk of the node as use of the node.
            volumes: 0,
            pods: self.pods(),
        }
    }
}

impl Tally {
    /// Replaces nodes and storage. The used amounts of `cluster` include the leases of this provider.
    pub(crate) fn serve(&mut self, cluster: &ClusterSpec) {
        let names: HashSet<&str> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
        let is_missing = |name: &&NodeName| !names.contains(&***name);
        let missing: Vec<_> = self.nodes.keys().filter(is_missing).cloned().collect();
        for node in &cluster.nodes {
            self.set_node(&node.name, Some(NodeFacts::served(node)));
        }
        for name in missing {
            let Some(entry) = self.nodes.get(&name) else {
                continue;
            };
            // A node that runs pods of leases exists, for example while it is not ready.
            let last = entry.facts.clone().filter(|_| entry.ours.pods > 0);
            let closed = last.map(|facts| NodeFacts {
                closed: Some(ClosedReason::NotServed),
                ..facts
            });
            self.set_node(&name, closed);
        }
        if self.served.as_ref() != Some(&cluster.storage) {
            self.served = Some(cluster.storage.clone());
            self.dirty_storage(true);
        }
    }

    /// Closes all nodes for new replicas, or opens them again. Returns true after a change.
    pub(crate) fn set_outdated(&mut self, outdated: bool) -> bool {
        let changed = self.outdated != outdated;
        self.outdated = outdated;
        if changed {
            self.dirty.any = true;
            // Every node is computed again.
            self.dirty.structure = true;
        }
        changed
    }

    /// Subtracts own pods and volumes that the operator has counted in the meantime. Returns the time of the next
    /// call.
    pub(crate) fn settle(&mut self, now: Instant) -> Option<Instant> {
        let mut next = None;
        for (name, entry) in &mut self.nodes {
            if entry.new.settle(now, &mut next) {
                self.dirty.any = true;
                self.dirty.nodes.insert(name.clone());
            }
        }
        if self.new_volumes.settle(now, &mut next) {
            self.dirty_storage(true);
        }
        next
    }

    /// Delays the subtraction of a pod from the use that the operator reports.
    pub(super) fn delay_pod(&mut self, pod: &PodFacts) {
        if self.is_served() {
            self.touch(&pod.node, |entry| entry.new.push(pod.requests));
        }
    }

    /// Delays the subtraction of a volume from the use that the operator reports.
    pub(super) fn delay_volume(&mut self, volume: &VolumeFacts) {
        if self.is_served() && volume.claim.as_deref().is_some_and(|claim| self.is_own(claim)) {
            self.new_volumes.push((volume.class.clone(), volume.bytes));
        }
    }

    /// Returns true after the first snapshot with capacity from an operator. Earlier pods and volumes are old.
    fn is_served(&self) -> bool {
        self.served.is_some() && self.last.is_some()
    }

    /// Returns true if the namespace belongs to a lease of this provider.
    pub(super) fn is_own(&self, namespace: &str) -> bool {
        self.spaces
            .get(namespace)
            .is_some_and(|space| space.lease.is_some())
    }

    /// Returns the storage that `served` contains, without the volumes of this provider's leases.
    pub(super) fn served_storage(&self, served: &BTreeMap<String, Quantity>) -> BTreeMap<String, Quantity> {
        let mut own: BTreeMap<&str, i128> = BTreeMap::new();
        for volume in self.volumes.values() {
            if volume.claim.as_deref().is_some_and(|claim| self.is_own(claim)) {
                *own.entry(&volume.class).or_default() += i128::from(volume.bytes);
            }
        }
        for (class, bytes) in self.new_volumes.entries() {
            *own.entry(class).or_default() -= i128::from(*bytes);
        }
        let without_own = |(class, all): (&String, &Quantity)| {
            let own = own.get(class.as_str()).copied().unwrap_or(0).max(0);
            let allocatable = self
                .options
                .capacity
                .get(class)
                .copied()
                .unwrap_or(all.allocatable);
            let others = super::sums::clamp(i128::from(all.allocated) - own);
            (class.clone(), Quantity::used(allocatable, others))
        };
        served.iter().map(without_own).collect()
    }

    /// Returns the node as plain data, or `None` if the node is not offered.
    pub(super) fn node_spec(&self, entry: &NodeEntry) -> Option<NodeSpec> {
        let mut node = entry.listed().map(|facts| facts.spec(&entry.used()))?;
        if self.outdated {
            node.closed.get_or_insert_with(|| OUTDATED.to_owned());
        }
        Some(node)
    }
}

#[cfg(test)]
mod tests;
