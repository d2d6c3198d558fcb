//! One lease's workload: deploy, watch, update, end, tear down.
//!
//! Two lanes run side by side, each with at most one call in flight:
//! ```text
//!  cluster:  Idle ─► Deploying ─► Idle …  ─► TearingDown ─► Gone
//!                        └─► Retry            └─► Retry (nothing is given up, capacity is held)
//!  chain:    Idle ─► Planned ─► Sending ─► AwaitEvent      (ending it ourselves: close, or reclaim then close)
//!                        └──► Looking ─► Confirmed         (evidence that the lease is over)
//! ```
//! A workload is torn down only in `Confirmed`: the chain's own record shows the lease over, read at a height
//! later than what we heard, from nodes that agree (see [`evidence`]). Only known unhealthy time counts towards
//! giving a lease up.
//!
//! Length: one machine; both lanes and what they say to each other are read together.

pub mod chain;
mod desired;
pub mod evidence;
mod health;

pub use chain::ChainLane;
pub use evidence::{Heard, HeardBy};

use crate::cluster::{Health, Teardown, WorkloadSpec};
use crate::engine::backoff;
use crate::engine::cx::Cx;
use crate::engine::effect::Call;
use crate::engine::phase::LeasePhase;
use crate::engine::table::Machine;
use crate::engine::timers::Deadlines;
use crate::error::{ErrorKind, Failure};
use crate::record::{Cover, hide_in_spec};
use crate::types::{
    BlockTime, CloseReason, DecCoin, Event, Height, LeaseId, LeaseRecord, Mono, Observed, Reclamation,
    TxOutcome,
};
use desired::Desired;
use health::HealthClock;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// How soon a teardown in progress is asked for again.
const TEARDOWN_POLL: Duration = Duration::from_secs(2);

/// What the cluster is doing for this lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ClusterLane {
    /// No call is in flight, and none is to be tried again.
    Idle,
    /// `Deploy` of this generation is in flight.
    Deploying(u64),
    /// The last call failed; the next is due then.
    Retry(Mono),
    /// `Teardown` is in flight.
    TearingDown,
    /// Nothing of it is left.
    Gone,
}

/// We want this lease to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ending {
    /// Reason as the chain records it.
    pub reason: CloseReason,
    /// The circuit breaker, or the operator, let it pass.
    pub granted: bool,
    /// The operator wants it, whatever the lease does now.
    pub commanded: bool,
}

/// What happens to a workload.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input {
    /// An accepted manifest, and the hostnames that go with the one before.
    Desire(Arc<WorkloadSpec>, Vec<String>),
    /// The tenant sent a manifest or moved hostnames: a failed deploy is repeated at once, and the objects of a version that
    /// was deployed are applied again.
    DeployNow,
    /// The cluster responds again after an outage: a failed call is repeated soon.
    RetrySoon,
    /// The cluster has it from before.
    Adopt(Arc<WorkloadSpec>),
    /// The cluster has it, perhaps from another leader: that counts.
    Relearn(Arc<WorkloadSpec>),
    /// Of `Deploy`, of the generation in the lane.
    Deployed(Result<(), Failure>),
    /// Of `Teardown`; one in progress is asked for again.
    TornDown(Result<Teardown, Failure>),
    /// What is known of its health.
    Health(Health),
    /// It is to end; `granted` when the circuit breaker does not apply.
    End {
        /// Reason as the chain records it.
        reason: CloseReason,
        /// By command of the operator.
        granted: bool,
    },
    /// The circuit breaker lets its close or teardown pass.
    Granted,
    /// This reason to end it is gone.
    CancelEnd(CloseReason),
    /// The chain said it is over, or no longer lists it.
    Heard(Heard),
    /// Reclamation has started; from this block time on the lease may be closed.
    Reclaiming(BlockTime),
    /// The chain's record of it, from a snapshot: it is live.
    Live(Option<Reclamation>),
    /// Of `FetchLease`, with the height it was read at.
    Seen(Box<Result<Observed<LeaseRecord>, Failure>>),
    /// Of `Broadcast`, of the announcement or the close.
    Tx(Result<TxOutcome, Failure>),
    /// Time passed or permissions changed.
    Wake,
}

/// What a workload wants.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// A call on the cluster lane.
    Cluster(Call),
    /// A call on the chain lane.
    Chain(Call),
    /// Ask the circuit breaker; answer `Granted`, at once or when it is released.
    AskBreaker,
    /// The question is moot.
    CancelBreaker,
    /// Publish a fact about the lease or its workload.
    Publish(Event),
    /// The workload of which no lease was known has a live one.
    Found(Box<LeaseRecord>),
    /// It is over and nothing is left: forget the lease.
    Forget(Option<CloseReason>),
    /// This input was not expected.
    Unexpected,
}

/// The machine of one lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Workload {
    lease: LeaseId,
    price: Option<DecCoin>,
    reclamation: Option<Reclamation>,
    desired: Option<Desired>,
    applied: u64,
    /// The tenant sent the deployed version again: its objects are applied once more, because others may have changed them.
    applies_again: bool,
    cluster: ClusterLane,
    cluster_attempts: u32,
    chain: ChainLane,
    chain_attempts: u32,
    health: HealthClock,
    /// Nothing of it runs, and the cluster says that what is wanted can never run.
    refused: bool,
    ending: Option<Ending>,
    heard: Option<Heard>,
    closed_because: Option<CloseReason>,
    last_error: Option<Arc<str>>,
}

impl Workload {
    /// Covers the secrets of its manifest.
    pub(in crate::engine) fn hide(&mut self, cover: &Cover<'_>) {
        if let Some(desired) = &mut self.desired {
            hide_in_spec(&mut desired.deployment, cover);
        }
    }

    /// A lease of ours, without manifest yet.
    #[must_use]
    pub fn leased(lease: &LeaseId, price: &DecCoin, reclamation: Option<Reclamation>) -> Self {
        Self {
            price: Some(price.clone()),
            reclamation,
            ..Self::orphan(lease)
        }
    }

    /// A workload of which no lease is known: it is looked at, and nothing more without evidence.
    #[must_use]
    pub fn orphan(lease: &LeaseId) -> Self {
        Self {
            lease: lease.clone(),
            price: None,
            reclamation: None,
            desired: None,
            applied: 0,
            applies_again: false,
            cluster: ClusterLane::Idle,
            cluster_attempts: 0,
            chain: ChainLane::Idle,
            chain_attempts: 0,
            health: HealthClock::default(),
            refused: false,
            ending: None,
            heard: None,
            closed_because: None,
            last_error: None,
        }
    }

    /// What the cluster is doing.
    #[must_use]
    pub const fn cluster_lane(&self) -> &ClusterLane {
        &self.cluster
    }

    /// What the chain lane is doing.
    #[must_use]
    pub const fn chain_lane(&self) -> &ChainLane {
        &self.chain
    }

    /// Price per block; `None` for an orphan.
    #[must_use]
    pub const fn price(&self) -> Option<&DecCoin> {
        self.price.as_ref()
    }

    /// What it is to run, if a manifest is there.
    #[must_use]
    pub fn deployment(&self) -> Option<&Arc<WorkloadSpec>> {
        self.desired.as_ref().map(|d| &d.deployment)
    }

    /// Version the cluster took last; 0 for none.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.applied
    }

    /// True when the cluster took the newest version and no call is due or in flight.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let newest = self.desired.as_ref().map(|d| d.generation);
        self.cluster == ClusterLane::Idle && newest == Some(self.applied)
    }

    /// What is known of its health.
    #[must_use]
    pub const fn health(&self) -> Health {
        self.health.health()
    }

    /// Known unhealthy time up to `now`.
    #[must_use]
    pub fn known_bad(&self, now: Mono) -> Duration {
        self.health.known_bad(now)
    }

    /// Why and how far we are ending it.
    #[must_use]
    pub const fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// Lowers the height that evidence of its end must be above.
    pub(crate) fn lower_heights(&mut self, to: Height) {
        if let Some(heard) = &mut self.heard {
            heard.height = to.min(heard.height);
        }
    }

    /// What we heard of its end.
    #[must_use]
    pub const fn heard(&self) -> Option<&Heard> {
        self.heard.as_ref()
    }

    /// Last error of the backend.
    #[must_use]
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// True while nothing says that the lease is over.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        self.heard.is_none() && self.price.is_some()
    }

    /// The phase as a status says it.
    #[must_use]
    pub fn phase(&self) -> LeasePhase {
        match (&self.cluster, &self.chain) {
            (ClusterLane::Gone, _) => LeasePhase::Gone,
            (ClusterLane::TearingDown, _) | (_, ChainLane::Confirmed { .. }) => LeasePhase::Teardown,
            (_, ChainLane::Looking { .. }) => LeasePhase::Checking,
            (ClusterLane::Deploying(_), _) => LeasePhase::Deploying,
            (ClusterLane::Retry(_), _) => LeasePhase::Retrying,
            (ClusterLane::Idle, _) if self.ending.is_some() => LeasePhase::Ending,
            (ClusterLane::Idle, _) => match &self.desired {
                None => LeasePhase::WaitingForManifest,
                // A standby, or one that is told too little, does not deploy; nor is it known how the last one ended.
                Some(desired) if desired.generation > self.applied => LeasePhase::Pending,
                Some(_) => LeasePhase::Running,
            },
        }
    }

    /// Monotonic moment at which it wants a `Wake`.
    #[must_use]
    pub fn mono_deadline(&self, cx: &Cx<'_>) -> Option<Mono> {
        let cluster = match self.cluster {
            ClusterLane::Retry(at) => (!cx.stopping).then_some(at),
            ClusterLane::Idle | ClusterLane::Deploying(_) | ClusterLane::TearingDown | ClusterLane::Gone => {
                None
            }
        };
        let health = self
            .health_limit(cx)
            .and_then(|limit| self.health.deadline(limit));
        [cluster, self.chain.mono_deadline(), health]
            .into_iter()
            .flatten()
            .min()
    }

    /// Block time at which it wants a `Wake`.
    #[must_use]
    pub fn block_deadline(&self) -> Option<BlockTime> {
        self.chain.block_deadline()
    }

    /// One step: the input first, then what is due on either lane.
    #[must_use]
    pub fn transition(mut self, cx: &Cx<'_>, input: Input, out: &mut Vec<Action>) -> Self {
        match input {
            Input::Desire(deployment, purge) => self.desire(cx, deployment, purge, out),
            Input::DeployNow => self.deploy_now(),
            Input::RetrySoon => self.retry_soon(cx),
            Input::Adopt(deployment) => {
                if self.desired.is_none() {
                    self.desire(cx, deployment, Vec::new(), out);
                }
            }
            Input::Relearn(deployment) => {
                if let Some(desired) = &mut self.desired {
                    desired.purge = Vec::new();
                }
                self.desire(cx, deployment, Vec::new(), out);
            }
            Input::Deployed(result) => self.deployed(cx, result, out),
            Input::TornDown(result) => self.torn_down(cx, result, out),
            Input::Health(health) => self.health_seen(cx, health, out),
            Input::End { reason, granted } => self.end(reason, granted, out),
            Input::Granted => self.granted(out),
            Input::CancelEnd(reason) => self.call_off(reason, out),
            Input::Heard(heard) => self.hear(heard, out),
            Input::Reclaiming(deadline) => self.reclaiming(deadline),
            Input::Live(reclamation) => self.live(reclamation),
            Input::Seen(result) => self.seen(cx, *result, out),
            Input::Tx(result) => self.sent(cx, result, out),
            Input::Wake => self.watch_health(cx, out),
        }
        // The chain lane first: what it finds decides whether anything is deployed still.
        self.drive_chain(cx, out);
        self.drive_cluster(cx, out);
        self
    }

    fn desire(
        &mut self,
        cx: &Cx<'_>,
        deployment: Arc<WorkloadSpec>,
        purge: Vec<String>,
        out: &mut Vec<Action>,
    ) {
        let before = self.desired.as_ref().map(|d| &d.deployment.group);
        if before.is_some_and(|group| *group != deployment.group) {
            // How long the old one did not run says nothing of the new one.
            if std::mem::take(&mut self.refused) {
                self.health.see(cx.now.mono, Health::Unknown);
            }
            self.health.restart(cx.now.mono);
            self.call_off(CloseReason::Unstable, out);
        }
        self.desired = Some(Desired::after(self.desired.take(), deployment, purge));
        self.call_off(CloseReason::ManifestTimeout, out);
    }

    fn deploy_now(&mut self) {
        self.cluster_attempts = 0;
        self.applies_again |= self.is_settled();
        if let ClusterLane::Retry(_) = self.cluster {
            self.cluster = ClusterLane::Idle;
        }
    }

    /// The reason to end it is gone: what was not sent yet is not sent, nor sent again.
    fn call_off(&mut self, reason: CloseReason, out: &mut Vec<Action>) {
        if let Some(ending) = self.ending.filter(|e| e.reason == reason && !e.commanded) {
            self.ending = None;
            if !ending.granted {
                out.push(Action::CancelBreaker);
            }
            if let ChainLane::Planned { .. } = self.chain {
                self.chain = ChainLane::Idle;
            }
        }
    }

    fn deployed(&mut self, cx: &Cx<'_>, result: Result<(), Failure>, out: &mut Vec<Action>) {
        let ClusterLane::Deploying(generation) = self.cluster else {
            return out.push(Action::Unexpected);
        };
        match result {
            Ok(()) => {
                if self.applied == 0 {
                    // Before, it could not run.
                    self.health.restart(cx.now.mono);
                }
                self.refused = false;
                self.cluster = ClusterLane::Idle;
                self.cluster_attempts = 0;
                let is_new = generation > self.applied;
                self.applied = generation;
                self.applies_again = false;
                self.last_error = None;
                if let Some(desired) = self.desired.as_mut().filter(|d| d.generation == generation) {
                    desired.purge = Vec::new();
                }
                if is_new {
                    out.push(Action::Publish(Event::Deployed {
                        lease: self.lease.clone(),
                        generation,
                    }));
                }
            }
            Err(failure) => {
                let message = failure.message.clone();
                out.push(Action::Publish(Event::DeployFailed {
                    lease: self.lease.clone(),
                    message,
                }));
                let for_ever = failure.kind == ErrorKind::Invalid && !failure.transient;
                if for_ever && self.applied == 0 && !self.refused {
                    // It is tried on, and the time until it succeeds is known to be bad. Of an update that is refused
                    // the version before runs on, and its health is what counts.
                    self.refused = true;
                    self.health.restart(cx.now.mono);
                    self.health_seen(cx, Health::Bad, out);
                }
                self.cluster_failed(cx, failure);
            }
        }
    }

    /// The deploy that is in flight was not made yet: it becomes one of what is wanted now, if that is another.
    pub(in crate::engine) fn deploy_newest(&mut self, epoch: u64) -> Option<Call> {
        let desired = self.desired.as_mut()?;
        let is_older = matches!(self.cluster, ClusterLane::Deploying(flying) if flying < desired.generation);
        if !is_older {
            return None;
        }
        self.cluster = ClusterLane::Deploying(desired.generation);
        Some(desired.deploy(epoch))
    }

    fn torn_down(&mut self, cx: &Cx<'_>, result: Result<Teardown, Failure>, out: &mut Vec<Action>) {
        if self.cluster != ClusterLane::TearingDown {
            return out.push(Action::Unexpected);
        }
        match result {
            Ok(Teardown::Done) => {
                // Only from here on may its capacity and names go to others.
                self.cluster = ClusterLane::Gone;
                out.push(Action::Forget(self.closed_because));
            }
            Ok(Teardown::InProgress) => self.cluster = ClusterLane::Retry(cx.now.mono.plus(TEARDOWN_POLL)),
            Err(failure) => self.cluster_failed(cx, failure),
        }
    }

    fn cluster_failed(&mut self, cx: &Cx<'_>, failure: Failure) {
        self.cluster = ClusterLane::Retry(cx.now.mono.plus(backoff::after(self.cluster_attempts)));
        self.cluster_attempts = self.cluster_attempts.saturating_add(1);
        self.last_error = Some(failure.message.into());
    }

    fn retry_soon(&mut self, cx: &Cx<'_>) {
        if let ClusterLane::Retry(at) = self.cluster {
            self.cluster_attempts = 0;
            let soon = cx.now.mono.plus(backoff::after(self.cluster_attempts));
            self.cluster = ClusterLane::Retry(at.min(soon));
        }
    }

    fn health_seen(&mut self, cx: &Cx<'_>, health: Health, out: &mut Vec<Action>) {
        // What a refused deploy left half done may run well, or lack a part; the requested version does not run.
        let health = match health {
            Health::Good | Health::Out(_) if self.refused => Health::Bad,
            Health::Good | Health::Bad | Health::Unknown | Health::Out(_) => health,
        };
        if !self.health.see(cx.now.mono, health) {
            return;
        }
        // What is being torn down is expected to stop; that is no news.
        if self.heard.is_none() {
            out.push(Action::Publish(Event::HealthChanged {
                lease: self.lease.clone(),
                health,
            }));
        }
        if health == Health::Good {
            self.call_off(CloseReason::Unstable, out);
        }
        self.watch_health(cx, out);
    }

    fn watch_health(&mut self, cx: &Cx<'_>, out: &mut Vec<Action>) {
        if self
            .health_limit(cx)
            .is_some_and(|limit| self.health.known_bad(cx.now.mono) >= limit)
        {
            self.end(CloseReason::Unstable, false, out);
        }
    }

    /// The limit of known unhealthy time, where it applies.
    fn health_limit(&self, cx: &Cx<'_>) -> Option<Duration> {
        // What the cluster neither took nor refused for good cannot be unhealthy yet.
        let deployed = self.applied > 0 || self.refused;
        let watch = self.ending.is_none() && self.heard.is_none() && deployed && cx.may_write();
        cx.config.unhealthy_limit.filter(|_| watch)
    }

    fn end(&mut self, reason: CloseReason, granted: bool, out: &mut Vec<Action>) {
        // It is over already; what the breaker is asked for now is the teardown.
        if let ChainLane::Confirmed { .. } = self.chain {
            return;
        }
        match &mut self.ending {
            Some(ending) if granted => {
                if !ending.granted {
                    out.push(Action::CancelBreaker);
                }
                *ending = Ending {
                    reason,
                    granted,
                    commanded: true,
                };
            }
            Some(_) => {}
            None => {
                self.ending = Some(Ending {
                    reason,
                    granted,
                    commanded: granted,
                });
                out.push(Action::Publish(Event::LeaseEnding {
                    lease: self.lease.clone(),
                    reason,
                }));
                if !granted {
                    out.push(Action::AskBreaker);
                }
            }
        }
    }

    fn granted(&mut self, out: &mut Vec<Action>) {
        if let ChainLane::Confirmed { granted } = &mut self.chain {
            *granted = true;
        } else if let Some(ending) = &mut self.ending {
            ending.granted = true;
        } else {
            out.push(Action::Unexpected);
        }
    }

    /// Starts the next cluster call that is due and allowed.
    fn drive_cluster(&mut self, cx: &Cx<'_>, out: &mut Vec<Action>) {
        match self.cluster {
            ClusterLane::Idle => {}
            ClusterLane::Retry(at) if at <= cx.now.mono => {}
            ClusterLane::Retry(_)
            | ClusterLane::Deploying(_)
            | ClusterLane::TearingDown
            | ClusterLane::Gone => {
                return;
            }
        }
        if self.chain == (ChainLane::Confirmed { granted: true }) {
            if cx.is_standby() {
                // The leader tears it down; if it fails to, the next leader's full scan finds it.
                self.cluster = ClusterLane::Gone;
                out.push(Action::Forget(self.closed_because));
            } else if cx.may_write() {
                self.cluster = ClusterLane::TearingDown;
                out.push(Action::Cluster(Call::Teardown(self.lease.clone())));
            }
            return;
        }
        let Some(desired) = &mut self.desired else {
            return;
        };
        let wanted = desired.generation > self.applied || self.applies_again;
        // Nothing new is started under a lease that may be over, or that nobody knows; nor before it is known
        // what another leader had the cluster run.
        let may = cx.may_write() && cx.cluster_known;
        if wanted && may && self.heard.is_none() && self.price.is_some() {
            self.cluster = ClusterLane::Deploying(desired.generation);
            out.push(Action::Cluster(desired.deploy(cx.epoch())));
        } else if let ClusterLane::Retry(_) = self.cluster {
            // Whatever failed is no longer wanted or not allowed now; the next wake starts afresh.
            self.cluster = ClusterLane::Idle;
        }
    }
}

impl Machine for Workload {
    type Id = LeaseId;
    type Input = Input;
    type Action = Action;

    fn step(self, cx: &Cx<'_>, input: Input, out: &mut Vec<Action>) -> Self {
        self.transition(cx, input, out)
    }

    fn deadlines(&self, cx: &Cx<'_>) -> Deadlines {
        (self.mono_deadline(cx), self.block_deadline())
    }

    fn is_done(&self) -> bool {
        // It asks to be forgotten.
        false
    }
}
