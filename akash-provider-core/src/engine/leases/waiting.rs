//! Hostnames that leases wait for because another lease of the same tenant holds them, indexed both ways: what a
//! lease waits for is found without a look at what all others wait for.

use crate::manifest::covering;
use crate::types::LeaseId;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The names, each with those that wait for it, the longest waiting first.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::engine) struct Waiting {
    by_name: BTreeMap<String, Vec<LeaseId>>,
    by_lease: FxHashMap<LeaseId, BTreeSet<String>>,
}

impl Waiting {
    /// A lease waits for one more name; it keeps its place where it waits for it already.
    pub(in crate::engine) fn add(&mut self, name: String, lease: &LeaseId) {
        let names = self.by_lease.entry(lease.clone()).or_default();
        if names.insert(name.clone()) {
            self.by_name.entry(name).or_default().push(lease.clone());
        }
    }

    /// A lease waits for this name no longer.
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
        self.leave(name, lease);
    }

    /// Of what a lease waits for only these names stay.
    pub(in crate::engine) fn keep(&mut self, lease: &LeaseId, wanted: &BTreeSet<String>) {
        let Some(names) = self.by_lease.get(lease) else {
            return;
        };
        let gone: Vec<String> = names.difference(wanted).cloned().collect();
        for name in gone {
            self.remove(&name, lease);
        }
    }

    /// A lease waits for nothing any more.
    pub(in crate::engine) fn forget(&mut self, lease: &LeaseId) {
        for name in self.by_lease.remove(lease).unwrap_or_default() {
            self.leave(&name, lease);
        }
    }

    /// Nobody waits for anything any more.
    pub(in crate::engine) fn clear(&mut self) {
        self.by_name.clear();
        self.by_lease.clear();
    }

    /// Those that wait for a name, the longest waiting first.
    pub(in crate::engine) fn of(&self, name: &str) -> &[LeaseId] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// Of these names, of the wildcards that cover them and of what they cover themselves, those that somebody waits for;
    /// the names first, each once.
    pub(in crate::engine) fn overlapping(&self, names: &[String]) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let covers = names.iter().filter_map(|name| covering(name));
        let exact = names.iter().cloned().chain(covers);
        let exact = exact.filter(|name| self.by_name.contains_key(name));
        let mut found: Vec<String> = exact.filter(|name| seen.insert(name.clone())).collect();
        // One look at all that is waited for, however many wildcards there are.
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

    /// Every name that somebody waits for, sorted.
    pub(in crate::engine) fn names(&self) -> impl Iterator<Item = &String> {
        self.by_name.keys()
    }

    fn leave(&mut self, name: &str, lease: &LeaseId) {
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
    use crate::types::{Address, BidId, DeploymentId, GroupId, OrderId};

    fn lease(dseq: u64) -> LeaseId {
        let owner = Address::from_bytes(&[1; 20]).unwrap();
        let deployment = DeploymentId { owner, dseq };
        let group = GroupId { deployment, gseq: 1 };
        BidId {
            order: OrderId { group, oseq: 1 },
            provider: Address::from_bytes(&[2; 20]).unwrap(),
        }
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn the_longest_waiting_comes_first_and_asking_again_changes_nothing() {
        let mut waiting = Waiting::default();
        for dseq in [2, 1, 2] {
            waiting.add("a.com".to_owned(), &lease(dseq));
        }
        assert_eq!(waiting.of("a.com"), [lease(2), lease(1)]);
        waiting.remove("a.com", &lease(2));
        waiting.remove("a.com", &lease(9));
        assert_eq!(waiting.of("a.com"), [lease(1)]);
    }

    #[test]
    fn what_is_kept_and_forgotten_leaves_no_empty_entries() {
        let mut waiting = Waiting::default();
        for name in ["a.com", "b.com"] {
            waiting.add(name.to_owned(), &lease(1));
            waiting.add(name.to_owned(), &lease(2));
        }
        waiting.keep(&lease(1), &set(&["b.com", "c.com"]));
        assert_eq!(waiting.of("a.com"), [lease(2)]);
        assert_eq!(waiting.of("b.com"), [lease(1), lease(2)]);
        waiting.forget(&lease(2));
        assert_eq!(waiting.names().collect::<Vec<_>>(), ["b.com"]);
        for name in ["*.c.com", "x.c.com", "x.d.com"] {
            waiting.add(name.to_owned(), &lease(1));
        }
        let freed = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            waiting.overlapping(&names)
        };
        assert_eq!(freed(&["y.c.com", "b.com"]), ["b.com", "*.c.com"]);
        assert_eq!(freed(&["*.c.com"]), ["*.c.com", "x.c.com"]);
        assert_eq!(freed(&["*.d.com", "x.d.com"]), ["x.d.com"]);
        waiting.forget(&lease(1));
        assert!(waiting.by_name.is_empty() && waiting.by_lease.is_empty());
    }
}
