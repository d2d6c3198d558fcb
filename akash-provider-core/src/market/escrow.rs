//! The escrow account of a deployment, settled when a transaction uses it.

use super::ledger::Ledger;
use crate::types::{Address, Coin, Dec, DecCoin, Denom, EscrowAccount, Height};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// 10^18, the scale of a [`Dec`].
pub(super) const ONE: i128 = 1_000_000_000_000_000_000;

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
    pub(super) fn spend(&mut self, denom: &Denom, amount: Dec) {
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
pub(super) fn split_whole(value: Dec) -> (u128, Dec) {
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
