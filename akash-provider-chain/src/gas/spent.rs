//! What was paid in the last hour, also before a restart.
//!
//! A ceiling for an hour that begins anew with the process is none for a provider that is made to restart. So what
//! was paid is kept by the minute, in time of day; while the process lives its own clock counts, which nobody sets.

use super::ceilings::named;
use super::{Ceilings, Most, Scope, TooMuch};
use crate::lock::lock;
use crate::signer::Price;
use akash_provider_core::error::Error;
use akash_provider_core::types::{Mono, Msg};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Mutex;

/// Minutes that are added up.
const MINUTES: u64 = 60;

/// What was paid in one minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Minute {
    /// Which: minutes since 1970 in UTC.
    pub at: u64,
    /// Gas and fees of all transactions that were sent in it.
    pub paid: Most,
}

/// Keeps what an account paid in the last hour over a restart.
pub trait SpentStore: fmt::Debug + Send + Sync + 'static {
    /// What was kept, in any order; empty when there is nothing.
    ///
    /// # Errors
    /// When it cannot be read. The writer says so and counts from nothing.
    fn load(&self) -> Result<Vec<Minute>, Error>;

    /// Keeps the minutes of the last hour, at most 61, in place of those before. Called before each transaction is
    /// sent, from the writer's task: it must be quick, and need not be on the disk at once.
    ///
    /// # Errors
    /// When it cannot be written; the writer goes on and says so.
    fn store(&self, minutes: Vec<Minute>) -> Result<(), Error>;
}

/// Keeps it as long as the process lives.
#[derive(Debug, Default)]
pub struct MemorySpent {
    minutes: Mutex<Vec<Minute>>,
}

impl SpentStore for MemorySpent {
    fn load(&self) -> Result<Vec<Minute>, Error> {
        Ok(lock(&self.minutes).clone())
    }

    fn store(&self, minutes: Vec<Minute>) -> Result<(), Error> {
        *lock(&self.minutes) = minutes;
        Ok(())
    }
}

/// What was paid in the last hour: gas and fees by the minute. What was sent counts, whether it landed or not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Spent {
    /// Minutes of the process's clock, which begins at [`MINUTES`]: there is room for those before it.
    minutes: VecDeque<(u64, Most)>,
}

impl Spent {
    /// What was kept before a start, where the clock begins at the minute `today` since 1970.
    #[must_use]
    pub fn before(today: u64, mut kept: Vec<Minute>) -> Self {
        kept.sort_by_key(|minute| minute.at);
        let mut spent = Self::default();
        for Minute { at, paid } in kept {
            // A clock that was set back makes it look like the future. It counts as paid just now.
            let age = today.saturating_sub(at);
            if age < MINUTES {
                spent.add_at(MINUTES - age, paid);
            }
        }
        spent
    }

    /// The same for a later start; `today` is the minute since 1970 that it is `now`.
    #[must_use]
    pub fn kept(&self, now: Mono, today: u64) -> Vec<Minute> {
        let minute = Self::minute(now);
        let of_day = |at: u64| today.saturating_sub(minute.saturating_sub(at));
        let recent = self.recent(minute);
        recent
            .map(|(at, paid)| Minute {
                at: of_day(*at),
                paid: *paid,
            })
            .collect()
    }

    fn minute(now: Mono) -> u64 {
        MINUTES + now.0 / 60_000
    }

    /// Adds a transaction by its gas limit and fee, when it is sent.
    pub fn add(&mut self, now: Mono, price: &Price) {
        let paid = Most {
            gas: price.gas_limit,
            fee: price.fee.amount,
        };
        self.add_at(Self::minute(now), paid);
    }

    fn add_at(&mut self, minute: u64, paid: Most) {
        while self.minutes.front().is_some_and(|(at, _)| at + MINUTES <= minute) {
            self.minutes.pop_front();
        }
        if self.minutes.back().is_none_or(|(at, _)| *at != minute) {
            self.minutes.push_back((minute, Most { gas: 0, fee: 0 }));
        }
        if let Some((_, sum)) = self.minutes.back_mut() {
            sum.gas = sum.gas.saturating_add(paid.gas);
            sum.fee = sum.fee.saturating_add(paid.fee);
        }
    }

    fn recent(&self, minute: u64) -> impl Iterator<Item = &(u64, Most)> {
        self.minutes.iter().filter(move |(at, _)| at + MINUTES > minute)
    }

    /// Whether one more would be too much for the hour. Bids leave a quarter for what ends leases and collects.
    ///
    /// # Errors
    /// When it would.
    pub fn judge(&self, now: Mono, ceilings: &Ceilings, msgs: &[Msg], price: &Price) -> Result<(), TooMuch> {
        let Most { mut gas, mut fee } = ceilings.of(Scope::Hour);
        if msgs.iter().any(|msg| Scope::of(msg) == Scope::Bid) {
            (gas, fee) = (gas - gas / 4, fee - fee / 4);
        }
        let minute = Self::minute(now);
        let sums = self.recent(minute).map(|(_, sum)| sum);
        let (all_gas, all_fees) = sums.fold((price.gas_limit, price.fee.amount), |(gas, fee), sum| {
            (gas.saturating_add(sum.gas), fee.saturating_add(sum.fee))
        });
        let too_much = |what, asked, most| TooMuch {
            what,
            asked,
            most,
            scope: format!("an hour ({})", named(msgs)),
        };
        if all_gas > gas {
            return Err(too_much("with it the gas of", all_gas.into(), gas.into()));
        }
        if all_fees > fee {
            return Err(too_much("with it the fees of", all_fees, fee));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gas::GasConfig;
    use akash_provider_core::types::CloseReason;

    fn close() -> [Msg; 1] {
        let id =
            "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/1/1/1/akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
        [Msg::CloseBid {
            id: id.parse().unwrap(),
            reason: CloseReason::Unspecified,
        }]
    }

    fn price(amount: u128) -> Price {
        Price {
            fee: akash_provider_core::types::Coin {
                denom: "uakt".into(),
                amount,
            },
            gas_limit: 1,
            granter: None,
        }
    }

    fn at(minute: u64) -> Mono {
        Mono(minute * 60_000)
    }

    /// A thousand an hour.
    fn ceilings() -> Ceilings {
        let mut ceilings = GasConfig::default().ceilings;
        ceilings.change(Scope::Hour, |most| most.fee = 1000);
        ceilings
    }

    #[test]
    fn an_hour_is_the_last_sixty_minutes() {
        let mut spent = Spent::default();
        for minute in 0..200 {
            spent.add(at(minute), &price(10));
        }
        assert!(spent.minutes.len() <= 60, "{}", spent.minutes.len());
        assert!(spent.judge(at(199), &ceilings(), &close(), &price(400)).is_ok());
        let why = spent
            .judge(at(199), &ceilings(), &close(), &price(401))
            .unwrap_err();
        assert!(
            why.to_string()
                .contains("1001 is above the ceiling of 1000 for an hour"),
            "{why}"
        );
        assert!(spent.judge(at(229), &ceilings(), &close(), &price(700)).is_ok());
    }

    #[test]
    fn an_hour_goes_on_over_a_restart_and_ends_when_it_would_have() {
        let mut first = Spent::default();
        // It began at minute 5,000 of the day's clock and stops in minute 5,100.
        for minute in 0..100 {
            first.add(at(minute), &price(10));
        }
        let kept = first.kept(at(99), 5_099);
        assert_eq!((kept.len(), kept[0].at, kept[59].at), (60, 5_040, 5_099));
        let judged = |start: u64, later: u64, amount| {
            let again = Spent::before(start, kept.clone());
            again
                .judge(at(later), &ceilings(), &close(), &price(amount))
                .is_ok()
        };
        // At once, half an hour later, and half of it before the start.
        assert!(judged(5_099, 0, 400) && !judged(5_099, 0, 401));
        assert!(judged(5_099, 30, 700) && !judged(5_099, 30, 701));
        assert!(judged(5_114, 15, 700) && !judged(5_114, 15, 701));
        assert!(judged(5_160, 0, 1000), "nothing of it is of the last hour");
        // What the next start is told is what this one was told.
        let again = Spent::before(5_099, kept.clone());
        assert_eq!(again.kept(at(0), 5_099), kept);
    }

    #[test]
    fn a_clock_that_was_set_back_forgets_nothing_and_no_number_is_too_large() {
        let paid = Most {
            gas: u64::MAX,
            fee: u128::MAX,
        };
        let odd = [u64::MAX, 0, 5_000, 5_000, u64::MAX].map(|at| Minute { at, paid });
        let spent = Spent::before(5_000, odd.to_vec());
        assert!(spent.judge(at(59), &ceilings(), &close(), &price(1)).is_err());
        assert!(spent.judge(at(60), &ceilings(), &close(), &price(1)).is_ok());
        assert!(spent.kept(at(0), 5_000).len() <= 61);
        let early = Spent::before(0, vec![Minute { at: 7, paid }]);
        assert_eq!(early.kept(at(3), 0)[0].at, 0);
    }
}
