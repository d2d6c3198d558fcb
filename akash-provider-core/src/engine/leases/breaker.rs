//! Circuit breaker that limits the number of leases that this provider closes on its own decision. The
//! breaker also limits teardowns that a scan requested without confirmation by a second endpoint.
//!
//! A close that a chain event reports, or that two endpoints confirm, needs no permission.
//!
//! The breaker holds requests in three cases:
//!
//! - Too many closes were requested within the window. The breaker trips for one owner or for all owners,
//!   until an operator releases it.
//! - The warm-up period after a start has not passed. Until then, the engine may have read the wrong chain or
//!   cluster.
//! - The chain has leases, but the cluster has no record of any of them. The provider probably uses the wrong
//!   cluster or namespace.
//!
//! A close destroys nothing if the lease never received a manifest. Such a close does not count toward the
//! limit, and a tripped breaker does not hold it. Tenants who order without sending a manifest therefore
//! cannot trip the breaker.
//!
//! One owner may use the whole limit, but counts for at most half of the limit in the sum of all owners. A
//! request above the limit of its owner, or above the limit of this sum, trips the breaker. If only this
//! owner has reached half of the limit, the breaker trips for this owner alone. Otherwise the breaker trips
//! for all owners.
//! ```text
//!  limit 10           A requests 11: 10 granted (counted as 5), the last is held, and so are later requests of A
//!                     then B requests 6: 5 granted, the sixth trips the breaker for all owners
//! ```

use crate::config::Config;
use crate::types::{Address, BlockTime, LeaseId, Mono, Now};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Maximum number of owners for which the breaker trips separately. Above this number, the breaker trips for
/// all owners.
pub(crate) const HELD_OWNERS_MAX: usize = 64;

const TRIPPED: &str =
    "more leases to close than the circuit breaker allows; check the cause, then run `breaker release`";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Breaker {
    tripped: bool,
    /// Owners for which the breaker has tripped individually. `tripped` applies to all owners.
    held_owners: BTreeSet<Address>,
    /// End of the warm-up period. `None` before the workloads in the cluster were listed for the first time.
    warmup_ends: Option<Mono>,
    /// Location that should contain the workload records, but does not. `None` if no records are missing.
    records_missing: Option<String>,
    recent: VecDeque<(Mono, Address)>,
    /// Leases with held requests. The requests are repeated after the warm-up period, or when the missing
    /// workload records are found.
    deferred: BTreeSet<LeaseId>,
    /// Leases with waiting requests. These requests wait until an operator releases the breaker.
    waiting: BTreeSet<LeaseId>,
    /// Block time of the first held request of each lease.
    since: BTreeMap<LeaseId, BlockTime>,
}

/// A request to close a lease or to tear down its workload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CloseRequest<'a> {
    pub(crate) lease: &'a LeaseId,
    /// True if the lease is already closed on the chain, so that only the workload must be removed.
    pub(crate) is_over: bool,
    /// True if this instance won the lease, and the lease never had a manifest or a workload.
    pub(crate) destroys_nothing: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BreakerDecision {
    /// The request may proceed.
    Granted,
    /// The request waits: the warm-up period has not ended, workload records are missing, or the breaker has
    /// tripped.
    Held,
    /// The request trips the breaker for all owners, and waits. Contains the number of requests in the
    /// window: all granted requests, and this request.
    Tripped(u32),
    /// The request trips the breaker for the owner of the lease, and waits. Contains the number of requests
    /// of this owner in the window: all granted requests, and this request.
    TrippedFor(u32),
}

impl Breaker {
    pub(crate) fn new(tripped: bool, held_owners: BTreeSet<Address>) -> Self {
        Self {
            tripped: tripped || held_owners.len() > HELD_OWNERS_MAX,
            held_owners,
            warmup_ends: None,
            records_missing: None,
            recent: VecDeque::new(),
            deferred: BTreeSet::new(),
            waiting: BTreeSet::new(),
            since: BTreeMap::new(),
        }
    }

    /// Returns the maximum number of closes within the window for a provider with `leases` leases.
    pub(crate) fn allowed(config: &Config, leases: usize) -> u32 {
        let leases = u64::try_from(leases).unwrap_or(u64::MAX);
        let share = leases.saturating_mul(u64::from(config.breaker_percent)) / 100;
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        share.min(config.breaker_ceiling).max(config.breaker_floor)
    }

    /// Requests permission to close one lease or to tear down its workload.
    ///
    /// During the warm-up period, only the workload of a closed lease may be removed. A request that destroys
    /// nothing is not counted, and is granted even if the breaker has tripped.
    pub(crate) fn request(
        &mut self,
        config: &Config,
        now: Now,
        leases: usize,
        request: &CloseRequest<'_>,
    ) -> BreakerDecision {
        let decision = self.decide(config, now.mono, leases, request);
        if decision == BreakerDecision::Granted {
            self.since.remove(request.lease);
        } else {
            self.since.entry(request.lease.clone()).or_insert(now.block_time);
        }
        decision
    }

    fn decide(
        &mut self,
        config: &Config,
        now: Mono,
        leases: usize,
        request: &CloseRequest<'_>,
    ) -> BreakerDecision {
        self.drop_expired(config, now);
        // Checked before counting: a held request is repeated later and must not count twice.
        if self.records_missing.is_some() || (self.is_warming_up(now) && !request.is_over) {
            self.deferred.insert(request.lease.clone());
            return BreakerDecision::Held;
        }
        if request.destroys_nothing {
            return BreakerDecision::Granted;
        }
        let owner = request.lease.owner();
        if self.tripped || self.held_owners.contains(owner) {
            self.waiting.insert(request.lease.clone());
            return BreakerDecision::Held;
        }
        let allowed = Self::allowed(config, leases);
        let own = self.recent_of(owner);
        // The owner's closes count in full against the owner's limit, and count for at most half against the limit for
        // all owners. One owner therefore cannot use up the limit for all owners.
        if own < allowed && self.recent_count(allowed) < allowed {
            self.recent.push_back((now, owner.clone()));
            return BreakerDecision::Granted;
        }
        self.waiting.insert(request.lease.clone());
        // Rounded up, because half of a limit of 1 must not be 0.
        let half = allowed.div_ceil(2);
        let is_alone = own >= half && !self.has_other_owner(owner, half);
        if is_alone && self.held_owners.len() < HELD_OWNERS_MAX {
            self.held_owners.insert(owner.clone());
            return BreakerDecision::TrippedFor(own.saturating_add(1));
        }
        self.tripped = true;
        let passed = u32::try_from(self.recent.len()).unwrap_or(u32::MAX);
        BreakerDecision::Tripped(passed.saturating_add(1))
    }

    /// Returns how many requests of each owner the breaker granted within the window.
    fn by_owner(&self) -> BTreeMap<&Address, u32> {
        let mut counts = BTreeMap::new();
        for (_, owner) in &self.recent {
            *counts.entry(owner).or_default() += 1;
        }
        counts
    }

    /// Returns true if any owner except `owner` has at least `count` granted requests.
    fn has_other_owner(&self, owner: &Address, count: u32) -> bool {
        let mut counts = self.by_owner().into_iter();
        counts.any(|(o, passed)| o != owner && passed >= count)
    }

    fn recent_of(&self, owner: &Address) -> u32 {
        self.by_owner().get(owner).copied().unwrap_or_default()
    }

    fn is_warming_up(&self, now: Mono) -> bool {
        self.warmup_ends.is_none_or(|at| now < at)
    }

    /// Returns true if the warm-up period ends between the times `before` (exclusive) and `now` (inclusive).
    pub(crate) fn warmup_ends_within(&self, before: Mono, now: Mono) -> bool {
        self.warmup_ends.is_some_and(|at| before < at && at <= now)
    }

    /// Starts the warm-up period. Called after each list of the workloads; only the first call has an effect.
    pub(crate) fn start(&mut self, config: &Config, now: Mono) {
        // Only the first call has an effect: later full scans must not restart the warm-up period.
        self.warmup_ends
            .get_or_insert_with(|| now.plus(config.breaker_warmup));
    }

    /// Holds all requests, because the location `place` contains no workload records.
    pub(crate) fn set_records_missing(&mut self, place: String) {
        self.records_missing = Some(place);
    }

    /// Ends the hold that [`set_records_missing`](Self::set_records_missing) started. Returns false if there
    /// was no such hold.
    pub(crate) fn clear_records_missing(&mut self) -> bool {
        self.records_missing.take().is_some()
    }

    /// Returns the location at which records are missing, or `None` if no records are missing.
    pub(crate) fn records_missing(&self) -> Option<&str> {
        self.records_missing.as_deref()
    }

    /// Removes and returns the leases with deferred requests. Returns no leases during the warm-up period or
    /// while records are missing.
    pub(crate) fn take_due(&mut self, now: Mono) -> Vec<LeaseId> {
        if self.records_missing.is_some() || self.is_warming_up(now) {
            return Vec::new();
        }
        std::mem::take(&mut self.deferred).into_iter().collect()
    }

    /// Returns the end of the warm-up period, at which deferred requests are repeated. Returns `None` if no
    /// request is deferred.
    pub(crate) fn deadline(&self) -> Option<Mono> {
        let is_deferred = self.records_missing.is_none() && !self.deferred.is_empty();
        self.warmup_ends.filter(|_| is_deferred)
    }

    /// Returns the reason why the breaker holds the requests of all owners, as text for users. Returns `None`
    /// if the breaker does not hold the requests of all owners.
    pub(crate) fn hold_reason(&self, now: Mono) -> Option<String> {
        if self.tripped {
            return Some(TRIPPED.to_owned());
        }
        self.deferral_reason(now)
    }

    /// Returns the reason why the breaker holds the close or the teardown of a lease, as text for users.
    /// Returns `None` if the breaker holds no request of this lease.
    pub(crate) fn hold_reason_for(&self, now: Mono, lease: &LeaseId) -> Option<String> {
        if self.waiting.contains(lease) {
            return Some(if self.tripped {
                TRIPPED.to_owned()
            } else {
                let owner = lease.owner();
                format!(
                    "more leases of {owner} to close than the circuit breaker allows; check the cause, then run \
                     `breaker release --owner {owner}`"
                )
            });
        }
        self.deferred
            .contains(lease)
            .then(|| self.deferral_reason(now))
            .flatten()
    }

    /// Returns the reason why requests wait, or `None` if requests need not wait.
    fn deferral_reason(&self, now: Mono) -> Option<String> {
        if let Some(place) = &self.records_missing {
            return Some(format!(
                "no record of any lease was found in {place}; check the cluster, or run `breaker release`"
            ));
        }
        self.is_warming_up(now)
            .then(|| "no lease is closed during the warm-up period after a start".to_owned())
    }

    pub(crate) fn cancel(&mut self, lease: &LeaseId) {
        self.since.remove(lease);
        self.deferred.remove(lease);
        self.waiting.remove(lease);
    }

    /// Replaces the state of the breaker with stored values. All waiting requests become deferred, and
    /// [`Self::take_due`] returns their leases.
    pub(crate) fn restore(&mut self, tripped: bool, held_owners: BTreeSet<Address>) {
        self.tripped = tripped || held_owners.len() > HELD_OWNERS_MAX;
        self.held_owners = held_owners;
        self.deferred.append(&mut self.waiting);
    }

    /// Releases the breaker for all owners. Returns the leases with requests that are now granted.
    pub(crate) fn release(&mut self) -> Vec<LeaseId> {
        self.tripped = false;
        self.held_owners.clear();
        self.records_missing = None;
        // An operator who releases the breaker has checked the state, which is the purpose of the warm-up period.
        self.warmup_ends = Some(Mono(0));
        // Earlier requests must not trip the breaker again immediately.
        self.recent.clear();
        self.since.clear();
        let mut waited = std::mem::take(&mut self.waiting);
        waited.append(&mut self.deferred);
        waited.into_iter().collect()
    }

    /// Releases the breaker for one owner. Returns `None` if `held_owners` does not contain the owner.
    ///
    /// Otherwise, returns the leases of the owner for which requests are now granted. The list is empty if
    /// the requests are still held for another reason.
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
        if self.deferral_reason(now).is_none() {
            self.since.retain(|lease, _| lease.owner() != owner);
            return Some(theirs.into_iter().collect());
        }
        // The warm-up period is not over, so the requests are repeated when it ends.
        self.deferred.extend(theirs);
        Some(Vec::new())
    }

    pub(crate) const fn held_owners(&self) -> &BTreeSet<Address> {
        &self.held_owners
    }

    /// Returns true if the breaker has tripped for all owners.
    pub(crate) const fn is_tripped(&self) -> bool {
        self.tripped
    }

    /// Returns the number of granted requests within the window. Each owner counts for at most half of
    /// `allowed`, rounded up.
    pub(crate) fn recent_count(&self, allowed: u32) -> u32 {
        let half = allowed.div_ceil(2);
        let counts = self.by_owner().into_values().map(|count| count.min(half));
        counts.fold(0, u32::saturating_add)
    }

    /// Returns all leases with held requests.
    pub(crate) fn waiting(&self) -> BTreeSet<&LeaseId> {
        self.deferred.iter().chain(&self.waiting).collect()
    }

    pub(crate) fn awaits_release(&self, lease: &LeaseId) -> bool {
        self.waiting.contains(lease)
    }

    /// Returns each lease with a held request, the block time of its first held request, and the reason for
    /// the hold.
    pub(crate) fn held_closes(&self, now: Mono) -> Vec<(LeaseId, BlockTime, String)> {
        let since = self.since.iter();
        since
            .filter_map(|(lease, since)| Some((lease.clone(), *since, self.hold_reason_for(now, lease)?)))
            .collect()
    }

    fn drop_expired(&mut self, config: &Config, now: Mono) {
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
