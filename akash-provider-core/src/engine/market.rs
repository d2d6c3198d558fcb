//! The market: open orders and our bids on them, what the chain says of us, and the money for deposits.

mod bids;
mod facts;
pub mod order;
mod orders;
mod retries;
mod wallet;

mod observed;

use crate::bidding::Decline;
use crate::config::Config;
use crate::types::{
    BlockTime, Coin, DeclineCode, GroupId, Height, MarketParams, Mono, Now, OrderId, ProviderRecord,
};
use facts::Facts;
use order::Order;
use orders::Orders;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use wallet::Wallet;

/// Orders, and what is known for bids on them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Market {
    orders: Orders,
    /// The newest order of each group that is in hand.
    of_group: FxHashMap<GroupId, OrderId>,
    facts: Facts,
    wallet: Wallet,
}

impl Market {
    /// The machine of an order in hand.
    pub(super) fn order(&self, id: &OrderId) -> Option<&Order> {
        self.orders.get(id)
    }

    /// Orders in hand, sorted.
    pub(super) fn order_ids(&self) -> Vec<OrderId> {
        self.orders.ids()
    }

    /// Machines of orders in hand, sorted.
    pub(super) fn orders(&self) -> Vec<(&OrderId, &Order)> {
        self.orders.machines()
    }

    /// The order was in hand and is not worth another look.
    pub(super) fn is_ended(&self, id: &OrderId) -> bool {
        self.orders.is_ended(id)
    }

    /// The order is remembered as declined for a passing reason.
    pub(super) fn may_pass(&self, id: &OrderId) -> bool {
        self.orders.may_pass(id)
    }

    /// A bid of ours on it has ended: it gets no other.
    pub(super) fn spend(&mut self, id: &OrderId) {
        self.orders.spend(id);
    }

    /// Lowers the heights that orders wait for.
    pub(super) fn lower_heights(&mut self, to: Height) {
        self.orders.lower_heights(to);
    }

    /// Forgets what is remembered of orders that are not open.
    pub(super) fn keep_ended(&mut self, open: &BTreeSet<&OrderId>) {
        self.orders.keep_ended(open);
    }

    /// There is more room: what was declined for want of it is looked at again.
    pub(super) fn capacity_freed(&mut self) {
        self.orders.retries.capacity_freed();
    }

    /// Some of the chain's facts were not told: how many bids an order has is to be asked again.
    pub(super) fn forget_bid_counts(&mut self) {
        self.orders.bids.forget();
    }

    /// The order has a lease and takes no more bids.
    pub(super) fn forget_bid_count(&mut self, id: &OrderId) {
        self.orders.bids.end(id);
    }

    /// The chain was out of sight: what auditors signed meanwhile was not told.
    pub(super) fn forget_audits(&mut self) {
        self.facts.audits_stale();
        self.orders.forget_declines();
    }

    /// What a snapshot says of us and of bids.
    pub(super) fn read(&mut self, provider: Option<&ProviderRecord>, params: &MarketParams) {
        self.facts.resync(provider, params);
        self.wallet.parameters_read();
    }

    /// Counts the changes of what the chain says of us.
    pub(super) const fn facts_version(&self) -> u32 {
        self.facts.version()
    }

    /// The chain has a record of us.
    pub(super) const fn is_registered(&self) -> bool {
        self.facts.is_registered()
    }

    /// The host of our record, under which tenants reach us.
    pub(super) fn own_host(&self) -> Option<&str> {
        self.facts.host()
    }

    /// A deposit that the chain takes and the account can pay, as far as is known.
    pub(super) fn deposit<'a>(&self, config: &'a Config) -> Option<&'a Coin> {
        self.wallet.deposit(config, self.facts.params())
    }

    /// A block has ended.
    pub(super) fn block(&mut self, now: Mono) {
        self.wallet.block(now);
    }

    /// How often each reason for a decline came up.
    pub(super) fn decline_counts(&self) -> &BTreeMap<DeclineCode, u64> {
        &self.orders.decline_counts
    }

    /// The newest declines, the oldest of them first.
    pub(super) fn recent_declines(&self) -> impl Iterator<Item = &(OrderId, Decline)> {
        self.orders.recent_declines.iter()
    }

    /// Earliest moment at which an order in hand wants to be woken.
    pub(super) fn next_order(&self) -> Option<Mono> {
        self.orders.next_mono()
    }

    /// Earliest moment at which orders are looked at again, or the account is.
    pub(super) fn next_look(&self) -> Option<Mono> {
        let looks = [self.orders.retries.deadline(), self.wallet.deadline()];
        looks.into_iter().flatten().min()
    }

    /// Whether a deadline of any order has come.
    pub(super) fn is_due(&self, now: Now) -> bool {
        self.orders.is_due(now)
    }

    /// Orders whose deadlines have come, in the monotonic clock.
    pub(super) fn due_mono(&self, now: Now) -> impl Iterator<Item = &(Mono, OrderId)> {
        self.orders.due_mono(now)
    }

    /// The same in block time.
    pub(super) fn due_block(&self, now: Now) -> impl Iterator<Item = &(BlockTime, OrderId)> {
        self.orders.due_block(now)
    }
}
