//! How often the same object is put right: at once, then more rarely the more often somebody changes it again.

use crate::apply::item::{Id, Kind};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// Repairs of one object within [`WINDOW`] that are a fight.
pub(crate) const FIGHT: usize = 5;
/// Repairs count for so long.
const WINDOW: Duration = Duration::from_secs(600);
/// Wait after the first repair; each one after it doubles that.
const FIRST: Duration = Duration::from_secs(1);
/// Wait at the beginning of a fight.
const FOUGHT: Duration = Duration::from_secs(60);
/// Longest wait in a fight.
const LONGEST: Duration = Duration::from_secs(3600);
/// The same for isolation: without it a tenant is open.
const LONGEST_OPEN: Duration = Duration::from_secs(60);

/// What was put right, or tried, not long ago. Bounded by the objects of leases.
#[derive(Debug, Default)]
pub(crate) struct Calm {
    objects: BTreeMap<(String, Id), Tries>,
}

#[derive(Debug)]
struct Tries {
    /// The last repairs, at most [`FIGHT`] of them.
    repairs: VecDeque<Instant>,
    wait: Duration,
    next: Instant,
    is_fight: bool,
}

impl Calm {
    /// When it may be put right next; `None` for at once.
    pub(crate) fn waits_until(&self, home: &str, id: &Id, now: Instant) -> Option<Instant> {
        let tries = self.objects.get(&(home.to_owned(), id.clone()))?;
        (tries.next > now).then_some(tries.next)
    }

    /// It was put right. True where this is the repair that makes it a fight: that is to be told once.
    pub(crate) fn repaired(&mut self, home: &str, id: &Id, now: Instant) -> bool {
        let tries = self.tries(home, id, now);
        tries.repairs.push_back(now);
        while tries.repairs.len() > FIGHT || tries.repairs.front().is_some_and(|at| now - *at >= WINDOW) {
            tries.repairs.pop_front();
        }
        let begins = !tries.is_fight && tries.repairs.len() >= FIGHT;
        tries.is_fight |= begins;
        tries.put_off(id.kind, now, begins);
        begins
    }

    /// It could not be put right.
    pub(crate) fn failed(&mut self, home: &str, id: &Id, now: Instant) {
        self.tries(home, id, now).put_off(id.kind, now, false);
    }

    /// Forgets what nobody has changed for a while: it begins anew.
    pub(crate) fn forget(&mut self, now: Instant) {
        self.objects.retain(|_, tries| now < tries.next + WINDOW);
    }

    fn tries(&mut self, home: &str, id: &Id, now: Instant) -> &mut Tries {
        self.objects
            .entry((home.to_owned(), id.clone()))
            .or_insert_with(|| Tries {
                repairs: VecDeque::new(),
                wait: Duration::ZERO,
                next: now,
                is_fight: false,
            })
    }
}

impl Tries {
    fn put_off(&mut self, kind: Kind, now: Instant, begins: bool) {
        let longest = match (kind.is_isolation(), self.is_fight) {
            (true, _) => LONGEST_OPEN,
            (_, true) => LONGEST,
            (_, false) => FOUGHT,
        };
        let least = if begins { FOUGHT } else { FIRST };
        self.wait = self.wait.saturating_mul(2).clamp(least, longest);
        self.next = now + self.wait;
    }
}

#[cfg(test)]
mod tests;
