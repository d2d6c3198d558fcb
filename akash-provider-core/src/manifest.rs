//! The manifest: the tenant's workload, group by group.
//!
//! This file contains the types, which serialize to the JSON of the Akash network. The submodules contain the
//! rules: `validate` checks the structure and the [`limits`], `version` parses and hashes a manifest, `cross`
//! compares a manifest with the groups on the chain, and [`hosts`] returns the hostnames and addresses that a
//! manifest requests.

mod cross;
mod fault;
mod hostname;
pub mod hosts;
pub(crate) mod image;
pub mod limits;
mod punycode;
mod tree;
mod validate;
mod version;
mod wildcard;

pub use cross::cross_validate;
pub use fault::{CrossFault, EndpointNeed, ManifestError, ResourceKind, StructureFault};
pub use hostname::{HostnameFault, MAX_HOSTNAME, check_hostname, is_hostname, is_within, looks_like};
pub use validate::{
    MAX_BODY, MAX_PROXY_BUFFER, MAX_PROXY_TIMEOUT, MAX_SERVICE_NAME, NEXT_CASES, is_service_name, validate,
};
pub(crate) use validate::{expose_order, faults, is_env_name};
pub use version::{Hashes, MAX_BYTES, canonical_json, hash, parse};
pub use wildcard::{
    WILDCARD_LABEL, covering, is_hostname_or_wildcard, is_wildcard, reaches, with_star, without_star,
};

use crate::types::Resources;
use crate::types::resources::null_as_empty;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A whole manifest with one group per placement.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Manifest {
    /// Groups, sorted by name.
    pub groups: Vec<Group>,
}

/// The services of one placement group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Group {
    /// Name of the group on the chain.
    pub name: String,
    /// Services, sorted by name.
    pub services: Vec<Service>,
}

impl Group {
    /// Creates a group.
    #[must_use]
    pub fn new(name: impl Into<String>, services: Vec<Service>) -> Self {
        let name = name.into();
        Self { name, services }
    }
}

/// One service: an image, its resources and its ports.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Service {
    /// Name, a DNS label that is unique in its group.
    pub name: String,
    /// Container image, not empty in a valid manifest.
    pub image: String,
    /// Entry point of the container. `None` and an empty list result in different hashes.
    pub command: Option<Vec<String>>,
    /// Arguments of the entry point. `None` and an empty list result in different hashes.
    pub args: Option<Vec<String>>,
    /// Environment variables as lines of `NAME=value`. A line without `=` is the name of a variable with an empty
    /// value.
    pub env: Option<Vec<String>>,
    /// Resources of one replica.
    pub resources: Resources,
    /// Number of replicas. The replica counts of all services with the same resource unit must add up to the
    /// count of the unit.
    pub count: u32,
    /// Exposed ports, sorted by service, port and protocol. Among equal entries, global ports come first.
    #[serde(default, deserialize_with = "null_as_empty")]
    pub expose: Vec<ServiceExpose>,
    /// Mounts, permissions and confidential computing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<ServiceParams>,
    /// Login at the registry of the image; `None` if the registry requires no login.
    pub credentials: Option<Credentials>,
}

impl Service {
    /// Creates a service with one replica, without an entry point, variables, ports and parameters of its own.
    #[must_use]
    pub fn new(name: impl Into<String>, image: impl Into<String>, resources: Resources) -> Self {
        Self {
            name: name.into(),
            image: image.into(),
            command: None,
            args: None,
            env: None,
            resources,
            count: 1,
            expose: Vec::new(),
            params: None,
            credentials: None,
        }
    }
}

/// A port of a service, and the clients that may connect to the port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceExpose {
    /// Port in the container.
    pub port: u16,
    /// Port outside of the container; 0 means the same number as `port`.
    pub external_port: u16,
    /// Transport protocol; the ingress serves `TCP` only.
    pub proto: Proto,
    /// Name of the only service that may connect to the port; empty if all services may connect.
    pub service: String,
    /// Whether the port is reachable from outside the deployment.
    pub global: bool,
    /// Hostnames that the tenant requests for the port. Each hostname can occur only once in a manifest.
    pub hosts: Option<Vec<String>>,
    /// Proxy settings, used if the ingress serves the port.
    pub http_options: HttpOptions,
    /// Name of the leased-IP endpoint; empty for none.
    pub ip: String,
    /// Sequence number of the leased-IP endpoint; 0 for none.
    pub endpoint_sequence_number: u32,
}

impl ServiceExpose {
    /// Creates a TCP port that is reachable only inside the deployment, with the same number outside of the container.
    #[must_use]
    pub fn new(port: u16) -> Self {
        Self {
            port,
            external_port: 0,
            proto: Proto::Tcp,
            service: String::new(),
            global: false,
            hosts: None,
            http_options: HttpOptions::default(),
            ip: String::new(),
            endpoint_sequence_number: 0,
        }
    }

    /// Returns the port outside of the container: `external_port`, or `port` if `external_port` is 0.
    #[must_use]
    pub const fn effective_external_port(&self) -> u16 {
        if self.external_port == 0 {
            self.port
        } else {
            self.external_port
        }
    }

    /// Returns whether the shared HTTP ingress serves the port: global TCP on external port 80.
    #[must_use]
    pub fn is_ingress(&self) -> bool {
        self.global && self.proto == Proto::Tcp && self.effective_external_port() == 80
    }
}

/// Transport protocol of an exposed port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum Proto {
    /// TCP, the default and the only protocol of the ingress.
    #[default]
    #[serde(rename = "TCP")]
    Tcp,
    /// UDP, without ingress.
    #[serde(rename = "UDP")]
    Udp,
}

/// Proxy settings of an ingress expose.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpOptions {
    /// Maximum size of a request body, in bytes.
    pub max_body_size: u32,
    /// Read timeout of the proxy in milliseconds, at most 60000.
    pub read_timeout: u32,
    /// Send timeout of the proxy in milliseconds, at most 60000.
    pub send_timeout: u32,
    /// Maximum number of replicas that the proxy tries for one request.
    pub next_tries: u32,
    /// Time limit for all attempts of one request, in milliseconds; 0 means no limit.
    pub next_timeout: u32,
    /// Conditions under which the proxy tries the next replica; omitted from the JSON when empty.
    #[serde(default, skip_serializing_if = "none_or_empty")]
    pub next_cases: Option<Vec<String>>,
    /// Size of the proxy buffer in bytes; omitted when 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub proxy_buffer_size: u32,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            max_body_size: 1_048_576,
            read_timeout: 60_000,
            send_timeout: 60_000,
            next_tries: 3,
            next_timeout: 0,
            next_cases: Some(vec!["error".to_owned(), "timeout".to_owned()]),
            proxy_buffer_size: 0,
        }
    }
}

/// Additional parameters of a service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ServiceParams {
    /// Parameters of the volume mounts. A volume without an entry is not mounted.
    pub storage: Option<Vec<StorageParams>>,
    /// Login at the registry of the image. Some tools write the login here instead of in [`Service::credentials`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    /// Data that the service may read about its own lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// Confidential computing; omitted from the JSON when not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tee: Option<Tee>,
}

/// Mount of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageParams {
    /// Name of the volume. The resources of the service contain a volume with this name.
    pub name: String,
    /// Absolute path in the container.
    pub mount: String,
    /// Whether the mount is read-only.
    pub read_only: bool,
}

/// Data that a service may read about its own lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Permissions {
    /// Any of `deployment`, `logs`, `events`; omitted when empty.
    #[serde(default, skip_serializing_if = "none_or_empty")]
    pub read: Option<Vec<String>>,
}

/// Confidential computing requested by a service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tee {
    /// Trusted hardware: `cpu` or `cpu-gpu`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether attestation is requested.
    pub attestation: bool,
}

/// Login at a container registry. `Debug` omits the password.
#[derive(Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Credentials {
    /// Host of the registry.
    pub host: String,
    /// Mail address of the account.
    pub email: String,
    /// User name of the account.
    pub username: String,
    /// Password of the account; never printed.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("host", &self.host)
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// Scheduling parameters by resource id. The cluster stores these parameters with the workload.
pub type SchedulerParamsById = BTreeMap<u32, Option<SchedulerParams>>;

/// Scheduling parameters of a resource unit, decided at the reservation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct SchedulerParams {
    /// `nvidia` for NVIDIA GPUs, empty otherwise.
    pub runtime_class: String,
    /// Chosen GPU; `None` for a unit without a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<SchedulerResources>,
}

/// Value of `resources` in [`SchedulerParams`]: the chosen GPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct SchedulerResources {
    /// Chosen GPU of the unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<SchedulerGpu>,
}

/// Chosen GPU of a unit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct SchedulerGpu {
    /// Vendor in lower case, for example `nvidia`.
    pub vendor: String,
    /// Name of the model, for example `a100`.
    pub model: String,
    /// GPU memory that the order requires; empty for any size.
    #[serde(default)]
    pub memory_size: String,
    /// GPU interface that the order requires; empty for any interface.
    #[serde(default)]
    pub interface: String,
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

fn none_or_empty(list: &Option<Vec<String>>) -> bool {
    list.as_ref().is_none_or(Vec::is_empty)
}
