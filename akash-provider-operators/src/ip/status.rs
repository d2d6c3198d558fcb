//! Status of the IP operator: declared, written and assigned state of each leased address, its problems, and the
//! formats of the Go operator.

use super::index::IpIndex;
use super::live::LiveService;
use super::shared::MetricsStatus;
use super::shared::{IpOperatorState, SERVICES};
use super::usage;
use crate::Hold;
use crate::operator_state::{OperationCounts, OperatorIndex, OperatorShared};
use crate::report::{IgnoredLease, LeaseParts, WatchStatus};
use akash_provider_core::manifest::Proto;
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::time::rfc3339;
use akash_provider_kube_kernel::watch::WatchState;
use akash_provider_kube_model::leased_ips::AddressUsage;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Maximum duration of a watch outage. After this time, the cached Services are too old for the status.
const STALE: Duration = Duration::from_secs(60);

/// Status of the IP operator.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct IpOperatorStatus {
    /// Records, Manifests and Services were listed once.
    pub is_ready: bool,
    /// States of the watches, by watched kind.
    pub watches: BTreeMap<&'static str, WatchStatus>,
    /// Total number of addresses for leases, and the number in use.
    pub usage: AddressUsage,
    /// Numbers of addresses, read from the metrics of MetalLB.
    pub metallb: MetricsStatus,
    /// Numbers of writes, deletions and failures since the start.
    pub counts: OperationCounts,
    /// Number of Services with queued or running work.
    pub busy: usize,
    /// Deletions that wait for the confirmation of an administrator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// Status of declared and existing Services of this provider, by `NAMESPACE/NAME`. For an invalid record,
    /// the key is the record name.
    pub addresses: BTreeMap<String, AddressStatus>,
}

/// Status of one port of a leased address.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct AddressStatus {
    /// Lease that declares the port; `None` without a record or with several records.
    pub lease: Option<String>,
    /// Name of the service in the manifest of the lease.
    pub service: Option<String>,
    /// Container port.
    pub port: Option<u16>,
    /// Port of the leased address, to which clients connect.
    pub external_port: Option<u16>,
    /// `TCP` or `UDP`.
    pub protocol: Option<&'static str>,
    /// Sharing key. Two `expose` entries with the same key share an address.
    pub sharing_key: Option<String>,
    /// The Service is in its desired state.
    pub is_written: bool,
    /// Addresses that MetalLB assigned.
    pub addresses: Vec<IpAddr>,
    /// Time at which the wait for an address started, RFC 3339.
    pub waiting_since: Option<String>,
    /// Notices about the assigned addresses, or about a missing address.
    pub notices: Vec<String>,
    /// Reason why the Service does not match the ProviderLeasedIP record.
    pub problem: Option<String>,
    /// Last error that the API server returned when the operator wrote the Service.
    pub error: Option<String>,
    /// Number of consecutive failed writes of the Service.
    pub failures: u32,
    /// True if the Service is on the ignore list, so that the operator does not write it.
    pub is_ignored: bool,
}

/// Port of a leased address, as `/state` returns it. The format is that of the Go operator.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct PortState {
    /// Time of the last observed change, in the text format of Go: `2026-01-31 12:00:00 +0000 UTC`.
    pub last_event_time: String,
    /// Lease of the port.
    pub lease_id: LeaseParts,
    /// Namespace of the lease.
    pub namespace: String,
    /// Container port.
    pub port: u16,
    /// Port of the leased address, to which clients connect.
    pub external_port: u16,
    /// Name of the service in the manifest of the lease.
    pub service_name: String,
    /// Sharing key. Two `expose` entries with the same key share an address.
    pub sharing_key: String,
}

/// Port of a leased address, as `/ip-lease-status` returns it. The format is that of the Go operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
#[non_exhaustive]
pub struct AssignedPort {
    /// Container port.
    pub port: u16,
    /// Port of the leased address, to which clients connect.
    pub external_port: u16,
    /// Name of the service in the manifest of the lease.
    pub service_name: String,
    /// Assigned address.
    #[serde(rename = "IP")]
    pub ip: String,
    /// `TCP` or `UDP`.
    pub protocol: &'static str,
}

impl IpOperatorState {
    pub(super) fn status(&self) -> IpOperatorStatus {
        let inner = self.state.inner();
        let mut notices = usage::notices(&inner.index, Timestamp::now());
        let names = inner.index.names().into_iter();
        IpOperatorStatus {
            is_ready: inner.index.is_known(),
            watches: self.state.watch_status(&inner),
            usage: usage::usage(&inner.index),
            metallb: self.metrics(),
            counts: inner.counts,
            busy: inner.queue.busy(),
            hold: inner.hold(),
            addresses: names
                .map(|name| {
                    let notices = notices.remove(&name).unwrap_or_default();
                    let notices = notices.iter().map(ToString::to_string).collect();
                    let status = inner.address(&name, notices);
                    (name, status)
                })
                .collect(),
        }
    }

    pub(super) fn usage(&self) -> AddressUsage {
        usage::usage(&self.state.inner().index)
    }

    pub(super) fn port_states(&self) -> BTreeMap<String, Vec<PortState>> {
        let inner = self.state.inner();
        let mut ports: BTreeMap<String, Vec<PortState>> = BTreeMap::new();
        for (place, live) in inner.index.services() {
            let Some(leased) = inner.index.leased(place).filter(|_| live.is_leased) else {
                continue;
            };
            let (lease, ip) = (&leased.lease, &leased.ip);
            let one = PortState {
                last_event_time: live.changed.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string(),
                lease_id: LeaseParts::from(lease),
                namespace: lease.namespace(),
                port: ip.port,
                external_port: ip.external_port,
                service_name: ip.service.clone(),
                sharing_key: ip.sharing_key.clone(),
            };
            ports.entry(lease.to_string()).or_default().push(one);
        }
        ports
    }

    pub(super) fn ignored(&self) -> BTreeMap<String, IgnoredLease> {
        self.state.inner().ignored(|index, place| {
            let leased = index.leased(place)?;
            Some((leased.lease.clone(), leased.ip.sharing_key.clone()))
        })
    }

    /// Returns the assigned addresses of a lease.
    ///
    /// # Errors
    /// Returns an error with the text of the Go operator in three cases: a Service of the lease has no
    /// address, a Service of the lease is invalid, or the watch of Services is down.
    pub(super) fn assigned(&self, lease: &LeaseId) -> Result<Vec<AssignedPort>, String> {
        let inner = self.state.inner();
        // Later assignments would be missing.
        let down = inner.watches.get(SERVICES).and_then(WatchState::down_for);
        if let Some(down) = down.filter(|down| *down >= STALE) {
            return Err(format!(
                "the cluster's Services have not been watched for {} seconds",
                down.as_secs()
            ));
        }
        let home = format!("{}/", lease.namespace());
        let services = inner.index.services();
        let of_lease = services.filter(|(place, live)| live.is_leased && place.starts_with(&home));
        of_lease.map(|(place, live)| assigned(place, live)).collect()
    }
}

fn assigned(place: &str, live: &LiveService) -> Result<AssignedPort, String> {
    let name = place.split_once('/').map_or(place, |(_, name)| name);
    let invalid = |what: String| format!("metal lb error lease service error: service {name:?} {what}");
    let ([address], 1) = (live.given.addresses.as_slice(), live.given.entries) else {
        let count = live.given.entries;
        return Err(invalid(format!("has {count} load balancers and is invalid")));
    };
    let ip = live
        .ip
        .as_ref()
        .map_err(|why| invalid(format!("is invalid: {why}")))?;
    Ok(AssignedPort {
        port: ip.port,
        external_port: ip.external_port,
        service_name: ip.service.clone(),
        ip: address.to_string(),
        protocol: protocol(ip.proto),
    })
}

const fn protocol(proto: Proto) -> &'static str {
    match proto {
        Proto::Tcp => "TCP",
        Proto::Udp => "UDP",
    }
}

impl OperatorShared<IpIndex> {
    fn address(&self, name: &str, notices: Vec<String>) -> AddressStatus {
        let leased = self.index.leased(name);
        let ip = leased.map(|leased| &leased.ip);
        let live = self.index.live(name).filter(|live| live.is_leased);
        let failed = self.queue.failure(name);
        let problem = self.problems.get(name).map(|problem| problem.text.clone());
        // While a Service is busy, the existing object may be outdated.
        let is_settled = failed.is_none() && problem.is_none() && !self.queue.is_busy(name);
        AddressStatus {
            lease: leased.map(|leased| leased.lease.to_string()),
            service: ip.map(|ip| ip.service.clone()),
            port: ip.map(|ip| ip.port),
            external_port: ip.map(|ip| ip.external_port),
            protocol: ip.map(|ip| protocol(ip.proto)),
            sharing_key: ip.map(|ip| ip.sharing_key.clone()),
            is_written: leased.is_some() && live.is_some() && is_settled,
            addresses: live.map(|live| live.given.addresses.clone()).unwrap_or_default(),
            waiting_since: live.and_then(usage::waiting).map(rfc3339),
            notices,
            problem,
            error: failed.map(|failed| failed.error.clone()),
            failures: failed.map_or(0, |failed| failed.failures),
            is_ignored: failed.is_some_and(|failed| failed.is_ignored),
        }
    }
}
