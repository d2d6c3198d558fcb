//! The trait [`Cluster`] and its facets.

use super::{
    ClusterChange, DeclaredHostname, ForwardedPort, HostnameDeclaration, IpDeclaration, LeaseStatus, Listing,
    ServiceStatus, Teardown, WorkloadSpec,
};
use crate::error::Error;
use crate::inventory::LeasedIpUsage;
use crate::manifest::Group;
use crate::types::{LeaseId, time::BlockTime};
use async_trait::async_trait;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};

/// A compute backend.
///
/// # Contract
/// Every call is idempotent and can be repeated after any error. The backend never changes or returns leases
/// of another provider or another chain. The caller makes the calls for one lease sequentially, and calls for
/// different leases concurrently. After `cluster_timeout`, the caller cancels and repeats a call. The
/// canceled operation may still be in progress.
///
/// A [`WorkloadSpec`] contains the epoch of the leader that writes it. `record` and `deploy` with an older
/// epoch than the last write change nothing and return a conflict.
///
/// A backend reports only known state. Health is reported only after an observation. A listing includes
/// unreadable records. A teardown is reported as complete only after the workload has stopped.
///
/// # Errors
/// Returns [`ErrorKind::NotFound`](crate::error::ErrorKind::NotFound) for an unknown lease or service.
/// Returns [`ErrorKind::Unavailable`](crate::error::ErrorKind::Unavailable) or
/// [`ErrorKind::Timeout`](crate::error::ErrorKind::Timeout) when the backend does not respond; the caller
/// retries. Returns [`ErrorKind::Conflict`](crate::error::ErrorKind::Conflict) when an instance with a later
/// epoch has written. Returns [`ErrorKind::Invalid`](crate::error::ErrorKind::Invalid) when a retry cannot
/// succeed.
///
/// # Implementing
/// Run `cluster::conformance::suite` (feature `conformance`) with the implementation. `MemoryCluster` is the
/// reference implementation.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
#[auto_impl::auto_impl(Arc, Box)]
pub trait Cluster: fmt::Debug + Send + Sync + 'static {
    /// Creates or updates the workload of a lease.
    ///
    /// # Behavior
    /// - The call returns when the backend has accepted the workload, before the workload is healthy.
    /// - A repeated deploy of the same input changes nothing.
    /// - If the backend permanently refuses a deploy, the running workload does not change.
    ///
    /// # Errors
    /// Returns `Invalid` for a workload that can never run, and `Conflict` when an instance with a later
    /// epoch has written the lease.
    async fn deploy(&self, deployment: &WorkloadSpec) -> Result<(), Error>;

    /// Stores the workload of a lease durably without running it.
    ///
    /// # Behavior
    /// - The record is durable when the call returns: `deployments` lists the workload after a restart. The
    ///   caller confirms the tenant's request only after this call.
    /// - A newer record replaces the older record. The running workload keeps the specification of the last `deploy`.
    ///
    /// # Errors
    /// Returns the errors of [`Cluster::deploy`], so that the tenant gets no confirmation for an invalid
    /// workload.
    async fn record(&self, deployment: &WorkloadSpec) -> Result<(), Error>;

    /// Returns a stream of health changes.
    ///
    /// # Behavior
    /// - The first item, and the first item after each gap, is a snapshot. If no health was observed, the
    ///   stream returns [`ClusterChange::Lost`] or an error.
    /// - The stream reports only observed health. Workloads that have not started are omitted.
    /// - The stream contains only leases of this provider.
    /// - The stream ends only when the backend stops.
    fn changes(&self) -> BoxStream<'static, Result<ClusterChange, Error>>;

    /// Removes all objects of a lease.
    ///
    /// # Behavior
    /// - For an unknown lease, the call returns `Done`.
    /// - `Done` means that no workload of the lease runs and `deployments` no longer lists the lease.
    /// - Other leases of the same tenant are not affected.
    /// - Repeated calls return `InProgress` until the teardown is done.
    async fn teardown_lease(&self, lease: &LeaseId) -> Result<Teardown, Error>;

    /// Returns the last recorded or deployed workload of each lease, and all objects without a readable
    /// record. A provider reads this listing after a restart.
    ///
    /// # Behavior
    /// - If the result does not contain a lease, the lease has no record and no workload.
    /// - Unreadable records are listed as unusable. Workloads without a record are also listed as unusable.
    /// - Each lease of this provider occurs once. Leases of other providers are omitted.
    ///
    /// # Errors
    /// Returns an error when a part of the list cannot be read, or when the lease of an unreadable object is
    /// unknown.
    async fn deployments(&self) -> Result<Listing, Error>;

    /// Returns the last recorded or deployed manifest group, or `None` for an unknown lease.
    async fn manifest_group(&self, lease: &LeaseId) -> Result<Option<Arc<Group>>, Error>;

    /// Returns the status of all services of a lease, even if the lease is recorded but not deployed.
    async fn lease_status(&self, lease: &LeaseId) -> Result<LeaseStatus, Error>;

    /// Returns the status of one service.
    async fn service_status(&self, lease: &LeaseId, service: &str) -> Result<ServiceStatus, Error>;

    /// Returns the forwarded ports of a lease, by the name of the service.
    async fn forwarded_port_status(
        &self,
        lease: &LeaseId,
    ) -> Result<BTreeMap<String, Vec<ForwardedPort>>, Error>;

    /// Returns a stream of log lines of a lease. The stream ends when the lease is torn down. Dropping the
    /// stream stops the query.
    ///
    /// # Behavior
    /// - Existing lines come first, the oldest line of each replica first. Each line contains the name of its
    ///   replica. Without [`LogOptions::follow`], the stream ends after these lines.
    /// - [`LogOptions::tail_lines`] is the maximum number of existing lines per replica. Older lines are
    ///   omitted.
    /// - If any of the requested services is unknown, the call returns `NotFound`.
    async fn lease_logs(
        &self,
        lease: &LeaseId,
        options: LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, Error>>, Error>;

    /// Returns a stream of the events that the backend reports about a lease. The stream ends when the lease
    /// is torn down. Dropping the stream stops the query.
    ///
    /// # Behavior
    /// - If any of the requested services is unknown, the call returns `NotFound`.
    async fn lease_events(
        &self,
        lease: &LeaseId,
        options: EventOptions,
    ) -> Result<BoxStream<'static, Result<LeaseEvent, Error>>, Error>;

    /// Returns the version of the backend as free text.
    async fn version(&self) -> Result<String, Error>;

    /// Returns the implementation of [`Hostnames`], or `None` if the backend routes no hostnames.
    ///
    /// With `None`, the provider declines orders with services behind hostnames. The result is constant.
    fn hostnames(&self) -> Option<Arc<dyn Hostnames>>;

    /// Returns the implementation of [`LeasedIps`], or `None` if the backend has no leased IPs.
    ///
    /// With `None`, the provider declines orders with leased IPs. The result is constant.
    fn leased_ips(&self) -> Option<Arc<dyn LeasedIps>>;

    /// Returns the implementation of [`Shell`], or `None` if the backend runs no commands. The result is
    /// constant.
    fn shell(&self) -> Option<Arc<dyn Shell>>;
}

/// Hostnames that route to services.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
#[auto_impl::auto_impl(Arc, Box)]
pub trait Hostnames: fmt::Debug + Send + Sync + 'static {
    /// Routes a hostname to a service of a lease. Replaces the previous route of the hostname.
    async fn declare_hostname(&self, lease: &LeaseId, name: &HostnameDeclaration) -> Result<(), Error>;

    /// Removes a hostname of this lease. Succeeds without an effect for a hostname of another lease.
    async fn purge_declared_hostname(&self, lease: &LeaseId, hostname: &str) -> Result<(), Error>;

    /// Removes all hostnames of a lease, if any.
    async fn purge_declared_hostnames(&self, lease: &LeaseId) -> Result<(), Error>;

    /// Returns all declared hostnames with their leases.
    async fn all_hostnames(&self) -> Result<Vec<DeclaredHostname>, Error>;
}

/// Leased IP addresses of tenants.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
#[auto_impl::auto_impl(Arc, Box)]
pub trait LeasedIps: fmt::Debug + Send + Sync + 'static {
    /// Routes a leased IP to a service.
    ///
    /// The sharing key of `ip` can belong to another lease of the same tenant. With `overwrite`, this lease
    /// takes over the key. Without `overwrite`, the call returns a conflict.
    async fn declare_ip(&self, lease: &LeaseId, ip: &IpDeclaration, overwrite: bool) -> Result<(), Error>;

    /// Removes the route of a leased IP, if the route exists.
    async fn purge_declared_ip(&self, lease: &LeaseId, ip: &IpDeclaration) -> Result<(), Error>;

    /// Removes the route of every leased IP of a lease, if such routes exist.
    async fn purge_declared_ips(&self, lease: &LeaseId) -> Result<(), Error>;

    /// Returns the leased IPs that were declared for a lease.
    async fn declared_ips(&self, lease: &LeaseId) -> Result<Vec<IpDeclaration>, Error>;

    /// Returns the utilization of the pool of leased IPs.
    async fn usage(&self) -> Result<LeasedIpUsage, Error>;
}

/// Execution of commands in a running service.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
#[auto_impl::auto_impl(Arc, Box)]
pub trait Shell: fmt::Debug + Send + Sync + 'static {
    /// Runs a command until it exits, and returns its exit code. Dropping the future stops the command.
    ///
    /// # Errors
    /// Returns `NotFound` when the lease is not running, or when the service or replica does not exist.
    async fn exec(&self, lease: &LeaseId, request: ExecRequest, io: ExecIo) -> Result<i32, Error>;
}

/// A command to run in a replica.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ExecRequest {
    /// Name of the service in the manifest.
    pub service: String,
    /// Index of the replica, from 0.
    pub replica: u32,
    /// Program and its arguments.
    pub command: Vec<String>,
    /// Whether the command gets a terminal.
    pub tty: bool,
}

/// Streams of a command.
pub struct ExecIo {
    /// Standard input, if any.
    pub stdin: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Standard output.
    pub stdout: Box<dyn AsyncWrite + Send + Unpin>,
    /// Standard error.
    pub stderr: Box<dyn AsyncWrite + Send + Unpin>,
    /// Terminal sizes as (columns, rows).
    pub resize: BoxStream<'static, (u16, u16)>,
}

impl fmt::Debug for ExecIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecIo")
            .field("stdin", &self.stdin.is_some())
            .finish_non_exhaustive()
    }
}

/// Filter and options of a log query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LogOptions {
    /// Services to include; empty for all.
    pub services: Vec<String>,
    /// Whether the stream continues with new lines.
    pub follow: bool,
    /// Maximum number of existing lines per replica; `None` for all.
    pub tail_lines: Option<u64>,
}

/// One log line of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Name of the replica.
    pub name: String,
    /// Text without the line end.
    pub message: String,
}

/// Filter and options of an event query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EventOptions {
    /// Services to include; empty for all.
    pub services: Vec<String>,
    /// Whether the stream continues with new events.
    pub follow: bool,
}

/// Severity of an event. Serialized as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum Severity {
    /// Normal operation.
    Normal,
    /// Needs attention.
    Warning,
    /// Severity as the backend reports it; can be an empty text.
    Other(String),
}

impl Severity {
    /// Returns the text shown to tenants.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
            Self::Other(word) => word,
        }
    }
}

impl Default for Severity {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl From<String> for Severity {
    fn from(word: String) -> Self {
        match word.as_str() {
            "Normal" => Self::Normal,
            "Warning" => Self::Warning,
            _ => Self::Other(word),
        }
    }
}

impl From<Severity> for String {
    fn from(severity: Severity) -> Self {
        severity.as_str().to_owned()
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An event that the backend reports for a lease, such as a Kubernetes Event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeaseEvent {
    /// Wall-clock time of the event; 0 if unknown.
    pub time: BlockTime,
    /// Service that the event concerns; empty if the event concerns the whole lease.
    pub service: String,
    /// Severity of the event.
    pub severity: Severity,
    /// Short machine-readable reason, for example `BackOff`.
    pub reason: String,
    /// Description of the event.
    pub message: String,
    /// Object of the event.
    pub object: EventObject,
    /// Component that reports the event, for example `kubelet`; empty if unknown.
    pub reporting_controller: String,
    /// Instance of the component; empty if unknown.
    pub reporting_instance: String,
}

/// Object of an event; empty if the backend does not report it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EventObject {
    /// Kind, for example `Pod`.
    pub kind: String,
    /// Namespace of the object; empty if the object has no namespace or the namespace is unknown.
    pub namespace: String,
    /// Name of the object; empty if the backend does not report it.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_severity_preserves_the_term_of_the_backend() {
        for word in ["Normal", "Warning", "Odd", ""] {
            assert_eq!(Severity::from(word.to_owned()).as_str(), word);
        }
        assert_eq!(Severity::from("Warning".to_owned()), Severity::Warning);
        assert_eq!(LeaseEvent::default().severity.as_str(), "");
    }
}
