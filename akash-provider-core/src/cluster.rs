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
pub use memory::{ClusterContents, ExecFn, ExecResult, Facets, LeaseCallCounts, MemoryCluster, Operation};
#[cfg(feature = "runtime")]
pub use port::*;

/// Specification of the workload of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// Lease of the workload.
    pub lease: LeaseId,
    /// Services to run, from the manifest.
    pub group: Arc<Group>,
    /// Scheduling parameters of the resource units, by resource id.
    pub params: Arc<SchedulerParamsById>,
    /// Hostnames to declare after the deploy, each for one service.
    pub hostnames: Vec<HostnameDeclaration>,
    /// Leased IPs to declare after the deploy, one for each expose with an IP.
    pub ips: Vec<IpDeclaration>,
    /// Leadership epoch of the writing provider. The backend refuses a write if an earlier write had a higher
    /// epoch.
    pub epoch: u64,
}

impl WorkloadSpec {
    /// Creates the desired state of a lease, without scheduler parameters, hostnames and leased IPs, in epoch 0.
    #[must_use]
    pub fn new(lease: LeaseId, group: Arc<Group>) -> Self {
        Self {
            lease,
            group,
            params: Arc::default(),
            hostnames: Vec::new(),
            ips: Vec::new(),
            epoch: 0,
        }
    }

    /// Returns the set of hostnames to declare.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        self.hostnames.iter().map(|h| h.hostname.as_str()).collect()
    }
}

/// A hostname and the service to which it routes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostnameDeclaration {
    /// Hostname in lower case.
    pub hostname: String,
    /// Name of the service that receives the requests.
    pub service: String,
    /// External port of the expose.
    pub external_port: u16,
}

impl HostnameDeclaration {
    /// Creates a declaration that routes `hostname` to a port of a service.
    #[must_use]
    pub fn new(hostname: impl Into<String>, service: impl Into<String>, external_port: u16) -> Self {
        Self {
            hostname: hostname.into(),
            service: service.into(),
            external_port,
        }
    }
}

/// A leased IP and the service to which it routes.
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
    /// Exposes with the same key share one leased IP.
    pub sharing_key: String,
}

/// All leases of the provider in a cluster.
///
/// A lease that is missing in all fields has no record and no workload in the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Listing {
    /// Workload of each lease, as in the last `record` or `deploy` call. Leases with an unusable record are
    /// in `unusable` instead.
    pub deployments: Vec<WorkloadSpec>,
    /// Objects of leases. The workload record of each such lease is missing or unreadable.
    #[serde(default)]
    pub unusable: Vec<UnusableRecord>,
    /// Leases that have a record, but lack an object or have a modified object. If the provider deployed such
    /// a lease before, the provider deploys the lease again.
    #[serde(default)]
    pub incomplete: Vec<LeaseId>,
    /// Further problems in the cluster, one line each, for the operator.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Location of the Manifest records, as text: ``namespace `lease` of https://10.0.0.1:6443``.
    #[serde(default)]
    pub place: String,
}

/// Lease object in the backend. The workload record of the lease is missing or unreadable.
///
/// While this object exists, a missing manifest is not a reason to close the lease.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UnusableRecord {
    /// Lease of the object, or `None` if the object does not name its lease.
    pub lease: Option<LeaseId>,
    /// Name of the object in the backend. If `lease` is `None`, compare this name with
    /// [`LeaseId::namespace`] to find the lease.
    pub name: String,
    /// Defect of the record: unreadable, or missing.
    pub remains: RecordDefect,
    /// Description of the object and its problem.
    pub problem: String,
}

/// Reason why the record of a lease is unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordDefect {
    /// The record cannot be read.
    Unreadable,
    /// The record of the lease is missing, but a namespace for its workload exists.
    Unrecorded,
}

impl UnusableRecord {
    /// Returns true if the object belongs to `lease`. Compares the lease id. If the object has no lease id,
    /// compares its name with the namespace of `lease`.
    #[must_use]
    pub fn belongs_to(&self, lease: &LeaseId) -> bool {
        match &self.lease {
            Some(named) => named == lease,
            None => self.name == lease.namespace(),
        }
    }
}

impl From<Vec<WorkloadSpec>> for Listing {
    /// Creates a listing of these workloads. The listing contains no unusable records.
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
    /// Health of every workload, as the first item of a stream and after every gap.
    ///
    /// A lease that is not in the snapshot is not running.
    Snapshot {
        /// Health of every workload of the provider.
        health: BTreeMap<LeaseId, Health>,
    },
    /// Health of one workload. The health may be the same as before.
    Health {
        /// Lease of the workload.
        lease: LeaseId,
        /// Current health that the backend observed.
        health: Health,
    },
    /// The watch of the backend failed. The health of all workloads is unknown until the next snapshot.
    Lost,
    /// Objects of running leases were deleted, or a resource kind is available again. In both cases, the
    /// provider lists the workloads.
    RecordsLost,
}

/// Result of a teardown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Teardown {
    /// The workload has stopped, and `Cluster::deployments` no longer lists the lease.
    Done,
    /// The teardown is not done. The caller repeats the call.
    InProgress,
}

/// Status of the services of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct LeaseStatus {
    /// One entry for each service of the lease, by the name of the service.
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
    /// Number of available replicas, as counted by the backend.
    pub available: u32,
    /// Number of replicas in the manifest.
    pub total: u32,
    /// Hostnames that route to the service.
    pub uris: Vec<String>,
    /// Additional status of these hostnames.
    #[serde(default)]
    pub hostnames: BTreeMap<String, HostnameNotes>,
    /// Number of replicas with the newest specification of the service.
    pub updated_replicas: u32,
    /// Number of ready replicas.
    pub ready_replicas: u32,
    /// Number of existing replicas, ready or not.
    pub replicas: u32,
    /// Same number as `available`, for clients of the Go provider.
    pub available_replicas: u32,
    /// Workload generation that the backend has processed; 0 if the backend does not count generations.
    pub observed_generation: i64,
    /// Newest termination of a container; `None` if unknown or if no container terminated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_termination: Option<Termination>,
}

/// Termination of a container of a service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Termination {
    /// Reason from the backend, such as `OOMKilled`, or empty.
    pub reason: String,
    /// Exit code of the command.
    pub exit_code: i32,
    /// Total number of restarts of all containers of the service.
    pub restarts: u32,
}

/// Additional status of a declared hostname.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct HostnameNotes {
    /// Condition that must be met before requests are routed, as text for the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Result of the reachability probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reachable: Option<Reachability>,
}

/// Result of a probe that sends a request to a hostname.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reachability {
    /// Result of the probe.
    pub state: ReachState,
    /// Explanation of the result of the probe.
    pub why: String,
    /// Time of the probe, RFC 3339 in UTC.
    pub at: String,
}

/// Result of a reachability probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReachState {
    /// The hostname responds.
    Yes,
    /// The hostname was probed, and it does not respond.
    No,
    /// The hostname was not probed, or the address of the hostname is unknown.
    Unknown,
}

/// A port on a host of the provider, and the service to which the port routes.
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

/// A hostname that the backend routes to a service of a lease.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeclaredHostname {
    /// Declared hostname.
    pub hostname: String,
    /// Lease of the service.
    pub lease: LeaseId,
}

/// Returns the proxy settings that a manifest group defines for a hostname. Returns `None` if the group lacks
/// the service or the port of the hostname.
#[must_use]
pub fn http_options<'a>(group: &'a Group, name: &HostnameDeclaration) -> Option<&'a HttpOptions> {
    let service = group.services.iter().find(|s| s.name == name.service)?;
    let expose = service
        .expose
        .iter()
        .find(|e| e.effective_external_port() == name.external_port)?;
    Some(&expose.http_options)
}
