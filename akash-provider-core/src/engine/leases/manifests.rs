//! What a manifest must be to be accepted, as far as the ledgers decide it.

use super::deployment::{Accepted, Submission};
use super::workload::Workload;
use crate::engine::Engine;
use crate::engine::input::{Refusal, RefusalKind};
use crate::engine::order::Order;
use crate::manifest::{self, Group, Hashes, Manifest, hosts, is_within, reaches};
use crate::types::{DeploymentRecord, GroupSpec, Lease, LeaseId, OrderId};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Engine {
    /// Checks a manifest against the chain's record and claims its hostnames; all or nothing.
    pub(super) fn check(
        &mut self,
        submission: &Submission,
        record: &DeploymentRecord,
    ) -> Result<Accepted, Refusal> {
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
        // First, because what follows compares it with the version that the chain has.
        if !submission.hashes.contain(&hash) {
            return Err(version_mismatch(&hash, &submission.hashes));
        }
        let specs: Vec<&GroupSpec> = record.groups.iter().map(|g| &*g.spec).collect();
        manifest::cross_validate(&submission.manifest, &specs).map_err(refused)?;
        let mut parts = Vec::with_capacity(ours.len());
        for lease in ours {
            parts.push((lease, self.group_of(lease, &submission.manifest, record)?));
        }
        // All groups before the first claim, so that most refusals have nothing to undo.
        for (lease, group) in &parts {
            self.check_group(lease, group)?;
        }
        let unknown = |(lease, _): &&(&Lease, &Group)| !self.is_promise_known(&lease.id.order);
        if let Some((lease, _)) = parts.iter().find(unknown) {
            let message = format!(
                "what was promised to lease {} is being looked up; submit again",
                lease.id
            );
            // It is in hand from here on, so the scan looks for what was promised to it.
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
                    // All or nothing: what was claimed for the leases before it goes back.
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
            let message = format!(
                "hostname `{name}` is under the provider's own domain, or takes it in; list a name of yours"
            );
            return refuse(RefusalKind::Hostname, message);
        }
        if let Err(error) = self.leases.hostnames.can_reserve(&names, lease.id.owner()) {
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
            // A wildcard above it reaches what is below.
            is_within(name, &domain) || reaches(name, &domain)
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
