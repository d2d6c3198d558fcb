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
/// Everything is idempotent and may be called again after any error. A lease of another provider or chain is
/// never touched and never told. Calls for one lease come one at a time; calls for different leases come
/// concurrently. Every call answers: the caller gives up after its limit (`cluster_timeout`) and asks again, and what
/// it asked for may be under way still.
///
/// A [`WorkloadSpec`] carries the epoch of the leader who writes it. What was written in a later epoch stays: `record`
/// and `deploy` of an older one change nothing and are a conflict.
///
/// What is not known is not claimed: no health, no listing without what could not be read, no teardown that is done
/// while something still runs.
///
/// # Errors
/// [`ErrorKind::NotFound`](crate::error::ErrorKind::NotFound) where a lease or service is unknown,
/// [`ErrorKind::Unavailable`](crate::error::ErrorKind::Unavailable) and
/// [`ErrorKind::Timeout`](crate::error::ErrorKind::Timeout) where the backend does not answer (the caller tries
/// again), [`ErrorKind::Conflict`](crate::error::ErrorKind::Conflict) where a later epoch has written,
/// [`ErrorKind::Invalid`](crate::error::ErrorKind::Invalid) where it can never work.
///
/// # Implementing
/// Run `cluster::conformance::suite` (feature `conformance`) on it. `MemoryCluster` is the reference.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
#[auto_impl::auto_impl(Arc, Box)]
pub trait Cluster: fmt::Debug + Send + Sync + 'static {
    /// Creates or updates a workload.
    ///
    /// # Behavior
    /// - returns when accepted, not when healthy
    /// - the same input twice changes nothing: what runs goes on, with its ports, and its health stays as told
    /// - what it refuses for good leaves what runs as it is
    ///
    /// # Errors
    /// `Invalid` for what can never run, `Conflict` where a later epoch has written the lease.
    async fn deploy(&self, deployment: &WorkloadSpec) -> Result<(), Error>;

    /// Remembers a deployment durably without running it yet.
    ///
    /// # Behavior
    /// - durable when it returns: `deployments` lists it after a restart; the tenant is told so then
    /// - recording a newer one replaces the older; what runs goes on as it was deployed
    ///
    /// # Errors
    /// `Invalid` for what a `deploy` would refuse with it: nothing is promised that cannot be kept. `Conflict` where a
    /// later epoch has written the lease.
    async fn record(&self, deployment: &WorkloadSpec) -> Result<(), Error>;

    /// Health as it changes.
    ///
    /// # Behavior
    /// - a snapshot first, and again after each gap; while nothing can be known, [`ClusterChange::Lost`] or an error
    /// - never claims a health it does not know: not of what was only recorded, not of what has not begun to run, and
    ///   none from before an outage
    /// - names leases of this provider only
    /// - goes on: it ends only when the backend itself goes
    fn changes(&self) -> BoxStream<'static, Result<ClusterChange, Error>>;

    /// Removes everything of a lease.
    ///
    /// # Behavior
    /// - a lease that is not there is done
    /// - done means that nothing runs any more and `deployments` no longer lists it; its capacity is given to others
    ///   then
    /// - other leases of the same tenant stay as they are
    /// - one that is under way is done at last when it is asked for again
    async fn teardown_lease(&self, lease: &LeaseId) -> Result<Teardown, Error>;

    /// Everything a restart must know: what each lease runs, as recorded or deployed last, and what is there of
    /// leases whose record cannot be read or is missing.
    ///
    /// # Behavior
    /// - a lease that is not in the answer has neither a record nor anything that runs
    /// - a record that cannot be read, and a workload without one, are told as such and never left out
    /// - each lease once, and leases of this provider only
    ///
    /// # Errors
    /// Where a part of the list cannot be had, or where something unreadable may be any lease's: half a list is
    /// none.
    async fn deployments(&self) -> Result<Listing, Error>;

    /// The manifest group as recorded or deployed last; `None` when the lease is unknown.
    async fn manifest_group(&self, lease: &LeaseId) -> Result<Option<Arc<Group>>, Error>;

    /// Status of all services of a lease, also of one that is only recorded.
    async fn lease_status(&self, lease: &LeaseId) -> Result<LeaseStatus, Error>;

    /// Status of one service.
    async fn service_status(&self, lease: &LeaseId, service: &str) -> Result<ServiceStatus, Error>;

    /// Random ports of a lease by service.
    async fn forwarded_port_status(
        &self,
        lease: &LeaseId,
    ) -> Result<BTreeMap<String, Vec<ForwardedPort>>, Error>;

    /// Log lines. Ends when the lease is torn down; dropping it cancels.
    ///
    /// # Behavior
    /// - what the replicas have written, the oldest line of each first and each under the name of its replica; then
    ///   the end, or with [`LogOptions::follow`] what they write from there on
    /// - with [`LogOptions::tail_lines`] of what is there only the last so many lines of each replica
    /// - a service that the lease does not have is not found, also beside one that it has
    async fn lease_logs(
        &self,
        lease: &LeaseId,
        options: LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, Error>>, Error>;

    /// Events of the backend about a lease. Ends when the lease is torn down; dropping it cancels.
    ///
    /// # Behavior
    /// - a service that the lease does not have is not found, also beside one that it has
    async fn lease_events(
        &self,
        lease: &LeaseId,
        options: EventOptions,
    ) -> Result<BoxStream<'static, Result<LeaseEvent, Error>>, Error>;

    /// Version of the backend, free text.
    async fn version(&self) -> Result<String, Error>;

    /// The hostname facet; `None` when the backend has none, and then orders with services behind hostnames are
    /// declined. Constant over its life.
    fn hostnames(&self) -> Option<Arc<dyn Hostnames>>;

    /// The leased-IP facet; `None` when the backend has none, and then orders that want addresses are declined.
    /// Constant over its life.
    fn leased_ips(&self) -> Option<Arc<dyn LeasedIps>>;

    /// The shell facet; `None` when the backend has none. Constant over its life.
    fn shell(&self) -> Option<Arc<dyn Shell>>;
}

/// Hostnames that lead to services.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
#[auto_impl::auto_impl(Arc, Box)]
pub trait Hostnames: fmt::Debug + Send + Sync + 'static {
    /// Makes a hostname lead to a service of a lease, wherever it led before.
    async fn declare_hostname(&self, lease: &LeaseId, name: &HostnameDeclaration) -> Result<(), Error>;

    /// Takes one back, if this lease holds it; a name it does not hold is Ok and stays.
    async fn purge_declared_hostname(&self, lease: &LeaseId, hostname: &str) -> Result<(), Error>;

    /// Takes all of a lease back; none is Ok.
    async fn purge_declared_hostnames(&self, lease: &LeaseId) -> Result<(), Error>;

    /// All declared hostnames with their holders.
    async fn all_hostnames(&self) -> Result<Vec<DeclaredHostname>, Error>;
}

/// IP addresses of tenants' own.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
#[auto_impl::auto_impl(Arc, Box)]
pub trait LeasedIps: fmt::Debug + Send + Sync + 'static {
    /// Makes an address lead to a service. With `overwrite` the sharing key moves here from another lease of
    /// the same tenant; without it a key held elsewhere is a conflict.
    async fn declare_ip(&self, lease: &LeaseId, ip: &IpDeclaration, overwrite: bool) -> Result<(), Error>;

    /// Takes one back; none is Ok.
    async fn purge_declared_ip(&self, lease: &LeaseId, ip: &IpDeclaration) -> Result<(), Error>;

    /// Takes all of a lease back; none is Ok.
    async fn purge_declared_ips(&self, lease: &LeaseId) -> Result<(), Error>;

    /// What a lease has declared.
    async fn declared_ips(&self, lease: &LeaseId) -> Result<Vec<IpDeclaration>, Error>;

    /// Use of the pool.
    async fn usage(&self) -> Result<LeasedIpUsage, Error>;
}

/// Commands inside a running service.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
#[auto_impl::auto_impl(Arc, Box)]
pub trait Shell: fmt::Debug + Send + Sync + 'static {
    /// Runs a command until it ends; returns its exit code. Dropping the future stops it.
    ///
    /// # Errors
    /// `NotFound` where the lease does not run, or has no such service or replica.
    async fn exec(&self, lease: &LeaseId, request: ExecRequest, io: ExecIo) -> Result<i32, Error>;
}

/// Which command to run, and in which replica.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecRequest {
    /// Name of the service in the manifest.
    pub service: String,
    /// Index of the replica, from 0.
    pub replica: u32,
    /// The program first, then its arguments.
    pub command: Vec<String>,
    /// Whether it gets a terminal; the sizes come through `ExecIo::resize`.
    pub tty: bool,
}

/// Streams of a command.
pub struct ExecIo {
    /// Input; `None` for none.
    pub stdin: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Where its standard output goes.
    pub stdout: Box<dyn AsyncWrite + Send + Unpin>,
    /// Where its standard error goes.
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

/// Which log lines are wanted, and whether to wait for more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogOptions {
    /// Only these services; empty for all.
    pub services: Vec<String>,
    /// Keep going as lines come.
    pub follow: bool,
    /// Of what is there when it is asked for, only the last so many lines of each replica; `None` for all.
    pub tail_lines: Option<u64>,
}

/// One line that a replica wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Name of the replica.
    pub name: String,
    /// The line without its end.
    pub message: String,
}

/// Which events are wanted, and whether to wait for more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventOptions {
    /// Only these services; empty for all.
    pub services: Vec<String>,
    /// Keep going as events come.
    pub follow: bool,
}

/// How much an event matters. Serialized as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum Severity {
    /// It goes as it should.
    Normal,
    /// It wants a look.
    Warning,
    /// A word of the backend's own; empty where it says none.
    Other(String),
}

impl Severity {
    /// The word tenants are shown.
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

/// An event of the backend about a lease.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeaseEvent {
    /// When, wall clock; 0 where unknown.
    pub time: BlockTime,
    /// Service it is about; empty for the lease.
    pub service: String,
    /// How much it matters.
    pub severity: Severity,
    /// Short word that a program can compare, for example `BackOff`.
    pub reason: String,
    /// What happened, in words for people.
    pub message: String,
    /// What it is about.
    pub object: EventObject,
    /// Component that says it, for example `kubelet`; empty where unknown.
    pub reporting_controller: String,
    /// Instance of that component; empty where unknown.
    pub reporting_instance: String,
}

/// What an event is about; empty where the backend does not say.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EventObject {
    /// Kind, for example `Pod`.
    pub kind: String,
    /// Namespace of the object; empty where the backend has none or does not say.
    pub namespace: String,
    /// Name of the object; empty where the backend does not say.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_severity_keeps_the_word_of_the_backend() {
        for word in ["Normal", "Warning", "Odd", ""] {
            assert_eq!(Severity::from(word.to_owned()).as_str(), word);
        }
        assert_eq!(Severity::from("Warning".to_owned()), Severity::Warning);
        assert_eq!(LeaseEvent::default().severity.as_str(), "");
    }
}
