//! Counts of the engine since its start, as plain data.

use crate::types::{BlockTime, Height};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Reason of a scan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ScanReason {
    /// The scan interval has passed.
    #[default]
    Interval,
    /// The chain sent a `Resync` with a new snapshot.
    Resync,
    /// Blocks are missing in the event stream.
    Gap,
    /// A request of an operator.
    Request,
    /// The last scan failed.
    Retry,
    /// The resources offered in an open or won bid are unknown.
    UnknownOffer,
    /// The workloads must be listed to find out whether a lease has a manifest.
    UnknownWorkload,
    /// The cluster reported a problem with a workload or with a stored workload record.
    ClusterProblem,
    /// This instance became the leader.
    Takeover,
}

impl ScanReason {
    /// All reasons.
    pub const ALL: [Self; 9] = [
        Self::Interval,
        Self::Resync,
        Self::Gap,
        Self::Request,
        Self::Retry,
        Self::UnknownOffer,
        Self::UnknownWorkload,
        Self::ClusterProblem,
        Self::Takeover,
    ];

    /// Returns the name of the reason, the same as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interval => "interval",
            Self::Resync => "resync",
            Self::Gap => "gap",
            Self::Request => "request",
            Self::Retry => "retry",
            Self::UnknownOffer => "unknown_offer",
            Self::UnknownWorkload => "unknown_workload",
            Self::ClusterProblem => "cluster_problem",
            Self::Takeover => "takeover",
        }
    }
}

/// Counts of an engine since its start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EngineCounts {
    /// Number of gaps in the heights of received blocks.
    pub gaps: u64,
    /// Total number of missing blocks, over all gaps.
    pub missed_blocks: u64,
    /// Number of blocks that were received again.
    pub repeated_blocks: u64,
    /// Number of started full scans (of chain and cluster), by reason.
    pub full_scans: BTreeMap<ScanReason, u64>,
    /// Number of started scans of only the cluster, by reason.
    pub cluster_scans: BTreeMap<ScanReason, u64>,
    /// Number of recounts of all reservations. Every successful scan recounts the reservations.
    pub recounts: u64,
    /// Number of recounts that found a difference from the stored reservations.
    pub recount_mismatches: u64,
    /// Block time of the last recount.
    pub last_recount: Option<BlockTime>,
}

impl EngineCounts {
    /// Counts a gap and its missing blocks.
    pub(super) const fn gap(&mut self, last: Height, received: Height) {
        self.gaps += 1;
        self.missed_blocks += received.saturating_sub(last).saturating_sub(1);
    }

    pub(super) fn scan(&mut self, is_full: bool, reason: ScanReason) {
        let scans = if is_full {
            &mut self.full_scans
        } else {
            &mut self.cluster_scans
        };
        *scans.entry(reason).or_default() += 1;
    }

    pub(super) const fn recount(&mut self, is_equal: bool, now: BlockTime) {
        self.recounts += 1;
        if !is_equal {
            self.recount_mismatches += 1;
        }
        self.last_recount = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_reasons_equal_their_json() {
        for reason in ScanReason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
        }
    }
}
