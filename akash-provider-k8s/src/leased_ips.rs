//! Leased addresses as ProviderLeasedIP objects, one per port, from which the IP operator creates Services.

use crate::cluster::ClusterContext;
use crate::cluster::records::{RecordAction, RecordOutcome};
use crate::hostnames::own_labels;
use akash_provider_core::cluster::{IpDeclaration, LeasedIps};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::inventory::LeasedIpUsage;
use akash_provider_core::types::LeaseId;
use akash_provider_kube_model::crd::{ProviderLeasedIP, ProviderLeasedIpSpec};
use akash_provider_kube_model::leased_ips::{declaration, lease_of, object_name, spec};
use async_trait::async_trait;
use std::collections::BTreeSet;
use std::sync::Arc;

const DECLARE: &str = "declare_ip";
const PURGE: &str = "purge_declared_ip";
const USAGE: &str = "leased_ip_usage";

#[async_trait]
impl LeasedIps for ClusterContext {
    async fn declare_ip(&self, lease: &LeaseId, ip: &IpDeclaration, overwrite: bool) -> Result<(), Error> {
        self.check_provider(lease, DECLARE)?;
        self.current(DECLARE).await?;
        let others = self.other_holders(lease, ip, overwrite)?;
        self.check_pool(ip)?;
        let name = object_name(ip);
        let spec = spec(lease, ip);
        let seen = self.cached(self.ips(), &name).map(|ip| (*ip).clone());
        let judge = |there: Option<&ProviderLeasedIP>| {
            if let Some(there) = there {
                if there.spec == spec {
                    return Ok(RecordAction::Keep);
                }
                check_move(lease, there, overwrite)?;
            }
            Ok(RecordAction::Write(self.leased_ip(lease, ip, &spec)))
        };
        let outcome = self.records(DECLARE).settle(&name, seen, judge).await?;
        // After the new object: an interruption leaves the address with two holders, never without one.
        for other in others {
            self.release(&other, ip).await?;
        }
        if let RecordOutcome::Written(written) = outcome {
            tracing::info!(address = name, %lease, service = ip.service, "ProviderLeasedIP object written for a leased IP, the IP operator assigns the address next");
            self.until_seen(|| self.holds(self.ips(), &written.metadata))
                .await;
        }
        Ok(())
    }

    async fn purge_declared_ip(&self, lease: &LeaseId, ip: &IpDeclaration) -> Result<(), Error> {
        self.check_provider(lease, PURGE)?;
        let name = object_name(ip);
        let seen = self.look(self.ips(), &name, PURGE).await?;
        let judge = |there: Option<&ProviderLeasedIP>| {
            let holder = there
                .filter(|ip| !self.is_of_other_chain(&ip.metadata))
                .and_then(|ip| lease_of(&ip.spec));
            let is_holder = holder.as_ref() == Some(lease);
            Ok(if is_holder {
                RecordAction::Delete
            } else {
                RecordAction::Keep
            })
        };
        let outcome = self
            .records::<ProviderLeasedIP>(PURGE)
            .settle(&name, seen, judge)
            .await?;
        if let RecordOutcome::Deleted(uid) = outcome {
            self.until_seen(|| self.lacks(self.ips(), &name, &uid)).await;
        }
        Ok(())
    }

    async fn purge_declared_ips(&self, lease: &LeaseId) -> Result<(), Error> {
        self.check_provider(lease, PURGE)?;
        self.purge_of_lease::<ProviderLeasedIP>(self.ips(), lease, PURGE)
            .await
    }

    async fn declared_ips(&self, lease: &LeaseId) -> Result<Vec<IpDeclaration>, Error> {
        self.current("declared_ips").await?;
        let ips = self.all_ips();
        let of_lease = ips.iter().filter(|(holder, _)| holder == lease);
        Ok(of_lease.filter_map(|(_, ip)| declaration(&ip.spec)).collect())
    }

    async fn usage(&self) -> Result<LeasedIpUsage, Error> {
        self.current(USAGE).await?;
        let ips = self.all_ips();
        let keys: BTreeSet<&str> = ips.iter().map(|(_, ip)| ip.spec.sharing_key.as_str()).collect();
        let leases: BTreeSet<&LeaseId> = ips.iter().map(|(lease, _)| lease).collect();
        let (total, _) = self.settings.leased_pool().unwrap_or_default();
        Ok(LeasedIpUsage {
            total,
            // Exposed ports with the same key share an address.
            in_use: u32::try_from(keys.len()).unwrap_or(u32::MAX),
            confirmed: leases.into_iter().cloned().collect(),
        })
    }
}

impl ClusterContext {
    /// Returns all valid ProviderLeasedIP objects of this provider, each with its lease.
    fn all_ips(&self) -> Vec<(LeaseId, Arc<ProviderLeasedIP>)> {
        let ips = self.ips().state().into_iter();
        let ours = ips.filter(|ip| !self.is_of_other_chain(&ip.metadata));
        ours.filter_map(|ip| Some((lease_of(&ip.spec)?, ip)))
            .filter(|(lease, _)| lease.provider == self.settings.provider)
            .collect()
    }

    /// Returns the names of the objects with which other leases declare the same address. The caller deletes
    /// these objects after the address is moved to `lease`.
    fn other_holders(
        &self,
        lease: &LeaseId,
        ip: &IpDeclaration,
        overwrite: bool,
    ) -> Result<Vec<String>, Error> {
        let name = object_name(ip);
        let mut others = Vec::new();
        for (holder, declared) in self.all_ips() {
            if holder == *lease || declared.spec.sharing_key != ip.sharing_key {
                continue;
            }
            check_move(lease, &declared, overwrite)?;
            let other = declared.metadata.name.clone().unwrap_or_default();
            if other != name {
                others.push(other);
            }
        }
        Ok(others)
    }

    fn check_pool(&self, ip: &IpDeclaration) -> Result<(), Error> {
        let (total, taken) = self.settings.leased_pool().unwrap_or_default();
        let pool = total.saturating_sub(taken);
        let ips = self.all_ips();
        let keys: BTreeSet<&str> = ips.iter().map(|(_, ip)| ip.spec.sharing_key.as_str()).collect();
        let is_full = keys.len() >= usize::try_from(pool).unwrap_or(usize::MAX);
        // A further port of a shared address needs no address.
        if !is_full || keys.contains(ip.sharing_key.as_str()) {
            return Ok(());
        }
        let message = format!("all {pool} addresses of the pool for leases are in use");
        Err(Error::new(ErrorKind::Unavailable, DECLARE, message))
    }

    fn leased_ip(
        &self,
        lease: &LeaseId,
        ip: &IpDeclaration,
        spec: &ProviderLeasedIpSpec,
    ) -> ProviderLeasedIP {
        let mut object = ProviderLeasedIP::new(&object_name(ip), spec.clone());
        let mut labels = own_labels(lease);
        labels.insert("service-name".to_owned(), ip.service.clone());
        labels.insert("external-port".to_owned(), ip.external_port.to_string());
        labels.insert("proto".to_owned(), spec.protocol.clone());
        object.metadata.labels = Some(labels);
        object.metadata.annotations = Some(self.chain_annotation());
        object
    }

    /// Deletes the ProviderLeasedIP object of another lease of the same tenant, so that the address is free.
    async fn release(&self, name: &str, ip: &IpDeclaration) -> Result<(), Error> {
        let seen = self.cached(self.ips(), name).map(|ip| (*ip).clone());
        let declaring_lease = seen.as_ref().and_then(|ip| lease_of(&ip.spec));
        let judge = |there: Option<&ProviderLeasedIP>| {
            let is_it = there.is_some_and(|t| {
                t.spec.sharing_key == ip.sharing_key && lease_of(&t.spec) == declaring_lease
            });
            Ok(if is_it {
                RecordAction::Delete
            } else {
                RecordAction::Keep
            })
        };
        let outcome = self
            .records::<ProviderLeasedIP>(DECLARE)
            .settle(name, seen, judge)
            .await?;
        if let RecordOutcome::Deleted(uid) = outcome {
            self.until_seen(|| self.lacks(self.ips(), name, &uid)).await;
        }
        Ok(())
    }
}

/// Checks whether the address may move to `lease`. A move requires `overwrite`, and the current lease must
/// have the same tenant.
fn check_move(lease: &LeaseId, declared: &ProviderLeasedIP, overwrite: bool) -> Result<(), Error> {
    let holder = lease_of(&declared.spec);
    if holder.as_ref() == Some(lease) {
        return Ok(());
    }
    if overwrite
        && holder
            .as_ref()
            .is_some_and(|h| h.owner() == lease.owner() && h.provider == lease.provider)
    {
        return Ok(());
    }
    let key = &declared.spec.sharing_key;
    let holder = holder.map_or_else(
        || "an object without a valid lease".to_owned(),
        |h| format!("lease {h}"),
    );
    let message = format!("address `{key}` is held by {holder}");
    Err(Error::new(ErrorKind::Conflict, DECLARE, message))
}
