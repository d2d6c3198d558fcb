//! Who of several does the work: one holds a Lease of the cluster (`coordination.k8s.io`), the others wait for it.
//!
//! ```text
//! record ─► contest: read, claim, go on, hand over ─► gate: in this term, until then
//! ```
//!
//! Clocks of the machines need not agree: a leader stops [`Timing::renew`] after it began its last sign of life that
//! arrived, and others take over when they have seen none for [`Timing::lease`], which is longer. A leader that cannot
//! reach the cluster so stops by itself, and stops writing; nothing is deleted for that.

mod contest;
mod record;

pub use contest::Timing;

use crate::cluster::LeadershipGate;
use crate::error::within;
use akash_provider_core::error::{Error, ErrorKind};
use contest::{Contest, Plan, Stored};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde::Serialize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Who contends for what.
#[derive(Debug, Clone)]
pub struct ElectionConfig {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease: one of each kind of work.
    pub name: String,
    /// Who we are, for people and to tell us from the others: no two may have the same.
    pub identity: String,
    /// How long a leadership lasts.
    pub timing: Timing,
    /// Limit of one call to the API server.
    pub call_timeout: Duration,
}

/// How an election stands, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ElectionStatus {
    /// Who we are.
    pub identity: String,
    /// We lead.
    pub is_leader: bool,
    /// The term that we lead in, counted by the Lease.
    pub term: Option<u64>,
    /// Who leads as far as we know; `None` where nobody does, or nothing is known.
    pub holder: Option<String>,
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
    status: Arc<Mutex<ElectionStatus>>,
    stopping: CancellationToken,
    /// Done once it has handed over.
    ended: CancellationToken,
    #[expect(dead_code, reason = "dropping it ends it")]
    task: AbortOnDropHandle<()>,
}

impl Election {
    /// Begins to contend. It needs the runtime of tokio.
    #[must_use]
    pub fn start(client: &Client, config: ElectionConfig) -> Self {
        let (gate, stopping, ended) = (
            LeadershipGate::new(false),
            CancellationToken::new(),
            CancellationToken::new(),
        );
        let status = Arc::new(Mutex::new(ElectionStatus {
            identity: config.identity.clone(),
            ..ElectionStatus::default()
        }));
        let contender = Contender {
            api: Api::namespaced_with(client.clone(), &config.namespace, &record::resource()),
            contest: Contest::new(config.identity.clone(), config.timing),
            config,
            origin: Instant::now(),
            gate: gate.clone(),
            status: Arc::clone(&status),
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
            status,
            stopping,
            ended,
            task: AbortOnDropHandle::new(task),
        }
    }

    /// Open while we lead. A clone is the same one.
    #[must_use]
    pub fn gate(&self) -> LeadershipGate {
        self.gate.clone()
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> ElectionStatus {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Asked for now: a leadership ends by itself.
        status.term = self.gate.term();
        status.is_leader = status.term.is_some();
        status
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
    api: Api<DynamicObject>,
    config: ElectionConfig,
    contest: Contest,
    origin: Instant,
    gate: LeadershipGate,
    status: Arc<Mutex<ElectionStatus>>,
    /// The Lease could be asked about once, so that there is an election.
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
            tokio::select! {
                () = until.cancelled() => break,
                () = sleep(pause) => {}
            }
        }
        self.gate.set(false);
        if let Some(plan) = self.contest.release() {
            // Others find out by themselves where this fails.
            if let Err(error) = self.carry_out(&plan).await {
                tracing::warn!(%error, "the leadership is not handed over, and ends by itself");
            }
        }
    }

    /// One call, what follows of it, and how long nothing need be done.
    async fn round(&mut self) -> Duration {
        let begun = self.now();
        let plan = self.contest.plan(begun);
        let reads = plan == Plan::Read;
        let outcome = self.carry_out(&plan).await;
        let mut error = None;
        match outcome {
            Ok(stored) => {
                self.has_seen_it = true;
                match stored {
                    Some(stored) if !reads => self.contest.wrote(&plan, stored, begun, self.now()),
                    stored => self.contest.saw(stored, self.now()),
                }
            }
            Err(failed) => {
                self.contest.failed();
                // Somebody else wrote first: that is no failure.
                let lost = matches!(failed.kind(), ErrorKind::Conflict);
                error = (!lost || reads).then_some(failed);
            }
        }
        let alone = self.is_alone(error.as_ref());
        self.publish(alone, error.map(|error| error.message().to_owned()));
        if alone {
            return self.lease();
        }
        // What was read may be free: it is claimed at once.
        let claims = reads && !matches!(self.contest.plan(self.now()), Plan::Read);
        if claims && self.gate.term().is_none() {
            return Duration::ZERO;
        }
        self.contest.pause(self.now())
    }

    /// True where an election was refused from the start, and for a while: a right that was just given takes a moment to
    /// count, and whoever has it already must not be met by one that thinks there is no election.
    fn is_alone(&mut self, error: Option<&Error>) -> bool {
        let is_denied = error.is_some_and(|error| matches!(error.kind(), ErrorKind::Denied));
        if self.has_seen_it || !is_denied {
            self.denied_since = None;
            return false;
        }
        self.denied_since.get_or_insert_with(Instant::now).elapsed() >= self.lease()
    }

    fn publish(&self, alone: bool, error: Option<String>) {
        let leads = self.contest.leads(self.now());
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        match leads {
            _ if alone => self.gate.set(true),
            Some((term, until)) => self.gate.set_until(term, self.origin + until),
            None => self.gate.set(false),
        }
        let holder = self.contest.holder().map(str::to_owned);
        let is_leader = alone || leads.is_some();
        if status.is_leader != is_leader {
            let (identity, lease) = (&self.config.identity, &self.config.name);
            let holder = holder.as_deref();
            tracing::info!(lease, identity, is_leader, holder, "the leadership changes");
        }
        if alone && !status.is_alone {
            let (lease, error) = (&self.config.name, error.as_deref());
            let error = error.unwrap_or_default();
            tracing::warn!(
                lease,
                error,
                "no election is allowed: run no second one beside this one"
            );
        } else if let (Some(error), None) = (&error, &status.error) {
            tracing::warn!(lease = self.config.name, error, "the election cannot go on");
        }
        *status = ElectionStatus {
            identity: self.config.identity.clone(),
            is_leader,
            term: leads.map(|(term, _)| term),
            holder,
            is_alone: alone,
            error,
        };
    }

    async fn carry_out(&self, plan: &Plan) -> Result<Option<Stored>, Error> {
        let (name, limit) = (self.config.name.as_str(), self.config.call_timeout);
        let answer = match plan {
            Plan::Read => within(limit, "read the Lease of the leader", self.api.get_opt(name)).await?,
            Plan::Create(claim) => {
                let lease = record::new(&self.config.namespace, name, claim, self.lease());
                let params = PostParams::default();
                let made = self.api.create(&params, &lease);
                Some(within(limit, "make the Lease of the leader", made).await?)
            }
            Plan::Replace(claim, version) => {
                let patch = record::patch(claim, version, self.lease());
                let params = PatchParams::default();
                let patch = Patch::Merge(&patch);
                let written = self.api.patch(name, &params, &patch);
                Some(within(limit, "write the Lease of the leader", written).await?)
            }
        };
        Ok(answer.as_ref().map(record::read))
    }

    fn lease(&self) -> Duration {
        self.config.timing.sane().lease
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}
