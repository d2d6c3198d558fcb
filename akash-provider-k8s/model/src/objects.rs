//! Rendering of a deployment as Kubernetes objects, as pure functions with one module per kind.
//!
//! Objects are rendered as the API server stores them (normalized quantities, no empty values), so that they can be
//! compared with live objects.

mod account;
mod affinity;
mod context;
mod image;
mod networks;
mod pod;
mod policies;
mod ports;
mod quantity;
mod quota;
mod registry;
mod resources;
mod routes;
mod text;
mod volumes;
mod workload;

pub use account::{ACCESS, LEASE_ROLE, RBAC, all_permissions};
pub use policies::{RESTRICTIONS, api_server_policy_name, leased_ip_policy_name, node_port_policy_name};
pub(crate) use ports::leased_ip_name;
pub use ports::{leased_ip_service, leased_ip_service_name, node_port_service_name};
pub use quota::QUOTA;
pub use registry::credentials as login;
pub use registry::registry_secret_name;
pub use routes::{BackendRef, PathMatch, RouteMatch, RouteRule};
pub use routes::{HTTPRoute, HttpRouteSpec, INGRESS_CLASS, ParentRef, http_route, ingress};
pub use routes::{effective, next_cases};

pub use crate::refusal::{MAX_OBJECT_BYTES, RenderError};

use self::context::RenderContext;
use crate::crd::convert;
use crate::settings::{Isolation, KubeSettings};
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::manifest::Group;
use k8s_openapi::api::apps::v1::{Deployment as AppsDeployment, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, PodTemplateSpec, ResourceQuota, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use std::collections::{BTreeMap, BTreeSet};

/// Rendered objects of a lease, in the order in which they are applied.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LeaseObjects {
    /// Namespace of the lease.
    pub namespace: Namespace,
    /// Network policies, written before the first pod.
    pub policies: Vec<NetworkPolicy>,
    /// Quota of the namespace.
    pub quota: Option<ResourceQuota>,
    /// ServiceAccounts of services with read permissions.
    pub service_accounts: Vec<ServiceAccount>,
    /// Rights of the service accounts.
    pub roles: Vec<Role>,
    /// Bindings of the roles to the service accounts.
    pub role_bindings: Vec<RoleBinding>,
    /// Registry logins, at most one per service.
    pub secrets: Vec<Secret>,
    /// Workloads without persistent volumes.
    pub deployments: Vec<AppsDeployment>,
    /// Workloads with persistent volumes.
    pub stateful_sets: Vec<StatefulSet>,
    /// Services for ports inside the lease, and for node ports.
    pub services: Vec<Service>,
}

/// Properties of an existing lease that determine the rendered objects.
#[derive(Debug, Clone, PartialEq)]
pub struct PriorState {
    /// `resourceVersion` of the Manifest object, written as the version label.
    pub manifest_version: String,
    /// Isolation level of the lease.
    pub isolation: Isolation,
    /// Pod templates of running pods, by service. These templates replace the newly rendered templates, so
    /// that the pods are not restarted.
    pub unchanged: BTreeMap<String, PodTemplateSpec>,
}

/// Maximum number of replicas of a service.
pub const MAX_REPLICAS: u32 = 1_000;
/// Maximum number of ports of all services of a lease.
pub const MAX_PORTS: usize = 500;

/// Renders the objects of a lease.
///
/// # Errors
/// [`RenderError`] for the first field of the manifest that Kubernetes would reject.
pub fn render(
    deployment: &WorkloadSpec,
    settings: &KubeSettings,
    prior: &PriorState,
) -> Result<LeaseObjects, RenderError> {
    let cx = RenderContext::new(deployment, settings, prior);
    // Cheap checks first: a group that is too large is not rendered.
    ports::check_total(&deployment.group)?;
    names_differ(&deployment.group)?;
    let mut objects = LeaseObjects {
        namespace: cx.namespace(),
        policies: policies::render(&cx)?,
        quota: quota::render(&cx)?,
        role_bindings: account::access(&cx).into_iter().collect(),
        ..LeaseObjects::default()
    };
    for service in &deployment.group.services {
        account::render(&cx, service, &mut objects);
        objects.secrets.extend(registry::render(&cx, service)?);
        workload::render(&cx, service, &mut objects)?;
        objects.services.extend(ports::render(&cx, service)?);
    }
    Ok(objects)
}

/// Returns the pod templates of earlier versions, for [`PriorState::unchanged`]. These templates have no
/// default ephemeral storage.
///
/// # Errors
/// As [`render`].
pub fn without_default_disk(
    deployment: &WorkloadSpec,
    settings: &KubeSettings,
    prior: &PriorState,
) -> Result<BTreeMap<String, PodTemplateSpec>, RenderError> {
    let cx = RenderContext::new(deployment, settings, prior);
    let mut templates = BTreeMap::new();
    for service in &deployment.group.services {
        if let Some(template) = pod::without_default_disk(&cx, service)? {
            templates.insert(service.name.clone(), template);
        }
    }
    Ok(templates)
}

/// Returns an error for an invalid service name, or if two services need objects with the same name.
fn names_differ(group: &Group) -> Result<(), RenderError> {
    let mut workloads = BTreeSet::new();
    let mut taken: BTreeMap<String, &str> = BTreeMap::new();
    for service in &group.services {
        text::service_name(service)?;
        if !workloads.insert(service.name.as_str()) {
            return Err(RenderError::new(
                &service.name,
                "name",
                "the name is used by two services",
            ));
        }
        // The node ports of a service `web` are in the Service `web-np`, which may be the name of another service.
        let own = ports::names(service).into_iter().chain(policies::names(service));
        for name in own {
            if let Some(other) = taken.insert(name.clone(), &service.name) {
                let problem = format!(
                    "its objects and those of service `{other}` would both be named `{name}`; rename one service"
                );
                return Err(RenderError::new(&service.name, "name", problem));
            }
        }
    }
    Ok(())
}

/// Checks a deployment before anything is created.
///
/// # Errors
/// [`RenderError`] for the first field that cannot be stored in a Manifest object or that Kubernetes would reject.
pub fn check(deployment: &WorkloadSpec, settings: &KubeSettings) -> Result<(), RenderError> {
    let prior = PriorState {
        // Placeholder: these objects are not written.
        manifest_version: "0".to_owned(),
        isolation: settings.isolation,
        unchanged: BTreeMap::new(),
    };
    render(deployment, settings, &prior)?;
    convert::to_manifest(deployment, settings).map(drop)
}
