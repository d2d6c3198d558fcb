//! Whose turn it is: names that changed, names that failed and wait, names that are ignored until they change. It is pure;
//! the time is given.
//!
//! ```text
//! changed ─► ready ─► running ─┬─ done ─► forgotten
//!    ▲         ▲               └─ failed ─┬─► waiting ── its time ─► ready
//!    │         └────── its age, or room ──┴─► ignored (refused so often)
//!    └───────────── a change, or "forget" ◄──┘
//! ```

use akash_provider_core::error::{Error, ErrorKind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// The longest wait after a failure. An API server or a namespace that comes back is found within it.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// What we wrote and somebody else changed back is written again at once when it held for so long.
const HELD: Duration = Duration::from_secs(600);

/// How failures are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// First wait after a failure; it doubles up to five minutes (`--retry-delay`).
    pub retry_delay: Duration,
    /// Refusals in a row after which a name is ignored (`--event-failure-limit`).
    pub refusals: u32,
    /// Names that are ignored at most; the oldest is tried again (`--ignore-list-entry-limit`).
    pub ignored: usize,
    /// A name is ignored for so long at most (`--ignore-list-age-limit`).
    pub ignored_for: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            retry_delay: Duration::from_secs(3),
            refusals: 3,
            ignored: 131_072,
            ignored_for: Duration::from_secs(726 * 3600),
        }
    }
}

/// A name that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Failures in a row, of whatever kind.
    pub failures: u32,
    /// Of them those that were refusals of what was written.
    pub refusals: u32,
    /// What went wrong last, as text.
    pub error: String,
    /// Kind of that error; only `Invalid` can be a refusal.
    pub kind: ErrorKind,
    /// When it failed last.
    pub at: Instant,
    /// When it is tried again, unless it changes before.
    pub due: Instant,
    /// It is on the ignore list.
    pub is_ignored: bool,
}

/// What was written last, to tell that somebody changes it back.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Written {
    hash: String,
    at: Instant,
    times: u32,
}

/// Whose turn it is.
#[derive(Debug)]
pub struct Queue {
    patience: Patience,
    order: VecDeque<String>,
    ready: BTreeSet<String>,
    running: BTreeSet<String>,
    failed: BTreeMap<String, Failed>,
    /// When those that failed are due, but for those that are running; and when others asked to be.
    dues: BTreeSet<(Instant, String)>,
    written: BTreeMap<String, Written>,
}

impl Queue {
    /// An empty queue: it is nobody's turn.
    #[must_use]
    pub const fn new(patience: Patience) -> Self {
        Self {
            patience,
            order: VecDeque::new(),
            ready: BTreeSet::new(),
            running: BTreeSet::new(),
            failed: BTreeMap::new(),
            dues: BTreeSet::new(),
            written: BTreeMap::new(),
        }
    }

    /// Something about these names changed: it is their turn, whatever failed before.
    pub fn changed(&mut self, names: impl IntoIterator<Item = String>) {
        for name in names {
            if let Some(failed) = self.failed.get_mut(&name) {
                // What changed may be refused for other reasons, and gets all its tries.
                failed.is_ignored = false;
                failed.refusals = 0;
            }
            self.push(name);
        }
    }

    /// These failed and are tried again now; the number of them.
    pub fn forget(&mut self, is_meant: impl Fn(&str) -> bool) -> usize {
        let meant: Vec<String> = self
            .failed
            .keys()
            .filter(|name| is_meant(name))
            .cloned()
            .collect();
        for name in &meant {
            self.unfail(name);
            self.written.remove(name);
            self.push(name.clone());
        }
        meant.len()
    }

    /// Whoever worked stopped where it was: what was being worked at has its turn again.
    pub fn restart(&mut self) {
        for name in std::mem::take(&mut self.running) {
            self.push(name);
        }
    }

    /// The next name whose turn it is; it is running until [`Queue::done`], [`Queue::failed`] or [`Queue::rest`].
    pub fn next(&mut self, now: Instant) -> Option<String> {
        while self.dues.first().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, name)) = self.dues.pop_first() {
                self.push(name);
            }
        }
        // One look at each name at most, so that it ends where all of them are running.
        let turns = self.order.len();
        for _ in 0..turns {
            let name = self.order.pop_front()?;
            // One that changed while it was running waits for the end of that.
            if self.running.contains(&name) {
                self.order.push_back(name);
                continue;
            }
            self.ready.remove(&name);
            self.running.insert(name.clone());
            if let Some(failed) = self.failed.get(&name) {
                // While it is being worked at, the end of its wait must not make it ready once more.
                self.dues.remove(&(failed.due, name.clone()));
            }
            return Some(name);
        }
        None
    }

    /// It is a name's turn then, whatever it did before.
    pub fn remind(&mut self, name: &str, at: Instant) {
        self.dues.insert((at, name.to_owned()));
    }

    /// When somebody's wait is over.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.dues.first().map(|(due, _)| *due)
    }

    /// There was nothing to do about it.
    pub fn rest(&mut self, name: &str) {
        self.running.remove(name);
        self.unfail(name);
    }

    /// True when it may be written now. What was written before, and somebody changed back at once, waits like a failure:
    /// two who write against each other must not do it without a pause.
    pub fn may_write(&mut self, name: &str, hash: &str, now: Instant) -> bool {
        let Some(written) = self.written.get(name).filter(|written| written.hash == hash) else {
            return true;
        };
        let due = written.at + wait(self.patience.retry_delay, written.times);
        if now >= due || now >= written.at + HELD {
            return true;
        }
        let failures = written.times;
        self.running.remove(name);
        let failed = Failed {
            failures,
            refusals: 0,
            error: "somebody else changes it back".to_owned(),
            kind: ErrorKind::Conflict,
            at: now,
            due,
            is_ignored: false,
        };
        self.fail(name, failed);
        false
    }

    /// What is to be done about it was done; `hash` is of what was written.
    pub fn done(&mut self, name: &str, hash: Option<String>, now: Instant) {
        self.rest(name);
        let Some(hash) = hash else {
            self.written.remove(name);
            return;
        };
        let before = self.written.get(name).filter(|written| written.hash == hash);
        let times = before
            .filter(|written| now < written.at + HELD)
            .map_or(1, |written| written.times + 1);
        self.written
            .insert(name.to_owned(), Written { hash, at: now, times });
    }

    /// It was not done.
    pub fn failed(&mut self, name: &str, error: &Error, now: Instant) {
        self.running.remove(name);
        let before = self.failed.get(name);
        let failures = before.map_or(0, |before| before.failures) + 1;
        // Only what the API server finds wrong with the object stays wrong: a namespace, a right or a server may come.
        let is_refusal = error.kind() == ErrorKind::Invalid && !error.is_transient();
        let refusals = before.map_or(0, |before| before.refusals) + u32::from(is_refusal);
        let is_ignored = is_refusal && refusals >= self.patience.refusals;
        let wait = if is_ignored {
            self.patience.ignored_for
        } else {
            wait(self.patience.retry_delay, failures)
        };
        let failed = Failed {
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

    /// Drops what is remembered of names that are neither declared nor have an object.
    pub fn prune(&mut self, is_there: impl Fn(&str) -> bool) {
        self.written.retain(|name, _| is_there(name));
        self.failed.retain(|name, _| is_there(name));
        self.dues.retain(|(_, name)| is_there(name));
    }

    /// How a name failed.
    #[must_use]
    pub fn failure(&self, name: &str) -> Option<&Failed> {
        self.failed.get(name)
    }

    /// All that failed and have not been done since.
    pub fn failures(&self) -> impl Iterator<Item = (&String, &Failed)> {
        self.failed.iter()
    }

    /// Names whose turn it is or that are being worked at.
    #[must_use]
    pub fn busy(&self) -> usize {
        self.ready.len() + self.running.len()
    }

    /// It is a name's turn, or it is being worked at.
    #[must_use]
    pub fn is_busy(&self, name: &str) -> bool {
        self.ready.contains(name) || self.running.contains(name)
    }

    fn fail(&mut self, name: &str, failed: Failed) {
        self.unfail(name);
        self.dues.insert((failed.due, name.to_owned()));
        self.failed.insert(name.to_owned(), failed);
    }

    fn unfail(&mut self, name: &str) {
        if let Some(failed) = self.failed.remove(name) {
            self.dues.remove(&(failed.due, name.to_owned()));
        }
    }

    fn push(&mut self, name: String) {
        if self.ready.insert(name.clone()) {
            self.order.push_back(name);
        }
    }

    /// The one that is ignored for the longest is tried again when there are too many.
    fn make_room(&mut self, newest: &str) {
        let ignored = self.failed.iter().filter(|(_, failed)| failed.is_ignored);
        let ignored: Vec<_> = ignored.map(|(name, failed)| (failed.at, name.clone())).collect();
        if ignored.len() > self.patience.ignored
            && let Some((_, oldest)) = ignored.into_iter().filter(|(_, name)| name != newest).min()
        {
            self.unfail(&oldest);
            self.push(oldest);
        }
    }
}

/// The wait after so many failures in a row.
fn wait(first: Duration, failures: u32) -> Duration {
    // More doublings than these are past every wait.
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
        Error::new(ErrorKind::Unavailable, "route", "nobody answers")
    }

    const A: &str = "a.example.com";
    const B: &str = "b.example.com";

    fn queue(names: &[&str]) -> Queue {
        let mut queue = Queue::new(Patience::default());
        queue.changed(names.iter().map(|&name| name.to_owned()));
        queue
    }

    #[test]
    fn one_that_fails_waits_ever_longer_and_holds_nobody_up() {
        let (mut queue, start) = (queue(&[A, B]), Instant::now());
        let mut now = start;
        let mut waits = Vec::new();
        for _ in 0..9 {
            assert_eq!(queue.next(now).as_deref(), Some(A));
            queue.failed(A, &outage(), now);
            if queue.ready.contains(B) {
                assert_eq!(queue.next(now).as_deref(), Some(B), "its turn comes at once");
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
            "an outage is nobody's fault"
        );
        assert_eq!(queue.next(now).as_deref(), Some(A));
        queue.done(A, None, now);
        assert!(queue.failure(A).is_none() && queue.due().is_none());
    }

    #[test]
    fn one_that_is_refused_is_ignored_until_it_changes_is_forgotten_or_is_old() {
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
        assert!(!changed.failure(A).unwrap().is_ignored, "it is counted anew");
        let (mut forgotten, now) = ignored();
        assert_eq!(forgotten.forget(|name| name == B), 0);
        assert_eq!(forgotten.forget(|name| name == A), 1);
        assert_eq!(forgotten.next(now).as_deref(), Some(A));
        let (mut old, now) = ignored();
        let age = Patience::default().ignored_for;
        assert_eq!(old.next(now + age).as_deref(), Some(A));
    }

    #[test]
    fn the_ignore_list_has_a_limit() {
        let mut queue = Queue::new(Patience {
            refusals: 1,
            ignored: 1,
            ..Patience::default()
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
            "the oldest has a turn"
        );
    }

    #[test]
    fn a_change_during_the_work_brings_another_turn_after_it() {
        let (mut queue, now) = (queue(&[A]), Instant::now());
        assert_eq!(queue.next(now).as_deref(), Some(A));
        queue.changed([A.to_owned()]);
        assert_eq!(queue.next(now), None, "never twice at once");
        queue.done(A, Some("1".to_owned()), now);
        assert_eq!(queue.next(now).as_deref(), Some(A));
        queue.rest(A);
        assert_eq!((queue.next(now), queue.busy()), (None, 0));
    }

    #[test]
    fn what_a_deposed_writer_left_half_done_has_another_turn() {
        let (mut queue, now) = (queue(&[A]), Instant::now());
        assert_eq!(queue.next(now).as_deref(), Some(A));
        assert_eq!(queue.next(now), None);
        queue.restart();
        assert_eq!(queue.next(now).as_deref(), Some(A));
    }

    #[test]
    fn who_writes_against_us_does_not_make_us_hurry() {
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
        // What is wanted otherwise is written at once.
        queue.changed([A.to_owned()]);
        assert_eq!(queue.next(now).as_deref(), Some(A));
        assert!(queue.may_write(A, "2", now));
    }
}
