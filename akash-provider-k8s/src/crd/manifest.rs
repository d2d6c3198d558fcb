//! What a lease runs: the durable record of a deployment.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A lease and the group it runs.
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
    /// The lease.
    pub lease_id: ManifestLeaseId,
    /// What it runs.
    pub group: ManifestGroup,
}

/// A lease.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestLeaseId {
    /// Tenant.
    pub owner: String,
    /// Deployment sequence number, as text.
    pub dseq: String,
    /// Group sequence number.
    pub gseq: u32,
    /// Order sequence number.
    pub oseq: u32,
    /// Provider.
    pub provider: String,
}

/// The services of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestGroup {
    /// Name of the on-chain group.
    pub name: String,
    /// Services.
    #[serde(default)]
    pub services: Vec<ManifestService>,
}

/// One service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestService {
    /// DNS label.
    pub name: String,
    /// Container image.
    pub image: String,
    /// Entry point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// `NAME=value` lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<String>>,
    /// Resources of one replica.
    pub resources: ManifestResources,
    /// Replicas.
    pub count: u32,
    /// Ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expose: Option<Vec<ManifestExpose>>,
    /// Mounts and permissions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<ManifestServiceParams>,
    /// How the GPU of the service was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_params: Option<ManifestSchedulerParams>,
    /// Registry login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<ManifestCredentials>,
}

/// Resources of one replica.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestResources {
    /// Resource id within the group.
    pub id: u32,
    /// Thousandths of a core.
    pub cpu: ManifestUnits,
    /// Whole devices.
    #[serde(default)]
    pub gpu: ManifestUnits,
    /// Bytes.
    pub memory: ManifestMemory,
    /// Volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Vec<ManifestStorage>>,
}

/// An amount of processor or GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestUnits {
    /// How many.
    pub units: u32,
    /// What kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Vec<ManifestAttribute>>,
}

/// An amount of memory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestMemory {
    /// Bytes, as text.
    pub size: String,
    /// What kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Vec<ManifestAttribute>>,
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestStorage {
    /// Name.
    pub name: String,
    /// Bytes, as text.
    pub size: String,
    /// `class`, `persistent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Vec<ManifestAttribute>>,
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestAttribute {
    /// Key.
    #[serde(default)]
    pub key: String,
    /// Value.
    #[serde(default)]
    pub value: String,
}

/// A port of a service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestExpose {
    /// Port in the container.
    #[serde(default)]
    pub port: u32,
    /// Port outside; 0 means the same.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub external_port: u32,
    /// `TCP` or `UDP`.
    #[serde(default)]
    pub proto: String,
    /// The one service that may reach it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub service: String,
    /// Reached from outside.
    #[serde(default, skip_serializing_if = "is_false")]
    pub global: bool,
    /// Hostnames wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// Proxy settings.
    #[serde(default)]
    pub http_options: ManifestHttpOptions,
    /// Name of the leased-IP endpoint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ip: String,
    /// Sequence number of that endpoint.
    #[serde(default)]
    pub endpoint_sequence_number: u32,
}

/// Proxy settings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestHttpOptions {
    /// Bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub max_body_size: u32,
    /// Milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub read_timeout: u32,
    /// Milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub send_timeout: u32,
    /// Attempts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next_tries: u32,
    /// Milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next_timeout: u32,
    /// When to try the next replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cases: Option<Vec<String>>,
}

/// Mounts and permissions of a service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestServiceParams {
    /// Mounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Vec<ManifestMount>>,
    /// What the service may read of its own lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<ManifestPermissions>,
}

/// Where a volume is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestMount {
    /// Volume.
    pub name: String,
    /// Absolute path.
    pub mount: String,
    /// Mounted read-only.
    #[serde(default)]
    pub read_only: bool,
}

/// What a service may read of its own lease.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestPermissions {
    /// Any of `deployment`, `logs`, `events`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<Vec<String>>,
}

/// How the GPU of a service was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestSchedulerParams {
    /// Runtime class of the pods.
    #[serde(default)]
    pub runtime_class: String,
    /// The GPU chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ManifestSchedulerResources>,
}

/// Resources part of [`ManifestSchedulerParams`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestSchedulerResources {
    /// The GPU chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<ManifestSchedulerGpu>,
}

/// The GPU chosen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestSchedulerGpu {
    /// Lower case.
    #[serde(default)]
    pub vendor: String,
    /// Model.
    #[serde(default)]
    pub model: String,
    /// Memory, or empty.
    #[serde(default)]
    pub memory_size: String,
    /// Interface, or empty.
    #[serde(default)]
    pub interface: String,
}

/// Registry login.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ManifestCredentials {
    /// Registry.
    #[serde(default)]
    pub host: String,
    /// Mail address.
    #[serde(default)]
    pub email: String,
    /// User.
    #[serde(default)]
    pub username: String,
    /// Password in clear, as the Go provider writes it; empty in objects of ours.
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
const fn is_zero(value: &u32) -> bool {
    *value == 0
}
