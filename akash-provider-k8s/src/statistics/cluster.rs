//! Counters of deploys, teardowns and repairs.

use crate::apply::item::ItemKind;
use akash_provider_core::error::Error;
use akash_provider_core::statistics::{CounterMap, DurationCounts, DurationHistogram};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Histogram bucket bounds for operations of several API calls.
const OPERATION_BOUNDS: [Duration; 8] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(15),
    Duration::from_secs(60),
];
/// Maximum number of counters in each map: by operation, or by kind and outcome.
const PAIRS_MAX: usize = 64;

/// Operation of the backend on a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Applies the recorded objects of a lease.
    Deploy,
    /// Runs one step of the removal of a lease.
    Teardown,
    /// Restores one object that another client changed.
    Repair,
}

/// Handling of an object that another client changed or added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DriftOutcome {
    /// The object was restored.
    Repaired,
    /// The object does not belong to the lease and was deleted.
    Deleted,
    /// The repair failed and is retried.
    Failed,
    /// The object remains changed: the settings do not allow a repair, or a record is missing.
    Left,
}

/// Statistics of the operations of a cluster since the start of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterStatistics {
    /// Durations of operations, successful or failed.
    pub durations: BTreeMap<Operation, DurationCounts>,
    /// Number of failed operations.
    pub failures: BTreeMap<Operation, u64>,
    /// Number of objects that other clients changed, by kind and outcome. A changed namespace label has the
    /// kind `Namespace`.
    pub drift: BTreeMap<(&'static str, DriftOutcome), u64>,
    /// Number of leases that wait for another drift check, for example after a failed repair.
    pub waiting_leases: usize,
    /// Number of changed leases in the repair queue.
    pub queued_leases: usize,
}

#[derive(Debug)]
pub(crate) struct ClusterCounters {
    durations: [DurationHistogram; 3],
    failures: CounterMap<Operation>,
    drift: CounterMap<(&'static str, DriftOutcome)>,
    waiting: AtomicUsize,
    queued: AtomicUsize,
}

impl Operation {
    const ALL: [Self; 3] = [Self::Deploy, Self::Teardown, Self::Repair];

    /// Returns the name of the operation, such as `deploy`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deploy => "deploy",
            Self::Teardown => "teardown",
            Self::Repair => "repair",
        }
    }
}

impl DriftOutcome {
    /// Returns the name of the outcome, such as `repaired`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Repaired => "repaired",
            Self::Deleted => "deleted",
            Self::Failed => "failed",
            Self::Left => "left",
        }
    }
}

impl Default for ClusterCounters {
    fn default() -> Self {
        Self {
            durations: Operation::ALL.map(|_| DurationHistogram::new(&OPERATION_BOUNDS)),
            failures: CounterMap::new(PAIRS_MAX, Operation::Repair),
            drift: CounterMap::new(PAIRS_MAX, ("other", DriftOutcome::Failed)),
            waiting: AtomicUsize::new(0),
            queued: AtomicUsize::new(0),
        }
    }
}

impl ClusterCounters {
    /// Runs an operation, and records its duration and a returned error.
    pub(crate) async fn run<T>(
        &self,
        operation: Operation,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let began = Instant::now();
        let result = work.await;
        if let Some(durations) = self.durations.get(operation as usize) {
            durations.record(began.elapsed());
        }
        if result.is_err() {
            self.failures.increment(operation);
        }
        result
    }

    pub(crate) fn count_drift(&self, kind: ItemKind, outcome: DriftOutcome) {
        self.drift.increment((kind.name(), outcome));
    }

    /// Counts a restored namespace, or the failure to restore one.
    pub(crate) fn count_namespace(&self, outcome: DriftOutcome) {
        self.drift.increment(("Namespace", outcome));
    }

    pub(crate) fn set_waiting(&self, leases: usize) {
        self.waiting.store(leases, Ordering::Relaxed);
    }

    pub(crate) fn set_queued(&self, leases: usize) {
        self.queued.store(leases, Ordering::Relaxed);
    }

    pub(crate) fn statistics(&self) -> ClusterStatistics {
        let durations = Operation::ALL.into_iter().zip(&self.durations);
        ClusterStatistics {
            durations: durations
                .map(|(of, durations)| (of, durations.values()))
                .collect(),
            failures: self.failures.values(),
            drift: self.drift.values(),
            waiting_leases: self.waiting.load(Ordering::Relaxed),
            queued_leases: self.queued.load(Ordering::Relaxed),
        }
    }
}
