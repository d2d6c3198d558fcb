//! Work queue of an operator: the queue of the kernel, with a back-off for failed names, an ignore list, and a back-off
//! for writes that another client reverts. A name is the key of the objects that are written together: a hostname, a
//! Service or a node. The queue is pure; the time is an argument.
//!
//! ```text
//! changed ─► ready ─► running ─┬─ done ─► removed
//!    ▲         ▲               └─ failed ─┬─► waiting ── back-off ─► ready
//!    │         └────── its age, or limit ─┴─► ignored (refused too often)
//!    └───────────── a change, or "forget" ◄──┘
//! ```

use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_kube_kernel::work_queue::WorkQueue;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum back-off after a failure. After an outage of the API server, no write is delayed longer.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// Age at which a write counts as stable. If another client reverts a stable write, the operator repairs the
/// objects immediately.
const STABLE_AFTER: Duration = Duration::from_secs(600);

/// Back-off after failures, and limits of the ignore list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// First back-off after a failure; doubles up to five minutes (`--retry-delay`).
    pub retry_delay: Duration,
    /// Limit of consecutive refusals by the API server. At this limit, the name is ignored
    /// (`--event-failure-limit`).
    pub refusals: u32,
    /// Maximum number of ignored names (`--ignore-list-entry-limit`). Above this number, the name that was
    /// ignored first is tried again.
    pub ignored: usize,
    /// Maximum time a name is ignored (`--ignore-list-age-limit`).
    pub ignored_for: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            retry_delay: Duration::from_secs(3),
            refusals: 3,
            ignored: 131_072,
            ignored_for: Duration::from_secs(726 * 3600),
        }
    }
}

/// State of a name after a failed write of its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RetryState {
    /// Number of consecutive failures of any kind.
    pub failures: u32,
    /// Number of consecutive refusals by the API server.
    pub refusals: u32,
    /// Message of the last error.
    pub error: String,
    /// Kind of the last error. Only the kind `Invalid` counts as a refusal.
    pub kind: ErrorKind,
    /// Time of the last failure.
    pub at: Instant,
    /// Time of the next attempt, unless an event for this name causes an earlier attempt.
    pub due: Instant,
    /// The name is on the ignore list.
    pub is_ignored: bool,
}

/// Last successful write of a name. Repetition of the same write shows that another client reverts the
/// object.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LastWrite {
    hash: String,
    at: Instant,
    times: u32,
}

/// Number of names in a work queue, by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueDepth {
    /// Number of names that wait for a free writer.
    pub ready: usize,
    /// Number of names with a running write.
    pub running: usize,
    /// Number of failed names that wait for their next attempt.
    pub waiting: usize,
    /// Number of names on the ignore list.
    pub ignored: usize,
}

/// Work queue of names (hostnames, Services or nodes).
#[derive(Debug, Default)]
pub(crate) struct Queue {
    patience: RetryPolicy,
    /// Names with pending work. The reminders are retries, and times from [`Queue::remind`].
    work: WorkQueue<String>,
    failed: BTreeMap<String, RetryState>,
    written: BTreeMap<String, LastWrite>,
}

impl Queue {
    /// Creates an empty queue.
    pub(crate) fn new(patience: RetryPolicy) -> Self {
        Self {
            patience,
            ..Self::default()
        }
    }

    /// Queues changed names immediately, even during their back-off.
    pub(crate) fn changed(&mut self, names: impl IntoIterator<Item = String>) {
        for name in names {
            if let Some(failed) = self.failed.get_mut(&name) {
                // The changed object may be refused for another reason, so its refusals are counted from 0.
                failed.is_ignored = false;
                failed.refusals = 0;
            }
            self.work.push(name);
        }
    }

    /// Queues the failed names that match `is_meant`, without back-off. Returns the number of these names.
    pub(crate) fn forget(&mut self, is_meant: impl Fn(&str) -> bool) -> usize {
        let meant: Vec<String> = self
            .failed
            .keys()
            .filter(|name| is_meant(name))
            .cloned()
            .collect();
        for name in &meant {
            self.failed.remove(name);
            self.written.remove(name);
            self.work.push(name.clone());
        }
        meant.len()
    }

    /// Moves all names in progress back to the queue. Called after the writer has stopped.
    pub(crate) fn restart(&mut self) {
        self.work.restart();
    }

    /// Returns the next name. The name is in progress until [`Queue::done`], [`Queue::failed`] or [`Queue::rest`].
    pub(crate) fn next(&mut self, now: Instant) -> Option<String> {
        self.work.next(now)
    }

    /// Queues a name at the time `at`.
    pub(crate) fn remind(&mut self, name: &str, at: Instant) {
        self.work.remind(name.to_owned(), at);
    }

    /// Returns the earliest time at which a name is due, because of a reminder or a retry.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.work.due()
    }

    /// Marks the work on a name as done, although nothing was written. Clears an earlier failure of the name.
    pub(crate) fn rest(&mut self, name: &str) {
        self.work.finish(name);
        self.failed.remove(name);
    }

    /// Returns true if an object may be written now. Returns false for some time after another client has
    /// reverted the same write.
    pub(crate) fn may_write(&mut self, name: &str, hash: &str, now: Instant) -> bool {
        let Some(written) = self.written.get(name).filter(|written| written.hash == hash) else {
            return true;
        };
        let due = written.at + wait(self.patience.retry_delay, written.times);
        if now >= due || now >= written.at + STABLE_AFTER {
            return true;
        }
        let failures = written.times;
        self.work.finish(name);
        let failed = RetryState {
            failures,
            refusals: 0,
            error: "another client reverts the object; find that client and stop its writes".to_owned(),
            kind: ErrorKind::Conflict,
            at: now,
            due,
            is_ignored: false,
        };
        self.fail(name, failed);
        false
    }

    /// Records that the work on a name succeeded. `hash` identifies the written objects.
    pub(crate) fn done(&mut self, name: &str, hash: Option<String>, now: Instant) {
        self.rest(name);
        let Some(hash) = hash else {
            self.written.remove(name);
            return;
        };
        let before = self.written.get(name).filter(|written| written.hash == hash);
        let times = before
            .filter(|written| now < written.at + STABLE_AFTER)
            .map_or(1, |written| written.times + 1);
        self.written
            .insert(name.to_owned(), LastWrite { hash, at: now, times });
    }

    /// Records that the work on a name failed, and schedules the next attempt.
    pub(crate) fn failed(&mut self, name: &str, error: &Error, now: Instant) {
        self.work.finish(name);
        let before = self.failed.get(name);
        let failures = before.map_or(0, |before| before.failures) + 1;
        // Only an invalid object stays refused: a namespace, a permission or a server may still appear.
        let is_refusal = error.kind() == ErrorKind::Invalid && !error.is_transient();
        let refusals = before.map_or(0, |before| before.refusals) + u32::from(is_refusal);
        let is_ignored = is_refusal && refusals >= self.patience.refusals;
        let wait = if is_ignored {
            self.patience.ignored_for
        } else {
            wait(self.patience.retry_delay, failures)
        };
        let failed = RetryState {
            failures,
            refusals,
            error: error.message().to_owned(),
            kind: error.kind(),
            at: now,
            due: now + wait,
            is_ignored,
        };
        self.fail(name, failed);
        if is_ignored {
            self.make_room(name);
        }
    }

    /// Removes the state of each name for which `is_there` returns false.
    pub(crate) fn prune(&mut self, is_there: impl Fn(&str) -> bool) {
        self.written.retain(|name, _| is_there(name));
        self.failed.retain(|name, _| is_there(name));
        self.work.retain_reminders(|name| is_there(name));
    }

    /// Returns the failure of the last attempt, or `None` if this attempt succeeded.
    pub(crate) fn failure(&self, name: &str) -> Option<&RetryState> {
        self.failed.get(name)
    }

    /// Returns all names for which the last attempt failed.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (&String, &RetryState)> {
        self.failed.iter()
    }

    /// Returns the number of names in each state. A failed name that was queued again counts as ready or
    /// running.
    pub(crate) fn depth(&self) -> QueueDepth {
        let resting = self.failed.iter().filter(|(name, _)| !self.is_busy(name));
        let (ignored, waiting): (Vec<_>, Vec<_>) = resting.partition(|(_, failed)| failed.is_ignored);
        QueueDepth {
            ready: self.work.ready(),
            running: self.work.running(),
            waiting: waiting.len(),
            ignored: ignored.len(),
        }
    }

    /// Returns the number of queued and running names.
    pub(crate) fn busy(&self) -> usize {
        self.work.ready() + self.work.running()
    }

    /// Returns true for a queued or running name.
    pub(crate) fn is_busy(&self, name: &str) -> bool {
        self.work.is_busy(name)
    }

    fn fail(&mut self, name: &str, failed: RetryState) {
        self.work.remind(name.to_owned(), failed.due);
        self.failed.insert(name.to_owned(), failed);
    }

    /// If too many names are ignored, queues the name that was ignored first. Never queues `newest`.
    fn make_room(&mut self, newest: &str) {
        let ignored = self.failed.iter().filter(|(_, failed)| failed.is_ignored);
        let ignored: Vec<_> = ignored.map(|(name, failed)| (failed.at, name.clone())).collect();
        if ignored.len() > self.patience.ignored
            && let Some((_, oldest)) = ignored.into_iter().filter(|(_, name)| name != newest).min()
        {
            self.failed.remove(&oldest);
            self.work.push(oldest);
        }
    }
}

/// Returns the back-off after a number of consecutive failures.
fn wait(first: Duration, failures: u32) -> Duration {
    // More doublings exceed every back-off.
    let doubled = 1u32
        .checked_shl(failures.saturating_sub(1).min(16))
        .unwrap_or(u32::MAX);
    first.saturating_mul(doubled).min(WAIT_MAX.max(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal() -> Error {
        Error::new(ErrorKind::Invalid, "route", "no such annotation")
    }

    fn outage() -> Error {
        Error::new(ErrorKind::Unavailable, "route", "connection refused")
    }

    const A: &str = "a.example.com";
    const B: &str = "b.example.com";

    fn queue(names: &[&str]) -> Queue {
        let mut queue = Queue::new(RetryPolicy::default());
        queue.changed(names.iter().map(|&name| name.to_owned()));
        queue
    }

    #[test]
    fn failed_name_backs_off_without_delaying_other_names() {
        let (mut queue, start) = (queue(&[A, B]), Instant::now());
        let mut now = start;
        let mut waits = Vec::new();
        for _ in 0..9 {
            assert_eq!(queue.next(now).as_deref(), Some(A));
            queue.failed(A, &outage(), now);
            if queue.is_busy(B) {
                assert_eq!(queue.next(now).as_deref(), Some(B), "the other name runs at once");
                queue.done(B, Some("1".to_owned()), now);
            }
            assert_eq!(queue.next(now), None);
            let due = queue.due().unwrap();
            waits.push((due - now).as_secs());
            now = due;
        }
        assert_eq!(waits, [3, 6, 12, 24, 48, 96, 192, 300, 300]);
        assert!(
            !queue.failure(A).unwrap().is_ignored,
            "an outage is not a refusal"
        );
        assert_eq!(queue.next(now).as_deref(), Some(A));
        queue.done(A, None, now);
        assert!(queue.failure(A).is_none() && queue.due().is_none());
    }

    #[test]
    fn depth_counts_each_name_in_its_state() {
        const C: &str = "c.example.com";
        let (mut queue, now) = (queue(&[A, B, C]), Instant::now());
        let depth = |ready, running, waiting, ignored| QueueDepth {
            ready,
            running,
            waiting,
            ignored,
        };
        assert_eq!(queue.depth(), depth(3, 0, 0, 0));
        queue.next(now);
        queue.next(now);
        assert_eq!(queue.depth(), depth(1, 2, 0, 0));
        queue.failed(A, &outage(), now);
        assert_eq!(queue.depth(), depth(1, 1, 1, 0));
        for _ in 0..RetryPolicy::default().refusals {
            queue.failed(B, &refusal(), now);
        }
        assert_eq!(queue.depth(), depth(1, 0, 1, 1));
        queue.changed([A.to_owned()]);
        assert_eq!(queue.depth(), depth(2, 0, 0, 1), "a change ends the back-off");
    }

    #[test]
    fn refused_name_is_ignored_until_it_changes_expires_or_is_retried() {
        let ignored = || {
            let (mut queue, mut now) = (queue(&[A]), Instant::now());
            for _ in 0..3 {
                assert_eq!(queue.next(now).as_deref(), Some(A));
                queue.failed(A, &refusal(), now);
                now += Duration::from_secs(60);
            }
            assert!(queue.failure(A).unwrap().is_ignored);
            assert_eq!(queue.next(now + Duration::from_secs(3600)), None);
            (queue, now)
        };
        let (mut changed, now) = ignored();
        changed.changed([A.to_owned()]);
        assert_eq!(changed.next(now).as_deref(), Some(A));
        changed.failed(A, &refusal(), now);
        assert!(
            !changed.failure(A).unwrap().is_ignored,
            "refusals are counted from 0"
        );
        let (mut forgotten, now) = ignored();
        assert_eq!(forgotten.forget(|name| name == B), 0);
        assert_eq!(forgotten.forget(|name| name == A), 1);
        assert_eq!(forgotten.next(now).as_deref(), Some(A));
        let (mut old, now) = ignored();
        let age = RetryPolicy::default().ignored_for;
        assert_eq!(old.next(now + age).as_deref(), Some(A));
    }

    #[test]
    fn ignore_list_limit_retries_the_oldest_name() {
        let mut queue = Queue::new(RetryPolicy {
            refusals: 1,
            ignored: 1,
            ..RetryPolicy::default()
        });
        let now = Instant::now();
        queue.changed([A.to_owned(), B.to_owned()]);
        for at in [now, now + Duration::from_secs(1)] {
            let name = queue.next(at).unwrap();
            queue.failed(&name, &refusal(), at);
        }
        assert!(queue.failure(B).unwrap().is_ignored);
        assert_eq!(
            queue.next(now + Duration::from_secs(1)).as_deref(),
            Some(A),
            "the oldest name is tried again"
        );
    }

    #[test]
    fn change_during_a_run_queues_the_name_again() {
        let (mut queue, now) = (queue(&[A]), Instant::now());
        assert_eq!(queue.next(now).as_deref(), Some(A));
        queue.changed([A.to_owned()]);
        assert_eq!(queue.next(now), None, "a name never runs twice at once");
        queue.done(A, Some("1".to_owned()), now);
        assert_eq!(queue.next(now).as_deref(), Some(A));
        queue.rest(A);
        assert_eq!((queue.next(now), queue.busy()), (None, 0));
    }

    #[test]
    fn restart_queues_names_of_a_stopped_writer() {
        let (mut queue, now) = (queue(&[A]), Instant::now());
        assert_eq!(queue.next(now).as_deref(), Some(A));
        assert_eq!(queue.next(now), None);
        queue.restart();
        assert_eq!(queue.next(now).as_deref(), Some(A));
    }

    #[test]
    fn write_reverted_by_another_client_backs_off() {
        let (mut queue, mut now) = (queue(&[A]), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..4 {
            queue.changed([A.to_owned()]);
            let start = now;
            loop {
                assert_eq!(queue.next(now).as_deref(), Some(A));
                if queue.may_write(A, "1", now) {
                    break;
                }
                assert_eq!(queue.failure(A).unwrap().kind, ErrorKind::Conflict);
                now = queue.due().unwrap();
            }
            queue.done(A, Some("1".to_owned()), now);
            waits.push((now - start).as_secs());
        }
        assert_eq!(waits, [0, 3, 6, 12]);
        // Another object is written at once.
        queue.changed([A.to_owned()]);
        assert_eq!(queue.next(now).as_deref(), Some(A));
        assert!(queue.may_write(A, "2", now));
    }
}
