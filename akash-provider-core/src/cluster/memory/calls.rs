//! Counters of calls and injected faults.

use super::MemoryCluster;
use crate::error::{Error, ErrorKind};
use crate::feed::lock;
use crate::types::LeaseId;
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of leases for which calls are counted.
pub(super) const COUNTED_MAX: usize = 1024;

/// Kind of a call to the cluster port or to one of its facets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// The call `deploy`.
    Deploy,
    /// The call `record`.
    Record,
    /// The call `teardown_lease`.
    Teardown,
    /// The calls `deployments` and `manifest_group`.
    Deployments,
    /// The calls `lease_status`, `service_status` and `forwarded_port_status`.
    Status,
    /// The calls `lease_logs` and `lease_events`.
    Logs,
    /// The call `version`.
    Version,
    /// The call `declare_hostname`.
    DeclareHostname,
    /// The calls `purge_declared_hostname` and `purge_declared_hostnames`.
    PurgeHostname,
    /// The call `all_hostnames`.
    AllHostnames,
    /// The call `declare_ip`.
    DeclareIp,
    /// The calls `purge_declared_ip` and `purge_declared_ips`.
    PurgeIp,
    /// The calls `declared_ips` and `usage`.
    Ips,
    /// The call `exec`.
    Exec,
}

impl Operation {
    /// Returns the name of the operation in error messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deploy => "deploy",
            Self::Record => "record",
            Self::Teardown => "teardown",
            Self::Deployments => "deployments",
            Self::Status => "status",
            Self::Logs => "logs",
            Self::Version => "version",
            Self::DeclareHostname => "declare hostname",
            Self::PurgeHostname => "purge hostname",
            Self::AllHostnames => "all hostnames",
            Self::DeclareIp => "declare ip",
            Self::PurgeIp => "purge ip",
            Self::Ips => "ips",
            Self::Exec => "exec",
        }
    }

    /// Returns true if the operation changes a lease. Two such calls for one lease must not overlap.
    const fn is_exclusive(self) -> bool {
        match self {
            Self::Deploy
            | Self::Record
            | Self::Teardown
            | Self::DeclareHostname
            | Self::PurgeHostname
            | Self::DeclareIp
            | Self::PurgeIp => true,
            Self::Deployments
            | Self::Status
            | Self::Logs
            | Self::Version
            | Self::AllHostnames
            | Self::Ips
            | Self::Exec => false,
        }
    }
}

/// Number of calls for one lease.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeaseCallCounts {
    /// Started calls by operation, including failed calls.
    pub begun: BTreeMap<Operation, u64>,
    /// Number of calls that started while another call changed the same lease. The value is 0 if the caller
    /// follows the contract.
    pub overlaps: u64,
    under_way: u32,
}

impl LeaseCallCounts {
    /// Returns the number of calls of one operation.
    #[must_use]
    pub fn of(&self, operation: Operation) -> u64 {
        self.begun.get(&operation).copied().unwrap_or(0)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum InjectedFault {
    Fail(u32, ErrorKind),
    LoseAnswer(u32),
    Hang,
}

#[derive(Debug, Default)]
pub(super) struct Script {
    faults: BTreeMap<Operation, InjectedFault>,
    calls: BTreeMap<LeaseId, LeaseCallCounts>,
    /// Leases with counted calls, in the order of the first call of each lease.
    counted: VecDeque<LeaseId>,
}

impl Script {
    pub(super) fn set(&mut self, operation: Operation, fault: InjectedFault) {
        self.faults.insert(operation, fault);
    }

    pub(super) fn clear(&mut self, operation: Operation) {
        self.faults.remove(&operation);
    }

    pub(super) fn calls(&self, lease: &LeaseId) -> LeaseCallCounts {
        self.calls.get(lease).cloned().unwrap_or_default()
    }

    pub(super) fn all_calls(&self) -> BTreeMap<LeaseId, LeaseCallCounts> {
        self.calls.clone()
    }

    fn begin(&mut self, operation: Operation, lease: &LeaseId) {
        if !self.calls.contains_key(lease) {
            self.make_room();
            self.counted.push_back(lease.clone());
        }
        let calls = self.calls.entry(lease.clone()).or_default();
        *calls.begun.entry(operation).or_default() += 1;
        if operation.is_exclusive() {
            calls.overlaps += u64::from(calls.under_way > 0);
            calls.under_way += 1;
        }
    }

    /// Removes the counters of the oldest leases. Skips leases with a call in progress.
    fn make_room(&mut self) {
        while self.counted.len() >= COUNTED_MAX {
            let is_over = |lease: &LeaseId| self.calls.get(lease).is_none_or(|calls| calls.under_way == 0);
            let Some(at) = self.counted.iter().position(is_over) else {
                return;
            };
            if let Some(lease) = self.counted.remove(at) {
                self.calls.remove(&lease);
            }
        }
    }

    fn hangs(&self, operation: Operation) -> bool {
        matches!(self.faults.get(&operation), Some(InjectedFault::Hang))
    }

    fn failure(&mut self, operation: Operation) -> Option<ErrorKind> {
        match self.faults.get_mut(&operation) {
            Some(InjectedFault::Fail(left, kind)) if *left > 0 => {
                *left -= 1;
                Some(*kind)
            }
            Some(InjectedFault::Fail(..) | InjectedFault::LoseAnswer(_) | InjectedFault::Hang) | None => None,
        }
    }

    fn loses_response(&mut self, operation: Operation) -> bool {
        match self.faults.get_mut(&operation) {
            Some(InjectedFault::LoseAnswer(left)) if *left > 0 => {
                *left -= 1;
                true
            }
            Some(InjectedFault::Fail(..) | InjectedFault::LoseAnswer(_) | InjectedFault::Hang) | None => {
                false
            }
        }
    }
}

/// Call in progress. Dropping the value ends the call.
pub(super) struct ActiveCall<'a> {
    cluster: &'a MemoryCluster,
    operation: Operation,
    lease: Option<&'a LeaseId>,
}

impl Drop for ActiveCall<'_> {
    fn drop(&mut self) {
        let Some(lease) = self.lease.filter(|_| self.operation.is_exclusive()) else {
            return;
        };
        if let Some(calls) = lock(&self.cluster.state).script.calls.get_mut(lease) {
            calls.under_way = calls.under_way.saturating_sub(1);
        }
    }
}

impl ActiveCall<'_> {
    /// Returns the result of the call, or a timeout if a test injected a lost response.
    pub(super) fn answer<T>(self, value: T) -> Result<T, Error> {
        if lock(&self.cluster.state).script.loses_response(self.operation) {
            return Err(Error::new(
                ErrorKind::Timeout,
                self.operation.name(),
                "the response was lost",
            ));
        }
        Ok(value)
    }
}

impl MemoryCluster {
    /// Counts a call and yields to other tasks. The call hangs or fails if a test injected such a fault.
    pub(super) async fn begin<'a>(
        &'a self,
        operation: Operation,
        lease: Option<&'a LeaseId>,
    ) -> Result<ActiveCall<'a>, Error> {
        if let Some(lease) = lease {
            lock(&self.state).script.begin(operation, lease);
        }
        // The call is in progress until it is dropped, also when the caller cancels it.
        let call = ActiveCall {
            cluster: self,
            operation,
            lease,
        };
        // Yields even if no call hangs, so that calls overlap as on a real backend.
        tokio::task::yield_now().await;
        loop {
            // Created before the check, so that a release between the two is not missed.
            let released = self.released.notified();
            if !lock(&self.state).script.hangs(operation) {
                break;
            }
            released.await;
        }
        match lock(&self.state).script.failure(operation) {
            None => Ok(call),
            Some(kind) => Err(Error::new(kind, operation.name(), "injected failure")),
        }
    }
}
