//! The engine's side of manifests: checks that need the ledgers, hostname claims, and hand-over to workloads.

use super::deployment::{Accepted, Action, Deployment as Machine, Input, Submission};
use super::hostnames::HostnameError;
use super::input::{Refusal, RefusalKind, Reply, RequestId};
use super::order::Order;
use super::table::Lane;
use super::workload::{self, Workload};
use super::{EffectId, Engine, Target};
use crate::cluster::Deployment;
use crate::manifest::{self, Group, Hashes, Manifest, hosts};
use crate::types::{
    CloseReason, DeploymentId, DeploymentRecord, Event, GroupSpec, Lease, LeaseId, LeaseRecord, OrderId,
};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Engine {
    /// The machine of a deployment is there.
    pub(super) fn deployment_slot(&mut self, id: &DeploymentId) {
        if !self.deployments.contains(id) {
            self.changes += 1;
            self.deployments.insert(id, Machine::new(id));
        }
    }

    /// Feeds one input to one deployment; nothing happens where there is none.
    pub(super) fn drive_deployment(&mut self, id: &DeploymentId, input: Input) {
        let config = Arc::clone(&self.config);
        let cx = self.cx(&config);
        let Some(actions) = self.deployments.drive(&cx, id, input) else {
            return;
        };
        self.changes += 1;
        for action in actions {
            match action {
                Action::Call(call) => {
                    let effect = self.call(Target::Deployment(id.clone()), call);
                    self.deployments.sent(id, Lane::Main, effect);
                }
                Action::Check(submission, record) => {
                    let checked = self.check(&submission, &record);
                    self.drive_deployment(id, Input::Checked(checked));
                }
                Action::Undo(accepted) => {
                    self.undo_claims(&accepted);
                    self.scan.doubt_cluster();
                }
                Action::Reply(request, result) => {
                    if let Some(refusal) = result.as_ref().err().filter(|r| r.kind.is_of_manifest()) {
                        let (deployment, message) = (id.clone(), refusal.message.clone());
                        self.publish(Event::ManifestRefused { deployment, message });
                    }
                    self.reply(request, result.map(|()| Reply::Done));
                }
                Action::Deliver { deployment, purge } => {
                    self.deliver(&deployment, purge);
                }
                Action::Spare(lease) => {
                    self.drive_workload(&lease, workload::Input::Spare(CloseReason::ManifestTimeout));
                }
                Action::LookAtCluster => self.scan.doubt_cluster(),
                Action::EndLease(lease, reason) => {
                    self.drive_workload(
                        &lease,
                        workload::Input::End {
                            reason,
                            granted: false,
                        },
                    );
                }
                Action::Publish(event) => self.publish(event),
                Action::Unexpected => self.outbox.count_unexpected(),
            }
        }
    }

    /// A completion of a deployment's call; late ones are dropped.
    pub(super) fn deployment_completed(&mut self, id: &DeploymentId, effect: EffectId, input: Input) {
        if self.deployments.answered(id, Lane::Main, effect) {
            self.drive_deployment(id, input);
        }
    }

    /// A manifest of this deployment is being recorded.
    pub(super) fn is_recording(&self, id: &DeploymentId) -> bool {
        self.deployments.get(id).is_some_and(Machine::is_recording)
    }

    /// Checks a manifest against the chain's record and claims its hostnames; all or nothing.
    fn check(&mut self, submission: &Submission, record: &DeploymentRecord) -> Result<Accepted, Refusal> {
        // It may have waited through a change of leaders: the list that comes would take what it brings for older
        // than what is there.
        if !self.progress.cluster_known() {
            let message = "what the cluster runs is not known yet; ask again in a minute".to_owned();
            let kind = RefusalKind::Unavailable;
            return Err(Refusal { kind, message });
        }
        let ours: Vec<&Lease> = record
            .leases
            .iter()
            .filter(|l| l.id.provider == self.config.provider && l.state.is_live())
            .collect();
        if ours.is_empty() {
            let message = format!(
                "no lease for deployment {} with this provider",
                record.deployment.id
            );
            return Err(Refusal {
                kind: RefusalKind::NoLease,
                message,
            });
        }
        let hash = record.deployment.hash;
        if !submission.hashes.contain(&hash) {
            return Err(version_mismatch(&hash, &submission.hashes));
        }
        let specs: Vec<&GroupSpec> = record.groups.iter().map(|g| &*g.spec).collect();
        manifest::cross_validate(&submission.manifest, &specs).map_err(refused)?;
        let mut parts = Vec::with_capacity(ours.len());
        for lease in ours {
            parts.push((lease, self.group_of(lease, &submission.manifest, record)?));
        }
        for (lease, group) in &parts {
            self.check_group(lease, group)?;
        }
        let unknown = |(lease, _): &&(&Lease, &Group)| !self.is_promise_known(&lease.id.order);
        if let Some((lease, _)) = parts.iter().find(unknown) {
            let message = format!(
                "what was promised to lease {} is being looked up; submit again",
                lease.id
            );
            self.lease_seen(lease, record);
            self.scan.soon();
            let kind = RefusalKind::Unavailable;
            return Err(Refusal { kind, message });
        }
        let mut accepted = Accepted {
            hash,
            deployments: Vec::new(),
            purge: Vec::new(),
        };
        for (lease, group) in parts {
            self.lease_seen(lease, record);
            match self.claim(&lease.id, Arc::new(group.clone())) {
                Ok((deployment, released)) => {
                    accepted.purge.push((lease.id.clone(), released));
                    accepted.deployments.push(Arc::new(deployment));
                }
                Err(refusal) => {
                    self.undo_claims(&accepted);
                    return Err(refusal);
                }
            }
        }
        Ok(accepted)
    }

    fn group_of<'m>(
        &self,
        lease: &Lease,
        manifest: &'m Manifest,
        record: &DeploymentRecord,
    ) -> Result<&'m Group, Refusal> {
        let on_chain = record.groups.iter().find(|g| g.id == lease.id.order.group);
        let found = on_chain.and_then(|g| manifest.groups.iter().find(|m| m.name == g.spec.name));
        found.ok_or_else(|| Refusal {
            kind: RefusalKind::CrossValidation,
            message: format!(
                "group {} of the deployment is not in the manifest",
                lease.id.order.group
            ),
        })
    }

    /// What can be refused without claiming anything.
    fn check_group(&self, lease: &Lease, group: &Group) -> Result<(), Refusal> {
        let refuse = |kind, message| Err(Refusal { kind, message });
        let running = self.workload(&lease.id).and_then(Workload::deployment);
        if running.is_some_and(|old| !hosts::same_services(&old.group, group)) {
            let message = format!(
                "group `{}`: an update keeps the set of service names; close the deployment to change it",
                group.name
            );
            return refuse(RefusalKind::Rejected, message);
        }
        if let Some(message) = hosts::missing_hostname(group, self.config.static_hosts_domain.is_some()) {
            return refuse(RefusalKind::Hostname, message);
        }
        let names = hosts::custom_hosts(group);
        if let Some(name) = self.foreign_automatic(&lease.id, group, &names) {
            let message =
                format!("hostname `{name}` is under the provider's own domain; list a name of yours");
            return refuse(RefusalKind::Hostname, message);
        }
        if let Err(error) = self.hostnames.can_reserve(&names, lease.id.owner()) {
            return refuse(RefusalKind::Hostname, error.to_string());
        }
        Ok(())
    }

    /// A listed name under the domain of automatic hostnames that is not this lease's own automatic one: it
    /// would take over another tenant's address.
    fn foreign_automatic<'n>(
        &self,
        lease: &LeaseId,
        group: &Group,
        names: &'n [String],
    ) -> Option<&'n String> {
        let domain = self.config.static_hosts_domain.as_deref()?.to_ascii_lowercase();
        let below = |name: &&String| {
            let stem = name.strip_suffix(domain.as_str());
            stem.is_some_and(|stem| stem.is_empty() || stem.ends_with('.'))
        };
        let services = group.services.iter();
        let own: BTreeSet<String> = services
            .map(|s| format!("{}.{domain}", lease.ingress_label(&s.name)))
            .collect();
        names.iter().filter(below).find(|name| !own.contains(*name))
    }

    /// It is known what was promised: no bid of another process of ours may have won instead.
    fn is_promise_known(&self, order: &OrderId) -> bool {
        let knows_its_bid = self.market.order(order).is_none_or(Order::knows_its_bid);
        knows_its_bid && self.reservations.is_promise_known(order)
    }

    /// A manifest may come before the lease's own event.
    fn lease_seen(&mut self, lease: &Lease, record: &DeploymentRecord) {
        let known = LeaseRecord {
            lease: lease.clone(),
            payment: None,
        };
        let is_new = self.workload(&lease.id).is_none_or(|w| w.price().is_none());
        let origin = self.order_won(&lease.id.order);
        if is_new {
            // A snapshot from before may still show it open.
            self.market.spend(&lease.id.order);
        }
        self.lease_found(&known, Some(record), self.progress.block_time(), Some(origin));
        if is_new {
            // Its own event may have been overtaken by a resync. Its block may be some blocks ahead of the stream.
            self.won
                .push((lease.id.clone(), lease.created_at.max(self.progress.height() + 1)));
        }
    }

    fn claim(&mut self, lease: &LeaseId, group: Arc<Group>) -> Result<(Deployment, Vec<String>), Refusal> {
        let names = hosts::custom_hosts(&group);
        let released = self.claim_names(lease, &names).map_err(|error| Refusal {
            kind: RefusalKind::Hostname,
            message: error.to_string(),
        })?;
        Ok((self.deployment_of(lease, group), released))
    }

    /// Claims names and remembers which of them the tenant's other leases hold. Returns the names given up.
    fn claim_names(&mut self, lease: &LeaseId, names: &[String]) -> Result<Vec<String>, HostnameError> {
        let reserved = self.hostnames.reserve(lease, names)?;
        let withheld: BTreeSet<String> = reserved.withheld.into_iter().collect();
        self.withheld.keep(lease, &withheld);
        for name in withheld {
            self.wait_for(name, lease);
        }
        Ok(reserved.released)
    }

    fn wait_for(&mut self, name: String, lease: &LeaseId) {
        if self.hostnames.is_blocked(&name) {
            return;
        }
        self.withheld.add(name, lease);
    }

    /// No tenant gets the name under which our record sends tenants to us. Without a record the last one counts.
    pub(super) fn block_own_host(&mut self) {
        if let Some(host) = self.market.own_host() {
            self.hostnames.set_own(host);
        }
    }

    fn holds_name(&self, lease: &LeaseId, name: &str) -> bool {
        let holder = self.hostnames.holder(name);
        holder.is_some_and(|h| h.order.group == lease.order.group)
    }

    /// What a lease is to run, with the hostnames it holds now.
    fn deployment_of(&self, lease: &LeaseId, group: Arc<Group>) -> Deployment {
        let domain = self.config.static_hosts_domain.as_deref();
        let mut hostnames = hosts::hostnames_wanted(&group, lease, domain);
        let asked_for = hosts::custom_host_set(&group);
        hostnames.retain(|h| !asked_for.contains(&h.hostname) || self.holds_name(lease, &h.hostname));
        let params = self.reservations.params(&lease.order).unwrap_or_default();
        let ips = hosts::ips_wanted(&group, lease);
        let config = Arc::clone(&self.config);
        Deployment {
            lease: lease.clone(),
            ips,
            hostnames,
            params,
            group,
            epoch: self.cx(&config).epoch(),
        }
    }

    /// Hands an accepted manifest to its workload. Names may have moved since they were claimed.
    fn deliver(&mut self, accepted: &Deployment, mut gone: Vec<String>) {
        let lease = &accepted.lease;
        if self.has_lease(lease) {
            gone.extend(self.claim_possible(lease, hosts::custom_hosts(&accepted.group)));
        }
        let deployment = Arc::new(self.deployment_of(lease, Arc::clone(&accepted.group)));
        self.drive_workload(lease, workload::Input::Desire(deployment, gone.clone()));
        self.hostnames_freed(&gone);
    }

    /// Gives claims back to what runs: nothing of the new manifest was kept. Who waits for them gets them.
    fn undo_claims(&mut self, accepted: &Accepted) {
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
            self.hostnames.can_reserve(one, lease.owner()).is_ok()
        };
        let possible = |n: &String| self.holds_name(lease, n) || free(n);
        let (possible, others): (Vec<_>, Vec<_>) = names.into_iter().partition(possible);
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
    pub(super) fn hostnames_freed(&mut self, names: &[String]) {
        for name in names {
            for lease in self.withheld.of(name).to_vec() {
                if self.hostnames.holder(name).is_none() && self.has_lease(&lease) {
                    self.redeploy(&lease);
                }
            }
        }
    }

    /// Names that leases wait for and nobody holds, whatever the reason.
    pub(super) fn hand_out_names(&mut self) {
        let free = |name: &&String| self.hostnames.holder(name).is_none();
        let free: Vec<String> = self.withheld.names().filter(free).cloned().collect();
        self.hostnames_freed(&free);
    }

    /// Claims the names of a manifest that is in the cluster and was not in hand: those it was recorded with and
    /// that nobody else has got meanwhile. It waits for the others.
    pub(super) fn adopt_names(&mut self, deployment: &Deployment) {
        let lease = &deployment.lease;
        let recorded = deployment.names();
        for name in hosts::custom_hosts(&deployment.group) {
            let wanted = recorded.contains(name.as_str());
            // An earlier lease of the group, which is over, hands its names on.
            let over = |holder: &LeaseId| {
                holder.order.group == lease.order.group && !self.has_lease(holder) && self.has_lease(lease)
            };
            if wanted && self.hostnames.holder(&name).is_none_or(over) {
                self.hostnames.adopt(&name, lease);
            } else if !self.holds_name(lease, &name) {
                self.wait_for(name, lease);
            }
        }
    }

    /// What the cluster has of a lease, with the hostnames that it holds now.
    pub(super) fn with_held_names(&self, deployment: &Arc<Deployment>) -> Arc<Deployment> {
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
        if !self.workloads.contains(lease) {
            return;
        }
        for name in hosts::custom_hosts(group) {
            let free = self.hostnames.holder(&name).is_none() && self.has_lease(lease);
            if free && !self.hostnames.is_blocked(&name) {
                self.hostnames.adopt(&name, lease);
            }
            if !self.holds_name(lease, &name) {
                self.wait_for(name, lease);
            } else {
                self.withheld.remove(&name, lease);
            }
        }
    }

    /// Deploys what a lease runs anew, with the hostnames it holds now.
    pub(super) fn redeploy(&mut self, lease: &LeaseId) {
        let running = self.workload(lease).and_then(Workload::deployment);
        let Some(group) = running.map(|d| Arc::clone(&d.group)) else {
            return;
        };
        self.claim_more(lease, &group);
        let deployment = Arc::new(self.deployment_of(lease, group));
        self.drive_workload(lease, workload::Input::Desire(deployment, Vec::new()));
    }

    /// Moves hostnames to a lease from other leases of the same tenant.
    pub(super) fn transfer_hostnames(&mut self, request: RequestId, lease: &LeaseId, names: &[String]) {
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
        let moved = self.hostnames.transfer(lease, names).map_err(refuse)?;
        let from: BTreeSet<LeaseId> = moved.into_iter().filter_map(|(_, from)| from).collect();
        for from in from.iter().filter(|f| *f != lease) {
            self.redeploy(from);
        }
        self.redeploy(lease);
        Ok(())
    }
}

fn refused(error: manifest::ManifestError) -> Refusal {
    Refusal {
        kind: error.kind(),
        message: error.to_string(),
    }
}

fn version_mismatch(chain: &[u8; 32], got: &Hashes) -> Refusal {
    let hex = |bytes| data_encoding::HEXLOWER.encode(bytes);
    let dropped = if got.received() == got.known() {
        String::new()
    } else {
        format!(" (or {} without the fields unknown here)", hex(got.known()))
    };
    let message = format!(
        "manifest version validation failed: the chain has {}, this manifest is {}{dropped}; update the deployment first",
        hex(chain),
        hex(got.received())
    );
    Refusal {
        kind: RefusalKind::VersionMismatch,
        message,
    }
}
