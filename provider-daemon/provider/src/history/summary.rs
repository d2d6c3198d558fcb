//! Summary of the recorded orders.

use super::changes::{Causes, SuggestedChange};
use super::record::{HistoryOutcome, OrderRecord};
use super::store::HistoryStore;
use akash_provider_core::types::{Dec, DecCoin, DeclineCode, Denom};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Statistics of orders, and the changes of price or capacity that would have won the most orders.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Start of the summarized period, in milliseconds since the Unix epoch.
    pub since: u64,
    /// Number of orders by outcome.
    pub outcomes: BTreeMap<HistoryOutcome, usize>,
    /// Number of declined orders by code.
    pub declines: BTreeMap<DeclineCode, u64>,
    /// Number of orders that another provider won with a lower price.
    pub lost_by_price: usize,
    /// Earnings of the won leases by denomination: the price per block, multiplied by the number of blocks of
    /// the lease. The escrow account of a lease may have paid less.
    pub accrued: Vec<DecCoin>,
    /// Changes that would have won or admitted the most orders, the best change first.
    pub changes: Vec<SuggestedChange>,
}

impl Summary {
    /// Summarizes the orders received at `since` or later. `height` is the newest known block.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn read(store: &HistoryStore, since: u64, height: Option<u64>) -> Result<Self, redb::Error> {
        let mut summary = Self {
            since,
            ..Self::default()
        };
        let mut causes = Causes::default();
        let mut accrued = BTreeMap::new();
        // Without a running provider, the newest recorded block is the end of open leases.
        let height = match height {
            Some(height) => height,
            None => newest_height(store)?,
        };
        store.each(|record| {
            if record.seen.time < since {
                return false;
            }
            summary.add(&record);
            causes.add(&record);
            add_accrued(&mut accrued, &record, height);
            true
        })?;
        summary.changes = causes.changes();
        summary.accrued = accrued
            .iter()
            .map(|(denom, amount)| DecCoin::new(denom, *amount))
            .collect();
        Ok(summary)
    }

    fn add(&mut self, record: &OrderRecord) {
        *self.outcomes.entry(record.outcome).or_default() += 1;
        self.lost_by_price +=
            usize::from(record.outcome == HistoryOutcome::Lost && record.cheaper_winner().is_some());
        if let (HistoryOutcome::Declined, Some(decline)) = (record.outcome, &record.decline) {
            *self.declines.entry(decline.code).or_default() += 1;
        }
    }

    /// Returns the number of orders with an outcome.
    #[must_use]
    pub fn count(&self, outcome: HistoryOutcome) -> usize {
        self.outcomes.get(&outcome).copied().unwrap_or_default()
    }
}

/// Returns the height of the newest recorded step.
pub(super) fn newest_height(store: &HistoryStore) -> Result<u64, redb::Error> {
    let mut newest = 0;
    store.each(|record| {
        let last = record
            .steps
            .last()
            .map_or(record.seen.height, |step| step.at.height);
        newest = newest.max(last);
        true
    })?;
    Ok(newest)
}

fn add_accrued(sums: &mut BTreeMap<Denom, Dec>, record: &OrderRecord, height: u64) {
    let Some(accrued) = record.accrued_at(height) else {
        return;
    };
    let sum = sums.entry(accrued.denom).or_default();
    // A sum out of range stays at its last value.
    *sum = sum.checked_add(accrued.amount).unwrap_or(*sum);
}
