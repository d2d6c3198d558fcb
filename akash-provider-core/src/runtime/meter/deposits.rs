//! Deposits of bids: locked with the bid, returned with the end of the bid or of its lease.

use crate::types::{BidId, Coin, Denom};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Maximum number of bids with tracked deposits. Deposits of further bids are never counted as returned.
const BIDS_MAX: usize = 20_000;

/// Deposits of the bids that this process created.
#[derive(Debug, Default)]
pub(super) struct Deposits {
    open: FxHashMap<BidId, Coin>,
    locked: BTreeMap<Denom, u128>,
    returned: BTreeMap<Denom, u128>,
}

impl Deposits {
    pub(super) fn locked_for(&mut self, bid: &BidId, deposit: &Coin) {
        add(&mut self.locked, deposit);
        if self.open.len() < BIDS_MAX {
            self.open.insert(bid.clone(), deposit.clone());
        }
    }

    /// Counts the deposit of a bid as returned. `bid` can also be the id of a lease.
    pub(super) fn returned_for(&mut self, bid: &BidId) {
        if let Some(deposit) = self.open.remove(bid) {
            add(&mut self.returned, &deposit);
        }
    }

    pub(super) const fn locked(&self) -> &BTreeMap<Denom, u128> {
        &self.locked
    }

    pub(super) const fn returned(&self) -> &BTreeMap<Denom, u128> {
        &self.returned
    }
}

fn add(sums: &mut BTreeMap<Denom, u128>, coin: &Coin) {
    let sum = sums.entry(coin.denom.clone()).or_default();
    *sum = sum.saturating_add(coin.amount);
}
