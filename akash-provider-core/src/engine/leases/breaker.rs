//! The circuit breaker limits our own closes of leases, and teardowns that a scan found and no second endpoint confirmed.
//! A chain event or a confirmed record needs no permission from the breaker.
//!
//! It is shut in three cases: after too many within the window, for all or for one owner, until it is released; in
//! the first minutes after a start, whose picture of the world is the least tried; and while there are leases on the
//! chain and no record of any of them in the cluster, which is more likely a look in a wrong place than the truth.
//!
//! An end that destroys nothing, of a lease for which no manifest ever came, does not count and waits in the last two
//! cases alone: whoever orders and sends no manifest shuts it for nobody.
//!
//! What passes for one owner counts as at most half of what may pass for all. Whoever has had that half and wants more
//! than there is shuts it for himself, unless another owner has had his half too: then it is shut for all.
//! ```text
//!  of 10 may pass     A wants 11: 10 go (5 count), the last waits, and so does what A wants later
//!                     then B wants 6: 5 go, and the sixth shuts it for all
//! ```

use crate::config::Config;
use crate::types::{Address, BlockTime, LeaseId, Mono, Now};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Owners for whom alone it may be shut; with one more it is shut for all.
pub(crate) const HELD_OWNERS_MAX: usize = 64;

const TRIPPED: &str =
    "more ends were wanted than the circuit breaker lets pass; release it (`breaker release`)";

/// Which of our own ends of leases pass, and which of them wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Breaker {
    tripped: bool,
    /// It is shut for each of them alone.
    held_owners: BTreeSet<Address>,
    /// Nothing passes before; `None` until chain and cluster are known.
    opens: Option<Mono>,
    /// There are leases and no records of them; says where was looked.
    records_missing: Option<String>,
    recent: VecDeque<(Mono, Address)>,
    /// Those that asked while nothing passes; they ask again when that is over.
    early: BTreeSet<LeaseId>,
    /// Those that wait for a release.
    waiting: BTreeSet<LeaseId>,
    /// Since when each of both waits.
    since: BTreeMap<LeaseId, BlockTime>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// The lease that is to end, or whose workload is to go.
    pub(crate) lease: &'a LeaseId,
    /// The chain shows the lease to be over: only its workload goes.
    pub(crate) is_over: bool,
    /// It was won here and nothing was ever kept or run for it.
    pub(crate) destroys_nothing: bool,
}

/// Answer of the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    /// It may go on; what destroys something counts from this moment.
    Granted,
    /// Wait for a release.
    Held,
    /// Wait for a release; it tripped just now, at so many within the window.
    Tripped(u32),
    /// Wait for a release; it tripped just now for the lease's owner alone, at so many of his within the window.
    TrippedFor(u32),
}

impl Breaker {
    /// As it was before the restart.
    #[must_use]
    pub(crate) fn new(tripped: bool, held_owners: BTreeSet<Address>) -> Self {
        Self {
            tripped: tripped || held_owners.len() > HELD_OWNERS_MAX,
            held_owners,
            opens: None,
            records_missing: None,
            recent: VecDeque::new(),
            early: BTreeSet::new(),
            waiting: BTreeSet::new(),
            since: BTreeMap::new(),
        }
    }

    /// How many pass within the window with so many leases.
    #[must_use]
    pub(crate) fn allowed(config: &Config, leases: usize) -> u32 {
        let leases = u64::try_from(leases).unwrap_or(u64::MAX);
        let share = leases.saturating_mul(u64::from(config.breaker_percent)) / 100;
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        share.min(config.breaker_ceiling).max(config.breaker_floor)
    }

    /// Asks for one lease.
    ///
    /// In the first minutes after a start only the workload of a lease that is over may go. What destroys nothing
    /// neither counts nor waits for a release.
    pub(crate) fn ask(&mut self, config: &Config, now: Now, leases: usize, wanted: &Wanted<'_>) -> Pass {
        let pass = self.decide(config, now.mono, leases, wanted);
        if pass == Pass::Granted {
            self.since.remove(wanted.lease);
        } else {
            self.since.entry(wanted.lease.clone()).or_insert(now.block_time);
        }
        pass
    }

    fn decide(&mut self, config: &Config, now: Mono, leases: usize, wanted: &Wanted<'_>) -> Pass {
        self.forget_old(config, now);
        // Before anything counts: who is too early asks again, and would count twice.
        if self.records_missing.is_some() || (self.is_early(now) && !wanted.is_over) {
            self.early.insert(wanted.lease.clone());
            return Pass::Held;
        }
        if wanted.destroys_nothing {
            return Pass::Granted;
        }
        let owner = wanted.lease.owner();
        if self.tripped || self.held_owners.contains(owner) {
            self.waiting.insert(wanted.lease.clone());
            return Pass::Held;
        }
        let allowed = Self::allowed(config, leases);
        let own = self.recent_of(owner);
        // His own ends count in full here, and in the common number with at most half of what is allowed: one owner
        // cannot use that up.
        if own < allowed && self.recent_count(allowed) < allowed {
            self.recent.push_back((now, owner.clone()));
            return Pass::Granted;
        }
        self.waiting.insert(wanted.lease.clone());
        // Rounded up, or of one that may pass the half would be none.
        let half = allowed.div_ceil(2);
        let is_alone = own >= half && !self.has_another(owner, half);
        if is_alone && self.held_owners.len() < HELD_OWNERS_MAX {
            self.held_owners.insert(owner.clone());
            return Pass::TrippedFor(own.saturating_add(1));
        }
        self.tripped = true;
        let passed = u32::try_from(self.recent.len()).unwrap_or(u32::MAX);
        Pass::Tripped(passed.saturating_add(1))
    }

    /// How many passed within the window, by owner.
    fn by_owner(&self) -> BTreeMap<&Address, u32> {
        let mut counts = BTreeMap::new();
        for (_, owner) in &self.recent {
            *counts.entry(owner).or_default() += 1;
        }
        counts
    }

    /// True when so many passed for somebody else too.
    fn has_another(&self, owner: &Address, count: u32) -> bool {
        let mut counts = self.by_owner().into_iter();
        counts.any(|(o, passed)| o != owner && passed >= count)
    }

    fn recent_of(&self, owner: &Address) -> u32 {
        self.by_owner().get(owner).copied().unwrap_or_default()
    }

    fn is_early(&self, now: Mono) -> bool {
        self.opens.is_none_or(|at| now < at)
    }

    /// True when the first minutes end after `before` and not after `now`.
    #[must_use]
    pub(crate) fn opens_within(&self, before: Mono, now: Mono) -> bool {
        self.opens.is_some_and(|at| before < at && at <= now)
    }

    /// Chain and cluster are known: the first minutes count from here.
    pub(crate) fn start(&mut self, config: &Config, now: Mono) {
        // Only once, or every later full scan would begin the first minutes anew.
        self.opens.get_or_insert_with(|| now.plus(config.breaker_warmup));
    }

    /// There are leases, and no record of any of them where was looked; until one is found, or a release.
    pub(crate) fn miss_records(&mut self, place: String) {
        self.records_missing = Some(place);
    }

    /// A record was found after all; false when none was missed.
    pub(crate) fn find_records(&mut self) -> bool {
        self.records_missing.take().is_some()
    }

    /// Where no record of any lease was found; `None` when that is not so.
    #[must_use]
    pub(crate) fn records_missing(&self) -> Option<&str> {
        self.records_missing.as_deref()
    }

    /// Those that asked while nothing passed, and may ask again.
    pub(crate) fn take_due(&mut self, now: Mono) -> Vec<LeaseId> {
        if self.records_missing.is_some() || self.is_early(now) {
            return Vec::new();
        }
        std::mem::take(&mut self.early).into_iter().collect()
    }

    /// When those that asked too early may ask again.
    #[must_use]
    pub(crate) fn deadline(&self) -> Option<Mono> {
        let by_itself = self.records_missing.is_none() && !self.early.is_empty();
        self.opens.filter(|_| by_itself)
    }

    /// Why nothing passes, for people; `None` when it is open.
    #[must_use]
    pub(crate) fn shut_because(&self, now: Mono) -> Option<String> {
        if self.tripped {
            return Some(TRIPPED.to_owned());
        }
        self.not_yet(now)
    }

    /// Why this lease waits, for people; `None` when it does not.
    #[must_use]
    pub(crate) fn waits_because(&self, now: Mono, lease: &LeaseId) -> Option<String> {
        if self.waiting.contains(lease) {
            return Some(if self.tripped {
                TRIPPED.to_owned()
            } else {
                let owner = lease.owner();
                format!(
                    "more ends of leases of {owner} were wanted than the circuit breaker lets pass; release it \
                     (`breaker release --owner {owner}`)"
                )
            });
        }
        self.early.contains(lease).then(|| self.not_yet(now)).flatten()
    }

    /// Why nothing passes now that may pass by itself later.
    fn not_yet(&self, now: Mono) -> Option<String> {
        if let Some(place) = &self.records_missing {
            return Some(format!(
                "no record of any lease was found in {place}; look there, or release the circuit breaker"
            ));
        }
        self.is_early(now)
            .then(|| "no lease is ended in the first minutes after a start".to_owned())
    }

    /// Takes a question back.
    pub(crate) fn cancel(&mut self, lease: &LeaseId) {
        self.since.remove(lease);
        self.early.remove(lease);
        self.waiting.remove(lease);
    }

    /// It is shut for these from here on, as somebody says who knows better; those that wait ask again.
    pub(crate) fn remind(&mut self, tripped: bool, held_owners: BTreeSet<Address>) {
        self.tripped = tripped || held_owners.len() > HELD_OWNERS_MAX;
        self.held_owners = held_owners;
        self.early.append(&mut self.waiting);
    }

    /// Releases it by command; returns those that waited, which pass now.
    pub(crate) fn release(&mut self) -> Vec<LeaseId> {
        self.tripped = false;
        self.held_owners.clear();
        self.records_missing = None;
        // Whoever releases it has looked at the world, which is what the first minutes are for.
        self.opens = Some(Mono(0));
        // What passed before must not shut it again at once.
        self.recent.clear();
        self.since.clear();
        let mut waited = std::mem::take(&mut self.waiting);
        waited.append(&mut self.early);
        waited.into_iter().collect()
    }

    /// Releases it by command for one owner for whom alone it was shut; `None` when it was not. Returns his leases that
    /// waited and pass now; where it is shut for all, they go on waiting.
    pub(crate) fn release_owner(&mut self, now: Mono, owner: &Address) -> Option<Vec<LeaseId>> {
        if !self.held_owners.remove(owner) {
            return None;
        }
        self.recent.retain(|(_, o)| o != owner);
        if self.tripped {
            return Some(Vec::new());
        }
        let theirs = |lease: &LeaseId| lease.owner() == owner;
        let (theirs, others) = std::mem::take(&mut self.waiting).into_iter().partition(theirs);
        self.waiting = others;
        if self.not_yet(now).is_none() {
            self.since.retain(|lease, _| lease.owner() != owner);
            return Some(theirs.into_iter().collect());
        }
        // Released, and still too early: they ask again when it opens.
        self.early.extend(theirs);
        Some(Vec::new())
    }

    /// Owners for whom alone it is shut, until released.
    #[must_use]
    pub(crate) const fn held_owners(&self) -> &BTreeSet<Address> {
        &self.held_owners
    }

    /// True from when it tripped for all until it is released.
    #[must_use]
    pub(crate) const fn is_tripped(&self) -> bool {
        self.tripped
    }

    /// Those that passed within the window, as they count where so many may: of each owner at most half of that.
    #[must_use]
    pub(crate) fn recent_count(&self, allowed: u32) -> u32 {
        let half = allowed.div_ceil(2);
        let counts = self.by_owner().into_values().map(|count| count.min(half));
        counts.fold(0, u32::saturating_add)
    }

    /// All that wait: those for a release, and those that ask again by themselves.
    #[must_use]
    pub(crate) fn waiting(&self) -> BTreeSet<&LeaseId> {
        self.early.iter().chain(&self.waiting).collect()
    }

    /// True for a lease that waits for a release.
    #[must_use]
    pub(crate) fn awaits_release(&self, lease: &LeaseId) -> bool {
        self.waiting.contains(lease)
    }

    /// All that wait, each with the block time of its first request and the reason.
    #[must_use]
    pub(crate) fn held(&self, now: Mono) -> Vec<(LeaseId, BlockTime, String)> {
        let held = self.since.iter();
        held.filter_map(|(lease, since)| Some((lease.clone(), *since, self.waits_because(now, lease)?)))
            .collect()
    }

    fn forget_old(&mut self, config: &Config, now: Mono) {
        while self
            .recent
            .front()
            .is_some_and(|(at, _)| now.since(*at) >= config.breaker_window)
        {
            self.recent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
