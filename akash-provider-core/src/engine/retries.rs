//! Declined orders that are worth another look, and when: some once capacity comes back, those that could not be
//! decided or had no price by themselves, ever more rarely. However many there are, only a few are looked at at a
//! time.

use super::backoff;
use crate::types::{Mono, OrderId};
use rustc_hash::FxHashMap;
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
pub(super) type Moment = u64;

/// Orders to look at again.
#[derive(Debug, Default)]
pub(super) struct Retries {
    /// Until capacity comes back, by when they were declined.
    capacity: BTreeMap<Moment, OrderId>,
    declined: FxHashMap<OrderId, Moment>,
    moment: Moment,
    /// What was needed could not be found out: at this time again.
    undecided: BTreeSet<(Mono, OrderId)>,
    /// How often that was so in a row, and when the next look is due.
    failures: FxHashMap<OrderId, (u32, Mono)>,
    /// To be looked at now, a few at a time.
    queue: VecDeque<OrderId>,
    next: Mono,
}

impl Retries {
    /// Declined for want of something that may come back.
    pub(super) fn when_capacity_comes(&mut self, id: &OrderId) {
        self.forget(id);
        if self.capacity.len() < MAX {
            self.moment += 1;
            self.capacity.insert(self.moment, id.clone());
            self.declined.insert(id.clone(), self.moment);
        }
    }

    /// The moment of a reservation: whoever is declined from here on may be so because of it.
    pub(super) const fn moment(&self) -> Moment {
        self.moment
    }

    /// No price could be had.
    pub(super) fn unpriced(&mut self, now: Mono, id: &OrderId) {
        let tried = self.failures.get(id).map_or(0, |(failures, _)| *failures);
        if tried + 1 < PRICES_TRIED {
            self.undecided(now, id);
        } else {
            self.picked_up(id);
        }
    }

    /// It could not be decided.
    pub(super) fn undecided(&mut self, now: Mono, id: &OrderId) {
        self.picked_up(id);
        if self.failures.len() >= MAX && !self.failures.contains_key(id) {
            return;
        }
        let failures = self.failures.get(id).map_or(0, |(failures, _)| *failures);
        let at = now.plus(backoff::after(failures.saturating_add(FIRST_STEP)));
        self.failures.insert(id.clone(), (failures.saturating_add(1), at));
        self.undecided.insert((at, id.clone()));
    }

    /// It is being looked at; how often that was in vain is still known.
    pub(super) fn picked_up(&mut self, id: &OrderId) {
        if let Some(moment) = self.declined.remove(id) {
            self.capacity.remove(&moment);
        }
        if let Some((_, at)) = self.failures.get(id) {
            self.undecided.remove(&(*at, id.clone()));
        }
    }

    /// It has had its end.
    pub(super) fn forget(&mut self, id: &OrderId) {
        self.picked_up(id);
        self.failures.remove(id);
    }

    /// Keeps these only.
    pub(super) fn keep(&mut self, open: &BTreeSet<&OrderId>) {
        self.capacity.retain(|_, id| open.contains(id));
        self.declined.retain(|id, _| open.contains(id));
        self.undecided.retain(|(_, id)| open.contains(id));
        self.failures.retain(|id, _| open.contains(id));
    }

    /// Capacity came back.
    pub(super) fn capacity_freed(&mut self) {
        self.freed_since(0);
    }

    /// What was reserved at that moment, and never for a bid, is free: it kept out only who came after it.
    pub(super) fn freed_since(&mut self, moment: Moment) {
        let since = self.capacity.split_off(&moment.saturating_add(1));
        for id in since.into_values() {
            self.declined.remove(&id);
            self.queue.push_back(id);
        }
    }

    /// When some may be looked at again.
    pub(super) fn deadline(&self) -> Option<Mono> {
        let queued = (!self.queue.is_empty()).then_some(self.next);
        let undecided = self.undecided.first().map(|(at, _)| (*at).max(self.next));
        [queued, undecided].into_iter().flatten().min()
    }

    /// Those to look at now.
    pub(super) fn take_due(&mut self, now: Mono) -> Vec<OrderId> {
        if self.deadline().is_none_or(|at| at > now) {
            return Vec::new();
        }
        while self.undecided.first().is_some_and(|(at, _)| *at <= now) {
            self.queue.extend(self.undecided.pop_first().map(|(_, id)| id));
        }
        self.next = now.plus(PAUSE);
        let batch = BATCH.min(self.queue.len());
        self.queue.drain(..batch).collect()
    }
}
