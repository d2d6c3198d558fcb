//! A lease of a deployment, and what is known of its manifest.

use super::Action;
use crate::engine::cx::Cx;
use crate::types::{BlockTime, CloseReason, Event, LeaseId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How a lease came to be known, as far as its manifest is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Origin {
    /// Won while this engine followed the chain: no manifest of it was accepted yet.
    Won,
    /// On the chain before this engine was: the cluster may have its manifest.
    Found,
    /// The cluster has its manifest.
    Kept,
}

/// What is known of a manifest that was not accepted here.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Evidence {
    /// There is none; the deadline runs.
    Missing,
    /// The cluster may have one, and nobody has looked since that is so.
    Unseen,
    /// The deadline has passed; the cluster is looked at once more.
    Due,
    /// Something of the lease is in the cluster and does not say what to run.
    Unusable(Arc<str>),
}

/// A lease of ours.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) lease: LeaseId,
    pub(super) deadline: Option<BlockTime>,
    pub(super) has_manifest: bool,
    pub(super) evidence: Evidence,
    /// It was won in this epoch of ours, and nothing was tried to be kept for it since, nor found of it.
    pub(super) bare_since: Option<u64>,
    /// The block it was won in is complete; before that its deadline does not run.
    pub(super) begun: bool,
}

impl Entry {
    pub(super) fn waits(&self) -> bool {
        !self.has_manifest && self.evidence == Evidence::Missing
    }

    /// When its time for a manifest is over.
    pub(super) fn due(&self) -> Option<BlockTime> {
        self.deadline.filter(|_| self.begun && self.waits())
    }

    /// Its time for a manifest has a beginning, which may be earlier than what its record says.
    pub(super) fn has_clock(&self) -> bool {
        self.evidence == Evidence::Missing || self.deadline.is_some()
    }

    /// Something of it is there that cannot be used: it is told once, and nothing is ended for it.
    pub(super) fn hold(&mut self, problem: &Arc<str>, out: &mut Vec<Action>) {
        // Lists come again and again; the same problem is told once.
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

    /// Neither a record nor a workload of it is there: its time runs from this moment, or is over.
    pub(super) fn is_not_there(&mut self, cx: &Cx<'_>, may_end: bool, out: &mut Vec<Action>) {
        match self.evidence {
            Evidence::Missing => {}
            Evidence::Unseen | Evidence::Unusable(_) => {
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
