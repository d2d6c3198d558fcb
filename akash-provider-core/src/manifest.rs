//! The manifest: what the tenant wants to run, group by group.
//!
//! This file is the model, in the network's JSON; the rules are in the rooms below:
//! `validate` (right in itself, within [`limits`]), `version` (its hash, and reading it from bytes), `cross` (right for the groups
//! on the chain) and [`hosts`] (the names and addresses it wants).

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
pub use hostname::{HostnameFault, check_hostname, is_within, looks_like};
pub use validate::{
    MAX_BODY, MAX_HOSTNAME, MAX_PROXY_BUFFER, MAX_PROXY_TIMEOUT, MAX_SERVICE_NAME, NEXT_CASES, is_hostname,
    is_service_name, validate,
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

/// A whole manifest: one group per placement.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Manifest {
    /// Groups, sorted by name.
    pub groups: Vec<Group>,
}

/// The services of one placement group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Group {
    /// Name of the on-chain group.
    pub name: String,
    /// Services, sorted by name.
    pub services: Vec<Service>,
}

/// One service: an image, its resources and its ports.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Service {
    /// Name, a DNS label and unique in its group.
    pub name: String,
    /// Container image; a valid manifest leaves none empty.
    pub image: String,
    /// Entry point; `None` and empty hash differently.
    pub command: Option<Vec<String>>,
    /// Arguments of the command; `None` and empty hash differently.
    pub args: Option<Vec<String>>,
    /// Lines of `NAME=value`; one without `=` is a name alone.
    pub env: Option<Vec<String>>,
    /// Resources of one replica.
    pub resources: Resources,
    /// Replicas; the services of a resource unit must use up its count.
    pub count: u32,
    /// Ports, sorted by service, port, protocol, global first.
    #[serde(default, deserialize_with = "null_as_empty")]
    pub expose: Vec<ServiceExpose>,
    /// Mounts, permissions, confidential computing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<ServiceParams>,
    /// Login at the image's registry; `None` where it needs none.
    pub credentials: Option<Credentials>,
}

/// A port of a service, and who reaches it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceExpose {
    /// Port in the container.
    pub port: u16,
    /// Port outside; 0 means the same.
    pub external_port: u16,
    /// Transport protocol; the ingress serves `TCP` only.
    pub proto: Proto,
    /// The one service that may reach it; empty for all.
    pub service: String,
    /// Reached from outside the deployment.
    pub global: bool,
    /// Hostnames the tenant wants; each is in a manifest once.
    pub hosts: Option<Vec<String>>,
    /// Settings for the proxy in front, where the ingress serves it.
    pub http_options: HttpOptions,
    /// Name of the leased-IP endpoint; empty for none.
    pub ip: String,
    /// Sequence number of that endpoint; 0 for none.
    pub endpoint_sequence_number: u32,
}

impl ServiceExpose {
    /// The port outside: `external_port`, or `port` where that is 0.
    #[must_use]
    pub const fn effective_external_port(&self) -> u16 {
        if self.external_port == 0 {
            self.port
        } else {
            self.external_port
        }
    }

    /// True when it is served by the shared HTTP ingress: global TCP on external port 80.
    #[must_use]
    pub fn is_ingress(&self) -> bool {
        self.global && self.proto == Proto::Tcp && self.effective_external_port() == 80
    }
}

/// Transport protocol of an exposed port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum Proto {
    /// TCP, the default, and all that the ingress serves.
    #[default]
    #[serde(rename = "TCP")]
    Tcp,
    /// UDP, which the ingress does not serve.
    #[serde(rename = "UDP")]
    Udp,
}

/// Proxy settings of an ingress expose.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpOptions {
    /// Largest request body in bytes.
    pub max_body_size: u32,
    /// Read timeout of the proxy in milliseconds, 60000 at most.
    pub read_timeout: u32,
    /// Send timeout of the proxy in milliseconds, 60000 at most.
    pub send_timeout: u32,
    /// Tries of one request over the replicas.
    pub next_tries: u32,
    /// Milliseconds; 0 for none.
    pub next_timeout: u32,
    /// When to try the next replica; left out when empty.
    #[serde(default, skip_serializing_if = "none_or_empty")]
    pub next_cases: Option<Vec<String>>,
    /// Bytes; left out when 0.
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

/// Extras of a service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ServiceParams {
    /// Where its volumes are mounted; one that is not named is mounted nowhere.
    pub storage: Option<Vec<StorageParams>>,
    /// Registry login, as some tools place it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    /// What the service may read of its own lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// Confidential computing; left out of the JSON when none is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tee: Option<Tee>,
}

/// Where a volume is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageParams {
    /// Name of the volume among the service's resources.
    pub name: String,
    /// Absolute path in the container.
    pub mount: String,
    /// Whether the service may only read from it.
    pub read_only: bool,
}

/// What a service may read of its own lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Permissions {
    /// Any of `deployment`, `logs`, `events`; left out when empty.
    #[serde(default, skip_serializing_if = "none_or_empty")]
    pub read: Option<Vec<String>>,
}

/// Confidential computing that a service asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tee {
    /// Which hardware is to be trusted: `cpu` or `cpu-gpu`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether attestation is wanted.
    pub attestation: bool,
}

/// Login at a container registry; `Debug` leaves the password out.
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

/// How the GPU of a unit was chosen; part of what a deployment stores.
pub type SchedulerParamsById = BTreeMap<u32, Option<SchedulerParams>>;

/// Scheduling facts of a resource unit, decided when it was reserved.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct SchedulerParams {
    /// `nvidia` for NVIDIA GPUs, empty otherwise.
    pub runtime_class: String,
    /// GPU that was chosen; `None` for a unit without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<SchedulerResources>,
}

/// Resources part of [`SchedulerParams`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct SchedulerResources {
    /// GPU that was chosen for the unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<SchedulerGpu>,
}

/// The GPU chosen for a unit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct SchedulerGpu {
    /// Vendor in lower case, for example `nvidia`.
    pub vendor: String,
    /// Name of the model, for example `a100`.
    pub model: String,
    /// Requested memory, or empty.
    #[serde(default)]
    pub memory_size: String,
    /// Requested interface, or empty.
    #[serde(default)]
    pub interface: String,
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

fn none_or_empty(list: &Option<Vec<String>>) -> bool {
    list.as_ref().is_none_or(Vec::is_empty)
}
