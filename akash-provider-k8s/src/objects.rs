//! From a deployment to Kubernetes objects: pure functions, one room per kind.

use crate::settings::{Isolation, Settings};
use akash_provider_core::cluster::Deployment;
use k8s_openapi::api::apps::v1::{Deployment as AppsDeployment, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, PodTemplateSpec, ResourceQuota, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use std::collections::BTreeMap;

/// Everything of a lease, in the order in which it is applied.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LeaseObjects {
    /// The namespace.
    pub namespace: Namespace,
    /// Network policies; a pod must not run before they are there.
    pub policies: Vec<NetworkPolicy>,
    /// Limit of everything in the namespace.
    pub quota: Option<ResourceQuota>,
    /// Accounts of services that may read of their lease.
    pub service_accounts: Vec<ServiceAccount>,
    /// What those accounts may do.
    pub roles: Vec<Role>,
    /// Which account may do it.
    pub role_bindings: Vec<RoleBinding>,
    /// Registry logins.
    pub secrets: Vec<Secret>,
    /// Services without persistent volumes.
    pub deployments: Vec<AppsDeployment>,
    /// Services with persistent volumes.
    pub stateful_sets: Vec<StatefulSet>,
    /// Ports.
    pub services: Vec<Service>,
}

/// What is there already and decides how the new objects look.
#[derive(Debug, Clone, PartialEq)]
pub struct Prior {
    /// `resourceVersion` of the Manifest object, for the version label.
    pub manifest_version: String,
    /// Isolation the lease keeps.
    pub isolation: Isolation,
    /// By service: the pod template that runs, where the service did not change. It is kept to the byte.
    pub unchanged: BTreeMap<String, PodTemplateSpec>,
}

/// Why a deployment cannot be expressed as Kubernetes objects. Nothing was created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("service {service:?}, {field}: {problem}")]
pub struct Refusal {
    /// Service; empty for the group.
    pub service: String,
    /// Field of the manifest, for example `expose[1].port`.
    pub field: String,
    /// What is wrong, and the mend.
    pub problem: String,
}

/// The objects of a lease.
///
/// # Errors
/// [`Refusal`] for the first thing Kubernetes would not take.
pub fn render(
    _deployment: &Deployment,
    _settings: &Settings,
    _prior: &Prior,
) -> Result<LeaseObjects, Refusal> {
    Ok(LeaseObjects::default())
}
