//! Problems of the lease objects, found at the start of the provider and in later checks. The problems are returned as
//! values and never cause a deletion.

use crate::cluster::unwatched::ByNamespace;
use crate::cluster::{ClusterContext, KubeCluster};
use crate::labels;
use crate::state::Orphan;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::pages;
use akash_provider_kube_model::crd::convert;
use akash_provider_kube_model::crd::{Manifest, ProviderHost, ProviderLeasedIP};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::fmt;
use std::time::Duration;

const FOREIGN: &str = "foreign_leases";

/// Problem that an administrator of the provider should check.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// Object that has the labels of the provider but belongs to no lease.
    Orphan(Orphan),
    /// Invalid Manifest record. The lease is not deployed, and its running workloads are not changed.
    Unreadable {
        /// Name of the Manifest object.
        manifest: String,
        /// Invalid field of the Manifest, and the problem.
        problem: String,
    },
    /// Manifest record that another client edited. The provider uses the valid fields of the record.
    Overwritten {
        /// Name of the Manifest object.
        manifest: String,
        /// Ignored part of the Manifest object, with the reason.
        remark: String,
    },
    /// Object that differs from the applied object. The next deploy of the lease repairs the object.
    Edited {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Namespace of the lease.
        namespace: String,
        /// Kind and name, as `Kind/name`.
        object: String,
        /// Reason why the next deploy writes the object again.
        reason: String,
    },
    /// Missing object of an unwatched kind. The next deploy of the lease creates the object.
    Missing {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Namespace of the lease, or namespace of the Manifest records.
        namespace: String,
        /// Kind and name, as `Kind/name`.
        object: String,
    },
    /// Manifest record or namespace of another chain. The provider never changes these objects.
    OtherChain {
        /// Name of the Manifest object.
        manifest: String,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Orphan(orphan) => orphan.fmt(f),
            Self::Unreadable { manifest, problem } => write!(f, "Manifest {manifest}: {problem}"),
            Self::Overwritten { manifest, remark } => write!(f, "Manifest {manifest}: {remark}"),
            Self::Edited {
                namespace,
                object,
                reason,
                ..
            } => write!(f, "{object} in {namespace}: {reason}"),
            Self::Missing {
                namespace, object, ..
            } => write!(f, "{object} in {namespace}: missing"),
            Self::OtherChain { manifest } => write!(f, "Manifest {manifest}: belongs to another chain"),
        }
    }
}

impl KubeCluster {
    /// Returns the problems of the cluster. Reads the caches of the watches, and lists the objects of kinds
    /// without a watch.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] while the watches are not synchronized. Also returns an error if a list
    /// request fails.
    pub async fn findings(&self) -> Result<Vec<Finding>, Error> {
        self.inner().findings("findings").await
    }
}

impl ClusterContext {
    pub(crate) async fn findings(&self, operation: &'static str) -> Result<Vec<Finding>, Error> {
        self.current(operation).await?;
        let there = self.all_there(operation).await?;
        let mut findings: Vec<_> = self.state.orphans().into_iter().map(Finding::Orphan).collect();
        for manifest in self.manifests().state() {
            findings.extend(self.finding(&manifest, &there));
        }
        Ok(findings)
    }

    fn finding(&self, manifest: &Manifest, there: &ByNamespace) -> Vec<Finding> {
        let name = manifest.metadata.name.clone().unwrap_or_default();
        if self.is_of_other_chain(&manifest.metadata) {
            return vec![Finding::OtherChain { manifest: name }];
        }
        // The provider of the lease reports its problems.
        if manifest.spec.lease_id.provider != self.settings.provider.to_string() {
            return Vec::new();
        }
        match convert::from_manifest(manifest) {
            Err(bad) => vec![Finding::Unreadable {
                manifest: name,
                problem: bad.to_string(),
            }],
            Ok(recorded) => {
                let remarks = recorded.remarks.into_iter();
                let mut findings: Vec<_> = remarks
                    .map(|remark| Finding::Overwritten {
                        manifest: name.clone(),
                        remark,
                    })
                    .collect();
                let (edits, missing) = self.drift(&recorded.deployment, manifest, there);
                let lease = recorded.deployment.lease;
                let missing = missing.into_iter().map(|object| (name.clone(), object));
                let missing = missing.chain(self.lost_passwords(&name, there));
                findings.extend(missing.map(|(namespace, object)| Finding::Missing {
                    lease: lease.clone(),
                    namespace,
                    object: object.to_string(),
                }));
                findings.extend(edits.into_iter().map(|(object, reason)| Finding::Edited {
                    lease: lease.clone(),
                    namespace: name.clone(),
                    object: object.to_string(),
                    reason,
                }));
                findings
            }
        }
    }
}

/// Namespace, Manifest, ProviderHost or ProviderLeasedIP object that does not belong to the expected chain.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignObject {
    /// Kind of the object in Kubernetes.
    pub kind: &'static str,
    /// Name of the object, as `namespace/name` for a namespaced object.
    pub name: String,
    /// Chain id in an annotation that only this provider writes; `None` without the annotation.
    pub chain_id: Option<String>,
}

impl fmt::Display for ForeignObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chain = self.chain_id.as_deref().unwrap_or("an unknown chain");
        write!(f, "{} {} of {chain}", self.kind, self.name)
    }
}

/// Returns the lease namespaces and records in the cluster that do not belong to chain `chain_id`.
///
/// A development chain must not start while the cluster has such objects.
///
/// # Errors
/// [`ErrorKind::Invalid`] for an empty chain id, and the errors of the API server. A failed query never returns an empty
/// list.
pub async fn foreign_leases(
    client: &Client,
    chain_id: &str,
    manifest_namespace: &str,
    limit: Duration,
) -> Result<Vec<ForeignObject>, Error> {
    if chain_id.is_empty() {
        let message = "the chain has no id to distinguish it from other chains; give it an id";
        return Err(Error::new(ErrorKind::Invalid, FOREIGN, message));
    }
    let search = Search {
        client,
        chain_id,
        limit,
    };
    let mut found = search.kind::<Namespace>("Namespace").await?;
    // Operators also label the namespace of the records, which is no lease.
    found.retain(|foreign| foreign.name != manifest_namespace);
    found.extend(search.kind::<Manifest>("Manifest").await?);
    found.extend(search.kind::<ProviderHost>("ProviderHost").await?);
    found.extend(search.kind::<ProviderLeasedIP>("ProviderLeasedIP").await?);
    Ok(found)
}

struct Search<'a> {
    client: &'a Client,
    chain_id: &'a str,
    limit: Duration,
}

impl Search<'_> {
    /// Lists the objects of one kind that are not annotated with this chain. Returns an empty list if the cluster
    /// does not serve the kind.
    async fn kind<K>(&self, kind: &'static str) -> Result<Vec<ForeignObject>, Error>
    where
        K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let ours = ListParams::default().labels(labels::SELECTOR);
        let found = match pages::metadata(&api, ours, self.limit, FOREIGN).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            found => found?,
        };
        Ok(found
            .iter()
            .filter_map(|object| self.foreign(kind, object))
            .collect())
    }

    fn foreign<K>(&self, kind: &'static str, object: &PartialObjectMeta<K>) -> Option<ForeignObject> {
        let meta = &object.metadata;
        let chain = meta.annotations.as_ref().and_then(|a| a.get(labels::CHAIN_ID));
        if chain.is_some_and(|chain| chain == self.chain_id) {
            return None;
        }
        let name = meta.name.clone().unwrap_or_default();
        Some(ForeignObject {
            kind,
            name: match &meta.namespace {
                Some(namespace) => format!("{namespace}/{name}"),
                None => name,
            },
            chain_id: chain.cloned(),
        })
    }
}
