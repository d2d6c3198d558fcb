//! Reasons for a refused manifest.

use super::hostname::HostnameFault;
use crate::engine::input::RefusalKind;
use serde::{Deserialize, Serialize};

/// Reason for a refused manifest. `Display` describes the problem, its location and the remedy.
///
/// The texts start as the Akash tools expect: `invalid manifest` or `manifest cross-validation error`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "error", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ManifestError {
    /// The manifest has too many bytes.
    #[error("invalid manifest: {bytes} bytes, at most {limit} are accepted; shorten the manifest")]
    TooLarge {
        /// Length of the received manifest, in bytes.
        bytes: usize,
        /// Maximum length of a manifest, in bytes.
        limit: usize,
    },
    /// The bytes are not JSON, the JSON is nested too deeply, or an object contains a key twice.
    #[error("invalid manifest: line {line}, column {column}: {reason}; send one JSON array of groups")]
    NotJson {
        /// Line, counted from 1; 0 if the error concerns the whole text.
        line: usize,
        /// Column, counted from 1; 0 if the error concerns the whole text.
        column: usize,
        /// Message of the JSON parser.
        reason: String,
    },
    /// The JSON does not have the form of a manifest.
    #[error("invalid manifest: {at}: {reason}; send the JSON that the Akash tools create")]
    Shape {
        /// Location, for example `[0].services[1].expose[0]`.
        at: String,
        /// Message of the JSON parser.
        reason: String,
    },
    /// The manifest violates a structural rule.
    #[error("invalid manifest: {at}: {fault}")]
    Structure {
        /// Path in the manifest, such as `akash.web.expose[0]`.
        at: String,
        /// Violated rule.
        fault: StructureFault,
    },
    /// The manifest is valid but differs from the groups on the chain.
    #[error("manifest cross-validation error: {at}: {fault}")]
    Cross {
        /// Path in the manifest, such as `akash.web`.
        at: String,
        /// Difference.
        fault: CrossFault,
    },
}

impl ManifestError {
    /// Returns the category of the refusal that the client receives.
    #[must_use]
    pub const fn kind(&self) -> RefusalKind {
        match self {
            Self::TooLarge { .. } | Self::NotJson { .. } | Self::Shape { .. } | Self::Structure { .. } => {
                RefusalKind::InvalidManifest
            }
            Self::Cross { .. } => RefusalKind::CrossValidation,
        }
    }
}

/// Structural fault of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StructureFault {
    /// The manifest has no groups.
    #[error("no groups; add one for each placement")]
    NoGroups,
    /// Two groups have the same name.
    #[error("another group has this name; give each group a unique name")]
    DuplicateGroup,
    /// A group has no services.
    #[error("the group has no services; add one or leave the group out")]
    NoServices,
    /// The services of a group are not sorted by name.
    #[error("service `{name}` follows `{before}`; sort services by name")]
    ServicesUnsorted {
        /// Name of the service at the wrong position.
        name: String,
        /// Name of the previous service in the manifest.
        before: String,
    },
    /// Two services of a group have the same name.
    #[error("another service of the group has this name; give each service a unique name")]
    DuplicateService,
    /// The name of a service is not a DNS label that starts with a letter.
    #[error(
        "`{name}` cannot be a service name; use at most 63 of a-z, 0-9 and `-`, starting with a letter and not ending with `-`"
    )]
    ServiceName {
        /// Received name, shortened to 80 characters.
        name: String,
    },
    /// The image of a service is empty.
    #[error("the image is empty; set a container image")]
    NoImage,
    /// The image is not a reference to a container image.
    #[error(
        "`{image}` is not a container image: {problem}; write the image as \
             `[REGISTRY/]PATH[:TAG][@DIGEST]`"
    )]
    Image {
        /// Reference as received, shortened to 80 characters.
        image: String,
        /// Invalid part of the reference.
        problem: String,
    },
    /// The resource id is 0.
    #[error("the resource id is 0; use the id of the group's resource unit, from 1")]
    NoResourceId,
    /// The name of a variable is not valid in Kubernetes.
    #[error(
        "`{name}` cannot be the name of an environment variable; use letters, digits, `_`, `-` and `.`, not starting with a digit or `..`"
    )]
    EnvName {
        /// Received name, shortened to 80 characters.
        name: String,
    },
    /// The exposes of a service are not sorted.
    #[error(
        "the `expose` entries are not sorted; sort them by service, port and protocol, with global entries first"
    )]
    ExposesUnsorted,
    /// An exposed port is 0.
    #[error("the port is 0; use 1 to 65535")]
    NoPort,
    /// An entry of `nextCases` is unknown.
    #[error(
        "`{case}` in nextCases is not a valid case; use some of error, timeout, 500, 502, 503, 504, 403, 404, 429, or off alone"
    )]
    NextCase {
        /// Received entry, shortened to 80 characters.
        case: String,
    },
    /// `nextCases` contains duplicate entries, or `off` together with other entries.
    #[error("nextCases has a duplicate case, or `off` with other cases; list each case once, or only off")]
    NextCases,
    /// An HTTP option exceeds the limit of the Akash network.
    #[error("{option} is {value}; use at most {limit}")]
    HttpOption {
        /// Name of the option in the manifest.
        option: String,
        /// Value of the option in the manifest.
        value: u32,
        /// Maximum value of the option.
        limit: u32,
    },
    /// A list or a text exceeds its limit.
    #[error("{field}: {length} {unit}, at most {limit} are accepted; shorten it")]
    Limit {
        /// Name of the field and of the object that contains it, as in [`limits`](super::limits).
        field: String,
        /// Number of received entries or bytes.
        length: usize,
        /// Maximum number of entries or bytes.
        limit: usize,
        /// `entries` or `bytes`.
        unit: String,
    },
    /// A tenant cannot use this hostname.
    #[error("`{host}` {reason}; {}", reason.help())]
    Hostname {
        /// Received hostname, shortened to 80 characters.
        host: String,
        /// Violated rule.
        reason: HostnameFault,
    },
    /// A hostname occurs twice.
    #[error("the hostname `{host}` is listed more than once in the manifest; list it once")]
    DuplicateHostname {
        /// Duplicate name, shortened to 80 characters.
        host: String,
    },
    /// No service is reachable from outside.
    #[error("no service is reachable from outside; make at least one expose global")]
    NothingGlobal,
}

/// Difference between a manifest and the groups on the chain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CrossFault {
    /// The manifest and the deployment have different numbers of groups.
    #[error(
        "the manifest has {manifest} groups and the deployment {deployment}; send all of them and no others"
    )]
    GroupCount {
        /// Number of groups in the manifest.
        manifest: usize,
        /// Number of groups of the deployment on the chain.
        deployment: usize,
    },
    /// The chain has no group with this name.
    #[error("the deployment has no group of this name; use the names of the deployment's groups")]
    UnknownGroup,
    /// The group has no unit with this id.
    #[error("the group has no resource unit {id}; use the ids of the deployment")]
    UnknownResource {
        /// Resource id in the service.
        id: u32,
    },
    /// The services use more replicas of a unit than the unit has on the chain.
    #[error(
        "the service has {wanted} replicas and resource unit {id} has {left} left; update the deployment first"
    )]
    TooManyReplicas {
        /// Resource id of the unit.
        id: u32,
        /// Number of replicas of the service.
        wanted: u32,
        /// Number of replicas that previous services leave to this service.
        left: u32,
    },
    /// A service and its resource unit have different resources.
    #[error(
        "the {what} of the service differs from resource unit {id}; update the deployment or the manifest, so that both are equal"
    )]
    Mismatch {
        /// Resource id of the unit.
        id: u32,
        /// First resource that differs.
        what: ResourceKind,
    },
    /// The services expose more endpoints of one kind than the unit has.
    #[error(
        "resource unit {id} has no {endpoint} endpoint left for the service; update the deployment first"
    )]
    TooManyEndpoints {
        /// Resource id of the unit.
        id: u32,
        /// Kind of endpoint: shared HTTP, a port, or a leased address.
        endpoint: EndpointNeed,
    },
    /// The manifest does not use all endpoints of the unit.
    #[error(
        "{left} {endpoint} endpoints of resource unit {id} are unused; expose them or update the deployment"
    )]
    UnusedEndpoints {
        /// Resource id of the unit.
        id: u32,
        /// Kind of endpoint: shared HTTP, a port, or a leased address.
        endpoint: EndpointNeed,
        /// Number of unused endpoints of this kind.
        left: u32,
    },
    /// The manifest does not use all replicas of the unit.
    #[error("{left} replicas of resource unit {id} are unused; use them or update the deployment")]
    UnusedReplicas {
        /// Resource id of the unit.
        id: u32,
        /// Number of unused replicas.
        left: u32,
    },
}

/// Resource that a service and its resource unit both define. The two values must be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResourceKind {
    /// CPU with its attributes.
    Cpu,
    /// Number of GPUs and the accepted models.
    Gpu,
    /// Memory with its attributes.
    Memory,
    /// Volumes with their names, sizes and attributes.
    Storage,
}

impl std::fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cpu => "CPU",
            Self::Gpu => "GPU",
            Self::Memory => "memory",
            Self::Storage => "storage",
        })
    }
}

/// An endpoint that an expose needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndpointNeed {
    /// Endpoint of the shared HTTP ingress.
    Http,
    /// Port on a node.
    Port,
    /// Leased IP of the tenant.
    Ip,
}

impl std::fmt::Display for EndpointNeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Http => "HTTP",
            Self::Port => "port",
            Self::Ip => "IP",
        })
    }
}

pub(super) fn broken(at: &str, fault: StructureFault) -> ManifestError {
    ManifestError::Structure {
        at: at.to_owned(),
        fault,
    }
}

pub(super) fn truncated(text: &str) -> String {
    const SHOWN: usize = 80;
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    text.chars().take(SHOWN).chain(['…']).collect()
}
