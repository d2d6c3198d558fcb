//! Transaction in flight.

use super::{Draft, Request};
use akash_provider_core::types::{DeploymentId, Mono, Msg, TxOutcome};
use std::sync::Arc;

/// Phase of a transaction in flight.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// Gas unknown: a simulation is due at `at`, or running.
    Estimating { at: Mono, is_pending: bool },
    /// Simulation refused: the state of the object is queried for the reason.
    Explaining { log: String },
    /// Ready to be sent from `at`.
    Ready { at: Mono },
    /// Sent to a node, without a response yet.
    Sending,
    /// Accepted by a node, not in a known block yet.
    Waiting {
        searched_at: Option<u64>,
        is_pending: bool,
    },
    /// Expired: the planner checks whether a block contains the transaction.
    Checking { at: Mono, step: Check },
}

/// Step of the check after the expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Check {
    /// Waiting for the next attempt.
    Start,
    /// Searching by hash.
    Finding,
    /// Querying the state of the object. `absent` is true if the search certainly found no transaction.
    FetchingObject { absent: bool },
}

/// Transaction with its calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Flight {
    /// One call, or several withdrawals.
    pub(super) members: Vec<Request>,
    pub(super) priority: u8,
    pub(super) phase: Phase,
    /// Gas of the transaction, simulated or from the stored estimates.
    pub(super) gas: Option<u64>,
    /// Draft that was sent last.
    pub(super) draft: Option<Draft>,
    /// The draft may have reached a node, so it must not be replaced before its expiry.
    pub(super) perhaps_sent: bool,
    /// Height up to which no block contains the draft.
    pub(super) absent_until: Option<u64>,
    /// Height at which a node last accepted the draft.
    pub(super) accepted_at: Option<u64>,
    /// Number of consecutive failures of the current request.
    pub(super) failures: u32,
    /// Number of replaced drafts.
    pub(super) replaced: u32,
    /// Number of out-of-gas failures.
    pub(super) out_of_gas: u32,
    /// Number of refused simulations without a visible reason.
    pub(super) unexplained: u32,
    /// Reason why the transaction waits: its cost exceeds a ceiling.
    pub(super) delay_reason: Option<String>,
}

impl Flight {
    /// Limits all heights, because the higher blocks belong to a false chain.
    pub(super) fn lower_heights(&mut self, to: u64) {
        let searched_at = match &mut self.phase {
            Phase::Waiting { searched_at, .. } => searched_at,
            _ => &mut None,
        };
        let heights = [&mut self.absent_until, &mut self.accepted_at, searched_at];
        for height in heights.into_iter().flatten() {
            *height = to.min(*height);
        }
    }

    pub(super) fn new(members: Vec<Request>, priority: u8, phase: Phase, gas: Option<u64>) -> Self {
        Self {
            members,
            priority,
            phase,
            gas,
            draft: None,
            perhaps_sent: false,
            absent_until: None,
            accepted_at: None,
            failures: 0,
            replaced: 0,
            out_of_gas: 0,
            unexplained: 0,
            delay_reason: None,
        }
    }

    /// Returns the messages of all calls, in order.
    pub(super) fn msgs(&self) -> Arc<[Msg]> {
        match &self.members[..] {
            [one] => Arc::clone(&one.msgs),
            several => several.iter().flat_map(|r| r.msgs.iter().cloned()).collect(),
        }
    }

    /// Returns the time of the oldest call.
    pub(super) fn since(&self) -> Mono {
        self.members.iter().map(|m| m.since).min().unwrap_or_default()
    }

    /// Returns true if a node may have the transaction.
    pub(super) fn may_have_been_sent(&self) -> bool {
        self.perhaps_sent || matches!(self.phase, Phase::Sending)
    }

    /// Returns the outcome `Unknown`, or `None` if the transaction was certainly not sent.
    pub(super) fn unknown(&self) -> Option<TxOutcome> {
        let draft = self.draft.as_ref().filter(|_| self.may_have_been_sent())?;
        Some(TxOutcome::Unknown {
            expires: draft.expiry.time,
        })
    }

    /// Returns the deployments of its withdrawals.
    pub(super) fn deployments(&self) -> impl Iterator<Item = &DeploymentId> {
        self.members.iter().flat_map(|m| super::withdrawn(&m.msgs))
    }

    /// Returns the sequence of the draft, if a node may have it.
    pub(super) fn waiting_sequence(&self) -> Option<u64> {
        match self.draft.as_ref()?.ordering {
            crate::signer::Ordering::Ordered { sequence, .. } if self.perhaps_sent => Some(sequence),
            _ => None,
        }
    }
}
