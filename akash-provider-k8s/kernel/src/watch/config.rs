//! Timing of the watches.

use backon::ExponentialBuilder;
use kube::core::Status;
use kube::runtime::watcher::ExponentialBackoff;
use std::time::Duration;

/// Maximum retry delay that is accepted from the server.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// Delay after HTTP status 429 if the server requests no delay.
const OVERLOADED: Duration = Duration::from_secs(1);

/// Timing of the watches, by default suitable for a real cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchConfig {
    /// Maximum number of objects per page of a list.
    pub page_size: u32,
    /// Maximum duration of one page of a list.
    pub list_timeout: Duration,
    /// Maximum time from a watch request until its response starts.
    pub start_timeout: Duration,
    /// Duration of a watch in seconds, below 295. The server ends the watch.
    pub watch_seconds: u32,
    /// Idle time after which a watch without events and bookmarks is restarted. A working watch may be quiet
    /// for two minutes.
    pub idle: Duration,
    /// Time without a failure after which a new watch counts as working, even if no event has arrived.
    pub proof: Duration,
    /// If a watch runs for at least this duration, the back-off is reset.
    pub steady: Duration,
    /// First back-off after a failure. The back-off doubles with each failure; jitter can double it once
    /// more.
    pub wait_first: Duration,
    /// Maximum back-off after a failure, without jitter.
    pub wait_max: Duration,
    /// First delay of a retry for a missing kind.
    pub wait_absent: Duration,
    /// Maximum delay of a retry for an optional kind. The delay doubles with each retry.
    pub wait_absent_max: Duration,
    /// Duration of an outage before health becomes unknown.
    pub grace: Duration,
}

impl Default for WatchConfig {
    fn default() -> Self {
        Self {
            page_size: 500,
            list_timeout: Duration::from_secs(30),
            start_timeout: Duration::from_secs(10),
            watch_seconds: 290,
            idle: Duration::from_secs(130),
            proof: Duration::from_secs(1),
            steady: Duration::from_secs(10),
            wait_first: Duration::from_millis(250),
            wait_max: Duration::from_secs(10),
            wait_absent: Duration::from_secs(30),
            wait_absent_max: Duration::from_secs(600),
            grace: Duration::from_secs(10),
        }
    }
}

impl WatchConfig {
    pub(super) fn back_off(&self) -> ExponentialBackoff {
        let builder = ExponentialBuilder::default()
            .with_min_delay(self.wait_first)
            .with_max_delay(self.wait_max)
            .with_factor(2.0)
            .with_jitter()
            .without_max_times();
        builder.into()
    }

    /// Returns the delay before the next attempt for a missing kind, after `answers` consecutive responses
    /// without this kind.
    pub(super) fn absent(&self, answers: u32, may_be_absent: bool) -> Duration {
        if !may_be_absent {
            return self.wait_absent;
        }
        // Most clusters never get the kind. More doublings exceed every delay.
        let doublings = answers.saturating_sub(1).min(16);
        let most = self.wait_absent_max.max(self.wait_absent);
        self.wait_absent.saturating_mul(1 << doublings).min(most)
    }
}

/// Returns the delay that the server requests, if any.
pub fn asked_to_wait(status: &Status) -> Option<Duration> {
    let requested = status.details.as_ref().map_or(0, |d| d.retry_after_seconds);
    if requested > 0 {
        return Some(Duration::from_secs(requested.into()).min(RETRY_AFTER_MAX));
    }
    (status.code == 429).then_some(OVERLOADED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::response::StatusDetails;

    #[test]
    fn delay_of_the_server_is_used_within_limits() {
        let details = |seconds| StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: seconds,
        };
        let cases = [
            (429, Some(7), Some(7)),
            (503, Some(2), Some(2)),
            (429, Some(86_400), Some(60)),
            (429, None, Some(1)),
            (503, None, None),
            (410, None, None),
        ];
        for (code, requested, wanted) in cases {
            let mut status = Status::failure("busy", "TooManyRequests").with_code(code);
            status.details = requested.map(details);
            let wanted = wanted.map(Duration::from_secs);
            assert_eq!(asked_to_wait(&status), wanted, "{code} {requested:?}");
        }
    }

    #[test]
    fn back_off_grows_to_its_limit_with_jitter() {
        let watch_config = WatchConfig::default();
        let waits: Vec<_> = watch_config.back_off().take(12).collect();
        assert!(waits.iter().all(|w| *w >= watch_config.wait_first), "{waits:?}");
        // Jitter at most doubles a delay.
        let most = watch_config.wait_max * 2;
        assert!(waits.iter().all(|w| *w <= most), "{waits:?}");
        assert!(waits.last() > waits.first(), "{waits:?}");
        let again: Vec<_> = watch_config.back_off().take(12).collect();
        assert_ne!(waits, again, "the jitter of two clients differs");
    }

    #[test]
    fn optional_missing_kind_is_retried_with_back_off() {
        let config = WatchConfig::default();
        let waits = |may| [1, 2, 5, 6, 1_000].map(|answers| config.absent(answers, may).as_secs());
        assert_eq!(waits(true), [30, 60, 480, 600, 600]);
        assert_eq!(waits(false), [30; 5], "required kind");
    }
}
