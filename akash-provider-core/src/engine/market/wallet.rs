//! Balance of our account, for the deposits of bids. A bid that the account cannot pay is not sent, because its refusal
//! costs a fee: the order waits until the balance changes.
//!
//! The balance is the last reading, minus the deposits and fees of bids sent since. The estimate is never too high, and
//! where it is too low the account is read again. Bids wait for the first reading.
//!
//! After the chain refused a deposit or a fee, the coin is not used again until a reading shows more money, or until the
//! parameters of the market are read again although a reading shows enough money: then the refusal has another cause.
//!
//! Two things leave the balance uncertain: a failed reading, and a refusal in spite of enough money. Then one bid goes
//! alone, and the others wait until it is on the chain: at most one transaction fails.
//!
//! Bids of one block still fail together when someone else with the key empties the account in the same block. Bids of
//! one transaction would fail as one, but then any tenant who closes an order could make all of them fail.

use super::order::{Input, Order, Phase};
use crate::bidding;
use crate::config::Config;
use crate::engine::{Call, Engine, Target};
use crate::error::Failure;
use crate::types::{Coin, Denom, Event, Height, MarketParams, Mono, OrderId, TxError, TxOutcome};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Longest time between two readings while an order waits for money.
const LOOK: Duration = Duration::from_secs(10);
/// Longest time between two readings otherwise.
const REST: Duration = Duration::from_secs(60);
/// Delay of a reading after a transaction, and after a block while an order waits for money: chains with short blocks cost
/// one query a second.
const SOON: Duration = Duration::from_secs(1);

/// Balance of the account, and when it is read again.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::engine) struct Wallet {
    /// The last reading minus the deposits and fees of bids sent since; `None` before the first reading.
    coins: Option<BTreeMap<Denom, u128>>,
    /// The last reading, for comparison with the next one.
    read: BTreeMap<Denom, u128>,
    /// A reading is in flight.
    asked: bool,
    /// Deposits that the reading in flight may lack: of bids under way when the reading was requested, and of bids sent
    /// since.
    unread: BTreeMap<OrderId, Coin>,
    /// Height at which the last reading was requested, and whether events of the next block were received already.
    asked_at: Option<(Height, bool)>,
    /// The chain refused a deposit while a reading was in flight, so the reading may be older than the refusal.
    is_outdated: bool,
    /// The last reading failed.
    has_failed: bool,
    /// When to read again.
    next: Option<Mono>,
    /// An order or a payout waits for money.
    is_awaited: bool,
    /// A transaction ended while a reading was in flight.
    is_changed: bool,
    /// Denominations that the chain refused as deposits for lack of money.
    refused: BTreeMap<Denom, Refusal>,
    /// The chain refused a transaction because the account cannot pay its fee.
    fee_refused: Option<Refusal>,
    /// The chain refused a bid although the account had enough, and has taken none since.
    is_unexplained: bool,
    /// The order whose bid goes alone.
    alone: Option<OrderId>,
    /// Orders that wait for the reading in flight before they reserve.
    waiting: BTreeSet<OrderId>,
}

/// A deposit or fee that the chain refused for lack of money.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Refusal {
    /// Deposit or fee, and reason, for operators.
    message: String,
    /// Money that was missing, as far as is known.
    missing: Coin,
    /// The account was read after the refusal.
    is_read: bool,
    /// The account had enough at that reading.
    is_unexplained: bool,
}

impl Refusal {
    fn new(missing: Coin, what: &str, mut reason: String) -> Self {
        bidding::cut(&mut reason);
        Self {
            message: format!("the account cannot pay {what}: {reason}"),
            missing,
            is_read: false,
            is_unexplained: false,
        }
    }

    /// Returns true where the account lacked the money at the first reading and has it now.
    fn is_over(&self, held: &BTreeMap<Denom, u128>) -> bool {
        let has_enough = amount(held, &self.missing.denom) >= self.missing.amount;
        self.is_read && !self.is_unexplained && has_enough
    }

    fn read(&mut self, held: &BTreeMap<Denom, u128>) {
        if !self.is_read {
            self.is_read = true;
            self.is_unexplained = amount(held, &self.missing.denom) >= self.missing.amount;
        }
    }
}

fn amount(held: &BTreeMap<Denom, u128>, denom: &Denom) -> u128 {
    held.get(denom).copied().unwrap_or_default()
}

impl Wallet {
    /// Returns the deposit of the next bid: the first of the configured ones that the chain takes and the account can
    /// pay.
    pub(in crate::engine) fn deposit<'a>(
        &self,
        config: &'a Config,
        params: Option<&MarketParams>,
    ) -> Option<&'a Coin> {
        let fee = &config.bid_fee;
        bidding::deposits(config, params).find(|coin| self.sendable(coin, fee) > 0)
    }

    /// Returns how many bids with this deposit may be sent now.
    fn sendable(&self, deposit: &Coin, fee: &Coin) -> u128 {
        let payable = self.payable(deposit, fee);
        if self.is_uncertain() {
            payable.min(u128::from(self.alone.is_none()))
        } else {
            payable
        }
    }

    /// Returns how many bids with this deposit the account can pay, as far as is known.
    fn payable(&self, deposit: &Coin, fee: &Coin) -> u128 {
        if self.refused.contains_key(&deposit.denom) || self.fee_refused.is_some() {
            return 0;
        }
        let Some(coins) = &self.coins else { return 1 };
        // What costs nothing can be paid without end.
        let times = |denom, cost| amount(coins, denom).checked_div(cost).unwrap_or(u128::MAX);
        if deposit.denom == fee.denom {
            return times(&deposit.denom, deposit.amount.saturating_add(fee.amount));
        }
        times(&deposit.denom, deposit.amount).min(times(&fee.denom, fee.amount))
    }

    /// True while one bid goes alone.
    const fn is_uncertain(&self) -> bool {
        self.has_failed || self.is_unexplained
    }

    /// The chain refused this deposit for lack of money.
    fn refuse(&mut self, deposit: Coin, reason: String, now: Mono) {
        let what = format!("{deposit} and the fee");
        let denom = Denom::clone(&deposit.denom);
        self.refused.insert(denom, Refusal::new(deposit, &what, reason));
        self.refused_at(now);
    }

    /// The chain refused a transaction because the account cannot pay its fee.
    fn refuse_fee(&mut self, fee: &Coin, reason: String, now: Mono) {
        let what = format!("the fee of a transaction in {}", fee.denom);
        self.fee_refused = Some(Refusal::new(fee.clone(), &what, reason));
        self.refused_at(now);
    }

    fn refused_at(&mut self, now: Mono) {
        self.is_outdated |= self.asked;
        self.is_awaited = true;
        self.next = Some(now);
    }

    /// The parameters of the market were read.
    pub(in crate::engine) fn parameters_read(&mut self) {
        // Where too little is left, only more money helps.
        let stands = |refusal: &Refusal| !refusal.is_unexplained;
        self.refused.retain(|_, refusal| stands(refusal));
        self.fee_refused.take_if(|refusal| !stands(refusal));
    }

    /// A block has ended.
    pub(in crate::engine) fn block(&mut self, now: Mono) {
        if self.is_awaited || self.next.is_none() {
            self.read_soon(now);
        }
    }

    fn read_soon(&mut self, now: Mono) {
        let soon = now.plus(SOON);
        self.next = Some(self.next.map_or(soon, |at| at.min(soon)));
    }

    /// A bid of this order with this deposit is on its way.
    pub(in crate::engine) fn send(&mut self, order: &OrderId, deposit: &Coin, fee: &Coin) {
        self.spend(deposit);
        self.spend(fee);
        if self.asked {
            self.unread.insert(order.clone(), deposit.clone());
        }
        if self.is_uncertain() {
            self.alone = Some(order.clone());
        }
    }

    /// A bid of this order has its outcome, or the order is over. Returns true where the bid went alone.
    pub(in crate::engine) fn sent(&mut self, order: &OrderId, has_landed: bool) -> bool {
        let was_alone = self.alone.take_if(|alone| alone == order).is_some();
        if was_alone && has_landed {
            self.is_unexplained = false;
            // The next reading may fail too, but bids go through.
            self.has_failed = false;
        }
        was_alone
    }

    fn spend(&mut self, coin: &Coin) {
        let held = self.coins.as_mut().and_then(|coins| coins.get_mut(&coin.denom));
        if let Some(held) = held {
            // What is known errs towards too little, so it may be less than what is spent.
            *held = held.saturating_sub(coin.amount);
        }
    }

    /// Stores a reading and returns true where it shows more money for fees. Deposits and fees that the reading may lack
    /// are subtracted.
    fn take(&mut self, balances: Vec<Coin>, fee: &Coin) -> bool {
        let read: BTreeMap<Denom, u128> = balances.into_iter().map(|c| (c.denom, c.amount)).collect();
        let before = std::mem::replace(&mut self.read, read.clone());
        let is_first = self.coins.is_none();
        let is_more = |denom: &Denom| is_first || amount(&read, denom) > amount(&before, denom);
        let has_more = read.keys().any(is_more);
        if !self.is_outdated {
            // Also where an outdated reading showed the money before, so that it is not more now.
            self.refused.retain(|_, refusal| !refusal.is_over(&read));
            let refusals = self.refused.values_mut().chain(&mut self.fee_refused);
            for refusal in refusals {
                refusal.read(&read);
                self.is_unexplained |= refusal.is_unexplained;
            }
            if has_more {
                self.refused.clear();
            }
            self.fee_refused.take_if(|_| is_more(&fee.denom));
        }
        let has_more_fee = is_more(&fee.denom);
        self.coins = Some(read);
        for deposit in std::mem::take(&mut self.unread).values() {
            self.spend(deposit);
            self.spend(fee);
        }
        has_more_fee
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
        let fee = Some(&self.config.bid_fee.denom).filter(|denom| !denom.is_empty());
        let mut denoms: Vec<Denom> = deposits.chain(fee).cloned().collect();
        denoms.sort_unstable();
        // Two deposits in one denomination take one query.
        denoms.dedup();
        let machines = self.market.orders.machines().into_iter();
        let under_way = machines.filter_map(|(id, m)| Some((id.clone(), m.deposit_under_way()?.clone())));
        self.market.wallet.unread = under_way.collect();
        self.market.wallet.asked = true;
        self.market.wallet.asked_at = Some(self.within());
        self.market.wallet.next = None;
        self.call(Target::Wallet, Call::FetchBalances(denoms));
    }

    /// Reads the account before the bids of a block that brings orders: money may have left it unnoticed, and each
    /// refused bid costs a fee.
    pub(in crate::engine) fn read_wallet_for_orders(&mut self) {
        let is_fresh = self.market.wallet.asked_at == Some(self.within());
        if !is_fresh && self.cx(&self.config).may_bid() {
            self.read_wallet();
        }
    }

    fn within(&self) -> (Height, bool) {
        (self.progress.height(), self.progress.within_block())
    }

    /// True when the order has to wait for a reading; the order reserves once the reading came.
    pub(in crate::engine) fn awaits_wallet(&mut self, id: &OrderId) -> bool {
        let wallet = &mut self.market.wallet;
        // Where readings fail, no bid waits for one.
        let waits = wallet.asked && !wallet.has_failed;
        if waits {
            wallet.waiting.insert(id.clone());
        }
        waits
    }

    /// Reads the account where a reading is due.
    pub(in crate::engine) fn drive_wallet(&mut self) {
        let now = self.progress.mono();
        if self.market.wallet.next.is_none_or(|at| at > now) {
            return;
        }
        if self.cx(&self.config).may_write() {
            self.read_wallet();
        } else {
            self.market.wallet.next = Some(now.plus(REST));
        }
    }

    /// A transaction of ours has its outcome, so the balance is another one.
    pub(in crate::engine) fn transaction_ended(&mut self, result: &Result<TxOutcome, Failure>) {
        let now = self.progress.mono();
        let wallet = &mut self.market.wallet;
        match result {
            // It was not sent.
            Err(_) => {}
            Ok(TxOutcome::Rejected {
                error: TxError::FeeUnpaid,
                code,
                log,
            }) => {
                wallet.refuse_fee(&self.config.bid_fee, format!("{code}: {log}"), now);
            }
            Ok(TxOutcome::Committed { .. } | TxOutcome::Rejected { .. } | TxOutcome::Unknown { .. }) => {
                wallet.is_changed |= wallet.asked;
                wallet.read_soon(now);
            }
        }
    }

    /// The account was read: as many orders go on as it can pay for. A failure changes nothing that is known.
    pub(in crate::engine) fn wallet_read(&mut self, result: Result<Vec<Coin>, Failure>) {
        let missing = self.deposit_missing();
        self.market.wallet.asked = false;
        self.market.wallet.has_failed = result.is_err();
        let mut has_more_fee = false;
        if let Ok(balances) = result {
            has_more_fee = self.market.wallet.take(balances, &self.config.bid_fee);
        }
        let is_outdated = std::mem::take(&mut self.market.wallet.is_outdated);
        let is_changed = std::mem::take(&mut self.market.wallet.is_changed);
        // Nothing else of a reading shows in the status.
        self.changes += u64::from(self.deposit_missing() != missing);
        self.reserve_waiting();
        let is_unfunded = !self.unfunded().is_empty();
        let wallet = &mut self.market.wallet;
        wallet.is_awaited = is_unfunded || wallet.fee_refused.is_some();
        let pause = match (is_outdated, is_changed, wallet.is_awaited) {
            (true, ..) => Duration::ZERO,
            (_, true, _) => SOON,
            // After a failure too: as long as something waits, the account is read.
            (_, _, true) => LOOK,
            (false, false, false) => REST,
        };
        wallet.next = Some(self.progress.mono().plus(pause));
        self.wake_unfunded();
        if has_more_fee {
            self.repeat_payouts();
        }
    }

    fn unfunded(&self) -> Vec<OrderId> {
        let machines = self.market.orders.machines().into_iter();
        let unfunded = machines.filter(|(_, m)| *m.phase() == Phase::Unfunded);
        unfunded.map(|(id, _)| id.clone()).collect()
    }

    /// Wakes as many orders as the account can pay for: the refusal of any other may cost a fee.
    pub(in crate::engine) fn wake_unfunded(&mut self) {
        let fee = &self.config.bid_fee;
        let deposits = bidding::deposits(&self.config, self.market.facts.params());
        let sendable = deposits.map(|coin| self.market.wallet.sendable(coin, fee));
        // Where the chain takes none of the deposits, no money helps, and every order is declined for it.
        let sendable = sendable.reduce(u128::saturating_add).unwrap_or(u128::MAX);
        let sendable = usize::try_from(sendable).unwrap_or(usize::MAX);
        for id in self.unfunded().into_iter().take(sendable) {
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

    /// Balance and cost of a bid, and what the chain refused.
    fn too_little(&self) -> String {
        let wallet = &self.market.wallet;
        let fee = &self.config.bid_fee;
        let wanted = bidding::deposits(&self.config, self.market.facts.params());
        let wanted: Vec<String> = wanted.map(ToString::to_string).collect();
        let mut message = format!("a bid takes {}", wanted.join(" or "));
        if fee.amount > 0 {
            message.push_str(&format!(" and about {fee} for its fee"));
        }
        message.push_str(&format!(", the account has {}", wallet.shown()));
        for refusal in wallet.refused.values().chain(&wallet.fee_refused) {
            message.push_str("; ");
            message.push_str(&refusal.message);
        }
        if wallet.is_uncertain() && wallet.alone.is_some() {
            message.push_str("; one bid is tried before the others, because the balance is uncertain");
        }
        message
    }

    /// Returns why no bid can be paid; `None` where one can, or where nothing is known of the balance.
    pub(in crate::engine) fn deposit_missing(&self) -> Option<String> {
        let wallet = &self.market.wallet;
        let mut deposits = bidding::deposits(&self.config, self.market.facts.params()).peekable();
        // Where the chain takes none of the deposits, no money helps.
        deposits.peek()?;
        let is_payable = deposits.any(|coin| wallet.payable(coin, &self.config.bid_fee) > 0);
        (!is_payable).then(|| self.too_little())
    }

    /// The chain refused this deposit for lack of money.
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
        let wallet = &mut self.market.wallet;
        if !wallet.is_awaited {
            wallet.is_awaited = true;
            wallet.next = Some(now);
        }
    }
}

impl Order {
    /// The deposit of a bid that may be on its way.
    fn deposit_under_way(&self) -> Option<&Coin> {
        let sent = matches!(self.phase(), Phase::Bidding { .. } | Phase::Unsure { .. });
        self.deposit().filter(|_| sent)
    }
}
