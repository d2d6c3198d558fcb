//! The simulated chain: blocks of the market, the states that the nodes return, the event stream, and
//! transactions in flight.

use crate::ids::PROVIDER;
use akash_provider_core::engine::EffectId;
use akash_provider_core::market::{Market, Rejection, TenantMsg};
use akash_provider_core::types::{
    Address, BlockTime, ChainEvent, Coin, Height, MarketParams, Msg, Order, OrderId, Snapshot, TxOutcome,
};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of blocks that a node lags behind.
const VIEWS: usize = 8;
/// Block time during which a transaction is valid.
pub(crate) const TX_LIFE: Duration = Duration::from_secs(60);

/// State of the chain after one block, as a node returns it.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) height: Height,
    pub(crate) time: BlockTime,
    pub(crate) market: Rc<Market>,
    /// Events of the block. The last event is `Block`.
    events: Rc<Vec<ChainEvent>>,
    invalid_orders: Rc<Vec<Order>>,
}

impl View {
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        let mut snapshot = self.market.snapshot(&PROVIDER);
        // A block without transactions shares the market of the previous block.
        snapshot.height = self.height;
        snapshot.time = self.time;
        snapshot.orders.extend(self.invalid_orders.iter().cloned());
        Arc::new(snapshot)
    }

    pub(crate) fn order(&self, id: &OrderId) -> Option<Order> {
        let invalid_orders = self.invalid_orders.iter().find(|o| o.id == *id);
        invalid_orders.or_else(|| self.market.order(id)).cloned()
    }
}

/// A transaction of the provider that can still be included in a block.
#[derive(Debug, Clone)]
pub(crate) struct Tx {
    pub(crate) effect: EffectId,
    /// Serial number of the engine that sent the transaction.
    pub(crate) life: u64,
    pub(crate) msg: Msg,
    pub(crate) expires: BlockTime,
    /// Whether the transaction is never included in a block. The provider cannot detect the loss.
    pub(crate) lost: bool,
    /// Whether `TxOutcome::Unknown` was reported for this transaction.
    pub(crate) is_outcome_sent: bool,
}

/// A transaction that was executed in the block under construction.
#[derive(Debug, Clone)]
pub(crate) struct LandedTx {
    pub(crate) tx: Tx,
    pub(crate) outcome: TxOutcome,
}

/// Events that one engine has not received yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stream {
    feed: VecDeque<ChainEvent>,
    pub(crate) connected: bool,
}

impl Stream {
    /// Queues the events of a complete block.
    pub(crate) fn push(&mut self, view: &View) {
        if self.connected {
            self.feed.extend(view.events.iter().cloned());
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Chain {
    pub(crate) market: Market,
    block: Vec<ChainEvent>,
    views: VecDeque<View>,
    /// Event stream of the active engine.
    pub(crate) stream: Stream,
    pub(crate) mempool: Vec<Tx>,
    landed: Vec<LandedTx>,
    elapsed: Duration,
    dirty: bool,
    /// Invalid orders, added without the checks of the market.
    pub(crate) invalid_orders: Rc<Vec<Order>>,
    pub(crate) unreadable: BTreeSet<OrderId>,
}

impl Chain {
    pub(crate) fn new(market: Market) -> Self {
        let mut chain = Self {
            market,
            block: Vec::new(),
            views: VecDeque::new(),
            stream: Stream::default(),
            mempool: Vec::new(),
            landed: Vec::new(),
            elapsed: Duration::from_secs(6),
            dirty: true,
            invalid_orders: Rc::default(),
            unreadable: BTreeSet::new(),
        };
        chain.end_block(Duration::from_secs(6));
        chain
    }

    pub(crate) fn next_time(&self) -> BlockTime {
        self.market.time().plus(self.elapsed)
    }

    /// The newest complete block.
    pub(crate) fn newest(&self) -> &View {
        self.views.back().unwrap()
    }

    /// Returns the state `lag` blocks before the newest complete block, or the oldest stored state.
    pub(crate) fn view(&self, lag: usize) -> &View {
        &self.views[self.views.len() - 1 - lag.min(self.views.len() - 1)]
    }

    pub(crate) fn tenant(&mut self, msg: TenantMsg) -> Result<(), Rejection> {
        let events = self.market.tenant(msg)?;
        self.push_events(events);
        Ok(())
    }

    pub(crate) fn competitor(&mut self, msg: &Msg) -> Result<(), Rejection> {
        let events = self.market.execute(msg)?;
        self.push_events(events);
        Ok(())
    }

    pub(crate) fn add_invalid_order(&mut self, order: Order) {
        let id = order.id.clone();
        Rc::make_mut(&mut self.invalid_orders).push(order);
        self.push_events(vec![ChainEvent::OrderCreated { id }]);
    }

    pub(crate) fn fund(&mut self, account: &Address, coins: &[Coin]) {
        for coin in coins {
            self.market.fund(account, coin);
        }
        self.dirty = true;
    }

    pub(crate) fn empty(&mut self, account: &Address, denom: &str) {
        self.market.account_mut(account).coins.insert(denom.into(), 0);
        self.dirty = true;
    }

    pub(crate) fn set_params(&mut self, params: MarketParams) {
        self.market.set_params(params);
        self.dirty = true;
    }

    pub(crate) fn push_events(&mut self, events: Vec<ChainEvent>) {
        self.dirty = true;
        self.block.extend(events);
    }

    /// Executes a transaction in the block under construction. Returns `None` if the transaction is expired
    /// or lost.
    pub(crate) fn land(&mut self, index: usize) -> Option<LandedTx> {
        let tx = self.mempool.remove(index);
        if self.next_time() > tx.expires || tx.lost {
            return None;
        }
        let height = self.market.height() + 1;
        let outcome = match self.market.execute(&tx.msg) {
            Ok(events) => {
                self.push_events(events);
                TxOutcome::Committed { height }
            }
            Err(refused) => TxOutcome::Rejected {
                error: refused.error,
                code: refused.code,
                log: refused.log,
            },
        };
        let landed = LandedTx { tx, outcome };
        self.landed.push(landed.clone());
        Some(landed)
    }

    /// Completes the block and returns its transactions. The next block follows after the time `next`.
    pub(crate) fn end_block(&mut self, next: Duration) -> Vec<LandedTx> {
        let block = self.market.end_block(self.elapsed);
        self.elapsed = next;
        let mut events = std::mem::take(&mut self.block);
        events.push(block);
        let market = match self.views.back() {
            Some(last) if !self.dirty => Rc::clone(&last.market),
            Some(_) | None => Rc::new(self.market.clone()),
        };
        self.dirty = false;
        let view = View {
            height: self.market.height(),
            time: self.market.time(),
            market,
            events: Rc::new(events),
            invalid_orders: Rc::clone(&self.invalid_orders),
        };
        self.stream.push(&view);
        self.views.push_back(view);
        if self.views.len() > VIEWS {
            self.views.pop_front();
        }
        std::mem::take(&mut self.landed)
    }

    /// Returns `true` if every transaction is in a complete block.
    pub(crate) fn is_settled(&self) -> bool {
        self.mempool.is_empty() && self.landed.is_empty()
    }

    /// Delays the next block.
    pub(crate) fn halt(&mut self, duration: Duration) {
        self.elapsed += duration;
    }

    /// Closes the event stream. Events that were not delivered are lost.
    pub(crate) fn disconnect(&mut self) {
        self.stream = Stream::default();
    }

    /// Connects the stream to a node that is `lag` blocks behind.
    pub(crate) fn connect(&mut self, lag: usize) {
        let mut feed = VecDeque::new();
        let at = self.views.len() - 1 - lag.min(self.views.len() - 1);
        let snapshot = self.views[at].snapshot();
        feed.push_back(ChainEvent::Resync(snapshot));
        for view in self.views.iter().skip(at + 1) {
            feed.extend(view.events.iter().cloned());
        }
        let connected = true;
        self.stream = Stream { feed, connected };
    }

    pub(crate) fn next_event(&mut self) -> Option<ChainEvent> {
        self.stream.feed.pop_front()
    }

    pub(crate) fn undelivered(&self) -> usize {
        self.stream.feed.len()
    }
}
