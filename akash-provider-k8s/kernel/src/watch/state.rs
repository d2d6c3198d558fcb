//! State of one watch.

use std::time::Duration;
use tokio::time::Instant;

/// State of one watch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchState {
    /// All objects have been listed at least once.
    pub synced: bool,
    /// Time at which the watch stopped working; `None` while the watch works, and before its start.
    pub down_since: Option<Instant>,
    /// Missing kind for which the watch waits.
    pub awaited: Option<String>,
    /// Last error, retained after the watch works again.
    pub last_error: Option<String>,
    /// Number of complete lists.
    pub lists: u64,
    /// Number of watch requests.
    pub starts: u64,
    /// Number of failures.
    pub failures: u64,
}

impl WatchState {
    /// Returns the duration of the current outage.
    #[must_use]
    pub fn down_for(&self) -> Option<Duration> {
        self.down_since.map(|since| since.elapsed())
    }

    /// Records a complete list.
    pub fn listed(&mut self) {
        self.lists += 1;
        self.synced = true;
        self.down_since = None;
        self.awaited = None;
    }

    /// Records a failure of the watch. The failure started at `since` or earlier. Returns true if the watch
    /// worked before.
    pub fn failed(&mut self, error: String, since: Instant) -> bool {
        let is_new = self.down_since.is_none();
        self.failures += 1;
        self.last_error = Some(error);
        self.down_since.get_or_insert(since);
        is_new
    }
}
