//! State machine of one lease's workload: deploy, monitor, update, close, tear down.
//!
//! Two lanes run concurrently, each with at most one call in flight:
//! ```text
//!  cluster:  Idle ─► Deploying ─► Idle …  ─► TearingDown ─► Gone
//!                        └─► Retry            └─► Retry (retried without limit, capacity stays reserved)
//!  chain:    Idle ─► Planned ─► Sending ─► AwaitEvent      (this provider closes, or reclaims and then closes)
//!                        └──► Fetching ─► Confirmed         (evidence that the lease is closed)
//! ```
//! A workload is torn down only in `Confirmed`. The chain lane enters this state only with evidence (see
//! [`evidence`]): a record on the chain shows the lease as closed, was read at a later height than the report
//! of the close, and is not disputed by another endpoint. Only time with the health `bad` counts toward the
//! limit after which the provider closes the lease.
//!
//! Length: one state machine. The two lanes affect each other and are easier to review together.

pub mod chain;
mod desired;
pub mod evidence;
mod health;

pub use chain::ChainLane;
pub use evidence::{CloseReport, ReportSource};

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
use desired::DesiredSpec;
use health::HealthClock;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Interval between teardown calls while a teardown is in progress.
const TEARDOWN_POLL: Duration = Duration::from_secs(2);

/// State of the cluster lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ClusterLane {
    /// No call is in flight, and no retry is pending.
    Idle,
    /// `Deploy` of this generation is in flight.
    Deploying(u64),
    /// The last call failed. The next call is due at this time.
    Retry(Mono),
    /// `Teardown` is in flight.
    TearingDown,
    /// The workload was removed.
    Gone,
}

/// Intention of this provider to close a lease. The close may already be requested on the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CloseIntent {
    /// Reason that this provider states to the chain.
    pub reason: CloseReason,
    /// True if the circuit breaker or the operator permits the close.
    pub granted: bool,
    /// True if the operator requested the close. A close by the operator is never cancelled.
    pub commanded: bool,
}

/// Input of the workload.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WorkloadInput {
    /// An accepted manifest, and the hostnames to purge. Only the previous version of the manifest has these
    /// hostnames.
    SetSpec(Arc<WorkloadSpec>, Vec<String>),
    /// The tenant sent a manifest or moved hostnames. A failed deploy is repeated immediately, and a deployed
    /// version is applied again.
    DeployNow,
    /// The cluster is reachable again after an outage. A pending retry starts soon, with the initial delay.
    RetrySoon,
    /// A workload found in the cluster. Ignored if this machine already has a manifest.
    Adopt(Arc<WorkloadSpec>),
    /// Workload in the cluster, possibly deployed by another leader. Replaces the manifest that the engine
    /// has stored.
    Readopt(Arc<WorkloadSpec>),
    /// Result of the `Deploy` call in flight.
    Deployed(Result<(), Failure>),
    /// Result of `Teardown`. The call is repeated while the teardown is in progress.
    TornDown(Result<Teardown, Failure>),
    /// Observed health.
    Health(Health),
    /// Request to close the lease.
    End {
        /// Close reason in the message to the chain.
        reason: CloseReason,
        /// True if the operator requested the close. The close then needs no permission of the circuit
        /// breaker.
        granted: bool,
    },
    /// The circuit breaker granted the close or the teardown.
    Granted,
    /// This close reason no longer applies.
    CancelEnd(CloseReason),
    /// The chain or a scan reports that the lease is closed.
    CloseReported(CloseReport),
    /// Reclamation has started. This provider can close the lease from this block time on.
    Reclaiming(BlockTime),
    /// A snapshot lists the lease as active, with these reclamation terms.
    Live(Option<Reclamation>),
    /// Result of `FetchLease`, with the height of the record.
    LeaseFetched(Box<Result<Observed<LeaseRecord>, Failure>>),
    /// Result of `Broadcast` of a reclaim or close message.
    Tx(Result<TxOutcome, Failure>),
    /// Time has passed, or the permissions of this instance changed.
    Wake,
}

/// Action of the workload.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WorkloadAction {
    /// Make a call on the cluster lane.
    Cluster(Call),
    /// Make a call on the chain lane.
    Chain(Call),
    /// Request permission from the circuit breaker. The breaker replies with `Granted`, possibly after an
    /// operator has released the breaker.
    RequestPermission,
    /// Cancel the request for permission.
    CancelRequest,
    /// Publish an event about the lease or its workload.
    Publish(Event),
    /// Add the active lease to the engine. The engine has the workload, but not the lease.
    LeaseFound(Box<LeaseRecord>),
    /// Remove the closed lease from the engine.
    Remove(Option<CloseReason>),
    /// Count an input that is unexpected in this state.
    Unexpected,
}

/// State machine of one lease's workload.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Workload {
    lease: LeaseId,
    price: Option<DecCoin>,
    reclamation: Option<Reclamation>,
    desired: Option<DesiredSpec>,
    applied: u64,
    /// True if the current version must be deployed again. The objects of the last deploy may have changed.
    applies_again: bool,
    cluster: ClusterLane,
    cluster_attempts: u32,
    chain: ChainLane,
    chain_attempts: u32,
    health: HealthClock,
    /// True if no workload runs, because the cluster rejected the manifest permanently.
    refused: bool,
    ending: Option<CloseIntent>,
    close_report: Option<CloseReport>,
    closed_because: Option<CloseReason>,
    last_error: Option<Arc<str>>,
}

impl Workload {
    /// Replaces the secrets of the manifest with the texts that `cover` returns.
    pub(in crate::engine) fn hide(&mut self, cover: &Cover<'_>) {
        if let Some(desired) = &mut self.desired {
            hide_in_spec(&mut desired.deployment, cover);
        }
    }

    /// Creates a workload from a lease record. The workload has no manifest yet.
    #[must_use]
    pub fn for_lease(lease: &LeaseId, price: &DecCoin, reclamation: Option<Reclamation>) -> Self {
        Self {
            price: Some(price.clone()),
            reclamation,
            ..Self::without_lease(lease)
        }
    }

    /// Creates a workload without a lease record. Until the engine has fetched the record from the chain, the
    /// engine deploys nothing for the lease.
    #[must_use]
    pub fn without_lease(lease: &LeaseId) -> Self {
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
            close_report: None,
            closed_because: None,
            last_error: None,
        }
    }

    /// Returns the state of the cluster lane.
    #[must_use]
    pub const fn cluster_lane(&self) -> &ClusterLane {
        &self.cluster
    }

    /// Returns the state of the chain lane.
    #[must_use]
    pub const fn chain_lane(&self) -> &ChainLane {
        &self.chain
    }

    /// Returns the price per block, or `None` if the engine has no lease record.
    #[must_use]
    pub const fn price(&self) -> Option<&DecCoin> {
        self.price.as_ref()
    }

    /// Returns the specification of the newest manifest, if there is one.
    #[must_use]
    pub fn deployment(&self) -> Option<&Arc<WorkloadSpec>> {
        self.desired.as_ref().map(|d| &d.deployment)
    }

    /// Returns the manifest version that the cluster accepted last, or 0 if the cluster has not accepted any
    /// version.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.applied
    }

    /// Returns true if the cluster accepted the newest version and no call is due or in flight.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let newest = self.desired.as_ref().map(|d| d.generation);
        self.cluster == ClusterLane::Idle && newest == Some(self.applied)
    }

    /// Returns the observed health.
    #[must_use]
    pub const fn health(&self) -> Health {
        self.health.health()
    }

    /// Returns the unhealthy time counted until `now`.
    #[must_use]
    pub fn unhealthy_time(&self, now: Mono) -> Duration {
        self.health.unhealthy_time(now)
    }

    /// Returns the intention of this provider to close the lease, or `None` without such an intention.
    #[must_use]
    pub const fn ending(&self) -> Option<&CloseIntent> {
        self.ending.as_ref()
    }

    /// Lowers the height of the close report to at most `to`, because a higher height is from an invalid
    /// chain.
    pub(crate) fn lower_heights(&mut self, to: Height) {
        if let Some(report) = &mut self.close_report {
            report.height = to.min(report.height);
        }
    }

    /// Returns the report about the close of the lease, or `None` if the engine has no report.
    #[must_use]
    pub const fn close_report(&self) -> Option<&CloseReport> {
        self.close_report.as_ref()
    }

    /// Returns the close reason on the chain, or `None` if the lease is not closed or the reason is unknown.
    #[must_use]
    pub const fn closed_because(&self) -> Option<CloseReason> {
        self.closed_because
    }

    /// Returns the last error of the cluster backend for this workload.
    #[must_use]
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// Returns true if the engine has a lease record and no report that the lease is closed.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        self.close_report.is_none() && self.price.is_some()
    }

    /// Returns the phase of the workload in the status of the provider.
    #[must_use]
    pub fn phase(&self) -> LeasePhase {
        match (&self.cluster, &self.chain) {
            (ClusterLane::Gone, _) => LeasePhase::Gone,
            (ClusterLane::TearingDown, _) | (_, ChainLane::Confirmed { .. }) => LeasePhase::Teardown,
            (_, ChainLane::Fetching { .. }) => LeasePhase::Checking,
            (ClusterLane::Deploying(_), _) => LeasePhase::Deploying,
            (ClusterLane::Retry(_), _) => LeasePhase::Retrying,
            (ClusterLane::Idle, _) if self.ending.is_some() => LeasePhase::Ending,
            (ClusterLane::Idle, _) => match &self.desired {
                None => LeasePhase::WaitingForManifest,
                // Not deployed by this instance: it is a standby, or does not know the state of the cluster.
                Some(desired) if desired.generation > self.applied => LeasePhase::Pending,
                Some(_) => LeasePhase::Running,
            },
        }
    }

    /// Returns the monotonic time at which this state machine needs the input `Wake`.
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

    /// Returns the block time at which the machine needs a `Wake`.
    #[must_use]
    pub fn block_deadline(&self) -> Option<BlockTime> {
        self.chain.block_deadline()
    }

    /// Processes one input, then starts the calls that are due on each lane.
    #[must_use]
    pub fn transition(mut self, cx: &Cx<'_>, input: WorkloadInput, out: &mut Vec<WorkloadAction>) -> Self {
        match input {
            WorkloadInput::SetSpec(deployment, purge) => self.desire(cx, deployment, purge, out),
            WorkloadInput::DeployNow => self.deploy_now(),
            WorkloadInput::RetrySoon => self.retry_soon(cx),
            WorkloadInput::Adopt(deployment) => {
                if self.desired.is_none() {
                    self.desire(cx, deployment, Vec::new(), out);
                }
            }
            WorkloadInput::Readopt(deployment) => {
                if let Some(desired) = &mut self.desired {
                    desired.purge = Vec::new();
                }
                self.desire(cx, deployment, Vec::new(), out);
            }
            WorkloadInput::Deployed(result) => self.deployed(cx, result, out),
            WorkloadInput::TornDown(result) => self.torn_down(cx, result, out),
            WorkloadInput::Health(health) => self.health_reported(cx, health, out),
            WorkloadInput::End { reason, granted } => self.end(reason, granted, out),
            WorkloadInput::Granted => self.granted(out),
            WorkloadInput::CancelEnd(reason) => self.cancel_end(reason, out),
            WorkloadInput::CloseReported(report) => self.record_close_report(report, out),
            WorkloadInput::Reclaiming(deadline) => self.reclaiming(deadline),
            WorkloadInput::Live(reclamation) => self.live(reclamation),
            WorkloadInput::LeaseFetched(result) => self.lease_fetched(cx, *result, out),
            WorkloadInput::Tx(result) => self.sent(cx, result, out),
            WorkloadInput::Wake => self.watch_health(cx, out),
        }
        // The chain lane runs first, because its result decides whether a deploy is still allowed.
        self.drive_chain(cx, out);
        self.drive_cluster(cx, out);
        self
    }

    fn desire(
        &mut self,
        cx: &Cx<'_>,
        deployment: Arc<WorkloadSpec>,
        purge: Vec<String>,
        out: &mut Vec<WorkloadAction>,
    ) {
        let before = self.desired.as_ref().map(|d| &d.deployment.group);
        if before.is_some_and(|group| *group != deployment.group) {
            // Unhealthy time of the previous version does not count for the new version.
            if std::mem::take(&mut self.refused) {
                self.health.record(cx.now.mono, Health::Unknown);
            }
            self.health.restart(cx.now.mono);
            self.cancel_end(CloseReason::Unstable, out);
        }
        self.desired = Some(DesiredSpec::replacing(self.desired.take(), deployment, purge));
        self.cancel_end(CloseReason::ManifestTimeout, out);
    }

    fn deploy_now(&mut self) {
        self.cluster_attempts = 0;
        self.applies_again |= self.is_settled();
        if let ClusterLane::Retry(_) = self.cluster {
            self.cluster = ClusterLane::Idle;
        }
    }

    /// Cancels the planned close if its reason is `reason`. Does not cancel a close by the operator, or a
    /// close message that was already sent.
    fn cancel_end(&mut self, reason: CloseReason, out: &mut Vec<WorkloadAction>) {
        if let Some(ending) = self.ending.filter(|e| e.reason == reason && !e.commanded) {
            self.ending = None;
            if !ending.granted {
                out.push(WorkloadAction::CancelRequest);
            }
            if let ChainLane::Planned { .. } = self.chain {
                self.chain = ChainLane::Idle;
            }
        }
    }

    fn deployed(&mut self, cx: &Cx<'_>, result: Result<(), Failure>, out: &mut Vec<WorkloadAction>) {
        let ClusterLane::Deploying(generation) = self.cluster else {
            return out.push(WorkloadAction::Unexpected);
        };
        match result {
            Ok(()) => {
                if self.applied == 0 {
                    // Time before the first deploy is not unhealthy time.
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
                    out.push(WorkloadAction::Publish(Event::Deployed {
                        lease: self.lease.clone(),
                        generation,
                    }));
                }
            }
            Err(failure) => {
                let message = failure.message.clone();
                out.push(WorkloadAction::Publish(Event::DeployFailed {
                    lease: self.lease.clone(),
                    message,
                }));
                let is_permanent = failure.kind == ErrorKind::Invalid && !failure.transient;
                if is_permanent && self.applied == 0 && !self.refused {
                    // The time until a retry succeeds counts as unhealthy. After a rejected update, the previous
                    // version continues to run, and its health counts.
                    self.refused = true;
                    self.health.restart(cx.now.mono);
                    self.health_reported(cx, Health::Bad, out);
                }
                self.cluster_failed(cx, failure);
            }
        }
    }

    /// Replaces a queued deploy with a deploy of the newest version. Returns `None` if the queued deploy
    /// already has the newest version.
    pub(in crate::engine) fn deploy_newest(&mut self, epoch: u64) -> Option<Call> {
        let desired = self.desired.as_mut()?;
        let is_older = matches!(self.cluster, ClusterLane::Deploying(flying) if flying < desired.generation);
        if !is_older {
            return None;
        }
        self.cluster = ClusterLane::Deploying(desired.generation);
        Some(desired.deploy(epoch))
    }

    fn torn_down(&mut self, cx: &Cx<'_>, result: Result<Teardown, Failure>, out: &mut Vec<WorkloadAction>) {
        if self.cluster != ClusterLane::TearingDown {
            return out.push(WorkloadAction::Unexpected);
        }
        match result {
            Ok(Teardown::Done) => {
                // Capacity and hostnames are released only from here on.
                self.cluster = ClusterLane::Gone;
                out.push(WorkloadAction::Remove(self.closed_because));
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

    fn health_reported(&mut self, cx: &Cx<'_>, health: Health, out: &mut Vec<WorkloadAction>) {
        // Parts of a rejected deploy may run or be missing. In both cases, the requested version does not run.
        let health = match health {
            Health::Good | Health::Out(_) if self.refused => Health::Bad,
            Health::Good | Health::Bad | Health::Unknown | Health::Out(_) => health,
        };
        if !self.health.record(cx.now.mono, health) {
            return;
        }
        // A workload in teardown is expected to stop, so no event is published.
        if self.close_report.is_none() {
            out.push(WorkloadAction::Publish(Event::HealthChanged {
                lease: self.lease.clone(),
                health,
            }));
        }
        if health == Health::Good {
            self.cancel_end(CloseReason::Unstable, out);
        }
        self.watch_health(cx, out);
    }

    fn watch_health(&mut self, cx: &Cx<'_>, out: &mut Vec<WorkloadAction>) {
        if self
            .health_limit(cx)
            .is_some_and(|limit| self.health.unhealthy_time(cx.now.mono) >= limit)
        {
            self.end(CloseReason::Unstable, false, out);
        }
    }

    /// Returns the maximum unhealthy time, or `None` while the limit does not apply.
    fn health_limit(&self, cx: &Cx<'_>) -> Option<Duration> {
        // A manifest that was not accepted or permanently rejected yet cannot be unhealthy.
        let deployed = self.applied > 0 || self.refused;
        let watch = self.ending.is_none() && self.close_report.is_none() && deployed && cx.may_write();
        cx.config.unhealthy_limit.filter(|_| watch)
    }

    fn end(&mut self, reason: CloseReason, granted: bool, out: &mut Vec<WorkloadAction>) {
        // The lease is closed already. Only the teardown still needs permission.
        if let ChainLane::Confirmed { .. } = self.chain {
            return;
        }
        match &mut self.ending {
            Some(ending) if granted => {
                if !ending.granted {
                    out.push(WorkloadAction::CancelRequest);
                }
                *ending = CloseIntent {
                    reason,
                    granted,
                    commanded: true,
                };
            }
            Some(_) => {}
            None => {
                self.ending = Some(CloseIntent {
                    reason,
                    granted,
                    commanded: granted,
                });
                out.push(WorkloadAction::Publish(Event::LeaseEnding {
                    lease: self.lease.clone(),
                    reason,
                }));
                if !granted {
                    out.push(WorkloadAction::RequestPermission);
                }
            }
        }
    }

    fn granted(&mut self, out: &mut Vec<WorkloadAction>) {
        if let ChainLane::Confirmed { granted } = &mut self.chain {
            *granted = true;
        } else if let Some(ending) = &mut self.ending {
            ending.granted = true;
        } else {
            out.push(WorkloadAction::Unexpected);
        }
    }

    fn drive_cluster(&mut self, cx: &Cx<'_>, out: &mut Vec<WorkloadAction>) {
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
                // The leader tears the workload down. If it fails, the full scan of the next leader finds the workload.
                self.cluster = ClusterLane::Gone;
                out.push(WorkloadAction::Remove(self.closed_because));
            } else if cx.may_write() {
                self.cluster = ClusterLane::TearingDown;
                out.push(WorkloadAction::Cluster(Call::Teardown(self.lease.clone())));
            }
            return;
        }
        let Some(desired) = &mut self.desired else {
            return;
        };
        let wanted = desired.generation > self.applied || self.applies_again;
        // A deploy needs a known lease without a report of a close. After a takeover, the workloads of the previous
        // leader must be known first.
        let may = cx.may_write() && cx.cluster_known;
        if wanted && may && self.close_report.is_none() && self.price.is_some() {
            self.cluster = ClusterLane::Deploying(desired.generation);
            out.push(WorkloadAction::Cluster(desired.deploy(cx.epoch())));
        } else if let ClusterLane::Retry(_) = self.cluster {
            // The retry is no longer needed or not allowed now. The next wake starts again.
            self.cluster = ClusterLane::Idle;
        }
    }
}

impl Machine for Workload {
    type Id = LeaseId;
    type Input = WorkloadInput;
    type Action = WorkloadAction;

    fn step(self, cx: &Cx<'_>, input: WorkloadInput, out: &mut Vec<WorkloadAction>) -> Self {
        self.transition(cx, input, out)
    }

    fn deadlines(&self, cx: &Cx<'_>) -> Deadlines {
        (self.mono_deadline(cx), self.block_deadline())
    }

    fn is_done(&self) -> bool {
        // The workload requests its removal with `WorkloadAction::Remove`.
        false
    }
}
