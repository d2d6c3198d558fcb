//! What the watches, the writer and the status of an operator share: its index, whose turn it is, and how all of it
//! fares.

use super::guard::{Evidence, Guard, Hold, MissingRecord, Wait};
use super::queue::{Patience, Queue};
use super::said::WatchStatus;
use crate::apply::hash;
use crate::state::definitions::DEFINITIONS;
use crate::state::{Definitions, WatchState};
use akash_provider_core::error::{Error, ErrorKind};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// What names have together is said again after so long at the earliest, when their number has changed.
const TOLD_EVERY: Duration = Duration::from_secs(300);
/// Names that are looked at in one go, so that nobody else waits long.
const LOOKS: usize = 64;

/// What the cluster has, and what is to be done about it: without a clock and without a network.
pub(super) trait Index: Debug + Send + 'static {
    /// What a watch or the writer says.
    type Event: Send;
    /// What is to be done about a name.
    type Work: Work;
    /// What is said of a name that something keeps from being as it is declared.
    const KEPT: &'static str;

    /// Takes an event; the names that it touches.
    fn apply(&mut self, event: Self::Event) -> BTreeSet<String>;

    /// True once everything was listed.
    fn is_known(&self) -> bool;

    /// All names that are declared or have an object.
    fn names(&self) -> BTreeSet<String>;

    /// What is to be done about a name.
    fn work(&self, name: &str) -> Self::Work;

    /// Number of records, readable or not.
    fn declared(&self) -> usize {
        0
    }

    /// Adds what only time allows; when the name is to be looked at again for that, whatever happens before.
    fn ripen(&mut self, _name: &str, _work: &mut Self::Work, _now: Instant) -> Option<Instant> {
        None
    }

    /// Many names have the same problem for the same reason: it is said once, with their number.
    const TOGETHER: bool = false;

    /// Forgets what is beside the index of names that it has no more.
    fn prune(&mut self) {}

    /// Nothing is done before the watch of this name has listed everything.
    fn needs(&self, _watch: &str) -> bool {
        true
    }

    /// What it means that the cluster does not serve the kind of this watch.
    fn absent(_watch: &str) -> Option<Self::Event> {
        None
    }
}

/// What is to be done about a name.
pub(super) trait Work: Debug + Send + Sync + 'static {
    /// There is nothing to do.
    fn is_done(&self) -> bool;

    /// What keeps the name from being as it is declared.
    fn problem(&self) -> Option<&str>;

    /// The objects that are to be written.
    fn bodies(&self) -> Vec<&Value>;

    /// The missing record, if its absence is the only reason for the deletions.
    fn missing(&self) -> Option<&MissingRecord> {
        None
    }

    /// Drops the deletions for the reason given.
    fn withhold(&mut self, _why: String) {}
}

/// What was done since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Objects written, new ones and others.
    pub written: u64,
    /// Objects deleted, each by its identity.
    pub deleted: u64,
    /// Writes and deletes that failed.
    pub failed: u64,
}

/// What keeps a name from being as it is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) text: String,
    pub(super) since: Instant,
}

/// Whose turn an event makes it. Until everything was listed nothing is to be done; the last list makes it everybody's.
pub(super) fn turns<I>(
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
pub(super) struct Inner<I> {
    pub(super) index: I,
    pub(super) queue: Queue,
    /// By what they watch, as the status names it.
    pub(super) watches: BTreeMap<&'static str, WatchState>,
    pub(super) problems: BTreeMap<String, Problem>,
    /// What was said of names together.
    together: Together,
    pub(super) counts: Counts,
    guard: Guard,
}

/// A name whose turn it is, and what is to be done.
#[derive(Debug)]
pub(super) struct Turn<W> {
    pub(super) name: String,
    pub(super) work: W,
    /// Of what is to be written.
    hash: Option<String>,
}

/// What the writer is to do next.
#[derive(Debug)]
pub(super) enum Next<W> {
    /// This name, which counts as running from then on.
    Turn(Turn<W>),
    /// Nothing yet; more names are to be looked at.
    More,
    /// Nothing until then, or until something changes.
    Nothing(Option<Instant>),
}

#[derive(Debug)]
pub(super) struct Board<I> {
    inner: Mutex<Inner<I>>,
    /// Something is to be looked at, by the writer.
    pub(super) news: Notify,
    /// Something was applied; for those who look on.
    changes: watch::Sender<()>,
    /// Something was applied that touches a name: the heartbeat of a node does not.
    touches: watch::Sender<()>,
    /// Who says when a kind comes that the cluster does not have.
    pub(super) definitions: Definitions,
    /// Everything was listed once.
    ready: watch::Sender<bool>,
    /// The guard requires evidence.
    pub(super) evidence_wanted: Notify,
}

impl<I: Index> Board<I> {
    pub(super) fn new(
        index: I,
        patience: Patience,
        watches: impl IntoIterator<Item = &'static str>,
        definitions: Definitions,
    ) -> Self {
        let watches = watches.into_iter().map(|key| (key, WatchState::default()));
        Self {
            inner: Mutex::new(Inner {
                index,
                queue: Queue::new(patience),
                watches: watches.collect(),
                problems: BTreeMap::new(),
                together: Together::default(),
                counts: Counts::default(),
                guard: Guard::default(),
            }),
            news: Notify::new(),
            changes: watch::Sender::new(()),
            touches: watch::Sender::new(()),
            definitions,
            ready: watch::Sender::new(false),
            evidence_wanted: Notify::new(),
        }
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner<I>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until everything was listed.
    pub(super) async fn listed(&self) {
        // The other end is in our hands, so it does not go away.
        let _ = self.ready.subscribe().wait_for(|ready| *ready).await;
    }

    /// Everything was listed once.
    pub(super) fn is_listed(&self) -> bool {
        *self.ready.borrow()
    }

    /// Takes what a watch says, or what came of our own write.
    pub(super) fn apply(&self, event: I::Event) {
        let mut inner = self.inner();
        let turns = turns(
            &mut inner.index,
            I::is_known,
            |index| index.apply(event),
            I::names,
        );
        let is_known = inner.index.is_known();
        let is_touched = !turns.is_empty();
        inner.queue.changed(turns);
        // The lock is free before anybody is told, who would look at once.
        drop(inner);
        self.ready
            .send_if_modified(|ready| !std::mem::replace(ready, is_known) && is_known);
        self.changes.send_replace(());
        if is_touched {
            self.touches.send_replace(());
        }
        self.news.notify_one();
    }

    /// Hears of everything that is applied from here on.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Hears of everything that is applied from here on and touches a name, once everything was listed.
    pub(super) fn touches(&self) -> watch::Receiver<()> {
        self.touches.subscribe()
    }

    /// How the watches fare, that of definitions too where a kind is missed.
    pub(super) fn watch_status(&self, inner: &Inner<I>) -> BTreeMap<&'static str, WatchStatus> {
        let mut status = inner.watch_status();
        let fares = self.definitions.fares();
        status.extend(fares.map(|watch| (DEFINITIONS, WatchStatus::of(&watch, false))));
        status
    }

    pub(super) fn next(&self, now: Instant) -> Next<I::Work> {
        let mut inner = self.inner();
        for _ in 0..LOOKS {
            let Some(name) = inner.queue.next(now) else {
                // All were looked at: their number is known.
                let again = inner.tell_together(now);
                return Next::Nothing(inner.queue.due().into_iter().chain(again).min());
            };
            let mut work = inner.index.work(&name);
            if let Some(later) = inner.index.ripen(&name, &mut work, now) {
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
                inner.tell(&name, work.problem().map(str::to_owned), now);
            }
            if work.is_done() {
                inner.queue.rest(&name);
                continue;
            }
            let hashes: Vec<String> = work.bodies().into_iter().map(hash::of).collect();
            let hash = (!hashes.is_empty()).then(|| hashes.join(" "));
            let may_write = |hash: &String| inner.queue.may_write(&name, hash, now);
            if hash.as_ref().is_none_or(may_write) {
                return Next::Turn(Turn { name, work, hash });
            }
        }
        Next::More
    }

    /// The work about a name is over.
    pub(super) fn finish(&self, turn: &Turn<I::Work>, outcome: Result<(), Error>, now: Instant) {
        let mut inner = self.inner();
        match outcome {
            Ok(()) => inner.queue.done(&turn.name, turn.hash.clone(), now),
            Err(error) => {
                inner.counts.failed += 1;
                let is_first = inner.queue.failure(&turn.name).is_none();
                inner.queue.failed(&turn.name, &error, now);
                // Later ones are in the status.
                if is_first {
                    tracing::warn!(name = turn.name, error = %error, "{}, and is tried again", I::KEPT);
                }
            }
        }
    }

    /// Accepts evidence about missing records.
    pub(super) fn learn(&self, evidence: Evidence) {
        self.judge_again(|guard| guard.learn(evidence));
    }

    /// Notes that no evidence can be read.
    pub(super) fn fail(&self, error: &Error) {
        let is_absent = error.kind() == ErrorKind::NotFound;
        let is_news = self.inner().guard.fail(error.to_string(), is_absent);
        if is_news {
            tracing::warn!(%error, "deletions postponed: cannot confirm that missing records were deleted");
        }
    }

    /// Confirms the deletions that the guard holds; returns their number.
    pub(super) fn confirm(&self) -> usize {
        let confirmed = self.judge_again(Guard::confirm);
        tracing::info!(confirmed, "held deletions confirmed by an operator");
        confirmed
    }

    fn judge_again<R>(&self, change: impl FnOnce(&mut Guard) -> R) -> R {
        let mut inner = self.inner();
        let changed = change(&mut inner.guard);
        let names: Vec<String> = inner.guard.names().cloned().collect();
        inner.queue.changed(names);
        drop(inner);
        self.news.notify_one();
        changed
    }

    /// Forgets what is of names that are neither declared nor have an object.
    pub(super) fn prune(&self) {
        let mut inner = self.inner();
        let names = inner.index.names();
        inner.queue.prune(|name| names.contains(name));
        let before = inner.problems.len();
        inner.problems.retain(|name, _| names.contains(name));
        inner.together.is_due |= inner.problems.len() != before;
        inner.index.prune();
    }

    /// These names are tried again now; the number of those that had failed.
    pub(super) fn forget(&self, is_meant: impl Fn(&I, &str) -> bool) -> usize {
        let mut inner = self.inner();
        let Inner { index, queue, .. } = &mut *inner;
        let forgotten = queue.forget(|name| is_meant(index, name));
        drop(inner);
        self.news.notify_one();
        forgotten
    }
}

impl<I: Index> Inner<I> {
    /// Returns the deletions that the guard holds, if any.
    pub(super) fn hold(&self) -> Option<Hold> {
        self.guard.hold(Instant::now())
    }

    /// Has the guard judge deletions that follow from a missing record, and drops them where they have to wait.
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

    fn tell(&mut self, name: &str, problem: Option<String>, now: Instant) {
        let Some(text) = problem else {
            self.together.is_due |= self.problems.remove(name).is_some();
            return;
        };
        // Said once, not with every look.
        if self.problems.get(name).is_none_or(|known| known.text != text) {
            if !I::TOGETHER {
                tracing::warn!(name, problem = text, "{}", I::KEPT);
            }
            self.together.is_due = true;
            let since = now;
            self.problems.insert(name.to_owned(), Problem { text, since });
        }
    }

    /// Says what several names have together; when to look again, where something waits to be said.
    fn tell_together(&mut self, now: Instant) -> Option<Instant> {
        if !I::TOGETHER {
            return None;
        }
        let (said, again) = self.together.news(&self.problems, now);
        for Said { text, names, example } in said {
            tracing::warn!(names, example, problem = text, "{}", I::KEPT);
        }
        again
    }
}

/// What was said of problems that names have together.
#[derive(Debug, Default)]
struct Together {
    /// Something may have to be said.
    is_due: bool,
    /// By the problem: of how many names, and when.
    said: BTreeMap<String, (usize, Instant)>,
}

/// A problem that is to be said.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    text: String,
    names: usize,
    example: String,
}

impl Together {
    /// What is new: a problem, or after a while the number of those that have it. And when there may be more.
    fn news(&mut self, problems: &BTreeMap<String, Problem>, now: Instant) -> (Vec<Said>, Option<Instant>) {
        if !std::mem::take(&mut self.is_due) {
            return (Vec::new(), None);
        }
        let mut counts: BTreeMap<&str, (usize, &String)> = BTreeMap::new();
        for (name, problem) in problems {
            counts.entry(&problem.text).or_insert((0, name)).0 += 1;
        }
        // What comes back after it went is said anew, and not more often than other news.
        self.said
            .retain(|text, (_, at)| counts.contains_key(text.as_str()) || now < *at + TOLD_EVERY);
        let (mut news, mut again) = (Vec::new(), None);
        for (text, (names, example)) in counts {
            match self.said.get(text) {
                Some((said, _)) if *said == names => continue,
                Some((_, at)) if now < *at + TOLD_EVERY => {
                    let at = *at + TOLD_EVERY;
                    again = Some(again.map_or(at, |first: Instant| first.min(at)));
                    continue;
                }
                _ => {}
            }
            self.said.insert(text.to_owned(), (names, now));
            let (text, example) = (text.to_owned(), example.clone());
            news.push(Said { text, names, example });
        }
        self.is_due = again.is_some();
        (news, again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_have_together_is_said_once_and_again_when_their_number_has_changed() {
        let mut together = Together::default();
        let mut problems = BTreeMap::new();
        let begun = Instant::now();
        let after = |minutes: u64| begun + Duration::from_secs(60 * minutes);
        let has = |problems: &mut BTreeMap<String, Problem>, name: &str, text: &str| {
            let text = text.to_owned();
            problems.insert(name.to_owned(), Problem { text, since: begun });
        };
        let mut news = |problems: &BTreeMap<String, Problem>, minutes| {
            together.is_due = true;
            let (said, again) = together.news(problems, after(minutes));
            let said = said.into_iter().map(|said| (said.text, said.names, said.example));
            (said.collect::<Vec<_>>(), again)
        };
        for number in 0..500 {
            has(&mut problems, &format!("n{number:03}"), "no model");
        }
        has(&mut problems, "other", "shared");
        let said = |text: &str, names, example: &str| (text.to_owned(), names, example.to_owned());
        let first = vec![said("no model", 500, "n000"), said("shared", 1, "other")];
        assert_eq!(news(&problems, 0), (first, None));
        assert_eq!(news(&problems, 1), (Vec::new(), None), "nothing has changed");
        problems.remove("n000");
        assert_eq!(news(&problems, 2), (Vec::new(), Some(after(5))), "not so soon");
        // One that goes and comes back within moments is the same one.
        problems.remove("other");
        assert_eq!(news(&problems, 3), (Vec::new(), Some(after(5))));
        has(&mut problems, "other", "shared");
        assert_eq!(news(&problems, 4), (Vec::new(), Some(after(5))));
        problems.remove("n001");
        assert_eq!(news(&problems, 5), (vec![said("no model", 498, "n002")], None));
        problems.remove("other");
        assert_eq!(news(&problems, 20), (Vec::new(), None));
        has(&mut problems, "other", "shared");
        assert_eq!(news(&problems, 21), (vec![said("shared", 1, "other")], None));
    }

    #[test]
    fn nothing_is_gathered_while_no_problem_comes_or_goes() {
        let mut together = Together::default();
        let problem = Problem {
            text: "no model".to_owned(),
            since: Instant::now(),
        };
        let problems = BTreeMap::from([("one".to_owned(), problem)]);
        assert_eq!(together.news(&problems, Instant::now()), (Vec::new(), None));
    }

    #[test]
    fn the_last_list_makes_it_everybodys_turn_and_nothing_is_done_before() {
        // How many lists have come.
        let mut lists = 0;
        let mut turns = |lists_now: u32| {
            let touched = |index: &mut u32| {
                *index = lists_now;
                BTreeSet::from(["one".to_owned()])
            };
            let all = |_: &u32| BTreeSet::from(["one".to_owned(), "two".to_owned()]);
            turns(&mut lists, |lists| *lists >= 2, touched, all).len()
        };
        assert_eq!([turns(1), turns(1), turns(2), turns(2)], [0, 0, 2, 1]);
    }
}
