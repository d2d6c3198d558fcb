//! Objects of one lease.

use super::CachedKind;
use akash_provider_kube_model::crd::{Manifest, ManifestService, ProviderHost, ProviderLeasedIP};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, Pod, ResourceQuota, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Last observed objects of one lease, by name. Cheap to clone.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LeaseView {
    /// Namespace, if it exists and can be decoded.
    pub namespace: Option<Arc<Namespace>>,
    /// Manifest of the lease.
    pub manifest: Option<Arc<Manifest>>,
    /// Workloads without persistent volumes.
    pub deployments: BTreeMap<String, Arc<Deployment>>,
    /// Workloads with persistent volumes.
    pub stateful_sets: BTreeMap<String, Arc<StatefulSet>>,
    /// Pods: only names, nodes and status.
    pub pods: BTreeMap<String, Arc<Pod>>,
    /// Services of the lease, including those of the IP operator.
    pub services: BTreeMap<String, Arc<Service>>,
    /// All network policies of the namespace.
    pub policies: BTreeMap<String, Arc<NetworkPolicy>>,
    /// Quotas with the label `akash.network=true`.
    pub quotas: BTreeMap<String, Arc<ResourceQuota>>,
    /// Service accounts with the label `akash.network=true`.
    pub accounts: BTreeMap<String, Arc<ServiceAccount>>,
    /// All roles of the namespace.
    pub roles: BTreeMap<String, Arc<Role>>,
    /// All role bindings of the namespace.
    pub role_bindings: BTreeMap<String, Arc<RoleBinding>>,
    /// ProviderHost objects: declared hostnames.
    pub hosts: BTreeMap<String, Arc<ProviderHost>>,
    /// ProviderLeasedIP objects: declared leased addresses.
    pub ips: BTreeMap<String, Arc<ProviderLeasedIP>>,
    /// Invalid objects, with the reason.
    pub unreadable: BTreeMap<(CachedKind, String), String>,
}

impl LeaseView {
    /// Returns true if the lease has no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.runs()
            && self.manifest.is_none()
            && self.pods.is_empty()
            && self.services.is_empty()
            && self.policies.is_empty()
            && self.quotas.is_empty()
            && self.accounts.is_empty()
            && self.roles.is_empty()
            && self.role_bindings.is_empty()
            && self.hosts.is_empty()
            && self.ips.is_empty()
            && self.unreadable.is_empty()
    }

    /// Returns true if the lease has a workload or a namespace.
    #[must_use]
    pub fn runs(&self) -> bool {
        let unreadable = |kind| self.unreadable.keys().any(|(k, _)| *k == kind);
        self.namespace.is_some()
            || !self.deployments.is_empty()
            || !self.stateful_sets.is_empty()
            || unreadable(CachedKind::Namespaces)
    }

    /// Returns the services in the Manifest, or `None` without a Manifest.
    #[must_use]
    pub fn wanted(&self) -> Option<&[ManifestService]> {
        Some(&self.manifest.as_ref()?.spec.group.services)
    }

    pub(super) fn metadata(&self, kind: CachedKind, name: &str) -> Option<&ObjectMeta> {
        match kind {
            CachedKind::Namespaces => self.namespace.as_ref().map(|o| &o.metadata),
            CachedKind::Deployments => self.deployments.get(name).map(|o| &o.metadata),
            CachedKind::StatefulSets => self.stateful_sets.get(name).map(|o| &o.metadata),
            CachedKind::Pods => self.pods.get(name).map(|o| &o.metadata),
            CachedKind::Services => self.services.get(name).map(|o| &o.metadata),
            CachedKind::Policies => self.policies.get(name).map(|o| &o.metadata),
            CachedKind::Manifests => self.manifest.as_ref().map(|o| &o.metadata),
            CachedKind::Hosts => self.hosts.get(name).map(|o| &o.metadata),
            CachedKind::Ips => self.ips.get(name).map(|o| &o.metadata),
            CachedKind::Quotas => self.quotas.get(name).map(|o| &o.metadata),
            CachedKind::Accounts => self.accounts.get(name).map(|o| &o.metadata),
            CachedKind::Roles => self.roles.get(name).map(|o| &o.metadata),
            CachedKind::RoleBindings => self.role_bindings.get(name).map(|o| &o.metadata),
            CachedKind::Events => None,
        }
    }
}
