//! State of the repairs between two comparisons of a lease.

use crate::apply::item::ObjectId;
use crate::drift::RepairBackoff;
use crate::statistics::{ClusterCounters, DriftOutcome};
use akash_provider_core::types::LeaseId;
use akash_provider_kube_model::crd::Manifest;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct RepairState {
    pub(super) backoff: RepairBackoff<(String, ObjectId)>,
    /// Back-off for the labels of namespaces.
    pub(super) labels: RepairBackoff<String>,
    /// Drifted objects that were logged and are not repaired, by namespace.
    pub(super) logged: BTreeMap<String, BTreeSet<ObjectId>>,
    /// Lease of each namespace, including namespaces that lost their labels and Manifest record.
    pub(super) leases: BTreeMap<String, LeaseId>,
    /// For each lease, the last Manifest record that matched the applied objects.
    pub(super) records: BTreeMap<String, Arc<Manifest>>,
}

impl RepairState {
    pub(super) fn remove(&mut self, home: &str) {
        self.logged.remove(home);
        self.leases.remove(home);
        self.records.remove(home);
    }

    /// Logs and counts the unrepaired objects in `left`. Omits objects that the previous call logged.
    pub(super) fn log(
        &mut self,
        home: &str,
        left: impl Iterator<Item = (ObjectId, String)>,
        counters: &ClusterCounters,
    ) {
        let before = self.logged.remove(home).unwrap_or_default();
        let mut now = BTreeSet::new();
        for (object, reason) in left {
            if !before.contains(&object) {
                counters.count_drift(object.kind, DriftOutcome::Left);
                tracing::warn!(namespace = home, %object, reason, "object of a lease differs from the deployed state, the next deploy restores the object");
            }
            now.insert(object);
        }
        if !now.is_empty() {
            self.logged.insert(home.to_owned(), now);
        }
    }
}
