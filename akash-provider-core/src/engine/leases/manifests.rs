//! Checks of a submitted manifest against the chain record and the ledgers.

use super::deployment::{AcceptedManifest, Submission};
use super::workload::Workload;
use crate::bidding::unsupported;
use crate::engine::Engine;
use crate::engine::counts::ScanReason;
use crate::engine::input::{Refusal, RefusalKind};
use crate::engine::order::Order;
use crate::manifest::{self, Group, Hashes, Manifest, hosts, is_within, reaches};
use crate::types::{DeploymentRecord, GroupSpec, Lease, LeaseId, OrderId};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Engine {
    /// Checks a manifest against the deployment record, and claims the hostnames of the manifest. On an
    /// error, all claims are undone.
    pub(super) fn check(
        &mut self,
        submission: &Submission,
        record: &DeploymentRecord,
    ) -> Result<AcceptedManifest, Refusal> {
        // The submission may have waited through a takeover. The pending list of the workloads would replace
        // the new manifest with an older record.
        if !self.progress.cluster_known() {
            let message = "the state of the cluster is not known yet; retry in a minute".to_owned();
            let kind = RefusalKind::Unavailable;
            return Err(Refusal::new(kind, message));
        }
        let ours: Vec<&Lease> = record
            .leases
            .iter()
            .filter(|l| l.id.provider == self.config.provider && l.state.is_live())
            .collect();
        if ours.is_empty() {
            let message = format!(
                "no lease for deployment {} at this provider",
                record.deployment.id
            );
            return Err(Refusal::new(RefusalKind::NoLease, message));
        }
        let hash = record.deployment.hash;
        // Checked first, because the following checks assume the version on the chain.
        if !submission.hashes.contain(&hash) {
            return Err(version_mismatch(&hash, &submission.hashes));
        }
        let specs: Vec<&GroupSpec> = record.groups.iter().map(|g| &*g.spec).collect();
        manifest::cross_validate(&submission.manifest, &specs).map_err(refused)?;
        let mut parts = Vec::with_capacity(ours.len());
        for lease in ours {
            parts.push((lease, self.group_of(lease, &submission.manifest, record)?));
        }
        // All groups are checked before the first claim, so that most refusals need no rollback.
        for (lease, group) in &parts {
            self.check_group(lease, group)?;
        }
        let unknown = |(lease, _): &&(&Lease, &Group)| !self.is_offer_known(&lease.id.order);
        if let Some((lease, _)) = parts.iter().find(unknown) {
            let message = format!(
                "the provider does not know yet which resources its bid for lease {} offered; submit again in a minute",
                lease.id
            );
            // The lease is known from here on, so that the scan looks up its offer.
            self.add_lease_of_manifest(lease, record);
            self.scan.schedule_now(ScanReason::UnknownOffer);
            let kind = RefusalKind::Unavailable;
            return Err(Refusal::new(kind, message));
        }
        let mut accepted = AcceptedManifest {
            hash,
            deployments: Vec::new(),
            purge: Vec::new(),
        };
        for (lease, group) in parts {
            self.add_lease_of_manifest(lease, record);
            match self.claim(&lease.id, Arc::new(group.clone())) {
                Ok((deployment, released)) => {
                    accepted.purge.push((lease.id.clone(), released));
                    accepted.deployments.push(Arc::new(deployment));
                }
                Err(refusal) => {
                    // Roll back the claims for the previous leases.
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
        found.ok_or_else(|| {
            Refusal::new(
                RefusalKind::CrossValidation,
                format!(
                    "group {} of the deployment is missing in the manifest",
                    lease.id.order.group
                ),
            )
        })
    }

    /// Checks the service names and hostnames of a group for a lease. Does not claim the hostnames.
    fn check_group(&self, lease: &Lease, group: &Group) -> Result<(), Refusal> {
        let refuse = |kind, message| Err(Refusal::new(kind, message));
        let running = self.workload(&lease.id).and_then(Workload::deployment);
        if running.is_some_and(|old| !hosts::same_services(&old.group, group)) {
            let message = format!(
                "group `{}`: an update cannot add, remove or rename services; create a new deployment instead",
                group.name
            );
            return refuse(RefusalKind::Rejected, message);
        }
        if let Some(message) = unsupported::refuse_manifest(group) {
            return refuse(RefusalKind::Rejected, message);
        }
        if let Some(message) = hosts::missing_hostname(group, self.config.static_hosts_domain.is_some()) {
            return refuse(RefusalKind::Hostname, message);
        }
        let names = hosts::custom_hosts(group);
        if let Some(name) = self.foreign_automatic(&lease.id, group, &names) {
            let message = format!(
                "hostname `{name}` overlaps with the provider's domain for automatic hostnames; use another hostname"
            );
            return refuse(RefusalKind::Hostname, message);
        }
        if let Err(error) = self.leases.hostnames.can_reserve(&names, lease.id.owner()) {
            return refuse(RefusalKind::Hostname, error.to_string());
        }
        Ok(())
    }

    /// Returns the first hostname in `names` that overlaps with the domain of automatic hostnames. Automatic
    /// hostnames of this lease are skipped.
    fn foreign_automatic<'n>(
        &self,
        lease: &LeaseId,
        group: &Group,
        names: &'n [String],
    ) -> Option<&'n String> {
        let domain = self.config.static_hosts_domain.as_deref()?.to_ascii_lowercase();
        let below = |name: &&String| {
            // A wildcard above the domain covers names below it.
            is_within(name, &domain) || reaches(name, &domain)
        };
        let services = group.services.iter();
        let own: BTreeSet<String> = services
            .map(|s| format!("{}.{domain}", lease.ingress_label(&s.name)))
            .collect();
        names.iter().filter(below).find(|name| !own.contains(*name))
    }

    /// Returns true if the reserved resources of an order are certainly the resources of the winning bid.
    fn is_offer_known(&self, order: &OrderId) -> bool {
        let is_bid_known = self.market.order(order).is_none_or(Order::is_bid_known);
        is_bid_known && self.reservations.is_offer_known(order)
    }
}

fn refused(error: manifest::ManifestError) -> Refusal {
    Refusal::new(error.kind(), error.to_string())
}

fn version_mismatch(chain: &[u8; 32], got: &Hashes) -> Refusal {
    let hex = |bytes| data_encoding::HEXLOWER.encode(bytes);
    let dropped = if got.received() == got.known() {
        String::new()
    } else {
        format!(" (or {} without unknown fields)", hex(got.known()))
    };
    let message = format!(
        "manifest version validation failed: the chain has {}, this manifest is {}{dropped}; update the deployment first",
        hex(chain),
        hex(got.received())
    );
    Refusal::new(RefusalKind::VersionMismatch, message)
}
