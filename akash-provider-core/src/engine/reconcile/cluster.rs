//! From a list of what the cluster has to machines and claims of hostnames.
//!
//! What the list lacks, or has otherwise than it is wanted, is deployed anew; what it has that cannot be used ends
//! nothing.

use super::addresses::Addresses;
use crate::cluster::{DeclaredHostname, Listing, Remains, Unusable, WorkloadSpec};
use crate::engine::workload::{ClusterLane, Input, Workload};
use crate::engine::{Engine, Workloads, deployment, sorted};
use crate::manifest::hosts;
use crate::types::{DeploymentId, Event, LeaseId};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Engine {
    /// Takes over what the cluster has of ours, and deploys anew what it lost.
    pub(in crate::engine) fn apply_workloads(&mut self, workloads: Workloads) {
        let fresh = !self.progress.cluster_known();
        if fresh && !self.scan.shows_all() {
            // Another leader may have written after this list was made; a newer one is on its way.
            return;
        }
        // Compared with what is wanted before any of it is taken over.
        let misled = self.misled(&workloads);
        let Listing {
            deployments,
            unusable,
            incomplete,
            place,
            ..
        } = workloads.listing;
        let ours = |lease: &LeaseId| lease.provider == self.config.provider;
        let deployments = deployments.into_iter().filter(|d| ours(&d.lease));
        let deployments: Vec<_> = deployments.map(Arc::new).collect();
        let mut declared = workloads.hostnames.unwrap_or_default();
        // Automatic names follow from their lease and are claimed by nobody.
        declared.retain(|h| ours(&h.lease) && !self.is_automatic(&h.hostname));
        let unusable = self.unusable_leases(&unusable);
        self.judge_records(fresh, &deployments, &unusable, place);
        let there: BTreeSet<&LeaseId> = deployments.iter().map(|d| &d.lease).collect();
        if fresh {
            self.leases.forget_names();
        } else {
            let mut lost = self.lost_workloads(&there, &incomplete);
            lost.extend(misled.into_iter().map(|(lease, _)| lease));
            // Each once, whatever it lacks, in an order that can be repeated.
            for id in BTreeSet::from_iter(lost) {
                self.redeploy(&id);
            }
        }
        // Claims before machines, because a machine deploys with the names its lease holds.
        self.adopt_declared(&declared, &deployments);
        for deployment in &deployments {
            if fresh || !self.has_manifest(&deployment.lease) {
                self.adopt_names(deployment);
            }
        }
        // Before the workloads are taken over, because nothing is deployed while this is not so.
        self.progress.set_cluster_known(true);
        for deployment in &deployments {
            self.workload_found(deployment, fresh);
        }
        if fresh {
            self.keep_unlisted(&there);
        }
        self.take_back_unwanted(&declared);
        self.hand_out_names();
        self.tell_deployments(&unusable);
    }

    /// Live leases of which the cluster has something that cannot be used, and what.
    fn unusable_leases(&self, unusable: &[Unusable]) -> BTreeMap<LeaseId, (Remains, Arc<str>)> {
        if unusable.is_empty() {
            return BTreeMap::new();
        }
        // By what they say, and by their names: one that does not say whose it is has the name of its lease.
        let named: BTreeMap<String, LeaseId> = self
            .leases
            .workloads()
            .map(|(lease, _)| (lease.namespace(), lease.clone()))
            .collect();
        let of = |thing: &Unusable| {
            let lease = thing.lease.as_ref().or_else(|| named.get(&thing.name))?;
            let problem = Arc::from(thing.problem.as_str());
            Some((lease.clone(), (thing.remains, problem)))
        };
        let found = unusable.iter().filter_map(of);
        found.filter(|(lease, _)| self.has_lease(lease)).collect()
    }

    /// A start that finds leases on the chain and no record of any of them looks in a wrong place, or has lost
    /// everything: nothing is ended until a record is found, or an operator says that it is so.
    fn judge_records(
        &mut self,
        fresh: bool,
        deployments: &[Arc<WorkloadSpec>],
        unusable: &BTreeMap<LeaseId, (Remains, Arc<str>)>,
        place: String,
    ) {
        let recorded = deployments.iter().map(|d| &d.lease);
        let unreadable = unusable.iter().filter(|(_, (r, _))| *r == Remains::Unreadable);
        let records = recorded.chain(unreadable.map(|(lease, _)| lease));
        let live: Vec<&LeaseId> = records.filter(|lease| self.has_lease(lease)).collect();
        if fresh {
            self.leases
                .breaker_mut()
                .start(&self.config, self.progress.mono());
            let leases = self.unseen_leases();
            if leases > 0 && live.is_empty() {
                self.leases.breaker_mut().miss_records(place.clone());
                return self.publish(Event::RecordsNotFound { leases, place });
            }
        }
        // One that was recorded here would prove nothing.
        if live.iter().any(|lease| self.is_unseen(lease)) && self.leases.breaker_mut().find_records() {
            self.publish(Event::RecordsFound);
        }
    }

    fn unseen_leases(&self) -> u32 {
        let unseen = self.live_leases().iter().filter(|id| self.is_unseen(id)).count();
        u32::try_from(unseen).unwrap_or(u32::MAX)
    }

    fn is_unseen(&self, lease: &LeaseId) -> bool {
        let machine = self.leases.deployment(lease.deployment());
        machine.is_some_and(|m| m.is_unseen(lease))
    }

    /// What the list shows of every lease without a manifest, or does not.
    fn tell_deployments(&mut self, unusable: &BTreeMap<LeaseId, (Remains, Arc<str>)>) {
        let shown = self.scan.shows_all();
        let conclusive = self.leases.breaker().records_missing().is_none();
        let mut of_deployment = BTreeMap::<&DeploymentId, BTreeMap<LeaseId, Arc<str>>>::new();
        for (lease, (_, problem)) in unusable {
            let leases = of_deployment.entry(lease.deployment()).or_default();
            leases.insert(lease.clone(), Arc::clone(problem));
        }
        for id in self.leases.deployment_ids() {
            let input = if shown {
                deployment::Input::Listed {
                    unusable: of_deployment.remove(&id).unwrap_or_default(),
                    conclusive,
                }
            } else {
                deployment::Input::Wake
            };
            self.drive_deployment(&id, input);
        }
        if !conclusive || !unusable.is_empty() {
            // Somebody is at work on it, perhaps.
            self.scan.look_again(self.progress.mono());
        }
    }

    /// Names that lead to a lease are its own, unless its manifest no longer lists them. What is in hand has its
    /// claims; the list may be older than they are.
    fn adopt_declared(&mut self, declared: &[DeclaredHostname], deployments: &[Arc<WorkloadSpec>]) {
        let listed: BTreeMap<&LeaseId, BTreeSet<String>> = deployments
            .iter()
            .map(|d| (&d.lease, hosts::custom_host_set(&d.group)))
            .collect();
        for DeclaredHostname { hostname, lease } in declared {
            let wanted = listed.get(lease).is_none_or(|names| names.contains(hostname));
            let in_hand = self.progress.cluster_known() && self.has_manifest(lease);
            // The list may be older than the end of the lease, which then would hold its names for ever.
            let is_known = self.has_lease(lease) || listed.contains_key(lease);
            if wanted && is_known && !in_hand && self.leases.holder(hostname).is_none() {
                self.leases.adopt_name(hostname, lease);
            }
        }
    }

    /// What was to run before another led and is not in the cluster: it is deployed anew.
    fn keep_unlisted(&mut self, there: &BTreeSet<&LeaseId>) {
        for id in self.leases.workload_ids() {
            if !there.contains(&id) {
                self.redeploy(&id);
            }
        }
    }

    /// A name that leads to a lease which no longer wants it goes, however it came to stay.
    fn take_back_unwanted(&mut self, declared: &[DeclaredHostname]) {
        if self.role.is_standby() {
            return;
        }
        let mut wanted = BTreeMap::<&LeaseId, Option<BTreeSet<&str>>>::new();
        let mut unwanted = BTreeMap::<&LeaseId, Vec<String>>::new();
        let declared = declared.iter().filter(|d| !self.scan.is_outdated(&d.lease));
        for DeclaredHostname { hostname, lease } in declared {
            let wanted = wanted.entry(lease).or_insert_with(|| {
                let desired = self.workload(lease).and_then(Workload::deployment);
                desired.map(|d| d.names())
            });
            if wanted
                .as_ref()
                .is_some_and(|names| !names.contains(hostname.as_str()))
            {
                unwanted.entry(lease).or_default().push(hostname.clone());
            }
        }
        for (id, names) in unwanted {
            let deployment = self.workload(id).and_then(Workload::deployment).map(Arc::clone);
            if let Some(deployment) = deployment {
                self.drive_workload(id, Input::Desire(deployment, names));
            }
        }
    }

    fn is_automatic(&self, name: &str) -> bool {
        let domain = self.config.static_hosts_domain.as_deref();
        let label = domain.and_then(|d| name.strip_suffix(d));
        label.is_some_and(|label| label.ends_with('.'))
    }

    /// Leases that were deployed with names or addresses that are not declared so, each with one of them. A deploy
    /// that was under way when a name moved may have taken it back.
    pub(in crate::engine) fn misled(&self, workloads: &Workloads) -> Vec<(LeaseId, String)> {
        if self.role.is_standby() {
            // What runs is another's to say.
            return Vec::new();
        }
        let holders = workloads.hostnames.as_ref().map(|declared| {
            let holders = declared.iter().map(|d| (d.hostname.as_str(), &d.lease));
            holders.collect::<FxHashMap<_, _>>()
        });
        let addresses = workloads.ips.as_deref().map(Addresses::new);
        let mut misled = Vec::new();
        for id in self.leases.workload_ids() {
            let is_comparable = |w: &&Workload| w.is_live() && w.is_settled() && !self.scan.is_outdated(&id);
            let workload = self.workload(&id).filter(is_comparable);
            let Some(deployment) = workload.and_then(Workload::deployment) else {
                continue;
            };
            let elsewhere = |name: &str| holders.as_ref().is_some_and(|h| h.get(name) != Some(&&id));
            let mut names = deployment.hostnames.iter().map(|h| h.hostname.as_str());
            let name = names.find(|name| elsewhere(name));
            let name = name.map(|name| format!("hostname {name}"));
            let address = addresses.as_ref().and_then(|a| a.difference(deployment));
            misled.extend(name.or(address).map(|what| (id.clone(), what)));
        }
        misled
    }

    /// Deployed, at rest, and yet not in the cluster, or not whole there.
    pub(in crate::engine) fn lost_workloads(
        &self,
        there: &BTreeSet<&LeaseId>,
        incomplete: &[LeaseId],
    ) -> Vec<LeaseId> {
        if self.role.is_standby() {
            return Vec::new();
        }
        let incomplete: BTreeSet<&LeaseId> = incomplete.iter().collect();
        let lost = |w: &Workload| w.is_live() && w.generation() > 0 && *w.cluster_lane() == ClusterLane::Idle;
        let is_there = |id: &LeaseId| there.contains(id) && !incomplete.contains(id);
        let all = self
            .leases
            .workloads()
            .filter(|(id, workload)| !is_there(id) && lost(workload) && !self.scan.is_outdated(id));
        sorted(all.map(|(id, _)| id))
    }
}
