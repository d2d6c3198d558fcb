//! Health of an endpoint.

use super::Versions;
use crate::checkpoint::{BLOCK_MIN_MS, BURST, Checkpoint};
use crate::fault::Fault;
use crate::repeated::Repeated;
use akash_provider_core::types::Height;
use std::time::Duration;
use tokio::time::Instant;

/// Back-off after the first failure, doubled after each further failure.
const COOL_DOWN_MIN: Duration = Duration::from_secs(1);
/// Maximum back-off without jitter. The jitter adds 0 to 40 % of the back-off.
const COOL_DOWN_MAX: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Default)]
pub(crate) struct EndpointHealth {
    /// Time of the last health check.
    pub(crate) checked: Option<Instant>,
    /// Newest height that the endpoint has reported.
    pub(crate) height: Height,
    /// Time at which the endpoint first reported `height`.
    pub(crate) height_at: Option<Instant>,
    /// Newest block in the last status response.
    pub(crate) tip: Checkpoint,
    /// Time by which the newest block is ahead of the local clock, in ms. `None` before the first status
    /// response.
    pub(crate) ahead: Option<i64>,
    /// Smoothed response time.
    pub(crate) latency: Option<Duration>,
    /// Number of failures since the last successful health check.
    pub(crate) failures: u32,
    /// End of the back-off. `None` if the endpoint is healthy.
    pub(crate) retry_at: Option<Instant>,
    /// A health check is due, because the last response was malformed.
    pub(crate) is_check_requested: bool,
    /// Reason why the endpoint is not used.
    pub(crate) fault: Option<Fault>,
    /// Rate limit for the logged warnings about this endpoint.
    pub(crate) warnings: Repeated,
    /// API versions of the node, queried again after each failure.
    pub(crate) versions: Option<Versions>,
}

impl EndpointHealth {
    /// Records the height and the response time of a response.
    pub(crate) fn record_response(&mut self, took: Duration, height: Height) {
        if height > self.height {
            self.height = height;
            self.height_at = Some(Instant::now());
        }
        // Smoothed, so that one slow response does not cause a switch to another node.
        self.latency = Some(self.latency.map_or(took, |old| (old * 7 + took) / 8));
    }

    /// Records the newest block of a status response. The recorded height may decrease, because a node can be
    /// reset.
    pub(crate) fn record_tip(&mut self, tip: Checkpoint) {
        self.tip = tip;
        self.height = tip.height;
        self.height_at = Some(Instant::now());
    }

    /// Calculates the maximum plausible height of a query response from the last known height and its age.
    pub(crate) fn max_height(&self) -> Height {
        let Some(at) = self.height_at else {
            return Height::MAX;
        };
        let passed = u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.height.saturating_add(passed / BLOCK_MIN_MS + BURST)
    }

    /// Records a successful health check and ends the back-off.
    pub(crate) fn record_success(&mut self, now: Instant) {
        self.checked = Some(now);
        self.is_check_requested = false;
        self.failures = 0;
        self.retry_at = None;
        self.fault = None;
    }

    /// Records a failure of the endpoint and starts a back-off. `jitter` determines the random part of the
    /// back-off.
    pub(crate) fn record_failure(&mut self, now: Instant, fault: Fault, jitter: u32) {
        self.is_check_requested = false;
        // Limits the shift. Six doublings exceed the maximum back-off.
        let doubled = COOL_DOWN_MIN.saturating_mul(1 << self.failures.min(6));
        let wait = doubled.min(COOL_DOWN_MAX);
        self.failures = self.failures.saturating_add(1);
        self.checked = Some(now);
        self.retry_at = Some(now + wait + wait / 10 * (jitter % 5));
        // The difference to the clock varies with the age of the newest block, so the first fault stays.
        if !matches!(
            (&self.fault, &fault),
            (Some(Fault::Ahead { .. }), Fault::Ahead { .. })
        ) {
            self.fault = Some(fault);
        }
        // The node may return with another version.
        self.versions = None;
    }

    /// Returns true if the last health check was successful and no failure followed.
    pub(crate) const fn is_usable(&self) -> bool {
        self.fault.is_none() && self.checked.is_some()
    }

    /// Returns true if a health check is due.
    pub(crate) fn is_due(&self, now: Instant, age: Duration) -> bool {
        match (self.checked, self.retry_at) {
            (None, _) => true,
            (Some(_), Some(retry_at)) => now >= retry_at,
            (Some(checked), None) => self.is_check_requested || now.duration_since(checked) >= age,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn back_off_grows_up_to_its_maximum() {
        let mut health = EndpointHealth::default();
        let now = Instant::now();
        assert!(health.is_due(now, Duration::from_secs(20)));
        let mut last = Duration::ZERO;
        for _ in 0..10 {
            health.record_failure(now, Fault::Timeout(Duration::from_secs(1)), 0);
            let wait = health.retry_at.unwrap() - now;
            assert!(wait >= last && wait <= COOL_DOWN_MAX, "{wait:?}");
            assert!(!health.is_due(now, Duration::ZERO) && !health.is_usable());
            last = wait;
        }
        assert_eq!(last, COOL_DOWN_MAX);
        health.record_success(now);
        assert!(health.is_usable() && !health.is_due(now, Duration::from_secs(20)));
    }
}
