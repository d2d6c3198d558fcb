//! Who of several does the work: one leads, the others wait for it. The record of it lies in a store that all share,
//! such as a Lease of Kubernetes or a key of Redis.
//!
//! ```text
//! store ─► contest: read, claim, go on, hand over ─► gate: in this term, until then
//! ```
//!
//! Clocks of the machines need not agree, and no clock of the store counts: a leader stops [`Timing::renew`] after it
//! began its last sign of life that arrived, and others take over when they have seen none for [`Timing::lease`], which
//! is longer. A leader that cannot reach the store so stops by itself, and stops writing; nothing is deleted for that.
//!
//! ```
//! use akash_provider_core::election::{Candidate, Election, ElectionConfig, MemoryElection, Timing};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let me = Candidate { identity: "host-1".into(), ..Candidate::default() };
//! let config = ElectionConfig::new("provider", me, Timing::of(Duration::from_secs(1)));
//! let election = Election::start(MemoryElection::new(), config);
//! election.gate().begins().await;
//! assert_eq!(election.status().term, Some(1));
//! election.hand_over().await;
//! # }
//! ```

#![expect(
    clippy::disallowed_methods,
    reason = "an election lives beside the engine, in real time and in a task of its own that ends with it"
)]

#[cfg(feature = "conformance")]
pub mod conformance;
mod contest;
mod gate;
mod store;

pub use contest::Candidate;
pub use gate::LeadershipGate;
pub use store::{
    BESIDE_MAX, Beside, Claim, ElectionStore, MemoryElection, Record, Stored, TERM_LEAP, TERM_MAX, Timing,
};

use crate::error::{Error, ErrorKind};
use crate::feed::lock;
use contest::{Contest, Plan};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Pause after a write that somebody else was before.
const AFTER_CONFLICT: Duration = Duration::from_millis(50);

/// Who contends for what, and how.
#[derive(Debug, Clone)]
pub struct ElectionConfig {
    /// What is contended for, for people.
    pub name: String,
    /// Who we are.
    pub me: Candidate,
    /// How long a leadership lasts.
    pub timing: Timing,
    /// What the next leader must know where the record does not say it.
    pub kept: String,
    /// The highest term that is known to have been; a leadership that begins has a later one.
    pub known_term: u64,
    /// Longest limit of one call to the store.
    pub call_timeout: Duration,
    /// Where the store refuses every question from the start on, we lead without an election.
    pub may_be_alone: bool,
}

impl ElectionConfig {
    /// With nothing kept. A call may take a third of the lease: one that takes longer is of no use to a leadership.
    #[must_use]
    pub fn new(name: impl Into<String>, me: Candidate, timing: Timing) -> Self {
        Self {
            name: name.into(),
            me,
            timing,
            kept: String::new(),
            known_term: 0,
            call_timeout: timing.lease / 3,
            may_be_alone: false,
        }
    }
}

/// How an election stands, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ElectionStatus {
    /// Who we are.
    pub identity: String,
    /// We lead.
    pub is_leader: bool,
    /// The term that we lead in, counted by the record.
    pub term: Option<u64>,
    /// Who leads as far as we know; `None` where nobody does, or nothing is known.
    pub holder: Option<String>,
    /// The highest term that is known to have been.
    pub known_term: u64,
    /// Where the holder is asked, where it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_address: Option<String>,
    /// Settings that the leader has, or the one before had, otherwise than we.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_settings: Vec<String>,
    /// Term of the record, if no leadership can have it: it is not used, and the record is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub implausible_term: Option<u64>,
    /// No election is allowed here, so that we lead without one.
    pub is_alone: bool,
    /// What went wrong last, while it does.
    pub error: Option<String>,
}

/// A contestant at work. Dropping it ends it without a word, so that others wait for [`Timing::lease`];
/// [`Election::hand_over`] ends it with one.
#[derive(Debug)]
pub struct Election {
    gate: LeadershipGate,
    shared: Arc<Shared>,
    stopping: CancellationToken,
    /// Done once it has handed over.
    ended: CancellationToken,
    task: JoinHandle<()>,
}

/// What the task and its owner share.
#[derive(Debug, Default)]
struct Shared {
    status: Mutex<ElectionStatus>,
    /// What the next leader must know, as far as the record says it.
    kept: Mutex<String>,
    /// What is to be written there.
    to_keep: Mutex<Option<String>>,
    /// Settings to use from the next call on.
    settings: Mutex<Option<BTreeMap<String, String>>>,
    wake: Notify,
}

impl Drop for Election {
    fn drop(&mut self) {
        self.task.abort();
        // It renews no more, and whoever holds the gate need not wait for the end of the term.
        self.gate.set(false);
    }
}

impl Election {
    /// Begins to contend. It needs the runtime of tokio.
    #[must_use]
    pub fn start(store: impl ElectionStore, config: ElectionConfig) -> Self {
        let (gate, stopping, ended) = (
            LeadershipGate::new(false),
            CancellationToken::new(),
            CancellationToken::new(),
        );
        let shared = Arc::new(Shared::default());
        lock(&shared.status).identity.clone_from(&config.me.identity);
        lock(&shared.kept).clone_from(&config.kept);
        let contender = Contender {
            store: Box::new(store),
            contest: Contest::new(config.me.clone(), config.kept.clone(), config.timing)
                .after_term(config.known_term),
            config,
            origin: Instant::now(),
            gate: gate.clone(),
            shared: Arc::clone(&shared),
            has_seen_it: false,
            denied_since: None,
        };
        let (until, done) = (stopping.clone(), ended.clone().drop_guard());
        let task = tokio::spawn(async move {
            let _done = done;
            contender.run(until).await;
        });
        Self {
            gate,
            shared,
            stopping,
            ended,
            task,
        }
    }

    /// Open while we lead. A clone is the same one.
    #[must_use]
    pub fn gate(&self) -> LeadershipGate {
        self.gate.clone()
    }

    /// True where its task has panicked: nobody here will ever lead.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.task.is_finished() && !self.stopping.is_cancelled()
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> ElectionStatus {
        let mut status = lock(&self.shared.status).clone();
        // Asked for now: a leadership ends by itself.
        status.term = self.gate.term();
        status.is_leader = status.term.is_some();
        status
    }

    /// What the leader before us kept, once we lead; before that what the record said last.
    #[must_use]
    pub fn kept(&self) -> String {
        lock(&self.shared.kept).clone()
    }

    /// Keeps this for the next leader, while we lead; it is written at once, and again until that succeeds.
    ///
    /// # Errors
    /// As a text of JSON it is longer than half of [`BESIDE_MAX`].
    pub fn keep(&self, kept: String) -> Result<(), Error> {
        let alone = Beside {
            kept: kept.clone(),
            ..Beside::default()
        };
        let (length, most) = (alone.to_json().len(), BESIDE_MAX / 2);
        if length > most {
            let message = format!("{length} bytes are to be kept for the next leader, more than {most}");
            return Err(Error::new(
                ErrorKind::Invalid,
                "keep for the next leader",
                message,
            ));
        }
        *lock(&self.shared.to_keep) = Some(kept);
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Replaces the settings that all instances must have alike. A leader writes them at once, a standby compares them with
    /// those of the leader.
    pub fn set_settings(&self, settings: BTreeMap<String, String>) {
        *lock(&self.shared.settings) = Some(settings);
        self.shared.wake.notify_one();
    }

    /// Leads no more from here on, and tells the others, so that they need not wait. What the gate guards should have
    /// ended before.
    pub async fn hand_over(&self) {
        self.stopping.cancel();
        self.ended.cancelled().await;
    }
}

/// The task of an election.
struct Contender {
    store: Box<dyn ElectionStore>,
    config: ElectionConfig,
    contest: Contest,
    origin: Instant,
    gate: LeadershipGate,
    shared: Arc<Shared>,
    /// The record could be asked about once, so that there is an election.
    has_seen_it: bool,
    /// Since when nothing but refusals came, where it could not.
    denied_since: Option<Instant>,
}

impl Contender {
    async fn run(mut self, until: CancellationToken) {
        while !until.is_cancelled() {
            let pause = tokio::select! {
                biased;
                () = until.cancelled() => break,
                pause = self.round() => pause,
            };
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                () = until.cancelled() => break,
                () = sleep(pause) => {}
                () = shared.wake.notified() => {}
            }
        }
        self.gate.set(false);
        self.take_kept();
        self.release().await;
    }

    /// Once more where the first try fails: what it knows may be of before a write that was cut off by the end.
    async fn release(&mut self) {
        if !self.contest.holds() {
            return;
        }
        let mut failure = None;
        for _ in 0..2 {
            if let Some(plan) = self.contest.release() {
                match self.carry_out(&plan).await {
                    Ok(_) => return,
                    Err(error) => failure = Some(error),
                }
            }
            match self.carry_out(&Plan::Read).await {
                Ok(stored) => {
                    if !self.contest.still_holds(stored) {
                        return;
                    }
                }
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        if let Some(error) = failure {
            tracing::warn!(%error, "the leadership is not handed over, and ends by itself");
        }
    }

    fn take_kept(&mut self) {
        let mut waiting = lock(&self.shared.to_keep);
        if let Some(kept) = waiting.take()
            && !self.contest.keep_for_the_next(kept)
        {
            tracing::debug!("what a leader kept is not kept: it leads no more");
        }
    }

    fn take_settings(&mut self) {
        let settings = lock(&self.shared.settings).take();
        if let Some(settings) = settings {
            let now = self.now();
            self.contest.set_settings(settings, now);
        }
    }

    /// One call, what follows of it, and how long nothing need be done.
    async fn round(&mut self) -> Duration {
        self.take_kept();
        self.take_settings();
        let begun = self.now();
        let before = self.contest.other_settings();
        let plan = self.contest.plan(begun);
        let reads = plan == Plan::Read;
        let outcome = self.carry_out(&plan).await;
        let (mut error, mut lost) = (None, false);
        let took = self.now().saturating_sub(begun);
        match outcome {
            Ok(stored) => {
                self.has_seen_it = true;
                self.contest.got_response(took);
                match stored {
                    Some(stored) if !reads => {
                        self.contest.wrote(&plan, stored, begun, self.now());
                        self.warn_of_settings(&plan, &before);
                    }
                    stored => self.contest.saw(stored, self.now()),
                }
            }
            // Another instance wrote first, which is not a failure.
            Err(failed) if !reads && matches!(failed.kind(), ErrorKind::Conflict) => {
                self.contest.got_response(took);
                self.contest.failed();
                lost = true;
            }
            Err(failed) => {
                self.contest.got_no_response(took);
                error = Some(failed);
            }
        }
        let alone = self.is_alone(error.as_ref());
        let error = error.map(|error| error.message().to_owned());
        self.publish(alone, error.or_else(|| self.implausible_term()));
        if alone {
            return self.lease();
        }
        if lost {
            // Soon, for it may be another one that leads now.
            return AFTER_CONFLICT;
        }
        // What was read may be free: it is claimed at once.
        let claims = reads && !matches!(self.contest.plan(self.now()), Plan::Read);
        if claims && self.gate.term().is_none() {
            return Duration::ZERO;
        }
        self.contest.pause(self.now())
    }

    /// Describes the term of the record if no leadership can have it.
    fn implausible_term(&self) -> Option<String> {
        let term = self.contest.implausible()?;
        Some(format!(
            "implausible term {term}, not used: the next term is {}; the record is replaced after one lease without a \
             heartbeat, or by the next heartbeat of the leader",
            self.contest.highest_term().saturating_add(1)
        ))
    }

    /// True where an election was refused from the start, and for a while: a right that was just given takes a moment to
    /// count, and whoever has it already must not be met by one that thinks there is no election.
    fn is_alone(&mut self, error: Option<&Error>) -> bool {
        let is_denied = error.is_some_and(|error| matches!(error.kind(), ErrorKind::Denied));
        if self.has_seen_it || !is_denied || !self.config.may_be_alone {
            self.denied_since = None;
            return false;
        }
        self.denied_since.get_or_insert_with(Instant::now).elapsed() >= self.lease()
    }

    fn warn_of_settings(&self, plan: &Plan, before: &[String]) {
        if let Plan::Replace(claim, _) = plan
            && claim.begins
            && !before.is_empty()
        {
            let (name, settings) = (&self.config.name, before.join(", "));
            tracing::warn!(
                name,
                settings,
                "it leads with other settings than the leader before"
            );
        }
    }

    fn publish(&self, alone: bool, error: Option<String>) {
        let leads = self.contest.leads(self.now());
        // Before the gate opens: whoever begins to lead reads it then.
        *lock(&self.shared.kept) = self.contest.kept().to_owned();
        let mut status = lock(&self.shared.status);
        match leads {
            _ if alone => self.gate.set(true),
            Some((term, until)) => self.gate.set_until(term, self.origin + until),
            None => self.gate.set(false),
        }
        let record = self.contest.record();
        let holder = record.and_then(|record| record.holder.clone());
        let address = record
            .filter(|_| holder.is_some())
            .map(|record| record.beside.address.clone());
        let is_leader = alone || leads.is_some();
        let (name, identity) = (&self.config.name, &self.config.me.identity);
        if status.is_leader != is_leader {
            let (holder, term) = (holder.as_deref(), leads.map(|(term, _)| term));
            tracing::info!(name, identity, is_leader, term, holder, "the leadership changes");
        }
        let mut other_settings = status.other_settings.clone();
        if record.is_some() {
            other_settings = self.contest.other_settings();
            if other_settings != status.other_settings && !other_settings.is_empty() {
                let settings = other_settings.join(", ");
                tracing::warn!(name, identity, settings, holder, "the leader has other settings");
            }
        }
        if alone && !status.is_alone {
            let error = error.as_deref().unwrap_or_default();
            tracing::warn!(
                name,
                error,
                "no election is allowed: run no second one beside this one"
            );
        } else if let (Some(error), None) = (&error, &status.error) {
            let place = self.store.place();
            tracing::warn!(name, place, error, "the election cannot go on");
        }
        *status = ElectionStatus {
            identity: identity.clone(),
            is_leader,
            term: leads.map(|(term, _)| term),
            holder,
            known_term: self.contest.highest_term(),
            holder_address: address.filter(|address| !address.is_empty()),
            other_settings,
            implausible_term: self.contest.implausible(),
            is_alone: alone,
            error,
        };
    }

    async fn carry_out(&self, plan: &Plan) -> Result<Option<Stored>, Error> {
        let calling = async {
            match plan {
                Plan::Read => self.store.read().await,
                Plan::Create(claim) => self.store.create(claim).await.map(Some),
                Plan::Replace(claim, version) => self.store.replace(claim, version).await.map(Some),
            }
        };
        let limit = self.contest.call_limit().min(self.config.call_timeout);
        timeout(limit, calling).await.unwrap_or_else(|_| {
            let message = format!("{}: no answer within {limit:?}", self.store.place());
            Err(Error::new(ErrorKind::Timeout, "ask for the leadership", message))
        })
    }

    fn lease(&self) -> Duration {
        self.config.timing.sane().lease
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}

#[cfg(test)]
mod tests;
