//! Task that executes the actions of the planner: it signs, calls nodes and replies to callers.

use super::api::{IncludedTx, Simulation, TxApi};
use super::planner::{FlightId, Planner, PlannerAction, PlannerConfig, PlannerInput, Ticket, WriterStatus};
use super::sent::SentReceipts;
use super::statistics::{MessageOutcome, TxCounters, TxStatistics};
use super::tx_signer::TxSigner;
use crate::gas::{Ceilings, ExpenseStore, Expenses};
use crate::lock::lock;
use crate::signer::TxHash;
use akash_provider_core::chain::{ChainTx, SyncInfo};
use akash_provider_core::error::{Error, ErrorKind, Failure};
use akash_provider_core::types::{Address, Coin, Denom, Mono, Msg, TxOutcome, TxReceipt};
use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Capacity of the inbox for calls and blocks.
const INBOX: usize = 1024;
/// Maximum time of one call to a node. The limits of the endpoints are normally shorter.
const CALL_MAX: Duration = Duration::from_secs(30);
/// The writer stores at most `max(HASHES_MIN, 4 × transactions in flight)` transaction hashes.
const HASHES_MIN: usize = 256;

type CallResult = Result<TxOutcome, Failure>;

/// Channel for the result of a call.
type ResultSender = oneshot::Sender<CallResult>;

enum Command {
    Submit(Ticket, Vec<Msg>, ResultSender),
    Cancel(Ticket),
    Block(ObservedBlock),
}

/// Returns the error of a transaction that was not sent.
fn not_permitted() -> Failure {
    Failure::transient(
        ErrorKind::Unavailable,
        "transaction not sent: another instance may be the leader",
    )
}

/// Block that the event follower reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedBlock {
    /// Chain id, height and time of the block.
    pub block: SyncInfo,
    /// True if no node has reported a later block.
    pub is_newest: bool,
    /// All transactions of the block. `None` if the transactions are unknown.
    pub included: Option<Vec<(TxHash, IncludedTx)>>,
}

/// Transaction writer. Clones share the task, the key and the counters.
#[derive(Debug, Clone)]
pub struct TxWriter {
    inbox: mpsc::Sender<Command>,
    tickets: Arc<AtomicU64>,
    status: Arc<Mutex<WriterStatus>>,
    counters: Arc<TxCounters>,
    sent: Arc<Mutex<SentReceipts>>,
}

/// Guard that reports a dropped caller to the task.
struct DropGuard<'a> {
    writer: &'a TxWriter,
    ticket: Ticket,
    /// Names of the messages in the call.
    names: Vec<&'static str>,
    has_outcome: bool,
}

impl Drop for DropGuard<'_> {
    fn drop(&mut self) {
        if !self.has_outcome {
            self.writer.counters.count(&self.names, MessageOutcome::Abandoned);
            // If the inbox is full, the call ends at its time limit.
            drop(self.writer.inbox.try_send(Command::Cancel(self.ticket)));
        }
    }
}

impl TxWriter {
    /// Creates a writer for one account, and its task. The caller runs the task.
    ///
    /// The task ends when `stop` is cancelled or all writers are dropped. Unfinished calls then fail. If a
    /// node may have the transaction of a call, the outcome is [`TxOutcome::Unknown`] instead.
    ///
    /// The fees in `expenses` count towards the hourly ceiling.
    #[must_use]
    pub fn new(
        api: Arc<dyn TxApi>,
        signer: TxSigner,
        config: PlannerConfig,
        expenses: Arc<dyn ExpenseStore>,
        stop: CancellationToken,
    ) -> (Self, BoxFuture<'static, ()>) {
        let (inbox, commands) = mpsc::channel(INBOX);
        let task = Task::new(api, signer, config, expenses);
        let writer = Self {
            inbox,
            tickets: Arc::default(),
            status: Arc::clone(&task.status),
            counters: Arc::clone(&task.counters),
            sent: Arc::clone(&task.sent),
        };
        (writer, Box::pin(task.run(commands, stop)))
    }

    /// Reports a block to the writer. The writer searches the block for sent transactions, and does not need
    /// to query nodes.
    pub fn observe_block(&self, seen: ObservedBlock) {
        drop(self.inbox.try_send(Command::Block(seen)));
    }

    /// Returns the status of the writer after its last event.
    #[must_use]
    pub fn status(&self) -> WriterStatus {
        lock(&self.status).clone()
    }

    /// Returns the counters of transactions.
    #[must_use]
    pub fn statistics(&self) -> TxStatistics {
        self.counters.statistics()
    }
}

#[async_trait]
impl ChainTx for TxWriter {
    async fn broadcast_msgs(&self, msgs: Vec<Msg>) -> Result<TxOutcome, Error> {
        const OPERATION: &str = "broadcast";
        let stopped = || {
            Error::new(
                ErrorKind::Stopped,
                OPERATION,
                "transaction writer is stopped, not sent",
            )
        };
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let (reply, response) = oneshot::channel();
        // Created before the first await: if the future is dropped later, the guard notifies the task.
        let mut waiting = DropGuard {
            writer: self,
            ticket,
            names: msgs.iter().map(Msg::name).collect(),
            has_outcome: false,
        };
        lock(&self.sent).clear(&msgs);
        let began = Instant::now();
        let sent = self.inbox.send(Command::Submit(ticket, msgs, reply)).await;
        if sent.is_err() {
            waiting.has_outcome = true;
            self.counters.count(&waiting.names, MessageOutcome::NotSent);
            return Err(stopped());
        }
        let response = response.await;
        waiting.has_outcome = true;
        match &response {
            Ok(result) => self
                .counters
                .count_outcome(&waiting.names, result, began.elapsed()),
            Err(_) => self.counters.count(&waiting.names, MessageOutcome::Unknown),
        }
        match response {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(failure)) => {
                let error = Error::new(failure.kind, OPERATION, failure.message);
                Err(if failure.transient {
                    error.transient()
                } else {
                    error.permanent()
                })
            }
            // The task panicked or was dropped, so the outcome is unknown.
            Err(_) => Err(Error::new(
                ErrorKind::Timeout,
                OPERATION,
                "transaction writer ended without a reply",
            )),
        }
    }

    fn receipt_of(&self, message: &Msg) -> Option<TxReceipt> {
        lock(&self.sent).get(message)
    }
}

struct Task {
    status: Arc<Mutex<WriterStatus>>,
    counters: Arc<TxCounters>,
    sent: Arc<Mutex<SentReceipts>>,
    api: Arc<dyn TxApi>,
    signer: TxSigner,
    chain_id: Arc<str>,
    ceilings: Ceilings,
    planner: Planner,
    expenses: Arc<dyn ExpenseStore>,
    /// True if the last attempt to store the gas and fees failed. The failure was already logged.
    has_store_failed: bool,
    began: Instant,
    replies: BTreeMap<Ticket, ResultSender>,
    /// Hashes of sent transactions that a block can still include.
    hashes: HashMap<TxHash, FlightId>,
    calls: FuturesUnordered<BoxFuture<'static, PlannerInput>>,
}

impl Task {
    fn new(
        api: Arc<dyn TxApi>,
        signer: TxSigner,
        config: PlannerConfig,
        expenses: Arc<dyn ExpenseStore>,
    ) -> Self {
        let mut salt = [0; 4];
        if let Err(error) = getrandom::fill(&mut salt) {
            // Two processes with the same key could then choose the same nonce. This is rare. The chain refuses the
            // second transaction, which is sent again with another nonce.
            tracing::warn!(%error, "operating system returned no random bytes for transaction nonces, using fixed bytes; run no other process with the same key");
        }
        let stored = expenses.load().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot load the fees of the last hour, so the hourly fee limit counts from 0: check the home directory");
            Vec::new()
        });
        let planner = Planner::new(config.clone(), u32::from_le_bytes(salt));
        Self {
            status: Arc::default(),
            counters: Arc::default(),
            sent: Arc::default(),
            api,
            signer,
            chain_id: config.chain_id.as_str().into(),
            ceilings: config.gas.ceilings,
            planner: planner.with_expenses(Expenses::from_stored(today(), stored)),
            expenses,
            has_store_failed: false,
            began: Instant::now(),
            replies: BTreeMap::new(),
            hashes: HashMap::new(),
            calls: FuturesUnordered::new(),
        }
    }

    async fn run(mut self, mut commands: mpsc::Receiver<Command>, stop: CancellationToken) {
        while self.turn(&mut commands, &stop).await {}
        self.step(PlannerInput::Stop);
    }

    /// Waits for an event and handles it. Returns false when the task must end.
    async fn turn(&mut self, commands: &mut mpsc::Receiver<Command>, stop: &CancellationToken) -> bool {
        let deadline = self.planner.next_deadline();
        let until = deadline.map(|at| self.began + Duration::from_millis(at.0));
        let inputs = tokio::select! {
            biased;
            () = stop.cancelled() => return false,
            command = commands.recv() => match command {
                Some(command) => self.read(command),
                None => return false,
            },
            Some(input) = self.calls.next() => vec![input],
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => vec![PlannerInput::Tick],
        };
        for input in inputs {
            self.step(input);
        }
        true
    }

    fn read(&mut self, command: Command) -> Vec<PlannerInput> {
        match command {
            Command::Submit(_, _, reply) if self.signer.permit().is_none() => {
                // The receiver may have been dropped.
                drop(reply.send(Err(not_permitted())));
                Vec::new()
            }
            Command::Submit(ticket, msgs, reply) => {
                self.replies.insert(ticket, reply);
                vec![PlannerInput::Submit { ticket, msgs }]
            }
            Command::Cancel(ticket) => {
                self.replies.remove(&ticket);
                vec![PlannerInput::Cancel { ticket }]
            }
            Command::Block(seen) => {
                let is_complete = seen.included.is_some();
                let included = seen.included.into_iter().flatten();
                let found = included.filter_map(|(hash, included)| {
                    let flight = self.hashes.get(&hash)?;
                    Some(PlannerInput::Found(*flight, Ok(Some(included))))
                });
                let mut inputs: Vec<PlannerInput> = found.collect();
                // After the transactions in the block: this input states that the block contains no others.
                inputs.push(PlannerInput::ObservedBlock {
                    block: seen.block,
                    is_newest: seen.is_newest,
                    is_complete,
                });
                inputs
            }
        }
    }

    /// If this instance has no permit to send, refuses all unsent calls. The leadership can end while the
    /// process is suspended.
    fn withdraw(&mut self) {
        if self.signer.permit().is_some() {
            return;
        }
        let unsent: Vec<Ticket> = self.replies.keys().copied().collect();
        for ticket in unsent {
            if self.planner.withdraw(ticket)
                && let Some(reply) = self.replies.remove(&ticket)
            {
                drop(reply.send(Err(not_permitted())));
            }
        }
    }

    fn step(&mut self, input: PlannerInput) {
        self.withdraw();
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.count(&input);
        let actions = self.planner.step(Mono(now), input);
        // Stored before sending: after a crash, uncounted fees could be paid again.
        if actions
            .iter()
            .any(|action| matches!(action, PlannerAction::Send(..)))
        {
            self.store_expenses(Mono(now));
        }
        for action in actions {
            self.act(action);
        }
        // With a slow node, the planner is possibly never idle.
        if self.hashes.len() > HASHES_MIN.max(4 * self.planner.load().1) {
            let planner = &self.planner;
            self.hashes.retain(|_, id| planner.is_under_way(*id));
        }
        *lock(&self.status) = self.planner.status();
    }

    fn count(&self, input: &PlannerInput) {
        match input {
            PlannerInput::Sent(_, response) => self.counters.count_response(response),
            PlannerInput::Found(id, Ok(Some(included))) => {
                if let Some(price) = self.planner.price_of(*id, included) {
                    self.counters.count_included(included, price);
                }
            }
            _ => {}
        }
    }

    /// Stores the gas and fees of the last hour, so that the hourly limit survives a restart. Logs only the
    /// first of several consecutive failures.
    fn store_expenses(&mut self, now: Mono) {
        let stored = self
            .expenses
            .store(self.planner.expenses().to_minutes(now, today()));
        if let Err(error) = &stored
            && !self.has_store_failed
        {
            tracing::warn!(%error, "cannot store the fees of the last hour, so the hourly fee limit counts from 0 after a restart: check the home directory");
        }
        self.has_store_failed = stored.is_err();
    }

    fn act(&mut self, action: PlannerAction) {
        let api = Arc::clone(&self.api);
        let address = self.signer.address().clone();
        let call: BoxFuture<'static, PlannerInput> = match action {
            PlannerAction::Reply(ticket, outcome) => {
                if let Some(reply) = self.replies.remove(&ticket) {
                    // The caller may have been dropped. This does not affect the transaction.
                    drop(reply.send(outcome));
                }
                return;
            }
            PlannerAction::FetchBlock => {
                Box::pin(async move { PlannerInput::Block(within(api.sync_info()).await) })
            }
            PlannerAction::FetchAccount => {
                Box::pin(async move { PlannerInput::Account(within(api.account(&address)).await) })
            }
            PlannerAction::FetchPrices => {
                Box::pin(async move { PlannerInput::Prices(within(api.min_gas_prices()).await) })
            }
            PlannerAction::Simulate(id, draft) => {
                let Some(permit) = self.signer.permit() else {
                    self.calls.push(Box::pin(async move {
                        PlannerInput::Simulated(id, Err(not_permitted()))
                    }));
                    return;
                };
                let tx = self.signer.sign(&draft, &self.chain_id, &permit);
                // If a node reports more gas, a second node is queried, to detect a false value before paying.
                let most = self.ceilings.for_messages(&draft.msgs).gas;
                let (costs, fee) = (draft.costs(), draft.price.fee.clone());
                Box::pin(async move {
                    let simulated = within(api.simulate_below(tx.bytes, most)).await;
                    PlannerInput::Simulated(
                        id,
                        explain_refusal(&*api, &address, (&costs, &fee), simulated).await,
                    )
                })
            }
            PlannerAction::Send(id, draft) => {
                let Some(permit) = self.signer.permit() else {
                    // Not refused: an earlier attempt may have sent the transaction, so the planner searches for it.
                    self.calls.push(Box::pin(
                        async move { PlannerInput::Sent(id, Err(not_permitted())) },
                    ));
                    return;
                };
                let tx = self.signer.sign(&draft, &self.chain_id, &permit);
                // Stored before the response: a block may contain the transaction earlier.
                self.hashes.insert(tx.hash, id);
                lock(&self.sent).insert(&draft.msgs, tx.hash, &draft.price.fee);
                self.counters.count_submission();
                tracing::debug!(hash = %tx.hash, messages = draft.msgs.len(), "sending transaction");
                Box::pin(async move { PlannerInput::Sent(id, within(api.broadcast(tx.bytes)).await) })
            }
            PlannerAction::Find(id, draft) => {
                let hash = self.signer.hash(&draft, &self.chain_id);
                Box::pin(async move { PlannerInput::Found(id, within(api.find(&hash)).await) })
            }
            PlannerAction::FetchObject(id, msg) => {
                Box::pin(async move { PlannerInput::Object(id, within(api.object_state(&msg)).await) })
            }
        };
        self.calls.push(call);
    }
}

/// Returns the current minute since the Unix epoch.
fn today() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() / 60
}

/// Checks whether a simulation was refused for lack of funds. Nodes return no error code for this case.
async fn explain_refusal(
    api: &dyn TxApi,
    address: &Address,
    (costs, fee): (&BTreeMap<Denom, u128>, &Coin),
    simulated: Result<Simulation, Failure>,
) -> Result<Simulation, Failure> {
    let Ok(Simulation::Refused { log }) = simulated else {
        return simulated;
    };
    for (denom, cost) in costs {
        // An unreadable balance is ignored.
        if let Ok(coin) = within(api.balance(address, denom)).await
            && coin.amount < *cost
        {
            let is_fee = *denom == fee.denom && coin.amount < fee.amount;
            return Ok(Simulation::Unpaid { log, is_fee });
        }
    }
    Ok(Simulation::Refused { log })
}

async fn within<T>(question: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
    match timeout(CALL_MAX, question).await {
        Ok(response) => response.map_err(|e| e.to_failure()),
        Err(_) => Err(Failure::transient(
            ErrorKind::Timeout,
            format!("no response within {CALL_MAX:?}"),
        )),
    }
}

#[cfg(test)]
mod tests;
