//! State of the market: open orders, this provider's bids and data on the chain, and the account balance for deposits.

mod bids;
pub mod order;
mod orders;
mod provider_data;
mod retries;
mod wallet;

mod events;

use crate::bidding::Decline;
use crate::config::Config;
use crate::types::{
    BlockTime, Coin, DeclineCode, GroupId, Height, MarketParams, Mono, Now, OrderId, ProviderRecord,
};
use order::Order;
use orders::Orders;
use provider_data::ProviderData;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use wallet::Wallet;

/// Orders and bids, with this provider's data and account balance.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Market {
    orders: Orders,
    /// Newest order in progress, by group.
    of_group: FxHashMap<GroupId, OrderId>,
    provider_data: ProviderData,
    wallet: Wallet,
}

impl Market {
    pub(super) fn order(&self, id: &OrderId) -> Option<&Order> {
        self.orders.get(id)
    }

    pub(super) fn order_ids(&self) -> Vec<OrderId> {
        self.orders.ids()
    }

    pub(super) fn orders(&self) -> Vec<(&OrderId, &Order)> {
        self.orders.machines()
    }

    pub(super) fn is_finished(&self, id: &OrderId) -> bool {
        self.orders.is_finished(id)
    }

    pub(super) fn is_retryable(&self, id: &OrderId) -> bool {
        self.orders.is_retryable(id)
    }

    /// Records that this provider has placed a bid on the order. The chain allows no second bid.
    pub(super) fn mark_bid_used(&mut self, id: &OrderId) {
        self.orders.mark_bid_used(id);
    }

    pub(super) fn lower_heights(&mut self, to: Height) {
        self.orders.lower_heights(to);
    }

    pub(super) fn retain_open(&mut self, open: &BTreeSet<&OrderId>) {
        self.orders.retain_open(open);
    }

    /// Queues all orders that were declined for lack of capacity.
    pub(super) fn capacity_freed(&mut self) {
        self.orders.retries.capacity_freed();
    }

    /// Clears all bid counts after a gap in the event stream.
    pub(super) fn clear_bid_counts(&mut self) {
        self.orders.bids.clear();
    }

    pub(super) fn remove_bid_count(&mut self, id: &OrderId) {
        self.orders.bids.remove(id);
    }

    /// Marks all audits as outdated after a gap in the event stream.
    pub(super) fn invalidate_audits(&mut self) {
        self.provider_data.mark_audits_outdated();
        self.orders.retry_declined();
    }

    pub(super) fn apply_snapshot(&mut self, provider: Option<&ProviderRecord>, params: &MarketParams) {
        self.provider_data.resync(provider, params);
        self.wallet.parameters_read();
    }

    pub(super) const fn provider_version(&self) -> u32 {
        self.provider_data.version()
    }

    pub(super) const fn is_registered(&self) -> bool {
        self.provider_data.is_registered()
    }

    /// Returns the host at which tenants reach the provider, from the provider record.
    pub(super) fn own_host(&self) -> Option<&str> {
        self.provider_data.host()
    }

    pub(super) fn deposit<'a>(&self, config: &'a Config) -> Option<&'a Coin> {
        self.wallet.deposit(config, self.provider_data.params())
    }

    pub(super) fn block(&mut self, now: Mono) {
        self.wallet.block(now);
    }

    pub(super) fn decline_counts(&self) -> &BTreeMap<DeclineCode, u64> {
        &self.orders.decline_counts
    }

    /// Returns the newest declines, oldest first.
    pub(super) fn recent_declines(&self) -> impl Iterator<Item = &(OrderId, Decline)> {
        self.orders.recent_declines.iter()
    }

    /// Returns the earliest monotonic deadline of all orders.
    pub(super) fn next_order(&self) -> Option<Mono> {
        self.orders.next_mono()
    }

    /// Returns the earlier of two times: the next retry of an order, or the next read of the balance.
    pub(super) fn next_retry(&self) -> Option<Mono> {
        let looks = [self.orders.retries.deadline(), self.wallet.deadline()];
        looks.into_iter().flatten().min()
    }

    pub(super) fn is_due(&self, now: Now) -> bool {
        self.orders.is_due(now)
    }

    pub(super) fn due_mono(&self, now: Now) -> impl Iterator<Item = &(Mono, OrderId)> {
        self.orders.due_mono(now)
    }

    pub(super) fn due_block(&self, now: Now) -> impl Iterator<Item = &(BlockTime, OrderId)> {
        self.orders.due_block(now)
    }
}
