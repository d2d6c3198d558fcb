//! Index of the caches by lease: a change costs only the objects of its lease.

use super::health::{WorkloadWrite, health};
use super::kind::home_of;
use super::nodes::Nodes;
use super::outage::failing_nodes;
use super::{CachedKind, LeaseView, WatchedKind};
use crate::labels;
use akash_provider_core::cluster::Health;
use akash_provider_core::types::{Address, LeaseId};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Filter for the leases of this provider on this chain.
#[derive(Debug, Clone)]
pub(super) struct LeaseFilter {
    pub(super) provider: Address,
    /// ID of the chain; empty for any chain.
    pub(super) chain_id: String,
}

impl LeaseFilter {
    /// Returns the lease in the metadata, if this lease belongs to this provider on this chain.
    fn lease(&self, home: &str, meta: &ObjectMeta) -> Option<LeaseId> {
        let lease = labels::lease_of(meta.labels.as_ref()?)?;
        let ours = lease.provider == self.provider && self.has_chain(meta);
        (ours && lease.namespace() == home).then_some(lease)
    }

    /// Returns false for an object of another chain.
    fn has_chain(&self, meta: &ObjectMeta) -> bool {
        let chain = meta.annotations.as_ref().and_then(|a| a.get(labels::CHAIN_ID));
        self.chain_id.is_empty() || chain.is_none_or(|chain| *chain == self.chain_id)
    }
}

/// Signal that listeners must check one lease or all leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Signal {
    /// Check all leases again.
    All,
    /// Check the lease of this namespace again.
    Lease(Arc<str>),
}

/// Objects of one lease, with its identity and health.
#[derive(Debug, Default)]
pub(super) struct IndexedLease {
    pub(super) view: LeaseView,
    /// `None` for a lease of another provider or another chain.
    pub(super) lease: Option<LeaseId>,
    /// Health; `None` while the lease does not run.
    pub(super) health: Option<Health>,
    writes: Vec<(WorkloadWrite, Instant)>,
    holds: usize,
    /// Number of records before the current list of objects. If the list contains fewer records, records were
    /// deleted.
    records_before: usize,
}

impl IndexedLease {
    fn identify(&mut self, home: &str, ours: &LeaseFilter) {
        let namespace = self.view.namespace.as_ref().map(|o| &o.metadata);
        let manifest = self.view.manifest.as_ref().map(|o| &o.metadata);
        // The name of a namespace is a hash of its lease, which names the provider. So a record in it that names another
        // provider was edited.
        self.lease = match (namespace, manifest) {
            (Some(namespace), record) if record.is_none_or(|record| ours.has_chain(record)) => {
                ours.lease(home, namespace)
            }
            (Some(_), _) => None,
            (None, record) => record.and_then(|record| ours.lease(home, record)),
        };
    }

    fn judge(&self, nodes: &Nodes) -> Option<Health> {
        if !self.view.runs() {
            return None;
        }
        if self.holds > 0 || !self.writes.is_empty() {
            return Some(Health::Unknown);
        }
        Some(health(&self.view, nodes))
    }

    /// Computes the health again. Returns a signal if the health changed.
    fn reconsider(&mut self, home: &str, nodes: &Nodes) -> Option<Signal> {
        self.writes.retain(|(write, _)| !write.is_seen(&self.view));
        let (before, now) = (self.health, self.judge(nodes));
        self.health = now;
        match (before, now) {
            _ if self.lease.is_none() => None,
            // A removed lease has no health, so listeners need a snapshot.
            (Some(_), None) => Some(Signal::All),
            (before, now) if before != now => Some(Signal::Lease(home.into())),
            _ => None,
        }
    }

    /// Returns true if the health depends on a node that has not been read.
    fn awaits_node(&self, nodes: &Nodes) -> bool {
        self.health == Some(Health::Unknown)
            && failing_nodes(&self.view).any(|node| !nodes.contains_key(node))
    }

    fn is_empty(&self) -> bool {
        self.view.is_empty() && self.holds == 0 && self.writes.is_empty()
    }

    /// Returns the number of Manifest, ProviderHost and ProviderLeasedIP records of a running lease, or 0
    /// during its deployment or deletion.
    fn records(&self) -> usize {
        let view = &self.view;
        let is_live = |namespace: &Arc<Namespace>| namespace.metadata.deletion_timestamp.is_none();
        if self.holds > 0 || self.lease.is_none() || !view.namespace.as_ref().is_some_and(is_live) {
            return 0;
        }
        usize::from(view.manifest.is_some()) + view.hosts.len() + view.ips.len()
    }

    /// Returns true if the watches have observed all writes of this process.
    pub(super) fn is_settled(&self) -> bool {
        self.writes.is_empty() && self.holds == 0
    }
}

/// Key of an object across all kinds.
pub(super) type CachedObjectKey = (CachedKind, Option<String>, String);

/// All leases, by namespace.
#[derive(Debug)]
pub(super) struct LeaseIndex {
    ours: LeaseFilter,
    pub(super) leases: HashMap<String, IndexedLease>,
    /// Lease namespace of each object in the manifest namespace.
    homes: HashMap<CachedObjectKey, String>,
    nodes: Nodes,
    /// Notification about an unread node. The health of a lease depends on this node.
    pub(super) unread_nodes: Arc<Notify>,
    /// Objects that have the label `akash.network=true` but belong to no lease. The value states why an object
    /// belongs to no lease.
    pub(super) strays: BTreeMap<CachedObjectKey, String>,
    /// Number of observed cases in which another client deleted a record.
    pub(super) losses: u64,
}

fn key_of(kind: CachedKind, meta: &ObjectMeta) -> CachedObjectKey {
    (
        kind,
        meta.namespace.clone(),
        meta.name.clone().unwrap_or_default(),
    )
}

const NAMES_NO_LEASE: &str = "the labels name no lease";

impl LeaseIndex {
    pub(super) fn new(ours: LeaseFilter) -> Self {
        Self {
            ours,
            leases: HashMap::new(),
            homes: HashMap::new(),
            nodes: Nodes::new(),
            unread_nodes: Arc::default(),
            strays: BTreeMap::new(),
            losses: 0,
        }
    }

    pub(super) fn applied<K: WatchedKind>(&mut self, object: &Arc<K>) -> Vec<Signal> {
        let key = key_of(K::KIND, object.meta());
        let home = object.home();
        let mut signals = self.moved(&key, home.as_deref(), K::put);
        let Some(home) = home else {
            self.strays.insert(key, NAMES_NO_LEASE.to_owned());
            return signals;
        };
        let (_, _, name) = key;
        signals.extend(self.change(&home, K::KIND, |entry| {
            entry.view.unreadable.remove(&(K::KIND, name.clone()));
            K::put(&mut entry.view, &name, Some(Arc::clone(object)));
        }));
        signals
    }

    pub(super) fn deleted<K: WatchedKind>(&mut self, meta: &ObjectMeta) -> Vec<Signal> {
        let key = key_of(K::KIND, meta);
        // From the last known state, because the labels may have changed.
        let home = self.homes.get(&key).cloned().or_else(|| home_of(K::KIND, meta));
        self.homes.remove(&key);
        self.strays.remove(&key);
        let (kind, _, name) = key;
        let Some(home) = home else {
            return Vec::new();
        };
        let gone = meta.uid.clone().unwrap_or_default();
        let signal = self.change(&home, kind, |entry| {
            entry.view.unreadable.remove(&(kind, name.clone()));
            K::put(&mut entry.view, &name, None);
            // Writes to a deleted object will never be observed.
            entry
                .writes
                .retain(|(write, _)| write.kind != kind || write.uid != gone);
        });
        signal.into_iter().collect()
    }

    /// Stores why an object is invalid, and removes its previous version from the lease.
    pub(super) fn unreadable<K: WatchedKind>(&mut self, meta: &ObjectMeta, why: &str) -> Vec<Signal> {
        let key = key_of(K::KIND, meta);
        let home = home_of(K::KIND, meta);
        let mut signals = self.moved(&key, home.as_deref(), K::put);
        let Some(home) = home else {
            self.strays.insert(key, why.to_owned());
            return signals;
        };
        let (kind, _, name) = key;
        signals.extend(self.change(&home, kind, |entry| {
            K::put(&mut entry.view, &name, None);
            entry.view.unreadable.insert((kind, name.clone()), why.to_owned());
        }));
        signals
    }

    /// Replaces all objects of a kind by a complete list, requested at `asked`.
    pub(super) fn replaced<K: WatchedKind>(
        &mut self,
        objects: &[Arc<K>],
        unreadable: &[(ObjectMeta, String)],
        asked: Instant,
    ) {
        let kind = K::KIND;
        self.homes.retain(|(k, ..), _| *k != kind);
        self.strays.retain(|(k, ..), _| *k != kind);
        for entry in self.leases.values_mut() {
            entry.records_before = entry.records();
            K::clear(&mut entry.view);
            entry.view.unreadable.retain(|(k, _), _| *k != kind);
            // The list is newer than these writes and contains them or later ones.
            entry
                .writes
                .retain(|(write, at)| write.kind != kind || *at >= asked);
        }
        for object in objects {
            let key = key_of(kind, object.meta());
            let Some(home) = object.home() else {
                self.strays.insert(key, NAMES_NO_LEASE.to_owned());
                continue;
            };
            self.remember(&key, &home);
            let (_, _, name) = key;
            let entry = self.leases.entry(home).or_default();
            K::put(&mut entry.view, &name, Some(Arc::clone(object)));
        }
        for (meta, why) in unreadable {
            let key = key_of(kind, meta);
            match home_of(kind, meta) {
                None => drop(self.strays.insert(key, why.clone())),
                Some(home) => {
                    self.remember(&key, &home);
                    let (_, _, name) = key;
                    let entry = self.leases.entry(home).or_default();
                    entry.view.unreadable.insert((kind, name), why.clone());
                }
            }
        }
        for (home, entry) in &mut self.leases {
            if matches!(kind, CachedKind::Namespaces | CachedKind::Manifests) {
                entry.identify(home, &self.ours);
            }
            self.losses += u64::from(kind.is_record() && entry.records() < entry.records_before);
            entry.reconsider(home, &self.nodes);
            if entry.awaits_node(&self.nodes) {
                self.unread_nodes.notify_one();
            }
        }
        self.leases.retain(|_, entry| !entry.is_empty());
    }

    /// Records an accepted write. Lease health is unknown until a watch reports this write.
    pub(super) fn wrote(&mut self, home: &str, write: WorkloadWrite) -> Option<Signal> {
        self.change(home, write.kind, |entry| {
            // A later write of an object includes the earlier one.
            entry
                .writes
                .retain(|(w, _)| w.kind != write.kind || w.name != write.name);
            entry.writes.push((write, Instant::now()));
        })
    }

    /// Adds `by` to the number of running operations on a lease. The health is unknown during an operation.
    pub(super) fn hold(&mut self, home: &str, by: isize) -> Option<Signal> {
        // Pods do not identify a lease, so only the counter changes.
        self.change(home, CachedKind::Pods, |entry| {
            entry.holds = entry.holds.saturating_add_signed(by);
        })
    }

    /// Returns the nodes on which lease containers fail. Removes the state of all other nodes.
    pub(super) fn failing_nodes(&mut self) -> BTreeSet<String> {
        let ours = self.leases.values().filter(|entry| entry.lease.is_some());
        let failing: BTreeSet<String> = ours
            .flat_map(|entry| failing_nodes(&entry.view))
            .map(str::to_owned)
            .collect();
        self.nodes.retain(|name, _| failing.contains(name));
        failing
    }

    /// Stores `reports`: true if the node is ready and sends heartbeats, `None` if the node cannot be read.
    pub(super) fn node(&mut self, name: &str, reports: Option<bool>) -> Vec<Signal> {
        let before = match reports {
            Some(reports) => self.nodes.insert(name.to_owned(), reports),
            None => self.nodes.remove(name),
        };
        if before == reports {
            return Vec::new();
        }
        let on_node = self.leases.iter_mut();
        let on_node = on_node.filter(|(_, entry)| failing_nodes(&entry.view).any(|node| node == name));
        on_node
            .filter_map(|(home, entry)| entry.reconsider(home, &self.nodes))
            .collect()
    }

    fn remember(&mut self, key: &CachedObjectKey, home: &str) {
        if matches!(key.0, CachedKind::Hosts | CachedKind::Ips) {
            self.homes.insert(key.clone(), home.to_owned());
        }
    }

    /// Removes an object from its previous lease if the object now belongs to another lease or to none.
    fn moved<K: WatchedKind>(
        &mut self,
        key: &CachedObjectKey,
        home: Option<&str>,
        put: fn(&mut LeaseView, &str, Option<Arc<K>>),
    ) -> Vec<Signal> {
        self.strays.remove(key);
        let before = self.homes.get(key).filter(|before| Some(before.as_str()) != home);
        let mut signals = Vec::new();
        if let Some(before) = before.cloned() {
            signals.extend(self.change(&before, key.0, |entry| put(&mut entry.view, &key.2, None)));
        }
        match home {
            Some(home) => self.remember(key, home),
            None => drop(self.homes.remove(key)),
        }
        signals
    }

    fn change(&mut self, home: &str, kind: CachedKind, f: impl FnOnce(&mut IndexedLease)) -> Option<Signal> {
        let entry = self.leases.entry(home.to_owned()).or_default();
        let (ran, was) = (entry.health.is_some(), entry.lease.is_some());
        let records = entry.records();
        f(entry);
        if matches!(kind, CachedKind::Namespaces | CachedKind::Manifests) && !entry.view.is_empty() {
            entry.identify(home, &self.ours);
        }
        let mut signal = entry.reconsider(home, &self.nodes);
        if kind.is_record() && entry.records() < records {
            self.losses += 1;
            // Wakes the listeners, which read the counter.
            signal.get_or_insert_with(|| Signal::Lease(home.into()));
        }
        if entry.awaits_node(&self.nodes) {
            self.unread_nodes.notify_one();
        }
        // The lease became foreign, so listeners have to remove it.
        if ran && was && entry.lease.is_none() {
            signal = Some(Signal::All);
        }
        if entry.is_empty() {
            self.leases.remove(home);
        }
        signal
    }
}

#[cfg(test)]
mod tests;
