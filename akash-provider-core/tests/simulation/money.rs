//! Denominations: orders in either, deposits and wallets in one, both or none; and that leases without money end.

use crate::ids::{OURS, RIVAL, TENANTS};
use crate::invariants::{Deed, Rest};
use crate::oracle::{Checked, ensure};
use crate::random::Random;
use crate::world::World;
use akash_provider_core::Config;
use akash_provider_core::engine::Call;
use akash_provider_core::market::Market;
use akash_provider_core::types::{BlockTime, Coin, LeaseId, Msg};
use std::collections::BTreeSet;
use std::time::Duration;

pub(crate) const DENOMS: [&str; 2] = ["uact", "uakt"];
/// How late a lease may be found to have no money left: a look at the money, and one more when it is out.
const LATE: Duration = Duration::from_secs(1_500);

pub(crate) fn coin(denom: &str, amount: u128) -> Coin {
    Coin {
        denom: denom.into(),
        amount,
    }
}

/// What accounts have at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Wallet {
    /// One denomination, and all orders are in it.
    #[default]
    One,
    Both,
    /// We have only the second one.
    Second,
    /// We have enough for few bids at a time.
    Scarce,
}

impl Wallet {
    pub(crate) fn any(random: &mut Random) -> Self {
        [Self::Both, Self::Second, Self::Scarce][random.index(3)]
    }

    pub(crate) fn settings(self, random: &mut Random, config: &mut Config) {
        if self != Self::One && random.percent(60) {
            config.other_bid_deposits = vec![coin("uakt", 500_000)];
            if random.percent(50) {
                std::mem::swap(&mut config.bid_deposit, &mut config.other_bid_deposits[0]);
            }
        }
    }

    pub(crate) fn fund(self, market: &mut Market) {
        const RICH: u128 = 1_000_000_000_000;
        let ours: &[(&str, u128)] = match self {
            Self::One => &[("uact", RICH)],
            Self::Both => &[("uact", RICH), ("uakt", RICH)],
            Self::Second => &[("uakt", RICH)],
            Self::Scarce => &[("uact", 1_600_000), ("uakt", 600_000)],
        };
        for (denom, amount) in ours {
            market.fund(&OURS, &coin(denom, *amount));
        }
        for account in TENANTS.iter().chain([&*RIVAL, &*crate::ids::STRANGER]) {
            for denom in DENOMS {
                market.fund(account, &coin(denom, RICH));
            }
        }
    }
}

impl World {
    /// A denomination for something of a tenant's.
    pub(crate) fn denom(&mut self) -> &'static str {
        if self.flavour.wallet == Wallet::One {
            return DENOMS[0];
        }
        DENOMS[self.spice.index(2)]
    }

    /// The operator takes all of one denomination out of the wallet, or fills it again.
    pub(crate) fn wallet_changes(&mut self) {
        if self.flavour.wallet == Wallet::One || self.spice.below(1_000) >= 20 {
            return;
        }
        let denom = DENOMS[self.spice.index(2)];
        if self.chain.market.balance(&OURS, denom).amount == 0 {
            self.chain.fund(&OURS, &[coin(denom, 10_000_000)]);
        } else {
            self.chain.empty(&OURS, denom);
        }
    }

    /// The operator fills the wallet.
    pub(crate) fn fill_wallet(&mut self) {
        if self.flavour.wallet != Wallet::One {
            self.chain
                .fund(&OURS, &DENOMS.map(|denom| coin(denom, 100_000_000)));
        }
    }
}

impl Deed<'_> {
    /// A bid is in the order's denomination and not above what it pays, with a deposit of the settings.
    pub(crate) fn bids_are_in_the_money_of_the_order(&self) -> Checked {
        let Call::Broadcast(Msg::CreateBid {
            id, price, deposit, ..
        }) = self.call
        else {
            return Ok(());
        };
        let most = self.market.order(&id.order).and_then(|o| o.spec.max_price());
        let fits = most.is_some_and(|most| most.denom == price.denom && price.amount <= most.amount);
        let ours = self.config.bid_deposits().any(|ours| ours == deposit);
        ensure("bids_are_in_the_money_of_the_order", fits && ours, || {
            format!("{id}: {price} with {deposit}")
        })
    }
}

impl Deed<'_> {
    /// What the chain refused for lack of money is not sent again before the account was read to have enough.
    pub(crate) fn a_refused_deposit_waits_for_money(&self) -> Checked {
        let Call::Broadcast(Msg::CreateBid { id, deposit, .. }) = self.call else {
            return Ok(());
        };
        let key = (id.order.clone(), deposit.denom.clone());
        let waits = !self.told.unpaid.contains_key(&key);
        ensure("a_refused_deposit_waits_for_money", waits, || {
            format!("{id} with {deposit}")
        })
    }
}

impl Deed<'_> {
    /// Bids that the last reading of the account may lack take no more deposits together than the reading showed.
    pub(crate) fn bids_in_flight_are_payable(&self) -> Checked {
        let Call::Broadcast(Msg::CreateBid { id, deposit, .. }) = self.call else {
            return Ok(());
        };
        let Some(balances) = &self.told.balances else {
            return Ok(());
        };
        // A bid of unknown outcome is sent again with its old deposit.
        let is_again = self.told.unsure.contains_key(&id.order);
        let others = self.told.unread.iter().filter(|(other, _)| *other != id);
        let in_flight = others.map(|(_, coin)| coin).chain([deposit]);
        let in_flight = in_flight.filter(|coin| coin.denom == deposit.denom);
        let in_flight: u128 = in_flight.map(|coin| coin.amount).sum();
        let held = balances.iter().find(|coin| coin.denom == deposit.denom);
        let held = held.map_or(0, |coin| coin.amount);
        ensure(
            "bids_in_flight_are_payable",
            is_again || in_flight <= held,
            || format!("{id}: {in_flight}{} of {held}", deposit.denom),
        )
    }
}

impl Rest<'_> {
    /// What is out of money is paid out, so that the chain ends it.
    pub(crate) fn leases_without_money_end(&self, live: &BTreeSet<LeaseId>) -> Checked {
        for lease in live {
            let late = self.out_of_money_since(lease).filter(|since| {
                let due = since.plus(LATE);
                due < self.told.block_time
            });
            ensure("leases_without_money_end", late.is_none(), || {
                format!("{lease}: out of money since {late:?}")
            })?;
        }
        Ok(())
    }

    /// When the money of a deployment was used up by its leases in the denomination of this one.
    fn out_of_money_since(&self, lease: &LeaseId) -> Option<BlockTime> {
        let record = self.market.deployment(lease.deployment())?;
        let mine = record.leases.iter().find(|l| l.id == *lease)?;
        let denom = &mine.price.denom;
        let same = record.leases.iter().filter(|l| l.price.denom == *denom);
        let rate: i128 = same.map(|l| l.price.amount.scaled()).sum();
        let funds = record.escrow.funds.get(denom).map_or(0, |f| f.scaled());
        let lasts = u64::try_from(funds.max(0).checked_div(rate)?).ok()?;
        let from = record.escrow.settled_at.max(mine.created_at);
        self.market
            .block_time(from.saturating_add(lasts).saturating_add(1))
    }
}
