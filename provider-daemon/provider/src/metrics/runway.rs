//! Runway of the balances: the time until fees and bid deposits have spent a balance.

use super::convert::number;
use super::{ChainSource, Measure, MetricSource};
use akash_provider_core::provider::ProviderHandle;
use akash_provider_core::types::Denom;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum duration over which the spending is averaged.
const WINDOW_MAX: Duration = Duration::from_secs(86_400);
/// Minimum period over which the spending is averaged. In a shorter period, the many bids after a start would
/// raise the average.
const WINDOW_MIN: Duration = Duration::from_secs(3_600);
/// Minimum time between two stored samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(600);

/// Amounts spent since the start of the process, minus returned deposits, by denomination.
type SpentAmounts = BTreeMap<Denom, i128>;

#[derive(Debug)]
pub(crate) struct RunwaySource {
    chain: ChainSource,
    handle: ProviderHandle,
    /// Whether the account pays its own fees; false with a fee granter.
    pays_fees: bool,
    spending: Mutex<Spending>,
}

impl RunwaySource {
    pub(crate) fn new(chain: ChainSource, handle: ProviderHandle, pays_fees: bool) -> Self {
        Self {
            chain,
            handle,
            pays_fees,
            spending: Mutex::new(Spending::new(Instant::now())),
        }
    }

    fn spent(&self) -> SpentAmounts {
        let mut totals = SpentAmounts::new();
        let mut add = |denom: &Denom, amount: i128| *totals.entry(denom.clone()).or_default() += amount;
        for (denom, fees) in self.chain.fees().iter().filter(|_| self.pays_fees) {
            add(denom, i128::from(*fees));
        }
        let statistics = self.handle.statistics();
        let amount = |deposit: u128| i128::try_from(deposit).unwrap_or(i128::MAX / 4);
        for (denom, deposit) in &statistics.deposits_locked {
            add(denom, amount(*deposit));
        }
        for (denom, deposit) in &statistics.deposits_returned {
            add(denom, -amount(*deposit));
        }
        totals
    }
}

impl MetricSource for RunwaySource {
    fn measures(&self) -> Vec<Measure> {
        let mut runway = Measure::gauge(
            "akash_provider_balance_runway_seconds",
            "Time until fees and bid deposits have spent the balance, at the rate of the last day; absent if nothing was \
             spent",
        );
        let (spent, now) = (self.spent(), Instant::now());
        let mut spending = self.spending.lock().unwrap_or_else(PoisonError::into_inner);
        spending.record(&spent, now);
        for (denom, balance) in self.chain.amounts() {
            let total = spent.get(&denom).copied().unwrap_or_default();
            if let Some(rate) = spending.rate(&denom, total, now) {
                let balance = number(u64::try_from(balance).unwrap_or(u64::MAX));
                runway = runway.with([("denom", &*denom)], balance / rate);
            }
        }
        vec![runway]
    }
}

#[derive(Debug)]
struct Spending {
    started: Instant,
    /// Samples by denomination, oldest first. Only the first sample may be older than [`WINDOW_MAX`].
    samples: BTreeMap<Denom, VecDeque<(Instant, i128)>>,
}

impl Spending {
    const fn new(started: Instant) -> Self {
        Self {
            started,
            samples: BTreeMap::new(),
        }
    }

    /// Stores the totals, unless the last sample is newer than [`SAMPLE_EVERY`].
    fn record(&mut self, totals: &SpentAmounts, now: Instant) {
        for (denom, total) in totals {
            // Nothing was spent before the start.
            let first = || VecDeque::from([(self.started, 0)]);
            let samples = self.samples.entry(denom.clone()).or_insert_with(first);
            if samples
                .back()
                .is_none_or(|(at, _)| now.saturating_duration_since(*at) >= SAMPLE_EVERY)
            {
                samples.push_back((now, *total));
            }
            while samples
                .get(1)
                .is_some_and(|(at, _)| now.saturating_duration_since(*at) >= WINDOW_MAX)
            {
                samples.pop_front();
            }
        }
    }

    /// Returns the amount spent per second, or `None` if nothing was spent.
    fn rate(&self, denom: &Denom, total: i128, now: Instant) -> Option<f64> {
        let samples = self.samples.get(denom);
        let (at, before) = samples
            .and_then(VecDeque::front)
            .copied()
            .unwrap_or((self.started, 0));
        let spent = u64::try_from(total.saturating_sub(before)).ok()?;
        let window = now.saturating_duration_since(at).max(WINDOW_MIN);
        (spent > 0).then(|| number(spent) / window.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_the_average_of_the_last_hour_to_day() {
        let (denom, start) = (Denom::from("uakt"), Instant::now());
        let mut spending = Spending::new(start);
        let at = |minutes: u64| start + Duration::from_secs(60 * minutes);
        let totals = |amount: i128| SpentAmounts::from([(denom.clone(), amount)]);
        assert_eq!(spending.rate(&denom, 0, at(5)), None, "nothing was spent");
        assert_eq!(
            spending.rate(&denom, 3_600, at(5)),
            Some(1.0),
            "in an hour at least"
        );
        assert_eq!(spending.rate(&denom, 7_200, at(120)), Some(1.0));
        // 60 per minute for a day, then nothing.
        for minute in (0..=1_440).step_by(5) {
            spending.record(&totals(i128::from(minute) * 60), at(minute));
        }
        assert!(spending.samples[&denom].len() <= 146);
        assert_eq!(spending.rate(&denom, 86_400, at(1_440)), Some(1.0));
        for minute in (1_440..=2_160).step_by(5) {
            spending.record(&totals(86_400), at(minute));
        }
        assert_eq!(spending.rate(&denom, 86_400, at(2_160)), Some(0.5));
        spending.record(&totals(86_400), at(5_000));
        spending.record(&totals(86_400), at(6_500));
        assert_eq!(spending.rate(&denom, 86_400, at(6_500)), None);
        assert_eq!(
            spending.rate(&denom, 80_000, at(6_500)),
            None,
            "a deposit was returned"
        );
        assert!(spending.samples[&denom].len() <= 2);
    }
}
