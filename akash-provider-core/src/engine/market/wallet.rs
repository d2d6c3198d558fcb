//! Balance of our account, for the deposits of bids. A bid that the account cannot pay is not sent, because its refusal
//! costs a fee: the order waits until the balance changes.
//!
//! The balance is the last reading, minus the deposits of bids sent since. The estimate is never too high, and where it
//! is too low the account is read again. Before the first reading, no bid is held back.
//!
//! After the chain refused a deposit, the coin is not used again until a reading shows more money, or until the parameters
//! of the market are read again although a reading shows enough money: then the refusal has another cause.

use super::order::{Input, Order, Phase};
use crate::bidding;
use crate::config::Config;
use crate::engine::{Call, Engine, Target};
use crate::error::Failure;
use crate::types::{Coin, Denom, Event, Height, MarketParams, Mono, OrderId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Longest time between two readings while an order waits for money.
const LOOK: Duration = Duration::from_secs(10);
/// Delay of a reading after a block while an order waits for money: chains with short blocks cost one query a second.
const AFTER_BLOCK: Duration = Duration::from_secs(1);

/// Balance of the account, and when it is read again.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::engine) struct Wallet {
    /// The last reading minus the deposits of bids sent since; `None` before the first reading.
    coins: Option<BTreeMap<Denom, u128>>,
    /// The last reading, for comparison with the next one.
    read: BTreeMap<Denom, u128>,
    /// A reading is in flight.
    asked: bool,
    /// Height at which the last reading was requested.
    asked_at: Option<Height>,
    /// The chain refused a deposit while a reading was in flight, so the reading may be older than the refusal.
    is_outdated: bool,
    /// The last reading failed.
    has_failed: bool,
    /// When to read again, because an order waits.
    next: Option<Mono>,
    /// Denominations that the chain refused for lack of money.
    refused: BTreeMap<Denom, Refusal>,
    /// Orders that wait for the reading in flight before they reserve.
    waiting: BTreeSet<OrderId>,
}

/// A deposit that the chain refused for lack of money.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Refusal {
    /// Deposit and reason, for operators.
    message: String,
    /// The account was read after the refusal.
    is_read: bool,
}

impl Wallet {
    /// Returns the deposit of the next bid: the first of the configured ones that the chain takes and the account can
    /// pay.
    pub(in crate::engine) fn deposit<'a>(
        &self,
        config: &'a Config,
        params: Option<&MarketParams>,
    ) -> Option<&'a Coin> {
        bidding::deposits(config, params).find(|coin| self.payable(coin) > 0)
    }

    /// Returns how many of these deposits the account can pay; 1 while the balance is not known.
    fn payable(&self, deposit: &Coin) -> u128 {
        if self.refused.contains_key(&deposit.denom) {
            return 0;
        }
        let Some(coins) = &self.coins else { return 1 };
        let held = coins.get(&deposit.denom).copied().unwrap_or_default();
        // A deposit of nothing can be paid without end.
        held.checked_div(deposit.amount).unwrap_or(u128::MAX)
    }

    /// The chain refused this deposit for lack of money.
    fn refuse(&mut self, deposit: Coin, mut reason: String, now: Mono) {
        bidding::cut(&mut reason);
        let message = format!("the account cannot pay {deposit} and the fee: {reason}");
        let is_read = false;
        self.refused.insert(deposit.denom, Refusal { message, is_read });
        self.is_outdated |= self.asked;
        self.next = Some(now);
    }

    /// The parameters of the market were read.
    pub(in crate::engine) fn parameters_read(&mut self) {
        // Where too little is left, the balance itself keeps the coin from being used.
        self.refused.retain(|_, refusal| !refusal.is_read);
    }

    /// A block has ended.
    pub(in crate::engine) fn block(&mut self, now: Mono) {
        let soon = now.plus(AFTER_BLOCK);
        self.next = self.next.map(|at| at.min(soon));
    }

    /// A bid with this deposit is on its way.
    pub(in crate::engine) fn spend(&mut self, deposit: &Coin) {
        let held = self
            .coins
            .as_mut()
            .and_then(|coins| coins.get_mut(&deposit.denom));
        if let Some(held) = held {
            // What is known errs towards too little, so it may be less than what is spent.
            *held = held.saturating_sub(deposit.amount);
        }
    }

    /// Stores a reading. Bids in flight may be in it or not, so their deposits are subtracted.
    fn take(&mut self, balances: Vec<Coin>, in_flight: &[Coin]) {
        let read: BTreeMap<Denom, u128> = balances.into_iter().map(|c| (c.denom, c.amount)).collect();
        let before = std::mem::replace(&mut self.read, read.clone());
        // The refusal may have been for lack of the fee, so more of any coin counts.
        let more = |(denom, held): (&Denom, &u128)| before.get(denom).is_some_and(|b| held > b);
        let has_changed = self.coins.is_none() || read.iter().any(more);
        if !self.is_outdated && has_changed {
            self.refused.clear();
        }
        for refusal in self.refused.values_mut() {
            refusal.is_read |= !self.is_outdated;
        }
        self.coins = Some(read);
        for deposit in in_flight {
            self.spend(deposit);
        }
    }

    /// What is there, for people.
    fn shown(&self) -> String {
        let coin = |(denom, amount): (&Denom, &u128)| format!("{amount}{denom}");
        let coins: Vec<String> = self.coins.iter().flatten().map(coin).collect();
        if coins.is_empty() {
            "an unknown balance".to_owned()
        } else {
            coins.join(" and ")
        }
    }

    /// When it is read again.
    pub(in crate::engine) fn deadline(&self) -> Option<Mono> {
        self.next.filter(|_| !self.asked)
    }
}

impl Engine {
    /// Reads the account, unless a reading is in flight.
    pub(in crate::engine) fn read_wallet(&mut self) {
        if self.market.wallet.asked || self.role.is_stopping() {
            return;
        }
        let deposits = self.config.bid_deposits().map(|c| &c.denom);
        let fee = Some(&self.config.fee_denom).filter(|denom| !denom.is_empty());
        let mut denoms: Vec<Denom> = deposits.chain(fee).cloned().collect();
        denoms.sort_unstable();
        // Two deposits in one denomination take one query.
        denoms.dedup();
        let height = self.progress.height();
        self.market.wallet.asked = true;
        self.market.wallet.asked_at = Some(height);
        self.market.wallet.next = None;
        self.call(Target::Wallet, Call::FetchBalances(denoms));
    }

    /// Reads the account before the bids of a block that brings orders: money may have left it unnoticed, and each
    /// refused bid costs a fee.
    pub(in crate::engine) fn read_wallet_for_orders(&mut self) {
        let is_fresh = self.market.wallet.asked_at == Some(self.progress.height());
        if !is_fresh && self.cx(&self.config).may_bid() {
            self.read_wallet();
        }
    }

    /// True when the order has to wait for a reading; the order reserves once the reading came.
    pub(in crate::engine) fn awaits_wallet(&mut self, id: &OrderId) -> bool {
        let wallet = &mut self.market.wallet;
        // Where readings fail, no bid waits for one.
        let waits = wallet.asked && wallet.coins.is_some() && !wallet.has_failed;
        if waits {
            wallet.waiting.insert(id.clone());
        }
        waits
    }

    /// Reads the account where a reading is due.
    pub(in crate::engine) fn drive_wallet(&mut self) {
        let now = self.progress.mono();
        if self.market.wallet.next.is_some_and(|at| at <= now) {
            self.read_wallet();
        }
    }

    /// The account was read: as many orders go on as it can pay for. A failure changes nothing that is known.
    pub(in crate::engine) fn wallet_read(&mut self, result: Result<Vec<Coin>, Failure>) {
        self.market.wallet.asked = false;
        self.market.wallet.has_failed = result.is_err();
        if let Ok(balances) = result {
            let machines = self.market.orders.machines().into_iter();
            let in_flight: Vec<Coin> = machines
                .filter_map(|(_, m)| m.deposit_under_way().cloned())
                .collect();
            self.market.wallet.take(balances, &in_flight);
        }
        let is_outdated = std::mem::take(&mut self.market.wallet.is_outdated);
        self.reserve_waiting();
        let machines = self.market.orders.machines().into_iter();
        let unfunded = machines.filter(|(_, m)| *m.phase() == Phase::Unfunded);
        let unfunded: Vec<OrderId> = unfunded.map(|(id, _)| id.clone()).collect();
        if unfunded.is_empty() && !is_outdated {
            return;
        }
        // After a failure too: as long as orders wait, the account is read.
        let pause = if is_outdated { Duration::ZERO } else { LOOK };
        self.market.wallet.next = Some(self.progress.mono().plus(pause));
        let deposits = bidding::deposits(&self.config, self.market.facts.params());
        let payable = deposits.map(|coin| self.market.wallet.payable(coin));
        // Where the chain takes none of the deposits, no money helps, and every order is declined for it.
        let payable = payable.reduce(u128::saturating_add).unwrap_or(u128::MAX);
        let payable = usize::try_from(payable).unwrap_or(usize::MAX);
        // No more than the account can pay for: the refusal of any other may cost a fee.
        for id in unfunded.into_iter().take(payable) {
            self.drive_order(&id, Input::Wake);
        }
    }

    /// Orders that waited for the reading go on.
    fn reserve_waiting(&mut self) {
        for id in std::mem::take(&mut self.market.wallet.waiting) {
            // The order may have ended meanwhile.
            let phase = self.market.orders.get(&id).map(Order::phase);
            if matches!(phase, Some(Phase::Reserving)) {
                self.reserve(&id);
            }
        }
    }

    /// Balance and price of a bid, and what the chain refused.
    fn too_little(&self) -> String {
        let wanted = bidding::deposits(&self.config, self.market.facts.params());
        let wanted: Vec<String> = wanted.map(ToString::to_string).collect();
        let held = self.market.wallet.shown();
        let mut message = format!("a bid takes {}, the account has {held}", wanted.join(" or "));
        for refusal in self.market.wallet.refused.values() {
            message.push_str("; ");
            message.push_str(&refusal.message);
        }
        message
    }

    /// Returns why no bid can be paid; `None` where one can, or where nothing is known of the balance.
    pub(in crate::engine) fn deposit_missing(&self) -> Option<String> {
        let wallet = &self.market.wallet;
        let mut deposits = bidding::deposits(&self.config, self.market.facts.params()).peekable();
        // Where the chain takes none of the deposits, no money helps.
        deposits.peek()?;
        let is_payable = deposits.any(|coin| wallet.payable(coin) > 0);
        (!is_payable).then(|| self.too_little())
    }

    /// The chain refused this deposit, or the fee, for lack of money.
    pub(in crate::engine) fn money_refused(&mut self, deposit: Coin, reason: String) {
        let now = self.progress.mono();
        self.market.wallet.refuse(deposit, reason, now);
    }

    /// An order waits for money.
    pub(in crate::engine) fn money_awaited(&mut self, id: &OrderId, is_news: bool) {
        if is_news {
            let (order, message) = (id.clone(), self.too_little());
            self.publish(Event::BidUnfunded { order, message });
        }
        // Money may have come back since the last reading.
        let now = self.progress.mono();
        self.market.wallet.next.get_or_insert(now);
    }
}

impl Order {
    /// The deposit of a bid that may be on its way.
    fn deposit_under_way(&self) -> Option<&Coin> {
        let sent = matches!(self.phase(), Phase::Bidding { .. } | Phase::Unsure { .. });
        self.deposit().filter(|_| sent)
    }
}
