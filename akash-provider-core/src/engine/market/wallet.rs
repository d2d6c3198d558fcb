//! Account balance for the deposits of bids. A bid that the account cannot pay is not sent, because a
//! rejected transaction costs a fee. The order waits until the balance changes.
//!
//! The estimated balance is the last balance that was read, minus the deposits and fees of bids that were
//! sent after this read. The estimate never exceeds the real balance if only this provider spends from the
//! account. If the estimate does not suffice, the account is read again. Bids wait for the first read.
//!
//! After the chain rejected a deposit or a fee, its denomination is not used until a read shows a higher
//! balance. If the read shows a sufficient balance, the rejection has another cause. The denomination is then
//! used again after the market parameters were read.
//!
//! The balance is uncertain after a failed read, and after a rejection although the balance was sufficient.
//! In these cases, a single bid is sent, and other bids wait for its result. At most one transaction fails.
//!
//! Several bids of one block can still fail if another process with the same key spends the balance in that
//! block. The bids are not combined into one transaction, because then any tenant who closes an order could
//! make all of them fail.

use super::order::{Order, OrderInput, OrderStage};
use crate::bidding;
use crate::config::Config;
use crate::engine::{Call, CallTarget, Engine};
use crate::error::Failure;
use crate::types::{Coin, Denom, Event, Height, MarketParams, Mono, OrderId, TxError, TxOutcome};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Maximum time between two reads of the balance while an order waits for a sufficient balance.
const READ_INTERVAL_WAITING: Duration = Duration::from_secs(10);
/// Maximum time between two reads of the balance while no order waits for the balance.
const READ_INTERVAL: Duration = Duration::from_secs(60);
/// Delay between a transaction and the next read of the balance. While an order waits for the balance, the
/// delay also applies after each block.
const READ_DELAY: Duration = Duration::from_secs(1);

/// Estimated account balance, and the state of the balance queries.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::engine) struct Wallet {
    /// Last balance that was read, minus the deposits and fees of later bids. `None` before the first read.
    coins: Option<BTreeMap<Denom, u128>>,
    /// Last balance that was read, for a comparison with the next balance.
    read: BTreeMap<Denom, u128>,
    is_reading: bool,
    /// Deposits of bids in flight during the current balance query. The chain possibly deducts these deposits
    /// only after the query.
    unconfirmed: BTreeMap<OrderId, Coin>,
    /// Position in the event stream at the start of the last balance query: the processed height, and whether
    /// events of the next block were already received.
    requested_at: Option<(Height, bool)>,
    /// True if the result of the current read may be outdated: the chain rejected a deposit during the read.
    is_outdated: bool,
    /// True if the last read of the balance failed.
    has_failed: bool,
    /// Time of the next read of the balance.
    next: Option<Mono>,
    /// True if an order or a payout waits for the balance.
    has_waiting: bool,
    /// True if a transaction completed while a read of the balance was in flight.
    is_changed: bool,
    /// Deposits that the chain rejected for insufficient balance, by denomination.
    rejected: BTreeMap<Denom, FundsRejection>,
    /// Rejection of a transaction because the account cannot pay the transaction fee.
    fee_rejected: Option<FundsRejection>,
    /// True if the chain rejected a bid despite a sufficient balance, and has accepted no bid since.
    is_unexplained: bool,
    /// Order with a bid in flight. While the balance is uncertain, no other bid is sent.
    single_bid: Option<OrderId>,
    /// Orders that reserve capacity only after the pending read of the balance.
    waiting: BTreeSet<OrderId>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct FundsRejection {
    /// Missing amount and reason, as text for operators.
    message: String,
    /// Full amount of the deposit or fee that the account could not pay.
    missing: Coin,
    /// True if the balance was read after this rejection.
    is_read: bool,
    /// True if the first balance that was read after the rejection was sufficient.
    is_unexplained: bool,
}

impl FundsRejection {
    fn new(missing: Coin, what: &str, mut reason: String) -> Self {
        bidding::cut(&mut reason);
        Self {
            message: format!("the account cannot pay {what}: {reason}"),
            missing,
            is_read: false,
            is_unexplained: false,
        }
    }

    /// Returns true if the first balance after the rejection was too low, and `balances` is sufficient now.
    fn is_resolved(&self, balances: &BTreeMap<Denom, u128>) -> bool {
        let has_enough = amount(balances, &self.missing.denom) >= self.missing.amount;
        self.is_read && !self.is_unexplained && has_enough
    }

    fn read(&mut self, balances: &BTreeMap<Denom, u128>) {
        if !self.is_read {
            self.is_read = true;
            self.is_unexplained = amount(balances, &self.missing.denom) >= self.missing.amount;
        }
    }
}

fn amount(balances: &BTreeMap<Denom, u128>, denom: &Denom) -> u128 {
    balances.get(denom).copied().unwrap_or_default()
}

impl Wallet {
    /// Returns the deposit of the next bid: the first configured deposit that the chain accepts and the account can
    /// pay.
    pub(in crate::engine) fn deposit<'a>(
        &self,
        config: &'a Config,
        params: Option<&MarketParams>,
    ) -> Option<&'a Coin> {
        let fee = &config.bid_fee;
        bidding::deposits(config, params).find(|coin| self.sendable(coin, fee) > 0)
    }

    /// Returns how many bids with this deposit can be sent now.
    fn sendable(&self, deposit: &Coin, fee: &Coin) -> u128 {
        let payable = self.payable(deposit, fee);
        if self.is_uncertain() {
            payable.min(u128::from(self.single_bid.is_none()))
        } else {
            payable
        }
    }

    /// Returns how many bids with this deposit the account can pay from the estimated balance.
    fn payable(&self, deposit: &Coin, fee: &Coin) -> u128 {
        if self.rejected.contains_key(&deposit.denom) || self.fee_rejected.is_some() {
            return 0;
        }
        let Some(coins) = &self.coins else { return 1 };
        // A cost of zero does not limit the number.
        let times = |denom, cost| amount(coins, denom).checked_div(cost).unwrap_or(u128::MAX);
        if deposit.denom == fee.denom {
            return times(&deposit.denom, deposit.amount.saturating_add(fee.amount));
        }
        times(&deposit.denom, deposit.amount).min(times(&fee.denom, fee.amount))
    }

    /// Returns true if the balance is uncertain, so that only a single bid may be sent.
    const fn is_uncertain(&self) -> bool {
        self.has_failed || self.is_unexplained
    }

    fn reject_deposit(&mut self, deposit: Coin, reason: String, now: Mono) {
        let what = format!("{deposit} and the fee");
        let denom = Denom::clone(&deposit.denom);
        self.rejected
            .insert(denom, FundsRejection::new(deposit, &what, reason));
        self.read_after_rejection(now);
    }

    fn reject_fee(&mut self, fee: &Coin, reason: String, now: Mono) {
        let what = format!("the fee of a transaction in {}", fee.denom);
        self.fee_rejected = Some(FundsRejection::new(fee.clone(), &what, reason));
        self.read_after_rejection(now);
    }

    fn read_after_rejection(&mut self, now: Mono) {
        self.is_outdated |= self.is_reading;
        self.has_waiting = true;
        self.next = Some(now);
    }

    /// Clears the rejections that occurred despite a sufficient balance. Called after the market parameters
    /// were read, because outdated parameters can cause such rejections.
    pub(in crate::engine) fn parameters_read(&mut self) {
        // A rejection for insufficient balance is cleared only by a higher balance.
        let stands = |rejection: &FundsRejection| !rejection.is_unexplained;
        self.rejected.retain(|_, rejection| stands(rejection));
        self.fee_rejected.take_if(|rejection| !stands(rejection));
    }

    /// Handles a new block. Schedules a read of the balance if a read is needed.
    pub(in crate::engine) fn block(&mut self, now: Mono) {
        if self.has_waiting || self.next.is_none() {
            self.read_soon(now);
        }
    }

    fn read_soon(&mut self, now: Mono) {
        let soon = now.plus(READ_DELAY);
        self.next = Some(self.next.map_or(soon, |at| at.min(soon)));
    }

    /// Deducts the deposit and the fee of a bid from the estimated balance.
    pub(in crate::engine) fn send(&mut self, order: &OrderId, deposit: &Coin, fee: &Coin) {
        self.spend(deposit);
        self.spend(fee);
        if self.is_reading {
            self.unconfirmed.insert(order.clone(), deposit.clone());
        }
        if self.is_uncertain() {
            self.single_bid = Some(order.clone());
        }
    }

    /// Processes the result of a bid, or the end of the order. Returns true if `order` was the order in
    /// `single_bid`.
    pub(in crate::engine) fn sent(&mut self, order: &OrderId, has_landed: bool) -> bool {
        let was_single = self
            .single_bid
            .take_if(|single_bid| single_bid == order)
            .is_some();
        if was_single && has_landed {
            self.is_unexplained = false;
            // Bids succeed, so the next reads need not succeed.
            self.has_failed = false;
        }
        was_single
    }

    fn spend(&mut self, coin: &Coin) {
        let balance = self.coins.as_mut().and_then(|coins| coins.get_mut(&coin.denom));
        if let Some(balance) = balance {
            // The estimate may be too low, so the subtraction saturates.
            *balance = balance.saturating_sub(coin.amount);
        }
    }

    /// Stores the balance that was read, minus the deposits and fees of recent bids. Returns true if the
    /// balance in the fee denomination has increased.
    fn take(&mut self, balances: Vec<Coin>, fee: &Coin) -> bool {
        let read: BTreeMap<Denom, u128> = balances.into_iter().map(|c| (c.denom, c.amount)).collect();
        let before = std::mem::replace(&mut self.read, read.clone());
        let is_first = self.coins.is_none();
        let is_more = |denom: &Denom| is_first || amount(&read, denom) > amount(&before, denom);
        let has_more = read.keys().any(is_more);
        if !self.is_outdated {
            // Required in addition to `has_more`, because an outdated read may already have shown the balance.
            self.rejected.retain(|_, rejection| !rejection.is_resolved(&read));
            let rejections = self.rejected.values_mut().chain(&mut self.fee_rejected);
            for rejection in rejections {
                rejection.read(&read);
                self.is_unexplained |= rejection.is_unexplained;
            }
            if has_more {
                self.rejected.clear();
            }
            self.fee_rejected.take_if(|_| is_more(&fee.denom));
        }
        let has_more_fee = is_more(&fee.denom);
        self.coins = Some(read);
        for deposit in std::mem::take(&mut self.unconfirmed).values() {
            self.spend(deposit);
            self.spend(fee);
        }
        has_more_fee
    }

    fn format_balance(&self) -> String {
        let coin = |(denom, amount): (&Denom, &u128)| format!("{amount}{denom}");
        let coins: Vec<String> = self.coins.iter().flatten().map(coin).collect();
        if coins.is_empty() {
            "an unknown balance".to_owned()
        } else {
            coins.join(" and ")
        }
    }

    pub(in crate::engine) fn deadline(&self) -> Option<Mono> {
        self.next.filter(|_| !self.is_reading)
    }
}

impl Engine {
    /// Reads the account balance, unless a read is in flight or the provider is stopping.
    pub(in crate::engine) fn read_wallet(&mut self) {
        if self.market.wallet.is_reading || self.role.is_stopping() {
            return;
        }
        let deposits = self.config.bid_deposits().map(|c| &c.denom);
        let fee = Some(&self.config.bid_fee.denom).filter(|denom| !denom.is_empty());
        let mut denoms: Vec<Denom> = deposits.chain(fee).cloned().collect();
        denoms.sort_unstable();
        // Several deposits in one denomination need one query.
        denoms.dedup();
        let machines = self.market.orders.machines().into_iter();
        let in_flight = machines.filter_map(|(id, m)| Some((id.clone(), m.deposit_in_flight()?.clone())));
        self.market.wallet.unconfirmed = in_flight.collect();
        self.market.wallet.is_reading = true;
        self.market.wallet.requested_at = Some(self.position());
        self.market.wallet.next = None;
        self.call(CallTarget::Wallet, Call::FetchBalances(denoms));
    }

    /// Reads the account balance before bidding on the orders of a block, because another process may have
    /// spent the balance.
    pub(in crate::engine) fn read_wallet_for_orders(&mut self) {
        let is_fresh = self.market.wallet.requested_at == Some(self.position());
        if !is_fresh && self.cx(&self.config).may_bid() {
            self.read_wallet();
        }
    }

    fn position(&self) -> (Height, bool) {
        (self.progress.height(), self.progress.within_block())
    }

    /// Returns true if the order must wait for a read of the balance. The order reserves capacity after this read.
    pub(in crate::engine) fn awaits_wallet(&mut self, id: &OrderId) -> bool {
        let wallet = &mut self.market.wallet;
        // If reads fail, bids do not wait for them.
        let waits = wallet.is_reading && !wallet.has_failed;
        if waits {
            wallet.waiting.insert(id.clone());
        }
        waits
    }

    /// Reads the account balance if a read is due. Postpones the read while this instance has no permission
    /// to write.
    pub(in crate::engine) fn drive_wallet(&mut self) {
        let now = self.progress.mono();
        if self.market.wallet.next.is_none_or(|at| at > now) {
            return;
        }
        if self.cx(&self.config).may_write() {
            self.read_wallet();
        } else {
            self.market.wallet.next = Some(now.plus(READ_INTERVAL));
        }
    }

    /// Processes the result of any transaction, because every sent transaction changes the balance.
    pub(in crate::engine) fn transaction_ended(&mut self, result: &Result<TxOutcome, Failure>) {
        let now = self.progress.mono();
        let wallet = &mut self.market.wallet;
        match result {
            // Not sent, so the balance is unchanged.
            Err(_) => {}
            Ok(TxOutcome::Rejected {
                error: TxError::FeeUnpaid,
                code,
                log,
            }) => {
                wallet.reject_fee(&self.config.bid_fee, format!("{code}: {log}"), now);
            }
            Ok(TxOutcome::Committed { .. } | TxOutcome::Rejected { .. } | TxOutcome::Unknown { .. }) => {
                wallet.is_changed |= wallet.is_reading;
                wallet.read_soon(now);
            }
        }
    }

    /// Stores the balance, and wakes as many orders as can send a bid now. After a failed read, wakes at most
    /// one order for each configured deposit that the chain accepts.
    pub(in crate::engine) fn wallet_read(&mut self, result: Result<Vec<Coin>, Failure>) {
        let missing = self.deposit_missing();
        self.market.wallet.is_reading = false;
        self.market.wallet.has_failed = result.is_err();
        let mut has_more_fee = false;
        if let Ok(balances) = result {
            has_more_fee = self.market.wallet.take(balances, &self.config.bid_fee);
        }
        let is_outdated = std::mem::take(&mut self.market.wallet.is_outdated);
        let is_changed = std::mem::take(&mut self.market.wallet.is_changed);
        // The status contains nothing else of the balance.
        self.changes += u64::from(self.deposit_missing() != missing);
        self.reserve_waiting();
        let is_unfunded = !self.unfunded_orders().is_empty();
        let wallet = &mut self.market.wallet;
        wallet.has_waiting = is_unfunded || wallet.fee_rejected.is_some();
        let pause = match (is_outdated, is_changed, wallet.has_waiting) {
            (true, ..) => Duration::ZERO,
            (_, true, _) => READ_DELAY,
            // Also after a failure: the account is read while orders wait.
            (_, _, true) => READ_INTERVAL_WAITING,
            (false, false, false) => READ_INTERVAL,
        };
        wallet.next = Some(self.progress.mono().plus(pause));
        self.wake_unfunded();
        if has_more_fee {
            self.repeat_payouts();
        }
    }

    fn unfunded_orders(&self) -> Vec<OrderId> {
        let machines = self.market.orders.machines().into_iter();
        let unfunded = machines.filter(|(_, m)| *m.phase() == OrderStage::Unfunded);
        unfunded.map(|(id, _)| id.clone()).collect()
    }

    /// Wakes unfunded orders, at most as many as the balance can pay. The chain would reject any further bid,
    /// and charge a fee.
    pub(in crate::engine) fn wake_unfunded(&mut self) {
        let fee = &self.config.bid_fee;
        let deposits = bidding::deposits(&self.config, self.market.provider_data.params());
        let sendable = deposits.map(|coin| self.market.wallet.sendable(coin, fee));
        // Without an accepted deposit, a higher balance does not help, and each order is declined.
        let sendable = sendable.reduce(u128::saturating_add).unwrap_or(u128::MAX);
        let sendable = usize::try_from(sendable).unwrap_or(usize::MAX);
        for id in self.unfunded_orders().into_iter().take(sendable) {
            self.drive_order(&id, OrderInput::Wake);
        }
    }

    /// Reserves capacity for the orders that waited for a new account balance.
    fn reserve_waiting(&mut self) {
        for id in std::mem::take(&mut self.market.wallet.waiting) {
            // The order may have ended in the meantime.
            let phase = self.market.orders.get(&id).map(Order::phase);
            if matches!(phase, Some(OrderStage::Reserving)) {
                self.reserve(&id);
            }
        }
    }

    fn describe_shortage(&self) -> String {
        let wallet = &self.market.wallet;
        let fee = &self.config.bid_fee;
        let wanted = bidding::deposits(&self.config, self.market.provider_data.params());
        let wanted: Vec<String> = wanted.map(ToString::to_string).collect();
        let mut message = format!("a bid requires {}", wanted.join(" or "));
        if fee.amount > 0 {
            message.push_str(&format!(" and about {fee} for its fee"));
        }
        message.push_str(&format!(", the account has {}", wallet.format_balance()));
        for rejection in wallet.rejected.values().chain(&wallet.fee_rejected) {
            message.push_str("; ");
            message.push_str(&rejection.message);
        }
        if wallet.is_uncertain() && wallet.single_bid.is_some() {
            message.push_str("; one bid is tried before the others, because the balance is uncertain");
        }
        message
    }

    /// Returns the reason why no bid can be paid, or `None` if a bid can be paid or the balance is unknown.
    pub(in crate::engine) fn deposit_missing(&self) -> Option<String> {
        let wallet = &self.market.wallet;
        let mut deposits = bidding::deposits(&self.config, self.market.provider_data.params()).peekable();
        // Without an accepted deposit, a higher balance does not help.
        deposits.peek()?;
        let is_payable = deposits.any(|coin| wallet.payable(coin, &self.config.bid_fee) > 0);
        (!is_payable).then(|| self.describe_shortage())
    }

    pub(in crate::engine) fn deposit_rejected(&mut self, deposit: Coin, reason: String) {
        let now = self.progress.mono();
        self.market.wallet.reject_deposit(deposit, reason, now);
    }

    pub(in crate::engine) fn balance_awaited(&mut self, id: &OrderId, is_first: bool) {
        if is_first {
            let (order, message) = (id.clone(), self.describe_shortage());
            self.publish(Event::BidUnfunded { order, message });
        }
        // The balance may have increased since the last read.
        let now = self.progress.mono();
        let wallet = &mut self.market.wallet;
        if !wallet.has_waiting {
            wallet.has_waiting = true;
            wallet.next = Some(now);
        }
    }
}

impl Order {
    /// Returns the deposit of a bid transaction that is in flight or has an unknown result.
    fn deposit_in_flight(&self) -> Option<&Coin> {
        let sent = matches!(
            self.phase(),
            OrderStage::Bidding { .. } | OrderStage::Unsure { .. }
        );
        self.deposit().filter(|_| sent)
    }
}
