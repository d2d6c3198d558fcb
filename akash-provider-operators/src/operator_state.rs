//! State that the watches, the writer and the status of an operator share: the index, the work queue, the problems and
//! the counters.

use super::guard::{AbsenceEvidence, Guard, Hold, Wait};
use super::queue::{Queue, RetryPolicy};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::statistics::{CALL_BOUNDS, DurationHistogram};
use akash_provider_kube_kernel::audit::MissingRecord;
use akash_provider_kube_kernel::hash;
use akash_provider_kube_kernel::watch::{Definitions, WatchState};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// Minimum interval between two log messages about one problem.
const LOG_INTERVAL: Duration = Duration::from_secs(300);
/// Maximum number of names that the writer checks while it holds the lock of the state.
const LOOKS: usize = 64;

/// Objects of an operator, and the work for these objects. An index uses no clock and no network.
pub(super) trait OperatorIndex: Debug + Send + 'static {
    /// Change from a watch or from the writer.
    type Event: Send;
    /// Work that brings the objects of one name into the desired state.
    type Work: Work;
    /// Log message if the objects of a name differ from the declared state.
    const PROBLEM: &'static str;

    /// Applies an event and returns the affected names: hostnames, Services or nodes.
    fn apply(&mut self, event: Self::Event) -> BTreeSet<String>;

    /// Returns true after every required kind was listed.
    fn is_known(&self) -> bool;

    /// Returns all names with a record or an object.
    fn names(&self) -> BTreeSet<String>;

    /// Returns the work for a name, from the current state of the index.
    fn work(&self, name: &str) -> Self::Work;

    /// Returns the number of records, valid or not.
    fn declared(&self) -> usize {
        0
    }

    /// Applies time-dependent rules to the work. Returns the time of the next reconciliation that these rules
    /// require.
    fn apply_time_rules(&mut self, _name: &str, _work: &mut Self::Work, _now: Instant) -> Option<Instant> {
        None
    }

    /// True if the same problem of several names is logged only once, with the number of names.
    const SHARES_PROBLEMS: bool = false;

    /// Removes the state of names that are not in the index.
    fn prune(&mut self) {}

    /// Returns true if the operator waits for the first complete list of this watch.
    fn needs(&self, _watch: &str) -> bool {
        true
    }

    /// Returns the event for a kind that the cluster does not serve.
    fn absent(_watch: &str) -> Option<Self::Event> {
        None
    }
}

/// Work for one name.
pub(super) trait Work: Debug + Send + Sync + 'static {
    /// Returns true if there is nothing to do.
    fn is_done(&self) -> bool;

    /// Returns the reason why the objects of the name differ from the declared state.
    fn problem(&self) -> Option<&str>;

    /// Returns the objects to write.
    fn bodies(&self) -> Vec<&Value>;

    /// Returns the missing record that causes all deletions. Returns `None` if the deletions have another
    /// cause.
    fn missing(&self) -> Option<&MissingRecord> {
        None
    }

    /// Cancels all pending deletions. Afterwards, [`Work::problem`] returns the reason `_why`.
    fn withhold(&mut self, _why: String) {}
}

/// Numbers of writes, deletions and failures since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OperationCounts {
    /// Objects created or updated.
    pub written: u64,
    /// Objects deleted.
    pub deleted: u64,
    /// Failed writes and deletions.
    pub failed: u64,
}

/// Reason why the objects of a name differ from the declared state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) text: String,
    pub(super) since: Instant,
}

/// Returns the names to reconcile after an event: none before the initial lists, then all names once, then
/// the affected names.
pub(super) fn names_to_reconcile<I>(
    index: &mut I,
    is_known: impl Fn(&I) -> bool,
    apply: impl FnOnce(&mut I) -> BTreeSet<String>,
    names: impl FnOnce(&I) -> BTreeSet<String>,
) -> BTreeSet<String> {
    let was_known = is_known(index);
    let touched = apply(index);
    match (was_known, is_known(index)) {
        (_, false) => BTreeSet::new(),
        (false, true) => names(index),
        (true, true) => touched,
    }
}

#[derive(Debug)]
pub(super) struct OperatorShared<I> {
    pub(super) index: I,
    pub(super) queue: Queue,
    /// States of the watches, by the watched kind.
    pub(super) watches: BTreeMap<&'static str, WatchState>,
    pub(super) problems: BTreeMap<String, Problem>,
    /// Problems that were logged.
    log: ProblemLog,
    pub(super) counts: OperationCounts,
    guard: Guard,
}

#[derive(Debug)]
pub(super) struct WorkItem<W> {
    pub(super) name: String,
    pub(super) work: W,
    /// Hash of the objects to write.
    hash: Option<String>,
}

/// Next step of the writer.
#[derive(Debug)]
pub(super) enum WriterStep<W> {
    /// Work for a name. The name is in progress until [`OperatorState::finish`].
    WorkItem(WorkItem<W>),
    /// More names wait. The writer must release the lock before the next call of [`OperatorState::next`].
    More,
    /// No work before this time, unless an event arrives. With `None`, only an event causes work.
    Nothing(Option<Instant>),
}

#[derive(Debug)]
pub(super) struct OperatorState<I> {
    inner: Mutex<OperatorShared<I>>,
    /// Wakes the writer.
    pub(super) wake: Notify,
    /// Notifies about applied events.
    changes: watch::Sender<()>,
    /// Notifies subscribers of events that affect a name. Node heartbeats affect no name.
    touches: watch::Sender<()>,
    /// Shared watch of CustomResourceDefinitions, for kinds that the cluster does not serve yet.
    pub(super) definitions: Definitions,
    /// True after every required kind was listed.
    ready: watch::Sender<bool>,
    /// Notification that the guard requires new evidence about missing records.
    pub(super) evidence_wanted: Notify,
    /// Durations of writes. A write contains all objects of one name.
    pub(super) durations: DurationHistogram,
}

impl<I: OperatorIndex> OperatorState<I> {
    pub(super) fn new(
        index: I,
        patience: RetryPolicy,
        watches: impl IntoIterator<Item = &'static str>,
        definitions: Definitions,
    ) -> Self {
        let watches = watches.into_iter().map(|key| (key, WatchState::default()));
        Self {
            inner: Mutex::new(OperatorShared {
                index,
                queue: Queue::new(patience),
                watches: watches.collect(),
                problems: BTreeMap::new(),
                log: ProblemLog::default(),
                counts: OperationCounts::default(),
                guard: Guard::default(),
            }),
            wake: Notify::new(),
            changes: watch::Sender::new(()),
            touches: watch::Sender::new(()),
            definitions,
            ready: watch::Sender::new(false),
            evidence_wanted: Notify::new(),
            durations: DurationHistogram::new(&CALL_BOUNDS),
        }
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, OperatorShared<I>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until every required kind was listed.
    pub(super) async fn listed(&self) {
        // The sender is a field of `self`, so the channel is open.
        let _ = self.ready.subscribe().wait_for(|ready| *ready).await;
    }

    /// Returns true after every required kind was listed.
    pub(super) fn is_listed(&self) -> bool {
        *self.ready.borrow()
    }

    pub(super) fn apply(&self, event: I::Event) {
        let mut inner = self.inner();
        let names = names_to_reconcile(
            &mut inner.index,
            I::is_known,
            |index| index.apply(event),
            I::names,
        );
        let is_known = inner.index.is_known();
        let is_touched = !names.is_empty();
        inner.queue.changed(names);
        // Receivers lock the state at once.
        drop(inner);
        self.ready
            .send_if_modified(|ready| !std::mem::replace(ready, is_known) && is_known);
        self.changes.send_replace(());
        if is_touched {
            self.touches.send_replace(());
        }
        self.wake.notify_one();
    }

    /// Subscribes to all applied events.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Subscribes to the events that affect a name. Notifies after the event was applied.
    pub(super) fn touches(&self) -> watch::Receiver<()> {
        self.touches.subscribe()
    }

    pub(super) fn next(&self, now: Instant) -> WriterStep<I::Work> {
        let mut inner = self.inner();
        for _ in 0..LOOKS {
            let Some(name) = inner.queue.next(now) else {
                // All problems are recorded, so their numbers are final.
                let again = inner.log_shared_problems(now);
                return WriterStep::Nothing(inner.queue.due().into_iter().chain(again).min());
            };
            let mut work = inner.index.work(&name);
            if let Some(later) = inner.index.apply_time_rules(&name, &mut work, now) {
                inner.queue.remind(&name, later);
            }
            if let Some(wait) = inner.withhold(&name, &mut work, now) {
                if wait.reads {
                    self.evidence_wanted.notify_one();
                }
                // The guard logs one line for all names.
                let since = now;
                inner.problems.insert(
                    name.clone(),
                    Problem {
                        text: wait.why,
                        since,
                    },
                );
            } else {
                inner.log_problem(&name, work.problem().map(str::to_owned), now);
            }
            if work.is_done() {
                inner.queue.rest(&name);
                continue;
            }
            let hashes: Vec<String> = work.bodies().into_iter().map(hash::hash_value).collect();
            let hash = (!hashes.is_empty()).then(|| hashes.join(" "));
            let may_write = |hash: &String| inner.queue.may_write(&name, hash, now);
            if hash.as_ref().is_none_or(may_write) {
                return WriterStep::WorkItem(WorkItem { name, work, hash });
            }
        }
        WriterStep::More
    }

    pub(super) fn finish(&self, turn: &WorkItem<I::Work>, outcome: Result<(), Error>, now: Instant) {
        let mut inner = self.inner();
        match outcome {
            Ok(()) => inner.queue.done(&turn.name, turn.hash.clone(), now),
            Err(error) => {
                inner.counts.failed += 1;
                let is_first = inner.queue.failure(&turn.name).is_none();
                inner.queue.failed(&turn.name, &error, now);
                // Later failures are in the status.
                if is_first {
                    tracing::warn!(
                        name = turn.name,
                        problem = I::PROBLEM,
                        %error,
                        "operator cannot write objects, retrying"
                    );
                }
            }
        }
    }

    pub(super) fn learn(&self, evidence: AbsenceEvidence) {
        self.judge_again(|guard| guard.learn(evidence));
    }

    /// Reports to the guard that evidence about missing records cannot be read.
    pub(super) fn fail(&self, error: &Error) {
        let is_absent = error.kind() == ErrorKind::NotFound;
        let is_new = self.inner().guard.fail(error.to_string(), is_absent);
        if is_new {
            tracing::warn!(%error, "cannot check whether the missing records were deleted, so the objects of these records remain");
        }
    }

    /// Confirms the deletions that the guard delays, and returns their number.
    pub(super) fn confirm(&self) -> usize {
        let confirmed = self.judge_again(Guard::confirm);
        tracing::info!(
            confirmed,
            "command confirmed the deletion, the operator deletes the objects without records"
        );
        confirmed
    }

    fn judge_again<R>(&self, change: impl FnOnce(&mut Guard) -> R) -> R {
        let mut inner = self.inner();
        let changed = change(&mut inner.guard);
        let names: Vec<String> = inner.guard.names().cloned().collect();
        inner.queue.changed(names);
        drop(inner);
        self.wake.notify_one();
        changed
    }

    /// Removes the state of each name that has no record and no object.
    pub(super) fn prune(&self) {
        let mut inner = self.inner();
        let names = inner.index.names();
        inner.queue.prune(|name| names.contains(name));
        let before = inner.problems.len();
        inner.problems.retain(|name, _| names.contains(name));
        inner.log.is_due |= inner.problems.len() != before;
        inner.index.prune();
    }

    /// Queues all failed names for which `is_meant` returns true, without back-off. Returns the number of
    /// queued names.
    pub(super) fn forget(&self, is_meant: impl Fn(&I, &str) -> bool) -> usize {
        let mut inner = self.inner();
        let OperatorShared { index, queue, .. } = &mut *inner;
        let forgotten = queue.forget(|name| is_meant(index, name));
        drop(inner);
        self.wake.notify_one();
        forgotten
    }
}

impl<I: OperatorIndex> OperatorShared<I> {
    pub(super) fn hold(&self) -> Option<Hold> {
        self.guard.hold(Instant::now())
    }

    /// Removes from `work` the deletions that the guard delays. Returns the reason for the delay.
    fn withhold(&mut self, name: &str, work: &mut I::Work, now: Instant) -> Option<Wait> {
        let Some(record) = work.missing() else {
            self.guard.clear(name);
            return None;
        };
        let declared = self.index.declared();
        let wait = self.guard.judge(name, record, declared, now).err()?;
        work.withhold(wait.why.clone());
        if let Some(again) = wait.again {
            self.queue.remind(name, again);
        }
        Some(wait)
    }

    fn log_problem(&mut self, name: &str, problem: Option<String>, now: Instant) {
        let Some(text) = problem else {
            self.log.is_due |= self.problems.remove(name).is_some();
            return;
        };
        // Logged on the first occurrence only.
        if self.problems.get(name).is_none_or(|problem| problem.text != text) {
            if !I::SHARES_PROBLEMS {
                tracing::warn!(
                    name,
                    problem = I::PROBLEM,
                    why = text,
                    "objects of an operator have a problem"
                );
            }
            self.log.is_due = true;
            let since = now;
            self.problems.insert(name.to_owned(), Problem { text, since });
        }
    }

    /// Logs problems that several names share. Returns the time of the next check.
    fn log_shared_problems(&mut self, now: Instant) -> Option<Instant> {
        if !I::SHARES_PROBLEMS {
            return None;
        }
        let (due, again) = self.log.due(&self.problems, now);
        for ProblemCount { text, names, example } in due {
            tracing::warn!(
                names,
                example,
                problem = I::PROBLEM,
                why = text,
                "several objects of an operator have the same problem"
            );
        }
        again
    }
}

/// Logged problems and their last messages.
#[derive(Debug, Default)]
struct ProblemLog {
    /// True if problems changed since the last log message.
    is_due: bool,
    /// For each problem: the number of names in the last log message, and the time of this message.
    logged: BTreeMap<String, (usize, Instant)>,
}

#[derive(Debug, PartialEq, Eq)]
struct ProblemCount {
    text: String,
    names: usize,
    example: String,
}

impl ProblemLog {
    /// Returns the problems to log now, and the time of the next check. A problem is logged again after a
    /// change in the number of affected names, at most once per [`LOG_INTERVAL`].
    fn due(
        &mut self,
        problems: &BTreeMap<String, Problem>,
        now: Instant,
    ) -> (Vec<ProblemCount>, Option<Instant>) {
        if !std::mem::take(&mut self.is_due) {
            return (Vec::new(), None);
        }
        let mut counts: BTreeMap<&str, (usize, &String)> = BTreeMap::new();
        for (name, problem) in problems {
            counts.entry(&problem.text).or_insert((0, name)).0 += 1;
        }
        // A problem that disappears and returns is not logged more often than others.
        self.logged
            .retain(|text, (_, at)| counts.contains_key(text.as_str()) || now < *at + LOG_INTERVAL);
        let (mut due_counts, mut again) = (Vec::new(), None);
        for (text, (names, example)) in counts {
            match self.logged.get(text) {
                Some((logged_names, _)) if *logged_names == names => continue,
                Some((_, at)) if now < *at + LOG_INTERVAL => {
                    let at = *at + LOG_INTERVAL;
                    again = Some(again.map_or(at, |first: Instant| first.min(at)));
                    continue;
                }
                _ => {}
            }
            self.logged.insert(text.to_owned(), (names, now));
            let (text, example) = (text.to_owned(), example.clone());
            due_counts.push(ProblemCount { text, names, example });
        }
        self.is_due = again.is_some();
        (due_counts, again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_problem_is_logged_once_and_again_after_its_number_changed() {
        let mut log = ProblemLog::default();
        let mut problems = BTreeMap::new();
        let begun = Instant::now();
        let after = |minutes: u64| begun + Duration::from_secs(60 * minutes);
        let has = |problems: &mut BTreeMap<String, Problem>, name: &str, text: &str| {
            let text = text.to_owned();
            problems.insert(name.to_owned(), Problem { text, since: begun });
        };
        let mut logged_at = |problems: &BTreeMap<String, Problem>, minutes| {
            log.is_due = true;
            let (due, again) = log.due(problems, after(minutes));
            let due = due
                .into_iter()
                .map(|count| (count.text, count.names, count.example));
            (due.collect::<Vec<_>>(), again)
        };
        for number in 0..500 {
            has(&mut problems, &format!("n{number:03}"), "no model");
        }
        has(&mut problems, "other", "shared");
        let count_of = |text: &str, names, example: &str| (text.to_owned(), names, example.to_owned());
        let first = vec![count_of("no model", 500, "n000"), count_of("shared", 1, "other")];
        assert_eq!(logged_at(&problems, 0), (first, None));
        assert_eq!(logged_at(&problems, 1), (Vec::new(), None), "nothing has changed");
        problems.remove("n000");
        assert_eq!(
            logged_at(&problems, 2),
            (Vec::new(), Some(after(5))),
            "before the interval"
        );
        // A problem that disappears and returns within the interval is the same problem.
        problems.remove("other");
        assert_eq!(logged_at(&problems, 3), (Vec::new(), Some(after(5))));
        has(&mut problems, "other", "shared");
        assert_eq!(logged_at(&problems, 4), (Vec::new(), Some(after(5))));
        problems.remove("n001");
        assert_eq!(
            logged_at(&problems, 5),
            (vec![count_of("no model", 498, "n002")], None)
        );
        problems.remove("other");
        assert_eq!(logged_at(&problems, 20), (Vec::new(), None));
        has(&mut problems, "other", "shared");
        assert_eq!(
            logged_at(&problems, 21),
            (vec![count_of("shared", 1, "other")], None)
        );
    }

    #[test]
    fn unchanged_problems_are_not_counted_again() {
        let mut log = ProblemLog::default();
        let problem = Problem {
            text: "no model".to_owned(),
            since: Instant::now(),
        };
        let problems = BTreeMap::from([("one".to_owned(), problem)]);
        assert_eq!(log.due(&problems, Instant::now()), (Vec::new(), None));
    }

    #[test]
    fn names_are_reconciled_once_after_the_last_initial_list() {
        // Number of received lists.
        let mut lists = 0;
        let mut turns = |lists_now: u32| {
            let touched = |index: &mut u32| {
                *index = lists_now;
                BTreeSet::from(["one".to_owned()])
            };
            let all = |_: &u32| BTreeSet::from(["one".to_owned(), "two".to_owned()]);
            names_to_reconcile(&mut lists, |lists| *lists >= 2, touched, all).len()
        };
        assert_eq!([turns(1), turns(1), turns(2), turns(2)], [0, 0, 2, 1]);
    }
}
