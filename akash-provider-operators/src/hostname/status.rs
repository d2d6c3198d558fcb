//! Status of the hostname operator: desired, written and accepted state of each hostname, and its problems.

use super::certificate::CertificateState;
use super::live::Acceptance;
use super::object_kind::ObjectKind;
use super::shared::RouteParent;
use super::shared::{HostnameOperatorState, Hostnames};
use crate::Hold;
use crate::operator_state::{OperationCounts, OperatorShared};
use crate::report::{IgnoredLease, LeaseParts, WatchStatus};
use akash_provider_core::cluster::Reachability;
use akash_provider_kube_model::crd::notes::Proof;
use serde::Serialize;
use std::collections::BTreeMap;

/// Status of the hostname operator.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct HostnameOperatorStatus {
    /// Every required kind was listed.
    pub is_ready: bool,
    /// States of the watches, by watched kind.
    pub watches: BTreeMap<&'static str, WatchStatus>,
    /// State of the IngressClass (Ingress mode) or the Gateway (Gateway API mode).
    pub front: RouteParent,
    /// Numbers of writes, deletions and failures since the start.
    pub counts: OperationCounts,
    /// Number of hostnames with queued or running work.
    pub busy: usize,
    /// Deletions that wait for the confirmation of an administrator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// Hostnames that have a ProviderHost record or an object.
    pub hostnames: BTreeMap<String, HostnameStatus>,
    /// Last hostname of this page, if another page follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Status of a hostname.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct HostnameStatus {
    /// Lease that declares the hostname; `None` for a missing or invalid record.
    pub lease: Option<String>,
    /// Namespace of the lease.
    pub namespace: Option<String>,
    /// Service of the lease.
    pub service: Option<String>,
    /// External port of the service.
    pub port: Option<u16>,
    /// The route is in its desired state.
    pub is_written: bool,
    /// Acceptance by the proxy.
    pub accepted: Acceptance,
    /// Reason why the proxy does not apply the SnippetsFilter with the tenant's options; `None` without such
    /// a problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options_problem: Option<String>,
    /// Status of the certificate; `None` if no issuer is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateState>,
    /// Namespaces with a route of the other mode. The operator deletes such a route when the configured route
    /// serves requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_routes: Vec<String>,
    /// Result of the last probe; only with `--probe`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reachable: Option<Reachability>,
    /// Proof of ownership; only for hostnames that require a proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
    /// Reason why the objects of the hostname do not match the ProviderHost record.
    pub problem: Option<String>,
    /// Error of the API server in the last failed write of the route.
    pub error: Option<String>,
    /// Number of consecutive failed writes of the route.
    pub failures: u32,
    /// True if the hostname is on the ignore list, so that the operator does not write the route.
    pub is_ignored: bool,
}

/// Entry of the response to `/managed-hostnames`, in the format of the Go operator.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "PascalCase")]
#[non_exhaustive]
pub struct ManagedHostname {
    /// Lease of the hostname.
    #[serde(rename = "LeaseID")]
    pub lease: LeaseParts,
    /// Namespace of the lease.
    pub namespace: String,
    /// External port of the expose to which the hostname routes.
    pub external_port: u16,
    /// Name of the service in the manifest of the lease.
    pub service_name: String,
    /// Time at which the hostname was last declared, RFC 3339.
    pub last_update: String,
}

impl HostnameOperatorState {
    pub(super) fn status(&self, after: Option<&str>, limit: usize) -> HostnameOperatorStatus {
        let inner = self.state.inner();
        // One more hostname shows that another page follows.
        let names = inner.index.names_after(after, limit.saturating_add(1));
        let hostnames: BTreeMap<_, _> = names
            .iter()
            .take(limit)
            .map(|name| ((*name).clone(), inner.hostname(name)))
            .collect();
        let last = hostnames.last_key_value().map(|(name, _)| name.clone());
        let next = last.filter(|_| names.len() > limit);
        self.with(&inner, hostnames, next)
    }

    pub(super) fn status_of(&self, name: &str) -> Option<HostnameOperatorStatus> {
        let inner = self.state.inner();
        let is_there = inner.index.has(name);
        let one = is_there.then(|| BTreeMap::from([(name.to_owned(), inner.hostname(name))]));
        one.map(|hostnames| self.with(&inner, hostnames, None))
    }

    fn with(
        &self,
        inner: &OperatorShared<Hostnames>,
        hostnames: BTreeMap<String, HostnameStatus>,
        next: Option<String>,
    ) -> HostnameOperatorStatus {
        HostnameOperatorStatus {
            is_ready: inner.index.is_known(),
            watches: self.state.watch_status(inner),
            front: self.route_parent(),
            counts: inner.counts,
            busy: inner.queue.busy(),
            hold: inner.hold(),
            hostnames,
            next,
        }
    }

    pub(super) fn managed(&self) -> BTreeMap<String, ManagedHostname> {
        let inner = self.state.inner();
        let mut managed = BTreeMap::new();
        for name in inner.index.names() {
            let Some(Ok(host)) = inner.index.host(&name) else {
                continue;
            };
            if inner.index.route(&name, &host.namespace).is_none() {
                continue;
            }
            let one = ManagedHostname {
                lease: LeaseParts::from(&host.lease),
                namespace: host.namespace.clone(),
                external_port: host.port,
                service_name: host.service.clone(),
                last_update: host.updated_at.clone(),
            };
            managed.insert(name, one);
        }
        managed
    }

    pub(super) fn ignored(&self) -> BTreeMap<String, IgnoredLease> {
        self.state.inner().ignored(|index, name| {
            let host = index.host(name)?.as_ref().ok()?;
            Some((host.lease.clone(), name.to_owned()))
        })
    }
}

impl OperatorShared<Hostnames> {
    fn hostname(&self, name: &str) -> HostnameStatus {
        let host = self.index.host(name).and_then(|host| host.as_ref().ok());
        let live = host.and_then(|host| self.index.route(name, &host.namespace));
        let place = host
            .filter(|_| live.is_some())
            .map(|host| host.namespace.as_str());
        let certificate = place.and_then(|place| self.index.live(ObjectKind::Certificate, name, place));
        let has_issuer = self.index.plan().wants(ObjectKind::Certificate);
        let failed = self.queue.failure(name);
        let problem = self.problems.get(name).map(|problem| problem.text.clone());
        HostnameStatus {
            lease: host.map(|host| host.lease.to_string()),
            namespace: host.map(|host| host.namespace.clone()),
            service: host.map(|host| host.service.clone()),
            port: host.map(|host| host.port),
            // While a hostname is busy, its route may be outdated.
            is_written: live.is_some() && failed.is_none() && problem.is_none() && !self.queue.is_busy(name),
            accepted: live.map_or(Acceptance::Unknown, |live| live.accepted.clone()),
            options_problem: place.and_then(|place| self.index.options_problem(name, place)),
            certificate: has_issuer.then(|| {
                let status = certificate.and_then(|live| live.certificate.clone());
                status.unwrap_or_default()
            }),
            other_routes: self.index.other_routes(name).cloned().collect(),
            reachable: self.index.reachable(name).cloned(),
            proof: host
                .filter(|_| self.index.plan().needs_proof(name))
                .and_then(|host| {
                    let owner = host.lease.owner().to_string();
                    host.notes.noted(&owner).cloned()
                }),
            problem,
            error: failed.map(|failed| failed.error.clone()),
            failures: failed.map_or(0, |failed| failed.failures),
            is_ignored: failed.is_some_and(|failed| failed.is_ignored),
        }
    }
}
