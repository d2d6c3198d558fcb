//! What the operator says of itself: each name as it is wanted, written and accepted, and what keeps it from that.

use super::certificate::CertificateState;
use super::front::Front;
use super::live::Accepted;
use super::notes::Proof;
use super::shared::{Hostnames, Shared};
use super::sort::Sort;
use crate::operators::Hold;
use crate::operators::board::{Counts, Inner};
use crate::operators::said::{Ignored, LeaseParts, WatchStatus};
use akash_provider_core::cluster::Reachable;
use serde::Serialize;
use std::collections::BTreeMap;

/// Everything that the operator says of itself.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// Everything was listed once, so that names are worked at.
    pub is_ready: bool,
    /// How the watches fare, by what they watch.
    pub watches: BTreeMap<&'static str, WatchStatus>,
    /// The class of Ingresses or the Gateway.
    pub front: Front,
    /// Routes written, routes deleted, failures, since the start.
    pub counts: Counts,
    /// Names whose turn it is.
    pub busy: usize,
    /// Deletions that wait for a confirmation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// Each name that is declared or has a route.
    pub hostnames: BTreeMap<String, HostnameStatus>,
    /// The last of these names, where there are more after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// How a name is.
#[derive(Debug, Clone, Serialize)]
pub struct HostnameStatus {
    /// Lease it is declared for; `None` where its record is gone or makes no sense.
    pub lease: Option<String>,
    /// Namespace of the lease.
    pub namespace: Option<String>,
    /// Service that it is declared for.
    pub service: Option<String>,
    /// External port that it is declared for.
    pub port: Option<u16>,
    /// Its route is there as wanted.
    pub is_written: bool,
    /// What its proxy says.
    pub accepted: Accepted,
    /// What keeps the tenant's options from the proxy; only where they are in a SnippetsFilter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options_problem: Option<String>,
    /// What cert-manager says of its certificate; only with an issuer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateState>,
    /// Namespaces with a route of the other mode, which stays until the one of this mode serves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_routes: Vec<String>,
    /// Whether the address of its routes answers for it; only with `--probe`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reachable: Option<Reachable>,
    /// Whether its owner has proved it; only of names that need a proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
    /// What keeps it from its route.
    pub problem: Option<String>,
    /// What the API server said last against its route.
    pub error: Option<String>,
    /// Failures in a row.
    pub failures: u32,
    /// It is not tried until it changes, is forgotten or is old.
    pub is_ignored: bool,
}

/// A name as today's operator shows it at `/managed-hostnames`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Managed {
    /// Lease that it leads to.
    #[serde(rename = "LeaseID")]
    pub lease: LeaseParts,
    /// Namespace of the lease.
    pub namespace: String,
    /// External port of the service.
    pub external_port: u16,
    /// Service of the lease.
    pub service_name: String,
    /// When it was declared, RFC 3339.
    pub last_update: String,
}

impl Shared {
    /// With the names after `after`, so many at most.
    pub(super) fn status(&self, after: Option<&str>, limit: usize) -> Status {
        let inner = self.board.inner();
        // One more says whether there is another page.
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

    /// With one name; `None` where it is neither declared nor routed.
    pub(super) fn status_of(&self, name: &str) -> Option<Status> {
        let inner = self.board.inner();
        let is_there = inner.index.has(name);
        let one = is_there.then(|| BTreeMap::from([(name.to_owned(), inner.hostname(name))]));
        one.map(|hostnames| self.with(&inner, hostnames, None))
    }

    fn with(
        &self,
        inner: &Inner<Hostnames>,
        hostnames: BTreeMap<String, HostnameStatus>,
        next: Option<String>,
    ) -> Status {
        Status {
            is_ready: inner.index.is_known(),
            watches: self.board.watch_status(inner),
            front: self.front(),
            counts: inner.counts,
            busy: inner.queue.busy(),
            hold: inner.hold(),
            hostnames,
            next,
        }
    }

    pub(super) fn managed(&self) -> BTreeMap<String, Managed> {
        let inner = self.board.inner();
        let mut managed = BTreeMap::new();
        for name in inner.index.names() {
            let Some(Ok(host)) = inner.index.host(&name) else {
                continue;
            };
            if inner.index.route(&name, &host.namespace).is_none() {
                continue;
            }
            let one = Managed {
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

    pub(super) fn ignored(&self) -> BTreeMap<String, Ignored> {
        self.board.inner().ignored(|index, name| {
            let host = index.host(name)?.as_ref().ok()?;
            Some((host.lease.clone(), name.to_owned()))
        })
    }
}

impl Inner<Hostnames> {
    fn hostname(&self, name: &str) -> HostnameStatus {
        let host = self.index.host(name).and_then(|host| host.as_ref().ok());
        let live = host.and_then(|host| self.index.route(name, &host.namespace));
        let place = host
            .filter(|_| live.is_some())
            .map(|host| host.namespace.as_str());
        let certificate = place.and_then(|place| self.index.live(Sort::Certificate, name, place));
        let has_issuer = self.index.plan().wants(Sort::Certificate);
        let failed = self.queue.failure(name);
        let problem = self.problems.get(name).map(|problem| problem.text.clone());
        HostnameStatus {
            lease: host.map(|host| host.lease.to_string()),
            namespace: host.map(|host| host.namespace.clone()),
            service: host.map(|host| host.service.clone()),
            port: host.map(|host| host.port),
            // While a name is worked at, the route that is there may not be the wanted one.
            is_written: live.is_some() && failed.is_none() && problem.is_none() && !self.queue.is_busy(name),
            accepted: live.map_or(Accepted::Unsaid, |live| live.accepted.clone()),
            options_problem: place.and_then(|place| self.index.options_problem(name, place)),
            certificate: has_issuer.then(|| {
                let said = certificate.and_then(|live| live.certificate.clone());
                said.unwrap_or_default()
            }),
            other_routes: self.index.other_routes(name).cloned().collect(),
            reachable: self.index.reachable(name).cloned(),
            proof: host
                .filter(|_| self.index.plan().needs_proof(name))
                .and_then(|host| {
                    let owner = host.lease.order.group.deployment.owner.to_string();
                    host.notes.noted(&owner).cloned()
                }),
            problem,
            error: failed.map(|failed| failed.error.clone()),
            failures: failed.map_or(0, |failed| failed.failures),
            is_ignored: failed.is_some_and(|failed| failed.is_ignored),
        }
    }
}
