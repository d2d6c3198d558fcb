//! Leader election among several instances of a provider: one instance leads, the others are standbys. All
//! instances share an election record in a store, such as a Kubernetes Lease or a Redis key.
//!
//! ```text
//! store ─► contest: read, claim, renew, release ─► gate: term and its deadline
//! ```
//!
//! The clocks of the instances may differ, and the clock of the store is not used. A leader stops leading
//! when the time [`Timing::renew`] has passed since the start of its last successful heartbeat. A standby
//! takes over when it has observed no heartbeat for the longer time [`Timing::lease`]. A leader that cannot
//! reach the store therefore stops writing before a standby takes over.
//!
//! ```
//! use akash_provider_core::election::{Candidate, Election, ElectionConfig, MemoryElection, Timing};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let me = Candidate::new("host-1");
//! let config = ElectionConfig::new("provider", me, Timing::for_lease(Duration::from_secs(1)));
//! let election = Election::start(MemoryElection::new(), config);
//! election.gate().opened().await;
//! assert_eq!(election.status().term, Some(1));
//! election.release().await;
//! # }
//! ```

#![expect(
    clippy::disallowed_methods,
    reason = "an election runs in real time, outside the engine, in a task that ends with its handle"
)]

#[cfg(feature = "conformance")]
pub mod conformance;
mod contest;
mod gate;
mod store;

pub use contest::Candidate;
pub use gate::{LeadershipGate, WritePermit};
pub use store::{
    Claim, ElectionRecord, ElectionStore, LEASE_DURATION_MAX, MemoryElection, PAYLOAD_MAX, RecordPayload,
    Stored, TERM_LEAP, TERM_MAX, Timing,
};

use crate::error::{Error, ErrorKind};
use crate::feed::lock;
use contest::{Contest, ElectionStep};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Delay before the next call after a write conflict with another instance.
const AFTER_CONFLICT: Duration = Duration::from_millis(50);

/// Configuration of an election.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ElectionConfig {
    /// Name of the election, for logs and status.
    pub name: String,
    /// Identity, address and settings of this instance.
    pub me: Candidate,
    /// Timing of heartbeats and of the election lease.
    pub timing: Timing,
    /// State for the next leader, used if the election record contains no state.
    pub state: String,
    /// Highest election term that was stored before the start. A new leader uses a higher term.
    pub known_term: u64,
    /// Timeout of one call to the store.
    pub call_timeout: Duration,
    /// Allows this instance to lead without an election, after the store has denied every request for one
    /// lease duration.
    pub may_be_alone: bool,
}

impl ElectionConfig {
    /// Creates a configuration with an empty initial state. The timeout of a call is a third of the election
    /// lease.
    #[must_use]
    pub fn new(name: impl Into<String>, me: Candidate, timing: Timing) -> Self {
        Self {
            name: name.into(),
            me,
            timing,
            state: String::new(),
            known_term: 0,
            call_timeout: timing.lease / 3,
            may_be_alone: false,
        }
    }
}

/// Status of an election.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ElectionStatus {
    /// Identity of this instance.
    pub identity: String,
    /// Whether this instance leads.
    pub is_leader: bool,
    /// Term in which this instance leads. `None` if this instance does not lead.
    pub term: Option<u64>,
    /// Identity of the current leader; `None` if there is no leader or the leader is unknown.
    pub holder: Option<String>,
    /// Highest term that this instance has observed.
    pub known_term: u64,
    /// Address at which clients reach the leader. `None` if the leader published no address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_address: Option<String>,
    /// Names of the settings that differ between this instance and the last leader.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_settings: Vec<String>,
    /// Implausible term in the election record, if any. This instance does not use the term.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub implausible_term: Option<u64>,
    /// True if the store denies all requests, so that this instance leads without an election.
    pub is_alone: bool,
    /// Last error of the store. `None` after a successful call.
    pub error: Option<String>,
}

/// Handle of a running election. Dropping the handle stops the heartbeats, and a standby takes over after
/// [`Timing::lease`].
///
/// [`Election::release`] releases the leadership at once.
#[derive(Debug)]
pub struct Election {
    gate: LeadershipGate,
    shared: Arc<ElectionState>,
    stopping: CancellationToken,
    /// Cancelled after the leadership was released.
    ended: CancellationToken,
    task: JoinHandle<()>,
}

/// State shared by the task and its handle.
#[derive(Debug, Default)]
struct ElectionState {
    status: Mutex<ElectionStatus>,
    /// State for the next leader: set by this instance while it leads, otherwise copied from the election
    /// record.
    state: Mutex<String>,
    /// New state for the next leader, not written yet.
    new_state: Mutex<Option<String>>,
    /// New settings of this instance, which the next call to the store uses.
    settings: Mutex<Option<BTreeMap<String, String>>>,
    wake: Notify,
}

impl Drop for Election {
    fn drop(&mut self) {
        self.task.abort();
        // The task sends no more heartbeats, so users of the gate must not wait for the end of the term.
        self.gate.set(false);
    }
}

impl Election {
    /// Starts an election. Requires a Tokio runtime.
    #[must_use]
    pub fn start(store: impl ElectionStore, config: ElectionConfig) -> Self {
        let (gate, stopping, ended) = (
            LeadershipGate::new(false),
            CancellationToken::new(),
            CancellationToken::new(),
        );
        let shared = Arc::new(ElectionState::default());
        lock(&shared.status).identity.clone_from(&config.me.identity);
        lock(&shared.state).clone_from(&config.state);
        let contender = ElectionTask {
            store: Box::new(store),
            contest: Contest::new(config.me.clone(), config.state.clone(), config.timing)
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

    /// Returns a gate that is open while this instance leads. Clones share the same gate.
    #[must_use]
    pub fn gate(&self) -> LeadershipGate {
        self.gate.clone()
    }

    /// Returns true if the election task has panicked. After a panic, this instance never leads again.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.task.is_finished() && !self.stopping.is_cancelled()
    }

    /// Returns the status of the election.
    #[must_use]
    pub fn status(&self) -> ElectionStatus {
        let mut status = lock(&self.shared.status).clone();
        // Read now, because a term expires without an event.
        status.term = self.gate.term();
        status.is_leader = status.term.is_some();
        status
    }

    /// Returns the state for the next leader. A standby reads this state from the election record.
    #[must_use]
    pub fn state(&self) -> String {
        lock(&self.shared.state).clone()
    }

    /// Requests an immediate write of `state` for the next leader. A failed write is retried. A standby
    /// discards the state.
    ///
    /// # Errors
    /// Returns an error when the state, encoded as a JSON string, is longer than half of [`PAYLOAD_MAX`].
    pub fn store_state(&self, state: String) -> Result<(), Error> {
        let alone = RecordPayload {
            state: state.clone(),
            ..RecordPayload::default()
        };
        let (length, most) = (alone.to_json().len(), PAYLOAD_MAX / 2);
        if length > most {
            let message = format!("the state has {length} bytes, the limit is {most}");
            return Err(Error::new(
                ErrorKind::Invalid,
                "store state for the next leader",
                message,
            ));
        }
        *lock(&self.shared.new_state) = Some(state);
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Replaces the settings that all instances must share. The leader publishes its settings. A standby
    /// compares its settings with the settings of the leader.
    pub fn set_settings(&self, settings: BTreeMap<String, String>) {
        *lock(&self.shared.settings) = Some(settings);
        self.shared.wake.notify_one();
    }

    /// Releases the leadership, so that a standby can take over at once. The caller must stop the guarded
    /// work first.
    pub async fn release(&self) {
        self.stopping.cancel();
        self.ended.cancelled().await;
    }
}

struct ElectionTask {
    store: Box<dyn ElectionStore>,
    config: ElectionConfig,
    contest: Contest,
    origin: Instant,
    gate: LeadershipGate,
    shared: Arc<ElectionState>,
    /// Whether the store has accepted at least one call.
    has_seen_it: bool,
    /// Time of the first request in a series of denied requests. `None` if the last request was not denied.
    denied_since: Option<Instant>,
}

impl ElectionTask {
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
        self.take_new_state();
        self.release().await;
    }

    /// Releases the election record. Retries once, because a canceled write may have changed the version of
    /// the record.
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
            match self.carry_out(&ElectionStep::Read).await {
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
            tracing::warn!(%error, "this instance stops leading, but cannot release the election lease; a standby takes over when the lease expires");
        }
    }

    fn take_new_state(&mut self) {
        let mut waiting = lock(&self.shared.new_state);
        if let Some(state) = waiting.take()
            && !self.contest.set_state(state)
        {
            tracing::debug!("state for the next leader not stored: no longer the leader");
        }
    }

    fn take_settings(&mut self) {
        let settings = lock(&self.shared.settings).take();
        if let Some(settings) = settings {
            let now = self.now();
            self.contest.set_settings(settings, now);
        }
    }

    /// Performs one call to the store, and returns the delay until the next call.
    async fn round(&mut self) -> Duration {
        self.take_new_state();
        self.take_settings();
        let begun = self.now();
        let before = self.contest.other_settings();
        let plan = self.contest.plan(begun);
        let reads = plan == ElectionStep::Read;
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
            // Soon, because another instance may lead now.
            return AFTER_CONFLICT;
        }
        // A free record is claimed at once.
        let claims = reads && !matches!(self.contest.plan(self.now()), ElectionStep::Read);
        if claims && self.gate.term().is_none() {
            return Duration::ZERO;
        }
        self.contest.pause(self.now())
    }

    fn implausible_term(&self) -> Option<String> {
        let term = self.contest.implausible()?;
        Some(format!(
            "the election record has the implausible term {term}, which is not used: the next term is {}; the next \
             heartbeat of the leader replaces the record, or a standby does after one lease without a heartbeat",
            self.contest.highest_term().saturating_add(1)
        ))
    }

    /// Returns true if this instance leads without an election: the store has denied all requests for at
    /// least one lease duration, and no request has succeeded since the start.
    ///
    /// A shorter time is not sufficient, because another instance may have access to the store and lead.
    fn is_alone(&mut self, error: Option<&Error>) -> bool {
        let is_denied = error.is_some_and(|error| matches!(error.kind(), ErrorKind::Denied));
        if self.has_seen_it || !is_denied || !self.config.may_be_alone {
            self.denied_since = None;
            return false;
        }
        self.denied_since.get_or_insert_with(Instant::now).elapsed() >= self.lease()
    }

    fn warn_of_settings(&self, plan: &ElectionStep, before: &[String]) {
        if let ElectionStep::Replace(claim, _) = plan
            && claim.is_new_term
            && !before.is_empty()
        {
            let (name, settings) = (&self.config.name, before.join(", "));
            tracing::warn!(
                name,
                settings,
                "settings of this instance differ from those of the previous leader, use the same settings on all instances"
            );
        }
    }

    fn publish(&self, alone: bool, error: Option<String>) {
        let leads = self.contest.leads(self.now());
        // Before the gate opens, because a new leader reads the state then.
        *lock(&self.shared.state) = self.contest.state().to_owned();
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
            .map(|record| record.payload.address.clone());
        let is_leader = alone || leads.is_some();
        let (name, identity) = (&self.config.name, &self.config.me.identity);
        if status.is_leader != is_leader {
            let (holder, term) = (holder.as_deref(), leads.map(|(term, _)| term));
            tracing::info!(name, identity, is_leader, term, holder, "leadership changed");
        }
        let mut other_settings = status.other_settings.clone();
        if record.is_some() {
            other_settings = self.contest.other_settings();
            if other_settings != status.other_settings && !other_settings.is_empty() {
                let settings = other_settings.join(", ");
                tracing::warn!(
                    name,
                    identity,
                    settings,
                    holder,
                    "settings of this instance differ from those of the leader, use the same settings on all instances"
                );
            }
        }
        if alone && !status.is_alone {
            let error = error.as_deref().unwrap_or_default();
            tracing::warn!(
                name,
                error,
                "election store denied every request, this instance leads without an election: run only this instance, or grant access"
            );
        } else if let (Some(error), None) = (&error, &status.error) {
            let place = self.store.place();
            tracing::warn!(
                name,
                place,
                error,
                "cannot use the election record, retrying; check the Kubernetes API server or Redis"
            );
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

    async fn carry_out(&self, plan: &ElectionStep) -> Result<Option<Stored>, Error> {
        let calling = async {
            match plan {
                ElectionStep::Read => self.store.read().await,
                ElectionStep::Create(claim) => self.store.create(claim).await.map(Some),
                ElectionStep::Replace(claim, version) => self.store.replace(claim, version).await.map(Some),
            }
        };
        let limit = self.contest.call_limit().min(self.config.call_timeout);
        timeout(limit, calling).await.unwrap_or_else(|_| {
            let message = format!("{}: no response within {limit:?}", self.store.place());
            Err(Error::new(ErrorKind::Timeout, "request leadership", message))
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
