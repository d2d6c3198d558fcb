//! A chain in memory: a [`Market`] that implements the chain port, with fault injection.
//!
//! [`MemoryChain::advance`] completes a block. Messages of tenants are executed at once. Transactions of
//! providers wait for the next block or complete their own block, see [`Inclusion`]. Events are sent when
//! their block is complete. This module reads no clock.

mod query;
#[cfg(test)]
mod tests;

use super::{ChainEvents, ChainTx};
use crate::error::{Error, ErrorKind};
use crate::feed::{Feed, lock};
use crate::market::{Market, MarketConfig, Rejection, TenantMsg};
use crate::types::{Address, Agreement, BlockTime, ChainEvent, Height, Msg, Snapshot, TxError, TxOutcome};
use async_trait::async_trait;
use futures::stream::BoxStream;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// Maximum number of queued events of a subscriber. A `Resync` replaces a full queue.
const QUEUE_LIMIT: usize = 4096;

/// Lifetime of a transaction, in block time.
const TX_LIFETIME: Duration = Duration::from_secs(60);

/// Time of the inclusion of a transaction in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inclusion {
    /// The transaction is included in the block that the next [`MemoryChain::advance`] completes.
    NextBlock,
    /// Each transaction immediately completes a new block.
    Immediate {
        /// Time between the previous block and the new block.
        block_time: Duration,
    },
}

/// Result of a broadcast, set by a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BroadcastResult {
    /// The transaction is included and the caller receives the outcome.
    Included,
    /// The transaction is not sent and the caller receives an error.
    NotSent,
    /// The caller receives the outcome `Unknown`.
    Unknown {
        /// Number of blocks between the broadcast and the inclusion: 0 means the next block. `None` means
        /// that no block includes the transaction.
        ///
        /// An expired transaction has no effect.
        included_after: Option<u32>,
    },
}

/// Number of queries that fail in a simulated outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryOutage {
    /// This number of queries fails.
    Next(u32),
    /// Every query fails until [`MemoryChain::restore_queries`].
    UntilRestored,
}

/// A chain in memory. Clones share the same chain.
///
/// ```
/// use akash_provider_core::chain::{ChainQuery, MemoryChain};
/// use akash_provider_core::market::MarketConfig;
/// use akash_provider_core::types::BlockTime;
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let chain = MemoryChain::new(MarketConfig::new("local", BlockTime(0)));
/// chain.advance(Duration::from_secs(6));
/// assert_eq!(chain.sync_info().await?.height, 2);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct MemoryChain {
    state: Arc<Mutex<MemoryChainState>>,
}

#[derive(Debug)]
struct MemoryChainState {
    market: Market,
    inclusion: Inclusion,
    pool: Vec<PendingTx>,
    /// Facts of the block under construction.
    facts: Vec<ChainEvent>,
    subscribers: Vec<Subscriber>,
    queue_limit: usize,
    results: VecDeque<BroadcastResult>,
    outage: Option<QueryOutage>,
    stale: Option<Box<Market>>,
    agreement: Agreement,
    catching_up: bool,
    deaf: bool,
    keep: Keep,
    maker: BlockMakerSlot,
    /// True if [`MemoryChain::market`] or [`MemoryChain::tenant`] may have changed the market since the
    /// previous block.
    touched: bool,
    /// True if a snapshot request waits for the end of an incomplete block.
    waits_for_block_end: bool,
    /// Snapshot requests that wait for the end of the block.
    snapshots: Vec<(Address, oneshot::Sender<Snapshot>)>,
}

fn chain_dropped(operation: &'static str, error: oneshot::error::RecvError) -> Error {
    Error::new(ErrorKind::Stopped, operation, "the chain was dropped").with_source(error)
}

/// Adds transactions to every block and receives every completed block. The methods of a block maker must not
/// call the chain, because the chain is locked during these methods.
pub trait BlockMaker: Send + 'static {
    /// Executes pending transactions in a block with the given time and returns the facts.
    fn execute(&mut self, market: &mut Market, time: BlockTime) -> Vec<ChainEvent>;
    /// Receives a completed block. `direct` contains the events that [`execute`](Self::execute) did not
    /// return. `touched` is true if other code may have changed the market since the previous block.
    fn completed(&mut self, market: &Market, direct: &[ChainEvent], touched: bool);
}

#[derive(Default)]
struct BlockMakerSlot(Option<Box<dyn BlockMaker>>);

impl fmt::Debug for BlockMakerSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BlockMakerSlot").field(&self.0.is_some()).finish()
    }
}

/// Function that stores the market after each change.
#[derive(Default)]
struct Keep(Option<Keeper>);

type Keeper = Box<dyn FnMut(&Market) + Send>;

impl fmt::Debug for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keep").field(&self.0.is_some()).finish()
    }
}

#[derive(Debug)]
struct PendingTx {
    msgs: Vec<Msg>,
    due: Height,
    expires: BlockTime,
    reply: Option<oneshot::Sender<TxOutcome>>,
}

#[derive(Debug)]
struct Subscriber {
    provider: Address,
    feed: Feed<Result<ChainEvent, Error>>,
    /// Number of events to skip in the incomplete block. The last `Resync` of this subscriber contained these
    /// events.
    sent_facts: usize,
}

impl fmt::Debug for MemoryChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        f.debug_struct("MemoryChain")
            .field("chain_id", &state.market.chain_id())
            .field("height", &state.market.height())
            .finish_non_exhaustive()
    }
}

impl MemoryChain {
    /// Creates a chain with [`Inclusion::NextBlock`].
    #[must_use]
    pub fn new(config: MarketConfig) -> Self {
        Self::with_market(Market::new(config))
    }

    /// Creates a chain that continues from `market`.
    #[must_use]
    pub fn with_market(market: Market) -> Self {
        let state = MemoryChainState {
            market,
            inclusion: Inclusion::NextBlock,
            pool: Vec::new(),
            facts: Vec::new(),
            subscribers: Vec::new(),
            queue_limit: QUEUE_LIMIT,
            results: VecDeque::new(),
            outage: None,
            stale: None,
            agreement: Agreement::Single,
            catching_up: false,
            deaf: false,
            keep: Keep::default(),
            maker: BlockMakerSlot::default(),
            touched: true,
            waits_for_block_end: false,
            snapshots: Vec::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Calls `look` with the market, to read it or to set balances, parameters and keys.
    ///
    /// Subscribers receive no events about these changes.
    pub fn market<R>(&self, look: impl FnOnce(&mut Market) -> R) -> R {
        let mut state = lock(&self.state);
        state.touched = true;
        look(&mut state.market)
    }

    /// Sets the block maker for all following blocks.
    pub fn set_block_maker(&self, maker: impl BlockMaker) {
        lock(&self.state).maker = BlockMakerSlot(Some(Box::new(maker)));
    }

    /// Sets a function that stores the market. The function runs after each tenant message and after each
    /// block, before subscribers receive the events.
    pub fn on_change(&self, store: impl FnMut(&Market) + Send + 'static) {
        lock(&self.state).keep = Keep(Some(Box::new(store)));
    }

    /// Executes a message of a tenant or an auditor.
    ///
    /// # Errors
    /// Returns an error if the Akash network would refuse the message.
    pub fn tenant(&self, msg: TenantMsg) -> Result<Vec<ChainEvent>, Rejection> {
        let mut state = lock(&self.state);
        let events = state.market.tenant(msg)?;
        state.touched = true;
        state.facts.extend(events.iter().cloned());
        // Stored before subscribers are notified, so that a restart cannot lose an observed change.
        state.save();
        state.close_block_if_immediate();
        Ok(events)
    }

    /// Completes a block with all pending transactions, `elapsed` after the previous block. Returns its
    /// height.
    pub fn advance(&self, elapsed: Duration) -> Height {
        lock(&self.state).close_block(elapsed)
    }

    /// Returns the number of pending transactions.
    #[must_use]
    pub fn waiting(&self) -> usize {
        lock(&self.state).pool.len()
    }

    /// Sets when transactions are included in a block.
    pub fn set_inclusion(&self, inclusion: Inclusion) {
        lock(&self.state).inclusion = inclusion;
    }

    /// Delays snapshots until the end of an incomplete block, as on a real chain. Another task must complete
    /// the blocks.
    pub fn wait_for_block_end(&self) {
        lock(&self.state).waits_for_block_end = true;
    }

    /// Sets the maximum number of queued events of a subscriber, at least 1. A `Resync` replaces a full
    /// queue.
    pub fn set_queue_limit(&self, limit: usize) {
        lock(&self.state).queue_limit = limit.max(1);
    }

    /// Sets the result of the next broadcast. Further calls set the results of the following broadcasts. A
    /// broadcast without a set result is included in a block.
    pub fn set_next_broadcast(&self, result: BroadcastResult) {
        lock(&self.state).results.push_back(result);
    }

    /// Makes queries fail.
    pub fn fail_queries(&self, outage: QueryOutage) {
        lock(&self.state).outage = Some(outage);
    }

    /// Ends an outage of queries.
    pub fn restore_queries(&self) {
        lock(&self.state).outage = None;
    }

    /// Freezes the results of queries until [`MemoryChain::thaw_reads`], like a node that no longer follows
    /// the chain.
    pub fn freeze_reads(&self) {
        let mut state = lock(&self.state);
        state.stale = Some(Box::new(state.market.clone()));
    }

    /// Makes queries return the newest state again.
    pub fn thaw_reads(&self) {
        lock(&self.state).stale = None;
    }

    /// Sets the [`Agreement`] in the results of queries for bids and leases.
    pub fn set_agreement(&self, agreement: Agreement) {
        lock(&self.state).agreement = agreement;
    }

    /// Sets whether the node reports that it is catching up.
    pub fn set_catching_up(&self, catching_up: bool) {
        lock(&self.state).catching_up = catching_up;
    }

    /// Sends an error to all subscribers, then no events until [`MemoryChain::restore_events`].
    pub fn interrupt_events(&self) {
        let mut state = lock(&self.state);
        state.deaf = true;
        let lost = || {
            Error::new(
                ErrorKind::Unavailable,
                "subscribe",
                "the connection is interrupted",
            )
        };
        let pushed = |s: &mut Subscriber| s.feed.update(|queue| queue.push_back(Err(lost())));
        state.subscribers.retain_mut(pushed);
    }

    /// Sends a `Resync` and all later events to the subscribers.
    pub fn restore_events(&self) {
        let mut state = lock(&self.state);
        state.deaf = false;
        state.resync_all();
    }
}

impl MemoryChainState {
    fn close_block_if_immediate(&mut self) {
        match self.inclusion {
            Inclusion::NextBlock => {}
            Inclusion::Immediate { block_time } => drop(self.close_block(block_time)),
        }
    }

    fn close_block(&mut self, elapsed: Duration) -> Height {
        let height = self.market.height() + 1;
        let mut replies = Vec::new();
        for pending in std::mem::take(&mut self.pool) {
            if pending.due > height {
                self.pool.push(pending);
                continue;
            }
            let outcome = self.include(&pending, height);
            replies.extend(pending.reply.map(|reply| (reply, outcome)));
        }
        // These facts are of direct messages; the block maker adds further facts.
        let direct = self.facts.len();
        if let BlockMakerSlot(Some(maker)) = &mut self.maker {
            let time = self.market.time().plus(elapsed);
            self.facts.extend(maker.execute(&mut self.market, time));
        }
        let block = self.market.end_block(elapsed);
        if let BlockMakerSlot(Some(maker)) = &mut self.maker {
            let direct = self.facts.get(..direct).unwrap_or_default();
            maker.completed(&self.market, direct, std::mem::take(&mut self.touched));
        }
        self.facts.push(block);
        self.save();
        for (reply, outcome) in replies {
            // The caller may have stopped waiting; the transaction is included in any case.
            drop(reply.send(outcome));
        }
        let facts = std::mem::take(&mut self.facts);
        self.tell(&facts);
        for (provider, reply) in std::mem::take(&mut self.snapshots) {
            drop(reply.send(self.market.snapshot(&provider)));
        }
        height
    }

    fn save(&mut self) {
        if let Keep(Some(keep)) = &mut self.keep {
            keep(&self.market);
        }
    }

    fn include(&mut self, pending: &PendingTx, height: Height) -> TxOutcome {
        if self.market.time() > pending.expires {
            return TxOutcome::Rejected {
                error: TxError::Other,
                code: "sdk/42".to_owned(),
                log: "tx timeout".to_owned(),
            };
        }
        self.touched = true;
        match self.market.transaction(&pending.msgs) {
            Ok(events) => {
                self.facts.extend(events);
                TxOutcome::Committed { height }
            }
            Err(Rejection { error, code, log }) => TxOutcome::Rejected { error, code, log },
        }
    }

    /// Sends the events of a complete block to all subscribers. If the queue of a subscriber is full, a
    /// `Resync` replaces the events in this queue.
    fn tell(&mut self, facts: &[ChainEvent]) {
        let (market, limit, deaf) = (&self.market, self.queue_limit, self.deaf);
        self.subscribers.retain_mut(|subscriber| {
            let unsent = facts
                // Facts before the subscription are part of the subscriber's first `Resync`.
                .get(std::mem::take(&mut subscriber.sent_facts)..)
                .unwrap_or_default();
            let provider = &subscriber.provider;
            let unsent = unsent.iter().filter(|e| !deaf && e.concerns(provider));
            subscriber.feed.update(|queue| {
                if queue.len() + unsent.clone().count() > limit {
                    queue.clear();
                    queue.push_back(Ok(resync(market, provider)));
                } else {
                    queue.extend(unsent.cloned().map(Ok));
                }
            })
        });
    }

    fn resync_all(&mut self) {
        let (market, sent_facts) = (&self.market, self.facts.len());
        self.subscribers.retain_mut(|subscriber| {
            subscriber.sent_facts = sent_facts;
            let event = resync(market, &subscriber.provider);
            subscriber.feed.update(|queue| queue.push_back(Ok(event)))
        });
    }

    fn enqueue(&mut self, msgs: Vec<Msg>, delay: u32, reply: Option<oneshot::Sender<TxOutcome>>) {
        self.pool.push(PendingTx {
            msgs,
            due: self.market.height() + 1 + Height::from(delay),
            expires: self.market.time().plus(TX_LIFETIME),
            reply,
        });
        self.close_block_if_immediate();
    }
}

fn resync(market: &Market, provider: &Address) -> ChainEvent {
    ChainEvent::Resync(Arc::new(market.snapshot(provider)))
}

#[async_trait]
impl ChainTx for MemoryChain {
    async fn broadcast_msgs(&self, msgs: Vec<Msg>) -> Result<TxOutcome, Error> {
        const OPERATION: &str = "broadcast";
        if msgs.is_empty() {
            let message = "a transaction needs at least one message";
            return Err(Error::new(ErrorKind::Invalid, OPERATION, message));
        }
        // The lock is released before waiting for the outcome.
        let outcome = {
            let mut state = lock(&self.state);
            match state.results.pop_front().unwrap_or(BroadcastResult::Included) {
                BroadcastResult::NotSent => {
                    let message = "no node accepts transactions; the transaction was not sent";
                    return Err(Error::new(ErrorKind::Unavailable, OPERATION, message));
                }
                BroadcastResult::Unknown { included_after } => {
                    let expires = state.market.time().plus(TX_LIFETIME);
                    if let Some(delay) = included_after {
                        state.enqueue(msgs, delay, None);
                    }
                    return Ok(TxOutcome::Unknown { expires });
                }
                BroadcastResult::Included => {
                    let (reply, outcome) = oneshot::channel();
                    state.enqueue(msgs, 0, Some(reply));
                    outcome
                }
            }
        };
        outcome.await.map_err(|error| chain_dropped(OPERATION, error))
    }
}

impl ChainEvents for MemoryChain {
    fn subscribe(&self, provider: &Address) -> BoxStream<'static, Result<ChainEvent, Error>> {
        let mut state = lock(&self.state);
        let (feed, stream) = Feed::new();
        let first = resync(&state.market, provider);
        feed.update(|queue| queue.push_back(Ok(first)));
        // Under the same lock as the snapshot, so that no fact between the two is missing.
        let sent_facts = state.facts.len();
        state.subscribers.push(Subscriber {
            provider: provider.clone(),
            feed,
            sent_facts,
        });
        stream
    }
}
