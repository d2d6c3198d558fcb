//! Chain lane of a workload: closes the lease, and collects evidence that the lease is closed.

use super::evidence::{self, CloseReport, LeaseVerdict, ReportSource};
use super::{Workload, WorkloadAction};
use crate::engine::backoff;
use crate::engine::cx::Cx;
use crate::engine::effect::Call;
use crate::error::Failure;
use crate::types::{
    BlockTime, CloseReason, LeaseRecord, Mono, Msg, Observed, Reclamation, TxError, TxOutcome,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Time to wait for the event of a committed close or reclaim message. Then the lease record is read.
const EVENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Retry interval for a planned close that this instance is not allowed to send yet.
const PERMISSION_POLL: Duration = Duration::from_secs(5);

/// State of closing a lease on the chain: the messages that are sent, and the queries that confirm the close.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ChainLane {
    /// No message or query is in progress.
    Idle,
    /// A close is intended, and waits for permission or for the reclamation deadline.
    Planned {
        /// Time of the next attempt. `None` if the close waits for the reclamation deadline.
        wake: Option<Mono>,
        /// Block time of the reclamation deadline.
        deadline: Option<BlockTime>,
    },
    /// `Broadcast(StartReclaim | CloseBid)` is in flight.
    Sending,
    /// Sending the message failed. The next attempt is due at this time.
    SendRetry(Mono),
    /// The result of the message is unknown. The transaction expires at this block time.
    Unsure(BlockTime),
    /// The message was committed. If the chain event does not arrive, the lease record is read at this time.
    AwaitEvent(Mono),
    /// `FetchLease` is in flight or waits for a retry.
    Fetching {
        /// Time at which a failed call is repeated; `None` while the call is in flight.
        retry_at: Option<Mono>,
    },
    /// Evidence shows that the lease is closed.
    Confirmed {
        /// True if the workload may be torn down: the close is certain, or the circuit breaker granted the
        /// teardown.
        granted: bool,
    },
}

impl ChainLane {
    /// Returns true if a call is in flight.
    #[must_use]
    pub const fn has_call_in_flight(&self) -> bool {
        matches!(self, Self::Sending | Self::Fetching { retry_at: None })
    }

    /// Returns the monotonic time at which the lane needs a `Wake`.
    #[must_use]
    pub const fn mono_deadline(&self) -> Option<Mono> {
        match self {
            Self::Planned { wake, .. } => *wake,
            Self::SendRetry(at) | Self::AwaitEvent(at) => Some(*at),
            Self::Fetching { retry_at } => *retry_at,
            Self::Idle | Self::Sending | Self::Unsure(_) | Self::Confirmed { .. } => None,
        }
    }

    /// Returns the block time at which the lane needs a `Wake`.
    #[must_use]
    pub const fn block_deadline(&self) -> Option<BlockTime> {
        match self {
            Self::Planned { deadline, .. } => *deadline,
            Self::Unsure(expires) => Some(BlockTime(expires.0.saturating_add(1))),
            Self::Idle
            | Self::Sending
            | Self::SendRetry(_)
            | Self::AwaitEvent(_)
            | Self::Fetching { .. }
            | Self::Confirmed { .. } => None,
        }
    }
}

impl Workload {
    pub(super) fn record_close_report(&mut self, report: CloseReport, out: &mut Vec<WorkloadAction>) {
        match &mut self.close_report {
            // A report from the chain is stronger evidence than an absence in a scan.
            Some(old) if old.by == ReportSource::Scan && report.by == ReportSource::Chain => *old = report,
            Some(_) => {}
            None => self.close_report = Some(report),
        }
        match (&mut self.chain, report.by) {
            (ChainLane::Confirmed { granted }, ReportSource::Chain) => *granted = true,
            // The record is read again, because the second endpoint may be reachable now.
            (ChainLane::Confirmed { granted: false }, ReportSource::Scan) => {
                out.push(WorkloadAction::CancelRequest);
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
        // The reclaim message was committed. The close waits for the deadline.
        if let ChainLane::AwaitEvent(_) = self.chain {
            self.chain = ChainLane::Idle;
        }
    }

    /// Sets the reclamation terms from the lease record. If the deadline is known, a record without terms
    /// changes nothing.
    fn set_terms(&mut self, recorded: Option<Reclamation>) {
        let announced = self.reclamation.as_ref().is_some_and(|r| r.deadline.is_some());
        if recorded.is_some() || !announced {
            self.reclamation = recorded;
        }
    }

    /// Processes a snapshot that lists the lease as active.
    pub(super) fn live(&mut self, reclamation: Option<Reclamation>) {
        self.set_terms(reclamation);
        // The snapshot refutes an absence in an earlier scan. A report from the chain requires a read of the record.
        if self.close_report.is_some_and(|h| h.by == ReportSource::Scan) && !self.chain.has_call_in_flight() {
            self.close_report = None;
            if let ChainLane::Fetching { .. } = self.chain {
                self.chain = ChainLane::Idle;
            }
        }
    }

    /// Continues to close the lease if its reclamation has started. Only this provider starts a reclamation,
    /// always to close the lease.
    fn take_up_announced_end(&mut self, out: &mut Vec<WorkloadAction>) {
        let announced = self.reclamation.as_ref().is_some_and(|r| r.deadline.is_some());
        if announced && self.price.is_some() && self.close_report.is_none() && self.ending.is_none() {
            let reason = self.reclamation.as_ref().and_then(|r| r.reason);
            self.end(reason.unwrap_or(CloseReason::Unspecified), true, out);
        }
    }

    pub(super) fn drive_chain(&mut self, cx: &Cx<'_>, out: &mut Vec<WorkloadAction>) {
        self.take_up_announced_end(out);
        let due = |at: Mono| at <= cx.now.mono;
        match self.chain {
            ChainLane::Sending | ChainLane::Fetching { retry_at: None } | ChainLane::Confirmed { .. } => {}
            ChainLane::Fetching { retry_at: Some(at) } => {
                if due(at) {
                    self.fetch_lease(out);
                }
            }
            ChainLane::Idle | ChainLane::Planned { .. } => self.plan(cx, out),
            // A report of the close takes precedence over waiting for a message of this provider.
            _ if self.close_report.is_some() => self.fetch_lease(out),
            ChainLane::AwaitEvent(at) if due(at) => self.fetch_lease(out),
            ChainLane::Unsure(expires) if cx.now.block_time > expires => self.fetch_lease(out),
            ChainLane::SendRetry(at) if due(at) => self.plan(cx, out),
            ChainLane::AwaitEvent(_) | ChainLane::Unsure(_) | ChainLane::SendRetry(_) => {}
        }
    }

    fn fetch_lease(&mut self, out: &mut Vec<WorkloadAction>) {
        out.push(WorkloadAction::Chain(Call::FetchLease(self.lease.clone())));
        self.chain = ChainLane::Fetching { retry_at: None };
    }

    fn fetch_later(&mut self, cx: &Cx<'_>) {
        let retry_at = Some(cx.now.mono.plus(backoff::after(self.chain_attempts)));
        self.chain_attempts = self.chain_attempts.saturating_add(1);
        self.chain = ChainLane::Fetching { retry_at };
    }

    /// With a close report, fetches the lease to verify the report. Without a report, determines the next
    /// message of an intended close.
    fn plan(&mut self, cx: &Cx<'_>, out: &mut Vec<WorkloadAction>) {
        if self.close_report.is_some() {
            self.chain_attempts = 0;
            return self.fetch_lease(out);
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
        out.push(WorkloadAction::Chain(Call::Broadcast(msg)));
    }

    pub(super) fn sent(
        &mut self,
        cx: &Cx<'_>,
        result: Result<TxOutcome, Failure>,
        out: &mut Vec<WorkloadAction>,
    ) {
        if self.chain != ChainLane::Sending {
            return out.push(WorkloadAction::Unexpected);
        }
        self.chain = match result {
            Ok(TxOutcome::Committed { .. }) => {
                self.chain_attempts = 0;
                let reclaimed = self.reclamation.as_ref().is_some_and(|r| r.deadline.is_some());
                if reclaimed && self.reclaim_running(cx) {
                    ChainLane::Idle
                } else {
                    ChainLane::AwaitEvent(cx.now.mono.plus(EVENT_TIMEOUT))
                }
            }
            Ok(TxOutcome::Unknown { expires }) => ChainLane::Unsure(expires),
            Ok(TxOutcome::Rejected {
                error: TxError::UnknownBid | TxError::LeaseNotActive,
                ..
            }) => {
                // The rejection states that the lease is not active, which is as strong as a chain event.
                let (height, since) = (cx.height, cx.now.mono);
                let report = CloseReport {
                    height,
                    since,
                    by: ReportSource::Chain,
                    reason: None,
                };
                self.record_close_report(report, out);
                // The back-off increases, so that a node that still shows the lease does not trigger the next message
                // at once.
                self.chain_attempts = self.chain_attempts.saturating_add(1);
                return self.fetch_lease(out);
            }
            // The record on the chain determines the next step.
            Ok(TxOutcome::Rejected { code, log, .. }) => {
                self.last_error =
                    Some(format!("cannot close lease: rejected by the chain: {code}: {log}").into());
                self.fetch_later(cx);
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

    /// Returns true if the reclamation is running and its deadline is not reached.
    fn reclaim_running(&self, cx: &Cx<'_>) -> bool {
        self.reclamation
            .as_ref()
            .and_then(|r| r.deadline)
            .is_some_and(|at| at > cx.now.block_time)
    }

    pub(super) fn lease_fetched(
        &mut self,
        cx: &Cx<'_>,
        result: Result<Observed<LeaseRecord>, Failure>,
        out: &mut Vec<WorkloadAction>,
    ) {
        if self.chain != (ChainLane::Fetching { retry_at: None }) {
            return out.push(WorkloadAction::Unexpected);
        }
        let Ok(observed) = result else {
            return self.fetch_later(cx);
        };
        match evidence::assess(cx.config, cx.now.mono, self.close_report.as_ref(), observed) {
            LeaseVerdict::Undecided(_) => self.fetch_later(cx),
            LeaseVerdict::Live(record) => {
                self.close_report = None;
                if self.price.is_none() {
                    out.push(WorkloadAction::LeaseFound(Box::new((*record).clone())));
                }
                self.set_terms(record.lease.reclamation.clone());
                // A message that was rejected before is sent again only after a back-off.
                self.chain = match self.ending {
                    Some(_) => ChainLane::SendRetry(cx.now.mono.plus(backoff::after(self.chain_attempts))),
                    None => ChainLane::Idle,
                };
            }
            LeaseVerdict::Closed { reason, confirmed } => self.lease_closed(cx, reason, confirmed, out),
        }
    }

    fn lease_closed(
        &mut self,
        cx: &Cx<'_>,
        reason: Option<CloseReason>,
        confirmed: bool,
        out: &mut Vec<WorkloadAction>,
    ) {
        let (height, since) = (cx.height, cx.now.mono);
        // Without an earlier report, this result is only the first report. A later read must confirm it.
        let Some(report) = self.close_report else {
            self.close_report = Some(CloseReport {
                height,
                since,
                by: ReportSource::Scan,
                reason,
            });
            return self.fetch_later(cx);
        };
        // The record has the reason even if the report has none.
        self.closed_because = reason.or(report.reason);
        // The breaker limits teardowns found by a scan without confirmation by a second endpoint.
        let granted = confirmed || report.by == ReportSource::Chain;
        self.chain = ChainLane::Confirmed { granted };
        // The intended close has taken place. Only the teardown still needs permission.
        if self.ending.take().is_some_and(|e| !e.granted) {
            out.push(WorkloadAction::CancelRequest);
        }
        if !granted {
            out.push(WorkloadAction::RequestPermission);
        }
    }
}
