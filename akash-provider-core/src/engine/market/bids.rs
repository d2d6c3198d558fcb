//! Number of bids on each order, counted from events, so that the number need not be queried for most orders.
//! The number is unknown for orders that were created before the start or before a gap in the event stream.

use crate::types::{Address, BidId, OrderId};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Maximum number of orders for which bids are counted. For further orders, the engine queries the node.
const ORDERS_MAX: usize = 4096;
/// Maximum number of counted bidders of one order, much higher than the limit of the chain.
const BIDDERS_MAX: usize = 256;

/// Bidders by order. Contains an order only if the engine received its creation event.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::engine) struct BidCounts {
    bidders: FxHashMap<OrderId, BTreeSet<Address>>,
}

impl BidCounts {
    /// Starts to count the bids of a new order. A repeated event does not reset the count.
    pub(in crate::engine) fn start(&mut self, id: &OrderId) {
        // Above the limit, orders are not counted here, and the engine queries the node for them.
        if self.bidders.len() < ORDERS_MAX {
            self.bidders.entry(id.clone()).or_default();
        }
    }

    /// Counts the provider of a bid, at most once per order. A close of the bid does not decrease the count.
    pub(in crate::engine) fn add(&mut self, bid: &BidId) {
        // At this limit, the order accepts no more bids, so further bidders do not matter.
        let bidders = self.bidders.get_mut(&bid.order);
        if let Some(bidders) = bidders.filter(|bidders| bidders.len() < BIDDERS_MAX) {
            bidders.insert(bid.provider.clone());
        }
    }

    /// Returns the number of bids by other providers, or `None` if the count is incomplete.
    pub(in crate::engine) fn count_others(&self, id: &OrderId, us: &Address) -> Option<u32> {
        let bidders = self.bidders.get(id)?;
        // This provider's bid is excluded: the caller checks whether the chain would still accept that bid.
        let others = bidders.len() - usize::from(bidders.contains(us));
        Some(u32::try_from(others).unwrap_or(u32::MAX))
    }

    pub(in crate::engine) fn remove(&mut self, id: &OrderId) {
        self.bidders.remove(id);
    }

    pub(in crate::engine) fn clear(&mut self) {
        self.bidders.clear();
    }

    pub(in crate::engine) fn retain(&mut self, keep: impl Fn(&OrderId) -> bool) {
        self.bidders.retain(|id, _| keep(id));
    }
}
