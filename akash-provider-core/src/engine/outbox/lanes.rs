//! Calls to the cluster for one lease go one at a time, whoever wants them: a tenant may send a new manifest
//! while the old one is being deployed.
//!
//! A deploy that declares a hostname also waits for the deploys of other leases that still declare it: one that was
//! under way when the name moved would take it back. Whoever waits has the higher number, so nobody waits in a
//! circle.
//!
//! A deploy writes the record of what it deploys. So none of a lease goes between the recording of a new manifest
//! and its acceptance, and one that has waited goes with the newest manifest: what was accepted is never written
//! over with what was before.

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

/// What a call does to a workload.
enum Subject<'a> {
    /// It brings this: the workload is recorded, or deployed.
    Deployment(&'a WorkloadSpec),
    /// It takes away what this lease has.
    Lease(&'a LeaseId),
    /// It is about none.
    None,
}

impl Call {
    fn subject(&self) -> Subject<'_> {
        match self {
            Self::Record(deployment) | Self::Deploy { deployment, .. } => Subject::Deployment(deployment),
            Self::Teardown(lease) => Subject::Lease(lease),
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
            | Self::ListWorkloads => Subject::None,
        }
    }

    /// The lease whose workload it is about.
    fn workload(&self) -> Option<&LeaseId> {
        match self.subject() {
            Subject::Deployment(deployment) => Some(&deployment.lease),
            Subject::Lease(lease) => Some(lease),
            Subject::None => None,
        }
    }
}

/// A call that waits.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Queued {
    id: EffectId,
    call: Call,
    /// Deploys of other leases that end before it goes.
    after: BTreeSet<EffectId>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Lane {
    in_flight: Option<EffectId>,
    /// A manifest was recorded that is not accepted yet: no deploy goes.
    recording: bool,
    queue: VecDeque<Queued>,
}

/// The calls to the cluster that have not ended, by lease.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Lanes {
    by_lease: FxHashMap<LeaseId, Lane>,
    lease_of: FxHashMap<EffectId, LeaseId>,
    deploys: FxHashMap<EffectId, Arc<WorkloadSpec>>,
    /// What is declared by deploys that have not ended. Names of equal hash wait for each other for nothing, which
    /// costs a moment.
    declaring: BTreeSet<(u64, EffectId)>,
    followers: FxHashMap<EffectId, BTreeSet<LeaseId>>,
    /// Leases of which a manifest was recorded that is not accepted yet.
    recording: FxHashMap<DeploymentId, BTreeSet<LeaseId>>,
}

impl Lanes {
    /// Covers the secrets of manifests.
    pub(super) fn hide(&mut self, cover: &Cover<'_>) {
        for queued in self.by_lease.values_mut().flat_map(|lane| &mut lane.queue) {
            hide_in_call(&mut queued.call, cover);
        }
        self.deploys
            .values_mut()
            .for_each(|spec| hide_in_spec(spec, cover));
    }

    /// Takes a call in and says which of its lease may go now.
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
        lane.queue.push_back(Queued { id, call, after });
        self.next(&lease)
    }

    /// Remembers what a deploy declares; returns the deploys of other leases that declare the same.
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

    /// The next call of a lease, where it may go now.
    fn next(&mut self, lease: &LeaseId) -> Option<(EffectId, Call)> {
        let lane = self.by_lease.get_mut(lease)?;
        if lane.in_flight.is_some() {
            return None;
        }
        let held = lane.recording;
        let may_go = |first: &Queued| {
            let is_deploy = matches!(first.call, Call::Deploy { .. });
            first.after.is_empty() && !(held && is_deploy)
        };
        let may_go = lane.queue.front().is_some_and(may_go);
        let Some(first) = may_go.then(|| lane.queue.pop_front()).flatten() else {
            if lane.queue.is_empty() && !held {
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

    /// A deployment's manifest was accepted, or given up; returns the leases of which another call may go now.
    fn recording_ended(&mut self, id: &DeploymentId) -> BTreeSet<LeaseId> {
        let leases = self.recording.remove(id).unwrap_or_default();
        for lease in &leases {
            if let Some(lane) = self.by_lease.get_mut(lease) {
                lane.recording = false;
            }
        }
        leases
    }

    /// A call has ended; returns the leases of which another may go now.
    fn ended(&mut self, id: EffectId) -> Vec<LeaseId> {
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
    /// Lets a call go, now or when those before it have ended.
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

    /// A call for this lease may go, if one waits.
    pub(super) fn next_in_lane(&mut self, lease: &LeaseId) {
        if let Some((id, call)) = self.outbox.lanes.next(lease) {
            self.send_queued(id, call);
        }
    }

    /// A call for the cluster has ended and what follows of it is known.
    pub(super) fn call_ended(&mut self, id: EffectId) {
        let lease = self.outbox.lanes.lease_of.get(&id).cloned();
        let mut next = self.outbox.lanes.ended(id);
        if let Some(deployment) = lease.as_ref().map(LeaseId::deployment)
            && !self.is_recording(deployment)
        {
            next.extend(self.outbox.lanes.recording_ended(deployment));
        }
        for lease in next {
            self.next_in_lane(&lease);
        }
    }

    /// A deploy that has waited is made of what is wanted now; nothing where that is the same.
    fn newest(&mut self, call: &Call, epoch: u64) -> Option<Call> {
        let Call::Deploy { deployment, .. } = call else {
            return None;
        };
        self.leases.deploy_newest(&deployment.lease, epoch)
    }

    /// A call that has waited goes, or fails where it may no longer be made.
    fn send_queued(&mut self, id: EffectId, call: Call) {
        let config = Arc::clone(&self.config);
        let cx = self.cx(&config);
        // What was wanted before another led may no longer be right.
        let outdated = match call.subject() {
            Subject::Deployment(deployment) => deployment.epoch != cx.epoch(),
            Subject::Lease(_) | Subject::None => false,
        };
        if cx.may_write() && !outdated {
            let Some(newest) = self.newest(&call, cx.epoch()) else {
                return self.outbox.emit(Effect::Call(id, call));
            };
            // It may declare other names, so it may have others to wait for.
            let next = self.outbox.lanes.ended(id);
            self.send(id, newest);
            for lease in next {
                self.next_in_lane(&lease);
            }
            return;
        }
        let failure = Failure {
            kind: ErrorKind::Unavailable,
            transient: true,
            message: "it may no longer be made by this instance".to_owned(),
        };
        let completion = match call.subject() {
            Subject::Lease(_) => Completion::Teardown(Err(failure)),
            // Whatever waits here is about a workload.
            Subject::Deployment(_) | Subject::None => Completion::Cluster(Err(failure)),
        };
        self.completed(id, completion);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sdl;

    #[test]
    fn nothing_secret_is_left_of_calls_that_run_and_of_calls_that_wait() {
        let text = include_str!("../../../tests/data/sdl/ports-and-proxy.yaml");
        let lease: LeaseId =
            "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm/1/1/1/akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm"
                .parse()
                .unwrap();
        let spec = |secret: &str| {
            let mut group = sdl::parse_all(text).unwrap().manifest.groups[0].clone();
            group.services[0].env = Some(vec![format!("TOKEN={secret}")]);
            Arc::new(WorkloadSpec {
                lease: lease.clone(),
                group: Arc::new(group),
                params: Arc::default(),
                hostnames: Vec::new(),
                ips: Vec::new(),
                epoch: 1,
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
