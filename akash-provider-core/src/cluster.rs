//! The compute backend: where workloads run.

use crate::manifest::{Group, HttpOptions, Proto, SchedulerParamsById};
use crate::types::LeaseId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

#[cfg(feature = "conformance")]
pub mod conformance;
mod health;
#[cfg(feature = "runtime")]
mod memory;
#[cfg(feature = "runtime")]
mod port;
pub use health::{Health, Outage};
#[cfg(feature = "runtime")]
pub use memory::{Calls, Contents, ExecFn, ExecResult, Facets, MemoryCluster, Operation};
#[cfg(feature = "runtime")]
pub use port::*;

/// A lease's workload as it is to be, or as it was deployed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// Order and provider of the lease.
    pub lease: LeaseId,
    /// The services to run, as the manifest has them.
    pub group: Arc<Group>,
    /// Scheduling facts by resource id.
    pub params: Arc<SchedulerParamsById>,
    /// Hostnames to declare after the deploy, each for one service.
    pub hostnames: Vec<HostnameDeclaration>,
    /// Leased IPs to declare after the deploy, one entry for each expose that wants one.
    pub ips: Vec<IpDeclaration>,
    /// Leadership epoch of the writer; a later one wins.
    pub epoch: u64,
}

impl WorkloadSpec {
    /// The hostnames to declare, to look names up in.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        self.hostnames.iter().map(|h| h.hostname.as_str()).collect()
    }
}

/// A hostname that leads to a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostnameDeclaration {
    /// The name in lower case.
    pub hostname: String,
    /// Service of the lease.
    pub service: String,
    /// External port of the expose.
    pub external_port: u16,
}

/// A leased IP that leads to a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct IpDeclaration {
    /// Service of the lease.
    pub service: String,
    /// Port in the container.
    pub port: u16,
    /// Port on the address.
    pub external_port: u16,
    /// Transport protocol of both ports.
    pub proto: Proto,
    /// Exposes with the same key share an address.
    pub sharing_key: String,
}

/// Everything of ours that a cluster has.
///
/// A lease that is in neither list is not there: no record of it in any form, and nothing that runs. What cannot be
/// said so is no listing but an error.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Listing {
    /// As recorded or deployed last.
    pub deployments: Vec<WorkloadSpec>,
    /// What is there of a lease without a record that says what it runs.
    #[serde(default)]
    pub unusable: Vec<Unusable>,
    /// Leases with a record of which nothing is there to run, or of which something that a deploy makes is gone or
    /// is not as it was made. One that was deployed is deployed again.
    #[serde(default)]
    pub incomplete: Vec<LeaseId>,
    /// What an operator should look at besides, one line each.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Where records were looked for, for people: ``namespace `lease` of https://10.0.0.1:6443``.
    #[serde(default)]
    pub place: String,
}

/// Something of a lease that does not say what the lease runs. It keeps the lease from being ended for want of a
/// manifest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Unusable {
    /// Whose it is, where it says so.
    pub lease: Option<LeaseId>,
    /// Its name in the backend. One that equals [`LeaseId::namespace`] is taken for that lease's when `lease` is
    /// not known.
    pub name: String,
    /// Whether there is a record that cannot be read, or none.
    pub remains: Remains,
    /// The object and what is wrong with it, for people.
    pub problem: String,
}

/// What is there of a lease that has no usable record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remains {
    /// A record that cannot be read.
    Unreadable,
    /// A namespace, or whatever else holds workloads, without a record.
    Unrecorded,
}

impl Unusable {
    /// True when it is this lease's, by what it says or by its name.
    #[must_use]
    pub fn is_of(&self, lease: &LeaseId) -> bool {
        match &self.lease {
            Some(named) => named == lease,
            None => self.name == lease.namespace(),
        }
    }
}

impl From<Vec<WorkloadSpec>> for Listing {
    /// Of a backend whose records can always be read.
    fn from(deployments: Vec<WorkloadSpec>) -> Self {
        Self {
            deployments,
            ..Self::default()
        }
    }
}

/// A change the backend saw.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClusterChange {
    /// The health of every workload; first, and again after every gap. A lease that is missing is not running.
    Snapshot {
        /// Every workload of ours.
        health: BTreeMap<LeaseId, Health>,
    },
    /// The health of one workload changed, or is told once more.
    Health {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// What the backend knows of it at this moment.
        health: Health,
    },
    /// The backend cannot be watched: every health is unknown until the next snapshot.
    Lost,
    /// Records of running leases were deleted, such as their hostnames, or their kind is served again: the cluster is
    /// compared with the leases soon, and failed deploys are repeated.
    RecordsLost,
}

/// Answer to a teardown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Teardown {
    /// Nothing runs any more and the lease is no longer listed.
    Done,
    /// It is going; ask again.
    InProgress,
}

/// Status of a lease's services.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct LeaseStatus {
    /// One entry for each service of the lease, by its name.
    pub services: BTreeMap<String, ServiceStatus>,
    /// Random ports by service name.
    pub forwarded_ports: BTreeMap<String, Vec<ForwardedPort>>,
    /// Addresses of its own by service name, as far as they are assigned.
    #[serde(default)]
    pub ips: BTreeMap<String, Vec<AssignedIp>>,
}

/// An address that leads to a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AssignedIp {
    /// The address that was assigned to the service.
    pub ip: IpAddr,
    /// Port in the container.
    pub port: u16,
    /// Port on the address.
    pub external_port: u16,
    /// Transport protocol of both ports.
    pub proto: Proto,
}

/// Status of one service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// Name of the service in the manifest.
    pub name: String,
    /// Replicas that serve requests.
    pub available: u32,
    /// Replicas that the manifest asks for.
    pub total: u32,
    /// Hostnames that lead to it.
    pub uris: Vec<String>,
    /// What is known of these names beside that, where there is something to say.
    #[serde(default)]
    pub hostnames: BTreeMap<String, HostnameNotes>,
    /// Replicas of the newest version.
    pub updated_replicas: u32,
    /// Replicas that are ready.
    pub ready_replicas: u32,
    /// Replicas there are, ready or not.
    pub replicas: u32,
    /// Replicas that serve, as the backend itself counts them.
    pub available_replicas: u32,
    /// Version of the workload that the backend has acted on; 0 where it counts none.
    pub observed_generation: i64,
    /// The newest termination of a container; `None` if none terminated or the backend does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_termination: Option<Termination>,
}

/// How a container of a service terminated.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Termination {
    /// Reason in the backend's terms, such as `OOMKilled`; empty where it reports none.
    pub reason: String,
    /// Exit code of its command.
    pub exit_code: i32,
    /// Restarts of all containers of the service.
    pub restarts: u32,
}

/// What is known of a declared hostname beside where it leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct HostnameNotes {
    /// What it waits for before requests follow it, in words for its tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Whether the address of its routes answers for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reachable: Option<Reachable>,
}

/// Whether the address of a hostname's routes answers for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reachable {
    /// Yes, no, or not known.
    pub state: Reach,
    /// What makes it so.
    pub why: String,
    /// When that was found, RFC 3339 in UTC.
    pub at: String,
}

/// Whether something answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// It does.
    Yes,
    /// It was asked and does not.
    No,
    /// It was not asked, or nobody knows whom to ask.
    Unknown,
}

/// A port of the provider's host that leads to a service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ForwardedPort {
    /// Public name or address that the port is reached at.
    pub host: String,
    /// Port in the container.
    pub port: u16,
    /// Port of the host.
    pub external_port: u16,
    /// Transport protocol of both ports.
    pub proto: Proto,
    /// Name of the service it leads to.
    pub name: String,
}

/// A hostname as the backend has it declared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeclaredHostname {
    /// The name as it was declared.
    pub hostname: String,
    /// The lease whose service it leads to.
    pub lease: LeaseId,
}

/// Proxy settings that belong to a hostname of a group.
#[must_use]
pub fn http_options<'a>(group: &'a Group, name: &HostnameDeclaration) -> Option<&'a HttpOptions> {
    let service = group.services.iter().find(|s| s.name == name.service)?;
    let expose = service
        .expose
        .iter()
        .find(|e| e.effective_external_port() == name.external_port)?;
    Some(&expose.http_options)
}
