//! The writer's shell: one task that signs what the planner wants sent, asks the node, and answers the callers.

use super::api::{Included, Simulation, TxApi};
use super::planner::{Action, Draft, FlightId, Input, Planner, PlannerConfig, Ticket, WriterStatus};
use crate::convert::to_any;
use crate::gas::{Ceilings, Spent, SpentStore};
use crate::lock::lock;
use crate::private_key::PrivateKey;
use crate::signer::{Account, SignedTx, TxHash, sign};
use akash_provider_core::chain::{ChainTx, SyncInfo};
use akash_provider_core::error::{Error, ErrorKind, Failure};
use akash_provider_core::types::{Address, Coin, Denom, Mono, Msg, TxOutcome};
use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Calls and blocks that wait for the task; it takes them in microseconds.
const INBOX: usize = 1024;
/// No question to a node takes longer; the endpoints have shorter limits of their own.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Hashes that are kept at least before those of transactions that have ended are thrown away.
const HASHES_MIN: usize = 256;

type Answer = Result<TxOutcome, Failure>;

enum Note {
    Submit(Ticket, Vec<Msg>, Reply),
    Forget(Ticket),
    Block(SeenBlock),
}

/// A caller that waits for its outcome.
struct Reply {
    sender: oneshot::Sender<Answer>,
    fence: Option<Fence>,
}

impl Reply {
    fn is_shut(&self) -> bool {
        self.fence.as_ref().is_some_and(|Fence(may_send)| !may_send())
    }

    /// Reports that nothing was sent.
    fn refuse(self) {
        let failure = Failure {
            kind: ErrorKind::Unavailable,
            transient: true,
            message: "nothing was sent: another instance may lead by now".to_owned(),
        };
        // The caller may have been dropped.
        drop(self.sender.send(Err(failure)));
    }
}

/// Permission to send, which ends with a leadership.
#[derive(Clone)]
pub(crate) struct Fence(Arc<dyn Fn() -> bool + Send + Sync>);

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fence")
    }
}

impl Fence {
    pub(crate) fn new(may_send: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(may_send))
    }
}

/// A block, as whoever follows the chain sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenBlock {
    /// Its height and time, and the chain that it is of.
    pub block: SyncInfo,
    /// No node is known to have a later one.
    pub is_newest: bool,
    /// All its transactions; `None` where they are not known.
    pub included: Option<Vec<(TxHash, Included)>>,
}

/// Sends messages. A clone uses the same task, key and counters.
#[derive(Debug, Clone)]
pub struct TxWriter {
    inbox: mpsc::Sender<Note>,
    tickets: Arc<AtomicU64>,
    status: Arc<Mutex<WriterStatus>>,
}

/// Tells the task that nobody waits any more.
struct Waiting<'a> {
    writer: &'a TxWriter,
    ticket: Ticket,
    answered: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.answered {
            // When the inbox is full the message ends by its own time limit.
            drop(self.writer.inbox.try_send(Note::Forget(self.ticket)));
        }
    }
}

impl TxWriter {
    /// A writer for one key, and its task: run it until it ends. It ends when `stop` is cancelled or every writer is
    /// dropped; what may have been sent is then unknown, the rest was not sent. What `spent` knows of the last hour
    /// counts towards its ceilings.
    #[must_use]
    pub fn new(
        api: Arc<dyn TxApi>,
        key: PrivateKey,
        config: PlannerConfig,
        spent: Arc<dyn SpentStore>,
        stop: CancellationToken,
    ) -> (Self, BoxFuture<'static, ()>) {
        let (inbox, notes) = mpsc::channel(INBOX);
        let task = Task::new(api, key, config, spent);
        let writer = Self {
            inbox,
            tickets: Arc::default(),
            status: Arc::clone(&task.status),
        };
        (writer, Box::pin(task.run(notes, stop)))
    }

    /// Tells of a block: outcomes are then known without asking. A block that is not told, or that a full inbox
    /// does not take, costs a question and nothing else.
    pub fn observe_block(&self, seen: SeenBlock) {
        drop(self.inbox.try_send(Note::Block(seen)));
    }

    /// What it does, as of the last thing that happened to it.
    #[must_use]
    pub fn status(&self) -> WriterStatus {
        lock(&self.status).clone()
    }
}

#[async_trait]
impl ChainTx for TxWriter {
    async fn broadcast_msgs(&self, msgs: Vec<Msg>) -> Result<TxOutcome, Error> {
        self.broadcast_fenced(msgs, None).await
    }
}

impl TxWriter {
    /// As [`ChainTx::broadcast_msgs`], for messages that are not signed any more once the fence is shut.
    pub(crate) async fn broadcast_fenced(
        &self,
        msgs: Vec<Msg>,
        fence: Option<Fence>,
    ) -> Result<TxOutcome, Error> {
        const OPERATION: &str = "broadcast";
        let gone = || {
            Error::new(
                ErrorKind::Stopped,
                OPERATION,
                "the writer has stopped; nothing was sent",
            )
        };
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        let reply = Reply { sender, fence };
        // Made before anything waits: dropped at any await below, it tells the task.
        let mut waiting = Waiting {
            writer: self,
            ticket,
            answered: false,
        };
        let sent = self.inbox.send(Note::Submit(ticket, msgs, reply)).await;
        sent.map_err(|_| gone())?;
        let answer = answer.await;
        waiting.answered = true;
        match answer {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(failure)) => {
                let error = Error::new(failure.kind, OPERATION, failure.message);
                Err(if failure.transient {
                    error.transient()
                } else {
                    error.permanent()
                })
            }
            // The task panicked or was dropped: what it had sent nobody knows.
            Err(_) => Err(Error::new(
                ErrorKind::Timeout,
                OPERATION,
                "the writer ended without an answer",
            )),
        }
    }
}

struct Task {
    status: Arc<Mutex<WriterStatus>>,
    api: Arc<dyn TxApi>,
    key: Arc<PrivateKey>,
    chain_id: Arc<str>,
    ceilings: Ceilings,
    planner: Planner,
    spent: Arc<dyn SpentStore>,
    /// What is paid could not be kept, and that was said.
    is_unkept: bool,
    began: Instant,
    replies: BTreeMap<Ticket, Reply>,
    /// Transactions that may be in a block.
    hashes: HashMap<TxHash, FlightId>,
    calls: FuturesUnordered<BoxFuture<'static, Input>>,
}

impl Task {
    fn new(api: Arc<dyn TxApi>, key: PrivateKey, config: PlannerConfig, spent: Arc<dyn SpentStore>) -> Self {
        let mut salt = [0; 4];
        if let Err(error) = getrandom::fill(&mut salt) {
            // Two processes with one key might then, rarely, choose the same nonce; the chain refuses the second
            // and it is sent again with another.
            tracing::warn!(%error, "no randomness from the system for the writer's nonces");
        }
        let kept = spent.load().unwrap_or_else(|error| {
            tracing::warn!(%error, "what was paid in the last hour is not known: its ceiling counts from now on");
            Vec::new()
        });
        let planner = Planner::new(config.clone(), u32::from_le_bytes(salt));
        Self {
            status: Arc::default(),
            api,
            key: Arc::new(key),
            chain_id: config.chain_id.as_str().into(),
            ceilings: config.gas.ceilings,
            planner: planner.with_spent(Spent::before(today(), kept)),
            spent,
            is_unkept: false,
            began: Instant::now(),
            replies: BTreeMap::new(),
            hashes: HashMap::new(),
            calls: FuturesUnordered::new(),
        }
    }

    async fn run(mut self, mut notes: mpsc::Receiver<Note>, stop: CancellationToken) {
        while self.turn(&mut notes, &stop).await {}
        self.step(Input::Stop);
    }

    /// Waits for the next thing and does what it calls for; false at the end.
    async fn turn(&mut self, notes: &mut mpsc::Receiver<Note>, stop: &CancellationToken) -> bool {
        let deadline = self.planner.next_deadline();
        let until = deadline.map(|at| self.began + Duration::from_millis(at.0));
        let inputs = tokio::select! {
            biased;
            () = stop.cancelled() => return false,
            note = notes.recv() => match note {
                Some(note) => self.read(note),
                None => return false,
            },
            Some(input) = self.calls.next() => vec![input],
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => vec![Input::Tick],
        };
        for input in inputs {
            self.step(input);
        }
        true
    }

    fn read(&mut self, note: Note) -> Vec<Input> {
        match note {
            Note::Submit(_, _, reply) if reply.is_shut() => {
                reply.refuse();
                Vec::new()
            }
            Note::Submit(ticket, msgs, reply) => {
                self.replies.insert(ticket, reply);
                vec![Input::Submit { ticket, msgs }]
            }
            Note::Forget(ticket) => {
                self.replies.remove(&ticket);
                vec![Input::Forget { ticket }]
            }
            Note::Block(seen) => {
                let is_complete = seen.included.is_some();
                let included = seen.included.into_iter().flatten();
                let found = included.filter_map(|(hash, included)| {
                    let flight = self.hashes.get(&hash)?;
                    Some(Input::Found(*flight, Ok(Some(included))))
                });
                let mut inputs: Vec<Input> = found.collect();
                // After what was found: this says that nothing else was in the block.
                inputs.push(Input::Seen {
                    block: seen.block,
                    is_newest: seen.is_newest,
                    is_complete,
                });
                inputs
            }
        }
    }

    /// Takes back what may not be sent any more. A process may have been stopped for long at any point before this one.
    fn withdraw(&mut self) {
        let replies = self.replies.iter();
        let shut = replies.filter(|(_, reply)| reply.is_shut());
        let shut: Vec<Ticket> = shut.map(|(ticket, _)| *ticket).collect();
        for ticket in shut {
            if self.planner.withdraw(ticket)
                && let Some(reply) = self.replies.remove(&ticket)
            {
                reply.refuse();
            }
        }
    }

    fn step(&mut self, input: Input) {
        self.withdraw();
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let actions = self.planner.step(Mono(now), input);
        // Before the send: what a crash leaves uncounted could be paid once more.
        if actions.iter().any(|action| matches!(action, Action::Send(..))) {
            self.keep_spent(Mono(now));
        }
        for action in actions {
            self.act(action);
        }
        // Before a slow node there may always be something under way.
        if self.hashes.len() > HASHES_MIN.max(4 * self.planner.load().1) {
            let planner = &self.planner;
            self.hashes.retain(|_, id| planner.is_under_way(*id));
        }
        *lock(&self.status) = self.planner.status();
    }

    /// Before anything is sent. One warning is enough for a disk that is full.
    fn keep_spent(&mut self, now: Mono) {
        let kept = self.spent.store(self.planner.spent().kept(now, today()));
        if let Err(error) = &kept
            && !self.is_unkept
        {
            tracing::warn!(%error, "what is paid is not kept: after a restart the hour's ceiling counts anew");
        }
        self.is_unkept = kept.is_err();
    }

    fn act(&mut self, action: Action) {
        let api = Arc::clone(&self.api);
        let address = self.key.address().clone();
        let call: BoxFuture<'static, Input> = match action {
            Action::Reply(ticket, outcome) => {
                if let Some(reply) = self.replies.remove(&ticket) {
                    // The caller may have gone away; the transaction is what it is.
                    drop(reply.sender.send(outcome));
                }
                return;
            }
            Action::FetchBlock => Box::pin(async move { Input::Block(within(api.sync_info()).await) }),
            Action::FetchAccount => {
                Box::pin(async move { Input::Account(within(api.account(&address)).await) })
            }
            Action::FetchPrices => Box::pin(async move { Input::Prices(within(api.min_gas_prices()).await) }),
            Action::Simulate(id, draft) => {
                let tx = self.sign(&draft);
                // Where a node claims more a second one is asked: a lie about gas is found before it is paid for.
                let most = self.ceilings.of_messages(&draft.msgs).gas;
                let (costs, fee) = (draft.costs(), draft.price.fee.clone());
                Box::pin(async move {
                    let simulated = within(api.simulate_below(tx.bytes, most)).await;
                    Input::Simulated(id, explained(&*api, &address, (&costs, &fee), simulated).await)
                })
            }
            Action::Send(id, draft) => {
                let tx = self.sign(&draft);
                // Before the node answers: a block may tell of it first.
                self.hashes.insert(tx.hash, id);
                tracing::debug!(hash = %tx.hash, messages = draft.msgs.len(), "transaction is sent");
                Box::pin(async move { Input::Sent(id, within(api.broadcast(tx.bytes)).await) })
            }
            Action::Find(id, draft) => {
                let hash = self.sign(&draft).hash;
                Box::pin(async move { Input::Found(id, within(api.find(&hash)).await) })
            }
            Action::Look(id, msg) => {
                Box::pin(async move { Input::Looked(id, within(api.standing(&msg)).await) })
            }
        };
        self.calls.push(call);
    }

    /// Signing is deterministic: the same draft gives the same bytes and hash, every time.
    fn sign(&self, draft: &Draft) -> SignedTx {
        let account = Account {
            key: &self.key,
            number: draft.account_number,
            chain_id: &self.chain_id,
        };
        let messages = draft.msgs.iter().map(to_any).collect();
        sign(&account, messages, draft.ordering, &draft.price)
    }
}

/// Minutes since 1970. The planner's own clock goes on where this one is set.
fn today() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() / 60
}

/// Finds out whether a refused simulation lacks money: nodes return no code for it.
async fn explained(
    api: &dyn TxApi,
    address: &Address,
    (costs, fee): (&BTreeMap<Denom, u128>, &Coin),
    simulated: Result<Simulation, Failure>,
) -> Result<Simulation, Failure> {
    let Ok(Simulation::Refused { log }) = simulated else {
        return simulated;
    };
    for (denom, cost) in costs {
        // A balance that cannot be read explains nothing.
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
    match timeout(ANSWER_MAX, question).await {
        Ok(answer) => answer.map_err(|e| e.to_failure()),
        Err(_) => Err(Failure {
            kind: ErrorKind::Timeout,
            transient: true,
            message: format!("no answer within {ANSWER_MAX:?}"),
        }),
    }
}

#[cfg(test)]
mod tests;
