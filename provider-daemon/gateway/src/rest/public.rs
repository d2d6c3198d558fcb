//! Routes without authentication: version, address, status, health.

use super::reply::{self, RestReply};
use crate::{App, ProblemSource};
use akash_provider_core::engine::Status;
use akash_provider_core::provider::Lifecycle;
use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use std::sync::Arc;

pub(super) const OPENAPI: &str = include_str!("openapi.json");

#[derive(Serialize)]
struct VersionBody<'a> {
    akash: Akash,
    kube: Kube<'a>,
}

#[derive(Serialize)]
struct Akash {
    name: &'static str,
    server_name: &'static str,
    version: &'static str,
    commit: &'static str,
    build_tags: &'static str,
    go: &'static str,
    build_deps: [&'static str; 0],
    cosmos_sdk_version: &'static str,
}

/// Version of the Kubernetes API server. A cluster without Kubernetes has only a `git_version`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Kube<'a> {
    major: &'a str,
    minor: &'a str,
    git_version: &'a str,
    git_commit: &'static str,
    git_tree_state: &'static str,
    build_date: &'static str,
    go_version: &'static str,
    compiler: &'static str,
    platform: &'static str,
}

impl<'a> Kube<'a> {
    fn from_version(version: &'a str) -> Self {
        let number = version.strip_prefix('v').unwrap_or(version);
        let mut parts = number.split(['.', '-', '+']);
        let mut part = || parts.next().filter(|p| p.bytes().all(|b| b.is_ascii_digit()));
        let major = part().unwrap_or_default();
        Self {
            major,
            minor: part().unwrap_or_default(),
            git_version: version,
            git_commit: "",
            git_tree_state: "",
            build_date: "",
            go_version: "",
            compiler: "",
            platform: "",
        }
    }
}

pub(super) async fn version(State(app): State<Arc<App>>) -> RestReply {
    let kube = match app.bounded("version", app.cluster.version()).await {
        Ok(version) => version,
        Err(error) => return reply::cluster(&error),
    };
    reply::json(&VersionBody {
        akash: Akash {
            name: "provider-services",
            server_name: app.program.name,
            version: app.program.version,
            commit: app.program.commit,
            build_tags: "",
            go: "",
            build_deps: [],
            cosmos_sdk_version: "",
        },
        kube: Kube::from_version(&kube),
    })
}

pub(super) async fn address(State(app): State<Arc<App>>) -> RestReply {
    reply::json(&serde_json::json!({ "address": app.status.info().address.as_str() }))
}

pub(super) async fn status(State(app): State<Arc<App>>) -> RestReply {
    reply::json_bytes(app.status.get().await.body.clone())
}

/// Responds with 200 while the process runs (`/healthz`).
pub(super) async fn healthy() -> RestReply {
    reply::text(StatusCode::OK, "ok")
}

/// Reports whether the provider can serve tenants (`/readyz`). A provider that does not bid can be ready.
pub(super) async fn ready(State(app): State<Arc<App>>) -> RestReply {
    // Checked first: a draining instance must get no more traffic.
    if app.draining.is_cancelled() || app.handle.lifecycle() >= Lifecycle::Shutdown {
        return reply::text(StatusCode::SERVICE_UNAVAILABLE, "the provider is stopping");
    }
    let waits_for = match app.status.missing_state().await {
        Some(why) => why,
        None if !app.status.get().await.status.inventory_known => "capacity is not known yet",
        // Last of the three, because the first two name the missing state.
        None if app.handle.lifecycle() != Lifecycle::Running => "the provider is starting",
        None => {
            let mut body = no_bids(&app.status.get().await.status);
            let problem = app.problem.as_ref().and_then(ProblemSource::now);
            for note in app.notes.iter().chain(&problem) {
                body.push_str(&format!("; {note}"));
            }
            return reply::text(StatusCode::OK, body);
        }
    };
    reply::text(StatusCode::SERVICE_UNAVAILABLE, waits_for)
}

fn no_bids(status: &Status) -> String {
    let mut why: Vec<&str> = status.bids_held.iter().map(String::as_str).collect();
    if !status.registered {
        why.push("this provider is not registered on the chain");
    }
    why.extend(status.deposit_missing.as_deref());
    if status.breaker.tripped {
        why.push("the circuit breaker has tripped");
    }
    if why.is_empty() {
        "ok".to_owned()
    } else {
        format!("ok; not bidding: {}", why.join("; "))
    }
}

pub(super) async fn openapi() -> RestReply {
    reply::json_bytes(OPENAPI)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn major_and_minor_are_parsed_only_from_a_version_number() {
        let numbers = |text| {
            let kube = Kube::from_version(text);
            (kube.major.to_owned(), kube.minor.to_owned())
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(numbers("v1.34.2+k3s1"), pair("1", "34"));
        assert_eq!(numbers("memory 0.1.0"), pair("", "1"));
        assert_eq!(numbers(""), pair("", ""));
    }
}
