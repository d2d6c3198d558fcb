//! A transaction under way.

use super::{Draft, Request};
use akash_provider_core::types::{DeploymentId, Mono, Msg, TxOutcome};
use std::sync::Arc;

/// Where it is, and what it waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// Its gas is not known; a simulation is asked for at `at`, or runs.
    Estimating { at: Mono, asked: bool },
    /// A simulation failed; the object is being looked at to learn why.
    Judging { log: String },
    /// It may be sent from `at` on.
    Ready { at: Mono },
    /// A node is being asked to take it.
    Sending,
    /// It waits for a block.
    Waiting { searched_at: Option<u64>, asked: bool },
    /// It can no longer land: was it there? `searched` once the hash was not found.
    Checking { at: Mono, step: Check },
}

/// How far a check after the expiry has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Check {
    /// Nothing is asked until its time comes.
    Start,
    /// The hash is being searched for.
    Finding,
    /// The object is being looked at; `absent` when the hash was certainly not there.
    Looking { absent: bool },
}

/// A transaction and the calls it answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Flight {
    /// One, or several withdrawals.
    pub(super) members: Vec<Request>,
    pub(super) priority: u8,
    pub(super) phase: Phase,
    /// Gas it uses, as simulated or remembered.
    pub(super) gas: Option<u64>,
    /// What was sent, if anything was.
    pub(super) draft: Option<Draft>,
    /// The draft may have reached a node: it must not be replaced before it has expired.
    pub(super) perhaps_sent: bool,
    /// No block up to this height holds the draft.
    pub(super) absent_until: Option<u64>,
    /// Height at which a node last said that it has the draft.
    pub(super) accepted_at: Option<u64>,
    /// Failures in a row of whatever is being asked.
    pub(super) failures: u32,
    /// Drafts that were replaced.
    pub(super) replaced: u32,
    /// Times it ran out of gas.
    pub(super) starved: u32,
    /// Refusals of its simulation that nothing explained.
    pub(super) doubted: u32,
    /// Why it waits though it could be sent: it would cost more than is ever paid.
    pub(super) held: Option<String>,
}

impl Flight {
    /// Lowers the heights from which blocks count: they are of a false chain.
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
            starved: 0,
            doubted: 0,
            held: None,
        }
    }

    /// Its messages, in order.
    pub(super) fn msgs(&self) -> Arc<[Msg]> {
        match &self.members[..] {
            [one] => Arc::clone(&one.msgs),
            several => several.iter().flat_map(|r| r.msgs.iter().cloned()).collect(),
        }
    }

    /// When the oldest of its calls came.
    pub(super) fn since(&self) -> Mono {
        self.members.iter().map(|m| m.since).min().unwrap_or_default()
    }

    /// True when a node may have it.
    pub(super) fn may_have_been_sent(&self) -> bool {
        self.perhaps_sent || matches!(self.phase, Phase::Sending)
    }

    /// The outcome while nothing is known of it; `None` when it was certainly not sent.
    pub(super) fn unknown(&self) -> Option<TxOutcome> {
        let draft = self.draft.as_ref().filter(|_| self.may_have_been_sent())?;
        Some(TxOutcome::Unknown {
            expires: draft.expiry.time,
        })
    }

    /// Deployments it withdraws from.
    pub(super) fn deployments(&self) -> impl Iterator<Item = &DeploymentId> {
        self.members.iter().flat_map(|m| super::withdrawn(&m.msgs))
    }

    /// The sequence of its draft, where a node has it.
    pub(super) fn waiting_sequence(&self) -> Option<u64> {
        match self.draft.as_ref()?.ordering {
            crate::signer::Ordering::Ordered { sequence, .. } if self.perhaps_sent => Some(sequence),
            _ => None,
        }
    }
}
