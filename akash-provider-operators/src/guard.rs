//! Decides when objects are deleted because their record is missing. The decision is pure; the time is an argument.
//!
//! ```text
//! record missing ─► SETTLE ─► records listed, definition read ─┬─ record absent ─► objects deleted
//!                                                              └─ anything else ─► read again
//!        ├─ many records missing within WINDOW, or the definition replaced ─► held until confirmed
//!        └─ no reason for the absence ─► held until there is one, or until confirmed
//! ```
//!
//! A deleted CustomResourceDefinition reports every record as deleted, so a `DELETED` event alone proves nothing. A
//! hold on a name ends when the record of the name exists again, when other clients delete its objects, or when an
//! administrator confirms the deletion.

pub(super) mod evidence;

use akash_provider_kube_kernel::audit::MissingRecord;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// Delay before the first deletion, so that all deletions of a burst are counted.
const SETTLE: Duration = Duration::from_secs(2);
/// Records that go missing within this interval are counted together.
const WINDOW: Duration = Duration::from_secs(60);
/// Duration for which a permitted deletion counts in later decisions. Must be longer than [`RETRY`].
const REMEMBER: Duration = Duration::from_secs(300);
/// Number of records that can disappear together without a confirmation, if other records remain. The number
/// is above 1, because one closed lease can have several records.
const FREE: usize = 5;
/// Divisor for large clusters: one tenth of all records can disappear together without a confirmation.
const SHARE: usize = 10;
/// Interval at which a waiting deletion is checked again.
const RETRY: Duration = Duration::from_secs(5);
/// Time after which a waiting deletion is logged. The namespace of a closed lease is usually deleted earlier.
const REPORT: Duration = Duration::from_secs(30);
/// Remedy in messages about held deletions.
const REMEDY: &str = "restore the records, or confirm the deletion with `provider-daemon reconcile --confirm`, or with \
                      `provider-daemon operator NAME confirm` or `provider-operators NAME confirm` in the pod of a \
                      stand-alone operator";

/// Evidence that records are missing: a complete list of the records, and the UID of their
/// CustomResourceDefinition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AbsenceEvidence {
    /// Time directly before the list was requested.
    pub(super) asked: Instant,
    /// UID of the established CustomResourceDefinition, read after the list.
    pub(super) definition: String,
    /// Index keys of the listed records.
    pub(super) records: BTreeSet<String>,
}

/// Deletions that wait for the confirmation of an administrator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Hold {
    /// Number of names (hostnames or Services) that have objects but no record.
    pub names: usize,
    /// Seconds since the first record went missing.
    pub for_seconds: u64,
    /// Commands that end the hold.
    pub remedy: &'static str,
}

/// State of the deletion after the record of a hostname or Service disappeared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeletionState {
    /// The deletion waits until [`SETTLE`] has elapsed and evidence confirms that the record is missing.
    Pending,
    /// The reason for the missing record is unknown. The deletion waits for a reason, or for a confirmation
    /// by an administrator.
    Unexplained,
    /// Too many records are missing, or their definition was replaced. The deletion waits for a confirmation
    /// by an administrator.
    Held,
    /// An administrator confirmed the deletion. The deletion waits for evidence that the record is missing.
    Confirmed,
    /// The objects of the name may be deleted.
    Released,
}

#[derive(Debug, Clone, Copy)]
struct Missing {
    since: Instant,
    state: DeletionState,
}

/// Why a deletion waits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// Reason why the deletion waits. The status shows this reason.
    pub(super) why: String,
    /// Time at which the deletion is reviewed again. `None` if only an event can change the decision.
    pub(super) again: Option<Instant>,
    /// True if the deletion requires new evidence.
    pub(super) reads: bool,
}

/// Names with missing records, and the evidence that these records are missing.
#[derive(Debug, Default)]
pub(super) struct Guard {
    missing: BTreeMap<String, Missing>,
    /// Times of the deletions that were permitted without a confirmation, within the last [`REMEMBER`].
    released: VecDeque<Instant>,
    /// UID of the CustomResourceDefinition; `None` before the definition was read.
    definition: Option<String>,
    /// Time at which a new UID of the CustomResourceDefinition was first observed.
    replaced: Option<Instant>,
    evidence: Option<AbsenceEvidence>,
    /// Error of the last attempt to read the evidence; `None` after a success.
    problem: Option<String>,
    /// Time at which the held deletions are logged; `None` after they were logged.
    report: Option<Instant>,
}

impl DeletionState {
    const fn is_held(self) -> bool {
        matches!(self, Self::Held | Self::Unexplained)
    }
}

impl Guard {
    /// Decides whether the objects of `name` may be deleted. `record` is the missing record of the name;
    /// `declared` is the number of existing records.
    ///
    /// # Errors
    /// Returns why the deletion waits.
    pub(super) fn judge(
        &mut self,
        name: &str,
        record: &MissingRecord,
        declared: usize,
        now: Instant,
    ) -> Result<(), Wait> {
        let pending = Missing {
            since: now,
            state: DeletionState::Pending,
        };
        let Missing { since, state } = *self.missing.entry(name.to_owned()).or_insert(pending);
        let wait = |why: &str, again, reads| {
            let why = format!("deletion postponed, record missing: {why}");
            Err(Wait { why, again, reads })
        };
        match state {
            DeletionState::Released => return Ok(()),
            DeletionState::Pending if now < since + SETTLE => {
                return wait(
                    "the record has been missing for less than 2 s",
                    Some(since + SETTLE),
                    false,
                );
            }
            DeletionState::Pending | DeletionState::Unexplained => {
                self.explain(name, record.has_reason, now);
                self.hold_many(since, declared, now);
            }
            DeletionState::Held | DeletionState::Confirmed => {}
        }
        let state = self.missing.get(name).map(|missing| missing.state);
        if state.is_some_and(DeletionState::is_held) {
            self.report_hold(now);
        }
        if state == Some(DeletionState::Held) {
            let why = format!(
                "many records are missing at the same time, or the CustomResourceDefinition of the records was replaced; {REMEDY}"
            );
            return wait(&why, self.report, false);
        }
        if state == Some(DeletionState::Unexplained) {
            let why = format!(
                "the record was missing at the start, and no Manifest shows that the lease removed the name; {REMEDY}"
            );
            return wait(&why, Some(now + RETRY), false);
        }
        let evidence = self.evidence.as_ref().filter(|evidence| evidence.asked >= since);
        if evidence.is_some_and(|evidence| !evidence.records.contains(&record.key)) {
            self.release(name, now);
            return Ok(());
        }
        let why = self
            .problem
            .as_deref()
            .unwrap_or("the list of the records is pending");
        wait(why, Some(now + RETRY), true)
    }

    /// Removes a name that has a record again, or that has no objects.
    pub(super) fn clear(&mut self, name: &str) {
        let was_held = self
            .missing
            .remove(name)
            .is_some_and(|missing| missing.state.is_held());
        if was_held && self.held_records().next().is_none() {
            if self.report.is_none() {
                tracing::info!(
                    "deletion of objects no longer waits for a confirmation: the missing records were restored, or other clients deleted the objects"
                );
            }
            self.report = None;
        }
    }

    /// Stores the evidence for deletions: the current records and their definition.
    pub(super) fn learn(&mut self, evidence: AbsenceEvidence) {
        if self
            .definition
            .as_ref()
            .is_some_and(|definition| *definition != evidence.definition)
        {
            self.replaced = Some(evidence.asked);
        }
        self.definition = Some(evidence.definition.clone());
        self.evidence = Some(evidence);
        self.problem = None;
    }

    /// Stores the reason why records or their definition cannot be read. Returns true if records are missing
    /// and the reason has changed.
    pub(super) fn fail(&mut self, problem: String, is_absent: bool) -> bool {
        if is_absent {
            // The definition that comes next is another one.
            self.definition = Some(String::new());
        }
        let is_new = self.problem.as_ref() != Some(&problem);
        self.problem = Some(problem);
        is_new && !self.missing.is_empty()
    }

    /// Confirms the held deletions and returns the number of confirmed names.
    pub(super) fn confirm(&mut self) -> usize {
        let held_records = self
            .missing
            .values_mut()
            .filter(|missing| missing.state.is_held());
        let confirmed = held_records
            .map(|missing| missing.state = DeletionState::Confirmed)
            .count();
        self.report = None;
        confirmed
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.missing.keys()
    }

    pub(super) fn hold(&self, now: Instant) -> Option<Hold> {
        let since = self.held_records().map(|missing| missing.since).min()?;
        Some(Hold {
            names: self.held_records().count(),
            for_seconds: now.saturating_duration_since(since).as_secs(),
            remedy: REMEDY,
        })
    }

    fn held_records(&self) -> impl Iterator<Item = &Missing> {
        self.missing.values().filter(|missing| missing.state.is_held())
    }

    fn release(&mut self, name: &str, now: Instant) {
        if let Some(missing) = self.missing.get_mut(name) {
            // What an operator confirmed does not count against later deletions.
            if missing.state == DeletionState::Pending {
                self.released.push_back(now);
            }
            missing.state = DeletionState::Released;
        }
    }

    /// Sets the state of a missing record. The state is `Pending` if the reason for the missing record is
    /// known, otherwise `Unexplained`.
    fn explain(&mut self, name: &str, has_reason: bool, now: Instant) {
        let state = if has_reason {
            DeletionState::Pending
        } else {
            DeletionState::Unexplained
        };
        let missing = self.missing.get_mut(name);
        let before = missing.map(|missing| std::mem::replace(&mut missing.state, state));
        if before == Some(DeletionState::Pending) && state == DeletionState::Unexplained {
            self.report = Some(now + REPORT);
        }
    }

    /// Holds deletions if many records disappeared within [`WINDOW`].
    ///
    /// After a replacement of the definition, the number of records does not matter: all deletions of records
    /// that disappeared up to [`WINDOW`] after the replacement are held.
    fn hold_many(&mut self, since: Instant, declared: usize, now: Instant) {
        while self.released.front().is_some_and(|at| *at + REMEMBER < now) {
            self.released.pop_front();
        }
        let is_near = |at: Instant| at < since + WINDOW && since < at + WINDOW;
        let counts = |missing: &&Missing| {
            matches!(
                missing.state,
                DeletionState::Pending | DeletionState::Held | DeletionState::Unexplained
            )
        };
        let missing = self.missing.values().filter(counts);
        let missing = missing.filter(|missing| is_near(missing.since)).count();
        let together = missing + self.released.iter().filter(|at| is_near(**at)).count();
        let all = declared + together;
        let is_many = together > FREE.max(all / SHARE) || (declared == 0 && together > 1);
        let replaced = self.replaced;
        let is_new = |since: Instant| replaced.is_some_and(|at| since < at + WINDOW);
        let mut has_held = false;
        for missing in self.missing.values_mut() {
            let is_held = (is_many && is_near(missing.since)) || is_new(missing.since);
            if matches!(missing.state, DeletionState::Pending | DeletionState::Unexplained) && is_held {
                missing.state = DeletionState::Held;
                has_held = true;
            }
        }
        if has_held {
            self.report = Some(now + REPORT);
        }
    }

    fn report_hold(&mut self, now: Instant) {
        if self.report.is_some_and(|at| at <= now) {
            self.report = None;
            let names = self.held_records().count();
            tracing::warn!(
                names,
                remedy = REMEDY,
                "deletion of objects waits for a confirmation, because the records of the objects are missing"
            );
        }
    }
}

#[cfg(test)]
mod tests;
