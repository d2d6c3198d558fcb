//! Queue of leases that wait for a hostname of another lease of the same tenant. The queue is indexed by
//! hostname and by lease, so that lookups in both directions are fast.

use crate::manifest::covering;
use crate::types::LeaseId;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Leases that wait for a hostname, in order of arrival.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::engine) struct HostnameQueue {
    by_name: BTreeMap<String, Vec<LeaseId>>,
    by_lease: FxHashMap<LeaseId, BTreeSet<String>>,
}

impl HostnameQueue {
    /// Adds a lease to the queue of a hostname, at most once.
    pub(in crate::engine) fn add(&mut self, name: String, lease: &LeaseId) {
        let names = self.by_lease.entry(lease.clone()).or_default();
        if names.insert(name.clone()) {
            self.by_name.entry(name).or_default().push(lease.clone());
        }
    }

    pub(in crate::engine) fn remove(&mut self, name: &str, lease: &LeaseId) {
        let Some(names) = self.by_lease.get_mut(lease) else {
            return;
        };
        if !names.remove(name) {
            return;
        }
        if names.is_empty() {
            self.by_lease.remove(lease);
        }
        self.remove_from_name(name, lease);
    }

    /// Removes a lease from the queues of all hostnames except those in `wanted`.
    pub(in crate::engine) fn retain(&mut self, lease: &LeaseId, wanted: &BTreeSet<String>) {
        let Some(names) = self.by_lease.get(lease) else {
            return;
        };
        let removed: Vec<String> = names.difference(wanted).cloned().collect();
        for name in removed {
            self.remove(&name, lease);
        }
    }

    pub(in crate::engine) fn remove_lease(&mut self, lease: &LeaseId) {
        for name in self.by_lease.remove(lease).unwrap_or_default() {
            self.remove_from_name(&name, lease);
        }
    }

    pub(in crate::engine) fn clear(&mut self) {
        self.by_name.clear();
        self.by_lease.clear();
    }

    pub(in crate::engine) fn waiting_for(&self, name: &str) -> &[LeaseId] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the queued hostnames that overlap with `names`, without duplicates. Equal hostnames come
    /// first, then wildcards that cover a name, then hostnames under a wildcard in `names`.
    pub(in crate::engine) fn overlapping(&self, names: &[String]) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let covers = names.iter().filter_map(|name| covering(name));
        let exact = names.iter().cloned().chain(covers);
        let exact = exact.filter(|name| self.by_name.contains_key(name));
        let mut found: Vec<String> = exact.filter(|name| seen.insert(name.clone())).collect();
        // One pass over all queues handles any number of wildcards.
        let stars: BTreeSet<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|n| n.starts_with('*'))
            .collect();
        if !stars.is_empty() {
            let covered = |name: &&String| covering(name).is_some_and(|cover| stars.contains(cover.as_str()));
            let rest = self
                .by_name
                .keys()
                .filter(covered)
                .filter(|name| !seen.contains(*name));
            found.extend(rest.cloned());
        }
        found
    }

    /// Returns the hostnames for which leases wait, sorted.
    pub(in crate::engine) fn names(&self) -> impl Iterator<Item = &String> {
        self.by_name.keys()
    }

    fn remove_from_name(&mut self, name: &str, lease: &LeaseId) {
        if let Some(waiting) = self.by_name.get_mut(name) {
            waiting.retain(|l| l != lease);
            if waiting.is_empty() {
                self.by_name.remove(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Address, DeploymentId};

    fn lease(dseq: u64) -> LeaseId {
        let owner = Address::from_bytes(&[1; 20]).unwrap();
        let group = DeploymentId::new(owner, dseq).group(1);
        group.order(1).bid(Address::from_bytes(&[2; 20]).unwrap())
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn preserves_arrival_order_of_waiting_leases() {
        let mut queue = HostnameQueue::default();
        for dseq in [2, 1, 2] {
            queue.add("a.com".to_owned(), &lease(dseq));
        }
        assert_eq!(queue.waiting_for("a.com"), [lease(2), lease(1)]);
        queue.remove("a.com", &lease(2));
        queue.remove("a.com", &lease(9));
        assert_eq!(queue.waiting_for("a.com"), [lease(1)]);
    }

    #[test]
    fn removes_empty_entries() {
        let mut queue = HostnameQueue::default();
        for name in ["a.com", "b.com"] {
            queue.add(name.to_owned(), &lease(1));
            queue.add(name.to_owned(), &lease(2));
        }
        queue.retain(&lease(1), &set(&["b.com", "c.com"]));
        assert_eq!(queue.waiting_for("a.com"), [lease(2)]);
        assert_eq!(queue.waiting_for("b.com"), [lease(1), lease(2)]);
        queue.remove_lease(&lease(2));
        assert_eq!(queue.names().collect::<Vec<_>>(), ["b.com"]);
        for name in ["*.c.com", "x.c.com", "x.d.com"] {
            queue.add(name.to_owned(), &lease(1));
        }
        let freed = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            queue.overlapping(&names)
        };
        assert_eq!(freed(&["y.c.com", "b.com"]), ["b.com", "*.c.com"]);
        assert_eq!(freed(&["*.c.com"]), ["*.c.com", "x.c.com"]);
        assert_eq!(freed(&["*.d.com", "x.d.com"]), ["x.d.com"]);
        queue.remove_lease(&lease(1));
        assert!(queue.by_name.is_empty() && queue.by_lease.is_empty());
    }
}
