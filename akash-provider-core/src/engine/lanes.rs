//! Calls to the cluster for one lease go one at a time, whoever wants them: a tenant may send a new manifest
//! while the old one is being deployed.
//!
//! A deploy that declares a hostname also waits for the deploys of other leases that still declare it: one that was
//! under way when the name moved would take it back. Whoever waits has the higher number, so nobody waits in a
//! circle.

use super::{Call, Completion, Effect, EffectId, Engine};
use crate::cluster::Deployment;
use crate::error::{ErrorKind, Failure};
use crate::types::LeaseId;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::collections::{BTreeSet, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

impl Call {
    /// The lease whose workload it is about.
    pub(super) fn workload(&self) -> Option<&LeaseId> {
        match self {
            Self::Record(deployment) | Self::Deploy { deployment, .. } => Some(&deployment.lease),
            Self::Teardown(lease) => Some(lease),
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
            | Self::ListWorkloads => None,
        }
    }
}

/// A call that waits.
#[derive(Debug)]
struct Queued {
    id: EffectId,
    call: Call,
    /// Deploys of other leases that end before it goes.
    after: BTreeSet<EffectId>,
}

#[derive(Debug, Default)]
struct Lane {
    in_flight: Option<EffectId>,
    queue: VecDeque<Queued>,
}

/// The calls to the cluster that have not ended, by lease.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    by_lease: FxHashMap<LeaseId, Lane>,
    lease_of: FxHashMap<EffectId, LeaseId>,
    deploys: FxHashMap<EffectId, Arc<Deployment>>,
    /// What is declared by deploys that have not ended. Names of equal hash wait for each other for nothing, which
    /// costs a moment.
    declaring: BTreeSet<(u64, EffectId)>,
    followers: FxHashMap<EffectId, BTreeSet<LeaseId>>,
}

impl Lanes {
    /// Takes a call in and says which of its lease may go now.
    fn enter(&mut self, id: EffectId, lease: LeaseId, call: Call) -> Option<(EffectId, Call)> {
        let after = match &call {
            Call::Deploy { deployment, .. } => self.declare(id, &lease, deployment),
            _ => BTreeSet::new(),
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
    fn declare(&mut self, id: EffectId, lease: &LeaseId, deployment: &Arc<Deployment>) -> BTreeSet<EffectId> {
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
        let may_go = lane.queue.front().is_some_and(|first| first.after.is_empty());
        let Some(first) = may_go.then(|| lane.queue.pop_front()).flatten() else {
            if lane.queue.is_empty() {
                self.by_lease.remove(lease);
            }
            return None;
        };
        lane.in_flight = Some(first.id);
        Some((first.id, first.call))
    }

    /// A call has ended; returns the leases of which another may go now.
    pub(super) fn ended(&mut self, id: EffectId) -> Vec<LeaseId> {
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

fn hashes(deployment: &Deployment) -> impl Iterator<Item = u64> {
    let names = deployment.hostnames.iter();
    names.map(|name| FxBuildHasher.hash_one(&*name.hostname))
}

impl Engine {
    /// Lets a call go, now or when those before it have ended.
    pub(super) fn send(&mut self, id: EffectId, call: Call) {
        let Some(lease) = call.workload().cloned() else {
            return self.out.push(Effect::Call(id, call));
        };
        match self.lanes.enter(id, lease, call) {
            Some((first, call)) if first == id => self.out.push(Effect::Call(id, call)),
            Some((earlier, call)) => self.send_queued(earlier, call),
            None => {}
        }
    }

    /// A call for this lease may go, if one waits.
    pub(super) fn next_in_lane(&mut self, lease: &LeaseId) {
        if let Some((id, call)) = self.lanes.next(lease) {
            self.send_queued(id, call);
        }
    }

    /// A call that has waited goes, or fails where it may no longer be made.
    fn send_queued(&mut self, id: EffectId, call: Call) {
        let config = Arc::clone(&self.config);
        let cx = self.cx(&config);
        // What was wanted before another led may no longer be right.
        let outdated = match &call {
            Call::Record(deployment) | Call::Deploy { deployment, .. } => deployment.epoch != cx.epoch(),
            _ => false,
        };
        if cx.may_write() && !outdated {
            self.out.push(Effect::Call(id, call));
            return;
        }
        let failure = Failure {
            kind: ErrorKind::Unavailable,
            transient: true,
            message: "it may no longer be made by this instance".to_owned(),
        };
        let completion = match call {
            Call::Teardown(_) => Completion::Teardown(Err(failure)),
            _ => Completion::Cluster(Err(failure)),
        };
        self.completed(id, completion);
    }
}
