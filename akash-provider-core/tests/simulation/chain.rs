//! The chain: the market's blocks, what nodes show of them, the stream of facts, and transactions under way.

use crate::ids::OURS;
use akash_provider_core::engine::EffectId;
use akash_provider_core::market::{Market, Rejection, TenantMsg};
use akash_provider_core::types::{
    Address, BlockTime, ChainEvent, Coin, Height, MarketParams, Msg, Order, OrderId, Snapshot, TxOutcome,
};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Blocks a node may lag behind.
const VIEWS: usize = 8;
/// Block time a transaction stays valid.
pub(crate) const TX_LIFE: Duration = Duration::from_secs(60);

/// The chain after one block, as a node shows it.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) height: Height,
    pub(crate) time: BlockTime,
    pub(crate) market: Rc<Market>,
    /// Facts of the block, the block itself last.
    events: Rc<Vec<ChainEvent>>,
    forged: Rc<Vec<Order>>,
}

impl View {
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        let mut snapshot = self.market.snapshot(&OURS);
        // A block without transactions shares the market of the one before.
        snapshot.height = self.height;
        snapshot.time = self.time;
        snapshot.orders.extend(self.forged.iter().cloned());
        Arc::new(snapshot)
    }

    pub(crate) fn order(&self, id: &OrderId) -> Option<Order> {
        let forged = self.forged.iter().find(|o| o.id == *id);
        forged.or_else(|| self.market.order(id)).cloned()
    }
}

/// A transaction of ours that may still land.
#[derive(Debug, Clone)]
pub(crate) struct Tx {
    pub(crate) effect: EffectId,
    /// Engine that sent it.
    pub(crate) life: u64,
    pub(crate) msg: Msg,
    pub(crate) expires: BlockTime,
    /// It will never be put into a block, though nobody knows.
    pub(crate) lost: bool,
    /// The engine has been told that its outcome is unknown.
    pub(crate) told: bool,
}

/// A transaction that landed, until its block is complete.
#[derive(Debug, Clone)]
pub(crate) struct Landed {
    pub(crate) tx: Tx,
    pub(crate) outcome: TxOutcome,
}

/// What one engine has yet to hear.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stream {
    feed: VecDeque<ChainEvent>,
    pub(crate) connected: bool,
}

impl Stream {
    /// A block that is complete is told.
    pub(crate) fn hear(&mut self, view: &View) {
        if self.connected {
            self.feed.extend(view.events.iter().cloned());
        }
    }
}

/// The chain.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    pub(crate) market: Market,
    block: Vec<ChainEvent>,
    views: VecDeque<View>,
    /// Of the engine that acts.
    pub(crate) stream: Stream,
    pub(crate) mempool: Vec<Tx>,
    landed: Vec<Landed>,
    elapsed: Duration,
    dirty: bool,
    /// Orders that no market has let in, and ids of orders whose records cannot be read.
    pub(crate) forged: Rc<Vec<Order>>,
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
            forged: Rc::default(),
            unreadable: BTreeSet::new(),
        };
        chain.end_block(Duration::from_secs(6));
        chain
    }

    /// Time the block under construction will have.
    pub(crate) fn next_time(&self) -> BlockTime {
        self.market.time().plus(self.elapsed)
    }

    /// The newest complete block.
    pub(crate) fn newest(&self) -> &View {
        self.views.back().unwrap()
    }

    /// The complete block so many before the newest, as far as nodes remember.
    pub(crate) fn view(&self, lag: usize) -> &View {
        &self.views[self.views.len() - 1 - lag.min(self.views.len() - 1)]
    }

    /// What a tenant does; refusals are the tenant's business.
    pub(crate) fn tenant(&mut self, msg: TenantMsg) -> Result<(), Rejection> {
        let events = self.market.tenant(msg)?;
        self.happened(events);
        Ok(())
    }

    /// What another provider does.
    pub(crate) fn rival(&mut self, msg: &Msg) -> Result<(), Rejection> {
        let events = self.market.execute(msg)?;
        self.happened(events);
        Ok(())
    }

    /// An order that makes no sense is there from the next block on.
    pub(crate) fn forge(&mut self, order: Order) {
        let id = order.id.clone();
        Rc::make_mut(&mut self.forged).push(order);
        self.happened(vec![ChainEvent::OrderCreated { id }]);
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

    pub(crate) fn happened(&mut self, events: Vec<ChainEvent>) {
        self.dirty = true;
        self.block.extend(events);
    }

    /// Puts a transaction into the block under construction; `None` when it is too late for it.
    pub(crate) fn land(&mut self, index: usize) -> Option<Landed> {
        let tx = self.mempool.remove(index);
        if self.next_time() > tx.expires || tx.lost {
            return None;
        }
        let height = self.market.height() + 1;
        let outcome = match self.market.execute(&tx.msg) {
            Ok(events) => {
                self.happened(events);
                TxOutcome::Committed { height }
            }
            Err(refused) => TxOutcome::Rejected {
                error: refused.error,
                code: refused.code,
                log: refused.log,
            },
        };
        let landed = Landed { tx, outcome };
        self.landed.push(landed.clone());
        Some(landed)
    }

    /// Completes the block; the next one comes `next` later. Returns what landed in it.
    pub(crate) fn end_block(&mut self, next: Duration) -> Vec<Landed> {
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
            forged: Rc::clone(&self.forged),
        };
        self.stream.hear(&view);
        self.views.push_back(view);
        if self.views.len() > VIEWS {
            self.views.pop_front();
        }
        std::mem::take(&mut self.landed)
    }

    /// True when no transaction waits to land, or for the end of its block.
    pub(crate) fn is_settled(&self) -> bool {
        self.mempool.is_empty() && self.landed.is_empty()
    }

    /// The next block comes that much later.
    pub(crate) fn halt(&mut self, duration: Duration) {
        self.elapsed += duration;
    }

    /// The stream breaks; what was not delivered is lost.
    pub(crate) fn disconnect(&mut self) {
        self.stream = Stream::default();
    }

    /// The stream starts anew at a node so many blocks behind.
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
