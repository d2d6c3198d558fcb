//! Settlement of an escrow account: earnings of the leases, payouts, and insufficient funds.

use super::book::{CloseCause, DeploymentBook, LeaseBook, TxContext};
use super::escrow::{ONE, split_whole};
use super::ledger::Ledger;
use crate::types::{Dec, Denom, Height};

impl LeaseBook {
    /// Pays the earned whole units to the provider. The fraction of a unit remains unpaid.
    pub(super) fn pay_out(&mut self, ledger: &mut Ledger) {
        let (whole, rest) = split_whole(self.payment.balance.amount);
        if whole > 0 {
            ledger.credit(&self.lease.id.provider, &self.payment.withdrawn.denom, whole);
            self.payment.balance.amount = rest;
            self.payment.withdrawn.amount = self.payment.withdrawn.amount.saturating_add(whole);
        }
    }
}

impl DeploymentBook {
    /// Records the earnings of the active and reclaiming leases up to `height`. Returns whether the funds
    /// were insufficient.
    pub(super) fn settle(&mut self, height: Height) -> bool {
        let elapsed = i128::from(height.saturating_sub(self.escrow.account.settled_at));
        // Also without an active lease, so that these blocks are not paid later.
        self.escrow.account.settled_at = height;
        if elapsed == 0 {
            return false;
        }
        let mut denoms: Vec<Denom> = Vec::new();
        for lease in self.live_leases() {
            if !denoms.contains(&lease.payment.rate.denom) {
                denoms.push(lease.payment.rate.denom.clone());
            }
        }
        let mut overdrawn = false;
        for denom in &denoms {
            overdrawn |= self.settle_denom(denom, elapsed);
        }
        overdrawn
    }

    fn settle_denom(&mut self, denom: &Denom, elapsed: i128) -> bool {
        let rates = self.live_leases().filter(|l| l.payment.rate.denom == *denom);
        // Saturating, because bidders choose the rates.
        let total = rates.fold(0_i128, |sum, l| {
            sum.saturating_add(l.payment.rate.amount.scaled())
        });
        let balance = self.escrow.account.funds.get(denom).copied().unwrap_or_default();
        let funds = balance.scaled();
        // Also prevents a division by zero below.
        if total <= 0 {
            return false;
        }
        // Number of whole blocks that the funds pay for all leases. The rest is split below.
        let full = elapsed.min(funds.max(0) / total);
        let mut left = funds - total * full;
        let rest = left.max(0);
        let overdrawn = full < elapsed;
        let mut unserved = total;
        for lease in self.live_leases_mut().filter(|l| l.payment.rate.denom == *denom) {
            let rate = lease.payment.rate.amount.scaled();
            let mut earned = rate * full;
            let due = rate.saturating_mul(elapsed);
            if overdrawn {
                // Funds that do not pay a whole block for all leases are split by rate. The last lease gets
                // the rounding difference.
                let part = share(left.max(0), rate, unserved);
                earned += part;
                left -= part;
                unserved -= rate;
                lease.unsettled = whole(due.saturating_sub(earned));
            }
            let balance = lease.payment.balance.amount.scaled().saturating_add(earned);
            lease.payment.balance.amount = Dec::from_scaled(balance);
        }
        let spent = Dec::from_scaled(funds.max(0) - if overdrawn { 0 } else { rest });
        if overdrawn {
            // Missing funds are counted in whole units.
            let missing = total.saturating_mul(elapsed - full).saturating_sub(rest);
            left = whole(missing).scaled().saturating_neg();
            self.escrow.details.is_overdrawn = true;
        }
        self.escrow.details.spend(denom, spent);
        self.escrow
            .account
            .funds
            .insert(denom.clone(), Dec::from_scaled(left));
        overdrawn
    }

    /// Closes the deployment, because its funds are insufficient. The close is part of the transaction that
    /// detects the shortage.
    pub(super) fn close_overdrawn(&mut self, cx: &mut TxContext<'_>) {
        if self.record.active {
            self.end(cx, CloseCause::InsufficientFunds);
        }
    }
}

/// Rounds a scaled amount down to whole units.
const fn whole(scaled: i128) -> Dec {
    Dec::from_scaled(scaled - scaled % ONE)
}

/// Computes `amount × part / whole`, at most `amount`, without overflow. The result can be approximate if the
/// product exceeds 127 bits.
fn share(amount: i128, part: i128, whole: i128) -> i128 {
    if part >= whole {
        return amount;
    }
    // Reduced first, so that most products stay exact.
    let divisor = gcd(part, whole).max(1);
    let (mut part, mut whole) = (part / divisor, whole / divisor);
    loop {
        match amount.checked_mul(part) {
            Some(product) => return product / whole.max(1),
            None => {
                // Halving both values nearly preserves their ratio and prevents an overflow of the product.
                part >>= 1;
                whole >>= 1;
            }
        }
    }
}

fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
