//! The circuit breaker on what we destroy by our own decision: closes of leases, and teardowns that only a
//! scan asked for. A lease closed by the chain's own event never passes here.

use crate::config::Config;
use crate::types::{LeaseId, Mono};
use std::collections::{BTreeSet, VecDeque};

/// The breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breaker {
    tripped: bool,
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
            recent: VecDeque::new(),
            waiting: BTreeSet::new(),
        }
    }

    /// How many pass within the window with so many leases.
    #[must_use]
    pub fn allowed(config: &Config, leases: usize) -> u32 {
        let leases = u64::try_from(leases).unwrap_or(u64::MAX);
        let share = leases.saturating_mul(u64::from(config.breaker_percent)) / 100;
        config.breaker_floor.max(u32::try_from(share).unwrap_or(u32::MAX))
    }

    /// Asks for one lease.
    pub fn ask(&mut self, config: &Config, now: Mono, leases: usize, lease: &LeaseId) -> Pass {
        self.forget_old(config, now);
        if self.tripped {
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

    /// Takes a question back.
    pub fn cancel(&mut self, lease: &LeaseId) {
        self.waiting.remove(lease);
    }

    /// Releases it by command; returns those that waited, which pass now.
    pub fn release(&mut self) -> Vec<LeaseId> {
        self.tripped = false;
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
