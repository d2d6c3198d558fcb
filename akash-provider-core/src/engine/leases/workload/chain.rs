//! The chain lane of a workload: ending the lease ourselves, and gathering evidence that it is over.

use super::evidence::{self, Heard, HeardBy, Verdict};
use super::{Action, Workload};
use crate::engine::backoff;
use crate::engine::cx::Cx;
use crate::engine::effect::Call;
use crate::error::Failure;
use crate::types::{
    BlockTime, CloseReason, LeaseRecord, Mono, Msg, Observed, Reclamation, TxError, TxOutcome,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long after our close or reclaim landed we look at the record, should its event not come.
const EVENT_PATIENCE: Duration = Duration::from_secs(30);
/// How often an end that may not be sent yet asks again whether it may.
const PERMISSION_POLL: Duration = Duration::from_secs(5);

/// What the chain lane is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ChainLane {
    /// Nothing is sent, and nothing is looked for.
    Idle,
    /// An end is wanted and waits for permission (`wake`) or for the reclamation deadline.
    Planned {
        /// When to ask for permission again.
        wake: Option<Mono>,
        /// Block time of the reclamation deadline.
        deadline: Option<BlockTime>,
    },
    /// `Broadcast(StartReclaim | CloseBid)` is in flight.
    Sending,
    /// Sending failed; again then.
    SendRetry(Mono),
    /// Its outcome is unknown; it cannot land after this block time.
    Unsure(BlockTime),
    /// It landed; the event follows, or we look then.
    AwaitEvent(Mono),
    /// `FetchLease` is in flight, or tried again at `retry_at`.
    Looking {
        /// When to try again; `None` while the call is in flight.
        retry_at: Option<Mono>,
    },
    /// The lease is over, by evidence. With `granted` its workload may be torn down.
    Confirmed {
        /// A chain event or confirmed evidence ended the lease, or the circuit breaker let the teardown pass.
        granted: bool,
    },
}

impl ChainLane {
    /// True when a call is in flight.
    #[must_use]
    pub const fn owes_call(&self) -> bool {
        matches!(self, Self::Sending | Self::Looking { retry_at: None })
    }

    /// Monotonic moment at which it wants a `Wake`.
    #[must_use]
    pub const fn mono_deadline(&self) -> Option<Mono> {
        match self {
            Self::Planned { wake, .. } => *wake,
            Self::SendRetry(at) | Self::AwaitEvent(at) => Some(*at),
            Self::Looking { retry_at } => *retry_at,
            Self::Idle | Self::Sending | Self::Unsure(_) | Self::Confirmed { .. } => None,
        }
    }

    /// Block time at which it wants a `Wake`.
    #[must_use]
    pub const fn block_deadline(&self) -> Option<BlockTime> {
        match self {
            Self::Planned { deadline, .. } => *deadline,
            Self::Unsure(expires) => Some(BlockTime(expires.0.saturating_add(1))),
            Self::Idle
            | Self::Sending
            | Self::SendRetry(_)
            | Self::AwaitEvent(_)
            | Self::Looking { .. }
            | Self::Confirmed { .. } => None,
        }
    }
}

impl Workload {
    pub(super) fn hear(&mut self, heard: Heard, out: &mut Vec<Action>) {
        match &mut self.heard {
            // The chain's word is worth more than a scan's silence.
            Some(old) if old.by == HeardBy::Scan && heard.by == HeardBy::Chain => *old = heard,
            Some(_) => {}
            None => self.heard = Some(heard),
        }
        match (&mut self.chain, heard.by) {
            (ChainLane::Confirmed { granted }, HeardBy::Chain) => *granted = true,
            // The second endpoint may be back: the record is read again.
            (ChainLane::Confirmed { granted: false }, HeardBy::Scan) => {
                out.push(Action::CancelBreaker);
                self.chain = ChainLane::Idle;
            }
            _ => {}
        }
    }

    pub(super) fn reclaiming(&mut self, deadline: BlockTime) {
        let before = self.reclamation.take();
        let recorded = before.as_ref().and_then(|r| r.reason);
        self.reclamation = Some(Reclamation {
            window: before.map(|r| r.window).unwrap_or_default(),
            deadline: Some(deadline),
            reason: recorded.or_else(|| self.ending.map(|e| e.reason)),
        });
        // It has landed; the next step waits for the deadline.
        if let ChainLane::AwaitEvent(_) = self.chain {
            self.chain = ChainLane::Idle;
        }
    }

    /// The record says on which terms the lease may be taken back, whatever our bids offer by now. A deadline that
    /// was heard of is newer than a record without one.
    fn terms_are(&mut self, recorded: Option<Reclamation>) {
        let announced = self.reclamation.as_ref().is_some_and(|r| r.deadline.is_some());
        if recorded.is_some() || !announced {
            self.reclamation = recorded;
        }
    }

    /// A snapshot lists the lease among the live ones.
    pub(super) fn live(&mut self, reclamation: Option<Reclamation>) {
        self.terms_are(reclamation);
        // A list that has the lease refutes a list that had it not. The chain's own word needs a look at the record.
        if self.heard.is_some_and(|h| h.by == HeardBy::Scan) && !self.chain.owes_call() {
            self.heard = None;
            if let ChainLane::Looking { .. } = self.chain {
                self.chain = ChainLane::Idle;
            }
        }
    }

    /// Only we can have announced an end, perhaps before a restart, and nobody else closes the lease at the
    /// deadline. It is closed for the reason that the record keeps.
    fn take_up_announced_end(&mut self, out: &mut Vec<Action>) {
        let announced = self.reclamation.as_ref().is_some_and(|r| r.deadline.is_some());
        if announced && self.price.is_some() && self.heard.is_none() && self.ending.is_none() {
            let reason = self.reclamation.as_ref().and_then(|r| r.reason);
            self.end(reason.unwrap_or(CloseReason::Unspecified), true, out);
        }
    }

    /// Starts the next thing on the chain lane that is due and allowed.
    pub(super) fn drive_chain(&mut self, cx: &Cx<'_>, out: &mut Vec<Action>) {
        self.take_up_announced_end(out);
        let due = |at: Mono| at <= cx.now.mono;
        match self.chain {
            ChainLane::Sending | ChainLane::Looking { retry_at: None } | ChainLane::Confirmed { .. } => {}
            ChainLane::Looking { retry_at: Some(at) } => {
                if due(at) {
                    self.look(out);
                }
            }
            ChainLane::Idle | ChainLane::Planned { .. } => self.plan(cx, out),
            // News of its end is worth more than waiting for a message of our own.
            _ if self.heard.is_some() => self.look(out),
            ChainLane::AwaitEvent(at) if due(at) => self.look(out),
            ChainLane::Unsure(expires) if cx.now.block_time > expires => self.look(out),
            ChainLane::SendRetry(at) if due(at) => self.plan(cx, out),
            ChainLane::AwaitEvent(_) | ChainLane::Unsure(_) | ChainLane::SendRetry(_) => {}
        }
    }

    fn look(&mut self, out: &mut Vec<Action>) {
        out.push(Action::Chain(Call::FetchLease(self.lease.clone())));
        self.chain = ChainLane::Looking { retry_at: None };
    }

    fn look_again(&mut self, cx: &Cx<'_>) {
        let retry_at = Some(cx.now.mono.plus(backoff::after(self.chain_attempts)));
        self.chain_attempts = self.chain_attempts.saturating_add(1);
        self.chain = ChainLane::Looking { retry_at };
    }

    /// Decides the next step of ending it, or of finding out.
    fn plan(&mut self, cx: &Cx<'_>, out: &mut Vec<Action>) {
        if self.heard.is_some() {
            self.chain_attempts = 0;
            return self.look(out);
        }
        let Some(ending) = self.ending else {
            self.chain = ChainLane::Idle;
            return;
        };
        if !ending.granted {
            self.chain = ChainLane::Planned {
                wake: None,
                deadline: None,
            };
            return;
        }
        let id = self.lease.clone();
        let reason = ending.reason;
        let msg = match &self.reclamation {
            None => Msg::CloseBid { id, reason },
            Some(Reclamation { deadline: None, .. }) => Msg::StartReclaim { id, reason },
            Some(Reclamation {
                deadline: Some(at), ..
            }) if *at <= cx.now.block_time => Msg::CloseBid { id, reason },
            Some(Reclamation { deadline, .. }) => {
                self.chain = ChainLane::Planned {
                    wake: None,
                    deadline: *deadline,
                };
                return;
            }
        };
        if !cx.may_close || cx.stopping {
            let wake = Some(cx.now.mono.plus(PERMISSION_POLL));
            self.chain = ChainLane::Planned { wake, deadline: None };
            return;
        }
        self.chain = ChainLane::Sending;
        out.push(Action::Chain(Call::Broadcast(msg)));
    }

    pub(super) fn sent(&mut self, cx: &Cx<'_>, result: Result<TxOutcome, Failure>, out: &mut Vec<Action>) {
        if self.chain != ChainLane::Sending {
            return out.push(Action::Unexpected);
        }
        self.chain = match result {
            Ok(TxOutcome::Committed { .. }) => {
                self.chain_attempts = 0;
                let reclaimed = self.reclamation.as_ref().is_some_and(|r| r.deadline.is_some());
                if reclaimed && self.reclaim_running(cx) {
                    ChainLane::Idle
                } else {
                    ChainLane::AwaitEvent(cx.now.mono.plus(EVENT_PATIENCE))
                }
            }
            Ok(TxOutcome::Unknown { expires }) => ChainLane::Unsure(expires),
            Ok(TxOutcome::Rejected {
                error: TxError::UnknownBid | TxError::LeaseNotActive,
                ..
            }) => {
                // A refusal for want of the lease is the chain's word, as its event is.
                let (height, since) = (cx.height, cx.now.mono);
                let heard = Heard {
                    height,
                    since,
                    by: HeardBy::Chain,
                    reason: None,
                };
                self.hear(heard, out);
                // A node that still has the lease must not bring the next message at once.
                self.chain_attempts = self.chain_attempts.saturating_add(1);
                return self.look(out);
            }
            // The record knows better than we do what comes next.
            Ok(TxOutcome::Rejected { code, log, .. }) => {
                self.last_error = Some(format!("the chain refused to end the lease: {code}: {log}").into());
                self.look_again(cx);
                return;
            }
            Err(failure) => {
                self.last_error = Some(failure.message.into());
                let at = cx.now.mono.plus(backoff::after(self.chain_attempts));
                self.chain_attempts = self.chain_attempts.saturating_add(1);
                ChainLane::SendRetry(at)
            }
        };
    }

    /// The announcement's event came before its completion: the deadline is known and lies ahead.
    fn reclaim_running(&self, cx: &Cx<'_>) -> bool {
        self.reclamation
            .as_ref()
            .and_then(|r| r.deadline)
            .is_some_and(|at| at > cx.now.block_time)
    }

    pub(super) fn seen(
        &mut self,
        cx: &Cx<'_>,
        result: Result<Observed<LeaseRecord>, Failure>,
        out: &mut Vec<Action>,
    ) {
        if self.chain != (ChainLane::Looking { retry_at: None }) {
            return out.push(Action::Unexpected);
        }
        let Ok(observed) = result else {
            return self.look_again(cx);
        };
        match evidence::weigh(cx.config, cx.now.mono, self.heard.as_ref(), observed) {
            Verdict::Undecided(_) => self.look_again(cx),
            Verdict::Live(record) => {
                self.heard = None;
                if self.price.is_none() {
                    out.push(Action::Found(Box::new((*record).clone())));
                }
                self.terms_are(record.lease.reclamation.clone());
                // What was refused before is not sent again at once.
                self.chain = match self.ending {
                    Some(_) => ChainLane::SendRetry(cx.now.mono.plus(backoff::after(self.chain_attempts))),
                    None => ChainLane::Idle,
                };
            }
            Verdict::Over { reason, confirmed } => self.over(cx, reason, confirmed, out),
        }
    }

    fn over(&mut self, cx: &Cx<'_>, reason: Option<CloseReason>, confirmed: bool, out: &mut Vec<Action>) {
        let (height, since) = (cx.height, cx.now.mono);
        // Without anything heard this is the first evidence; a later reading must agree.
        let Some(heard) = self.heard else {
            self.heard = Some(Heard {
                height,
                since,
                by: HeardBy::Scan,
                reason,
            });
            return self.look_again(cx);
        };
        // The record knows the reason even where the news gave none.
        self.closed_because = reason.or(heard.reason);
        // The breaker limits teardowns that a scan found and no second endpoint confirmed.
        let granted = confirmed || heard.by == HeardBy::Chain;
        self.chain = ChainLane::Confirmed { granted };
        // It is over, as was wanted; what the breaker is asked for from here on is the teardown.
        if self.ending.take().is_some_and(|e| !e.granted) {
            out.push(Action::CancelBreaker);
        }
        if !granted {
            out.push(Action::AskBreaker);
        }
    }
}
