//! Accounts and their balances.

use crate::types::{Address, Coin, Denom};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// State of an account.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AccountRecord {
    /// Number of the account. Accounts are numbered from 0, in the order of their creation.
    pub number: u64,
    /// Next sequence number, equal to the number of successful transactions.
    pub sequence: u64,
    /// Compressed secp256k1 key; `None` until [`set_pubkey`](super::Market::set_pubkey).
    pub pubkey: Option<Vec<u8>>,
    /// Balance in whole units, by denomination.
    pub coins: BTreeMap<Denom, u128>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Ledger {
    accounts: BTreeMap<Address, AccountRecord>,
}

impl Ledger {
    pub(super) fn get(&self, address: &Address) -> Option<&AccountRecord> {
        self.accounts.get(address)
    }

    pub(super) fn account(&mut self, address: &Address) -> &mut AccountRecord {
        let number = self.accounts.len() as u64;
        self.accounts
            .entry(address.clone())
            .or_insert_with(|| AccountRecord {
                number,
                ..AccountRecord::default()
            })
    }

    pub(super) fn balance(&self, address: &Address, denom: &str) -> u128 {
        let coins = self.accounts.get(address).map(|a| &a.coins);
        coins.and_then(|c| c.get(denom)).copied().unwrap_or(0)
    }

    pub(super) fn can_pay(&self, address: &Address, coin: &Coin) -> bool {
        self.balance(address, &coin.denom) >= coin.amount
    }

    pub(super) fn credit(&mut self, address: &Address, denom: &Denom, amount: u128) {
        let coins = &mut self.account(address).coins;
        match coins.get_mut(denom) {
            Some(balance) => *balance = balance.saturating_add(amount),
            None => drop(coins.insert(denom.clone(), amount)),
        }
    }

    /// Removes funds. The caller has checked the balance with [`can_pay`](Self::can_pay).
    pub(super) fn debit(&mut self, address: &Address, coin: &Coin) {
        if let Some(balance) = self.account(address).coins.get_mut(&coin.denom) {
            *balance = balance.saturating_sub(coin.amount);
        }
    }

    pub(super) fn count_transaction(&mut self, address: &Address) {
        self.account(address).sequence += 1;
    }
}
