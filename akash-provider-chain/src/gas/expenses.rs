//! Gas and fees of the last hour, including the time before a restart.
//!
//! If the hourly total started at 0 with each process, a provider that restarts repeatedly could exceed the
//! ceiling. For this reason, the amounts of each minute are stored with their wall clock time. Within the
//! process, the monotonic clock is used, because the wall clock may be adjusted.

use super::ceilings::scope_name;
use super::{CeilingError, CeilingScope, Ceilings, Cost};
use crate::lock::lock;
use crate::signer::TxFee;
use akash_provider_core::error::Error;
use akash_provider_core::types::{Mono, Msg};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Mutex;

/// Number of minutes in the hourly total.
const MINUTES: u64 = 60;

/// Gas and fees of one minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Minute {
    /// Number of the minute, counted from the Unix epoch.
    pub at: u64,
    /// Gas limits and fees of all transactions that were sent in this minute.
    pub paid: Cost,
}

/// Store of the gas and fees of the last hour. After a restart, the hourly ceilings include the stored
/// values.
pub trait ExpenseStore: fmt::Debug + Send + Sync + 'static {
    /// Returns the stored minutes in any order, or an empty list if nothing is stored.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read. The writer then starts with a total of 0.
    fn load(&self) -> Result<Vec<Minute>, Error>;

    /// Replaces the stored minutes with the minutes of the last hour, at most 61.
    ///
    /// This function must return quickly, and need not sync the data to the disk.
    ///
    /// # Errors
    /// Returns an error if the minutes cannot be stored. The writer then logs the error and continues.
    fn store(&self, minutes: Vec<Minute>) -> Result<(), Error>;
}

/// [`ExpenseStore`] that loses the stored minutes when the process ends.
#[derive(Debug, Default)]
pub struct MemoryExpenses {
    minutes: Mutex<Vec<Minute>>,
}

impl ExpenseStore for MemoryExpenses {
    fn load(&self) -> Result<Vec<Minute>, Error> {
        Ok(lock(&self.minutes).clone())
    }

    fn store(&self, minutes: Vec<Minute>) -> Result<(), Error> {
        *lock(&self.minutes) = minutes;
        Ok(())
    }
}

/// Gas and fees of all transactions that were sent in the last hour, by minute. Transactions that no block
/// included are counted too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Expenses {
    /// Gas and fees by minute. Minute 0 is [`MINUTES`] minutes before the start of the process.
    minutes: VecDeque<(u64, Cost)>,
}

impl Expenses {
    /// Restores the stored minutes. `today` is the number of the current minute since the Unix epoch.
    pub(crate) fn from_stored(today: u64, mut stored: Vec<Minute>) -> Self {
        stored.sort_by_key(|minute| minute.at);
        let mut expenses = Self::default();
        for Minute { at, paid } in stored {
            // After the wall clock was set back, a stored minute may be in the future. Such a minute counts as the
            // current minute.
            let age = today.saturating_sub(at);
            if age < MINUTES {
                expenses.add_at(MINUTES - age, paid);
            }
        }
        expenses
    }

    /// Returns the gas and fees by minute, for the [`ExpenseStore`]. `now` is the current time on the
    /// monotonic clock. `today` is the current minute, counted from the Unix epoch.
    pub(crate) fn to_minutes(&self, now: Mono, today: u64) -> Vec<Minute> {
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

    pub(crate) fn add(&mut self, now: Mono, price: &TxFee) {
        let paid = Cost {
            gas: price.gas_limit,
            fee: price.fee.amount,
        };
        self.add_at(Self::minute(now), paid);
    }

    fn add_at(&mut self, minute: u64, paid: Cost) {
        while self.minutes.front().is_some_and(|(at, _)| at + MINUTES <= minute) {
            self.minutes.pop_front();
        }
        if self.minutes.back().is_none_or(|(at, _)| *at != minute) {
            self.minutes.push_back((minute, Cost { gas: 0, fee: 0 }));
        }
        if let Some((_, sum)) = self.minutes.back_mut() {
            sum.gas = sum.gas.saturating_add(paid.gas);
            sum.fee = sum.fee.saturating_add(paid.fee);
        }
    }

    fn recent(&self, minute: u64) -> impl Iterator<Item = &(u64, Cost)> {
        self.minutes.iter().filter(move |(at, _)| at + MINUTES > minute)
    }

    /// Checks that the hourly ceiling allows one more transaction. Bids may use only three quarters of the
    /// ceiling.
    ///
    /// # Errors
    /// Returns an error if the transactions of the last hour and this transaction together exceed the
    /// ceiling.
    pub(crate) fn check(
        &self,
        now: Mono,
        ceilings: &Ceilings,
        msgs: &[Msg],
        price: &TxFee,
    ) -> Result<(), CeilingError> {
        let Cost { mut gas, mut fee } = ceilings.get(CeilingScope::Hour);
        if msgs
            .iter()
            .any(|msg| CeilingScope::for_message(msg) == CeilingScope::Bid)
        {
            (gas, fee) = (gas - gas / 4, fee - fee / 4);
        }
        let minute = Self::minute(now);
        let sums = self.recent(minute).map(|(_, sum)| sum);
        let (all_gas, all_fees) = sums.fold((price.gas_limit, price.fee.amount), |(gas, fee), sum| {
            (gas.saturating_add(sum.gas), fee.saturating_add(sum.fee))
        });
        let too_much = |what, asked, most| CeilingError {
            what,
            asked,
            most,
            scope: format!("an hour ({})", scope_name(msgs)),
        };
        if all_gas > gas {
            return Err(too_much("total gas", all_gas.into(), gas.into()));
        }
        if all_fees > fee {
            return Err(too_much("total fees", all_fees, fee));
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

    fn price(amount: u128) -> TxFee {
        TxFee {
            fee: akash_provider_core::types::Coin::new("uakt", amount),
            gas_limit: 1,
            granter: None,
        }
    }

    fn at(minute: u64) -> Mono {
        Mono(minute * 60_000)
    }

    fn ceilings() -> Ceilings {
        let mut ceilings = GasConfig::default().ceilings;
        ceilings.change(CeilingScope::Hour, |most| most.fee = 1000);
        ceilings
    }

    #[test]
    fn sum_contains_the_last_sixty_minutes() {
        let mut expenses = Expenses::default();
        for minute in 0..200 {
            expenses.add(at(minute), &price(10));
        }
        assert!(expenses.minutes.len() <= 60, "{}", expenses.minutes.len());
        assert!(
            expenses
                .check(at(199), &ceilings(), &close(), &price(400))
                .is_ok()
        );
        let why = expenses
            .check(at(199), &ceilings(), &close(), &price(401))
            .unwrap_err();
        assert!(
            why.to_string()
                .contains("1001 is above the ceiling of 1000 for an hour"),
            "{why}"
        );
        assert!(
            expenses
                .check(at(229), &ceilings(), &close(), &price(700))
                .is_ok()
        );
    }

    #[test]
    fn restart_keeps_the_minutes_of_the_last_hour() {
        let mut first = Expenses::default();
        // The process starts at minute 5,000 of the wall clock and stops in minute 5,100.
        for minute in 0..100 {
            first.add(at(minute), &price(10));
        }
        let stored = first.to_minutes(at(99), 5_099);
        assert_eq!((stored.len(), stored[0].at, stored[59].at), (60, 5_040, 5_099));
        let is_accepted = |start: u64, later: u64, amount| {
            let again = Expenses::from_stored(start, stored.clone());
            again
                .check(at(later), &ceilings(), &close(), &price(amount))
                .is_ok()
        };
        // Restart at once, restart with a later transaction, and restart after 15 minutes.
        assert!(is_accepted(5_099, 0, 400) && !is_accepted(5_099, 0, 401));
        assert!(is_accepted(5_099, 30, 700) && !is_accepted(5_099, 30, 701));
        assert!(is_accepted(5_114, 15, 700) && !is_accepted(5_114, 15, 701));
        assert!(is_accepted(5_160, 0, 1000), "all minutes are older than one hour");
        // The minutes for the next store equal the restored minutes.
        let again = Expenses::from_stored(5_099, stored.clone());
        assert_eq!(again.to_minutes(at(0), 5_099), stored);
    }

    #[test]
    fn clock_set_back_and_large_numbers_keep_the_sum() {
        let paid = Cost {
            gas: u64::MAX,
            fee: u128::MAX,
        };
        let odd = [u64::MAX, 0, 5_000, 5_000, u64::MAX].map(|at| Minute { at, paid });
        let expenses = Expenses::from_stored(5_000, odd.to_vec());
        assert!(expenses.check(at(59), &ceilings(), &close(), &price(1)).is_err());
        assert!(expenses.check(at(60), &ceilings(), &close(), &price(1)).is_ok());
        assert!(expenses.to_minutes(at(0), 5_000).len() <= 61);
        let early = Expenses::from_stored(0, vec![Minute { at: 7, paid }]);
        assert_eq!(early.to_minutes(at(3), 0)[0].at, 0);
    }
}
