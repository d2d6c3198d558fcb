//! State machine of the transaction writer, without I/O and without a clock.
//!
//! ```text
//!  Submit ─▶ queue ─▶ Estimating ─▶ Ready ─▶ Sending ─▶ Waiting ─▶ Checking ─▶ reply
//!              │  by      │ refused    ▲        │ refused   │ found     │ queried after
//!              │ priority ▼            │        ▼           ▼           ▼ its expiry
//!              │      Explaining   wait, or Rejected    Committed   Committed, expired,
//!              └─ failed shared withdrawals are queued again alone      or Unknown
//! ```
//! Rules:
//! - A transaction with a bid contains no other message. Withdrawals of different deployments may share a transaction.
//!   Two withdrawals of one deployment are never in flight together, because the chain panics on the second one in a
//!   block.
//! - A draft that may have reached a node is sent again with the same bytes, until it is found or expired. Only then is
//!   the draft replaced.
//! - A transaction that exceeds the cost ceilings waits, and is estimated and priced again. The status reports the
//!   reason.
//! - `Err` means that the transaction was certainly not sent, or has expired.

mod chain_state;
#[cfg(test)]
mod explore;
mod flight;
mod next;
mod responses;
mod status;
#[cfg(test)]
mod tests;

use super::api::{IncludedTx, Simulation, Submission};
use super::object_state::ObjectState;
use crate::gas::{Estimates, Expenses, GasConfig};
use crate::sequence::{Expiry, Sequencer};
use crate::signer::{Ordering, TxFee};
use akash_provider_core::chain::{Account, SyncInfo};
use akash_provider_core::error::{ErrorKind, Failure};
use akash_provider_core::types::{DecCoin, Denom, DeploymentId, Mono, Msg, TxOutcome};
use chain_state::ChainState;
use flight::Flight;
pub use status::{Nonces, WriterStatus};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Id of a call to the writer.
pub(super) type Ticket = u64;
/// Id of a transaction in flight, from its simulation to its outcome.
pub(super) type FlightId = u64;

/// Limits and intervals of the transaction writer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PlannerConfig {
    /// Chain id that nodes must report.
    pub chain_id: String,
    /// Settings for fees.
    pub gas: GasConfig,
    /// Maximum number of queued calls. One block can cause a thousand bids.
    pub queue_max: usize,
    /// Maximum number of transactions in flight.
    pub flights_max: usize,
    /// Maximum number of concurrent simulations.
    pub simulations_max: usize,
    /// Maximum number of withdrawals in one transaction.
    pub shared_max: usize,
    /// Time for which a withdrawal waits in the queue, so that several withdrawals can share one transaction.
    pub shared_wait: Duration,
    /// Maximum time from a call until its transaction is sent. After this time the call fails.
    pub unsent_max: Duration,
    /// Maximum time from a call until its outcome is known. Later, the outcome is [`TxOutcome::Unknown`].
    pub outcome_max: Duration,
    /// Interval between queries of the newest block while the event follower reports no blocks.
    pub poll: Duration,
    /// Interval between queries of the newest block while the event follower reports blocks. Longer than a
    /// block interval.
    pub followed_poll: Duration,
    /// Maximum age of the newest known block. After an idle period, the first call queries the newest block
    /// if the known block is older. The timeout of a transaction depends on the time of this block.
    pub tip_max: Duration,
    /// Number of blocks after which an accepted transaction is sent again, if no block includes it.
    pub resend_blocks: u64,
    /// Maximum expected lag of a node, in blocks. A load balancer may forward a query to a node that lags.
    pub lag_blocks: u64,
    /// True if account sequences are used from the start, instead of unordered transactions.
    pub ordered: bool,
}

impl PlannerConfig {
    /// Creates the default settings for a chain.
    pub fn new(chain_id: impl Into<String>) -> Self {
        Self {
            chain_id: chain_id.into(),
            gas: GasConfig::default(),
            queue_max: 4096,
            flights_max: 2048,
            simulations_max: 16,
            shared_max: 16,
            shared_wait: Duration::from_millis(500),
            unsent_max: Duration::from_secs(60),
            outcome_max: Duration::from_secs(110),
            poll: Duration::from_secs(1),
            followed_poll: Duration::from_secs(10),
            tip_max: Duration::from_secs(5),
            resend_blocks: 3,
            lag_blocks: 4,
            ordered: false,
        }
    }
}

/// Unsigned transaction. Signing is deterministic.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Draft {
    /// Messages of the transaction, in the order of the calls.
    pub msgs: Arc<[Msg]>,
    /// Nonce: a timeout or a sequence.
    pub ordering: Ordering,
    /// Point at which the transaction can no longer be included in a block.
    pub expiry: Expiry,
    /// Fee and gas limit.
    pub price: TxFee,
    /// Account number of the signing account.
    pub account_number: u64,
}

impl Draft {
    /// Returns the amounts that the signer pays, by denomination. With a fee grant, the signer pays only the
    /// deposits.
    pub(super) fn costs(&self) -> BTreeMap<Denom, u128> {
        let fee = Some(&self.price.fee).filter(|_| self.price.granter.is_none());
        let deposits = self.msgs.iter().filter_map(|msg| match msg {
            Msg::CreateBid { deposit, .. } => Some(deposit),
            _ => None,
        });
        let mut costs: BTreeMap<Denom, u128> = BTreeMap::new();
        for coin in deposits.chain(fee) {
            let sum = costs.entry(coin.denom.clone()).or_default();
            *sum = sum.saturating_add(coin.amount);
        }
        costs
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PlannerInput {
    /// Request to send these messages as one transaction.
    Submit {
        /// Id of the call.
        ticket: Ticket,
        /// Messages of the call.
        msgs: Vec<Msg>,
    },
    /// The caller was dropped. The planner removes the call if the transaction was certainly not sent.
    Cancel {
        /// Id of the call.
        ticket: Ticket,
    },
    /// Result of [`PlannerAction::FetchBlock`].
    Block(Result<SyncInfo, Failure>),
    /// Block that the event follower reported. Before this input, the writer passes an [`PlannerInput::Found`] for
    /// each own transaction in the block.
    ObservedBlock {
        /// Chain id, height and time of the block.
        block: SyncInfo,
        /// True if no node has reported a later block.
        is_newest: bool,
        /// True if the writer has examined all transactions of the block.
        is_complete: bool,
    },
    /// Result of [`PlannerAction::FetchAccount`]. `None` if the account does not exist on the chain.
    Account(Result<Option<Account>, Failure>),
    /// Result of [`PlannerAction::FetchPrices`]: the minimum gas prices.
    Prices(Result<Vec<DecCoin>, Failure>),
    /// Result of [`PlannerAction::Simulate`].
    Simulated(FlightId, Result<Simulation, Failure>),
    /// Result of [`PlannerAction::Send`]. After an error, a node may still have the transaction.
    Sent(FlightId, Result<Submission, Failure>),
    /// Result of [`PlannerAction::Find`]. `None` if the node does not have the transaction.
    Found(FlightId, Result<Option<IncludedTx>, Failure>),
    /// Result of [`PlannerAction::FetchObject`].
    Object(FlightId, Result<ObjectState, Failure>),
    /// The clock has advanced.
    Tick,
    /// Request to stop. No transaction is sent from now on.
    Stop,
}

/// Output of the planner. Every action except `Reply` leads to exactly one later input of the planner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PlannerAction {
    /// Query the newest block.
    FetchBlock,
    /// Query the signing account.
    FetchAccount,
    /// Query the minimum prices of gas.
    FetchPrices,
    /// Simulate a transaction.
    Simulate(FlightId, Draft),
    /// Send a signed transaction. The same draft always gives the same signed bytes.
    Send(FlightId, Draft),
    /// Search for a sent transaction by its hash.
    Find(FlightId, Draft),
    /// Query the state of the object that a message affects.
    FetchObject(FlightId, Msg),
    /// Send the reply to a call. Each call gets exactly one reply.
    Reply(Ticket, Result<TxOutcome, Failure>),
}

/// Queued call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct QueuedMsgs {
    ticket: Ticket,
    msgs: Arc<[Msg]>,
    since: Mono,
    /// True if the call needs its own transaction, because the shared transaction of this call failed.
    alone: bool,
}

/// Returns the back-off after `failures` failures: 500 ms, then doubled, at most 8 s.
fn backoff(failures: u32) -> Duration {
    Duration::from_millis(500 << failures.saturating_sub(1).min(4))
}

/// State machine of the transaction writer. The caller passes the current time with each input.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Planner {
    config: Arc<PlannerConfig>,
    now: Mono,
    stopped: bool,
    queue: BTreeMap<(u8, Ticket), QueuedMsgs>,
    flights: BTreeMap<FlightId, Flight>,
    last_flight: FlightId,
    /// Withdrawals that a block may still include: the expiry of the transaction, and the deployment.
    unresolved: Vec<(Expiry, DeploymentId)>,
    chain: ChainState,
    sequencer: Sequencer,
    /// True if a node has accepted or simulated a transaction with the current type of nonce.
    proven: bool,
    estimates: Estimates,
    expenses: Expenses,
}

impl Planner {
    /// Creates a planner without state. `salt` must differ between processes with the same signing key.
    pub(super) fn new(config: PlannerConfig, salt: u32) -> Self {
        let mut sequencer = Sequencer::new(salt);
        if config.ordered {
            sequencer.use_sequences();
        }
        Self {
            config: Arc::new(config),
            now: Mono::default(),
            stopped: false,
            queue: BTreeMap::new(),
            flights: BTreeMap::new(),
            last_flight: 0,
            unresolved: Vec::new(),
            chain: ChainState::default(),
            sequencer,
            proven: false,
            estimates: Estimates::default(),
            expenses: Expenses::default(),
        }
    }

    /// Sets the gas and the fees of the last hour. Used after a restart.
    pub(super) fn with_expenses(mut self, expenses: Expenses) -> Self {
        self.expenses = expenses;
        self
    }

    pub(super) const fn expenses(&self) -> &Expenses {
        &self.expenses
    }

    pub(super) fn step(&mut self, now: Mono, input: PlannerInput) -> Vec<PlannerAction> {
        // The time never decreases, even if the clock of the caller does.
        self.now = self.now.max(now);
        let mut out = Vec::new();
        match input {
            PlannerInput::Submit { ticket, msgs } => self.submit(ticket, msgs, &mut out),
            PlannerInput::Cancel { ticket } => {
                self.withdraw(ticket);
            }
            PlannerInput::Block(response) => self.chain.block(self.now, &self.config, response),
            PlannerInput::ObservedBlock {
                block,
                is_newest,
                is_complete,
            } => self.block_observed(block, is_newest, is_complete),
            PlannerInput::Account(response) => self.account(response),
            PlannerInput::Prices(response) => self.chain.set_prices(self.now, response),
            PlannerInput::Simulated(id, response) => self.simulated(id, response, &mut out),
            PlannerInput::Sent(id, response) => self.sent(id, response, &mut out),
            PlannerInput::Found(id, response) => self.found(id, response, &mut out),
            PlannerInput::Object(id, response) => self.object_fetched(id, response, &mut out),
            PlannerInput::Tick => {}
            PlannerInput::Stop => self.stop(&mut out),
        }
        self.pump(&mut out);
        out
    }

    /// Returns true if no call is queued and no transaction is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.flights.is_empty()
    }

    /// Returns the number of queued calls and the number of transactions in flight.
    pub(super) fn load(&self) -> (usize, usize) {
        (self.queue.len(), self.flights.len())
    }

    pub(super) fn is_under_way(&self, id: FlightId) -> bool {
        self.flights.contains_key(&id)
    }

    fn submit(&mut self, ticket: Ticket, msgs: Vec<Msg>, out: &mut Vec<PlannerAction>) {
        let refused = if self.stopped {
            Some((
                ErrorKind::Stopped,
                "transaction writer is stopped, not sent".to_owned(),
            ))
        } else if msgs.is_empty() {
            Some((
                ErrorKind::Invalid,
                "a transaction needs at least one message".to_owned(),
            ))
        } else if let Some(why) = unfit(&msgs) {
            Some((ErrorKind::Invalid, why.to_owned()))
        } else if self.queue.len() >= self.config.queue_max {
            let waiting = self.config.queue_max;
            Some((
                ErrorKind::Unavailable,
                format!("{waiting} calls are queued, not sent"),
            ))
        } else {
            None
        };
        if let Some((kind, message)) = refused {
            out.push(PlannerAction::Reply(ticket, Err(failure(kind, message))));
            return;
        }
        if self.is_idle() {
            // An idle planner does not query blocks. An old block time would result in an early timeout.
            self.chain.clear_old_tip(self.now, self.config.tip_max);
        }
        let request = QueuedMsgs {
            ticket,
            msgs: msgs.into(),
            since: self.now,
            alone: false,
        };
        self.enqueue(request);
    }

    fn enqueue(&mut self, request: QueuedMsgs) {
        // The most urgent message determines the priority.
        let priority = request.msgs.iter().map(Msg::priority).min().unwrap_or(u8::MAX);
        self.queue.insert((priority, request.ticket), request);
    }

    /// Removes a call before its transaction is sent, and returns true. Returns false if a node may have the
    /// transaction.
    pub(super) fn withdraw(&mut self, ticket: Ticket) -> bool {
        let before = self.queue.len();
        self.queue.retain(|_, r| r.ticket != ticket);
        let mut is_withdrawn = self.queue.len() < before;
        // A transaction that may have been sent remains: later transactions depend on its outcome.
        for flight in self.flights.values_mut().filter(|f| !f.may_have_been_sent()) {
            let before = flight.members.len();
            flight.members.retain(|m| m.ticket != ticket);
            is_withdrawn |= flight.members.len() < before;
        }
        self.flights.retain(|_, f| !f.members.is_empty());
        is_withdrawn
    }

    /// Stops the planner and replies to all calls. The reply is an unknown outcome if the transaction may
    /// have been sent, and an error otherwise.
    fn stop(&mut self, out: &mut Vec<PlannerAction>) {
        self.stopped = true;
        let stopped = || {
            failure(
                ErrorKind::Stopped,
                "transaction writer is stopped, not sent".to_owned(),
            )
        };
        for request in std::mem::take(&mut self.queue).into_values() {
            out.push(PlannerAction::Reply(request.ticket, Err(stopped())));
        }
        for flight in std::mem::take(&mut self.flights).into_values() {
            let outcome = flight.unknown().ok_or_else(stopped);
            let replies = flight
                .members
                .iter()
                .map(|m| PlannerAction::Reply(m.ticket, outcome.clone()));
            out.extend(replies);
        }
    }
}

/// Returns the reason why these messages cannot share a transaction, or `None` for a valid combination.
fn unfit(msgs: &[Msg]) -> Option<&'static str> {
    let bids = msgs.iter().any(|m| matches!(m, Msg::CreateBid { .. }));
    if bids && msgs.len() > 1 {
        return Some(
            "a bid must be the only message of a transaction: one closed order would revert the other bids",
        );
    }
    let mut deployments: Vec<_> = withdrawn(msgs).collect();
    let all = deployments.len();
    deployments.sort();
    deployments.dedup();
    (deployments.len() < all)
        .then_some("two withdrawals of one deployment cannot share a transaction, because the chain panics")
}

fn withdrawn(msgs: &[Msg]) -> impl Iterator<Item = &DeploymentId> {
    msgs.iter().filter_map(|m| match m {
        Msg::WithdrawLease { id } => Some(id.deployment()),
        _ => None,
    })
}

/// Creates the error for a transaction that cannot take effect: the transaction was not sent, or has expired.
fn failure(kind: ErrorKind, message: String) -> Failure {
    Failure {
        kind,
        transient: kind == ErrorKind::Unavailable,
        message: format!("broadcast: {message}"),
    }
}
