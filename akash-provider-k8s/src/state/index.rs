//! The caches by lease: what one object changes costs as much as its lease is large.

use super::health::{Write, health};
use super::kind::home_of;
use super::nodes::Nodes;
use super::outage::failing_nodes;
use super::{Kind, LeaseView, Watched};
use crate::labels;
use akash_provider_core::cluster::Health;
use akash_provider_core::types::{Address, LeaseId};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Whose leases count: those of one provider on one chain.
#[derive(Debug, Clone)]
pub(super) struct Ours {
    pub(super) provider: Address,
    /// Id of the chain; empty for any.
    pub(super) chain_id: String,
}

impl Ours {
    /// The lease that metadata name, if it is ours.
    fn lease(&self, home: &str, meta: &ObjectMeta) -> Option<LeaseId> {
        let lease = labels::lease_of(meta.labels.as_ref()?)?;
        let chain = meta.annotations.as_ref().and_then(|a| a.get(labels::CHAIN_ID));
        let ours = lease.provider == self.provider
            && (self.chain_id.is_empty() || chain.is_none_or(|chain| *chain == self.chain_id));
        (ours && lease.namespace() == home).then_some(lease)
    }
}

/// What listeners are told; they look up the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Signal {
    /// Look at everything again.
    All,
    /// Look at the lease of this namespace again.
    Lease(Arc<str>),
}

/// One lease: its objects, and what follows from them.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) view: LeaseView,
    /// The lease, where it is ours.
    pub(super) lease: Option<LeaseId>,
    /// Its health; `None` while it does not run.
    pub(super) health: Option<Health>,
    writes: Vec<(Write, Instant)>,
    held: usize,
    /// Number of records before the list that replaces them.
    records_before: usize,
}

impl Entry {
    fn identify(&mut self, home: &str, ours: &Ours) {
        let namespace = self.view.namespace.as_ref().map(|o| &o.metadata);
        let manifest = self.view.manifest.as_ref().map(|o| &o.metadata);
        let metas: Vec<_> = namespace.into_iter().chain(manifest).collect();
        let named: Vec<_> = metas.iter().map(|meta| ours.lease(home, meta)).collect();
        // Where one of the two is of another provider or chain, nothing here is ours.
        self.lease = if named.iter().all(Option::is_some) {
            named.into_iter().flatten().next()
        } else {
            None
        };
    }

    fn judge(&self, nodes: &Nodes) -> Option<Health> {
        if !self.view.runs() {
            return None;
        }
        if self.held > 0 || !self.writes.is_empty() {
            return Some(Health::Unknown);
        }
        Some(health(&self.view, nodes))
    }

    /// Health once more; what listeners have to be told.
    fn reconsider(&mut self, home: &str, nodes: &Nodes) -> Option<Signal> {
        self.writes.retain(|(write, _)| !write.is_seen(&self.view));
        let (before, now) = (self.health, self.judge(nodes));
        self.health = now;
        match (before, now) {
            _ if self.lease.is_none() => None,
            // A lease that is gone has no health to tell: listeners need the whole.
            (Some(_), None) => Some(Signal::All),
            (before, now) if before != now => Some(Signal::Lease(home.into())),
            _ => None,
        }
    }

    /// True while the health depends on a node that has not been read.
    fn awaits_node(&self, nodes: &Nodes) -> bool {
        self.health == Some(Health::Unknown)
            && failing_nodes(&self.view).any(|node| !nodes.contains_key(node))
    }

    fn is_empty(&self) -> bool {
        self.view.is_empty() && self.held == 0 && self.writes.is_empty()
    }

    /// Number of records of a lease that runs; zero while this process deploys it or while its namespace ends.
    fn records(&self) -> usize {
        let view = &self.view;
        let is_live = |namespace: &Arc<Namespace>| namespace.metadata.deletion_timestamp.is_none();
        if self.held > 0 || self.lease.is_none() || !view.namespace.as_ref().is_some_and(is_live) {
            return 0;
        }
        usize::from(view.manifest.is_some()) + view.hosts.len() + view.ips.len()
    }

    /// No write of ours is unseen.
    pub(super) fn is_settled(&self) -> bool {
        self.writes.is_empty() && self.held == 0
    }
}

/// Name of an object within all of its kind.
pub(super) type Key = (Kind, Option<String>, String);

/// All leases by namespace.
#[derive(Debug)]
pub(super) struct Index {
    ours: Ours,
    pub(super) leases: HashMap<String, Entry>,
    /// Where each object of the manifest namespace belongs; its name does not say it.
    homes: HashMap<Key, String>,
    nodes: Nodes,
    /// Notified when the health of a lease depends on a node that has not been read.
    pub(super) unread_nodes: Arc<Notify>,
    /// Objects with our label that name no lease, and why.
    pub(super) strays: BTreeMap<Key, String>,
    /// How often records of leases were deleted and not by this process.
    pub(super) losses: u64,
}

fn key_of(kind: Kind, meta: &ObjectMeta) -> Key {
    (
        kind,
        meta.namespace.clone(),
        meta.name.clone().unwrap_or_default(),
    )
}

const NAMES_NO_LEASE: &str = "its labels name no lease";

impl Index {
    pub(super) fn new(ours: Ours) -> Self {
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

    pub(super) fn applied<K: Watched>(&mut self, object: &Arc<K>) -> Vec<Signal> {
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

    pub(super) fn deleted<K: Watched>(&mut self, meta: &ObjectMeta) -> Vec<Signal> {
        let key = key_of(K::KIND, meta);
        // As it was known last: its labels may be others by now.
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
            // What we wrote to an object that is gone will never be seen.
            entry
                .writes
                .retain(|(write, _)| write.kind != kind || write.uid != gone);
        });
        signal.into_iter().collect()
    }

    /// An object that makes no sense: what it was before does not count any more.
    pub(super) fn unreadable<K: Watched>(&mut self, meta: &ObjectMeta, why: &str) -> Vec<Signal> {
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

    /// Everything of a kind, as it was at some time after `asked`.
    pub(super) fn replaced<K: Watched>(
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
            // The list is later than these: it shows them, or what came after.
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
            if matches!(kind, Kind::Namespaces | Kind::Manifests) {
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

    /// A write of ours was accepted; health waits until the watches saw it.
    pub(super) fn wrote(&mut self, home: &str, write: Write) -> Option<Signal> {
        self.change(home, write.kind, |entry| {
            // A later write of one object includes the earlier one.
            entry
                .writes
                .retain(|(w, _)| w.kind != write.kind || w.name != write.name);
            entry.writes.push((write, Instant::now()));
        })
    }

    /// We begin (1) or end (-1) to change a lease.
    pub(super) fn hold(&mut self, home: &str, by: isize) -> Option<Signal> {
        // No kind by which a lease is identified: only the count changes.
        self.change(home, Kind::Pods, |entry| {
            entry.held = entry.held.saturating_add_signed(by);
        })
    }

    /// Returns the nodes on which containers of leases of ours fail, and drops what is known of all others.
    pub(super) fn failing_nodes(&mut self) -> BTreeSet<String> {
        let ours = self.leases.values().filter(|entry| entry.lease.is_some());
        let failing: BTreeSet<String> = ours
            .flat_map(|entry| failing_nodes(&entry.view))
            .map(str::to_owned)
            .collect();
        self.nodes.retain(|name, _| failing.contains(name));
        failing
    }

    /// Takes whether the kubelet of a node reports; `None` for a node that cannot be read.
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

    fn remember(&mut self, key: &Key, home: &str) {
        if matches!(key.0, Kind::Hosts | Kind::Ips) {
            self.homes.insert(key.clone(), home.to_owned());
        }
    }

    /// Takes an object out of the lease it was of, where that is another one now.
    fn moved<K: Watched>(
        &mut self,
        key: &Key,
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

    fn change(&mut self, home: &str, kind: Kind, f: impl FnOnce(&mut Entry)) -> Option<Signal> {
        let entry = self.leases.entry(home.to_owned()).or_default();
        let (ran, was) = (entry.health.is_some(), entry.lease.is_some());
        let records = entry.records();
        f(entry);
        if matches!(kind, Kind::Namespaces | Kind::Manifests) && !entry.view.is_empty() {
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
        // It is not ours any more: its health must go from every listener.
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
