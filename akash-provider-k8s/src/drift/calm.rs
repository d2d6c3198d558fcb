//! Back-off of repairs: growing waits after failures and in a fight with another writer.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// Repairs of one object within [`WINDOW`] that are a fight.
pub(crate) const FIGHT: usize = 10;
/// Time for which a repair counts.
const WINDOW: Duration = Duration::from_secs(600);
/// Wait after the first failure; each further failure doubles the wait.
const FIRST: Duration = Duration::from_secs(1);
/// Wait at the start of a fight.
const FOUGHT: Duration = Duration::from_secs(60);
/// Longest wait in a fight.
const LONGEST: Duration = Duration::from_secs(3600);
/// Longest wait for isolation: without it a tenant is open.
const LONGEST_OPEN: Duration = Duration::from_secs(60);

/// Recent repairs and failures by object. Bounded by the objects of leases.
#[derive(Debug)]
pub(crate) struct Calm<K> {
    objects: BTreeMap<K, Tries>,
}

/// Upper limit of the waits of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// For objects that keep leases apart.
    Isolation,
    /// For all others.
    Other,
}

#[derive(Debug)]
struct Tries {
    /// The last repairs, at most [`FIGHT`] of them.
    repairs: VecDeque<Instant>,
    wait: Duration,
    next: Instant,
    is_fight: bool,
}

impl<K> Default for Calm<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> Calm<K> {
    /// Returns the time of the next repair, or `None` for now.
    pub(crate) fn waits_until(&self, key: &K, now: Instant) -> Option<Instant> {
        let tries = self.objects.get(key)?;
        (tries.next > now).then_some(tries.next)
    }

    /// Counts a repair. Returns true for the repair that starts a fight.
    pub(crate) fn repaired(&mut self, key: &K, limit: Limit, now: Instant) -> bool {
        let tries = self.tries(key, now);
        tries.repairs.push_back(now);
        while tries.repairs.len() > FIGHT || tries.repairs.front().is_some_and(|at| now - *at >= WINDOW) {
            tries.repairs.pop_front();
        }
        let starts = !tries.is_fight && tries.repairs.len() >= FIGHT;
        tries.is_fight |= starts;
        if tries.is_fight {
            tries.put_off(limit, now, if starts { FOUGHT } else { FIRST });
        } else {
            (tries.wait, tries.next) = (Duration::ZERO, now);
        }
        starts
    }

    /// Counts a failed repair.
    pub(crate) fn failed(&mut self, key: &K, limit: Limit, now: Instant) {
        self.tries(key, now).put_off(limit, now, FIRST);
    }

    /// Removes the objects without a recent repair; their next repair is their first.
    pub(crate) fn forget(&mut self, now: Instant) {
        self.objects.retain(|_, tries| now < tries.next + WINDOW);
    }

    fn tries(&mut self, key: &K, now: Instant) -> &mut Tries {
        self.objects.entry(key.clone()).or_insert_with(|| Tries {
            repairs: VecDeque::new(),
            wait: Duration::ZERO,
            next: now,
            is_fight: false,
        })
    }
}

impl Tries {
    fn put_off(&mut self, limit: Limit, now: Instant, least: Duration) {
        let longest = match (limit, self.is_fight) {
            (Limit::Isolation, _) => LONGEST_OPEN,
            (Limit::Other, true) => LONGEST,
            (Limit::Other, false) => FOUGHT,
        };
        self.wait = self.wait.saturating_mul(2).clamp(least, longest);
        self.next = now + self.wait;
    }
}

#[cfg(test)]
mod tests;
