//! What a start finds that is not as it should be: reported as values, never a reason to destroy anything.

use crate::cluster::unwatched::ByNamespace;
use crate::cluster::{Inner, KubeCluster};
use crate::crd::convert;
use crate::crd::{Manifest, ProviderHost, ProviderLeasedIP};
use crate::labels;
use crate::pages;
use crate::state::Orphan;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::LeaseId;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::fmt;
use std::time::Duration;

const FOREIGN: &str = "foreign_leases";

/// Something an operator should look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It has our label and belongs to nothing.
    Orphan(Orphan),
    /// A record that makes no sense: its lease is not deployed, and what runs of it is left alone.
    Unreadable {
        /// Name of the Manifest object.
        manifest: String,
        /// The field, and what is wrong with it.
        problem: String,
    },
    /// A record that somebody else wrote to; its fields count.
    Overwritten {
        /// Name of the Manifest object.
        manifest: String,
        /// What of it was ignored, and why.
        remark: String,
    },
    /// An object that is not as it was applied; the next deploy of the lease puts it right.
    Edited {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Namespace of the lease.
        namespace: String,
        /// Kind and name, as `Kind/name`.
        object: String,
        /// Why it would be written again.
        reason: String,
    },
    /// An object of a kind that no watch holds is not there any more; the next deploy of the lease makes it again.
    Missing {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Its namespace, or that of the records.
        namespace: String,
        /// Kind and name, as `Kind/name`.
        object: String,
    },
    /// A record or namespace of another chain; it is never touched.
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
            } => write!(f, "{object} in {namespace}: it is not there"),
            Self::OtherChain { manifest } => write!(f, "Manifest {manifest}: it belongs to another chain"),
        }
    }
}

impl KubeCluster {
    /// What is not as it should be: from the caches, and for the kinds that no watch holds from one list of each.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] while the cluster is not being watched; else as the API server answers the lists.
    pub async fn findings(&self) -> Result<Vec<Finding>, Error> {
        self.inner().findings("findings").await
    }
}

impl Inner {
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
        // Its own provider reports it.
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

/// A lease's object that a chain did not make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// Kind of the object, as Kubernetes names it.
    pub kind: &'static str,
    /// Namespace, where it has one, and name.
    pub name: String,
    /// The chain it names; `None` where another provider made it.
    pub chain_id: Option<String>,
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chain = self.chain_id.as_deref().unwrap_or("an unknown chain");
        write!(f, "{} {} of {chain}", self.kind, self.name)
    }
}

/// Whatever in the cluster has the network's label and does not name this chain. A development chain must not
/// start where there is any. Reads only.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a chain without id; else as the API server answers. Not knowing is an error, never
/// an empty list.
pub async fn foreign_leases(
    client: &Client,
    chain_id: &str,
    manifest_namespace: &str,
    limit: Duration,
) -> Result<Vec<Foreign>, Error> {
    if chain_id.is_empty() {
        let message = "a chain without an id cannot be told from others; give it one";
        return Err(Error::new(ErrorKind::Invalid, FOREIGN, message));
    }
    let search = Search {
        client,
        chain_id,
        limit,
    };
    let mut found = search.kind::<Namespace>("Namespace").await?;
    // Operators label the namespace of the records too; it is no lease.
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
    /// Objects of a kind, page by page; a kind the cluster does not know has none.
    async fn kind<K>(&self, kind: &'static str) -> Result<Vec<Foreign>, Error>
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

    fn foreign<K>(&self, kind: &'static str, object: &PartialObjectMeta<K>) -> Option<Foreign> {
        let meta = &object.metadata;
        let chain = meta.annotations.as_ref().and_then(|a| a.get(labels::CHAIN_ID));
        if chain.is_some_and(|chain| chain == self.chain_id) {
            return None;
        }
        let name = meta.name.clone().unwrap_or_default();
        Some(Foreign {
            kind,
            name: match &meta.namespace {
                Some(namespace) => format!("{namespace}/{name}"),
                None => name,
            },
            chain_id: chain.cloned(),
        })
    }
}
