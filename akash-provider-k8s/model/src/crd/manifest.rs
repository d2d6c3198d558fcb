//! Manifest object: the durable record of a deployment.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Lease and its group of services.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "akash.network",
    version = "v2beta2",
    kind = "Manifest",
    plural = "manifests",
    shortname = "mani",
    namespaced,
    derive = "PartialEq"
)]
pub struct ManifestSpec {
    /// Lease.
    pub lease_id: ManifestLeaseId,
    /// Group of services of the lease.
    pub group: ManifestGroup,
}

/// Identity of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestLeaseId {
    /// Address of the tenant.
    pub owner: String,
    /// Deployment sequence number, as decimal text.
    pub dseq: String,
    /// Group sequence number.
    pub gseq: u32,
    /// Order sequence number.
    pub oseq: u32,
    /// Address of the provider.
    pub provider: String,
}

/// Services of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestGroup {
    /// Name of the group on the chain.
    pub name: String,
    /// Services.
    #[serde(default)]
    pub services: Vec<ManifestService>,
}

/// Service of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestService {
    /// Name of the service, a DNS label.
    pub name: String,
    /// Container image.
    pub image: String,
    /// Entry point of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Arguments of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Environment variables as `NAME=value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<String>>,
    /// Resources of one replica.
    pub resources: ManifestResources,
    /// Number of replicas.
    pub count: u32,
    /// Exposed ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expose: Option<Vec<ManifestExpose>>,
    /// Mounts and permissions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<ManifestServiceParams>,
    /// GPU and runtime class promised with the bid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_params: Option<ManifestSchedulerParams>,
    /// Login for the image registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<ManifestCredentials>,
}

/// Resources of one replica.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestResources {
    /// Resource id within the group.
    pub id: u32,
    /// CPU in millicores.
    pub cpu: ManifestUnits,
    /// Number of GPUs.
    #[serde(default)]
    pub gpu: ManifestUnits,
    /// Memory.
    pub memory: ManifestMemory,
    /// Volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Vec<ManifestStorage>>,
}

/// Amount of CPU or GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestUnits {
    /// Number of units.
    pub units: u32,
    /// Attributes, for example the GPU model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Vec<ManifestAttribute>>,
}

/// Amount of memory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestMemory {
    /// Size in bytes, as decimal text.
    pub size: String,
    /// Attributes of the memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Vec<ManifestAttribute>>,
}

/// Volume of a service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestStorage {
    /// Name of the volume.
    pub name: String,
    /// Size in bytes, as decimal text.
    pub size: String,
    /// Attributes `class` and `persistent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Vec<ManifestAttribute>>,
}

/// Key and value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestAttribute {
    /// Key.
    #[serde(default)]
    pub key: String,
    /// Value.
    #[serde(default)]
    pub value: String,
}

/// Exposed port of a service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestExpose {
    /// Port in the container.
    #[serde(default)]
    pub port: u32,
    /// External port; 0 for the port of the container.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub external_port: u32,
    /// `TCP` or `UDP`.
    #[serde(default)]
    pub proto: String,
    /// Only service that may connect; empty for all services of the lease.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub service: String,
    /// Whether the port is reachable from outside the lease.
    #[serde(default, skip_serializing_if = "is_false")]
    pub global: bool,
    /// Requested hostnames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// Options of the HTTP proxy.
    #[serde(default)]
    pub http_options: ManifestHttpOptions,
    /// Name of the leased-IP endpoint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ip: String,
    /// Sequence number of the endpoint.
    #[serde(default)]
    pub endpoint_sequence_number: u32,
}

/// Options of the HTTP proxy for an exposed port.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestHttpOptions {
    /// Maximum size of a request body, in bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub max_body_size: u32,
    /// Read timeout, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub read_timeout: u32,
    /// Send timeout, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub send_timeout: u32,
    /// Maximum number of attempts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next_tries: u32,
    /// Timeout of all attempts, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next_timeout: u32,
    /// Failures after which the next replica is tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cases: Option<Vec<String>>,
}

/// Mounts and permissions of a service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestServiceParams {
    /// Mounts of volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Vec<ManifestMount>>,
    /// Read permissions of the service in its lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<ManifestPermissions>,
}

/// Mount of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestMount {
    /// Name of the volume.
    pub name: String,
    /// Absolute path in the container.
    pub mount: String,
    /// Whether the mount is read-only.
    #[serde(default)]
    pub read_only: bool,
}

/// Read permissions of a service in its lease.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestPermissions {
    /// Permissions: `deployment`, `logs` and `events`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<Vec<String>>,
}

/// GPU and runtime class promised to a service with the bid.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestSchedulerParams {
    /// Runtime class of the pods.
    #[serde(default)]
    pub runtime_class: String,
    /// Promised GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ManifestSchedulerResources>,
}

/// Resources part of [`ManifestSchedulerParams`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestSchedulerResources {
    /// Promised GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<ManifestSchedulerGpu>,
}

/// GPU promised with the bid.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestSchedulerGpu {
    /// Vendor, in lower case.
    #[serde(default)]
    pub vendor: String,
    /// Model of the GPU.
    #[serde(default)]
    pub model: String,
    /// Memory size; empty for any.
    #[serde(default)]
    pub memory_size: String,
    /// Interface; empty for any.
    #[serde(default)]
    pub interface: String,
}

/// Login for an image registry.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestCredentials {
    /// Host of the registry.
    #[serde(default)]
    pub host: String,
    /// E-mail address.
    #[serde(default)]
    pub email: String,
    /// User name.
    #[serde(default)]
    pub username: String,
    /// Password in plain text, as the Go provider writes it; empty in objects of this provider.
    #[serde(default)]
    pub password: String,
}

impl std::fmt::Debug for ManifestCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManifestCredentials")
            .field("host", &self.host)
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires the signature")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires the signature")]
const fn is_zero(value: &u32) -> bool {
    *value == 0
}
