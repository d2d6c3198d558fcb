//! The money of one deployment: how long it lasts, and when our leases of it are paid out.
//!
//! ```text
//!  Idle ─check due─► Checking ─► Idle          (out of funds, or a payout is due: fill the line)
//!  Idle ─line not empty─► Withdrawing ─► Cooling (a later block) ─► Idle
//! ```
//! The chain fails the second withdrawal of one deployment in a block, so payouts go one at a time, each in a
//! block of its own. All deadlines are block time: a halted chain owes nothing. When a payout is due follows
//! from what the chain says is owed, so a restart does not postpone it.

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

/// A check that failed is repeated after this much block time.
const RETRY_CHECK: Duration = Duration::from_secs(60);
/// While out of funds, payouts (which make the chain close the lease) are repeated after this much.
const RECHECK_EMPTY: Duration = Duration::from_secs(600);
/// With no more blocks left than this, leases are paid out before the money ends: a payout takes a block or two, and
/// what comes after the end is never paid.
const LAST_BLOCKS: u64 = 3;
/// A payout that failed is repeated after this much block time.
const RETRY_WITHDRAW: Duration = Duration::from_secs(300);

/// What the deployment's money is doing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Waits for the next deadline.
    Idle,
    /// `FetchDeployment` is in flight.
    Checking,
    /// `Broadcast(WithdrawLease)` is in flight.
    Withdrawing(LeaseId),
    /// A payout landed, or failed, in a block not later than this; the next needs a later one.
    Cooling(BlockTime),
    /// A payout's outcome is unknown; it cannot land after this block time.
    Unsure(BlockTime),
    /// No lease of ours is left.
    Done,
}

/// What happens to a deployment's money.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input {
    /// We have a lease of it.
    LeaseAdded {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// When its next payout is due.
        due: Option<BlockTime>,
        /// When the money is looked at next.
        check_at: BlockTime,
    },
    /// A lease is over.
    LeaseRemoved(LeaseId),
    /// Of `FetchDeployment`; one that is not found is asked for again, as after a failure.
    Fetched(Result<Option<DeploymentRecord>, Failure>),
    /// Of `Broadcast`, for the lease that is being paid out.
    Tx(Result<TxOutcome, Failure>),
    /// The account has more money for fees: payouts that failed for the lack of it are repeated.
    FeeMoney,
    /// Time passed or permissions changed.
    Wake,
}

/// What a deployment's money wants.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// A call; its completion comes back as the matching input.
    Call(Call),
    /// Publish a fact about the deployment's money.
    Publish(Event),
    /// This input was not expected in this phase.
    Unexpected,
}

/// A lease that is paid out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Payee {
    lease: LeaseId,
    due: Option<BlockTime>,
    wanted: bool,
    /// Why the last payout failed.
    failed: Option<Box<str>>,
    /// The last payout failed because the account cannot pay its fee.
    lacks_fee: bool,
}

/// The machine of one deployment's money.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Escrow {
    id: DeploymentId,
    phase: Phase,
    payees: Vec<Payee>,
    check_at: BlockTime,
}

/// When a lease's next payout is due, by what the chain says it is owed: blocks since the last payout follow
/// from amount and rate. Without a payment record the full period starts now.
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
    // The blocks are counted as average ones, so the time may come out before the lease began.
    Some(last.max(created).plus(period))
}

impl Escrow {
    /// A deployment whose first lease is about to be added.
    #[must_use]
    pub fn new(id: &DeploymentId, check_at: BlockTime) -> Self {
        Self {
            id: id.clone(),
            phase: Phase::Idle,
            payees: Vec::new(),
            check_at,
        }
    }

    /// What it is doing.
    #[must_use]
    pub const fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Returns why the last payout of a lease failed; `None` after a payout.
    #[must_use]
    pub fn failed(&self, lease: &LeaseId) -> Option<&str> {
        let payee = self.payees.iter().find(|p| p.lease == *lease)?;
        payee.failed.as_deref()
    }

    /// Returns true where the last payout of a lease failed because the account cannot pay its fee.
    #[must_use]
    pub fn lacks_fee(&self) -> bool {
        self.payees.iter().any(|p| p.lacks_fee)
    }

    /// Block time at which it wants a `Wake`.
    #[must_use]
    pub fn block_deadline(&self, cx: &Cx<'_>) -> Option<BlockTime> {
        match &self.phase {
            Phase::Idle if !cx.may_write() => None,
            Phase::Idle => {
                let due = self.payees.iter().filter_map(|p| p.due).min();
                // What is wanted is overdue at any block time.
                let wanted = self
                    .payees
                    .iter()
                    .any(|p| p.wanted)
                    .then_some(BlockTime(i64::MIN));
                [Some(self.check_at), due, wanted].into_iter().flatten().min()
            }
            // A later block, because the chain fails a second withdrawal in the same one.
            Phase::Cooling(until) | Phase::Unsure(until) => Some(BlockTime(until.0.saturating_add(1))),
            Phase::Checking | Phase::Withdrawing(_) | Phase::Done => None,
        }
    }

    /// One step: what the input says, then what is due.
    #[must_use]
    pub fn transition(mut self, cx: &Cx<'_>, input: Input, out: &mut Vec<Action>) -> Self {
        match input {
            Input::LeaseAdded { lease, due, check_at } => self.added(lease, due, check_at),
            Input::LeaseRemoved(lease) => self.payees.retain(|p| p.lease != lease),
            Input::Fetched(result) => self.fetched(cx, result, out),
            Input::Tx(result) => self.sent(cx, result, out),
            Input::FeeMoney => {
                let unpaid = self.payees.iter_mut().filter(|p| p.lacks_fee);
                unpaid.for_each(|p| p.due = p.due.min(Some(cx.now.block_time)));
            }
            Input::Wake => {}
        }
        self.drive(cx, out);
        self
    }

    fn added(&mut self, lease: LeaseId, due: Option<BlockTime>, check_at: BlockTime) {
        self.check_at = self.check_at.min(check_at);
        if !self.payees.iter().any(|p| p.lease == lease) {
            // Most deployments have one lease with us, and room for four would be kept for each.
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
        out: &mut Vec<Action>,
    ) {
        if self.phase != Phase::Checking {
            return out.push(Action::Unexpected);
        }
        self.phase = Phase::Idle;
        let Ok(Some(record)) = result else {
            self.check_at = cx.now.block_time.plus(RETRY_CHECK);
            return;
        };
        self.take_up_live(cx, &record);
        let blocks_left = funds::blocks_left(&record, cx.height).map(funds::whole_blocks);
        out.push(Action::Publish(Event::BalanceChecked {
            deployment: self.id.clone(),
            blocks_left,
        }));
        if blocks_left.is_some_and(|blocks| blocks <= LAST_BLOCKS) {
            self.payees.iter_mut().for_each(|p| p.wanted = true);
        }
        let pause = match blocks_left {
            Some(0) => RECHECK_EMPTY,
            // A tenth before its end, so that blocks that come faster than they did bring no surprise.
            Some(blocks) if blocks > LAST_BLOCKS => {
                let before = blocks - (blocks / 10).max(LAST_BLOCKS - 1);
                funds::next_check(Some(before), cx.config, cx.block_time)
            }
            Some(blocks) => funds::next_check(Some(blocks), cx.config, cx.block_time),
            None => funds::next_check(None, cx.config, cx.block_time),
        };
        self.check_at = cx.now.block_time.plus(pause);
    }

    /// A lease that was said to be over and lives is paid out by its schedule again.
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

    fn sent(&mut self, cx: &Cx<'_>, result: Result<TxOutcome, Failure>, out: &mut Vec<Action>) {
        let Phase::Withdrawing(lease) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            return out.push(Action::Unexpected);
        };
        let period = cx.config.withdrawal_period;
        let payee = self.payees.iter_mut().find(|p| p.lease == lease);
        let mut why = None;
        let mut failed = |message: String| {
            why = Some(message.as_str().into());
            Action::Publish(Event::WithdrawFailed {
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
                out.push(Action::Publish(Event::Withdrawn { lease: lease.clone() }));
                (
                    period.map(|p| cx.now.block_time.plus(p)),
                    Phase::Cooling(cx.now.block_time),
                )
            }
            // There is nothing more to be had of a lease that is over. Should it live, the next look shows that.
            Ok(TxOutcome::Rejected {
                error: TxError::LeaseNotActive,
                code,
                log,
            }) => {
                out.push(failed(format!("{code}: {log}")));
                (None, Phase::Cooling(cx.now.block_time))
            }
            Ok(TxOutcome::Rejected { code, log, .. }) => {
                out.push(failed(format!("{code}: {log}")));
                (again, Phase::Cooling(cx.now.block_time))
            }
            // Paid twice is paid once; but not before it can no longer land, or both might meet in a block.
            Ok(TxOutcome::Unknown { expires }) => {
                out.push(failed("the outcome of the transaction is unknown".to_owned()));
                (again, Phase::Unsure(expires))
            }
            Err(failure) => {
                out.push(failed(failure.message));
                (again, Phase::Cooling(cx.now.block_time))
            }
        };
        if let Some(payee) = payee {
            payee.due = due;
            payee.failed = why;
            payee.lacks_fee = lacks_fee;
        }
        self.phase = phase;
    }

    /// Starts what is due and allowed.
    fn drive(&mut self, cx: &Cx<'_>, out: &mut Vec<Action>) {
        let now = cx.now.block_time;
        match self.phase {
            Phase::Cooling(until) | Phase::Unsure(until) if now > until => self.phase = Phase::Idle,
            Phase::Idle => {}
            Phase::Checking | Phase::Withdrawing(_) | Phase::Cooling(_) | Phase::Unsure(_) | Phase::Done => {
                return;
            }
        }
        if self.payees.is_empty() {
            self.phase = Phase::Done;
            return;
        }
        for payee in &mut self.payees {
            // Taken off the schedule, so that it is not due once more while it is paid.
            if payee.due.is_some_and(|due| due <= now) {
                payee.wanted = true;
                payee.due = None;
            }
        }
        if !cx.may_write() {
            return;
        }
        // Payouts go before the look, because they change what it would find.
        if let Some(payee) = self.payees.iter_mut().find(|p| p.wanted) {
            payee.wanted = false;
            let id = payee.lease.clone();
            out.push(Action::Call(Call::Broadcast(Msg::WithdrawLease {
                id: id.clone(),
            })));
            self.phase = Phase::Withdrawing(id);
        } else if self.check_at <= now {
            out.push(Action::Call(Call::FetchDeployment(self.id.clone())));
            self.phase = Phase::Checking;
        }
    }
}

impl Machine for Escrow {
    type Id = DeploymentId;
    type Input = Input;
    type Action = Action;

    fn step(self, cx: &Cx<'_>, input: Input, out: &mut Vec<Action>) -> Self {
        self.transition(cx, input, out)
    }

    fn deadlines(&self, cx: &Cx<'_>) -> Deadlines {
        (None, self.block_deadline(cx))
    }

    fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }
}
