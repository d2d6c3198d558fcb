//! The circuit breaker on what we destroy by our own decision: closes of leases, and teardowns that only a
//! scan asked for. A lease closed by the chain's own event never passes here.
//!
//! It is shut in three cases: after too many within the window, until it is released; in the first minutes after a
//! start, whose picture of the world is the least tried; and while there are leases on the chain and no record of
//! any of them in the cluster, which is more likely a look in a wrong place than the truth.

use crate::config::Config;
use crate::types::{LeaseId, Mono};
use std::collections::{BTreeSet, VecDeque};

/// The breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breaker {
    tripped: bool,
    /// Nothing passes before; `None` until chain and cluster are known.
    opens: Option<Mono>,
    /// There are leases and no records of them; says where was looked.
    records_missing: Option<String>,
    recent: VecDeque<Mono>,
    waiting: BTreeSet<LeaseId>,
}

/// Answer of the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Go on.
    Granted,
    /// Wait for a release.
    Held,
    /// Wait for a release; it tripped just now, at so many within the window.
    Tripped(u32),
}

impl Breaker {
    /// As it was before the restart.
    #[must_use]
    pub const fn new(tripped: bool) -> Self {
        Self {
            tripped,
            opens: None,
            records_missing: None,
            recent: VecDeque::new(),
            waiting: BTreeSet::new(),
        }
    }

    /// How many pass within the window with so many leases.
    #[must_use]
    pub fn allowed(config: &Config, leases: usize) -> u32 {
        let leases = u64::try_from(leases).unwrap_or(u64::MAX);
        let share = leases.saturating_mul(u64::from(config.breaker_percent)) / 100;
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        share.min(config.breaker_ceiling).max(config.breaker_floor)
    }

    /// Asks for one lease.
    ///
    /// In the first minutes after a start only the workload of a lease that the chain shows to be over (`is_over`)
    /// may go.
    pub fn ask(&mut self, config: &Config, now: Mono, leases: usize, lease: &LeaseId, is_over: bool) -> Pass {
        self.forget_old(config, now);
        if self.is_held() || (self.is_early(now) && !is_over) {
            self.waiting.insert(lease.clone());
            return Pass::Held;
        }
        let recent = self.recent_count();
        if recent >= Self::allowed(config, leases) {
            self.tripped = true;
            self.waiting.insert(lease.clone());
            return Pass::Tripped(recent.saturating_add(1));
        }
        self.recent.push_back(now);
        Pass::Granted
    }

    /// Until a release, or until a record is found.
    const fn is_held(&self) -> bool {
        self.tripped || self.records_missing.is_some()
    }

    fn is_early(&self, now: Mono) -> bool {
        self.opens.is_none_or(|at| now < at)
    }

    /// True when the first minutes end after `before` and not after `now`.
    #[must_use]
    pub fn opens_within(&self, before: Mono, now: Mono) -> bool {
        self.opens.is_some_and(|at| before < at && at <= now)
    }

    /// Chain and cluster are known: the first minutes count from here.
    pub fn start(&mut self, config: &Config, now: Mono) {
        self.opens.get_or_insert_with(|| now.plus(config.breaker_warmup));
    }

    /// There are leases, and no record of any of them where was looked; until one is found, or a release.
    pub fn miss_records(&mut self, place: String) {
        self.records_missing = Some(place);
    }

    /// A record was found after all; false when none was missed.
    pub fn find_records(&mut self) -> bool {
        self.records_missing.take().is_some()
    }

    /// Where no record of any lease was found; `None` when that is not so.
    #[must_use]
    pub fn records_missing(&self) -> Option<&str> {
        self.records_missing.as_deref()
    }

    /// Those that asked while it was shut and may ask again: it is open, and nobody has to release it.
    pub fn take_due(&mut self, now: Mono) -> Vec<LeaseId> {
        if self.is_held() || self.is_early(now) {
            return Vec::new();
        }
        std::mem::take(&mut self.waiting).into_iter().collect()
    }

    /// When those that wait may ask again by themselves.
    #[must_use]
    pub fn deadline(&self) -> Option<Mono> {
        let by_itself = !self.is_held() && !self.waiting.is_empty();
        self.opens.filter(|_| by_itself)
    }

    /// Why nothing passes, for people; `None` when it is open.
    #[must_use]
    pub fn shut_because(&self, now: Mono) -> Option<String> {
        if self.tripped {
            return Some("more ends were wanted than the circuit breaker lets pass; release it".to_owned());
        }
        if let Some(place) = &self.records_missing {
            return Some(format!(
                "no record of any lease was found in {place}; look there, or release the circuit breaker"
            ));
        }
        self.is_early(now)
            .then(|| "no lease is ended in the first minutes after a start".to_owned())
    }

    /// Takes a question back.
    pub fn cancel(&mut self, lease: &LeaseId) {
        self.waiting.remove(lease);
    }

    /// Releases it by command; returns those that waited, which pass now.
    pub fn release(&mut self) -> Vec<LeaseId> {
        self.tripped = false;
        self.records_missing = None;
        self.opens = Some(Mono(0));
        self.recent.clear();
        std::mem::take(&mut self.waiting).into_iter().collect()
    }

    /// True until released.
    #[must_use]
    pub const fn is_tripped(&self) -> bool {
        self.tripped
    }

    /// Those that passed within the window.
    #[must_use]
    pub fn recent_count(&self) -> u32 {
        u32::try_from(self.recent.len()).unwrap_or(u32::MAX)
    }

    /// Those that wait.
    pub fn waiting(&self) -> impl Iterator<Item = &LeaseId> {
        self.waiting.iter()
    }

    fn forget_old(&mut self, config: &Config, now: Mono) {
        while self
            .recent
            .front()
            .is_some_and(|at| now.since(*at) >= config.breaker_window)
        {
            self.recent.pop_front();
        }
    }
}
