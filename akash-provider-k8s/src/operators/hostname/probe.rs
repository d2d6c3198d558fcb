//! Asks the address of a route whether it answers for its hostname, and tells. Nothing is ever changed for it.
//!
//! The address is the one that the cluster's controllers wrote into the status of the Ingress or the Gateway, private or
//! not: a tenant can write neither, and DNS, which a tenant can, is not asked. What a tenant chooses is the hostname,
//! which is checked, and what is answered, of which a status and a few bytes are read.

use super::entrance::Entrance;
use super::live::Accepted;
use super::note;
use super::rounds::{self, Budget};
use super::shared::Shared;
use super::sort::Sort;
use crate::hostnames::timestamp;
use crate::labels;
use crate::operators::said::cut;
use akash_provider_core::cluster::{Reach, Reachable};
use async_trait::async_trait;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Longest wait for one answer, whatever a prober does itself.
const LIMIT: Duration = Duration::from_secs(10);
/// A name that nobody has: what a proxy answers for it is what it answers without a route.
const NOBODY: &str = "akash-probe.invalid";
/// What stands for the `*` of a wildcard.
const LABEL: &str = "akash-probe";

/// What an address is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The name that is asked for, in `Host`, and for TLS in its greeting.
    pub hostname: String,
    /// The address, which is taken as it is.
    pub address: SocketAddr,
    /// True for HTTPS; the certificate has to be one for the name that is trusted.
    pub is_tls: bool,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Status of HTTP.
    pub status: u16,
    /// The beginning of the body, of a length that the prober chooses.
    pub body: Vec<u8>,
}

/// Who asks.
#[async_trait]
pub trait Prober: Debug + Send + Sync {
    /// Asks for `/` once. It follows no redirect, and limits time and bytes.
    ///
    /// # Errors
    /// Why there is no answer, in a few words.
    async fn ask(&self, question: &Question) -> Result<Said, String>;
}

/// How it is asked.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Who asks.
    pub prober: Arc<dyn Prober>,
    /// How often.
    pub budget: Budget,
}

/// Asks for ever, name after name.
pub(super) async fn run(probe: Probe, shared: Arc<Shared>, notes: note::Notebook, until: CancellationToken) {
    let wanted = {
        let shared = Arc::clone(&shared);
        move || accepted(&shared)
    };
    let every = probe.budget.every;
    let ask = |name: String| {
        let (probe, shared, notes) = (probe.clone(), Arc::clone(&shared), notes.clone());
        async move {
            let is_well = look(&probe, &shared, &notes, &name).await;
            // What is amiss may be mended soon, and is asked about more often.
            if is_well { every } else { every / 5 }
        }
    };
    let changes = shared.board.changes();
    rounds::run(probe.budget.per_minute, changes, wanted, ask, until).await;
}

/// The names whose route is accepted.
fn accepted(shared: &Shared) -> BTreeSet<String> {
    let inner = shared.board.inner();
    let index = &inner.index;
    let is_accepted = |name: &String| {
        let host = index.host(name).and_then(|host| host.as_ref().ok());
        let route = host.and_then(|host| index.route(name, &host.namespace));
        route.is_some_and(|route| route.accepted == Accepted::Yes && !route.is_going)
    };
    index.names().into_iter().filter(is_accepted).collect()
}

/// Asks about one name, and tells; true when it answers.
async fn look(probe: &Probe, shared: &Shared, notes: &note::Notebook, name: &str) -> bool {
    let Some((entrance, has_certificate)) = whereabouts(shared, name) else {
        return false;
    };
    let (state, why) = match entrance {
        Some(entrance) => question(probe.prober.as_ref(), name, entrance, has_certificate).await,
        None => (
            Reach::Unknown,
            "what stands before its route has no address in its status".to_owned(),
        ),
    };
    let now = Reachable {
        state,
        why: cut(why),
        at: timestamp(),
    };
    let Some((host, before)) = shared.reached(name, now.clone()) else {
        return false;
    };
    let is_noted = before.is_some_and(|before| (before.state, &before.why) == (now.state, &now.why));
    if !is_noted {
        if now.state == Reach::No {
            tracing::warn!(hostname = name, why = now.why, "a hostname does not answer");
        }
        notes.write(name, &host, labels::HOSTNAME_REACHABLE, &now).await;
    }
    state == Reach::Yes
}

/// Where a name is reached, and whether it has a certificate; `None` where it has no route by now.
fn whereabouts(shared: &Shared, name: &str) -> Option<(Option<Entrance>, bool)> {
    let of_gateway = shared.front().entrance;
    let inner = shared.board.inner();
    let index = &inner.index;
    let host = index.host(name)?.as_ref().ok()?;
    let route = index.route(name, &host.namespace)?;
    let entrance = match index.mode().sort() {
        Sort::Ingress => route.entrance,
        _ => of_gateway,
    };
    Some((entrance, route.refers_to(Sort::Certificate, name)))
}

/// Asks by HTTP, and where there is a certificate by HTTPS too.
async fn question(prober: &dyn Prober, name: &str, at: Entrance, has_certificate: bool) -> (Reach, String) {
    let hostname = name
        .strip_prefix('*')
        .map_or_else(|| name.to_owned(), |rest| format!("{LABEL}{rest}"));
    let ports = [(at.http, false), (at.https.filter(|_| has_certificate), true)];
    let mut answers = Vec::new();
    for (port, is_tls) in ports {
        let Some(port) = port else { continue };
        let question = Question {
            hostname: hostname.clone(),
            address: SocketAddr::new(at.ip, port),
            is_tls,
        };
        let by = if is_tls { "HTTPS" } else { "HTTP" };
        match answered(prober, &question).await {
            Ok(status) => answers.push(format!("{by} {status}")),
            Err(why) => return (Reach::No, format!("{by} at {}: {why}", question.address)),
        }
    }
    if answers.is_empty() {
        return (
            Reach::Unknown,
            format!("nobody says at which port of {} HTTP is answered", at.ip),
        );
    }
    (Reach::Yes, format!("{} answers {}", at.ip, answers.join(" and ")))
}

/// The status of an answer by the tenant's service; else why that is none.
async fn answered(prober: &dyn Prober, question: &Question) -> Result<u16, String> {
    let said = limited(prober, question).await?;
    match said.status {
        // What a proxy says of itself: nothing behind it answers.
        502..=504 => Err(format!(
            "the answer is {}: no pod of its service answers",
            said.status
        )),
        404 => {
            let nobody = Question {
                hostname: NOBODY.to_owned(),
                is_tls: false,
                ..question.clone()
            };
            // By TLS there is no certificate for a name that nobody has.
            if !question.is_tls && limited(prober, &nobody).await.is_ok_and(|other| other == said) {
                return Err("the answer is 404, as for a name without a route".to_owned());
            }
            Ok(404)
        }
        status => Ok(status),
    }
}

async fn limited(prober: &dyn Prober, question: &Question) -> Result<Said, String> {
    let asking = timeout(LIMIT, prober.ask(question));
    asking
        .await
        .unwrap_or_else(|_| Err("no answer in time".to_owned()))
}

#[cfg(test)]
mod tests;
