//! A chain in memory: a [`Market`] behind the chain port, with faults on demand.
//!
//! Blocks are made by [`MemoryChain::advance`]. What tenants do is executed at once; transactions of providers
//! wait for the next block (or make a block of their own, see [`Inclusion`]). Events are told when their block
//! is complete. Nothing here reads a clock.

mod query;
#[cfg(test)]
mod tests;

use super::{ChainEvents, ChainTx};
use crate::error::{Error, ErrorKind};
use crate::feed::{Feed, lock};
use crate::market::{Market, MarketConfig, Rejection, TenantMsg};
use crate::types::{Address, Agreement, BlockTime, ChainEvent, Height, Msg, TxError, TxOutcome};
use async_trait::async_trait;
use futures::stream::BoxStream;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// Events that wait for one subscriber before they are replaced by a `Resync`: some thousand busy blocks.
const QUEUE_LIMIT: usize = 4096;

/// Lifetime of a transaction in block time.
const TX_LIFETIME: Duration = Duration::from_secs(60);

/// When a transaction gets into a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inclusion {
    /// In the block that the next [`MemoryChain::advance`] completes; its outcome is known only then.
    NextBlock,
    /// At once: every transaction, of a provider or a tenant, completes a block.
    Immediate {
        /// How much later than the block before it.
        block_time: Duration,
    },
}

/// What becomes of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It gets into a block and its outcome is told.
    Included,
    /// It is not sent, and that is known: an error.
    NotSent,
    /// Its outcome is `Unknown`.
    Unknown {
        /// It lands so many blocks after the next one (unless it has expired by then); `None` for never.
        lands_after: Option<u32>,
    },
}

/// How long queries fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// For so many queries.
    Next(u32),
    /// For every query until [`MemoryChain::restore_queries`].
    UntilRestored,
}

/// A chain in memory. A clone is the same chain.
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
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    market: Market,
    inclusion: Inclusion,
    pool: Vec<Pending>,
    /// Facts of the block under construction.
    facts: Vec<ChainEvent>,
    subscribers: Vec<Subscriber>,
    queue_limit: usize,
    fates: VecDeque<Fate>,
    outage: Option<Outage>,
    stale: Option<Box<Market>>,
    agreement: Agreement,
    catching_up: bool,
    deaf: bool,
    keep: Keep,
    maker: Maker,
    /// The market may differ from what the maker has seen last.
    touched: bool,
}

/// Who puts transactions of its own into every block, and sees it complete: what serves the chain to others.
/// It is called with the chain locked, so it must not call the chain.
pub trait BlockMaker: Send + 'static {
    /// A block of this time is about to be completed: executes what waits; the facts.
    fn execute(&mut self, market: &mut Market, time: BlockTime) -> Vec<ChainEvent>;
    /// A block is complete. `direct` are the facts of what was done to the chain itself; `touched` is false when
    /// nothing but the maker can have changed the market since the block before.
    fn completed(&mut self, market: &Market, direct: &[ChainEvent], touched: bool);
}

#[derive(Default)]
struct Maker(Option<Box<dyn BlockMaker>>);

impl fmt::Debug for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Maker").field(&self.0.is_some()).finish()
    }
}

/// What is done with every state of the market.
#[derive(Default)]
struct Keep(Option<Keeper>);

type Keeper = Box<dyn FnMut(&Market) + Send>;

impl fmt::Debug for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keep").field(&self.0.is_some()).finish()
    }
}

#[derive(Debug)]
struct Pending {
    msgs: Vec<Msg>,
    due: Height,
    expires: BlockTime,
    reply: Option<oneshot::Sender<TxOutcome>>,
}

#[derive(Debug)]
struct Subscriber {
    provider: Address,
    feed: Feed<Result<ChainEvent, Error>>,
    /// Facts of the block under construction that its `Resync` contained already.
    known: usize,
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
    /// A new chain; transactions wait for the next block.
    #[must_use]
    pub fn new(config: MarketConfig) -> Self {
        Self::with_market(Market::new(config))
    }

    /// A chain that goes on from a market.
    #[must_use]
    pub fn with_market(market: Market) -> Self {
        let state = State {
            market,
            inclusion: Inclusion::NextBlock,
            pool: Vec::new(),
            facts: Vec::new(),
            subscribers: Vec::new(),
            queue_limit: QUEUE_LIMIT,
            fates: VecDeque::new(),
            outage: None,
            stale: None,
            agreement: Agreement::Single,
            catching_up: false,
            deaf: false,
            keep: Keep::default(),
            maker: Maker::default(),
            touched: true,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Looks at the market, or prepares it (money, parameters, keys). Transactions belong to
    /// [`MemoryChain::tenant`] and the port: events of those made here are told to nobody.
    pub fn market<R>(&self, look: impl FnOnce(&mut Market) -> R) -> R {
        let mut state = lock(&self.state);
        state.touched = true;
        look(&mut state.market)
    }

    /// From now on `maker` takes part in every block; it replaces the one before.
    pub fn set_block_maker(&self, maker: impl BlockMaker) {
        lock(&self.state).maker = Maker(Some(Box::new(maker)));
    }

    /// From now on every change of the market is handed to `keep` before anybody is told of it: after a tenant
    /// acted, and after a block. What [`MemoryChain::market`] changes is handed over with the next of them.
    pub fn keep(&self, keep: impl FnMut(&Market) + Send + 'static) {
        lock(&self.state).keep = Keep(Some(Box::new(keep)));
    }

    /// A tenant or an auditor acts.
    ///
    /// # Errors
    /// The network's refusal.
    pub fn tenant(&self, msg: TenantMsg) -> Result<Vec<ChainEvent>, Rejection> {
        let mut state = lock(&self.state);
        let events = state.market.tenant(msg)?;
        state.touched = true;
        state.facts.extend(events.iter().cloned());
        // Kept before anybody is told, so that nobody knows of what a restart would forget.
        state.save();
        state.close_block_if_immediate();
        Ok(events)
    }

    /// Completes a block `elapsed` after the one before it, with every transaction that waits; its height.
    pub fn advance(&self, elapsed: Duration) -> Height {
        lock(&self.state).close_block(elapsed)
    }

    /// Transactions that wait for a block.
    #[must_use]
    pub fn waiting(&self) -> usize {
        lock(&self.state).pool.len()
    }

    /// When transactions get into a block from now on.
    pub fn set_inclusion(&self, inclusion: Inclusion) {
        lock(&self.state).inclusion = inclusion;
    }

    /// Events that may wait for a subscriber before a `Resync` replaces them; at least 1.
    pub fn set_queue_limit(&self, limit: usize) {
        lock(&self.state).queue_limit = limit.max(1);
    }

    /// Decides about the next broadcast that has no fate yet; without one a transaction is included.
    pub fn next_fate(&self, fate: Fate) {
        lock(&self.state).fates.push_back(fate);
    }

    /// Queries fail from now on.
    pub fn fail_queries(&self, outage: Outage) {
        lock(&self.state).outage = Some(outage);
    }

    /// Ends an outage of queries.
    pub fn restore_queries(&self) {
        lock(&self.state).outage = None;
    }

    /// Queries are answered from the present state from now on, whatever happens later: a node that hangs.
    pub fn freeze_reads(&self) {
        let mut state = lock(&self.state);
        state.stale = Some(Box::new(state.market.clone()));
    }

    /// Queries are answered from the newest state again.
    pub fn thaw_reads(&self) {
        lock(&self.state).stale = None;
    }

    /// What a second endpoint is taken to say about every record.
    pub fn set_agreement(&self, agreement: Agreement) {
        lock(&self.state).agreement = agreement;
    }

    /// What the node says of itself.
    pub fn set_catching_up(&self, catching_up: bool) {
        lock(&self.state).catching_up = catching_up;
    }

    /// Subscribers get an error and then nothing: every event from now on is lost.
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

    /// Subscribers get a `Resync` and everything after it.
    pub fn restore_events(&self) {
        let mut state = lock(&self.state);
        state.deaf = false;
        state.resync_all();
    }
}

impl State {
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
        // What is there so far was done to the chain itself; what follows is the maker's.
        let direct = self.facts.len();
        if let Maker(Some(maker)) = &mut self.maker {
            let time = self.market.time().plus(elapsed);
            self.facts.extend(maker.execute(&mut self.market, time));
        }
        let block = self.market.end_block(elapsed);
        if let Maker(Some(maker)) = &mut self.maker {
            let direct = self.facts.get(..direct).unwrap_or_default();
            maker.completed(&self.market, direct, std::mem::take(&mut self.touched));
        }
        self.facts.push(block);
        self.save();
        for (reply, outcome) in replies {
            // The caller may have gone away; the transaction is in the block all the same.
            drop(reply.send(outcome));
        }
        let facts = std::mem::take(&mut self.facts);
        self.tell(&facts);
        height
    }

    fn save(&mut self) {
        if let Keep(Some(keep)) = &mut self.keep {
            keep(&self.market);
        }
    }

    fn include(&mut self, pending: &Pending, height: Height) -> TxOutcome {
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

    /// Tells a complete block; who has no room for it gets the whole present instead.
    fn tell(&mut self, facts: &[ChainEvent]) {
        let (market, limit, deaf) = (&self.market, self.queue_limit, self.deaf);
        self.subscribers.retain_mut(|subscriber| {
            let news = facts
                // Who came within this block had its first facts with the `Resync`.
                .get(std::mem::take(&mut subscriber.known)..)
                .unwrap_or_default();
            let provider = &subscriber.provider;
            let news = news.iter().filter(|e| !deaf && e.concerns(provider));
            subscriber.feed.update(|queue| {
                if queue.len() + news.clone().count() > limit {
                    queue.clear();
                    queue.push_back(Ok(resync(market, provider)));
                } else {
                    queue.extend(news.cloned().map(Ok));
                }
            })
        });
    }

    fn resync_all(&mut self) {
        let (market, known) = (&self.market, self.facts.len());
        self.subscribers.retain_mut(|subscriber| {
            subscriber.known = known;
            let event = resync(market, &subscriber.provider);
            subscriber.feed.update(|queue| queue.push_back(Ok(event)))
        });
    }

    fn enqueue(&mut self, msgs: Vec<Msg>, delay: u32, reply: Option<oneshot::Sender<TxOutcome>>) {
        self.pool.push(Pending {
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
        // The lock is not held while the outcome is waited for.
        let outcome = {
            let mut state = lock(&self.state);
            match state.fates.pop_front().unwrap_or(Fate::Included) {
                Fate::NotSent => {
                    let message = "no node takes transactions; nothing was sent";
                    return Err(Error::new(ErrorKind::Unavailable, OPERATION, message));
                }
                Fate::Unknown { lands_after } => {
                    let expires = state.market.time().plus(TX_LIFETIME);
                    if let Some(delay) = lands_after {
                        state.enqueue(msgs, delay, None);
                    }
                    return Ok(TxOutcome::Unknown { expires });
                }
                Fate::Included => {
                    let (reply, outcome) = oneshot::channel();
                    state.enqueue(msgs, 0, Some(reply));
                    outcome
                }
            }
        };
        outcome
            .await
            .map_err(|e| Error::new(ErrorKind::Stopped, OPERATION, "the chain is gone").with_source(e))
    }
}

impl ChainEvents for MemoryChain {
    fn subscribe(&self, provider: &Address) -> BoxStream<'static, Result<ChainEvent, Error>> {
        let mut state = lock(&self.state);
        let (feed, stream) = Feed::new();
        let first = resync(&state.market, provider);
        feed.update(|queue| queue.push_back(Ok(first)));
        // Under the same lock as the first picture, so that no fact is missing between the two.
        let known = state.facts.len();
        state.subscribers.push(Subscriber {
            provider: provider.clone(),
            feed,
            known,
        });
        stream
    }
}
