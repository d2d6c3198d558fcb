//! Queues of cluster calls, one queue per lease. The engine sends the calls of one lease one after another,
//! because a tenant may submit a new manifest while the previous manifest is being deployed.
//!
//! A deploy that declares a hostname also waits for the deploys of other leases that declare the same
//! hostname. Otherwise, a deploy in flight could take back a hostname that was transferred. A call waits only
//! for calls with a lower id, so deadlocks cannot occur.
//!
//! A deploy writes the record of its workload. From the start of the recording of a new manifest until the
//! manifest is accepted or rejected, no deploy of the lease starts. A queued deploy uses the newest manifest.
//! An older manifest therefore never overwrites an accepted manifest.

use crate::cluster::WorkloadSpec;
use crate::engine::{Call, Completion, Effect, EffectId, Engine};
use crate::error::{ErrorKind, Failure};
use crate::record::{Cover, hide_in_call, hide_in_spec};
use crate::types::{DeploymentId, LeaseId};
use rustc_hash::{FxBuildHasher, FxHashMap};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

/// Workload that a call affects.
enum AffectedWorkload<'a> {
    /// Workload to record or deploy.
    Deployment(&'a WorkloadSpec),
    /// Lease to tear down.
    Lease(&'a LeaseId),
    /// No workload.
    None,
}

impl Call {
    fn subject(&self) -> AffectedWorkload<'_> {
        match self {
            Self::Record(deployment) | Self::Deploy { deployment, .. } => {
                AffectedWorkload::Deployment(deployment)
            }
            Self::Teardown(lease) => AffectedWorkload::Lease(lease),
            Self::FetchOrder(_)
            | Self::CountBids(_)
            | Self::FetchProvider
            | Self::FetchBalances(_)
            | Self::FetchAudit(_)
            | Self::FetchBid(_)
            | Self::FetchLease(_)
            | Self::FetchDeployment(_)
            | Self::FetchSnapshot
            | Self::CalculatePrice(_)
            | Self::Broadcast(_)
            | Self::ListWorkloads => AffectedWorkload::None,
        }
    }

    fn workload(&self) -> Option<&LeaseId> {
        match self.subject() {
            AffectedWorkload::Deployment(deployment) => Some(&deployment.lease),
            AffectedWorkload::Lease(lease) => Some(lease),
            AffectedWorkload::None => None,
        }
    }
}

/// A cluster call that waits for earlier calls.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct QueuedCall {
    id: EffectId,
    call: Call,
    /// Ids of deploys of other leases. This call is sent after these deploys are complete.
    after: BTreeSet<EffectId>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Lane {
    in_flight: Option<EffectId>,
    /// True from the start of recording a manifest until the manifest is accepted or rejected. Deploys wait
    /// during this time.
    recording: bool,
    queue: VecDeque<QueuedCall>,
}

/// Incomplete calls to the cluster, by lease.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Lanes {
    by_lease: FxHashMap<LeaseId, Lane>,
    lease_of: FxHashMap<EffectId, LeaseId>,
    deploys: FxHashMap<EffectId, Arc<WorkloadSpec>>,
    /// Hostnames that pending deploys declare, as hashes. A hash collision only delays a deploy.
    declaring: BTreeSet<(u64, EffectId)>,
    followers: FxHashMap<EffectId, BTreeSet<LeaseId>>,
    /// Leases with a manifest that is being recorded or is not accepted yet.
    recording: FxHashMap<DeploymentId, BTreeSet<LeaseId>>,
}

impl Lanes {
    pub(super) fn hide(&mut self, cover: &Cover<'_>) {
        for queued in self.by_lease.values_mut().flat_map(|lane| &mut lane.queue) {
            hide_in_call(&mut queued.call, cover);
        }
        self.deploys
            .values_mut()
            .for_each(|spec| hide_in_spec(spec, cover));
    }

    /// Queues a call, then returns the next call of the lease as [`Self::next`] does.
    fn enter(&mut self, id: EffectId, lease: LeaseId, call: Call) -> Option<(EffectId, Call)> {
        // Records and teardowns declare no hostnames.
        let after = if let Call::Deploy { deployment, .. } = &call {
            self.declare(id, &lease, deployment)
        } else {
            BTreeSet::new()
        };
        for earlier in &after {
            self.followers.entry(*earlier).or_default().insert(lease.clone());
        }
        self.lease_of.insert(id, lease.clone());
        let lane = self.by_lease.entry(lease.clone()).or_default();
        lane.queue.push_back(QueuedCall { id, call, after });
        self.next(&lease)
    }

    /// Stores the hostnames of a deploy. Returns the deploys of other leases that declare one of these
    /// hostnames.
    fn declare(
        &mut self,
        id: EffectId,
        lease: &LeaseId,
        deployment: &Arc<WorkloadSpec>,
    ) -> BTreeSet<EffectId> {
        let mut after = BTreeSet::new();
        for name in hashes(deployment) {
            let same = self
                .declaring
                .range((name, EffectId(0))..=(name, EffectId(u64::MAX)));
            let others = same.filter(|(_, e)| self.lease_of.get(e).is_some_and(|other| other != lease));
            after.extend(others.map(|(_, e)| *e));
            self.declaring.insert((name, id));
        }
        self.deploys.insert(id, Arc::clone(deployment));
        after
    }

    /// Removes and returns the next call of a lease, or `None` if no call can be sent now.
    fn next(&mut self, lease: &LeaseId) -> Option<(EffectId, Call)> {
        let lane = self.by_lease.get_mut(lease)?;
        if lane.in_flight.is_some() {
            return None;
        }
        let recording = lane.recording;
        let may_go = |first: &QueuedCall| {
            let is_deploy = matches!(first.call, Call::Deploy { .. });
            first.after.is_empty() && !(recording && is_deploy)
        };
        let may_go = lane.queue.front().is_some_and(may_go);
        let Some(first) = may_go.then(|| lane.queue.pop_front()).flatten() else {
            if lane.queue.is_empty() && !recording {
                self.by_lease.remove(lease);
            }
            return None;
        };
        if let Call::Record(_) = first.call {
            lane.recording = true;
            let recording = self.recording.entry(lease.deployment().clone()).or_default();
            recording.insert(lease.clone());
        }
        lane.in_flight = Some(first.id);
        Some((first.id, first.call))
    }

    /// Unblocks the deploy calls for a deployment, and returns the affected leases.
    fn end_recording(&mut self, id: &DeploymentId) -> BTreeSet<LeaseId> {
        let leases = self.recording.remove(id).unwrap_or_default();
        for lease in &leases {
            if let Some(lane) = self.by_lease.get_mut(lease) {
                lane.recording = false;
            }
        }
        leases
    }

    /// Removes a completed call. Returns the leases that may now be able to send their next call.
    fn complete(&mut self, id: EffectId) -> Vec<LeaseId> {
        let Some(lease) = self.lease_of.remove(&id) else {
            return Vec::new();
        };
        for name in self.deploys.remove(&id).iter().flat_map(|d| hashes(d)) {
            self.declaring.remove(&(name, id));
        }
        if let Some(lane) = self.by_lease.get_mut(&lease) {
            lane.in_flight.take_if(|it| *it == id);
        }
        let followers = self.followers.remove(&id).unwrap_or_default();
        for follower in &followers {
            let queue = self.by_lease.get_mut(follower).map(|lane| &mut lane.queue);
            for queued in queue.into_iter().flatten() {
                queued.after.remove(&id);
            }
        }
        std::iter::once(lease).chain(followers).collect()
    }
}

fn hashes(deployment: &WorkloadSpec) -> impl Iterator<Item = u64> {
    let names = deployment.hostnames.iter();
    names.map(|name| FxBuildHasher.hash_one(&*name.hostname))
}

impl Engine {
    /// Sends a call now, or queues the call behind earlier calls of the same lease.
    pub(super) fn send(&mut self, id: EffectId, call: Call) {
        let Some(lease) = call.workload().cloned() else {
            return self.outbox.emit(Effect::Call(id, call));
        };
        match self.outbox.lanes.enter(id, lease, call) {
            Some((first, call)) if first == id => self.outbox.emit(Effect::Call(id, call)),
            Some((earlier, call)) => self.send_queued(earlier, call),
            None => {}
        }
    }

    pub(super) fn send_next(&mut self, lease: &LeaseId) {
        if let Some((id, call)) = self.outbox.lanes.next(lease) {
            self.send_queued(id, call);
        }
    }

    pub(super) fn call_completed(&mut self, id: EffectId) {
        let lease = self.outbox.lanes.lease_of.get(&id).cloned();
        let mut next = self.outbox.lanes.complete(id);
        if let Some(deployment) = lease.as_ref().map(LeaseId::deployment)
            && !self.is_recording(deployment)
        {
            next.extend(self.outbox.lanes.end_recording(deployment));
        }
        for lease in next {
            self.send_next(&lease);
        }
    }

    /// Returns a `Deploy` call for the newest manifest if the queued `call` deploys an older manifest,
    /// otherwise `None`.
    fn newest_deploy(&mut self, call: &Call, epoch: u64) -> Option<Call> {
        let Call::Deploy { deployment, .. } = call else {
            return None;
        };
        self.leases.deploy_newest(&deployment.lease, epoch)
    }

    /// Sends a queued call. If this instance may no longer make the call, completes the call with an error.
    fn send_queued(&mut self, id: EffectId, call: Call) {
        let config = Arc::clone(&self.config);
        let cx = self.cx(&config);
        // A call queued under an earlier leadership epoch may be outdated.
        let outdated = match call.subject() {
            AffectedWorkload::Deployment(deployment) => deployment.epoch != cx.epoch(),
            AffectedWorkload::Lease(_) | AffectedWorkload::None => false,
        };
        if cx.may_write() && !outdated {
            let Some(newest) = self.newest_deploy(&call, cx.epoch()) else {
                return self.outbox.emit(Effect::Call(id, call));
            };
            // The newest manifest may declare other hostnames, so the deploy is queued again.
            let next = self.outbox.lanes.complete(id);
            self.send(id, newest);
            for lease in next {
                self.send_next(&lease);
            }
            return;
        }
        let failure = Failure::transient(
            ErrorKind::Unavailable,
            "this instance no longer leads, or is stopping",
        );
        let completion = match call.subject() {
            AffectedWorkload::Lease(_) => Completion::Teardown(Err(failure)),
            // Every queued call affects a workload.
            AffectedWorkload::Deployment(_) | AffectedWorkload::None => Completion::Cluster(Err(failure)),
        };
        self.completed(id, completion);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sdl;

    #[test]
    fn hides_secrets_of_queued_and_running_calls() {
        let text = include_str!("../../../tests/data/sdl/ports-and-proxy.yaml");
        let lease: LeaseId =
            "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm/1/1/1/akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm"
                .parse()
                .unwrap();
        let spec = |secret: &str| {
            let mut group = sdl::parse_all(text).unwrap().manifest.groups[0].clone();
            group.services[0].env = Some(vec![format!("TOKEN={secret}")]);
            Arc::new(WorkloadSpec {
                epoch: 1,
                ..WorkloadSpec::new(lease.clone(), Arc::new(group))
            })
        };
        let deploy = |secret: &str| Call::Deploy {
            deployment: spec(secret),
            purge_hostnames: Vec::new(),
        };
        let mut lanes = Lanes::default();
        assert!(lanes.enter(EffectId(1), lease.clone(), deploy("runs")).is_some());
        assert!(lanes.enter(EffectId(2), lease.clone(), deploy("waits")).is_none());
        assert!(
            lanes
                .enter(EffectId(3), lease.clone(), Call::Record(spec("recorded")))
                .is_none()
        );
        let written = |lanes: &Lanes| format!("{lanes:?}");
        let secrets = ["TOKEN=runs", "TOKEN=waits", "TOKEN=recorded"];
        assert!(secrets.iter().all(|secret| written(&lanes).contains(secret)));
        lanes.hide(&|_| "covered".to_owned());
        for secret in secrets {
            assert!(!written(&lanes).contains(secret), "{secret}");
        }
    }
}
