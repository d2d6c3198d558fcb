//! What to send next: the writer's state machine, without a socket and without a clock.
//!
//! ```text
//!  Submit ─▶ queue ─▶ Estimating ─▶ Ready ─▶ Sending ─▶ Waiting ─▶ Checking ─▶ reply
//!              │  by      │ refused    ▲        │ refused   │ found     │ looked at after
//!              │ priority ▼            │        ▼           ▼           ▼ its expiry
//!              │       Judging      wait, or Rejected    Committed   Committed, never
//!              └─ shared withdrawals that fail go back, one by one    landed, or Unknown
//! ```
//! Rules:
//! - A bid never shares a transaction. Withdrawals of different deployments may; two of one deployment are never
//!   under way together, because the network panics on the second one in a block.
//! - A draft that may have reached a node is sent again as the same bytes or not at all, until it is found or
//!   can no longer land. Only then is it replaced.
//! - What would cost more than the ceilings allow waits, is estimated and priced anew, and says why.
//! - `Err` means that it was certainly not sent, or can certainly not land any more.

mod answers;
#[cfg(test)]
mod explore;
mod flight;
mod known;
mod next;
mod status;
#[cfg(test)]
mod tests;

use super::api::{Included, Simulation, Submission};
use super::standing::Standing;
use crate::gas::{Estimates, GasConfig, Spent};
use crate::sequence::{Expiry, Sequencer};
use crate::signer::{Ordering, Price};
use akash_provider_core::chain::{Account, SyncInfo};
use akash_provider_core::error::{ErrorKind, Failure};
use akash_provider_core::types::{DecCoin, Denom, DeploymentId, Mono, Msg, TxOutcome};
use flight::Flight;
use known::Known;
pub use status::{Nonces, WriterStatus};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A call of the port that waits for its outcome.
pub(super) type Ticket = u64;
/// A transaction under way.
pub(super) type FlightId = u64;

/// How long things may take, and how many there may be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PlannerConfig {
    /// The chain that is expected.
    pub chain_id: String,
    /// What is paid for gas, and what is never paid.
    pub gas: GasConfig,
    /// Calls that may wait; a thousand orders in a block are not too many.
    pub queue_max: usize,
    /// Transactions under way together.
    pub flights_max: usize,
    /// Simulations under way together.
    pub simulations_max: usize,
    /// Withdrawals that share a transaction.
    pub shared_max: usize,
    /// How long a withdrawal waits for others to share its transaction.
    pub shared_wait: Duration,
    /// A call that could not be sent within this ends as an error.
    pub unsent_max: Duration,
    /// A call whose outcome is not known within this ends as unknown.
    pub outcome_max: Duration,
    /// Time between two questions for the newest block while something is under way.
    pub poll: Duration,
    /// The same while blocks are told: longer than a block takes.
    pub told_poll: Duration,
    /// Oldest block time that a first transaction is made with.
    pub tip_max: Duration,
    /// Blocks after which an accepted transaction that is in none of them is sent again.
    pub resend_blocks: u64,
    /// Blocks by which a node behind a load balancer may lag.
    pub lag_blocks: u64,
    /// Use sequences from the start.
    pub ordered: bool,
}

impl PlannerConfig {
    /// The usual limits on a chain.
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
            told_poll: Duration::from_secs(10),
            tip_max: Duration::from_secs(5),
            resend_blocks: 3,
            lag_blocks: 4,
            ordered: false,
        }
    }
}

/// A transaction to be signed. The same draft gives the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Draft {
    /// Its messages, in the order of its calls.
    pub msgs: Arc<[Msg]>,
    /// Its nonce: a timeout, or a sequence.
    pub ordering: Ordering,
    /// When it can no longer land.
    pub expiry: Expiry,
    /// What it costs, and who pays.
    pub price: Price,
    /// Number of the signing account.
    pub account_number: u64,
}

impl Draft {
    /// Returns what the signer pays by denomination: the fee, unless a grant pays it, and the deposits of bids.
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

/// What the planner is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    /// Send these as one transaction.
    Submit {
        /// Whose answer it is.
        ticket: Ticket,
        /// The messages as the caller gave them.
        msgs: Vec<Msg>,
    },
    /// Nobody waits for the answer any more: what was not sent need not be.
    Forget {
        /// Ticket of the request.
        ticket: Ticket,
    },
    /// The newest block, as a node answers.
    Block(Result<SyncInfo, Failure>),
    /// A block as the chain's follower tells it. What is in it has been told by `Found` before.
    Seen {
        /// Its height and time, and the chain that it is of.
        block: SyncInfo,
        /// No node is known to have a later one.
        is_newest: bool,
        /// All its transactions were looked through.
        is_complete: bool,
    },
    /// The signing account; `None` when the chain does not know it.
    Account(Result<Option<Account>, Failure>),
    /// What nodes ask for gas.
    Prices(Result<Vec<DecCoin>, Failure>),
    /// What came of a simulation: gas, or a refusal.
    Simulated(FlightId, Result<Simulation, Failure>),
    /// What came of a send; after an error it may have been sent.
    Sent(FlightId, Result<Submission, Failure>),
    /// A search by hash.
    Found(FlightId, Result<Option<Included>, Failure>),
    /// A look at the object.
    Looked(FlightId, Result<Standing, Failure>),
    /// Time has passed: what is due is done.
    Tick,
    /// Nothing more is sent.
    Stop,
}

/// What the planner wants done. Each is answered by the input of the same name, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Ask for the newest block.
    FetchBlock,
    /// Ask for the signing account.
    FetchAccount,
    /// Ask what gas costs.
    FetchPrices,
    /// Try a transaction without sending it.
    Simulate(FlightId, Draft),
    /// Send a transaction; for the same draft the same bytes.
    Send(FlightId, Draft),
    /// Search for a transaction that was sent.
    Find(FlightId, Draft),
    /// Look at the object of a message.
    Look(FlightId, Msg),
    /// Answer a call; no other answer follows.
    Reply(Ticket, Result<TxOutcome, Failure>),
}

/// A call that waits to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Request {
    ticket: Ticket,
    msgs: Arc<[Msg]>,
    since: Mono,
    /// It failed in a batch: it goes alone.
    alone: bool,
}

/// Half a second, doubled with every failure in a row, at most eight.
fn backoff(failures: u32) -> Duration {
    Duration::from_millis(500 << failures.saturating_sub(1).min(4))
}

/// The state machine. Time comes with each input, answers come as inputs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Planner {
    config: Arc<PlannerConfig>,
    now: Mono,
    stopped: bool,
    queue: BTreeMap<(u8, Ticket), Request>,
    flights: BTreeMap<FlightId, Flight>,
    last_flight: FlightId,
    /// Deployments with a withdrawal of unknown outcome, until it can no longer land.
    unresolved: Vec<(Expiry, DeploymentId)>,
    known: Known,
    sequencer: Sequencer,
    /// A node has taken or simulated a transaction of the kind in use.
    proven: bool,
    estimates: Estimates,
    spent: Spent,
}

impl Planner {
    /// A planner that knows nothing yet; `salt` is any number, another one in each process.
    #[must_use]
    pub(super) fn new(config: PlannerConfig, salt: u32) -> Self {
        let mut sequencer = Sequencer::new(salt);
        if config.ordered {
            sequencer.fall_back();
        }
        Self {
            config: Arc::new(config),
            now: Mono::default(),
            stopped: false,
            queue: BTreeMap::new(),
            flights: BTreeMap::new(),
            last_flight: 0,
            unresolved: Vec::new(),
            known: Known::default(),
            sequencer,
            proven: false,
            estimates: Estimates::default(),
            spent: Spent::default(),
        }
    }

    /// The same, where this was paid in the last hour already.
    #[must_use]
    pub(super) fn with_spent(mut self, spent: Spent) -> Self {
        self.spent = spent;
        self
    }

    /// What was paid in the last hour.
    #[must_use]
    pub(super) const fn spent(&self) -> &Spent {
        &self.spent
    }

    /// Takes an input; what is to be done now.
    pub(super) fn step(&mut self, now: Mono, input: Input) -> Vec<Action> {
        // Time never goes back in here, whatever the caller's clock does.
        self.now = self.now.max(now);
        let mut out = Vec::new();
        match input {
            Input::Submit { ticket, msgs } => self.submit(ticket, msgs, &mut out),
            Input::Forget { ticket } => {
                self.withdraw(ticket);
            }
            Input::Block(answer) => self.known.block(self.now, &self.config, answer),
            Input::Seen {
                block,
                is_newest,
                is_complete,
            } => self.seen(block, is_newest, is_complete),
            Input::Account(answer) => self.account(answer),
            Input::Prices(answer) => self.known.prices_answered(self.now, answer),
            Input::Simulated(id, answer) => self.simulated(id, answer, &mut out),
            Input::Sent(id, answer) => self.sent(id, answer, &mut out),
            Input::Found(id, answer) => self.found(id, answer, &mut out),
            Input::Looked(id, answer) => self.looked(id, answer, &mut out),
            Input::Tick => {}
            Input::Stop => self.stop(&mut out),
        }
        self.pump(&mut out);
        out
    }

    /// True when nothing waits and nothing is under way: no node is asked anything.
    #[must_use]
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.flights.is_empty()
    }

    /// Calls that wait, and transactions under way.
    #[must_use]
    pub(super) fn load(&self) -> (usize, usize) {
        (self.queue.len(), self.flights.len())
    }

    /// True while this transaction is under way.
    pub(super) fn is_under_way(&self, id: FlightId) -> bool {
        self.flights.contains_key(&id)
    }

    fn submit(&mut self, ticket: Ticket, msgs: Vec<Msg>, out: &mut Vec<Action>) {
        let refused = if self.stopped {
            Some((
                ErrorKind::Stopped,
                "the writer has stopped; nothing was sent".to_owned(),
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
                format!("{waiting} messages wait already; nothing was sent"),
            ))
        } else {
            None
        };
        if let Some((kind, message)) = refused {
            out.push(Action::Reply(ticket, Err(failure(kind, message))));
            return;
        }
        if self.is_idle() {
            // While nothing was to be done nobody was asked; an old time would give an old timeout.
            self.known.forget_old_tip(self.now, self.config.tip_max);
        }
        let request = Request {
            ticket,
            msgs: msgs.into(),
            since: self.now,
            alone: false,
        };
        self.enqueue(request);
    }

    fn enqueue(&mut self, request: Request) {
        // The most urgent message decides for all.
        let priority = request.msgs.iter().map(Msg::priority).min().unwrap_or(u8::MAX);
        self.queue.insert((priority, request.ticket), request);
    }

    /// Takes a request back. Returns false for one that may have been sent.
    pub(super) fn withdraw(&mut self, ticket: Ticket) -> bool {
        let before = self.queue.len();
        self.queue.retain(|_, r| r.ticket != ticket);
        let mut is_withdrawn = self.queue.len() < before;
        // What may have been sent goes on: its outcome still matters to what comes after it.
        for flight in self.flights.values_mut().filter(|f| !f.may_have_been_sent()) {
            let before = flight.members.len();
            flight.members.retain(|m| m.ticket != ticket);
            is_withdrawn |= flight.members.len() < before;
        }
        self.flights.retain(|_, f| !f.members.is_empty());
        is_withdrawn
    }

    /// Ends everything: what may have been sent is unknown, the rest was not sent.
    fn stop(&mut self, out: &mut Vec<Action>) {
        self.stopped = true;
        let stopped = || {
            failure(
                ErrorKind::Stopped,
                "the writer has stopped; it was not sent".to_owned(),
            )
        };
        for request in std::mem::take(&mut self.queue).into_values() {
            out.push(Action::Reply(request.ticket, Err(stopped())));
        }
        for flight in std::mem::take(&mut self.flights).into_values() {
            let outcome = flight.unknown().ok_or_else(stopped);
            let replies = flight
                .members
                .iter()
                .map(|m| Action::Reply(m.ticket, outcome.clone()));
            out.extend(replies);
        }
    }
}

/// Why messages cannot be one transaction.
fn unfit(msgs: &[Msg]) -> Option<&'static str> {
    let bids = msgs.iter().any(|m| matches!(m, Msg::CreateBid { .. }));
    if bids && msgs.len() > 1 {
        return Some("a bid goes alone: one closed order would revert every bid of the transaction");
    }
    let mut deployments: Vec<_> = withdrawn(msgs).collect();
    let all = deployments.len();
    deployments.sort();
    deployments.dedup();
    (deployments.len() < all)
        .then_some("two withdrawals of one deployment cannot be in one block, so not in one transaction")
}

/// Deployments that messages withdraw from.
fn withdrawn(msgs: &[Msg]) -> impl Iterator<Item = &DeploymentId> {
    msgs.iter().filter_map(|m| match m {
        Msg::WithdrawLease { id } => Some(id.deployment()),
        _ => None,
    })
}

/// An error of the port: certainly not sent, or certainly never to land.
fn failure(kind: ErrorKind, message: String) -> Failure {
    Failure {
        kind,
        transient: kind == ErrorKind::Unavailable,
        message: format!("broadcast: {message}"),
    }
}
