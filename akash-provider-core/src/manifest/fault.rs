//! Why a manifest is refused.

use super::hostname::HostnameFault;
use crate::engine::input::RefusalKind;
use serde::{Deserialize, Serialize};

/// Why a manifest is refused; `Display` says what is wrong, where, and how to mend it.
///
/// The texts begin as the network's tools expect: `invalid manifest` or `manifest cross-validation error`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "error", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ManifestError {
    /// More bytes than a manifest may have.
    #[error("invalid manifest: {bytes} bytes are more than the {limit} a manifest may have; shorten it")]
    TooLarge {
        /// Length of what was received.
        bytes: usize,
        /// Most bytes that are taken.
        limit: usize,
    },
    /// The bytes are not JSON, nest too deeply, or name a key twice.
    #[error("invalid manifest: line {line}, column {column}: {reason}; send one JSON array of groups")]
    NotJson {
        /// From 1; 0 when it is about the whole.
        line: usize,
        /// From 1; 0 when it is about the whole.
        column: usize,
        /// As the JSON reader says it.
        reason: String,
    },
    /// JSON, and not the shape of a manifest.
    #[error("invalid manifest: {at}: {reason}; send it as the network's tools write it")]
    Shape {
        /// Where, for example `[0].services[1].expose[0]`.
        at: String,
        /// As the JSON reader says it.
        reason: String,
    },
    /// Wrong in itself, whatever the chain has.
    #[error("invalid manifest: {at}: {fault}")]
    Structure {
        /// Where, by names: `akash.web.expose[0]`.
        at: String,
        /// The rule that it breaks.
        fault: StructureFault,
    },
    /// Right in itself, and not what the chain has.
    #[error("manifest cross-validation error: {at}: {fault}")]
    Cross {
        /// Where, by names: `akash.web`.
        at: String,
        /// The rule that it breaks.
        fault: CrossFault,
    },
}

impl ManifestError {
    /// What it means for the one who sent it.
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

/// What is wrong with a manifest by itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StructureFault {
    /// The manifest has no groups.
    #[error("there are no groups; add one for each placement")]
    NoGroups,
    /// A group name is there twice.
    #[error("another group has this name; give each group its own")]
    DuplicateGroup,
    /// A group has no services.
    #[error("the group has no services; add one or leave the group out")]
    NoServices,
    /// Services are out of order.
    #[error("service `{name}` comes after `{before}`; sort services by name")]
    ServicesUnsorted {
        /// The one out of order.
        name: String,
        /// The one ahead of it.
        before: String,
    },
    /// A service name is there twice in a group.
    #[error("another service of the group has this name; give each service its own")]
    DuplicateService,
    /// Not a DNS label that starts with a letter.
    #[error(
        "`{name}` cannot be a service name; use at most 63 of a-z, 0-9 and `-`, starting with a letter and not ending with `-`"
    )]
    ServiceName {
        /// Name as received, shortened to 80 characters.
        name: String,
    },
    /// The image of a service is empty.
    #[error("the image is empty; name a container image")]
    NoImage,
    /// Not a reference to a container image.
    #[error("`{image}` is not a container image: {problem}; write `[REGISTRY/]PATH[:TAG][@DIGEST]`")]
    Image {
        /// The reference, shortened.
        image: String,
        /// Which part of it is wrong.
        problem: String,
    },
    /// Resource ids start at 1.
    #[error("the resource id is 0; use the id of the group's resource unit, from 1")]
    NoResourceId,
    /// Not a name Kubernetes takes for a variable.
    #[error(
        "`{name}` cannot be the name of an environment variable; use letters, digits, `_`, `-` and `.`, not starting with a digit or `..`"
    )]
    EnvName {
        /// Name as received, shortened to 80 characters.
        name: String,
    },
    /// Exposes are out of order.
    #[error("it belongs further up; sort by service, port, protocol, global first")]
    ExposesUnsorted,
    /// An exposed port is 0.
    #[error("the port is 0; use 1 to 65535")]
    NoPort,
    /// Not a case of a proxy.
    #[error(
        "`{case}` in nextCases is no case for another replica; use some of error, timeout, 500, 502, 503, 504, 403, 404, 429, or off alone"
    )]
    NextCase {
        /// Case as received, shortened to 80 characters.
        case: String,
    },
    /// More cases than there are, or `off` beside others.
    #[error("nextCases names a case twice, or `off` with others; name each once, or off alone")]
    NextCases,
    /// Beyond what the network allows.
    #[error("{option} is {value}; use at most {limit}")]
    HttpOption {
        /// Name of the option, as the manifest spells it.
        option: String,
        /// Value that was received.
        value: u32,
        /// Largest value that is taken.
        limit: u32,
    },
    /// A list or a text that is longer than its limit.
    #[error("{field}: {length} {unit}, at most {limit} are accepted; shorten it")]
    Limit {
        /// Field and its owner, as [`limits`](super::limits) names them.
        field: String,
        /// Number of entries or bytes received.
        length: usize,
        /// Largest number that is accepted.
        limit: usize,
        /// `entries` or `bytes`.
        unit: String,
    },
    /// A name that no tenant may list.
    #[error("`{host}` {reason}; {}", reason.help())]
    Hostname {
        /// Hostname as received, shortened to 80 characters.
        host: String,
        /// The rule that it breaks.
        reason: HostnameFault,
    },
    /// A hostname is there twice.
    #[error("the hostname `{host}` is listed more than once in the manifest; keep one")]
    DuplicateHostname {
        /// Name that occurs twice, shortened to 80 characters.
        host: String,
    },
    /// Nothing can be reached from outside.
    #[error("no service is reachable from outside; make at least one expose global")]
    NothingGlobal,
}

/// How a manifest differs from the groups on the chain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CrossFault {
    /// Another number of groups.
    #[error(
        "the manifest has {manifest} groups and the deployment {deployment}; send all of them and no others"
    )]
    GroupCount {
        /// Groups that the manifest has.
        manifest: usize,
        /// Groups of the deployment on the chain.
        deployment: usize,
    },
    /// No group of that name on the chain.
    #[error("the deployment has no group of this name; use the names of the deployment's groups")]
    UnknownGroup,
    /// No unit of that id in the group.
    #[error("the group has no resource unit {id}; use the ids of the deployment")]
    UnknownResource {
        /// Resource id that the service names.
        id: u32,
    },
    /// More replicas than the group pays for.
    #[error("it wants {wanted} replicas and resource unit {id} has {left} left; update the deployment first")]
    TooManyReplicas {
        /// Resource id of the unit.
        id: u32,
        /// Replicas that the service wants.
        wanted: u32,
        /// In the unit, after the services before it.
        left: u32,
    },
    /// Service and unit ask for different resources.
    #[error(
        "its {what} is not that of resource unit {id}; update the deployment or the manifest, so that both say the same"
    )]
    Mismatch {
        /// Resource id of the unit.
        id: u32,
        /// First quantity that differs.
        what: ResourceKind,
    },
    /// An endpoint the unit does not have.
    #[error("resource unit {id} has no {endpoint} endpoint left for it; update the deployment first")]
    TooManyEndpoints {
        /// Resource id of the unit.
        id: u32,
        /// Kind of endpoint: shared HTTP, a port, or a leased address.
        endpoint: EndpointNeed,
    },
    /// Endpoints of the unit nobody uses.
    #[error(
        "{left} {endpoint} endpoints of resource unit {id} are unused; expose them or update the deployment"
    )]
    UnusedEndpoints {
        /// Resource id of the unit.
        id: u32,
        /// Kind of endpoint: shared HTTP, a port, or a leased address.
        endpoint: EndpointNeed,
        /// Endpoints of this kind that no expose uses.
        left: u32,
    },
    /// Replicas of the unit nobody uses.
    #[error("{left} replicas of resource unit {id} are unused; use them or update the deployment")]
    UnusedReplicas {
        /// Resource id of the unit.
        id: u32,
        /// Replicas that no service uses.
        left: u32,
    },
}

/// A quantity a service and its unit must agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResourceKind {
    /// Processor share with its attributes.
    Cpu,
    /// Number of GPUs and the models accepted.
    Gpu,
    /// Size of memory with its attributes.
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

/// An endpoint an expose needs of its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndpointNeed {
    /// Place behind the shared HTTP ingress.
    Http,
    /// Port on a node.
    Port,
    /// Leased IP of the tenant's own.
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

/// A tenant's text, short enough for an error.
pub(super) fn shown(text: &str) -> String {
    const SHOWN: usize = 80;
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    text.chars().take(SHOWN).chain(['…']).collect()
}
