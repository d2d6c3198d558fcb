//! Escrow account of one deployment: balance checks and payouts of this provider's leases.
//!
//! ```text
//!  Idle ─check due─► Checking ─► Idle          (out of funds, or a payout is due: queue the payouts)
//!  Idle ─payout queued─► Withdrawing ─► Cooling (until a later block) ─► Idle
//! ```
//! The chain rejects a second withdrawal from one deployment in the same block, so a payout waits for a block
//! after the previous payout. All deadlines use block time, because no payments accrue while the chain is
//! halted. The due time of a payout is computed from the unpaid amount on the chain, so a restart does not
//! delay the payout.

pub mod funds;

use crate::engine::cx::Cx;
use crate::engine::effect::Call;
use crate::engine::table::Machine;
use crate::engine::timers::Deadlines;
use crate::error::Failure;
use crate::types::{
    BlockTime, DeploymentId, DeploymentRecord, Event, Height, LeaseId, Msg, Payment, TxError, TxOutcome,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Delay before a failed balance check is repeated, in block time.
const RETRY_CHECK: Duration = Duration::from_secs(60);
/// Delay before the next balance check of an empty escrow account, in block time. Each balance check requests
/// payouts. A payout from an empty account closes the lease.
const RECHECK_EMPTY: Duration = Duration::from_secs(600);
/// The provider withdraws early if the escrow account becomes empty within this number of blocks. A payout
/// needs one or two blocks.
const LAST_BLOCKS: u64 = 3;
/// Delay before a failed payout is repeated, in block time.
const RETRY_WITHDRAW: Duration = Duration::from_secs(300);

/// Phase of the escrow account.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EscrowPhase {
    /// Waiting for the next deadline.
    Idle,
    /// `FetchDeployment` is in flight.
    Checking,
    /// `Broadcast(WithdrawLease)` is in flight.
    Withdrawing(LeaseId),
    /// The last payout finished at this block time or earlier. The next payout waits for a later block,
    /// because the chain rejects two withdrawals in one block.
    Cooling(BlockTime),
    /// The result of a payout is unknown. The transaction expires at this block time.
    Unsure(BlockTime),
    /// This provider has no more leases of the deployment.
    Done,
}

/// Input of the escrow account.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EscrowInput {
    /// A lease of the deployment was assigned to this provider.
    LeaseAdded {
        /// Id of the lease.
        lease: LeaseId,
        /// Block time of the next payout. `None` if periodic withdrawals are disabled.
        due: Option<BlockTime>,
        /// Time of the next balance check.
        check_at: BlockTime,
    },
    /// A lease was closed.
    LeaseRemoved(LeaseId),
    /// Result of `FetchDeployment`. A missing deployment counts as a failure.
    Fetched(Result<Option<DeploymentRecord>, Failure>),
    /// Result of the `Broadcast` that withdraws the earnings of a lease.
    Tx(Result<TxOutcome, Failure>),
    /// The provider's account received funds, so payouts that failed for lack of fees are repeated.
    FeeMoney,
    /// Time has passed, or the permissions of this instance changed.
    Wake,
}

/// Action of the escrow account.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EscrowAction {
    /// Make a call. The completion of the call arrives as the matching input.
    Call(Call),
    /// Publish an event about the escrow account.
    Publish(Event),
    /// Count an input that is unexpected in this phase.
    Unexpected,
}

/// A lease from which this provider withdraws earnings.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Payee {
    lease: LeaseId,
    due: Option<BlockTime>,
    wanted: bool,
    /// Error of the last payout.
    failed: Option<Box<str>>,
    /// True if the last payout failed because the provider's account cannot pay the fee.
    lacks_fee: bool,
}

/// State machine of one deployment's escrow account.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Escrow {
    id: DeploymentId,
    phase: EscrowPhase,
    payees: Vec<Payee>,
    check_at: BlockTime,
}

/// Returns the estimated time of a lease's next payout: one withdrawal period after the last payout, or after
/// `created` if there is no payment record.
///
/// Returns `None` without a withdrawal period.
#[must_use]
pub fn payout_due(
    cx: &Cx<'_>,
    payment: Option<&Payment>,
    settled_at: Option<Height>,
    created: BlockTime,
) -> Option<BlockTime> {
    let period = cx.config.withdrawal_period?;
    let unpaid = payment.and_then(|p| {
        let settled = p.balance.amount.div_floor_int(p.rate.amount)?;
        let since = i128::from(cx.height.saturating_sub(settled_at.unwrap_or(cx.height)));
        u64::try_from(settled.saturating_add(since)).ok()
    });
    let last = match unpaid {
        Some(blocks) => cx
            .now
            .block_time
            .minus(funds::blocks_as_time(blocks, cx.block_time)),
        None => created.max(BlockTime(0)),
    };
    // The conversion uses the average block time, so the result may be before the creation of the lease.
    Some(last.max(created).plus(period))
}

impl Escrow {
    /// Creates the state machine of a deployment without leases.
    #[must_use]
    pub fn new(id: &DeploymentId, check_at: BlockTime) -> Self {
        Self {
            id: id.clone(),
            phase: EscrowPhase::Idle,
            payees: Vec::new(),
            check_at,
        }
    }

    /// Returns the current phase.
    #[must_use]
    pub const fn phase(&self) -> &EscrowPhase {
        &self.phase
    }

    /// Returns the error of a lease's last payout, or `None` if that payout succeeded.
    #[must_use]
    pub fn failed(&self, lease: &LeaseId) -> Option<&str> {
        let payee = self.payees.iter().find(|p| p.lease == *lease)?;
        payee.failed.as_deref()
    }

    /// Returns true if, for at least one lease, the last payout failed because the provider's account cannot
    /// pay the fee.
    #[must_use]
    pub fn lacks_fee(&self) -> bool {
        self.payees.iter().any(|p| p.lacks_fee)
    }

    /// Returns the block time at which the machine needs a `Wake`.
    #[must_use]
    pub fn block_deadline(&self, cx: &Cx<'_>) -> Option<BlockTime> {
        match &self.phase {
            EscrowPhase::Idle if !cx.may_write() => None,
            EscrowPhase::Idle => {
                let due = self.payees.iter().filter_map(|p| p.due).min();
                // A queued payout is always overdue.
                let wanted = self
                    .payees
                    .iter()
                    .any(|p| p.wanted)
                    .then_some(BlockTime(i64::MIN));
                [Some(self.check_at), due, wanted].into_iter().flatten().min()
            }
            // The chain rejects a second withdrawal in the same block.
            EscrowPhase::Cooling(until) | EscrowPhase::Unsure(until) => {
                Some(BlockTime(until.0.saturating_add(1)))
            }
            EscrowPhase::Checking | EscrowPhase::Withdrawing(_) | EscrowPhase::Done => None,
        }
    }

    /// Processes one input, then starts the call that is due.
    #[must_use]
    pub fn transition(mut self, cx: &Cx<'_>, input: EscrowInput, out: &mut Vec<EscrowAction>) -> Self {
        match input {
            EscrowInput::LeaseAdded { lease, due, check_at } => self.added(lease, due, check_at),
            EscrowInput::LeaseRemoved(lease) => self.payees.retain(|p| p.lease != lease),
            EscrowInput::Fetched(result) => self.fetched(cx, result, out),
            EscrowInput::Tx(result) => self.sent(cx, result, out),
            EscrowInput::FeeMoney => {
                let unpaid = self.payees.iter_mut().filter(|p| p.lacks_fee);
                unpaid.for_each(|p| p.due = p.due.min(Some(cx.now.block_time)));
            }
            EscrowInput::Wake => {}
        }
        self.drive(cx, out);
        self
    }

    fn added(&mut self, lease: LeaseId, due: Option<BlockTime>, check_at: BlockTime) {
        self.check_at = self.check_at.min(check_at);
        if !self.payees.iter().any(|p| p.lease == lease) {
            // Most deployments have one lease with this provider, and `push` alone would allocate space for four.
            self.payees.reserve_exact(1);
            self.payees.push(Payee {
                lease,
                due,
                wanted: false,
                failed: None,
                lacks_fee: false,
            });
        }
    }

    fn fetched(
        &mut self,
        cx: &Cx<'_>,
        result: Result<Option<DeploymentRecord>, Failure>,
        out: &mut Vec<EscrowAction>,
    ) {
        if self.phase != EscrowPhase::Checking {
            return out.push(EscrowAction::Unexpected);
        }
        self.phase = EscrowPhase::Idle;
        let Ok(Some(record)) = result else {
            self.check_at = cx.now.block_time.plus(RETRY_CHECK);
            return;
        };
        self.take_up_live(cx, &record);
        let blocks_left = funds::blocks_left(&record, cx.height).map(funds::whole_blocks);
        out.push(EscrowAction::Publish(Event::BalanceChecked {
            deployment: self.id.clone(),
            blocks_left,
        }));
        if blocks_left.is_some_and(|blocks| blocks <= LAST_BLOCKS) {
            self.payees.iter_mut().for_each(|p| p.wanted = true);
        }
        let pause = match blocks_left {
            Some(0) => RECHECK_EMPTY,
            // The check is 10 % earlier, because blocks may become faster.
            Some(blocks) if blocks > LAST_BLOCKS => {
                let before = blocks - (blocks / 10).max(LAST_BLOCKS - 1);
                funds::next_check(Some(before), cx.config, cx.block_time)
            }
            Some(blocks) => funds::next_check(Some(blocks), cx.config, cx.block_time),
            None => funds::next_check(None, cx.config, cx.block_time),
        };
        self.check_at = cx.now.block_time.plus(pause);
    }

    /// Schedules withdrawals for the active and reclaiming leases in `record`. Skips leases with a scheduled
    /// or requested withdrawal.
    fn take_up_live(&mut self, cx: &Cx<'_>, record: &DeploymentRecord) {
        let Some(period) = cx.config.withdrawal_period else {
            return;
        };
        for payee in self.payees.iter_mut().filter(|p| p.due.is_none() && !p.wanted) {
            if record
                .leases
                .iter()
                .any(|l| l.id == payee.lease && l.state.is_live())
            {
                payee.due = Some(cx.now.block_time.plus(period));
            }
        }
    }

    fn sent(&mut self, cx: &Cx<'_>, result: Result<TxOutcome, Failure>, out: &mut Vec<EscrowAction>) {
        let EscrowPhase::Withdrawing(lease) = std::mem::replace(&mut self.phase, EscrowPhase::Idle) else {
            return out.push(EscrowAction::Unexpected);
        };
        let period = cx.config.withdrawal_period;
        let payee = self.payees.iter_mut().find(|p| p.lease == lease);
        let mut why = None;
        let mut failed = |message: String| {
            why = Some(message.as_str().into());
            EscrowAction::Publish(Event::WithdrawFailed {
                lease: lease.clone(),
                message,
            })
        };
        let again = Some(cx.now.block_time.plus(RETRY_WITHDRAW));
        let lacks_fee = matches!(
            result,
            Ok(TxOutcome::Rejected {
                error: TxError::FeeUnpaid,
                ..
            })
        );
        let (due, phase) = match result {
            Ok(TxOutcome::Committed { .. }) => {
                out.push(EscrowAction::Publish(Event::Withdrawn { lease: lease.clone() }));
                (
                    period.map(|p| cx.now.block_time.plus(p)),
                    EscrowPhase::Cooling(cx.now.block_time),
                )
            }
            // A closed lease has no more payouts. If the lease is active after all, the next balance check reschedules
            // it.
            Ok(TxOutcome::Rejected {
                error: TxError::LeaseNotActive,
                code,
                log,
            }) => {
                out.push(failed(format!("{code}: {log}")));
                (None, EscrowPhase::Cooling(cx.now.block_time))
            }
            Ok(TxOutcome::Rejected { code, log, .. }) => {
                out.push(failed(format!("{code}: {log}")));
                (again, EscrowPhase::Cooling(cx.now.block_time))
            }
            // A retry is safe only after the expiry: two withdrawals must not be in the same block.
            Ok(TxOutcome::Unknown { expires }) => {
                out.push(failed("cannot confirm transaction: outcome unknown".to_owned()));
                (again, EscrowPhase::Unsure(expires))
            }
            Err(failure) => {
                out.push(failed(failure.message));
                (again, EscrowPhase::Cooling(cx.now.block_time))
            }
        };
        if let Some(payee) = payee {
            payee.due = due;
            payee.failed = why;
            payee.lacks_fee = lacks_fee;
        }
        self.phase = phase;
    }

    /// Starts the call that is due and allowed.
    fn drive(&mut self, cx: &Cx<'_>, out: &mut Vec<EscrowAction>) {
        let now = cx.now.block_time;
        match self.phase {
            EscrowPhase::Cooling(until) | EscrowPhase::Unsure(until) if now > until => {
                self.phase = EscrowPhase::Idle
            }
            EscrowPhase::Idle => {}
            EscrowPhase::Checking
            | EscrowPhase::Withdrawing(_)
            | EscrowPhase::Cooling(_)
            | EscrowPhase::Unsure(_)
            | EscrowPhase::Done => {
                return;
            }
        }
        if self.payees.is_empty() {
            self.phase = EscrowPhase::Done;
            return;
        }
        for payee in &mut self.payees {
            // Cleared, so that the payout is not queued a second time.
            if payee.due.is_some_and(|due| due <= now) {
                payee.wanted = true;
                payee.due = None;
            }
        }
        if !cx.may_write() {
            return;
        }
        // Payouts precede the balance check, because they change the balance.
        if let Some(payee) = self.payees.iter_mut().find(|p| p.wanted) {
            payee.wanted = false;
            let id = payee.lease.clone();
            out.push(EscrowAction::Call(Call::Broadcast(Msg::WithdrawLease {
                id: id.clone(),
            })));
            self.phase = EscrowPhase::Withdrawing(id);
        } else if self.check_at <= now {
            out.push(EscrowAction::Call(Call::FetchDeployment(self.id.clone())));
            self.phase = EscrowPhase::Checking;
        }
    }
}

impl Machine for Escrow {
    type Id = DeploymentId;
    type Input = EscrowInput;
    type Action = EscrowAction;

    fn step(self, cx: &Cx<'_>, input: EscrowInput, out: &mut Vec<EscrowAction>) -> Self {
        self.transition(cx, input, out)
    }

    fn deadlines(&self, cx: &Cx<'_>) -> Deadlines {
        (None, self.block_deadline(cx))
    }

    fn is_done(&self) -> bool {
        self.phase == EscrowPhase::Done
    }
}
