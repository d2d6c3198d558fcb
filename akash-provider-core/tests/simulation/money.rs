//! Money in two denominations. An order uses one of the two, and deposits and balances use one, both or none.
//! Leases without funds end.

use crate::ids::{COMPETITOR, PROVIDER, TENANTS};
use crate::invariants::{CallCheck, SettledCheck};
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
/// Maximum block time between the exhaustion of a deployment's funds and the end of its leases.
const LATE: Duration = Duration::from_secs(1_500);

pub(crate) fn coin(denom: &str, amount: u128) -> Coin {
    Coin::new(denom, amount)
}

/// Initial balances of the accounts, and the denominations in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Wallet {
    /// All balances and orders use the same denomination.
    #[default]
    One,
    Both,
    /// The provider has only the second denomination.
    Second,
    /// The provider can pay the deposits of only a few bids at a time.
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
            market.fund(&PROVIDER, &coin(denom, *amount));
        }
        for account in TENANTS.iter().chain([&*COMPETITOR, &*crate::ids::THIRD_PARTY]) {
            for denom in DENOMS {
                market.fund(account, &coin(denom, RICH));
            }
        }
    }
}

impl World {
    /// Returns a random denomination for a new order or deposit.
    pub(crate) fn denom(&mut self) -> &'static str {
        if self.features.wallet == Wallet::One {
            return DENOMS[0];
        }
        DENOMS[self.feature_random.index(2)]
    }

    /// Sometimes empties or refills one denomination of the provider's account.
    pub(crate) fn wallet_changes(&mut self) {
        if self.features.wallet == Wallet::One || self.feature_random.below(1_000) >= 20 {
            return;
        }
        let denom = DENOMS[self.feature_random.index(2)];
        if self.chain.market.balance(&PROVIDER, denom).amount == 0 {
            self.chain.fund(&PROVIDER, &[coin(denom, 10_000_000)]);
        } else {
            self.chain.empty(&PROVIDER, denom);
        }
    }

    pub(crate) fn fill_wallet(&mut self) {
        if self.features.wallet != Wallet::One {
            self.chain
                .fund(&PROVIDER, &DENOMS.map(|denom| coin(denom, 100_000_000)));
        }
    }
}

impl CallCheck<'_> {
    /// Checks the denomination, the price and the deposit of a bid.
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

impl CallCheck<'_> {
    /// Checks that a bid with a refused deposit waits for a sufficient balance.
    pub(crate) fn a_refused_deposit_waits_for_money(&self) -> Checked {
        let Call::Broadcast(Msg::CreateBid { id, deposit, .. }) = self.call else {
            return Ok(());
        };
        let key = (id.order.clone(), deposit.denom.clone());
        let waits = !self.model.unpaid.contains_key(&key);
        ensure("a_refused_deposit_waits_for_money", waits, || {
            format!("{id} with {deposit}")
        })
    }
}

impl CallCheck<'_> {
    /// Checks that the last queried balance covers the deposits of all bids in flight.
    pub(crate) fn bids_in_flight_are_payable(&self) -> Checked {
        let Call::Broadcast(Msg::CreateBid { id, deposit, .. }) = self.call else {
            return Ok(());
        };
        let Some(balances) = &self.model.balances else {
            return Ok(());
        };
        // A bid with an unknown outcome is sent again with its old deposit.
        let is_again = self.model.unsure.contains_key(&id.order);
        let others = self.model.unread.iter().filter(|(other, _)| *other != id);
        let in_flight = others.map(|(_, coin)| coin).chain([deposit]);
        let in_flight = in_flight.filter(|coin| coin.denom == deposit.denom);
        let in_flight: u128 = in_flight.map(|coin| coin.amount).sum();
        let balance = balances.iter().find(|coin| coin.denom == deposit.denom);
        let balance = balance.map_or(0, |coin| coin.amount);
        ensure(
            "bids_in_flight_are_payable",
            is_again || in_flight <= balance,
            || format!("{id}: {in_flight}{} of {balance}", deposit.denom),
        )
    }
}

impl SettledCheck<'_> {
    /// Checks that leases without funds are closed in time.
    pub(crate) fn leases_without_money_end(&self, live: &BTreeSet<LeaseId>) -> Checked {
        for lease in live {
            let late = self.out_of_money_since(lease).filter(|since| {
                let due = since.plus(LATE);
                due < self.model.block_time
            });
            ensure("leases_without_money_end", late.is_none(), || {
                format!("{lease}: funds exhausted since {late:?}")
            })?;
        }
        Ok(())
    }

    /// Returns the block time at which the funds for this lease are exhausted.
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
