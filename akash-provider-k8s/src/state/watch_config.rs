//! How eagerly watches are kept up.

use backon::ExponentialBuilder;
use kube::core::Status;
use kube::runtime::watcher::ExponentialBackoff;
use std::time::Duration;

/// No server makes us wait longer than this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// A server that is overloaded and does not say for how long.
const OVERLOADED: Duration = Duration::from_secs(1);

/// How eagerly watches are kept up. [`WatchConfig::default`] is right for a real cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchConfig {
    /// Most objects of one answer to a list.
    pub page_size: u32,
    /// Limit of one page of a list.
    pub list_timeout: Duration,
    /// Limit until a watch begins.
    pub start_timeout: Duration,
    /// The server ends a watch after so many seconds; below 295.
    pub watch_seconds: u32,
    /// A watch that says nothing, not even a bookmark, for so long may be dead; it is begun anew. Bookmarks come once
    /// a minute, and API servers leave one out now and then, so that a watch that is well is quiet for two minutes.
    pub idle: Duration,
    /// A watch that stood for so long, or said something, works.
    pub proof: Duration,
    /// A watch that stood for so long ends the back-off.
    pub steady: Duration,
    /// First wait after a failure; it doubles each time, and jitter adds up to as much again.
    pub wait_first: Duration,
    /// Longest wait after a failure, without its jitter.
    pub wait_max: Duration,
    /// First wait for a kind that the cluster does not have.
    pub wait_absent: Duration,
    /// Longest wait for a kind that a cluster may go without; it doubles until then.
    pub wait_absent_max: Duration,
    /// Nobody is told of a watch that is down for less.
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
    pub(crate) fn back_off(&self) -> ExponentialBackoff {
        let builder = ExponentialBuilder::default()
            .with_min_delay(self.wait_first)
            .with_max_delay(self.wait_max)
            .with_factor(2.0)
            .with_jitter()
            .without_max_times();
        builder.into()
    }

    /// The wait for a kind that is not there, after so many answers in a row that say so.
    pub(crate) fn absent(&self, answers: u32, may_be_absent: bool) -> Duration {
        if !may_be_absent {
            return self.wait_absent;
        }
        // Most clusters that lack it will lack it tomorrow. More doublings than these are past every wait.
        let doublings = answers.saturating_sub(1).min(16);
        let most = self.wait_absent_max.max(self.wait_absent);
        self.wait_absent.saturating_mul(1 << doublings).min(most)
    }
}

/// How long the server wants us to wait, as far as it says.
pub(crate) fn asked_to_wait(status: &Status) -> Option<Duration> {
    let said = status.details.as_ref().map_or(0, |d| d.retry_after_seconds);
    if said > 0 {
        return Some(Duration::from_secs(said.into()).min(RETRY_AFTER_MAX));
    }
    (status.code == 429).then_some(OVERLOADED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::response::StatusDetails;

    #[test]
    fn the_server_is_taken_at_its_word_within_reason() {
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
        for (code, said, wanted) in cases {
            let mut status = Status::failure("busy", "TooManyRequests").with_code(code);
            status.details = said.map(details);
            let wanted = wanted.map(Duration::from_secs);
            assert_eq!(asked_to_wait(&status), wanted, "{code} {said:?}");
        }
    }

    #[test]
    fn waits_grow_to_their_cap_and_differ() {
        let watch_config = WatchConfig::default();
        let waits: Vec<_> = watch_config.back_off().take(12).collect();
        assert!(waits.iter().all(|w| *w >= watch_config.wait_first), "{waits:?}");
        // Jitter at most doubles a wait.
        let most = watch_config.wait_max * 2;
        assert!(waits.iter().all(|w| *w <= most), "{waits:?}");
        assert!(waits.last() > waits.first(), "{waits:?}");
        let again: Vec<_> = watch_config.back_off().take(12).collect();
        assert_ne!(waits, again, "two clients do not move in step");
    }

    #[test]
    fn a_kind_that_a_cluster_may_lack_is_asked_for_ever_more_seldom() {
        let config = WatchConfig::default();
        let waits = |may| [1, 2, 5, 6, 1_000].map(|answers| config.absent(answers, may).as_secs());
        assert_eq!(waits(true), [30, 60, 480, 600, 600]);
        assert_eq!(waits(false), [30; 5], "somebody waits for it");
    }
}
