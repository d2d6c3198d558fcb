//! Hostnames of manifests: claimed, waited for, moved, given up.

use super::deployment::Accepted;
use super::hostnames::HostnameError;
use super::workload::{self, Workload};
use crate::cluster::WorkloadSpec;
use crate::engine::Engine;
use crate::engine::input::{Refusal, RefusalKind, Reply, RequestId};
use crate::manifest::{Group, check_hostname, hosts};
use crate::types::LeaseId;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Engine {
    pub(super) fn claim(
        &mut self,
        lease: &LeaseId,
        group: Arc<Group>,
    ) -> Result<(WorkloadSpec, Vec<String>), Refusal> {
        let names = hosts::custom_hosts(&group);
        let released = self.claim_names(lease, &names).map_err(|error| Refusal {
            kind: RefusalKind::Hostname,
            message: error.to_string(),
        })?;
        Ok((self.deployment_of(lease, group), released))
    }

    /// Claims names and remembers which of them the tenant's other leases hold. Returns the names given up.
    fn claim_names(&mut self, lease: &LeaseId, names: &[String]) -> Result<Vec<String>, HostnameError> {
        let reserved = self.leases.hostnames.reserve(lease, names)?;
        let withheld: BTreeSet<String> = reserved.withheld.into_iter().collect();
        // What the new manifest does not list is not waited for any more.
        self.leases.withheld.keep(lease, &withheld);
        for name in withheld {
            self.wait_for(name, lease);
        }
        Ok(reserved.released)
    }

    fn wait_for(&mut self, name: String, lease: &LeaseId) {
        // A blocked name never comes free.
        if self.leases.hostnames.is_blocked(&name) {
            return;
        }
        self.leases.withheld.add(name, lease);
    }

    /// No tenant gets the name under which our record sends tenants to us. Without a record the last one counts.
    pub(in crate::engine) fn block_own_host(&mut self) {
        if let Some(host) = self.market.own_host() {
            self.leases.hostnames.set_own(host);
        }
    }

    pub(super) fn holds_name(&self, lease: &LeaseId, name: &str) -> bool {
        let holder = self.leases.hostnames.holder(name);
        holder.is_some_and(|h| h.order.group == lease.order.group)
    }

    /// What a lease is to run, with the hostnames it holds now.
    fn deployment_of(&self, lease: &LeaseId, group: Arc<Group>) -> WorkloadSpec {
        let domain = self.config.static_hosts_domain.as_deref();
        let mut hostnames = hosts::hostnames_wanted(&group, lease, domain);
        let asked_for = hosts::custom_host_set(&group);
        // Automatic names are in no ledger: they follow from the lease, and nobody else may list them.
        hostnames.retain(|h| !asked_for.contains(&h.hostname) || self.holds_name(lease, &h.hostname));
        let params = self.reservations.params(&lease.order).unwrap_or_default();
        let ips = hosts::ips_wanted(&group, lease);
        let config = Arc::clone(&self.config);
        WorkloadSpec {
            lease: lease.clone(),
            ips,
            hostnames,
            params,
            group,
            epoch: self.cx(&config).epoch(),
        }
    }

    /// Hands an accepted manifest to its workload. Names may have moved since they were claimed.
    pub(super) fn deliver(&mut self, accepted: &WorkloadSpec, mut gone: Vec<String>) {
        let lease = &accepted.lease;
        if self.has_lease(lease) {
            gone.extend(self.claim_possible(lease, hosts::custom_hosts(&accepted.group)));
        }
        let deployment = Arc::new(self.deployment_of(lease, Arc::clone(&accepted.group)));
        let running = self.workload(lease).and_then(Workload::deployment);
        if !gone.is_empty() || running != Some(&deployment) {
            self.drive_workload(lease, workload::Input::Desire(deployment, gone.clone()));
        }
        self.drive_workload(lease, workload::Input::DeployNow);
        self.hostnames_freed(&gone);
    }

    /// Gives claims back to what runs: nothing of the new manifest was kept. Who waits for them gets them.
    pub(super) fn undo_claims(&mut self, accepted: &Accepted) {
        let mut freed = Vec::new();
        for deployment in &accepted.deployments {
            let id = &deployment.lease;
            let running = self.workload(id).and_then(Workload::deployment);
            let before = running.map(|d| hosts::custom_hosts(&d.group)).unwrap_or_default();
            freed.extend(self.claim_possible(id, before));
        }
        self.hostnames_freed(&freed);
    }

    /// Makes these the names of a lease, without those that were blocked, or taken by another tenant, meanwhile:
    /// they are not worth losing the others for. Returns the names given up.
    fn claim_possible(&mut self, lease: &LeaseId, names: Vec<String>) -> Vec<String> {
        let free = |n: &String| {
            let one = std::slice::from_ref(n);
            self.leases.hostnames.can_reserve(one, lease.owner()).is_ok()
        };
        let possible = |n: &String| self.holds_name(lease, n) || free(n);
        let (possible, others): (Vec<_>, Vec<_>) = names.into_iter().partition(possible);
        // Each was found possible just now, so this is a fault of ours and not the tenant's.
        let released = self.claim_names(lease, &possible).unwrap_or_else(|_| {
            self.outbox.count_unexpected();
            Vec::new()
        });
        for name in others {
            self.wait_for(name, lease);
        }
        released
    }

    /// Names were given up: the tenant's other leases that waited for them get them, the longest waiting first.
    pub(in crate::engine) fn hostnames_freed(&mut self, names: &[String]) {
        for name in self.leases.withheld.overlapping(names) {
            // A copy, because a redeploy takes the lease out of the line.
            for lease in self.leases.withheld.of(&name).to_vec() {
                // Asked each time, because the lease before may have taken it.
                let names = &self.leases.hostnames;
                let is_free = names.is_free(&name, lease.owner()) && !names.is_blocked(&name);
                if is_free && self.has_lease(&lease) {
                    self.redeploy(&lease);
                }
            }
        }
    }

    /// Names that leases wait for and nobody holds, whatever the reason.
    pub(in crate::engine) fn hand_out_names(&mut self) {
        let free = |name: &&String| self.leases.hostnames.holder(name).is_none();
        let free: Vec<String> = self.leases.withheld.names().filter(free).cloned().collect();
        self.hostnames_freed(&free);
    }

    /// Claims the names of a manifest that is in the cluster and was not in hand: those it was recorded with and
    /// that nobody else has got meanwhile. It waits for the others.
    pub(in crate::engine) fn adopt_names(&mut self, deployment: &WorkloadSpec) {
        let lease = &deployment.lease;
        let recorded = deployment.names();
        for name in hosts::custom_hosts(&deployment.group) {
            let wanted = recorded.contains(name.as_str());
            // An earlier lease of the group, which is over, hands its names on.
            let over = |holder: &LeaseId| {
                holder.order.group == lease.order.group && !self.has_lease(holder) && self.has_lease(lease)
            };
            if wanted && self.leases.hostnames.holder(&name).is_none_or(over) {
                self.leases.hostnames.adopt(&name, lease);
            } else if !self.holds_name(lease, &name) {
                self.wait_for(name, lease);
            }
        }
    }

    /// What the cluster has of a lease, with the hostnames that it holds now.
    pub(in crate::engine) fn with_held_names(&self, deployment: &Arc<WorkloadSpec>) -> Arc<WorkloadSpec> {
        let lease = &deployment.lease;
        let asked_for = hosts::custom_host_set(&deployment.group);
        let lost = |name: &String| asked_for.contains(name) && !self.holds_name(lease, name);
        if !deployment.hostnames.iter().any(|h| lost(&h.hostname)) {
            return Arc::clone(deployment);
        }
        let mut held = (**deployment).clone();
        held.hostnames.retain(|h| !lost(&h.hostname));
        Arc::new(held)
    }

    /// Claims the names a manifest lists that nobody holds, and waits for the others. It gives up none: a newer
    /// manifest that is being recorded may have claimed them.
    fn claim_more(&mut self, lease: &LeaseId, group: &Group) {
        if !self.leases.workloads.contains(lease) {
            return;
        }
        for name in hosts::custom_hosts(group) {
            let free = self.leases.hostnames.is_free(&name, lease.owner()) && self.has_lease(lease);
            if free && !self.leases.hostnames.is_blocked(&name) {
                self.leases.hostnames.adopt(&name, lease);
            }
            if !self.holds_name(lease, &name) {
                self.wait_for(name, lease);
            } else {
                self.leases.withheld.remove(&name, lease);
            }
        }
    }

    /// Deploys what a lease runs anew, with the hostnames it holds now.
    pub(in crate::engine) fn redeploy(&mut self, lease: &LeaseId) {
        let running = self.workload(lease).and_then(Workload::deployment);
        let Some(group) = running.map(|d| Arc::clone(&d.group)) else {
            return;
        };
        self.claim_more(lease, &group);
        let deployment = Arc::new(self.deployment_of(lease, group));
        self.drive_workload(lease, workload::Input::Desire(deployment, Vec::new()));
    }

    /// Moves hostnames to a lease from other leases of the same tenant.
    pub(in crate::engine) fn transfer_hostnames(
        &mut self,
        request: RequestId,
        lease: &LeaseId,
        names: &[String],
    ) {
        let names: Vec<String> = names.iter().map(|n| n.to_ascii_lowercase()).collect();
        let result = self.transfer(lease, &names);
        self.reply(request, result.map(|()| Reply::Done));
    }

    fn transfer(&mut self, lease: &LeaseId, names: &[String]) -> Result<(), Refusal> {
        let workload = self.workload(lease).filter(|w| w.is_live());
        let Some(group) = workload
            .and_then(Workload::deployment)
            .map(|d| Arc::clone(&d.group))
        else {
            let message = format!("no running lease {lease} to move hostnames to");
            return Err(Refusal {
                kind: RefusalKind::NoLease,
                message,
            });
        };
        // Also where an older version, or another provider, accepted the manifest that lists it.
        for name in names {
            check_hostname(name).map_err(|fault| Refusal {
                kind: RefusalKind::Hostname,
                message: format!("hostname not allowed: {name:?} {fault}; {}", fault.help()),
            })?;
        }
        let listed = hosts::custom_host_set(&group);
        if let Some(name) = names.iter().find(|n| !listed.contains(*n)) {
            let message =
                format!("hostname `{name}` is not listed by the manifest of {lease}; list it first");
            return Err(Refusal {
                kind: RefusalKind::Rejected,
                message,
            });
        }
        let refuse = |e: HostnameError| Refusal {
            kind: RefusalKind::Hostname,
            message: e.to_string(),
        };
        let moved = self.leases.hostnames.transfer(lease, names).map_err(refuse)?;
        // Each former holder once, however many names it loses, and in an order that can be repeated.
        let from: BTreeSet<LeaseId> = moved.into_iter().filter_map(|(_, from)| from).collect();
        for moved in from.iter().filter(|f| *f != lease).chain([lease]) {
            self.redeploy(moved);
            self.drive_workload(moved, workload::Input::DeployNow);
        }
        Ok(())
    }
}
