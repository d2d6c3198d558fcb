//! Entry of a deployment for one lease, with the knowledge about the manifest of the lease.

use super::DeploymentAction;
use crate::engine::cx::Cx;
use crate::types::{BlockTime, CloseReason, Event, LeaseId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Origin of a lease, which determines whether the lease can have a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Origin {
    /// This process sent the winning bid, so no other instance accepted a manifest for the lease.
    Won,
    /// The lease is older than this engine, or another instance may have won the lease. The cluster may have
    /// a manifest of the lease.
    Found,
    /// The cluster has the manifest of the lease.
    Recorded,
}

/// Evidence about whether a lease has a manifest. Used until this engine accepts a manifest for the lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum ManifestEvidence {
    /// No manifest exists, so the manifest deadline applies.
    Missing,
    /// The workloads must be listed again to find out whether a manifest exists.
    Unlisted,
    /// The manifest deadline has passed. Before the lease is closed, the engine lists the workloads in the
    /// cluster again.
    Due,
    /// The cluster has a record or workload of the lease, but the record does not specify what to run.
    Unusable(Arc<str>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct LeaseEntry {
    pub(super) lease: LeaseId,
    pub(super) deadline: Option<BlockTime>,
    pub(super) has_manifest: bool,
    pub(super) evidence: ManifestEvidence,
    /// Leadership epoch in which this instance won the lease. `None` if a manifest of the lease can exist, or
    /// if the lease was not won in this process.
    pub(super) bare_since: Option<u64>,
    /// False until all events of the block that created the lease were received. Until then, no manifest
    /// deadline applies.
    pub(super) has_started: bool,
}

impl LeaseEntry {
    pub(super) fn waits(&self) -> bool {
        !self.has_manifest && self.evidence == ManifestEvidence::Missing
    }

    /// Returns the manifest deadline. Returns `None` if the deadline has not started.
    pub(super) fn due(&self) -> Option<BlockTime> {
        self.deadline.filter(|_| self.has_started && self.waits())
    }

    /// Returns true if the wait for a manifest has started. From then on, a lease record can only move the
    /// deadline to a later time.
    pub(super) fn has_clock(&self) -> bool {
        self.evidence == ManifestEvidence::Missing || self.deadline.is_some()
    }

    /// Marks the record of the lease as unusable, publishes the problem once, and stops the manifest
    /// deadline.
    pub(super) fn mark_unusable(&mut self, problem: &Arc<str>, out: &mut Vec<DeploymentAction>) {
        // Listings repeat, but each problem is published once.
        if self.evidence == ManifestEvidence::Unusable(Arc::clone(problem)) {
            return;
        }
        self.evidence = ManifestEvidence::Unusable(Arc::clone(problem));
        self.deadline = None;
        self.bare_since = None;
        let lease = self.lease.clone();
        out.push(DeploymentAction::CancelEnd(lease.clone()));
        out.push(DeploymentAction::Publish(Event::RecordUnusable {
            lease,
            problem: problem.to_string(),
        }));
    }

    /// Handles a list of the workloads that does not contain the lease. Starts the manifest deadline, or
    /// closes the lease if the deadline has passed and `may_end` is true.
    pub(super) fn mark_absent(&mut self, cx: &Cx<'_>, may_end: bool, out: &mut Vec<DeploymentAction>) {
        match self.evidence {
            ManifestEvidence::Missing => {}
            ManifestEvidence::Unlisted | ManifestEvidence::Unusable(_) => {
                self.evidence = ManifestEvidence::Missing;
                self.deadline = self.deadline.or_else(|| cx.manifest_due());
            }
            ManifestEvidence::Due => {
                self.evidence = ManifestEvidence::Missing;
                if may_end {
                    self.deadline = None;
                    let lease = self.lease.clone();
                    out.push(DeploymentAction::EndLease(lease, CloseReason::ManifestTimeout));
                }
            }
        }
    }
}
