//! Entry of a deployment for one lease, with the evidence about its manifest.

use super::Action;
use crate::engine::cx::Cx;
use crate::types::{BlockTime, CloseReason, Event, LeaseId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Origin of a lease, with respect to its manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Origin {
    /// Won while this engine followed the chain. No manifest was accepted yet.
    Won,
    /// On the chain before this engine started. The cluster may have a manifest.
    Found,
    /// The cluster has the manifest of the lease.
    Recorded,
}

/// Evidence about a manifest that was not accepted by this engine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Evidence {
    /// There is no manifest, and the deadline runs.
    Missing,
    /// The cluster may have a manifest, and no listing was completed since.
    Unlisted,
    /// The deadline has passed, and the cluster is being listed again.
    Due,
    /// The cluster has a record or workload of the lease that does not specify what to run.
    Unusable(Arc<str>),
}

/// Entry for one lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct LeaseEntry {
    pub(super) lease: LeaseId,
    pub(super) deadline: Option<BlockTime>,
    pub(super) has_manifest: bool,
    pub(super) evidence: Evidence,
    /// Leadership epoch in which the lease was won, if no manifest was possibly stored or found since.
    pub(super) bare_since: Option<u64>,
    /// True if the block of the lease is complete. The deadline does not run before.
    pub(super) has_started: bool,
}

impl LeaseEntry {
    pub(super) fn waits(&self) -> bool {
        !self.has_manifest && self.evidence == Evidence::Missing
    }

    /// Returns the manifest deadline if it is running.
    pub(super) fn due(&self) -> Option<BlockTime> {
        self.deadline.filter(|_| self.has_started && self.waits())
    }

    /// Returns true if the deadline was already started, possibly earlier than the recorded creation of the lease.
    pub(super) fn has_clock(&self) -> bool {
        self.evidence == Evidence::Missing || self.deadline.is_some()
    }

    /// Marks the record of the lease as unusable, publishes the problem once, and stops the deadline.
    pub(super) fn mark_unusable(&mut self, problem: &Arc<str>, out: &mut Vec<Action>) {
        // Listings repeat, but each problem is published once.
        if self.evidence == Evidence::Unusable(Arc::clone(problem)) {
            return;
        }
        self.evidence = Evidence::Unusable(Arc::clone(problem));
        self.deadline = None;
        self.bare_since = None;
        let lease = self.lease.clone();
        out.push(Action::CancelEnd(lease.clone()));
        out.push(Action::Publish(Event::RecordUnusable {
            lease,
            problem: problem.to_string(),
        }));
    }

    /// Processes the absence of the lease in a listing: starts the deadline, or closes the lease after the deadline.
    pub(super) fn mark_absent(&mut self, cx: &Cx<'_>, may_end: bool, out: &mut Vec<Action>) {
        match self.evidence {
            Evidence::Missing => {}
            Evidence::Unlisted | Evidence::Unusable(_) => {
                self.evidence = Evidence::Missing;
                self.deadline = self.deadline.or_else(|| cx.manifest_due());
            }
            Evidence::Due => {
                self.evidence = Evidence::Missing;
                if may_end {
                    self.deadline = None;
                    let lease = self.lease.clone();
                    out.push(Action::EndLease(lease, CloseReason::ManifestTimeout));
                }
            }
        }
    }
}
