//! Hostnames of manifests: claim, wait, transfer and release.

use super::deployment::AcceptedManifest;
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
        let released = self
            .claim_names(lease, &names)
            .map_err(|error| Refusal::new(RefusalKind::Hostname, error.to_string()))?;
        Ok((self.workload_spec(lease, group), released))
    }

    /// Claims hostnames for a lease. The lease waits for hostnames that another lease of the tenant holds.
    /// Returns the hostnames that the lease released.
    fn claim_names(&mut self, lease: &LeaseId, names: &[String]) -> Result<Vec<String>, HostnameError> {
        let reserved = self.leases.hostnames.reserve(lease, names)?;
        let withheld: BTreeSet<String> = reserved.withheld.into_iter().collect();
        // The lease no longer waits for hostnames that the new manifest does not list.
        self.leases.hostname_queue.retain(lease, &withheld);
        for name in withheld {
            self.queue_for_hostname(name, lease);
        }
        Ok(reserved.released)
    }

    fn queue_for_hostname(&mut self, name: String, lease: &LeaseId) {
        // A blocked hostname never becomes free.
        if self.leases.hostnames.is_blocked(&name) {
            return;
        }
        self.leases.hostname_queue.add(name, lease);
    }

    /// Blocks the provider's own hostname for tenants. The hostname comes from the provider record on the
    /// chain. If this record is missing, the previous hostname stays blocked.
    pub(in crate::engine) fn block_own_host(&mut self) {
        if let Some(host) = self.market.own_host() {
            self.leases.hostnames.set_own(host);
        }
    }

    pub(super) fn holds_hostname(&self, lease: &LeaseId, name: &str) -> bool {
        let holder = self.leases.hostnames.holder(name);
        holder.is_some_and(|h| h.order.group == lease.order.group)
    }

    fn workload_spec(&self, lease: &LeaseId, group: Arc<Group>) -> WorkloadSpec {
        let domain = self.config.static_hosts_domain.as_deref();
        let mut hostnames = hosts::hostnames_wanted(&group, lease, domain);
        let asked_for = hosts::custom_host_set(&group);
        // Automatic hostnames are not in the ledger: they derive from the lease id, and other leases cannot list them.
        hostnames.retain(|h| !asked_for.contains(&h.hostname) || self.holds_hostname(lease, &h.hostname));
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

    /// Claims the hostnames of an accepted manifest, then deploys the workload.
    pub(super) fn deliver(&mut self, accepted: &WorkloadSpec, mut gone: Vec<String>) {
        let lease = &accepted.lease;
        if self.has_lease(lease) {
            gone.extend(self.claim_possible(lease, hosts::custom_hosts(&accepted.group)));
        }
        let deployment = Arc::new(self.workload_spec(lease, Arc::clone(&accepted.group)));
        let running = self.workload(lease).and_then(Workload::deployment);
        if !gone.is_empty() || running != Some(&deployment) {
            self.drive_workload(lease, workload::WorkloadInput::SetSpec(deployment, gone.clone()));
        }
        self.drive_workload(lease, workload::WorkloadInput::DeployNow);
        self.hostnames_freed(&gone);
    }

    /// Restores the hostname claims of the running workloads, because the accepted manifest is not deployed.
    pub(super) fn undo_claims(&mut self, accepted: &AcceptedManifest) {
        let mut freed = Vec::new();
        for deployment in &accepted.deployments {
            let id = &deployment.lease;
            let running = self.workload(id).and_then(Workload::deployment);
            let before = running.map(|d| hosts::custom_hosts(&d.group)).unwrap_or_default();
            freed.extend(self.claim_possible(id, before));
        }
        self.hostnames_freed(&freed);
    }

    /// Replaces the hostnames of a lease. The lease waits for hostnames that are blocked or held by another
    /// tenant. Returns the hostnames that the lease released.
    fn claim_possible(&mut self, lease: &LeaseId, names: Vec<String>) -> Vec<String> {
        let free = |n: &String| {
            let one = std::slice::from_ref(n);
            self.leases.hostnames.can_reserve(one, lease.owner()).is_ok()
        };
        let possible = |n: &String| self.holds_hostname(lease, n) || free(n);
        let (possible, others): (Vec<_>, Vec<_>) = names.into_iter().partition(possible);
        // Each hostname was possible a moment ago, so a failure is a defect of the engine.
        let released = self.claim_names(lease, &possible).unwrap_or_else(|_| {
            self.outbox.count_unexpected();
            Vec::new()
        });
        for name in others {
            self.queue_for_hostname(name, lease);
        }
        released
    }

    /// Assigns released hostnames to the waiting leases of the same tenant, in order of arrival.
    pub(in crate::engine) fn hostnames_freed(&mut self, names: &[String]) {
        for name in self.leases.hostname_queue.overlapping(names) {
            // A copy, because `redeploy` changes the queue.
            for lease in self.leases.hostname_queue.waiting_for(&name).to_vec() {
                // Checked for each lease, because the previous lease may have taken the hostname.
                let names = &self.leases.hostnames;
                let is_free = names.is_free(&name, lease.owner()) && !names.is_blocked(&name);
                if is_free && self.has_lease(&lease) {
                    self.redeploy(&lease);
                }
            }
        }
    }

    pub(in crate::engine) fn assign_free_hostnames(&mut self) {
        let free = |name: &&String| self.leases.hostnames.holder(name).is_none();
        let free: Vec<String> = self.leases.hostname_queue.names().filter(free).cloned().collect();
        self.hostnames_freed(&free);
    }

    /// Claims the hostnames of a manifest that was found in the cluster.
    ///
    /// The lease gets each recorded hostname that is free or belongs to a closed lease of the same group. The
    /// lease waits for the other hostnames of the manifest.
    pub(in crate::engine) fn adopt_hostnames(&mut self, deployment: &WorkloadSpec) {
        let lease = &deployment.lease;
        let recorded = deployment.names();
        for name in hosts::custom_hosts(&deployment.group) {
            let wanted = recorded.contains(name.as_str());
            // A closed lease of the same group passes its hostnames on.
            let over = |holder: &LeaseId| {
                holder.order.group == lease.order.group && !self.has_lease(holder) && self.has_lease(lease)
            };
            if wanted && self.leases.hostnames.holder(&name).is_none_or(over) {
                self.leases.hostnames.adopt(&name, lease);
            } else if !self.holds_hostname(lease, &name) {
                self.queue_for_hostname(name, lease);
            }
        }
    }

    pub(in crate::engine) fn without_lost_hostnames(
        &self,
        deployment: &Arc<WorkloadSpec>,
    ) -> Arc<WorkloadSpec> {
        let lease = &deployment.lease;
        let asked_for = hosts::custom_host_set(&deployment.group);
        let lost = |name: &String| asked_for.contains(name) && !self.holds_hostname(lease, name);
        if !deployment.hostnames.iter().any(|h| lost(&h.hostname)) {
            return Arc::clone(deployment);
        }
        let mut deployment = (**deployment).clone();
        deployment.hostnames.retain(|h| !lost(&h.hostname));
        Arc::new(deployment)
    }

    /// Claims the free hostnames of a manifest, and queues the lease for the hostnames in use. Other
    /// hostnames of the lease are not released, because a newer manifest may use them.
    fn claim_more(&mut self, lease: &LeaseId, group: &Group) {
        if !self.leases.workloads.contains(lease) {
            return;
        }
        for name in hosts::custom_hosts(group) {
            let free = self.leases.hostnames.is_free(&name, lease.owner()) && self.has_lease(lease);
            if free && !self.leases.hostnames.is_blocked(&name) {
                self.leases.hostnames.adopt(&name, lease);
            }
            if !self.holds_hostname(lease, &name) {
                self.queue_for_hostname(name, lease);
            } else {
                self.leases.hostname_queue.remove(&name, lease);
            }
        }
    }

    /// Deploys the manifest of a lease again, with the current hostnames of the lease.
    pub(in crate::engine) fn redeploy(&mut self, lease: &LeaseId) {
        let running = self.workload(lease).and_then(Workload::deployment);
        let Some(group) = running.map(|d| Arc::clone(&d.group)) else {
            return;
        };
        self.claim_more(lease, &group);
        let deployment = Arc::new(self.workload_spec(lease, group));
        self.drive_workload(lease, workload::WorkloadInput::SetSpec(deployment, Vec::new()));
    }

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
            let message = format!("cannot move hostnames: lease {lease} has no deployed workload");
            return Err(Refusal::new(RefusalKind::NoLease, message));
        };
        // Checked again, because another version or provider may have accepted the manifest.
        for name in names {
            check_hostname(name).map_err(|fault| {
                Refusal::new(
                    RefusalKind::Hostname,
                    format!("hostname not allowed: {name:?} {fault}; {}", fault.help()),
                )
            })?;
        }
        let listed = hosts::custom_host_set(&group);
        if let Some(name) = names.iter().find(|n| !listed.contains(*n)) {
            let message = format!(
                "cannot move hostname `{name}`: not in the manifest of lease {lease}; add the hostname first"
            );
            return Err(Refusal::new(RefusalKind::Rejected, message));
        }
        let refuse = |e: HostnameError| Refusal::new(RefusalKind::Hostname, e.to_string());
        let moved = self.leases.hostnames.transfer(lease, names).map_err(refuse)?;
        // Each previous holder once, in a deterministic order.
        let from: BTreeSet<LeaseId> = moved.into_iter().filter_map(|(_, from)| from).collect();
        for moved in from.iter().filter(|f| *f != lease).chain([lease]) {
            self.redeploy(moved);
            self.drive_workload(moved, workload::WorkloadInput::DeployNow);
        }
        Ok(())
    }
}
