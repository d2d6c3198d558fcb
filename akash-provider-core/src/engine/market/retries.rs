//! Queue of declined orders to retry. Orders are retried after capacity is released, after prices change, or
//! with a back-off if the decision or the price calculation failed. Orders are retried in small batches.

use crate::engine::backoff;
use crate::types::{Mono, OrderId};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Maximum number of orders that wait for a retry, for each cause: capacity, price or failure.
const MAX: usize = 4096;
const BATCH: usize = 16;
/// Pause between two batches.
const PAUSE: Duration = Duration::from_secs(5);
/// Exponent of the first back-off: the first retry is after 2^3 = 8 seconds.
const FIRST_STEP: u32 = 3;
/// After this number of failed price calculations, the order is retried only by a full scan or after a price
/// change. Each calculation may run an external program.
const PRICES_TRIED: u32 = 6;

/// Number that increases with each decline for lack of capacity. Shows whether a decline is older than a
/// reservation.
pub(in crate::engine) type Sequence = u64;

/// Queue of declined orders to retry.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::engine) struct Retries {
    /// Orders that wait for capacity. The key is the sequence number of the decline.
    capacity: BTreeMap<Sequence, OrderId>,
    declined: FxHashMap<OrderId, Sequence>,
    sequence: Sequence,
    /// Orders for which the decision or the price calculation failed, sorted by the time of the next attempt.
    undecided: BTreeSet<(Mono, OrderId)>,
    /// Number of consecutive failures of each order, and the time of the next attempt.
    failures: FxHashMap<OrderId, (u32, Mono)>,
    /// Orders waiting for a price change.
    #[serde(default)]
    prices: BTreeSet<OrderId>,
    /// Orders to retry now, in batches.
    queue: VecDeque<OrderId>,
    next: Mono,
}

impl Retries {
    /// Stores an order. The order is retried after capacity is released.
    pub(in crate::engine) fn await_capacity(&mut self, id: &OrderId) {
        self.remove(id);
        // Above the limit, only full scans retry the order.
        if self.capacity.len() < MAX {
            self.sequence += 1;
            self.capacity.insert(self.sequence, id.clone());
            self.declined.insert(id.clone(), self.sequence);
        }
    }

    /// Stores an order. The order is retried after a price change.
    pub(in crate::engine) fn await_prices(&mut self, id: &OrderId) {
        // Above the limit, only full scans retry the order.
        if self.prices.len() < MAX {
            self.prices.insert(id.clone());
        }
    }

    pub(in crate::engine) fn prices_changed(&mut self) {
        for id in std::mem::take(&mut self.prices) {
            self.remove(&id);
            self.queue.push_back(id);
        }
    }

    /// Returns the current sequence number. Later declines have higher numbers.
    pub(in crate::engine) const fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Schedules a retry with a back-off after a failed price calculation, but none after [`PRICES_TRIED`]
    /// failures.
    pub(in crate::engine) fn price_failed(&mut self, now: Mono, id: &OrderId) {
        let tried = self.failures.get(id).map_or(0, |(failures, _)| *failures);
        if tried + 1 < PRICES_TRIED {
            self.decision_failed(now, id);
        } else {
            self.start_retry(id);
        }
    }

    /// Schedules a retry with a back-off after a failed decision or price calculation.
    pub(in crate::engine) fn decision_failed(&mut self, now: Mono, id: &OrderId) {
        self.start_retry(id);
        // Above the limit, only full scans retry the order.
        if self.failures.len() >= MAX && !self.failures.contains_key(id) {
            return;
        }
        let failures = self.failures.get(id).map_or(0, |(failures, _)| *failures);
        let at = now.plus(backoff::after(failures.saturating_add(FIRST_STEP)));
        self.failures.insert(id.clone(), (failures.saturating_add(1), at));
        self.undecided.insert((at, id.clone()));
    }

    /// Removes an order from the waiting orders. The failure count of the order is retained.
    pub(in crate::engine) fn start_retry(&mut self, id: &OrderId) {
        self.prices.remove(id);
        if let Some(sequence) = self.declined.remove(id) {
            self.capacity.remove(&sequence);
        }
        if let Some((_, at)) = self.failures.get(id) {
            self.undecided.remove(&(*at, id.clone()));
        }
    }

    /// Removes a waiting order and its number of failures.
    pub(in crate::engine) fn remove(&mut self, id: &OrderId) {
        self.start_retry(id);
        self.failures.remove(id);
    }

    /// Removes all waiting orders that are no longer open. The queue of due orders is not changed.
    pub(in crate::engine) fn retain_open(&mut self, open: &BTreeSet<&OrderId>) {
        self.capacity.retain(|_, id| open.contains(id));
        self.declined.retain(|id, _| open.contains(id));
        self.undecided.retain(|(_, id)| open.contains(id));
        self.failures.retain(|id, _| open.contains(id));
        self.prices.retain(|id| open.contains(id));
    }

    pub(in crate::engine) fn capacity_freed(&mut self) {
        self.capacity_freed_since(0);
    }

    /// Called after the release of a reservation that started at `sequence`. Queues the orders that were
    /// declined later for lack of capacity.
    pub(in crate::engine) fn capacity_freed_since(&mut self, sequence: Sequence) {
        // Ordered by sequence number, so one split returns all later declines, earliest first.
        let since = self.capacity.split_off(&sequence.saturating_add(1));
        for id in since.into_values() {
            self.declined.remove(&id);
            self.queue.push_back(id);
        }
    }

    pub(in crate::engine) fn deadline(&self) -> Option<Mono> {
        let queued = (!self.queue.is_empty()).then_some(self.next);
        // Orders due within the pause wait for its end.
        let undecided = self.undecided.first().map(|(at, _)| (*at).max(self.next));
        [queued, undecided].into_iter().flatten().min()
    }

    pub(in crate::engine) fn take_due(&mut self, now: Mono) -> Vec<OrderId> {
        if self.deadline().is_none_or(|at| at > now) {
            return Vec::new();
        }
        while self.undecided.first().is_some_and(|(at, _)| *at <= now) {
            self.queue.extend(self.undecided.pop_first().map(|(_, id)| id));
        }
        // The pause starts now and not at the deadline, so that a late wake yields one batch.
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
            retries.await_capacity(&order(dseq));
        }
        retries
    }

    /// Removes all due orders in batches, with `PAUSE` between batches. Returns the size of each batch.
    fn drained(retries: &mut Retries, mut now: Mono) -> Vec<usize> {
        let mut batches = Vec::new();
        while retries.deadline().is_some_and(|due| due <= now) {
            batches.push(retries.take_due(now).len());
            now = now.plus(PAUSE);
        }
        batches
    }

    #[test]
    fn retries_in_batches() {
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
    fn limits_number_of_orders_waiting_for_capacity() {
        let mut retries = declined(0..=MAX);
        retries.capacity_freed();
        assert_eq!(drained(&mut retries, at(0)), [BATCH; MAX / BATCH]);
    }

    #[test]
    fn releasing_a_reservation_retries_only_later_declines() {
        let mut retries = declined([1]);
        let sequence = retries.sequence();
        retries.await_capacity(&order(2));
        retries.capacity_freed_since(sequence);
        assert_eq!(retries.take_due(at(0)), [order(2)]);
        retries.capacity_freed();
        assert_eq!(retries.take_due(at(5)), [order(1)]);
    }

    #[test]
    fn failed_decisions_are_retried_with_back_off() {
        let (mut retries, mut now) = (Retries::default(), at(0));
        for pause in [8, 16, 32, 60, 60] {
            retries.decision_failed(now, &order(1));
            let due = now.plus(Duration::from_secs(pause));
            assert_eq!(retries.deadline(), Some(due));
            assert!(retries.take_due(Mono(due.0 - 1)).is_empty());
            assert_eq!(retries.take_due(due), [order(1)]);
            now = due;
        }
        // A second failure before the retry is due does not queue the order twice.
        retries.decision_failed(now, &order(1));
        retries.decision_failed(now, &order(1));
        assert_eq!(drained(&mut retries, now.plus(Duration::from_secs(60))), [1]);
        // After removal, the back-off starts again.
        retries.decision_failed(now, &order(1));
        retries.remove(&order(1));
        assert_eq!(retries.deadline(), None);
        retries.decision_failed(at(1000), &order(1));
        assert_eq!(retries.deadline(), Some(at(1008)));
    }

    #[test]
    fn due_orders_are_retried_together_after_the_pause() {
        let mut retries = declined([3]);
        retries.decision_failed(at(0), &order(1));
        retries.decision_failed(at(1), &order(2));
        retries.capacity_freed();
        assert_eq!(retries.take_due(at(7)), [order(3)]);
        assert_eq!(retries.deadline(), Some(at(12)));
        assert_eq!(retries.take_due(at(12)), [order(1), order(2)]);
    }

    #[test]
    fn limits_number_of_undecided_orders() {
        let mut retries = Retries::default();
        for dseq in 0..=MAX {
            retries.decision_failed(at(0), &order(dseq));
        }
        assert_eq!(drained(&mut retries, at(60)), [BATCH; MAX / BATCH]);
        // Stored orders are accepted above the limit.
        retries.decision_failed(at(60), &order(MAX));
        assert_eq!(retries.deadline(), None);
        retries.decision_failed(at(60), &order(0));
        assert_eq!(retries.take_due(at(2000)), [order(0)]);
    }

    #[test]
    fn failed_price_is_retried_six_times() {
        let (mut retries, mut now) = (Retries::default(), at(0));
        let mut attempts = 1;
        loop {
            retries.price_failed(now, &order(1));
            let Some(due) = retries.deadline() else { break };
            assert_eq!(retries.take_due(due), [order(1)]);
            now = due;
            attempts += 1;
        }
        assert_eq!(attempts, PRICES_TRIED);
    }

    #[test]
    fn price_change_retries_each_order_once() {
        let mut retries = declined([1]);
        retries.await_prices(&order(1));
        retries.price_failed(at(0), &order(2));
        retries.await_prices(&order(2));
        retries.await_prices(&order(3));
        retries.start_retry(&order(3));
        retries.prices_changed();
        retries.prices_changed();
        retries.capacity_freed();
        assert_eq!(retries.take_due(at(0)), [order(1), order(2)]);
        assert_eq!(retries.deadline(), None);
    }

    #[test]
    fn removes_orders_that_are_no_longer_open() {
        let mut retries = declined([1, 2]);
        retries.decision_failed(at(0), &order(3));
        retries.decision_failed(at(0), &order(4));
        let (one, three) = (order(1), order(3));
        retries.retain_open(&[&one, &three].into());
        retries.capacity_freed();
        assert_eq!(retries.take_due(at(100)), [order(1), order(3)]);
        // The number of failures of the other order was removed.
        retries.decision_failed(at(100), &order(4));
        assert_eq!(retries.deadline(), Some(at(108)));
        assert_eq!(retries.declined.len(), 0);
    }
}
