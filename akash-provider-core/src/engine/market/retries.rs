//! Declined orders that are worth another look, and when: some once capacity comes back, those that could not be
//! decided or had no price by themselves, ever more rarely. However many there are, only a few are looked at at a
//! time.

use crate::engine::backoff;
use crate::types::{Mono, OrderId};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Orders remembered at most for either reason.
const MAX: usize = 4096;
/// Orders looked at again at once, and how often at most.
const BATCH: usize = 16;
const PAUSE: Duration = Duration::from_secs(5);
/// The first look after a failure is 8 seconds later, the longest pause a minute.
const FIRST_STEP: u32 = 3;
/// Prices asked for in vain before an order without one is left to the full scans: what fails for minutes mostly
/// fails for ever, and each question may be a program that runs.
const PRICES_TRIED: u32 = 6;

/// Counts declines, so that it is known which came after a reservation.
pub(in crate::engine) type Moment = u64;

/// Orders to look at again.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::engine) struct Retries {
    /// Until capacity comes back, by when they were declined.
    capacity: BTreeMap<Moment, OrderId>,
    declined: FxHashMap<OrderId, Moment>,
    moment: Moment,
    /// What was needed could not be found out: at this time again.
    undecided: BTreeSet<(Mono, OrderId)>,
    /// How often that was so in a row, and when the next look is due.
    failures: FxHashMap<OrderId, (u32, Mono)>,
    /// Until the prices change.
    #[serde(default)]
    prices: BTreeSet<OrderId>,
    /// To be looked at now, a few at a time.
    queue: VecDeque<OrderId>,
    next: Mono,
}

impl Retries {
    /// Declined for want of something that may come back.
    pub(in crate::engine) fn when_capacity_comes(&mut self, id: &OrderId) {
        self.forget(id);
        // Past the limit an order is left to the full scans.
        if self.capacity.len() < MAX {
            self.moment += 1;
            self.capacity.insert(self.moment, id.clone());
            self.declined.insert(id.clone(), self.moment);
        }
    }

    /// Declined for its price.
    pub(in crate::engine) fn when_prices_change(&mut self, id: &OrderId) {
        // Past the limit an order is left to the full scans.
        if self.prices.len() < MAX {
            self.prices.insert(id.clone());
        }
    }

    /// Queues orders declined for their price after the prices changed.
    pub(in crate::engine) fn prices_changed(&mut self) {
        for id in std::mem::take(&mut self.prices) {
            self.forget(&id);
            self.queue.push_back(id);
        }
    }

    /// The moment of a reservation: whoever is declined from here on may be so because of it.
    pub(in crate::engine) const fn moment(&self) -> Moment {
        self.moment
    }

    /// No price could be had.
    pub(in crate::engine) fn unpriced(&mut self, now: Mono, id: &OrderId) {
        let tried = self.failures.get(id).map_or(0, |(failures, _)| *failures);
        if tried + 1 < PRICES_TRIED {
            self.undecided(now, id);
        } else {
            self.picked_up(id);
        }
    }

    /// It could not be decided.
    pub(in crate::engine) fn undecided(&mut self, now: Mono, id: &OrderId) {
        self.picked_up(id);
        // Past the limit an order is left to the full scans.
        if self.failures.len() >= MAX && !self.failures.contains_key(id) {
            return;
        }
        let failures = self.failures.get(id).map_or(0, |(failures, _)| *failures);
        let at = now.plus(backoff::after(failures.saturating_add(FIRST_STEP)));
        self.failures.insert(id.clone(), (failures.saturating_add(1), at));
        self.undecided.insert((at, id.clone()));
    }

    /// It is being looked at; how often that was in vain is still known.
    pub(in crate::engine) fn picked_up(&mut self, id: &OrderId) {
        self.prices.remove(id);
        if let Some(moment) = self.declined.remove(id) {
            self.capacity.remove(&moment);
        }
        if let Some((_, at)) = self.failures.get(id) {
            self.undecided.remove(&(*at, id.clone()));
        }
    }

    /// It has had its end.
    pub(in crate::engine) fn forget(&mut self, id: &OrderId) {
        self.picked_up(id);
        self.failures.remove(id);
    }

    /// Forgets what is remembered of orders that are not open.
    pub(in crate::engine) fn keep(&mut self, open: &BTreeSet<&OrderId>) {
        self.capacity.retain(|_, id| open.contains(id));
        self.declined.retain(|id, _| open.contains(id));
        self.undecided.retain(|(_, id)| open.contains(id));
        self.failures.retain(|id, _| open.contains(id));
        self.prices.retain(|id| open.contains(id));
    }

    /// Capacity came back: whoever was declined for want of it is queued.
    pub(in crate::engine) fn capacity_freed(&mut self) {
        self.freed_since(0);
    }

    /// What was reserved at that moment, and never for a bid, is free: it kept out only who came after it.
    pub(in crate::engine) fn freed_since(&mut self, moment: Moment) {
        // Ordered by moment, so that one cut takes all later declines, the earliest first.
        let since = self.capacity.split_off(&moment.saturating_add(1));
        for id in since.into_values() {
            self.declined.remove(&id);
            self.queue.push_back(id);
        }
    }

    /// When some may be looked at again.
    pub(in crate::engine) fn deadline(&self) -> Option<Mono> {
        let queued = (!self.queue.is_empty()).then_some(self.next);
        // What is due within the pause waits for its end.
        let undecided = self.undecided.first().map(|(at, _)| (*at).max(self.next));
        [queued, undecided].into_iter().flatten().min()
    }

    /// Those to look at now.
    pub(in crate::engine) fn take_due(&mut self, now: Mono) -> Vec<OrderId> {
        if self.deadline().is_none_or(|at| at > now) {
            return Vec::new();
        }
        while self.undecided.first().is_some_and(|(at, _)| *at <= now) {
            self.queue.extend(self.undecided.pop_first().map(|(_, id)| id));
        }
        // Counted from now and not from the deadline, so that a late wake brings one batch and not several.
        self.next = now.plus(PAUSE);
        let batch = BATCH.min(self.queue.len());
        self.queue.drain(..batch).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Address;

    fn order(dseq: usize) -> OrderId {
        let owner = Address::from_bytes(&[1; 20]).unwrap();
        format!("{owner}/{dseq}/1/1").parse().unwrap()
    }

    const fn at(seconds: u64) -> Mono {
        Mono(seconds * 1000)
    }

    fn declined(orders: impl IntoIterator<Item = usize>) -> Retries {
        let mut retries = Retries::default();
        for dseq in orders {
            retries.when_capacity_comes(&order(dseq));
        }
        retries
    }

    /// Everything that is looked at from now on, with the pause after each batch.
    fn drained(retries: &mut Retries, mut now: Mono) -> Vec<usize> {
        let mut batches = Vec::new();
        while retries.deadline().is_some_and(|due| due <= now) {
            batches.push(retries.take_due(now).len());
            now = now.plus(PAUSE);
        }
        batches
    }

    #[test]
    fn a_few_are_looked_at_at_a_time() {
        let mut retries = declined(0..=BATCH);
        assert_eq!(retries.deadline(), None);
        retries.capacity_freed();
        let first: Vec<OrderId> = (0..BATCH).map(order).collect();
        assert_eq!(retries.take_due(at(100)), first);
        assert_eq!(retries.deadline(), Some(at(105)));
        assert!(retries.take_due(Mono(104_999)).is_empty());
        assert_eq!(retries.take_due(at(105)), [order(BATCH)]);
        assert_eq!(retries.deadline(), None);
    }

    #[test]
    fn no_more_than_the_limit_wait_for_capacity() {
        let mut retries = declined(0..=MAX);
        retries.capacity_freed();
        assert_eq!(drained(&mut retries, at(0)), [BATCH; MAX / BATCH]);
    }

    #[test]
    fn who_was_declined_before_a_reservation_does_not_wait_for_it() {
        let mut retries = declined([1]);
        let moment = retries.moment();
        retries.when_capacity_comes(&order(2));
        retries.freed_since(moment);
        assert_eq!(retries.take_due(at(0)), [order(2)]);
        retries.capacity_freed();
        assert_eq!(retries.take_due(at(5)), [order(1)]);
    }

    #[test]
    fn what_could_not_be_decided_is_looked_at_ever_more_rarely() {
        let (mut retries, mut now) = (Retries::default(), at(0));
        for pause in [8, 16, 32, 60, 60] {
            retries.undecided(now, &order(1));
            let due = now.plus(Duration::from_secs(pause));
            assert_eq!(retries.deadline(), Some(due));
            assert!(retries.take_due(Mono(due.0 - 1)).is_empty());
            assert_eq!(retries.take_due(due), [order(1)]);
            now = due;
        }
        // Told again before it was due, it waits once.
        retries.undecided(now, &order(1));
        retries.undecided(now, &order(1));
        assert_eq!(drained(&mut retries, now.plus(Duration::from_secs(60))), [1]);
        // Once it has had its end nothing is known of how often that was in vain.
        retries.undecided(now, &order(1));
        retries.forget(&order(1));
        assert_eq!(retries.deadline(), None);
        retries.undecided(at(1000), &order(1));
        assert_eq!(retries.deadline(), Some(at(1008)));
    }

    #[test]
    fn two_that_are_due_are_looked_at_together_and_after_the_pause() {
        let mut retries = declined([3]);
        retries.undecided(at(0), &order(1));
        retries.undecided(at(1), &order(2));
        retries.capacity_freed();
        assert_eq!(retries.take_due(at(7)), [order(3)]);
        assert_eq!(retries.deadline(), Some(at(12)));
        assert_eq!(retries.take_due(at(12)), [order(1), order(2)]);
    }

    #[test]
    fn no_more_than_the_limit_are_undecided() {
        let mut retries = Retries::default();
        for dseq in 0..=MAX {
            retries.undecided(at(0), &order(dseq));
        }
        assert_eq!(drained(&mut retries, at(60)), [BATCH; MAX / BATCH]);
        // Those that are known may come again.
        retries.undecided(at(60), &order(MAX));
        assert_eq!(retries.deadline(), None);
        retries.undecided(at(60), &order(0));
        assert_eq!(retries.take_due(at(2000)), [order(0)]);
    }

    #[test]
    fn a_price_is_asked_for_in_vain_six_times() {
        let (mut retries, mut now) = (Retries::default(), at(0));
        let mut looks = 1;
        loop {
            retries.unpriced(now, &order(1));
            let Some(due) = retries.deadline() else { break };
            assert_eq!(retries.take_due(due), [order(1)]);
            now = due;
            looks += 1;
        }
        assert_eq!(looks, PRICES_TRIED);
    }

    #[test]
    fn whoever_was_declined_for_its_price_is_looked_at_once_when_prices_change() {
        let mut retries = declined([1]);
        retries.when_prices_change(&order(1));
        retries.unpriced(at(0), &order(2));
        retries.when_prices_change(&order(2));
        retries.when_prices_change(&order(3));
        retries.picked_up(&order(3));
        retries.prices_changed();
        retries.prices_changed();
        retries.capacity_freed();
        assert_eq!(retries.take_due(at(0)), [order(1), order(2)]);
        assert_eq!(retries.deadline(), None);
    }

    #[test]
    fn orders_that_are_not_open_are_forgotten() {
        let mut retries = declined([1, 2]);
        retries.undecided(at(0), &order(3));
        retries.undecided(at(0), &order(4));
        let (one, three) = (order(1), order(3));
        retries.keep(&[&one, &three].into());
        retries.capacity_freed();
        assert_eq!(retries.take_due(at(100)), [order(1), order(3)]);
        // Nothing is known of how often the other was looked at in vain.
        retries.undecided(at(100), &order(4));
        assert_eq!(retries.deadline(), Some(at(108)));
        assert_eq!(retries.declined.len(), 0);
    }
}
