//! Incremental count: the capacity of every node, the use by pods that belong to no lease of this provider, and the
//! nodes of the pods of its leases.
//!
//! A change costs only the affected node. A snapshot copies the last snapshot and replaces the changed nodes. For
//! every sequence of changes the result equals a count from scratch (`tests::recount`).

use super::addresses::AddressTables;
use super::facts::{FactChange, InventoryKind, NamespacedName, ObjectFacts};
use super::lease::LeaseFacts;
use super::node::{NodeFacts, Used};
use super::pod::PodFacts;
use super::reason::IgnoredClass;
use super::requests::Requests;
use super::storage::{
    CapacityFacts, CephClusterFacts, CephPoolFacts, ClassFacts, StorageOptions, VolumeFacts,
};
use akash_provider_core::inventory::{
    IgnoredResource, NodeInventory, NodeName, Placement, Quantity, ReplicaGroup,
};
use akash_provider_core::types::LeaseId;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

mod reasons;
mod served;
mod settling;
mod snapshot;
mod sums;
#[cfg(test)]
mod tests;

pub use reasons::IgnoredResources;

use settling::Settling;
use sums::Sums;

/// Capacity count of one cluster, updated by the watches.
#[derive(Debug, Default)]
pub struct Tally {
    options: StorageOptions,
    nodes: BTreeMap<NodeName, NodeEntry>,
    /// Pods and lease of each namespace.
    spaces: HashMap<Arc<str>, Space>,
    classes: BTreeMap<Box<str>, ClassFacts>,
    volumes: HashMap<Arc<str>, VolumeFacts>,
    capacities: HashMap<NamespacedName, CapacityFacts>,
    clusters: BTreeMap<NamespacedName, CephClusterFacts>,
    pools: BTreeMap<NamespacedName, CephPoolFacts>,
    pub(super) addresses: AddressTables,
    /// Kinds that cannot be read, each with the reason.
    troubles: BTreeMap<InventoryKind, String>,
    dirty: Dirty,
    /// Result of the last storage count: the capacity of each offered storage class, and the part in use by
    /// others.
    storage: BTreeMap<String, Quantity>,
    storage_notes: Vec<IgnoredClass>,
    ignored: Arc<Vec<IgnoredResource>>,
    placements: BTreeMap<Arc<str>, Placement>,
    last: Option<Arc<NodeInventory>>,
    /// Storage from an inventory operator, including the volumes of this provider's leases; `None` if the provider
    /// watches nodes and storage.
    served: Option<BTreeMap<String, Quantity>>,
    /// Class and bytes of new volumes of this provider's leases.
    new_volumes: Settling<(Box<str>, i64)>,
    /// Whether the capacity is too old for new reservations.
    outdated: bool,
}

#[derive(Debug, Default)]
struct NodeEntry {
    facts: Option<NodeFacts>,
    /// Total requests of the pods that belong to no lease of this provider.
    others: Sums,
    /// Total requests of the pods that belong to leases of this provider.
    ours: Sums,
    /// Bytes of volumes on the disk of the node.
    volumes: i128,
    /// Requests of new pods in `ours`, if an inventory operator reports the use of the node.
    new: Settling<Requests>,
}

/// Lease and pods of one namespace.
#[derive(Debug, Default)]
struct Space {
    lease: Option<LeaseFacts>,
    bad: Option<String>,
    pods: HashMap<Arc<str>, PodFacts>,
}

/// Changed parts of the cluster. The next snapshot computes the capacity of these parts again.
#[derive(Debug, Default)]
struct Dirty {
    any: bool,
    /// True if the set of counted nodes changed. A change of a counted node does not set this flag.
    structure: bool,
    nodes: BTreeSet<NodeName>,
    spaces: HashSet<Arc<str>>,
    storage: bool,
    words: bool,
}

/// Result of a capacity count of the cluster.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CapacityCount {
    /// Capacity of the nodes. The requests of this provider's leases are not subtracted.
    pub inventory: Arc<NodeInventory>,
    /// Nodes of the pods that belong to leases of this provider.
    pub placements: Vec<Placement>,
}

impl NodeEntry {
    /// Returns the fields of the node if the node is offered or runs pods of this provider's leases.
    fn listed(&self) -> Option<&NodeFacts> {
        let facts = self.facts.as_ref()?;
        (facts.offered || self.ours.pods > 0).then_some(facts)
    }

    const fn pods(&self) -> i64 {
        self.others.pods + self.ours.pods
    }

    fn used(&self) -> Used {
        if let Some(all) = self
            .facts
            .as_ref()
            .and_then(|facts| facts.served.as_deref().copied())
        {
            return self.used_of(all);
        }
        Used {
            others: self.others.amounts(),
            volumes: sums::clamp(self.volumes),
            pods: self.pods(),
        }
    }

    fn is_full(&self) -> bool {
        let most = self.facts.as_ref().and_then(|f| f.pods);
        most.is_some_and(|most| self.pods() >= most)
    }
}

impl Space {
    /// Returns the resource unit of a pod, or `None` if the pod belongs to no service of a lease.
    fn unit(&self, pod: &PodFacts) -> Option<u32> {
        let units = &self.lease.as_ref()?.units;
        units.get(pod.service.as_ref()?).copied()
    }

    fn is_empty(&self) -> bool {
        self.lease.is_none() && self.bad.is_none() && self.pods.is_empty()
    }

    /// Returns the nodes that run the pods of the lease. Nodes of pods that are being deleted come last.
    fn placement(&self) -> Option<Placement> {
        let lease = self.lease.as_ref()?.lease.clone();
        let mut replicas: BTreeMap<(bool, u32, &NodeName), u32> = BTreeMap::new();
        for pod in self.pods.values() {
            if let Some(unit) = self.unit(pod) {
                *replicas.entry((pod.going, unit, &pod.node)).or_default() += 1;
            }
        }
        let places: Vec<_> = replicas
            .into_iter()
            .map(|((_, unit, node), replicas)| ReplicaGroup {
                unit,
                node: node.clone(),
                replicas,
            })
            .collect();
        (!places.is_empty()).then_some(Placement { lease, places })
    }
}

impl Tally {
    /// Creates a tally without objects. The first snapshot is computed from scratch.
    #[must_use]
    pub fn new(options: StorageOptions) -> Self {
        Self {
            options,
            dirty: Dirty {
                structure: true,
                storage: true,
                words: true,
                ..Dirty::default()
            },
            ..Self::default()
        }
    }

    /// Applies a change from a watch.
    pub fn apply(&mut self, change: FactChange) {
        match change {
            FactChange::Set(key, fact) => self.set(key, fact),
            FactChange::Gone(kind, key, uid) => self.remove(kind, &key, uid.as_deref()),
            FactChange::Only(kind, keys) => {
                for key in self.keys(kind) {
                    if !keys.contains(&key) {
                        self.remove(kind, &key, None);
                    }
                }
                self.addresses.changed |=
                    matches!(kind, InventoryKind::Balancer | InventoryKind::AddressPool);
            }
        }
    }

    /// Stores the reason why objects of `kind` cannot be read. `None` removes the stored reason.
    pub fn trouble(&mut self, kind: InventoryKind, why: Option<String>) {
        let before = match &why {
            Some(why) => self.troubles.insert(kind, why.clone()),
            None => self.troubles.remove(&kind),
        };
        if before != why {
            self.dirty.any = true;
            self.dirty.words = true;
        }
    }

    /// Returns true if a snapshot would differ from the last snapshot.
    #[must_use]
    pub const fn is_dirty(&self) -> bool {
        self.dirty.any
    }

    /// Marks the changes as published, but computes no snapshot.
    pub(crate) const fn published(&mut self) {
        self.dirty.any = false;
    }

    /// Returns the names of the load balancers that the Manifest of a lease declares; `None` without a Manifest.
    pub(super) fn balancers_of(&self, lease: &LeaseId) -> Option<&BTreeSet<Box<str>>> {
        let space = self.spaces.get(lease.namespace().as_str())?;
        Some(&space.lease.as_ref()?.balancers)
    }

    #[cfg(test)]
    pub(super) const fn is_uncounted(&self) -> bool {
        self.last.is_none()
    }

    fn set(&mut self, key: NamespacedName, fact: ObjectFacts) {
        match fact {
            ObjectFacts::Node(facts) => self.set_node(&key.name, Some(facts)),
            ObjectFacts::Pod(facts) => self.set_pod(&key, Some(facts)),
            ObjectFacts::Lease(facts) => self.set_lease(&key.name, Some(facts), None),
            ObjectFacts::BadLease(why) => self.set_lease(&key.name, None, Some(why)),
            ObjectFacts::Class(facts) => {
                let before = self.classes.insert((*key.name).into(), facts);
                self.dirty_storage(before.as_ref() != self.classes.get(&*key.name));
            }
            ObjectFacts::Volume(facts) => self.set_volume(&key.name, Some(facts)),
            ObjectFacts::Capacity(facts) => {
                let changed = self.capacities.get(&key) != Some(&facts);
                self.capacities.insert(key, facts);
                self.dirty_storage(changed);
            }
            ObjectFacts::CephCluster(facts) => {
                let changed = self.clusters.get(&key) != Some(&facts);
                self.clusters.insert(key, facts);
                self.dirty_storage(changed);
            }
            ObjectFacts::CephPool(facts) => {
                let changed = self.pools.get(&key) != Some(&facts);
                self.pools.insert(key, facts);
                self.dirty_storage(changed);
            }
            ObjectFacts::Balancer(balancer) => self.addresses.set_balancer(&key, Some(balancer)),
            ObjectFacts::AddressPool(pool) => self.addresses.set_pool(&key, Some(pool)),
        }
    }

    fn remove(&mut self, kind: InventoryKind, key: &NamespacedName, uid: Option<&str>) {
        match kind {
            InventoryKind::Node => self.set_node(&key.name, None),
            InventoryKind::Pod => {
                let space = self.spaces.get(&key.namespace);
                let pod = space.and_then(|s| s.pods.get(&key.name));
                if pod.is_some_and(|pod| uid.is_none_or(|uid| *pod.uid == *uid)) {
                    self.set_pod(key, None);
                }
            }
            InventoryKind::Lease => self.set_lease(&key.name, None, None),
            InventoryKind::Class => {
                let removed = self.classes.remove(&*key.name).is_some();
                self.dirty_storage(removed);
            }
            InventoryKind::Volume => self.set_volume(&key.name, None),
            InventoryKind::Capacity => {
                let removed = self.capacities.remove(key).is_some();
                self.dirty_storage(removed);
            }
            InventoryKind::CephCluster => {
                let removed = self.clusters.remove(key).is_some();
                self.dirty_storage(removed);
            }
            InventoryKind::CephPool => {
                let removed = self.pools.remove(key).is_some();
                self.dirty_storage(removed);
            }
            InventoryKind::Balancer => self.addresses.set_balancer(key, None),
            InventoryKind::AddressPool => self.addresses.set_pool(key, None),
        }
    }

    fn keys(&self, kind: InventoryKind) -> Vec<NamespacedName> {
        let bare = |name: &str| NamespacedName::new("", name);
        match kind {
            InventoryKind::Node => {
                let listed = self.nodes.iter().filter(|(_, n)| n.facts.is_some());
                listed.map(|(name, _)| bare(name)).collect()
            }
            InventoryKind::Pod => {
                let spaces = self.spaces.iter();
                let key = |ns: &Arc<str>, name: &Arc<str>| NamespacedName {
                    namespace: Arc::clone(ns),
                    name: Arc::clone(name),
                };
                spaces
                    .flat_map(|(ns, s)| s.pods.keys().map(move |name| key(ns, name)))
                    .collect()
            }
            InventoryKind::Lease => {
                let with = |s: &Space| s.lease.is_some() || s.bad.is_some();
                let spaces = self.spaces.iter().filter(|(_, s)| with(s));
                spaces.map(|(ns, _)| bare(ns)).collect()
            }
            InventoryKind::Class => self.classes.keys().map(|n| bare(n)).collect(),
            InventoryKind::Volume => self.volumes.keys().map(|n| bare(n)).collect(),
            InventoryKind::Capacity => self.capacities.keys().cloned().collect(),
            InventoryKind::CephCluster => self.clusters.keys().cloned().collect(),
            InventoryKind::CephPool => self.pools.keys().cloned().collect(),
            InventoryKind::Balancer => self.addresses.balancers().cloned().collect(),
            InventoryKind::AddressPool => self.addresses.pools().cloned().collect(),
        }
    }

    fn set_node(&mut self, name: &str, facts: Option<NodeFacts>) {
        let current = self.nodes.get(name).and_then(|n| n.facts.as_ref());
        if current != facts.as_ref() {
            self.touch(&name.into(), |entry| entry.facts = facts);
            self.dirty.words = true;
        }
    }

    fn set_pod(&mut self, key: &NamespacedName, mut facts: Option<PodFacts>) {
        // The pods of a node share one string for its name.
        if let Some(pod) = &mut facts
            && let Some((name, _)) = self.nodes.get_key_value(&pod.node)
        {
            pod.node = Arc::clone(name);
        }
        // Removed from the map, because counting borrows `self`.
        let mut space = self.spaces.remove(&key.namespace).unwrap_or_default();
        let before = space.pods.get(&key.name);
        if before != facts.as_ref() {
            if let Some(pod) = before {
                self.count(&key.namespace, pod, space.unit(pod).is_some(), -1);
            }
            if let Some(pod) = &facts {
                let ours = space.unit(pod).is_some();
                if ours && before.is_none_or(|b| (&b.node, b.requests) != (&pod.node, pod.requests)) {
                    self.delay_pod(pod);
                }
                self.count(&key.namespace, pod, ours, 1);
            }
            match facts {
                Some(pod) => space.pods.insert(Arc::clone(&key.name), pod),
                None => space.pods.remove(&key.name),
            };
        }
        self.put_back(&key.namespace, space);
    }

    fn set_lease(&mut self, namespace: &Arc<str>, lease: Option<LeaseFacts>, bad: Option<String>) {
        let mut space = self.spaces.remove(namespace).unwrap_or_default();
        if space.bad != bad {
            space.bad = bad;
            self.dirty.any = true;
            self.dirty.words = true;
        }
        if space.lease != lease {
            // The lease decides which pods are own, so all pods are counted again.
            for pod in space.pods.values() {
                self.count(namespace, pod, space.unit(pod).is_some(), -1);
            }
            space.lease = lease;
            for pod in space.pods.values() {
                self.count(namespace, pod, space.unit(pod).is_some(), 1);
            }
            self.dirty.spaces.insert(Arc::clone(namespace));
            self.dirty_storage(true);
        }
        self.put_back(namespace, space);
    }

    fn put_back(&mut self, namespace: &Arc<str>, space: Space) {
        if !space.is_empty() {
            self.spaces.insert(Arc::clone(namespace), space);
        }
    }

    fn set_volume(&mut self, name: &Arc<str>, facts: Option<VolumeFacts>) {
        let before = self.volumes.remove(name);
        if before != facts {
            for (volume, sign) in before.iter().map(|v| (v, -1)).chain(facts.iter().map(|v| (v, 1))) {
                if let Some(node) = &volume.node {
                    let bytes = i128::from(volume.bytes) * sign;
                    self.touch(node, |entry| entry.volumes += bytes);
                }
            }
            if let (None, Some(volume)) = (&before, &facts) {
                self.delay_volume(volume);
            }
            self.dirty_storage(true);
        }
        if let Some(facts) = facts {
            self.volumes.insert(Arc::clone(name), facts);
        }
    }

    /// Adds a pod to the sums of its node. A negative `sign` subtracts the pod.
    fn count(&mut self, namespace: &Arc<str>, pod: &PodFacts, ours: bool, sign: i64) {
        if ours {
            self.dirty.spaces.insert(Arc::clone(namespace));
        }
        self.touch(&pod.node, |entry| {
            let sums = if ours { &mut entry.ours } else { &mut entry.others };
            sums.add(&pod.requests, sign);
        });
    }

    /// Changes a node, and marks the parts of the inventory that must be counted again.
    fn touch(&mut self, name: &NodeName, change: impl FnOnce(&mut NodeEntry)) {
        let entry = self.nodes.entry(name.clone()).or_default();
        let (listed, full) = (entry.listed().is_some(), entry.is_full());
        change(entry);
        let listed_now = entry.listed().is_some();
        self.dirty.any = true;
        self.dirty.words |= listed != listed_now || full != entry.is_full();
        self.dirty.structure |= listed != listed_now;
        if entry.facts.is_none() && entry.pods() == 0 && entry.volumes == 0 {
            self.nodes.remove(name);
        }
        if listed_now {
            self.dirty.nodes.insert(name.clone());
        }
        // local-path volumes share a disk with pods.
        self.dirty.storage |= self.classes.values().any(ClassFacts::is_local);
    }

    fn dirty_storage(&mut self, changed: bool) {
        if changed {
            self.dirty.any = true;
            self.dirty.storage = true;
            self.dirty.words = true;
        }
    }
}
