//! How many bids an order has, counted as they are told: who follows an order from its beginning needs to ask
//! nobody. Of other orders, those from before a start or a gap, nothing is known here.

use crate::types::{Address, BidId, OrderId};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Orders counted at most; for others the node is asked.
const ORDERS_MAX: usize = 4096;
/// Bidders counted at most for one order: the chain takes far fewer.
const BIDDERS_MAX: usize = 256;

/// The bidders of orders that were heard of from their beginning.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::engine) struct Bids {
    bidders: FxHashMap<OrderId, BTreeSet<Address>>,
}

impl Bids {
    /// An order begins; told a second time, what was counted stays.
    pub(in crate::engine) fn begin(&mut self, id: &OrderId) {
        // Past the limit nothing is wrong: an order that is not here is counted by a question to the node.
        if self.bidders.len() < ORDERS_MAX {
            self.bidders.entry(id.clone()).or_default();
        }
    }

    /// Somebody has bid. A bid that is closed again still counts, and nobody bids twice.
    pub(in crate::engine) fn add(&mut self, bid: &BidId) {
        // At the limit the order has been full for long, and one bidder more changes no answer.
        let bidders = self.bidders.get_mut(&bid.order);
        if let Some(bidders) = bidders.filter(|bidders| bidders.len() < BIDDERS_MAX) {
            bidders.insert(bid.provider.clone());
        }
    }

    /// The bids of others; `None` where not all of them were told.
    pub(in crate::engine) fn of_others(&self, id: &OrderId, us: &Address) -> Option<u32> {
        let bidders = self.bidders.get(id)?;
        // Ours is left out, because the question is whether another one gets in.
        let others = bidders.len() - usize::from(bidders.contains(us));
        Some(u32::try_from(others).unwrap_or(u32::MAX))
    }

    /// The order is over.
    pub(in crate::engine) fn end(&mut self, id: &OrderId) {
        self.bidders.remove(id);
    }

    /// What was told has a gap.
    pub(in crate::engine) fn forget(&mut self) {
        self.bidders.clear();
    }

    /// Keeps these, and those that are newer than what shows them.
    pub(in crate::engine) fn keep(&mut self, keep: impl Fn(&OrderId) -> bool) {
        self.bidders.retain(|id, _| keep(id));
    }
}
