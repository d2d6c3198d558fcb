//! Transaction in flight.

use super::{Draft, QueuedMsgs};
use akash_provider_core::types::{DeploymentId, Mono, Msg, TxOutcome};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum FlightPhase {
    /// The gas is unknown. A simulation is due at `at`, or running.
    Estimating { at: Mono, is_pending: bool },
    /// The simulation was refused. The planner queries the object that the message affects, to find the
    /// reason.
    Explaining { log: String },
    /// The transaction can be sent from the time `at`.
    Ready { at: Mono },
    /// The node has not responded to the transaction yet.
    Sending,
    /// A node accepted the transaction. No known block contains it yet.
    Waiting {
        searched_at: Option<u64>,
        is_pending: bool,
    },
    /// The transaction expired. The planner checks whether a block contains it.
    Checking { at: Mono, step: Check },
}

/// Current step of the search for the outcome of an expired transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Check {
    /// Waiting until the next search for the transaction is due.
    Start,
    /// Searching for the transaction by hash.
    Finding,
    /// Querying the state of the object. `absent` is true if no block contains the transaction.
    FetchingObject { absent: bool },
}

/// Transaction in flight, with the calls that wait for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Flight {
    /// Calls of the transaction: one call, or several withdrawals.
    pub(super) members: Vec<QueuedMsgs>,
    pub(super) priority: u8,
    pub(super) phase: FlightPhase,
    /// Estimated gas of the transaction.
    pub(super) gas: Option<u64>,
    /// Draft that was sent last.
    pub(super) draft: Option<Draft>,
    /// True if a node may have the draft. Such a draft must not be replaced before its expiry.
    pub(super) perhaps_sent: bool,
    /// The blocks up to this height do not contain the draft. `None` if no block was examined.
    pub(super) absent_until: Option<u64>,
    /// Height of the newest block when a node last accepted the draft.
    pub(super) accepted_at: Option<u64>,
    /// Number of consecutive failures of the current request to a node.
    pub(super) failures: u32,
    /// Number of times that the draft was replaced.
    pub(super) replaced: u32,
    /// Number of times that the transaction ran out of gas.
    pub(super) out_of_gas: u32,
    /// Number of refused simulations without a known reason.
    pub(super) unexplained: u32,
    /// Reason why the transaction is delayed, or `None` if the transaction is not delayed.
    pub(super) delay_reason: Option<String>,
}

impl Flight {
    /// Lowers all stored heights to at most `to`, because later blocks belong to a false chain.
    pub(super) fn lower_heights(&mut self, to: u64) {
        let searched_at = match &mut self.phase {
            FlightPhase::Waiting { searched_at, .. } => searched_at,
            _ => &mut None,
        };
        let heights = [&mut self.absent_until, &mut self.accepted_at, searched_at];
        for height in heights.into_iter().flatten() {
            *height = to.min(*height);
        }
    }

    pub(super) fn new(members: Vec<QueuedMsgs>, priority: u8, phase: FlightPhase, gas: Option<u64>) -> Self {
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

    pub(super) fn msgs(&self) -> Arc<[Msg]> {
        match &self.members[..] {
            [one] => Arc::clone(&one.msgs),
            several => several.iter().flat_map(|r| r.msgs.iter().cloned()).collect(),
        }
    }

    /// Returns the time of the oldest call of this transaction.
    pub(super) fn since(&self) -> Mono {
        self.members.iter().map(|m| m.since).min().unwrap_or_default()
    }

    pub(super) fn may_have_been_sent(&self) -> bool {
        self.perhaps_sent || matches!(self.phase, FlightPhase::Sending)
    }

    /// Returns [`TxOutcome::Unknown`] if the transaction may have been sent, otherwise `None`.
    pub(super) fn unknown(&self) -> Option<TxOutcome> {
        let draft = self.draft.as_ref().filter(|_| self.may_have_been_sent())?;
        Some(TxOutcome::Unknown {
            expires: draft.expiry.time,
        })
    }

    pub(super) fn deployments(&self) -> impl Iterator<Item = &DeploymentId> {
        self.members.iter().flat_map(|m| super::withdrawn(&m.msgs))
    }

    /// Returns the account sequence of a draft that was possibly sent. Returns `None` for a draft without a
    /// sequence.
    pub(super) fn waiting_sequence(&self) -> Option<u64> {
        match self.draft.as_ref()?.ordering {
            crate::signer::Ordering::Ordered { sequence, .. } if self.perhaps_sent => Some(sequence),
            _ => None,
        }
    }
}
