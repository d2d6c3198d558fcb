//! One tenant's deployment: our leases of it, the manifest, and the answers to who submits one.
//!
//! ```text
//!  submit ─► Fetching ─► Checking ─► Recording ─► answered, handed to the workloads
//!               │            │           │
//!               └─ refused ──┴───────────┘        (a refusal never disarms the manifest deadline)
//! ```
//! Requests wait in line and are handled one at a time. At most one call is in flight at a time.
//!
//! Every lease has its own manifest deadline, in block time, and no deadline runs without evidence that there is no
//! manifest: the lease was won here, or the cluster has shown neither a record nor a workload of it.
//! ```text
//!  won here ──────────────────────────────► Missing ─ deadline ─► Due ─ not listed ─► EndLease
//!  on the chain before ─► Unseen ─ not listed ─┘ ▲                 │
//!                            └─ unusable ─► Unusable ◄─ unusable ──┘      (never ended for want of a manifest)
//! ```
//! A list counts when it was asked for after the question came up. An end is asked for only after a list that is
//! newer than the deadline.
//!
//! Length: one machine; what it does with each input is read beside what it does with the others.

mod entry;
mod submission;

pub use entry::Origin;
pub use submission::{Accepted, Submission};

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
use entry::{Entry, Evidence};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Failed reads before a request is answered "unavailable"; tenants wait for the answer.
const READ_ATTEMPTS: u32 = 3;
/// A tenant whose question the chain has not answered for so long is told so instead of asking once more.
const READ_PATIENCE: Duration = Duration::from_secs(4);
/// How long a deployment without leases is kept, for the lease that a restarted group brings.
const LINGER: Duration = Duration::from_secs(300);

/// What the first request in line waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Nothing is asked for: nobody is in line.
    Idle,
    /// `FetchDeployment` is in flight, or tried again at `retry_at`.
    Fetching {
        /// When to try again; `None` while the call is in flight.
        retry_at: Option<Mono>,
    },
    /// The engine checks it against the chain's record and the hostname ledger.
    Checking,
    /// `Record` is in flight for the deployment at this index.
    Recording {
        /// The manifest that passed the check, lease by lease.
        accepted: Accepted,
        /// Which of its deployments is being recorded, from 0.
        at: usize,
    },
    /// Nobody needs it any more.
    Done,
}

/// What happens to a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input {
    /// A tenant submits a manifest.
    Submit(Submission),
    /// Of `FetchDeployment`; `None` when the chain does not know it.
    Fetched(Result<Option<DeploymentRecord>, Failure>),
    /// The engine has checked the first in line.
    Checked(Result<Accepted, Refusal>),
    /// Of `Record`, of the deployment at the phase's index.
    Recorded(Result<(), Failure>),
    /// We have a lease; its manifest is due at this block time.
    LeaseAdded {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// When its manifest is due; `None` for never, while the block it is in has no time yet (then the lease is
        /// added once more), and where only a look at the cluster can say.
        deadline: Option<BlockTime>,
        /// How it came to be known.
        origin: Origin,
    },
    /// A lease is over.
    LeaseRemoved(LeaseId),
    /// What the cluster keeps is known anew: a list that was asked for after every question that is open here.
    /// Leases whose manifest it shows were added as [`Origin::Kept`] before.
    Listed {
        /// Leases of which something is there that does not say what to run, and what.
        unusable: BTreeMap<LeaseId, Arc<str>>,
        /// What is not in the list may be taken for missing: false while the list itself is in doubt.
        conclusive: bool,
    },
    /// The chain closed the deployment.
    Closed,
    /// Time passed, in either clock.
    Wake,
    /// Refuse what waits, except a manifest that is being recorded.
    Shutdown,
}

/// What a deployment wants.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// A call; its completion comes back as the matching input.
    Call(Call),
    /// Check this submission against this record; answer `Checked` at once.
    Check(Submission, Box<DeploymentRecord>),
    /// The check's hostname claims are to be undone: nothing was recorded.
    Undo(Accepted),
    /// Answer the request of a tenant, granted or refused.
    Reply(RequestId, Result<(), Refusal>),
    /// Give a workload what it is to run.
    Deliver {
        /// What it is to run, with its version.
        deployment: Arc<cluster::WorkloadSpec>,
        /// Hostnames that the lease gave up with it.
        purge: Vec<String>,
    },
    /// A lease has no manifest in time.
    EndLease(LeaseId, CloseReason),
    /// Its manifest is being recorded, or may be there: it is no longer ended for want of one.
    CancelEnd(LeaseId),
    /// A deadline has passed: the cluster is to be listed, and `Listed` with the answer.
    LookAtCluster,
    /// Publish a fact about the manifest, or about a record of it.
    Publish(Event),
    /// This input was not expected in this phase.
    Unexpected,
}

/// The machine of one deployment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Deployment {
    id: DeploymentId,
    phase: Phase,
    leases: Vec<Entry>,
    line: Vec<Submission>,
    accepted: Option<(Arc<Manifest>, [u8; 32])>,
    attempts: u32,
    /// Since when the chain is asked for the first in line.
    asked_since: Mono,
    idle_since: Option<Mono>,
    closed: bool,
}

impl Deployment {
    /// Covers the secrets of manifests.
    pub(in crate::engine) fn hide(&mut self, cover: &Cover<'_>) {
        let accepted = self.accepted.iter_mut().map(|(manifest, _)| manifest);
        let waiting = self.line.iter_mut().map(|submission| &mut submission.manifest);
        accepted
            .chain(waiting)
            .for_each(|manifest| hide_in_manifest(manifest, cover));
        if let Phase::Recording { accepted, .. } = &mut self.phase {
            accepted
                .deployments
                .iter_mut()
                .for_each(|spec| hide_in_spec(spec, cover));
        }
    }

    /// A deployment without leases.
    #[must_use]
    pub fn new(id: &DeploymentId) -> Self {
        Self {
            id: id.clone(),
            phase: Phase::Idle,
            leases: Vec::new(),
            line: Vec::new(),
            accepted: None,
            attempts: 0,
            asked_since: Mono::default(),
            idle_since: None,
            closed: false,
        }
    }

    /// What the first request in line waits for.
    #[must_use]
    pub const fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Hash of the manifest accepted last.
    #[must_use]
    pub fn accepted_hash(&self) -> Option<&[u8; 32]> {
        self.accepted.as_ref().map(|(_, hash)| hash)
    }

    /// Our leases of it.
    pub fn leases(&self) -> impl Iterator<Item = &LeaseId> {
        self.leases.iter().map(|e| &e.lease)
    }

    /// Earliest block time at which a lease without manifest is given up.
    #[must_use]
    pub fn manifest_deadline(&self) -> Option<BlockTime> {
        self.leases.iter().filter_map(Entry::due).min()
    }

    /// What is wrong with what the cluster has of a lease; `None` where it can be used, or is not there.
    #[must_use]
    pub fn unusable(&self, lease: &LeaseId) -> Option<&Arc<str>> {
        let entry = self
            .leases
            .iter()
            .find(|e| e.lease == *lease && !e.has_manifest)?;
        match &entry.evidence {
            Evidence::Unusable(problem) => Some(problem),
            Evidence::Missing | Evidence::Unseen | Evidence::Due => None,
        }
    }

    /// True while a list of the cluster is still needed to say whether this lease has a manifest.
    #[must_use]
    pub fn is_unseen(&self, lease: &LeaseId) -> bool {
        let entry = self.leases.iter().find(|e| e.lease == *lease);
        entry.is_some_and(|e| !e.has_manifest && e.evidence == Evidence::Unseen)
    }

    /// True when nothing is lost with this lease: it was won under the leadership of now, and since then no manifest
    /// of it was taken, none was tried to be kept, and the cluster has shown nothing of it.
    #[must_use]
    pub fn is_bare(&self, cx: &Cx<'_>, lease: &LeaseId) -> bool {
        let entry = self.leases.iter().find(|e| e.lease == *lease);
        let bare_since = entry.filter(|e| e.waits()).and_then(|e| e.bare_since);
        !cx.is_standby() && bare_since == Some(cx.epoch())
    }

    /// Requests of tenants that have no answer yet.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        u32::try_from(self.line.iter().filter(|s| s.request.is_some()).count()).unwrap_or(u32::MAX)
    }

    /// Monotonic moment at which it wants a `Wake`.
    #[must_use]
    pub fn mono_deadline(&self) -> Option<Mono> {
        let retry = match self.phase {
            Phase::Fetching { retry_at } => retry_at,
            Phase::Idle | Phase::Checking | Phase::Recording { .. } | Phase::Done => None,
        };
        retry.or_else(|| self.idle_since.map(|since| since.plus(LINGER)))
    }

    /// Block time at which it wants a `Wake`.
    #[must_use]
    pub fn block_deadline(&self, cx: &Cx<'_>) -> Option<BlockTime> {
        // While a manifest is being recorded the tenant has done its part.
        self.manifest_deadline()
            .filter(|_| cx.may_write() && cx.cluster_known && !self.is_recording())
    }

    /// One step: the input first, then whether anybody needs it any more.
    #[must_use]
    pub fn transition(self, cx: &Cx<'_>, input: Input, out: &mut Vec<Action>) -> Self {
        let next = match input {
            Input::Submit(submission) => self.submit(cx, submission, out),
            Input::Fetched(result) => self.fetched(cx, result, out),
            Input::Checked(result) => self.checked(cx, result, out),
            Input::Recorded(result) => self.recorded(cx, result, out),
            Input::LeaseAdded {
                lease,
                deadline,
                origin,
            } => self.lease_added(cx, lease, deadline, origin, out),
            Input::LeaseRemoved(lease) => self.lease_removed(&lease),
            Input::Listed { unusable, conclusive } => self.listed(cx, &unusable, conclusive, out),
            Input::Closed => Self {
                closed: true,
                accepted: None,
                ..self
            },
            Input::Wake => self.wake(cx, out),
            Input::Shutdown => self.shutdown(out),
        };
        next.settle(cx)
    }

    fn submit(mut self, cx: &Cx<'_>, submission: Submission, out: &mut Vec<Action>) -> Self {
        let refuse = |kind, message: &str| Refusal {
            kind,
            message: message.to_owned(),
        };
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
                "too many manifests wait for this deployment; submit again later",
            ))
        } else {
            None
        };
        match (refusal, submission.request) {
            (Some(refusal), Some(request)) => {
                out.push(Action::Reply(request, Err(refusal)));
                self
            }
            // Nobody waits for an answer, and the tenant can submit it again.
            (Some(_), None) => self,
            (None, _) => {
                self.line.push(submission);
                self.next_in_line(cx, out)
            }
        }
    }

    fn next_in_line(mut self, cx: &Cx<'_>, out: &mut Vec<Action>) -> Self {
        if !matches!(self.phase, Phase::Idle) || self.line.is_empty() {
            return self;
        }
        (self.attempts, self.asked_since) = (0, cx.now.mono);
        out.push(Action::Call(Call::FetchDeployment(self.id.clone())));
        self.phase = Phase::Fetching { retry_at: None };
        self
    }

    fn fetched(
        mut self,
        cx: &Cx<'_>,
        result: Result<Option<DeploymentRecord>, Failure>,
        out: &mut Vec<Action>,
    ) -> Self {
        if !matches!(self.phase, Phase::Fetching { retry_at: None }) {
            return self.unexpected(out);
        }
        // A shutdown has answered it meanwhile.
        let Some(first) = self.line.first() else {
            return self.settle_line(cx, out);
        };
        match result {
            // It waited through a change of leaders, and only a leader may keep it.
            Ok(Some(_)) if cx.is_standby() => self.answer(cx, Err(not_leader()), out),
            Ok(Some(record)) => {
                out.push(Action::Check(first.clone(), Box::new(record)));
                self.phase = Phase::Checking;
                self
            }
            Ok(None) => {
                let message = format!("no lease for deployment {}: the chain does not know it", self.id);
                self.answer(
                    cx,
                    Err(Refusal {
                        kind: RefusalKind::NoLease,
                        message,
                    }),
                    out,
                )
            }
            Err(failure) => {
                self.attempts += 1;
                let is_short = cx.now.mono.since(self.asked_since) < READ_PATIENCE;
                if failure.transient && is_short && self.attempts < READ_ATTEMPTS {
                    let retry_at = Some(cx.now.mono.plus(backoff::after(self.attempts - 1)));
                    self.phase = Phase::Fetching { retry_at };
                    return self;
                }
                // Without the failure: its text has addresses and errors of the provider's connections.
                let message = format!(
                    "the provider cannot read deployment {} from the chain; submit again",
                    self.id
                );
                self.answer(
                    cx,
                    Err(Refusal {
                        kind: RefusalKind::Unavailable,
                        message,
                    }),
                    out,
                )
            }
        }
    }

    fn checked(mut self, cx: &Cx<'_>, result: Result<Accepted, Refusal>, out: &mut Vec<Action>) -> Self {
        if !matches!(self.phase, Phase::Checking) {
            return self.unexpected(out);
        }
        match result {
            Err(refusal) => self.answer(cx, Err(refusal), out),
            Ok(accepted) => match accepted.deployments.first() {
                Some(first) => {
                    // Before it is recorded: an end that waits would destroy what is about to be kept.
                    let spared = accepted.deployments.iter().map(|d| d.lease.clone());
                    out.extend(spared.map(Action::CancelEnd));
                    out.push(Action::Call(Call::Record(Arc::clone(first))));
                    self.phase = Phase::Recording { accepted, at: 0 };
                    self
                }
                None => self.answer(cx, Ok(()), out),
            },
        }
    }

    fn recorded(mut self, cx: &Cx<'_>, result: Result<(), Failure>, out: &mut Vec<Action>) -> Self {
        let Phase::Recording { accepted, at } = std::mem::replace(&mut self.phase, Phase::Idle) else {
            return self.unexpected(out);
        };
        if let Err(failure) = result {
            // The one that failed counts as tried: its write may have come through and its answer not.
            self.not_kept(cx, &accepted, at + 1);
            out.push(Action::Undo(accepted));
            return self.answer(cx, Err(not_recorded(&failure)), out);
        }
        // Another leader may not have seen it, and then what it wrote counts.
        let outdated = |d: &Arc<cluster::WorkloadSpec>| d.epoch != cx.epoch();
        if cx.is_standby() || accepted.deployments.iter().any(outdated) {
            self.not_kept(cx, &accepted, at + 1);
            out.push(Action::Undo(accepted));
            return self.answer(cx, Err(not_leader()), out);
        }
        if let Some(next) = accepted.deployments.get(at + 1) {
            out.push(Action::Call(Call::Record(Arc::clone(next))));
            self.phase = Phase::Recording { accepted, at: at + 1 };
            return self;
        }
        self.deliver(accepted, out);
        self.answer(cx, Ok(()), out)
    }

    /// A manifest was not accepted, and its first `tried` groups may be in the cluster all the same. The tenant
    /// gets time to submit it again.
    fn not_kept(&mut self, cx: &Cx<'_>, accepted: &Accepted, tried: usize) {
        let again = cx.now.block_time.plus(RECORDING_GRACE);
        for (at, deployment) in accepted.deployments.iter().enumerate() {
            let entry = self.leases.iter_mut().find(|e| e.lease == deployment.lease);
            let Some(entry) = entry.filter(|e| !e.has_manifest) else {
                continue;
            };
            let is_known = matches!(entry.evidence, Evidence::Missing | Evidence::Due);
            if at < tried {
                entry.bare_since = None;
            }
            if is_known {
                // One that was due has time again; a list under way does not end it.
                entry.evidence = if at < tried {
                    Evidence::Unseen
                } else {
                    Evidence::Missing
                };
            }
            // Where nobody has looked yet, the deadline starts with the look.
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
        out: &mut Vec<Action>,
    ) -> Self {
        let may_end = cx.may_write() && cx.cluster_known && !self.is_recording();
        for entry in self.leases.iter_mut().filter(|e| !e.has_manifest) {
            if let Some(problem) = unusable.get(&entry.lease) {
                entry.hold(problem, out);
            } else if conclusive {
                entry.is_not_there(cx, may_end, out);
            } else if entry.evidence == Evidence::Due {
                entry.evidence = Evidence::Unseen;
            }
        }
        self.wake(cx, out)
    }

    /// A manifest is being recorded, so it is not known yet whether it is accepted.
    pub(in crate::engine) const fn is_recording(&self) -> bool {
        matches!(self.phase, Phase::Recording { .. })
    }

    fn deliver(&mut self, accepted: Accepted, out: &mut Vec<Action>) {
        let Some(first) = self.line.first() else { return };
        out.push(Action::Publish(Event::ManifestReceived {
            deployment: self.id.clone(),
            hash: data_encoding::HEXLOWER.encode(&accepted.hash),
        }));
        self.accepted = Some((Arc::clone(&first.manifest), accepted.hash));
        for deployment in accepted.deployments {
            if let Some(entry) = self.leases.iter_mut().find(|e| e.lease == deployment.lease) {
                entry.has_manifest = true;
            }
            let gone = accepted
                .purge
                .iter()
                .find(|(lease, _)| *lease == deployment.lease);
            let purge = gone.map(|(_, names)| names.clone()).unwrap_or_default();
            out.push(Action::Deliver { deployment, purge });
        }
    }

    /// Answers the first in line and takes the next.
    fn answer(mut self, cx: &Cx<'_>, result: Result<(), Refusal>, out: &mut Vec<Action>) -> Self {
        if !self.line.is_empty() {
            // The configured limit keeps the line short, so taking its front is cheap.
            let submission = self.line.remove(0);
            if let Some(request) = submission.request {
                out.push(Action::Reply(request, result));
            }
        }
        self.settle_line(cx, out)
    }

    fn settle_line(mut self, cx: &Cx<'_>, out: &mut Vec<Action>) -> Self {
        self.phase = Phase::Idle;
        self.next_in_line(cx, out)
    }

    fn lease_added(
        mut self,
        cx: &Cx<'_>,
        lease: LeaseId,
        deadline: Option<BlockTime>,
        origin: Origin,
        out: &mut Vec<Action>,
    ) -> Self {
        let has_manifest = origin == Origin::Kept;
        match self.leases.iter_mut().find(|e| e.lease == lease) {
            Some(entry) => {
                entry.begun |= deadline.is_some();
                if has_manifest && !entry.has_manifest {
                    entry.has_manifest = true;
                    if let Evidence::Unusable(_) = entry.evidence {
                        out.push(Action::Publish(Event::RecordUsable { lease }));
                    }
                } else if entry.has_clock() || deadline > cx.manifest_due() {
                    // Later than now is that of a record newer than the newest block we were told of.
                    entry.deadline = entry.deadline.max(deadline);
                }
            }
            None => {
                let evidence = match origin {
                    Origin::Won | Origin::Kept => Evidence::Missing,
                    Origin::Found => Evidence::Unseen,
                };
                // Most deployments have one lease with us, and room for four would be kept for each.
                self.leases.reserve_exact(1);
                self.leases.push(Entry {
                    lease,
                    deadline: deadline.filter(|_| origin == Origin::Won),
                    has_manifest,
                    evidence,
                    begun: origin != Origin::Won || deadline.is_some(),
                    // A lease won while the leader before us could still act may have its manifest from there.
                    bare_since: (origin == Origin::Won && cx.may_close).then_some(cx.epoch()),
                });
                // A manifest accepted before is sent again for the new lease, if it is still the current one.
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

    /// A workload without a known lease is none of ours to count, so it may be missing here.
    fn lease_removed(mut self, lease: &LeaseId) -> Self {
        self.leases.retain(|e| e.lease != *lease);
        self
    }

    fn wake(mut self, cx: &Cx<'_>, out: &mut Vec<Action>) -> Self {
        if let Phase::Fetching { retry_at: Some(at) } = self.phase
            && at <= cx.now.mono
        {
            out.push(Action::Call(Call::FetchDeployment(self.id.clone())));
            self.phase = Phase::Fetching { retry_at: None };
        }
        if self.block_deadline(cx).is_none_or(|d| d > cx.now.block_time) {
            return self;
        }
        // One list of the cluster answers for all that are late.
        let now = cx.now.block_time;
        let late = |e: &&mut Entry| e.due().is_some_and(|d| d <= now);
        for entry in self.leases.iter_mut().filter(late) {
            entry.evidence = Evidence::Due;
        }
        out.push(Action::LookAtCluster);
        self
    }

    fn shutdown(mut self, out: &mut Vec<Action>) -> Self {
        let recording = self.is_recording();
        // A manifest being recorded is durable or not within moments: its answer is awaited.
        let keep = usize::from(recording);
        for submission in self.line.drain(keep.min(self.line.len())..) {
            let message = "the provider is stopping; submit again in a minute".to_owned();
            if let Some(request) = submission.request {
                out.push(Action::Reply(
                    request,
                    Err(Refusal {
                        kind: RefusalKind::Stopping,
                        message,
                    }),
                ));
            }
        }
        self
    }

    /// Notices when nobody needs it any more.
    fn settle(mut self, cx: &Cx<'_>) -> Self {
        let idle = self.leases.is_empty() && self.line.is_empty() && matches!(self.phase, Phase::Idle);
        if !idle {
            self.idle_since = None;
            return self;
        }
        let since = *self.idle_since.get_or_insert(cx.now.mono);
        let lingered = cx.now.mono >= since.plus(LINGER);
        // It lingers for the sake of its manifest, which the lease of a restarted group is given.
        if self.closed || self.accepted.is_none() || lingered {
            self.phase = Phase::Done;
        }
        self
    }

    fn unexpected(self, out: &mut Vec<Action>) -> Self {
        out.push(Action::Unexpected);
        self
    }
}

/// What a tenant is told: to submit again only where that may help.
fn not_recorded(failure: &Failure) -> Refusal {
    if failure.transient {
        return Refusal {
            kind: RefusalKind::Unavailable,
            message: "the provider cannot store the manifest at the moment; submit again".to_owned(),
        };
    }
    // Errors of connections and of the provider's account are for its operator, and in the log.
    let reason = match failure.kind {
        // Names the part of the manifest.
        ErrorKind::Invalid => return rejected(format!("the cluster does not take the manifest: {failure}")),
        ErrorKind::Denied => "it denied the provider access",
        ErrorKind::Conflict => "another object is in the way",
        ErrorKind::NotFound => "it has no place for manifests",
        ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::ClusterNotReady => "it cannot be reached",
        ErrorKind::NotRegistered | ErrorKind::Aborted | ErrorKind::Stopped | ErrorKind::Internal => {
            "the provider failed"
        }
    };
    rejected(format!(
        "the provider's cluster does not take the manifest: {reason}; only the provider's operator can fix that"
    ))
}

fn rejected(message: String) -> Refusal {
    Refusal {
        kind: RefusalKind::Rejected,
        message,
    }
}

fn not_leader() -> Refusal {
    Refusal {
        kind: RefusalKind::NotLeader,
        message: "this instance is a standby; submit to the leading one".to_owned(),
    }
}

/// A tenant whose manifest could not be kept has at least this long to submit it again.
const RECORDING_GRACE: Duration = Duration::from_secs(30);

impl Machine for Deployment {
    type Id = DeploymentId;
    type Input = Input;
    type Action = Action;

    fn step(self, cx: &Cx<'_>, input: Input, out: &mut Vec<Action>) -> Self {
        self.transition(cx, input, out)
    }

    fn deadlines(&self, cx: &Cx<'_>) -> Deadlines {
        (self.mono_deadline(), self.block_deadline(cx))
    }

    fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }
}

#[cfg(test)]
mod tests;
