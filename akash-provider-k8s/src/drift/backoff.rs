//! Back-off of repairs: after failures, and during a conflict with another client that reverts the repairs.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// Number of repairs of one object within [`WINDOW`]. At this number, the provider assumes that another
/// client reverts the repairs.
pub(crate) const CONFLICT_REPAIRS: usize = 10;
/// Period in which repairs are counted.
const WINDOW: Duration = Duration::from_secs(600);
/// Delay after the first failure. Each further failure doubles the delay.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// First delay after a conflict with another client. For failures with another cause, this value is the
/// maximum delay.
const CONFLICT_DELAY: Duration = Duration::from_secs(60);
/// Maximum delay in a conflict.
const MAX_DELAY: Duration = Duration::from_secs(3600);
/// Maximum delay for isolation objects. The delay is short, because isolation objects protect other tenants.
const MAX_ISOLATION_DELAY: Duration = Duration::from_secs(60);

/// Back-off state of each object.
#[derive(Debug)]
pub(crate) struct RepairBackoff<K> {
    objects: BTreeMap<K, Attempts>,
}

/// Maximum delay between the repairs of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// For isolation objects.
    Isolation,
    /// For all other objects.
    Other,
}

#[derive(Debug)]
struct Attempts {
    /// Times of the last repairs, at most [`CONFLICT_REPAIRS`].
    repairs: VecDeque<Instant>,
    wait: Duration,
    next: Instant,
    is_conflict: bool,
}

impl<K> Default for RepairBackoff<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> RepairBackoff<K> {
    /// Returns the earliest time of the next repair, or `None` if a repair may run now.
    pub(crate) fn waits_until(&self, key: &K, now: Instant) -> Option<Instant> {
        let attempts = self.objects.get(key)?;
        (attempts.next > now).then_some(attempts.next)
    }

    /// Records a repair. Returns true if a conflict starts. `limit` bounds the next delay.
    pub(crate) fn repaired(&mut self, key: &K, limit: Limit, now: Instant) -> bool {
        let attempts = self.attempts(key, now);
        attempts.repairs.push_back(now);
        while attempts.repairs.len() > CONFLICT_REPAIRS
            || attempts.repairs.front().is_some_and(|at| now - *at >= WINDOW)
        {
            attempts.repairs.pop_front();
        }
        let starts = !attempts.is_conflict && attempts.repairs.len() >= CONFLICT_REPAIRS;
        attempts.is_conflict |= starts;
        if attempts.is_conflict {
            attempts.put_off(limit, now, if starts { CONFLICT_DELAY } else { FIRST_DELAY });
        } else {
            (attempts.wait, attempts.next) = (Duration::ZERO, now);
        }
        starts
    }

    /// Records a failed repair. `limit` bounds the next delay.
    pub(crate) fn failed(&mut self, key: &K, limit: Limit, now: Instant) {
        self.attempts(key, now).put_off(limit, now, FIRST_DELAY);
    }

    /// Removes the entries with a back-off that ended more than [`WINDOW`] ago.
    pub(crate) fn remove_old(&mut self, now: Instant) {
        self.objects.retain(|_, attempts| now < attempts.next + WINDOW);
    }

    fn attempts(&mut self, key: &K, now: Instant) -> &mut Attempts {
        self.objects.entry(key.clone()).or_insert_with(|| Attempts {
            repairs: VecDeque::new(),
            wait: Duration::ZERO,
            next: now,
            is_conflict: false,
        })
    }
}

impl Attempts {
    fn put_off(&mut self, limit: Limit, now: Instant, least: Duration) {
        let longest = match (limit, self.is_conflict) {
            (Limit::Isolation, _) => MAX_ISOLATION_DELAY,
            (Limit::Other, true) => MAX_DELAY,
            (Limit::Other, false) => CONFLICT_DELAY,
        };
        self.wait = self.wait.saturating_mul(2).clamp(least, longest);
        self.next = now + self.wait;
    }
}

#[cfg(test)]
mod tests;
