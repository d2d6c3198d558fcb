//! Revenue of the leases, calculated from their prices.

use crate::types::{Dec, DecCoin, Denom, Height, LeaseId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

type DenomAmounts = BTreeMap<Denom, Dec>;

/// Price of a lease, and the height up to which its earnings were withdrawn.
#[derive(Debug)]
struct LeaseRevenue {
    price: DecCoin,
    paid_height: Height,
}

#[derive(Debug, Default)]
pub(super) struct Revenue {
    leases: FxHashMap<LeaseId, LeaseRevenue>,
    pub(super) rates: DenomAmounts,
    pub(super) accrued: DenomAmounts,
    pub(super) withdrawn: DenomAmounts,
}

impl Revenue {
    pub(super) fn lease_added(&mut self, lease: &LeaseId, price: &DecCoin, height: Height) {
        let account = LeaseRevenue {
            price: price.clone(),
            paid_height: height,
        };
        if self.leases.insert(lease.clone(), account).is_none() {
            increase(&mut self.rates, &price.denom, Some(price.amount));
        }
    }

    pub(super) fn lease_closed(&mut self, lease: &LeaseId, height: Height) {
        // The chain pays the remaining revenue when it closes the lease.
        self.withdrawn(lease, height);
        let Some(account) = self.leases.remove(lease) else {
            return;
        };
        let (denom, amount) = (account.price.denom, account.price.amount);
        let rest = self.rates.get(&denom).and_then(|rate| rate.checked_sub(amount));
        match rest.filter(|rest| !rest.is_zero()) {
            Some(rest) => drop(self.rates.insert(denom, rest)),
            None => drop(self.rates.remove(&denom)),
        }
    }

    pub(super) fn withdrawn(&mut self, lease: &LeaseId, height: Height) {
        if let Some(account) = self.leases.get_mut(lease) {
            let blocks = height.saturating_sub(account.paid_height);
            account.paid_height = account.paid_height.max(height);
            let amount = account.price.for_blocks(blocks);
            increase(&mut self.withdrawn, &account.price.denom, amount);
        }
    }

    pub(super) fn blocks_passed(&mut self, blocks: u64) {
        for (denom, rate) in &self.rates {
            increase(&mut self.accrued, denom, rate.checked_mul_int(i128::from(blocks)));
        }
    }
}

/// Adds an amount. An overflow leaves the sum unchanged.
fn increase(amounts: &mut DenomAmounts, denom: &Denom, amount: Option<Dec>) {
    let Some(amount) = amount else { return };
    let sum = amounts.get(denom).copied().unwrap_or(Dec::ZERO);
    if let Some(sum) = sum.checked_add(amount) {
        amounts.insert(denom.clone(), sum);
    }
}
