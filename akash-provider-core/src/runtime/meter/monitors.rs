//! Counts of health monitors with the rules of the Go provider.

use crate::engine::Workloads;
use crate::types::LeaseId;
use rustc_hash::FxHashSet;

#[derive(Debug, Default)]
pub(super) struct Monitors {
    leases: FxHashSet<LeaseId>,
    has_listed: bool,
    /// Number of started and of stopped monitors.
    pub(super) counts: (u64, u64),
}

impl Monitors {
    /// Counts one started monitor per listed workload. Only the first listing after a start is counted.
    pub(super) fn listed(&mut self, workloads: &Workloads) {
        if std::mem::replace(&mut self.has_listed, true) {
            return;
        }
        for found in &workloads.listing.deployments {
            self.counts.0 += u64::from(self.leases.insert(found.lease.clone()));
        }
    }

    pub(super) fn deployed(&mut self, lease: &LeaseId) {
        self.counts.0 += 1;
        self.counts.1 += u64::from(!self.leases.insert(lease.clone()));
    }

    /// Counts two stops of the monitor, as the Go provider does: one at the request to close the lease, and
    /// one at the start of the teardown.
    pub(super) fn closed(&mut self, lease: &LeaseId) {
        self.counts.1 += 2 * u64::from(self.leases.remove(lease));
    }
}
