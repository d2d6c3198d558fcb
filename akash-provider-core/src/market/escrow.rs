//! The escrow account of a deployment, settled when a transaction uses it.

use super::book::{DeploymentBook, Ending, LeaseBook, TxContext};
use super::ledger::Ledger;
use crate::types::{Address, Coin, Dec, DecCoin, Denom, EscrowAccount, Height};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// 10^18, the scale of a [`Dec`].
const ONE: i128 = 1_000_000_000_000_000_000;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Escrow {
    pub(super) account: EscrowAccount,
    /// Height of the newest withdrawal. The Akash network refuses a second withdrawal from the deployment in
    /// the same block.
    pub(super) withdrawn_at: Height,
    #[serde(default)]
    pub(super) details: EscrowDetails,
}

/// Values of an escrow account for a query response. The remaining funds are not included.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct EscrowDetails {
    /// Total amount that the account has transferred to leases, by denomination.
    pub transferred: BTreeMap<Denom, Dec>,
    /// Height and remaining amount of each deposit, oldest first; empty after the account is closed.
    pub deposits: Vec<(Height, DecCoin)>,
    /// Whether the account was closed because of insufficient funds.
    pub is_overdrawn: bool,
}

impl EscrowDetails {
    /// Subtracts an amount from the deposits, from the oldest deposit first.
    fn spend(&mut self, denom: &Denom, amount: Dec) {
        let transferred = self.transferred.entry(denom.clone()).or_default();
        // Saturating, because this sum is only displayed and must not block a payment.
        *transferred = Dec::from_scaled(transferred.scaled().saturating_add(amount.scaled()));
        let mut left = amount.scaled();
        for (_, deposit) in self.deposits.iter_mut().filter(|(_, d)| d.denom == *denom) {
            let part = left.min(deposit.amount.scaled());
            deposit.amount = Dec::from_scaled(deposit.amount.scaled() - part);
            left -= part;
        }
        self.deposits.retain(|(_, deposit)| !deposit.amount.is_zero());
    }
}

pub(super) fn to_dec(amount: u128) -> Option<Dec> {
    let amount = i128::try_from(amount).ok()?;
    amount.checked_mul(ONE).map(Dec::from_scaled)
}

/// Splits a decimal into its whole part and the rest. A negative whole part is returned as zero.
fn split_whole(value: Dec) -> (u128, Dec) {
    let scaled = value.scaled();
    if scaled <= 0 {
        return (0, value);
    }
    let whole = u128::try_from(scaled / ONE).unwrap_or(0);
    (whole, Dec::from_scaled(scaled % ONE))
}

impl Escrow {
    pub(super) fn new(height: Height) -> Self {
        let account = EscrowAccount {
            funds: BTreeMap::new(),
            settled_at: height,
        };
        Self {
            account,
            withdrawn_at: 0,
            details: EscrowDetails::default(),
        }
    }

    /// Adds funds. If the account would overflow, changes nothing and returns false.
    pub(super) fn add(&mut self, height: Height, coin: &Coin) -> bool {
        let funds = self.account.funds.get(&coin.denom).copied().unwrap_or_default();
        let Some(amount) = to_dec(coin.amount) else {
            return false;
        };
        let Some(sum) = funds.checked_add(amount) else {
            return false;
        };
        self.account.funds.insert(coin.denom.clone(), sum);
        // A node reports the denomination with zero after its first deposit.
        self.details.transferred.entry(coin.denom.clone()).or_default();
        self.details
            .deposits
            .push((height, DecCoin::new(&coin.denom, amount)));
        true
    }

    /// Transfers the remaining whole units to the account of the tenant.
    pub(super) fn refund(&mut self, ledger: &mut Ledger, owner: &Address) {
        for (denom, funds) in &mut self.account.funds {
            // Accounts hold whole units, so the fraction stays in the escrow account.
            let (whole, rest) = split_whole(*funds);
            if whole > 0 {
                ledger.credit(owner, denom, whole);
                *funds = rest;
            }
        }
        self.details.deposits.clear();
    }
}

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
    #[must_use]
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
            self.end(cx, Ending::InsufficientFunds);
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
