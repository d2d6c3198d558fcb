//! `operator ip`: load balancers of leased addresses. Routes in addition to those of every operator:
//!
//! | route | response |
//! |---|---|
//! | `GET /usage`, `/state`, `/ignored-leases`, `/ip-lease-status/OWNER/DSEQ/GSEQ/OSEQ` | in the format of the Go operator |
//! | `POST /forget/LEASE` | retries the addresses of the lease; local clients only |
//! | `POST /confirm` | confirms held deletions; local clients only |

use super::metrics::{count_metrics, watch_metrics};
use super::process::{self, Operator};
use super::responses::{answer, awaited, forgotten, json, value};
use super::serve::{Peer, status};
use crate::args::operators::IpArgs;
use crate::metrics::Measure;
use akash_provider_core::types::{Address, DeploymentId, LeaseId};
use akash_provider_operators::WorkStatistics;
use akash_provider_operators::ip::{AddressStatus, IpOperator};
use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::routing::{get, post};
use http::{Response, StatusCode};
use serde::Serialize;
use serde_json::Value;
use std::process::ExitCode;
use std::sync::Arc;

/// Counts of IP addresses in the format of the Go operator.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct AddressCounts {
    /// Total number of addresses in the pool, under the name that the Go operator uses.
    available: u32,
    in_use: u32,
}

/// Error in the format of the Go operator.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ErrorBody {
    error: String,
    code: i32,
}

/// Runs the operator until a signal stops the process.
///
/// # Errors
/// Returns an error if a setting is invalid, no cluster is configured, or the port is in use. An unreachable
/// cluster is not an error.
pub fn run(args: &IpArgs) -> anyhow::Result<ExitCode> {
    let options = args.options()?;
    process::run(&args.common, async move |client| {
        Ok(IpOperator::start(client, options))
    })
}

impl Operator for IpOperator {
    const NAME: &'static str = "ip";
    const TEXTS: &'static [&'static str] = &["/usage", "/state", "/ignored-leases"];

    fn is_ready(&self) -> bool {
        Self::is_ready(self)
    }

    fn awaited(&self) -> String {
        awaited(&Self::status(self).watches)
    }

    fn text(&self, path: &str) -> Option<Vec<u8>> {
        if !self.is_ready() {
            return None;
        }
        match path {
            "/state" => Some(json(&self.port_states())),
            "/ignored-leases" => Some(json(&self.ignored_leases())),
            _ => {
                let (available, in_use) = self.usage().known()?;
                Some(json(&AddressCounts { available, in_use }))
            }
        }
    }

    fn unavailable(&self, path: &str) -> Option<String> {
        (path != "/status" && !self.is_ready()).then(|| self.awaited())
    }

    fn missing(&self, path: &str) -> Option<&'static str> {
        // An unknown number is not zero: clients keep the last number.
        (path == "/usage").then_some("number of addresses unknown; see /status\n")
    }

    fn status(&self) -> Value {
        value(&Self::status(self))
    }

    fn measures(&self) -> Vec<Measure> {
        let now = Self::status(self);
        let count = |is: fn(&AddressStatus) -> bool| now.addresses.values().filter(|port| is(port)).count();
        let states = [
            ("declared", count(|port| port.lease.is_some())),
            ("written", count(|port| port.is_written)),
            ("given", count(|port| !port.addresses.is_empty())),
            ("waiting", count(|port| port.waiting_since.is_some())),
            ("kept_back", count(|port| port.problem.is_some())),
            ("failed", count(|port| port.error.is_some())),
            ("ignored", count(|port| port.is_ignored)),
        ];
        let help = "Number of ports of leased IPs in each state; a port may be in several states";
        let mut measures = vec![Measure::gauge("leased_ports", help).counted("state", states)];
        if let Some((total, in_use)) = self.usage().known() {
            let help = "Number of IP addresses for leases, in total and in use";
            let of = [("total", total as usize), ("in_use", in_use as usize)];
            measures.push(Measure::gauge("addresses", help).counted("of", of));
        }
        measures.extend(count_metrics(now.counts));
        measures.extend(watch_metrics(&now.watches));
        measures
    }

    fn work(&self) -> WorkStatistics {
        self.work_statistics()
    }

    fn routes(self: Arc<Self>) -> Router {
        Router::new()
            .route(
                "/ip-lease-status/{owner}/{dseq}/{gseq}/{oseq}",
                get(lease_ip_status),
            )
            .route("/forget/{*lease}", post(forget))
            .with_state(self)
    }

    fn confirm(&self) -> Option<usize> {
        Some(Self::confirm(self))
    }

    async fn stop(&self) {
        Self::stop(self).await;
    }
}

async fn lease_ip_status(
    State(operator): State<Arc<IpOperator>>,
    Path((owner, dseq, gseq, oseq)): Path<(String, String, String, String)>,
) -> Response<Body> {
    if !operator.is_ready() {
        return status(StatusCode::SERVICE_UNAVAILABLE, operator.awaited());
    }
    let Some(lease) = lease(&operator, &owner, &dseq, &gseq, &oseq) else {
        return status(StatusCode::NOT_FOUND, "");
    };
    match operator.assigned(&lease) {
        Ok(all) if all.is_empty() => status(StatusCode::NO_CONTENT, ""),
        Ok(all) => answer(StatusCode::OK, &all),
        Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, &ErrorBody { error, code: -1 }),
    }
}

fn lease(operator: &IpOperator, owner: &str, dseq: &str, gseq: &str, oseq: &str) -> Option<LeaseId> {
    let owner: Address = owner.parse().ok()?;
    let deployment = DeploymentId::new(owner, dseq.parse().ok()?);
    let group = deployment.group(gseq.parse().ok()?);
    Some(group.order(oseq.parse().ok()?).bid(operator.provider().clone()))
}

async fn forget(
    State(operator): State<Arc<IpOperator>>,
    Extension(peer): Extension<Peer>,
    Path(lease): Path<String>,
) -> Response<Body> {
    forgotten(IpOperator::NAME, peer, &lease, || operator.forget(&lease))
}

#[cfg(test)]
mod tests;
