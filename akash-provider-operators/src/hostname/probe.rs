//! Probes whether the proxy of a route responds for its hostname, and reports the result. A probe changes no object.
//!
//! The address comes from the status of the Ingress or the Gateway, and may be private. Only controllers of
//! the cluster write this status. DNS is not used, because a tenant controls it. A tenant controls only the
//! hostname and the response. The hostname is validated. Only the status and a few bytes of the response are
//! read.

use super::live::Acceptance;
use super::note_writer;
use super::object_kind::ObjectKind;
use super::proxy_address::ProxyAddress;
use super::schedule::{self, CheckRate};
use super::shared::HostnameOperatorState;
use akash_provider_core::cluster::{ReachState, Reachability};
use akash_provider_kube_kernel::labels;
use akash_provider_kube_kernel::time::timestamp;
use akash_provider_kube_model::problem::cut;
use async_trait::async_trait;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Maximum duration of one request, even if the prober permits longer requests.
const LIMIT: Duration = Duration::from_secs(10);
/// Hostname without a route. The response shows how the proxy reports a missing route.
const NOBODY: &str = "akash-probe.invalid";
/// Label that replaces the `*` of a wildcard.
const LABEL: &str = "akash-probe";

/// Request to a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeRequest {
    /// Hostname in the `Host` header and in the TLS server name.
    pub hostname: String,
    /// Address of the proxy, to which the prober connects without a DNS query.
    pub address: SocketAddr,
    /// True for HTTPS; the certificate must be trusted and valid for the hostname.
    pub is_tls: bool,
}

/// Response of a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeResponse {
    /// HTTP status code.
    pub status: u16,
    /// Start of the body. The prober decides how many bytes to read.
    pub body: Vec<u8>,
}

/// HTTP client for probes.
#[async_trait]
pub trait Prober: Debug + Send + Sync {
    /// Sends one request for `/`. Follows no redirects, and limits the time and the size of the response.
    ///
    /// # Errors
    /// Returns a short reason if there is no response.
    async fn ask(&self, question: &ProbeRequest) -> Result<ProbeResponse, String>;
}

/// Configuration of the probes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Probe {
    /// HTTP client.
    pub prober: Arc<dyn Prober>,
    /// Rate of the probes.
    pub budget: CheckRate,
}

impl Probe {
    /// Creates a configuration with this HTTP client and this rate of probes.
    #[must_use]
    pub fn new(prober: Arc<dyn Prober>, budget: CheckRate) -> Self {
        Self { prober, budget }
    }
}

/// Probes hostnames until `until` is cancelled.
pub(super) async fn run(
    probe: Probe,
    shared: Arc<HostnameOperatorState>,
    notes: note_writer::NoteWriter,
    until: CancellationToken,
) {
    let wanted = {
        let shared = Arc::clone(&shared);
        move || accepted(&shared)
    };
    let every = probe.budget.every;
    let ask = |name: String| {
        let (probe, shared, notes) = (probe.clone(), Arc::clone(&shared), notes.clone());
        async move {
            let is_well = look(&probe, &shared, &notes, &name).await;
            // A failed hostname may be fixed soon, and is probed more often.
            if is_well { every } else { every / 5 }
        }
    };
    let changes = shared.state.changes();
    schedule::run(probe.budget.per_minute, changes, wanted, ask, until).await;
}

/// Returns the hostnames with an accepted route.
fn accepted(shared: &HostnameOperatorState) -> BTreeSet<String> {
    let inner = shared.state.inner();
    let index = &inner.index;
    let is_accepted = |name: &String| {
        let host = index.host(name).and_then(|host| host.as_ref().ok());
        let route = host.and_then(|host| index.route(name, &host.namespace));
        route.is_some_and(|route| route.accepted == Acceptance::Yes && !route.is_going)
    };
    index.names().into_iter().filter(is_accepted).collect()
}

/// Probes one hostname and reports the result; returns true if the hostname responds.
async fn look(
    probe: &Probe,
    shared: &HostnameOperatorState,
    notes: &note_writer::NoteWriter,
    name: &str,
) -> bool {
    let Some((entrance, has_certificate)) = whereabouts(shared, name) else {
        return false;
    };
    let (state, why) = match entrance {
        Some(entrance) => question(probe.prober.as_ref(), name, entrance, has_certificate).await,
        None => (
            ReachState::Unknown,
            "the status of the Ingress or the Gateway has no address".to_owned(),
        ),
    };
    let now = Reachability {
        state,
        why: cut(why),
        at: timestamp(),
    };
    let Some((host, before)) = shared.reached(name, now.clone()) else {
        return false;
    };
    let is_noted = before.is_some_and(|before| (before.state, &before.why) == (now.state, &now.why));
    if !is_noted {
        if now.state == ReachState::No {
            tracing::warn!(
                hostname = name,
                why = now.why,
                "hostname does not respond to the probe; check the service and the route of the hostname"
            );
        }
        notes.write(name, &host, labels::HOSTNAME_REACHABLE, &now).await;
    }
    state == ReachState::Yes
}

/// Returns the proxy address of a hostname, and whether its route references a certificate; `None` without a
/// route.
fn whereabouts(shared: &HostnameOperatorState, name: &str) -> Option<(Option<ProxyAddress>, bool)> {
    let from_gateway = shared.route_parent().entrance;
    let inner = shared.state.inner();
    let index = &inner.index;
    let host = index.host(name)?.as_ref().ok()?;
    let route = index.route(name, &host.namespace)?;
    let entrance = match index.mode().sort() {
        ObjectKind::Ingress => route.entrance,
        _ => from_gateway,
    };
    Some((entrance, route.refers_to(ObjectKind::Certificate, name)))
}

/// Probes HTTP, and HTTPS if the hostname has a certificate.
async fn question(
    prober: &dyn Prober,
    name: &str,
    at: ProxyAddress,
    has_certificate: bool,
) -> (ReachState, String) {
    let hostname = name
        .strip_prefix('*')
        .map_or_else(|| name.to_owned(), |rest| format!("{LABEL}{rest}"));
    let ports = [(at.http, false), (at.https.filter(|_| has_certificate), true)];
    let mut answers = Vec::new();
    for (port, is_tls) in ports {
        let Some(port) = port else { continue };
        let question = ProbeRequest {
            hostname: hostname.clone(),
            address: SocketAddr::new(at.ip, port),
            is_tls,
        };
        let by = if is_tls { "HTTPS" } else { "HTTP" };
        match probe(prober, &question).await {
            Ok(status) => answers.push(format!("{by} {status}")),
            Err(why) => return (ReachState::No, format!("{by} at {}: {why}", question.address)),
        }
    }
    if answers.is_empty() {
        return (
            ReachState::Unknown,
            format!("the HTTP port of {} is unknown", at.ip),
        );
    }
    (
        ReachState::Yes,
        format!("{} responds {}", at.ip, answers.join(" and ")),
    )
}

/// Returns the status code of the tenant's service, or why the service did not respond.
async fn probe(prober: &dyn Prober, question: &ProbeRequest) -> Result<u16, String> {
    let response = limited(prober, question).await?;
    match response.status {
        // Status codes of the proxy itself.
        502..=504 => Err(format!(
            "the response is {}: no pod of the service responds",
            response.status
        )),
        404 => {
            let nobody = ProbeRequest {
                hostname: NOBODY.to_owned(),
                is_tls: false,
                ..question.clone()
            };
            // There is no certificate for the hostname without a route.
            if !question.is_tls
                && limited(prober, &nobody)
                    .await
                    .is_ok_and(|other| other == response)
            {
                return Err("the response is 404, as for a hostname without a route".to_owned());
            }
            Ok(404)
        }
        status => Ok(status),
    }
}

async fn limited(prober: &dyn Prober, question: &ProbeRequest) -> Result<ProbeResponse, String> {
    let asking = timeout(LIMIT, prober.ask(question));
    asking
        .await
        .unwrap_or_else(|_| Err("no response in time".to_owned()))
}

#[cfg(test)]
mod tests;
