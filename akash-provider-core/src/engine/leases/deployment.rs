//! State machine of one deployment: this provider's leases, the manifest, and the replies to submissions.
//!
//! ```text
//!  submit ─► Fetching ─► Checking ─► Recording ─► accepted: reply sent, passed to the workloads
//!               │            │           │
//!               └─ refused ──┴───────────┘        (a refusal does not stop the manifest deadline)
//! ```
//! Submissions are queued and processed one at a time, with at most one call in flight.
//!
//! Each lease has its own manifest deadline, in block time. The deadline starts only if evidence shows that
//! no manifest exists: this instance won the lease, or a list of the workloads contains no record and no
//! workload of the lease.
//! ```text
//!  won here ──────────────────────────────► Missing ─ deadline ─► Due ─ not listed ─► EndLease
//!  on the chain before ─► Unseen ─ not listed ─┘ ▲                 │
//!                            └─ unusable ─► Unusable ◄─ unusable ──┘      (never closed for lack of a manifest)
//! ```
//! A listing counts only if it was requested after the lease entered its state. A lease is closed only after
//! a listing that was requested after the deadline.
//!
//! Length: one state machine. The handling of its inputs is easier to review together.

mod entry;
mod submission;

pub use entry::Origin;
pub use submission::{AcceptedManifest, Submission};

use crate::cluster;
use crate::engine::backoff;
use crate::engine::cx::Cx;
use crate::engine::effect::Call;
use crate::engine::input::{Refusal, RefusalKind, RequestId};
use crate::engine::table::Machine;
use crate::engine::timers::Deadlines;
use crate::error::{ErrorKind, Failure};
use crate::manifest::Manifest;
use crate::record::{Cover, hide_in_manifest, hide_in_spec};
use crate::types::{BlockTime, CloseReason, DeploymentId, DeploymentRecord, Event, LeaseId, Mono};
use entry::{LeaseEntry, ManifestEvidence};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of attempts to query the chain and check a submission. After the last failure, the
/// submission is refused.
const READ_ATTEMPTS: u32 = 3;
/// Maximum time in which a submission retries failed queries and failed checks.
const READ_TIMEOUT: Duration = Duration::from_secs(4);
/// Time for which the engine retains the state of a deployment without leases. A group that is restarted
/// within this time reuses the accepted manifest.
const RETENTION: Duration = Duration::from_secs(300);

/// Phase of a deployment: the progress of the first submission in the deployment's queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DeploymentPhase {
    /// The queue is empty.
    Idle,
    /// `FetchDeployment` is in flight or waits for a retry.
    Fetching {
        /// Time at which a failed call is repeated; `None` while the call is in flight.
        retry_at: Option<Mono>,
    },
    /// The engine is checking the manifest against the deployment record and the hostname ledger.
    Checking,
    /// `Record` is in flight for the workload at index `at`.
    Recording {
        /// Accepted manifest, with a workload for each lease.
        accepted: AcceptedManifest,
        /// Index of the workload being recorded.
        at: usize,
    },
    /// The state of the deployment is no longer needed.
    Done,
}

/// Input of the deployment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DeploymentInput {
    /// A tenant submits a manifest.
    Submit(Submission),
    /// Result of `FetchDeployment`: `None` if the chain has no such deployment.
    Fetched(Result<Option<DeploymentRecord>, Failure>),
    /// Result of [`DeploymentAction::Check`] for the first submission in the queue.
    Checked(Result<AcceptedManifest, Refusal>),
    /// Result of the call `Record` for the workload at the current index.
    Recorded(Result<(), Failure>),
    /// A lease of this provider was added, or its manifest deadline changed.
    LeaseAdded {
        /// Id of the lease.
        lease: LeaseId,
        /// Block time of the manifest deadline. `None` if no manifest timeout is configured, or if the
        /// timeout has not started yet.
        deadline: Option<BlockTime>,
        /// Origin of the lease.
        origin: Origin,
    },
    /// A lease was closed.
    LeaseRemoved(LeaseId),
    /// List of the workloads in the cluster. The list covers all `Unlisted` leases. If the list contains the
    /// manifest of a lease, the engine has already added the lease as [`Origin::Recorded`].
    Listed {
        /// Leases with an unusable record or workload, each with its problem.
        unusable: BTreeMap<LeaseId, Arc<str>>,
        /// True if the list is complete: a lease without a listed manifest has no manifest. False while the
        /// cluster contains no record of any lease, because the provider may use a wrong cluster.
        conclusive: bool,
    },
    /// The deployment was closed on the chain.
    Closed,
    /// Time has passed, on the monotonic clock or in block time.
    Wake,
    /// Refuse all queued submissions, except the submission of a manifest that is being recorded.
    Shutdown,
}

/// Action of the deployment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DeploymentAction {
    /// Make a call. The completion of the call arrives as the matching input.
    Call(Call),
    /// Check the submission against the deployment record, and send the input `Checked` immediately.
    Check(Submission, Box<DeploymentRecord>),
    /// Undo the hostname changes of a manifest that was not stored.
    Undo(AcceptedManifest),
    /// Reply to the request of a tenant.
    Reply(RequestId, Result<(), Refusal>),
    /// Pass the specification of an accepted manifest to a workload.
    Deliver {
        /// Specification with its version.
        deployment: Arc<cluster::WorkloadSpec>,
        /// Hostnames of the previous manifest that the new manifest does not contain.
        purge: Vec<String>,
    },
    /// Close a lease, because no manifest arrived in time.
    EndLease(LeaseId, CloseReason),
    /// Cancel the close of a lease that may have a manifest.
    CancelEnd(LeaseId),
    /// List the workloads of the cluster after a manifest deadline, and send the input `Listed`.
    ListCluster,
    /// Publish an event about the manifest, or about the Manifest record in the cluster.
    Publish(Event),
    /// Count an input that this phase does not expect.
    Unexpected,
}

/// State machine of one deployment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Deployment {
    id: DeploymentId,
    phase: DeploymentPhase,
    leases: Vec<LeaseEntry>,
    queue: Vec<Submission>,
    accepted: Option<(Arc<Manifest>, [u8; 32])>,
    attempts: u32,
    /// Time of the first query for the submission at the head of the queue.
    fetching_since: Mono,
    idle_since: Option<Mono>,
    closed: bool,
}

impl Deployment {
    pub(in crate::engine) fn hide(&mut self, cover: &Cover<'_>) {
        let accepted = self.accepted.iter_mut().map(|(manifest, _)| manifest);
        let waiting = self.queue.iter_mut().map(|submission| &mut submission.manifest);
        accepted
            .chain(waiting)
            .for_each(|manifest| hide_in_manifest(manifest, cover));
        if let DeploymentPhase::Recording { accepted, .. } = &mut self.phase {
            accepted
                .deployments
                .iter_mut()
                .for_each(|spec| hide_in_spec(spec, cover));
        }
    }

    /// Creates the state machine of a deployment without leases.
    #[must_use]
    pub fn new(id: &DeploymentId) -> Self {
        Self {
            id: id.clone(),
            phase: DeploymentPhase::Idle,
            leases: Vec::new(),
            queue: Vec::new(),
            accepted: None,
            attempts: 0,
            fetching_since: Mono::default(),
            idle_since: None,
            closed: false,
        }
    }

    /// Returns the phase of the first submission in the queue.
    #[must_use]
    pub const fn phase(&self) -> &DeploymentPhase {
        &self.phase
    }

    /// Returns the hash of the last accepted manifest.
    #[must_use]
    pub fn accepted_hash(&self) -> Option<&[u8; 32]> {
        self.accepted.as_ref().map(|(_, hash)| hash)
    }

    /// Returns this provider's leases of the deployment.
    pub fn leases(&self) -> impl Iterator<Item = &LeaseId> {
        self.leases.iter().map(|e| &e.lease)
    }

    /// Returns the earliest block time at which a lease without a manifest is closed.
    #[must_use]
    pub fn manifest_deadline(&self) -> Option<BlockTime> {
        self.leases.iter().filter_map(LeaseEntry::due).min()
    }

    /// Returns the problem with the lease's record in the cluster. `None` if the record is usable or does not exist.
    #[must_use]
    pub fn unusable(&self, lease: &LeaseId) -> Option<&Arc<str>> {
        let entry = self
            .leases
            .iter()
            .find(|e| e.lease == *lease && !e.has_manifest)?;
        match &entry.evidence {
            ManifestEvidence::Unusable(problem) => Some(problem),
            ManifestEvidence::Missing | ManifestEvidence::Unlisted | ManifestEvidence::Due => None,
        }
    }

    /// Returns true if only a list of the workloads in the cluster can show whether the lease has a manifest.
    #[must_use]
    pub fn needs_listing(&self, lease: &LeaseId) -> bool {
        let entry = self.leases.iter().find(|e| e.lease == *lease);
        entry.is_some_and(|e| !e.has_manifest && e.evidence == ManifestEvidence::Unlisted)
    }

    /// Returns true if closing this lease destroys nothing: the lease was won in the current leadership
    /// epoch, and no manifest, record or workload can exist.
    #[must_use]
    pub fn is_bare(&self, cx: &Cx<'_>, lease: &LeaseId) -> bool {
        let entry = self.leases.iter().find(|e| e.lease == *lease);
        let bare_since = entry.filter(|e| e.waits()).and_then(|e| e.bare_since);
        !cx.is_standby() && bare_since == Some(cx.epoch())
    }

    /// Returns the number of submissions without a reply.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        u32::try_from(self.queue.iter().filter(|s| s.request.is_some()).count()).unwrap_or(u32::MAX)
    }

    /// Returns the monotonic time at which the machine needs a `Wake`.
    #[must_use]
    pub fn mono_deadline(&self) -> Option<Mono> {
        let retry = match self.phase {
            DeploymentPhase::Fetching { retry_at } => retry_at,
            DeploymentPhase::Idle
            | DeploymentPhase::Checking
            | DeploymentPhase::Recording { .. }
            | DeploymentPhase::Done => None,
        };
        retry.or_else(|| self.idle_since.map(|since| since.plus(RETENTION)))
    }

    /// Returns the block time at which the machine needs a `Wake`.
    #[must_use]
    pub fn block_deadline(&self, cx: &Cx<'_>) -> Option<BlockTime> {
        // The tenant has met the deadline once a manifest is being recorded.
        self.manifest_deadline()
            .filter(|_| cx.may_write() && cx.cluster_known && !self.is_recording())
    }

    /// Processes one input, then checks whether this state machine is still needed.
    #[must_use]
    pub fn transition(self, cx: &Cx<'_>, input: DeploymentInput, out: &mut Vec<DeploymentAction>) -> Self {
        let next = match input {
            DeploymentInput::Submit(submission) => self.submit(cx, submission, out),
            DeploymentInput::Fetched(result) => self.fetched(cx, result, out),
            DeploymentInput::Checked(result) => self.checked(cx, result, out),
            DeploymentInput::Recorded(result) => self.recorded(cx, result, out),
            DeploymentInput::LeaseAdded {
                lease,
                deadline,
                origin,
            } => self.lease_added(cx, lease, deadline, origin, out),
            DeploymentInput::LeaseRemoved(lease) => self.lease_removed(&lease),
            DeploymentInput::Listed { unusable, conclusive } => self.listed(cx, &unusable, conclusive, out),
            DeploymentInput::Closed => Self {
                closed: true,
                accepted: None,
                ..self
            },
            DeploymentInput::Wake => self.wake(cx, out),
            DeploymentInput::Shutdown => self.shutdown(out),
        };
        next.settle(cx)
    }

    fn submit(mut self, cx: &Cx<'_>, submission: Submission, out: &mut Vec<DeploymentAction>) -> Self {
        let refuse = |kind, message: &str| Refusal::new(kind, message);
        let refusal = if cx.stopping {
            Some(refuse(
                RefusalKind::Stopping,
                "the provider is stopping; submit again in a minute",
            ))
        } else if cx.is_standby() {
            Some(not_leader())
        } else if self.waiting() >= cx.config.manifest_queue_limit {
            Some(refuse(
                RefusalKind::Busy,
                "too many pending manifests for this deployment; submit again later",
            ))
        } else {
            None
        };
        match (refusal, submission.request) {
            (Some(refusal), Some(request)) => {
                out.push(DeploymentAction::Reply(request, Err(refusal)));
                self
            }
            // No client waits for a reply, and the tenant can submit the manifest again.
            (Some(_), None) => self,
            (None, _) => {
                self.queue.push(submission);
                self.drive_queue(cx, out)
            }
        }
    }

    fn drive_queue(mut self, cx: &Cx<'_>, out: &mut Vec<DeploymentAction>) -> Self {
        if !matches!(self.phase, DeploymentPhase::Idle) || self.queue.is_empty() {
            return self;
        }
        (self.attempts, self.fetching_since) = (0, cx.now.mono);
        out.push(DeploymentAction::Call(Call::FetchDeployment(self.id.clone())));
        self.phase = DeploymentPhase::Fetching { retry_at: None };
        self
    }

    fn fetched(
        mut self,
        cx: &Cx<'_>,
        result: Result<Option<DeploymentRecord>, Failure>,
        out: &mut Vec<DeploymentAction>,
    ) -> Self {
        if !matches!(self.phase, DeploymentPhase::Fetching { retry_at: None }) {
            return self.unexpected(out);
        }
        // A shutdown has already refused the submission.
        let Some(first) = self.queue.first() else {
            return self.start_next(cx, out);
        };
        match result {
            // This instance became a standby in the meantime, and only a leader may store manifests.
            Ok(Some(_)) if cx.is_standby() => self.reply(cx, Err(not_leader()), out),
            Ok(Some(record)) => {
                out.push(DeploymentAction::Check(first.clone(), Box::new(record)));
                self.phase = DeploymentPhase::Checking;
                self
            }
            Ok(None) => {
                let message = format!("no lease for deployment {}: not found on the chain", self.id);
                self.reply(cx, Err(Refusal::new(RefusalKind::NoLease, message)), out)
            }
            Err(failure) => {
                // Without the cause, which may contain internal addresses of the provider.
                let message = format!(
                    "the provider cannot read deployment {} from the chain; submit again",
                    self.id
                );
                let refusal = Refusal::new(RefusalKind::Unavailable, message);
                self.retry_or_refuse(cx, failure.transient, refusal, out)
            }
        }
    }

    /// Fetches the deployment again after a delay. Refuses the submission after a permanent failure, the last
    /// attempt or the time limit.
    fn retry_or_refuse(
        mut self,
        cx: &Cx<'_>,
        is_transient: bool,
        refusal: Refusal,
        out: &mut Vec<DeploymentAction>,
    ) -> Self {
        self.attempts += 1;
        let is_short = cx.now.mono.since(self.fetching_since) < READ_TIMEOUT;
        if is_transient && is_short && self.attempts < READ_ATTEMPTS {
            let retry_at = Some(cx.now.mono.plus(backoff::after(self.attempts - 1)));
            self.phase = DeploymentPhase::Fetching { retry_at };
            return self;
        }
        self.reply(cx, Err(refusal), out)
    }

    fn checked(
        mut self,
        cx: &Cx<'_>,
        result: Result<AcceptedManifest, Refusal>,
        out: &mut Vec<DeploymentAction>,
    ) -> Self {
        if !matches!(self.phase, DeploymentPhase::Checking) {
            return self.unexpected(out);
        }
        match result {
            // For example, the result of the transaction of the bid arrives after the lease.
            Err(refusal) => self.retry_or_refuse(cx, refusal.kind == RefusalKind::Unavailable, refusal, out),
            Ok(accepted) => match accepted.deployments.first() {
                Some(first) => {
                    // Cancelled before the recording, because a pending close would destroy the new workload.
                    let leases = accepted.deployments.iter().map(|d| d.lease.clone());
                    out.extend(leases.map(DeploymentAction::CancelEnd));
                    out.push(DeploymentAction::Call(Call::Record(Arc::clone(first))));
                    self.phase = DeploymentPhase::Recording { accepted, at: 0 };
                    self
                }
                None => self.reply(cx, Ok(()), out),
            },
        }
    }

    fn recorded(mut self, cx: &Cx<'_>, result: Result<(), Failure>, out: &mut Vec<DeploymentAction>) -> Self {
        let DeploymentPhase::Recording { accepted, at } =
            std::mem::replace(&mut self.phase, DeploymentPhase::Idle)
        else {
            return self.unexpected(out);
        };
        if let Err(failure) = result {
            // The failed group counts as tried, because the write may have succeeded without a response.
            self.manifest_not_stored(cx, &accepted, at + 1);
            out.push(DeploymentAction::Undo(accepted));
            return self.reply(cx, Err(not_recorded(&failure)), out);
        }
        // Another leader possibly does not know the manifest, and may overwrite it.
        let outdated = |d: &Arc<cluster::WorkloadSpec>| d.epoch != cx.epoch();
        if cx.is_standby() || accepted.deployments.iter().any(outdated) {
            self.manifest_not_stored(cx, &accepted, at + 1);
            out.push(DeploymentAction::Undo(accepted));
            return self.reply(cx, Err(not_leader()), out);
        }
        if let Some(next) = accepted.deployments.get(at + 1) {
            out.push(DeploymentAction::Call(Call::Record(Arc::clone(next))));
            self.phase = DeploymentPhase::Recording { accepted, at: at + 1 };
            return self;
        }
        self.deliver(accepted, out);
        self.reply(cx, Ok(()), out)
    }

    /// Extends the manifest deadlines after a manifest could not be stored, so that the tenant can submit
    /// again. The cluster may contain the records of the first `tried` groups.
    fn manifest_not_stored(&mut self, cx: &Cx<'_>, accepted: &AcceptedManifest, tried: usize) {
        let again = cx.now.block_time.plus(RECORDING_GRACE);
        for (at, deployment) in accepted.deployments.iter().enumerate() {
            let entry = self.leases.iter_mut().find(|e| e.lease == deployment.lease);
            let Some(entry) = entry.filter(|e| !e.has_manifest) else {
                continue;
            };
            let is_known = matches!(entry.evidence, ManifestEvidence::Missing | ManifestEvidence::Due);
            if at < tried {
                entry.bare_since = None;
            }
            if is_known {
                // An expired deadline is extended, so that a pending listing does not close the lease.
                entry.evidence = if at < tried {
                    ManifestEvidence::Unlisted
                } else {
                    ManifestEvidence::Missing
                };
            }
            // Without a listing yet, the deadline starts with the listing.
            if cx.config.manifest_timeout.is_some() && (is_known || entry.deadline.is_some()) {
                entry.deadline = entry.deadline.max(Some(again));
            }
        }
    }

    fn listed(
        mut self,
        cx: &Cx<'_>,
        unusable: &BTreeMap<LeaseId, Arc<str>>,
        conclusive: bool,
        out: &mut Vec<DeploymentAction>,
    ) -> Self {
        let may_end = cx.may_write() && cx.cluster_known && !self.is_recording();
        for entry in self.leases.iter_mut().filter(|e| !e.has_manifest) {
            if let Some(problem) = unusable.get(&entry.lease) {
                entry.mark_unusable(problem, out);
            } else if conclusive {
                entry.mark_absent(cx, may_end, out);
            } else if entry.evidence == ManifestEvidence::Due {
                entry.evidence = ManifestEvidence::Unlisted;
            }
        }
        self.wake(cx, out)
    }

    /// Returns true if a manifest is being recorded.
    pub(in crate::engine) const fn is_recording(&self) -> bool {
        matches!(self.phase, DeploymentPhase::Recording { .. })
    }

    fn deliver(&mut self, accepted: AcceptedManifest, out: &mut Vec<DeploymentAction>) {
        let Some(first) = self.queue.first() else { return };
        out.push(DeploymentAction::Publish(Event::ManifestReceived {
            deployment: self.id.clone(),
            hash: data_encoding::HEXLOWER.encode(&accepted.hash),
        }));
        self.accepted = Some((Arc::clone(&first.manifest), accepted.hash));
        for deployment in accepted.deployments {
            if let Some(entry) = self.leases.iter_mut().find(|e| e.lease == deployment.lease) {
                entry.has_manifest = true;
            }
            let released = accepted
                .purge
                .iter()
                .find(|(lease, _)| *lease == deployment.lease);
            let purge = released.map(|(_, names)| names.clone()).unwrap_or_default();
            out.push(DeploymentAction::Deliver { deployment, purge });
        }
    }

    /// Replies to the first submission and starts the next submission.
    fn reply(mut self, cx: &Cx<'_>, result: Result<(), Refusal>, out: &mut Vec<DeploymentAction>) -> Self {
        if !self.queue.is_empty() {
            // The configured limit bounds the queue, so removing its front is cheap.
            let submission = self.queue.remove(0);
            if let Some(request) = submission.request {
                out.push(DeploymentAction::Reply(request, result));
            }
        }
        self.start_next(cx, out)
    }

    fn start_next(mut self, cx: &Cx<'_>, out: &mut Vec<DeploymentAction>) -> Self {
        self.phase = DeploymentPhase::Idle;
        self.drive_queue(cx, out)
    }

    fn lease_added(
        mut self,
        cx: &Cx<'_>,
        lease: LeaseId,
        deadline: Option<BlockTime>,
        origin: Origin,
        out: &mut Vec<DeploymentAction>,
    ) -> Self {
        let has_manifest = origin == Origin::Recorded;
        match self.leases.iter_mut().find(|e| e.lease == lease) {
            Some(entry) => {
                entry.has_started |= deadline.is_some();
                if has_manifest && !entry.has_manifest {
                    entry.has_manifest = true;
                    if let ManifestEvidence::Unusable(_) = entry.evidence {
                        out.push(DeploymentAction::Publish(Event::RecordUsable { lease }));
                    }
                } else if entry.has_clock() || deadline > cx.manifest_due() {
                    // A later deadline comes from a record that is newer than the newest processed block.
                    entry.deadline = entry.deadline.max(deadline);
                }
            }
            None => {
                let evidence = match origin {
                    Origin::Won | Origin::Recorded => ManifestEvidence::Missing,
                    Origin::Found => ManifestEvidence::Unlisted,
                };
                // Most deployments have one lease with this provider, and `push` alone would allocate space for four.
                self.leases.reserve_exact(1);
                self.leases.push(LeaseEntry {
                    lease,
                    deadline: deadline.filter(|_| origin == Origin::Won),
                    has_manifest,
                    evidence,
                    has_started: origin != Origin::Won || deadline.is_some(),
                    // Before `may_close`, the previous leader may still have accepted a manifest for the lease.
                    bare_since: (origin == Origin::Won && cx.may_close).then_some(cx.epoch()),
                });
                // An accepted manifest is submitted again for a new lease of the deployment, and checked again.
                if let (Some((manifest, hash)), false) = (self.accepted.clone(), has_manifest) {
                    return self.submit(
                        cx,
                        Submission {
                            request: None,
                            manifest,
                            hashes: hash.into(),
                        },
                        out,
                    );
                }
            }
        }
        self
    }

    fn lease_removed(mut self, lease: &LeaseId) -> Self {
        self.leases.retain(|e| e.lease != *lease);
        self
    }

    fn wake(mut self, cx: &Cx<'_>, out: &mut Vec<DeploymentAction>) -> Self {
        if let DeploymentPhase::Fetching { retry_at: Some(at) } = self.phase
            && at <= cx.now.mono
        {
            out.push(DeploymentAction::Call(Call::FetchDeployment(self.id.clone())));
            self.phase = DeploymentPhase::Fetching { retry_at: None };
        }
        if self.block_deadline(cx).is_none_or(|d| d > cx.now.block_time) {
            return self;
        }
        // One list of the workloads is enough for all expired deadlines.
        let now = cx.now.block_time;
        let late = |e: &&mut LeaseEntry| e.due().is_some_and(|d| d <= now);
        for entry in self.leases.iter_mut().filter(late) {
            entry.evidence = ManifestEvidence::Due;
        }
        out.push(DeploymentAction::ListCluster);
        self
    }

    fn shutdown(mut self, out: &mut Vec<DeploymentAction>) -> Self {
        let recording = self.is_recording();
        // A recording completes soon, so its result is awaited.
        let keep = usize::from(recording);
        for submission in self.queue.drain(keep.min(self.queue.len())..) {
            let message = "the provider is stopping; submit again in a minute".to_owned();
            if let Some(request) = submission.request {
                out.push(DeploymentAction::Reply(
                    request,
                    Err(Refusal::new(RefusalKind::Stopping, message)),
                ));
            }
        }
        self
    }

    fn settle(mut self, cx: &Cx<'_>) -> Self {
        let idle =
            self.leases.is_empty() && self.queue.is_empty() && matches!(self.phase, DeploymentPhase::Idle);
        if !idle {
            self.idle_since = None;
            return self;
        }
        let since = *self.idle_since.get_or_insert(cx.now.mono);
        let expired = cx.now.mono >= since.plus(RETENTION);
        // The machine is retained for its manifest, which a restarted group reuses.
        if self.closed || self.accepted.is_none() || expired {
            self.phase = DeploymentPhase::Done;
        }
        self
    }

    fn unexpected(self, out: &mut Vec<DeploymentAction>) -> Self {
        out.push(DeploymentAction::Unexpected);
        self
    }
}

/// Returns the refusal for a manifest that could not be stored. The text suggests a retry only if a retry can
/// succeed.
fn not_recorded(failure: &Failure) -> Refusal {
    if failure.transient {
        return Refusal::new(
            RefusalKind::Unavailable,
            "the provider cannot store the manifest at the moment; submit again",
        );
    }
    // Connection and account errors are logged for the operator and not shown to tenants.
    let reason = match failure.kind {
        // The failure names the part of the manifest.
        ErrorKind::Invalid => return rejected(format!("the cluster rejected the manifest: {failure}")),
        ErrorKind::Denied => "the cluster denied access to the provider",
        ErrorKind::Conflict => "a conflicting object exists in the cluster",
        ErrorKind::NotFound => "the cluster has no resource for manifests",
        ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::ClusterNotReady => {
            "the cluster is unreachable"
        }
        ErrorKind::NotRegistered | ErrorKind::Aborted | ErrorKind::Stopped | ErrorKind::Internal => {
            "internal error of the provider"
        }
    };
    rejected(format!(
        "the provider cannot store the manifest: {reason}; contact the provider's operator"
    ))
}

fn rejected(message: String) -> Refusal {
    Refusal::new(RefusalKind::Rejected, message)
}

fn not_leader() -> Refusal {
    Refusal::new(
        RefusalKind::NotLeader,
        "this instance is a standby; submit the manifest to the leader",
    )
}

/// Minimum time between a failure to store a manifest and the manifest deadline. In this time, the tenant can
/// submit the manifest again.
const RECORDING_GRACE: Duration = Duration::from_secs(30);

impl Machine for Deployment {
    type Id = DeploymentId;
    type Input = DeploymentInput;
    type Action = DeploymentAction;

    fn step(self, cx: &Cx<'_>, input: DeploymentInput, out: &mut Vec<DeploymentAction>) -> Self {
        self.transition(cx, input, out)
    }

    fn deadlines(&self, cx: &Cx<'_>) -> Deadlines {
        (self.mono_deadline(), self.block_deadline(cx))
    }

    fn is_done(&self) -> bool {
        self.phase == DeploymentPhase::Done
    }
}

#[cfg(test)]
mod tests;
