//! Updates the workloads and the hostname claims from a list of the workloads in the cluster.
//!
//! Missing or different workloads are deployed again. An unusable record closes no lease.

use super::addresses::DeclaredAddresses;
use crate::cluster::{DeclaredHostname, Listing, RecordDefect, UnusableRecord, WorkloadSpec};
use crate::engine::workload::{ClusterLane, Workload, WorkloadInput};
use crate::engine::{Engine, Workloads, deployment, sorted};
use crate::manifest::hosts;
use crate::types::{DeploymentId, Event, LeaseId};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Engine {
    /// Adopts the workloads of this provider in the cluster, and deploys missing workloads again.
    pub(in crate::engine) fn apply_workloads(&mut self, workloads: Workloads) {
        let fresh = !self.progress.cluster_known();
        if fresh && !self.scan.is_listing_complete() {
            // Another leader may have written after this listing. A newer listing has been requested.
            return;
        }
        // Compared before the listing changes the machines.
        let misrouted = self.misrouted_workloads(&workloads);
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
        // Automatic hostnames derive from the lease id and are not claimed.
        declared.retain(|h| ours(&h.lease) && !self.is_automatic(&h.hostname));
        let unusable = self.unusable_leases(&unusable);
        self.check_records(fresh, &deployments, &unusable, place);
        let there: BTreeSet<&LeaseId> = deployments.iter().map(|d| &d.lease).collect();
        if fresh {
            self.leases.clear_hostnames();
        } else {
            let mut lost = self.missing_workloads(&there, &incomplete);
            lost.extend(misrouted.into_iter().map(|(lease, _)| lease));
            // Each lease once, in a deterministic order.
            for id in BTreeSet::from_iter(lost) {
                self.redeploy(&id);
            }
        }
        // Hostnames are claimed first, because a deploy uses the hostnames that its lease holds.
        self.adopt_declared(&declared, &deployments);
        for deployment in &deployments {
            if fresh || !self.has_manifest(&deployment.lease) {
                self.adopt_hostnames(deployment);
            }
        }
        // Set before the workloads are processed, because deploys require it.
        self.progress.set_cluster_known(true);
        for deployment in &deployments {
            self.adopt_workload(deployment, fresh);
        }
        if fresh {
            self.redeploy_unlisted(&there);
        }
        self.purge_unwanted_hostnames(&declared);
        self.assign_free_hostnames();
        self.notify_deployments(&unusable);
    }

    /// Returns the active leases with an unusable record or workload, and the problem of each lease.
    fn unusable_leases(&self, unusable: &[UnusableRecord]) -> BTreeMap<LeaseId, (RecordDefect, Arc<str>)> {
        if unusable.is_empty() {
            return BTreeMap::new();
        }
        // An object without a lease id is assigned by its name.
        let named: BTreeMap<String, LeaseId> = self
            .leases
            .workloads()
            .map(|(lease, _)| (lease.namespace(), lease.clone()))
            .collect();
        let of = |thing: &UnusableRecord| {
            let lease = thing.lease.as_ref().or_else(|| named.get(&thing.name))?;
            let problem = Arc::from(thing.problem.as_str());
            Some((lease.clone(), (thing.remains, problem)))
        };
        let found = unusable.iter().filter_map(of);
        found.filter(|(lease, _)| self.has_lease(lease)).collect()
    }

    /// Checks that the cluster contains workload records of the leases.
    ///
    /// `fresh` is true for the first list of the workloads. If this list contains no record, the breaker
    /// holds all closes. The hold ends when a record is found or an operator releases the breaker.
    fn check_records(
        &mut self,
        fresh: bool,
        deployments: &[Arc<WorkloadSpec>],
        unusable: &BTreeMap<LeaseId, (RecordDefect, Arc<str>)>,
        place: String,
    ) {
        let recorded = deployments.iter().map(|d| &d.lease);
        let unreadable = unusable
            .iter()
            .filter(|(_, (r, _))| *r == RecordDefect::Unreadable);
        let records = recorded.chain(unreadable.map(|(lease, _)| lease));
        let live: Vec<&LeaseId> = records.filter(|lease| self.has_lease(lease)).collect();
        if fresh {
            self.leases
                .breaker_mut()
                .start(&self.config, self.progress.mono());
            let leases = self.unlisted_leases();
            if leases > 0 && live.is_empty() {
                self.leases.breaker_mut().set_records_missing(place.clone());
                return self.publish(Event::RecordsNotFound { leases, place });
            }
        }
        // A record written by this instance is not evidence.
        if live.iter().any(|lease| self.needs_listing(lease))
            && self.leases.breaker_mut().clear_records_missing()
        {
            self.publish(Event::RecordsFound);
        }
    }

    fn unlisted_leases(&self) -> u32 {
        let unlisted = self
            .live_leases()
            .iter()
            .filter(|id| self.needs_listing(id))
            .count();
        u32::try_from(unlisted).unwrap_or(u32::MAX)
    }

    fn needs_listing(&self, lease: &LeaseId) -> bool {
        let machine = self.leases.deployment(lease.deployment());
        machine.is_some_and(|m| m.needs_listing(lease))
    }

    fn notify_deployments(&mut self, unusable: &BTreeMap<LeaseId, (RecordDefect, Arc<str>)>) {
        let is_complete = self.scan.is_listing_complete();
        let conclusive = self.leases.breaker().records_missing().is_none();
        let mut of_deployment = BTreeMap::<&DeploymentId, BTreeMap<LeaseId, Arc<str>>>::new();
        for (lease, (_, problem)) in unusable {
            let leases = of_deployment.entry(lease.deployment()).or_default();
            leases.insert(lease.clone(), Arc::clone(problem));
        }
        for id in self.leases.deployment_ids() {
            let input = if is_complete {
                deployment::DeploymentInput::Listed {
                    unusable: of_deployment.remove(&id).unwrap_or_default(),
                    conclusive,
                }
            } else {
                deployment::DeploymentInput::Wake
            };
            self.drive_deployment(&id, input);
        }
        if !conclusive || !unusable.is_empty() {
            // The listing is repeated soon, because an operator may be fixing the problem.
            self.scan.list_again(self.progress.mono());
        }
    }

    /// Assigns declared hostnames to their leases. Skips a hostname that the listed manifest of its lease
    /// lacks. Skips a lease if the engine already has a manifest of this lease.
    fn adopt_declared(&mut self, declared: &[DeclaredHostname], deployments: &[Arc<WorkloadSpec>]) {
        let listed: BTreeMap<&LeaseId, BTreeSet<String>> = deployments
            .iter()
            .map(|d| (&d.lease, hosts::custom_host_set(&d.group)))
            .collect();
        for DeclaredHostname { hostname, lease } in declared {
            let wanted = listed.get(lease).is_none_or(|names| names.contains(hostname));
            let in_hand = self.progress.cluster_known() && self.has_manifest(lease);
            // The listing may contain a closed lease, which must not hold hostnames permanently.
            let is_known = self.has_lease(lease) || listed.contains_key(lease);
            if wanted && is_known && !in_hand && self.leases.holder(hostname).is_none() {
                self.leases.adopt_hostname(hostname, lease);
            }
        }
    }

    /// Deploys the engine's workloads that are missing in the first listing after a takeover.
    fn redeploy_unlisted(&mut self, there: &BTreeSet<&LeaseId>) {
        for id in self.leases.workload_ids() {
            if !there.contains(&id) {
                self.redeploy(&id);
            }
        }
    }

    /// Repeats the deploy of each lease that has unwanted hostname declarations. The deploy deletes these
    /// declarations.
    fn purge_unwanted_hostnames(&mut self, declared: &[DeclaredHostname]) {
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
                self.drive_workload(id, WorkloadInput::SetSpec(deployment, names));
            }
        }
    }

    fn is_automatic(&self, name: &str) -> bool {
        let domain = self.config.static_hosts_domain.as_deref();
        let label = domain.and_then(|d| name.strip_suffix(d));
        label.is_some_and(|label| label.ends_with('.'))
    }

    /// Compares the hostname and address records of each lease with the deployed manifest. Returns the leases
    /// with a difference, and the first difference of each lease.
    pub(in crate::engine) fn misrouted_workloads(&self, workloads: &Workloads) -> Vec<(LeaseId, String)> {
        if self.role.is_standby() {
            // The leader repairs differences.
            return Vec::new();
        }
        let holders = workloads.hostnames.as_ref().map(|declared| {
            let holders = declared.iter().map(|d| (d.hostname.as_str(), &d.lease));
            holders.collect::<FxHashMap<_, _>>()
        });
        let addresses = workloads.ips.as_deref().map(DeclaredAddresses::new);
        let mut misrouted = Vec::new();
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
            misrouted.extend(name.or(address).map(|what| (id.clone(), what)));
        }
        misrouted
    }

    /// Returns the leases with a missing or incomplete workload in the cluster. Leases with a call in flight
    /// are omitted.
    pub(in crate::engine) fn missing_workloads(
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
