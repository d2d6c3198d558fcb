//! What the operator says of itself: each name as it is wanted, written and accepted, and what keeps it from that.

use super::certificate::CertificateState;
use super::front::Front;
use super::live::Accepted;
use super::shared::{Counts, Inner, Kind, Shared};
use super::sort::Sort;
use crate::hostnames::rfc3339;
use akash_provider_core::types::LeaseId;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Bound;
use tokio::time::Instant;

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
    /// Each name that is declared or has a route.
    pub hostnames: BTreeMap<String, HostnameStatus>,
    /// The last of these names, where there are more after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// How a watch fares.
#[derive(Debug, Clone, Serialize)]
pub struct WatchStatus {
    /// Nothing is done before it has listed everything.
    pub is_needed: bool,
    /// Everything was listed once.
    pub synced: bool,
    /// For so many seconds it has not worked.
    pub down_for_seconds: Option<u64>,
    /// What went wrong last, also when it works again.
    pub last_error: Option<String>,
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

/// A lease by its parts.
#[derive(Debug, Clone, Serialize)]
pub struct LeaseParts {
    /// Address of the tenant.
    pub owner: String,
    /// Sequence number of the deployment.
    pub dseq: u64,
    /// Sequence number of the group.
    pub gseq: u32,
    /// Sequence number of the order.
    pub oseq: u32,
    /// Address of the provider.
    pub provider: String,
}

/// A lease as today's operator shows it at `/ignore-list`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Ignored {
    /// Its names that failed.
    pub hostnames: Vec<String>,
    /// The error of the name that failed last.
    pub last_error: String,
    /// Kind of that error, or `Problem` where nothing was tried.
    pub last_error_type: String,
    /// When it failed last, RFC 3339.
    pub failed_at: String,
    /// Failures in a row.
    pub failure_count: u32,
    /// Namespace of the lease.
    pub namespace: String,
}

impl From<&LeaseId> for LeaseParts {
    fn from(lease: &LeaseId) -> Self {
        let group = &lease.order.group;
        Self {
            owner: group.deployment.owner.to_string(),
            dseq: group.deployment.dseq,
            gseq: group.gseq,
            oseq: lease.order.oseq,
            provider: lease.provider.to_string(),
        }
    }
}

impl Shared {
    /// With the names after `after`, so many at most.
    pub(super) fn status(&self, after: Option<&str>, limit: usize) -> Status {
        let inner = self.inner();
        let all = inner.index.names();
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut names = all.range::<str, _>((start, Bound::Unbounded));
        let hostnames: BTreeMap<_, _> = names
            .by_ref()
            .take(limit)
            .map(|name| (name.clone(), inner.hostname(name)))
            .collect();
        let last = hostnames.last_key_value().map(|(name, _)| name.clone());
        let next = names.next().and(last);
        inner.status(hostnames, next)
    }

    /// With one name; `None` where it is neither declared nor routed.
    pub(super) fn status_of(&self, name: &str) -> Option<Status> {
        let inner = self.inner();
        let is_there = inner.index.names().contains(name);
        let one = is_there.then(|| BTreeMap::from([(name.to_owned(), inner.hostname(name))]));
        one.map(|hostnames| inner.status(hostnames, None))
    }

    pub(super) fn managed(&self) -> BTreeMap<String, Managed> {
        let inner = self.inner();
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
        let inner = self.inner();
        let now = Instant::now();
        let mut leases: BTreeMap<String, Ignored> = BTreeMap::new();
        let failures = inner.queue.failures().map(|(name, failed)| {
            let kind = format!("{:?}", failed.kind);
            (name, failed.error.clone(), kind, failed.at, failed.failures)
        });
        let problems = inner
            .problems
            .iter()
            .map(|(name, problem)| (name, problem.text.clone(), "Problem".to_owned(), problem.since, 1));
        for (name, last_error, last_error_type, at, failure_count) in failures.chain(problems) {
            let Some(Ok(host)) = inner.index.host(name) else {
                continue;
            };
            let failed_at = date_of(at, now);
            let entry = leases.entry(host.lease.to_string()).or_insert_with(|| Ignored {
                hostnames: Vec::new(),
                last_error: String::new(),
                last_error_type: String::new(),
                failed_at: String::new(),
                failure_count: 0,
                namespace: host.namespace.clone(),
            });
            entry.hostnames.push(name.clone());
            entry.failure_count = entry.failure_count.max(failure_count);
            // Times of one form and zone compare as texts.
            if failed_at >= entry.failed_at {
                entry.last_error = last_error;
                entry.last_error_type = last_error_type;
                entry.failed_at = failed_at;
            }
        }
        leases
    }
}

impl Inner {
    fn status(&self, hostnames: BTreeMap<String, HostnameStatus>, next: Option<String>) -> Status {
        Status {
            is_ready: self.index.is_known(),
            watches: self.watch_status(),
            front: self.front.clone(),
            counts: self.counts,
            busy: self.queue.busy(),
            hostnames,
            next,
        }
    }

    fn watch_status(&self) -> BTreeMap<&'static str, WatchStatus> {
        let statuses = self.watches.iter().map(|(kind, watch)| {
            let name = match kind {
                Kind::Hosts => "providerhosts",
                Kind::Manifests => "manifests",
                Kind::Objects(Sort::Ingress) => "ingresses",
                Kind::Objects(Sort::HttpRoute) => "httproutes",
                Kind::Objects(Sort::Filter) => "snippetsfilters",
                Kind::Objects(Sort::Certificate) => "certificates",
            };
            let is_needed = match kind {
                Kind::Hosts | Kind::Manifests => true,
                Kind::Objects(sort) => *sort == self.index.mode().sort(),
            };
            let status = WatchStatus {
                is_needed,
                synced: watch.synced,
                down_for_seconds: watch.down_for().map(|down| down.as_secs()),
                last_error: watch.last_error.clone(),
            };
            (name, status)
        });
        statuses.collect()
    }

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
            problem,
            error: failed.map(|failed| failed.error.clone()),
            failures: failed.map_or(0, |failed| failed.failures),
            is_ignored: failed.is_some_and(|failed| failed.is_ignored),
        }
    }
}

fn date_of(at: Instant, now: Instant) -> String {
    // An instant has no date: it is counted back from the time of day.
    let ago = SignedDuration::try_from(now.saturating_duration_since(at)).unwrap_or_default();
    let then = Timestamp::now().checked_sub(ago).unwrap_or_default();
    rfc3339(then)
}
