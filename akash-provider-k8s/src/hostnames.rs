//! Declared hostnames as ProviderHost objects, from which the hostname operator creates routes. An object has the name
//! of its hostname, in which a label replaces the `*` of a wildcard.

use crate::cluster::ClusterContext;
use crate::cluster::records::{RecordAction, RecordOutcome};
use crate::labels::{self, Labels};
use akash_provider_core::cluster::{DeclaredHostname, HostnameDeclaration, Hostnames};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::manifest::without_star;
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::time::timestamp;
use akash_provider_kube_model::crd::lease_of_host;
use akash_provider_kube_model::crd::{ProviderHost, ProviderHostSpec};
use async_trait::async_trait;
use std::collections::BTreeMap;

const DECLARE: &str = "declare_hostname";
const PURGE: &str = "purge_declared_hostname";
const ALL: &str = "all_hostnames";

#[async_trait]
impl Hostnames for ClusterContext {
    async fn declare_hostname(&self, lease: &LeaseId, name: &HostnameDeclaration) -> Result<(), Error> {
        self.check_provider(lease, DECLARE)?;
        let spec = spec(lease, name);
        let wanted_labels = own_labels(lease);
        let object = without_star(&name.hostname);
        let seen = self.look(self.hosts(), &object, DECLARE).await?;
        let judge = |there: Option<&ProviderHost>| {
            if let Some(there) = there {
                self.check_host(there)?;
                if there.spec == spec && has_labels(there, &wanted_labels) {
                    return Ok(RecordAction::Keep);
                }
            }
            Ok(RecordAction::Write(self.host(&spec, &wanted_labels)))
        };
        let outcome = self.records(DECLARE).settle(&object, seen, judge).await?;
        if let RecordOutcome::Written(host) = outcome {
            tracing::info!(hostname = name.hostname, %lease, service = name.service, "ProviderHost object written for a hostname of a lease, the hostname operator creates the route next");
            self.until_seen(|| self.holds(self.hosts(), &host.metadata)).await;
        }
        Ok(())
    }

    async fn purge_declared_hostname(&self, lease: &LeaseId, hostname: &str) -> Result<(), Error> {
        self.check_provider(lease, PURGE)?;
        let object = without_star(hostname);
        let seen = self.look(self.hosts(), &object, PURGE).await?;
        let judge = |there: Option<&ProviderHost>| {
            let holder = there.and_then(|host| lease_of_host(&host.spec));
            // A hostname that belongs to another lease now is not deleted, which is no error.
            let is_ours =
                holder.as_ref() == Some(lease) && !there.is_some_and(|h| self.is_of_other_chain(&h.metadata));
            Ok(if is_ours {
                RecordAction::Delete
            } else {
                RecordAction::Keep
            })
        };
        let outcome = self
            .records::<ProviderHost>(PURGE)
            .settle(&object, seen, judge)
            .await?;
        if let RecordOutcome::Deleted(uid) = outcome {
            self.until_seen(|| self.lacks(self.hosts(), &object, &uid)).await;
        }
        Ok(())
    }

    async fn purge_declared_hostnames(&self, lease: &LeaseId) -> Result<(), Error> {
        self.check_provider(lease, PURGE)?;
        self.purge_of_lease::<ProviderHost>(self.hosts(), lease, PURGE)
            .await
    }

    async fn all_hostnames(&self) -> Result<Vec<DeclaredHostname>, Error> {
        self.current(ALL).await?;
        let hosts = self.hosts().state();
        let ours = hosts
            .iter()
            .filter(|host| !self.is_of_other_chain(&host.metadata));
        let declared = ours.filter_map(|host| {
            let lease = lease_of_host(&host.spec).filter(|lease| lease.provider == self.settings.provider)?;
            Some(DeclaredHostname {
                hostname: host.spec.hostname.clone(),
                lease,
            })
        });
        Ok(declared.collect())
    }
}

impl ClusterContext {
    /// Returns an error if the hostname belongs to another provider or to a lease of another chain.
    fn check_host(&self, host: &ProviderHost) -> Result<(), Error> {
        let is_other = host.spec.provider != self.settings.provider.to_string();
        if !is_other && !self.is_of_other_chain(&host.metadata) {
            return Ok(());
        }
        let (name, holder) = (&host.spec.hostname, &host.spec.provider);
        let message =
            format!("hostname `{name}` belongs to provider {holder}, or to a lease of another chain");
        Err(Error::new(ErrorKind::Conflict, DECLARE, message))
    }

    fn host(&self, spec: &ProviderHostSpec, labels: &Labels) -> ProviderHost {
        let mut host = ProviderHost::new(&without_star(&spec.hostname), spec.clone());
        host.metadata.labels = Some(labels.clone());
        let mut annotations = self.chain_annotation();
        annotations.insert(labels::UPDATED_AT.to_owned(), timestamp());
        host.metadata.annotations = Some(annotations);
        host
    }

    pub(crate) fn chain_annotation(&self) -> BTreeMap<String, String> {
        let chain = self.settings.chain_id.clone();
        let named = (!chain.is_empty()).then(|| (labels::CHAIN_ID.to_owned(), chain));
        named.into_iter().collect()
    }
}

/// Returns the labels of the ProviderHost and ProviderLeasedIP objects of a lease.
pub(crate) fn own_labels(lease: &LeaseId) -> Labels {
    let mut own = labels::lease(lease);
    own.insert(labels::MANAGED.to_owned(), "true".to_owned());
    own
}

fn has_labels(host: &ProviderHost, wanted: &Labels) -> bool {
    let there = host.metadata.labels.as_ref();
    there.is_some_and(|there| wanted.iter().all(|(key, value)| there.get(key) == Some(value)))
}

fn spec(lease: &LeaseId, name: &HostnameDeclaration) -> ProviderHostSpec {
    let group = &lease.order.group;
    ProviderHostSpec {
        owner: group.deployment.owner.to_string(),
        provider: lease.provider.to_string(),
        hostname: name.hostname.clone(),
        dseq: group.deployment.dseq,
        gseq: group.gseq,
        oseq: lease.order.oseq,
        service_name: name.service.clone(),
        external_port: u32::from(name.external_port),
    }
}
