//! The compute backend that runs workloads.

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

/// Workload of a lease, as desired or as deployed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// Order and provider of the lease.
    pub lease: LeaseId,
    /// Services to run, from the manifest.
    pub group: Arc<Group>,
    /// Scheduling parameters by resource id.
    pub params: Arc<SchedulerParamsById>,
    /// Hostnames to declare after the deploy, each for one service.
    pub hostnames: Vec<HostnameDeclaration>,
    /// Leased IPs to declare after the deploy, one entry for each expose with an IP.
    pub ips: Vec<IpDeclaration>,
    /// Leadership epoch of the writer. A write with an older epoch than the last write is refused.
    pub epoch: u64,
}

impl WorkloadSpec {
    /// Returns the set of hostnames to declare.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        self.hostnames.iter().map(|h| h.hostname.as_str()).collect()
    }
}

/// A hostname that routes to a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostnameDeclaration {
    /// Hostname in lower case.
    pub hostname: String,
    /// Service of the lease.
    pub service: String,
    /// External port of the expose.
    pub external_port: u16,
}

/// A leased IP that routes to a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct IpDeclaration {
    /// Service of the lease.
    pub service: String,
    /// Port in the container.
    pub port: u16,
    /// Port on the leased IP.
    pub external_port: u16,
    /// Transport protocol of both ports.
    pub proto: Proto,
    /// Exposes with the same key share an IP.
    pub sharing_key: String,
}

/// All leases of the provider in a cluster.
///
/// A lease that is in no list of this type does not exist in the cluster: the cluster has no record and no
/// workload of the lease. A backend that cannot guarantee this returns an error instead of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Listing {
    /// Workloads as last recorded or deployed.
    pub deployments: Vec<WorkloadSpec>,
    /// Remains of leases without a record that describes the workload.
    #[serde(default)]
    pub unusable: Vec<UnusableRecord>,
    /// Leases with a record, of which the workload or another deployed object is missing or modified. A lease
    /// that was deployed is deployed again.
    #[serde(default)]
    pub incomplete: Vec<LeaseId>,
    /// Further findings for the operator, one line each.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Location of the records, as text: ``namespace `lease` of https://10.0.0.1:6443``.
    #[serde(default)]
    pub place: String,
}

/// Remains of a lease that do not describe the workload. As long as they exist, the lease is not closed
/// because of a missing manifest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UnusableRecord {
    /// Lease of the object, if the object names one.
    pub lease: Option<LeaseId>,
    /// Name of the object in the backend. If `lease` is `None`, a name that equals [`LeaseId::namespace`]
    /// identifies the lease.
    pub name: String,
    /// Whether the record is unreadable or missing.
    pub remains: RecordDefect,
    /// The object and its problem, as text.
    pub problem: String,
}

/// State of the record of a lease without a usable record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordDefect {
    /// The record cannot be read.
    Unreadable,
    /// A namespace or another container of workloads exists without a record.
    Unrecorded,
}

impl UnusableRecord {
    /// Returns whether the object belongs to `lease`, by its lease id or by its name.
    #[must_use]
    pub fn belongs_to(&self, lease: &LeaseId) -> bool {
        match &self.lease {
            Some(named) => named == lease,
            None => self.name == lease.namespace(),
        }
    }
}

impl From<Vec<WorkloadSpec>> for Listing {
    /// Creates the listing of a backend with readable records only.
    fn from(deployments: Vec<WorkloadSpec>) -> Self {
        Self {
            deployments,
            ..Self::default()
        }
    }
}

/// A change that the backend observed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClusterChange {
    /// Health of every workload. The first item of a stream, and the first after every gap. A missing lease
    /// is not running.
    Snapshot {
        /// Health of every workload of the provider.
        health: BTreeMap<LeaseId, Health>,
    },
    /// The health of one workload changed or is repeated.
    Health {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Current health that the backend observed.
        health: Health,
    },
    /// The watch of the backend failed. Every health is unknown until the next snapshot.
    Lost,
    /// Records of running leases, such as hostnames, were deleted, or their kind is served again. The
    /// provider soon compares the cluster with the leases and repeats failed deploys.
    RecordsLost,
}

/// Result of a teardown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Teardown {
    /// The workload has stopped and the lease is no longer listed.
    Done,
    /// The teardown is in progress. Call it again.
    InProgress,
}

/// Status of the services of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct LeaseStatus {
    /// One entry for each service of the lease, by its name.
    pub services: BTreeMap<String, ServiceStatus>,
    /// Forwarded ports by service name.
    pub forwarded_ports: BTreeMap<String, Vec<ForwardedPort>>,
    /// Assigned leased IPs by service name.
    #[serde(default)]
    pub ips: BTreeMap<String, Vec<AssignedIp>>,
}

/// A leased IP that routes to a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AssignedIp {
    /// Address assigned to the service.
    pub ip: IpAddr,
    /// Port in the container.
    pub port: u16,
    /// Port on the leased IP.
    pub external_port: u16,
    /// Transport protocol of both ports.
    pub proto: Proto,
}

/// Status of one service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// Name of the service in the manifest.
    pub name: String,
    /// Number of replicas that serve requests.
    pub available: u32,
    /// Number of replicas in the manifest.
    pub total: u32,
    /// Hostnames that route to the service.
    pub uris: Vec<String>,
    /// Additional status of these hostnames.
    #[serde(default)]
    pub hostnames: BTreeMap<String, HostnameNotes>,
    /// Number of replicas of the newest version.
    pub updated_replicas: u32,
    /// Number of ready replicas.
    pub ready_replicas: u32,
    /// Number of existing replicas, ready or not.
    pub replicas: u32,
    /// Number of available replicas, as the backend counts them.
    pub available_replicas: u32,
    /// Generation of the workload that the backend has processed; 0 if the backend has no generations.
    pub observed_generation: i64,
    /// Newest termination of a container; `None` if no container terminated or the backend does not report
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_termination: Option<Termination>,
}

/// Termination of a container of a service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Termination {
    /// Reason in the terms of the backend, such as `OOMKilled`; empty if the backend reports none.
    pub reason: String,
    /// Exit code of the command.
    pub exit_code: i32,
    /// Number of restarts of all containers of the service.
    pub restarts: u32,
}

/// Additional status of a declared hostname.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct HostnameNotes {
    /// Condition that delays the routing of requests, as text for the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Result of the reachability probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reachable: Option<Reachability>,
}

/// Result of a probe of a hostname's routes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reachability {
    /// Result of the probe.
    pub state: ReachState,
    /// Reason of the result.
    pub why: String,
    /// Time of the probe, RFC 3339 in UTC.
    pub at: String,
}

/// State of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReachState {
    /// The hostname responds.
    Yes,
    /// The hostname was probed and does not respond.
    No,
    /// The hostname was not probed, or its address is unknown.
    Unknown,
}

/// A port of the provider's host that routes to a service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ForwardedPort {
    /// Public name or address of the host.
    pub host: String,
    /// Port in the container.
    pub port: u16,
    /// Port of the host.
    pub external_port: u16,
    /// Transport protocol of both ports.
    pub proto: Proto,
    /// Name of the service.
    pub name: String,
}

/// A hostname that is declared in the backend.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeclaredHostname {
    /// Declared hostname.
    pub hostname: String,
    /// Lease of the service.
    pub lease: LeaseId,
}

/// Returns the proxy settings of a hostname in a group.
#[must_use]
pub fn http_options<'a>(group: &'a Group, name: &HostnameDeclaration) -> Option<&'a HttpOptions> {
    let service = group.services.iter().find(|s| s.name == name.service)?;
    let expose = service
        .expose
        .iter()
        .find(|e| e.effective_external_port() == name.external_port)?;
    Some(&expose.http_options)
}
