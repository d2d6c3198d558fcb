//! Statistics of the work of an operator, as plain data.

use super::operator_state::{OperationCounts, OperatorIndex, OperatorState};
use super::queue::QueueDepth;
use akash_provider_core::statistics::DurationCounts;

/// Statistics of the work of an operator since its start.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkStatistics {
    /// Number of names in the work queue, by state.
    pub queue: QueueDepth,
    /// Durations of the work on one name: writes and deletions of its objects, successful or failed.
    pub durations: DurationCounts,
    /// Number of writes, deletions and failures.
    pub counts: OperationCounts,
}

impl<I: OperatorIndex> OperatorState<I> {
    pub(super) fn work_statistics(&self) -> WorkStatistics {
        let inner = self.inner();
        WorkStatistics {
            queue: inner.queue.depth(),
            durations: self.durations.values(),
            counts: inner.counts,
        }
    }
}
