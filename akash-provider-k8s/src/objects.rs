//! From a deployment to Kubernetes objects: pure functions, one room per kind.
//!
//! Everything is rendered as the API server stores it (quantities in their shortest form, nothing empty), so that
//! what is wanted can be compared with what is there.

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

pub(crate) use account::{ACCESS, LEASE_ROLE, RBAC, all_permissions};
pub use policies::{RESTRICTIONS, api_server_policy_name, leased_ip_policy_name, node_port_policy_name};
pub use ports::{leased_ip_service, leased_ip_service_name, node_port_service_name};
pub use quota::QUOTA;
pub(crate) use registry::credentials as login;
pub use registry::registry_secret_name;
pub use routes::{BackendRef, PathMatch, RouteMatch, RouteRule};
pub use routes::{HTTPRoute, HttpRouteSpec, INGRESS_CLASS, ParentRef, http_route, ingress};
pub(crate) use routes::{effective, next_cases};

use self::context::Context;
use crate::crd::convert;
use crate::settings::{Isolation, Settings};
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::manifest::Group;
use k8s_openapi::api::apps::v1::{Deployment as AppsDeployment, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, PodTemplateSpec, ResourceQuota, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use std::collections::{BTreeMap, BTreeSet};

/// Everything of a lease, in the order in which it is applied.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LeaseObjects {
    /// The namespace, named after the lease.
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
    /// Registry logins, one for each service that has one.
    pub secrets: Vec<Secret>,
    /// Services without persistent volumes.
    pub deployments: Vec<AppsDeployment>,
    /// Services with persistent volumes.
    pub stateful_sets: Vec<StatefulSet>,
    /// Ports of services: inside the lease, and on the nodes.
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

impl Refusal {
    /// A refusal; `service` is empty for the group.
    #[must_use]
    pub fn new(service: &str, field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            service: service.to_owned(),
            field: field.into(),
            problem: problem.into(),
        }
    }
}

/// Replicas a service may have at most.
pub const MAX_REPLICAS: u32 = 1_000;
/// Ports the services of a lease may have at most, together.
pub const MAX_PORTS: usize = 500;
/// Bytes an object may have at most; the API server keeps none that is larger.
pub const MAX_OBJECT_BYTES: usize = 1024 * 1024;

/// The objects of a lease.
///
/// # Errors
/// [`Refusal`] for the first thing Kubernetes would not take.
pub fn render(
    deployment: &WorkloadSpec,
    settings: &Settings,
    prior: &Prior,
) -> Result<LeaseObjects, Refusal> {
    let cx = Context::new(deployment, settings, prior);
    // What is cheap first: a group that is too large is not rendered.
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

/// Pod templates without the default of ephemeral storage, by service, as earlier versions rendered them: of the
/// services that list none of their own. For [`Prior::unchanged`].
///
/// # Errors
/// As [`render`].
pub fn without_default_disk(
    deployment: &WorkloadSpec,
    settings: &Settings,
    prior: &Prior,
) -> Result<BTreeMap<String, PodTemplateSpec>, Refusal> {
    let cx = Context::new(deployment, settings, prior);
    let mut templates = BTreeMap::new();
    for service in &deployment.group.services {
        if let Some(template) = pod::without_default_disk(&cx, service)? {
            templates.insert(service.name.clone(), template);
        }
    }
    Ok(templates)
}

/// Services have valid names, and no object of one has the name of another's.
fn names_differ(group: &Group) -> Result<(), Refusal> {
    let mut workloads = BTreeSet::new();
    let mut taken: BTreeMap<String, &str> = BTreeMap::new();
    for service in &group.services {
        text::service_name(service)?;
        if !workloads.insert(service.name.as_str()) {
            return Err(Refusal::new(
                &service.name,
                "name",
                "two services have it; names are unique",
            ));
        }
        // Node ports of a service `web` are in `web-np`, which may be the name of another service.
        let own = ports::names(service).into_iter().chain(policies::names(service));
        for name in own {
            if let Some(other) = taken.insert(name.clone(), &service.name) {
                let problem = format!(
                    "its objects and those of the service `{other}` would both be named `{name}`; rename one"
                );
                return Err(Refusal::new(&service.name, "name", problem));
            }
        }
    }
    Ok(())
}

/// Everything that can be known to be wrong before anything is created.
///
/// # Errors
/// [`Refusal`] for the first thing that could not be recorded or that Kubernetes would not take.
pub fn check(deployment: &WorkloadSpec, settings: &Settings) -> Result<(), Refusal> {
    let prior = Prior {
        // Any version will do: nothing of this is written.
        manifest_version: "0".to_owned(),
        isolation: settings.isolation,
        unchanged: BTreeMap::new(),
    };
    render(deployment, settings, &prior)?;
    convert::to_manifest(deployment, settings).map(drop)
}
