//! What our account has for the deposits of bids. A bid that it cannot pay is not sent, for its refusal may cost a
//! fee: the order waits, and the account is looked at until there is money.
//!
//! What is known is a reading, less the deposits of bids sent since. It errs towards too little, and then the account
//! is read again. Without a reading nothing is known, and nothing is held back.

use super::order::{Input, Order, Phase};
use crate::bidding;
use crate::config::Config;
use crate::engine::{Call, Engine, Target};
use crate::error::Failure;
use crate::types::{Coin, Denom, Event, MarketParams, Mono, OrderId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often the account is read while an order waits for money.
const LOOK: Duration = Duration::from_secs(10);
/// How long a denomination is left alone after the chain found too little of it, unless more comes: what was read
/// says that it is enough, but it may not be enough for the fee too.
const REFUSED: Duration = Duration::from_secs(300);

/// What the account has, as far as that is known, and when it is read again.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::engine) struct Wallet {
    /// As last read, less what was bid since; `None` before the first reading.
    coins: Option<BTreeMap<Denom, u128>>,
    /// As last read, nothing taken off; the next reading is compared with it.
    read: BTreeMap<Denom, u128>,
    /// A reading is on its way.
    asked: bool,
    /// When it is read again, because an order waits.
    next: Option<Mono>,
    /// Denominations of which the chain found too little, and until when that is believed.
    refused: BTreeMap<Denom, Mono>,
}

impl Wallet {
    /// The deposit of the next bid: the first of the configured ones that the chain takes and the account has.
    pub(in crate::engine) fn deposit<'a>(
        &self,
        now: Mono,
        config: &'a Config,
        params: Option<&MarketParams>,
    ) -> Option<&'a Coin> {
        bidding::deposits(config, params).find(|coin| self.payable(now, coin) > 0)
    }

    /// So many deposits can be paid; at least one where that is not known.
    fn payable(&self, now: Mono, deposit: &Coin) -> u128 {
        let is_refused = |until: &Mono| *until > now;
        if self.refused.get(&deposit.denom).is_some_and(is_refused) {
            return 0;
        }
        let Some(coins) = &self.coins else { return 1 };
        let held = coins.get(&deposit.denom).copied().unwrap_or_default();
        // A deposit of nothing can be paid without end.
        held.checked_div(deposit.amount).unwrap_or(u128::MAX)
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

    /// Takes a reading. Bids that are on their way may or may not be in it: they are taken off.
    fn take(&mut self, balances: Vec<Coin>, in_flight: &[Coin]) {
        let read: BTreeMap<Denom, u128> = balances.into_iter().map(|c| (c.denom, c.amount)).collect();
        let before = std::mem::replace(&mut self.read, read.clone());
        // What was too little for deposit and fee may have been short of the fee's denomination.
        let more = |(denom, held): (&Denom, &u128)| before.get(denom).is_some_and(|b| held > b);
        if read.iter().any(more) {
            self.refused.clear();
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
    /// Reads the account, unless that is under way.
    pub(in crate::engine) fn read_wallet(&mut self) {
        if self.market.wallet.asked || self.role.is_stopping() {
            return;
        }
        let mut denoms: Vec<Denom> = self.config.bid_deposits().map(|c| c.denom.clone()).collect();
        // Two deposits in one denomination are one question.
        denoms.sort_unstable();
        denoms.dedup();
        self.market.wallet.asked = true;
        self.market.wallet.next = None;
        self.call(Target::Wallet, Call::FetchBalances(denoms));
    }

    /// Reads the account where that is due.
    pub(in crate::engine) fn drive_wallet(&mut self) {
        if self
            .market
            .wallet
            .next
            .is_some_and(|at| at <= self.progress.mono())
        {
            self.read_wallet();
        }
    }

    /// The account was read: as many orders go on as it can pay for. A failure keeps what was known.
    pub(in crate::engine) fn wallet_read(&mut self, result: Result<Vec<Coin>, Failure>) {
        self.market.wallet.asked = false;
        if let Ok(balances) = result {
            let machines = self.market.orders.machines().into_iter();
            let in_flight: Vec<Coin> = machines
                .filter_map(|(_, m)| m.deposit_under_way().cloned())
                .collect();
            self.market.wallet.take(balances, &in_flight);
        }
        let machines = self.market.orders.machines().into_iter();
        let unfunded = machines.filter(|(_, m)| *m.phase() == Phase::Unfunded);
        let unfunded: Vec<OrderId> = unfunded.map(|(id, _)| id.clone()).collect();
        if unfunded.is_empty() {
            return;
        }
        // After a failure too: as long as orders wait, the account is read.
        self.market.wallet.next = Some(self.progress.mono().plus(LOOK));
        let deposits = bidding::deposits(&self.config, self.market.facts.params());
        let payable = deposits.map(|coin| self.market.wallet.payable(self.progress.mono(), coin));
        // Where the chain takes none of them any more, no money helps, and all shall hear it.
        let payable = payable.reduce(u128::saturating_add).unwrap_or(u128::MAX);
        let payable = usize::try_from(payable).unwrap_or(usize::MAX);
        // No more than it can pay for: the refusal of any other may cost a fee.
        for id in unfunded.into_iter().take(payable) {
            self.drive_order(&id, Input::Wake);
        }
    }

    fn too_little(&self) -> String {
        let wanted = bidding::deposits(&self.config, self.market.facts.params());
        let wanted: Vec<String> = wanted.map(ToString::to_string).collect();
        let held = self.market.wallet.shown();
        format!("a bid takes {}, the account has {held}", wanted.join(" or "))
    }

    /// Why no bid can be paid, where that is known. What the chain refused for a while is not in it: that passes with
    /// time alone.
    pub(in crate::engine) fn deposit_missing(&self) -> Option<String> {
        let coins = self.market.wallet.coins.as_ref()?;
        let mut deposits = bidding::deposits(&self.config, self.market.facts.params()).peekable();
        // Where the chain takes none of ours, no money helps.
        deposits.peek()?;
        let is_held = |coin: &Coin| coins.get(&coin.denom).is_some_and(|held| *held >= coin.amount);
        (!deposits.any(is_held)).then(|| self.too_little())
    }

    /// An order waits for money: by what is known, or because the chain found too little for this deposit.
    pub(in crate::engine) fn money_awaited(
        &mut self,
        id: &OrderId,
        refused: Option<(Coin, String)>,
        is_news: bool,
    ) {
        let now = self.progress.mono();
        let mut look = self.market.wallet.next.unwrap_or(now);
        let message = if let Some((deposit, mut words)) = refused {
            bidding::cut(&mut words);
            // Another deposit may do.
            look = now;
            let until = self.progress.mono().plus(REFUSED);
            let message = format!("the account cannot pay {deposit} and the fee: {words}");
            self.market.wallet.refused.insert(deposit.denom, until);
            message
        } else {
            self.too_little()
        };
        if is_news {
            let order = id.clone();
            self.publish(Event::BidUnfunded { order, message });
        }
        // Money may have come back since the last reading.
        self.market.wallet.next = Some(look);
    }
}

impl Order {
    /// The deposit of a bid that may be on its way.
    fn deposit_under_way(&self) -> Option<&Coin> {
        let sent = matches!(self.phase(), Phase::Bidding { .. } | Phase::Unsure { .. });
        self.deposit().filter(|_| sent)
    }
}
