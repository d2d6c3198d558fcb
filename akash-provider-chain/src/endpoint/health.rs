//! How well an endpoint does.

use super::Versions;
use crate::checkpoint::{BLOCK_MIN_MS, BURST, Checkpoint};
use crate::fault::Fault;
use crate::repeated::Repeated;
use akash_provider_core::types::Height;
use std::time::Duration;
use tokio::time::Instant;

/// First wait after a failure; it doubles with each further one.
const COOL_DOWN_MIN: Duration = Duration::from_secs(1);
/// Longest wait, before a spread of up to two fifths is added.
const COOL_DOWN_MAX: Duration = Duration::from_secs(60);

/// What is known about an endpoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct Health {
    /// When it was last asked about itself.
    pub(crate) checked: Option<Instant>,
    /// Newest height seen from it.
    pub(crate) height: Height,
    /// When that height was first seen.
    pub(crate) height_at: Option<Instant>,
    /// The newest block that its last status named.
    pub(crate) tip: Checkpoint,
    /// Time in ms that this block is ahead of the local clock; `None` where the last status could not be read.
    pub(crate) ahead: Option<i64>,
    /// Smoothed time of an answer.
    pub(crate) latency: Option<Duration>,
    /// Failures since the last answer.
    pub(crate) failures: u32,
    /// Not asked before this moment; `None` while it is well.
    pub(crate) retry_at: Option<Instant>,
    /// It answered badly; to be asked about itself before long.
    pub(crate) is_doubted: bool,
    /// Why it is not asked.
    pub(crate) fault: Option<Fault>,
    /// Warnings that it cannot be used.
    pub(crate) warnings: Repeated,
    /// What it serves; asked again after every outage.
    pub(crate) versions: Option<Versions>,
}

impl Health {
    /// It answered. The height only rises here; the latency takes one eighth of the new value.
    pub(crate) fn answered(&mut self, took: Duration, height: Height) {
        if height > self.height {
            self.height = height;
            self.height_at = Some(Instant::now());
        }
        // Smoothed, so that one slow answer does not make another node the faster one.
        self.latency = Some(self.latency.map_or(took, |old| (old * 7 + took) / 8));
    }

    /// Its status named this block; a node that was reset to an older state names a lower one.
    pub(crate) fn named(&mut self, tip: Checkpoint) {
        self.tip = tip;
        self.height = tip.height;
        self.height_at = Some(Instant::now());
    }

    /// Greatest height of an accepted response: its status is checked by the clock, a query names no time.
    pub(crate) fn ceiling(&self) -> Height {
        let Some(at) = self.height_at else {
            return Height::MAX;
        };
        let passed = u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.height.saturating_add(passed / BLOCK_MIN_MS + BURST)
    }

    /// It was asked about itself and is well: failures, doubts and the wait are forgotten.
    pub(crate) fn is_well(&mut self, now: Instant) {
        self.checked = Some(now);
        self.is_doubted = false;
        self.failures = 0;
        self.retry_at = None;
        self.fault = None;
    }

    /// It failed; the wait grows with each failure and is shifted by `spread` so that several endpoints do not
    /// come back at the same moment.
    pub(crate) fn failed(&mut self, now: Instant, fault: Fault, spread: u32) {
        self.is_doubted = false;
        // Six doublings are past the longest wait; more would overflow the shift.
        let doubled = COOL_DOWN_MIN.saturating_mul(1 << self.failures.min(6));
        let wait = doubled.min(COOL_DOWN_MAX);
        self.failures = self.failures.saturating_add(1);
        self.checked = Some(now);
        self.retry_at = Some(now + wait + wait / 10 * (spread % 5));
        // The difference varies with the age of the newest block, so the first one is reported.
        if !matches!(
            (&self.fault, &fault),
            (Some(Fault::Ahead { .. }), Fault::Ahead { .. })
        ) {
            self.fault = Some(fault);
        }
        // It may come back upgraded.
        self.versions = None;
    }

    /// May be asked: it was looked at, and nothing is held against it.
    pub(crate) const fn is_good(&self) -> bool {
        self.fault.is_none() && self.checked.is_some()
    }

    /// To be asked about itself.
    pub(crate) fn is_due(&self, now: Instant, age: Duration) -> bool {
        match (self.checked, self.retry_at) {
            (None, _) => true,
            (Some(_), Some(retry_at)) => now >= retry_at,
            (Some(checked), None) => self.is_doubted || now.duration_since(checked) >= age,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_grow_and_end() {
        let mut health = Health::default();
        let now = Instant::now();
        assert!(health.is_due(now, Duration::from_secs(20)));
        let mut last = Duration::ZERO;
        for _ in 0..10 {
            health.failed(now, Fault::Timeout(Duration::from_secs(1)), 0);
            let wait = health.retry_at.unwrap() - now;
            assert!(wait >= last && wait <= COOL_DOWN_MAX, "{wait:?}");
            assert!(!health.is_due(now, Duration::ZERO) && !health.is_good());
            last = wait;
        }
        assert_eq!(last, COOL_DOWN_MAX);
        health.is_well(now);
        assert!(health.is_good() && !health.is_due(now, Duration::from_secs(20)));
    }
}
