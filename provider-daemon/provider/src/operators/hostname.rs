//! `operator hostname`: routes of declared hostnames. Routes in addition to those of every operator:
//!
//! | route | response |
//! |---|---|
//! | `GET /managed-hostnames`, `/ignore-list` | in the format of the Go operator |
//! | `GET /status` | watches, counts, and the desired, written and accepted state of each hostname; `?after=NAME` and `?limit=N`, `?hostname=NAME` |
//! | `POST /forget/LEASE` | retries the hostnames of the lease; local clients only |
//! | `POST /confirm` | confirms held deletions; local clients only |

pub mod dns;
mod prober;

use self::dns::Dns;
use self::prober::ProbeClient;
use super::metrics::{count_metrics, watch_metrics};
use super::process::{self, Operator};
use super::responses::{awaited, forgotten, json, value};
use super::serve::Peer;
use crate::args::operators::{HostnameArgs, NamesArgs};
use crate::metrics::Measure;
use akash_provider_core::cluster::ReachState;
use akash_provider_kube_model::crd::notes::ProofState;
use akash_provider_operators::WorkStatistics;
use akash_provider_operators::hostname::index::ProofRule;
use akash_provider_operators::hostname::live::Acceptance;
use akash_provider_operators::hostname::probe::Probe;
use akash_provider_operators::hostname::proof::ProofConfig;
use akash_provider_operators::hostname::{HostnameOperator, HostnameOperatorOptions, HostnameStatus};
use anyhow::Context;
use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::routing::post;
use http::{Response, StatusCode};
use serde_json::Value;
use std::process::ExitCode;
use std::sync::Arc;

/// Maximum number of hostnames in one `/status` response, which then has about 4 MiB.
const NAMES_MAX: usize = 10_000;

/// Runs the operator until a signal stops the process.
///
/// # Errors
/// Returns an error if a setting is invalid, no cluster is configured, or the port is in use. An unreachable
/// cluster is not an error.
pub fn run(args: &HostnameArgs) -> anyhow::Result<ExitCode> {
    let mut options = args.options()?;
    process::run(&args.common, async move |client| {
        let rule = options.plan.proof.take();
        HostnameChecks::new(&args.names, rule)?.give(&mut options);
        Ok(HostnameOperator::start(client, options))
    })
}

#[derive(Debug, Default)]
pub(super) struct HostnameChecks {
    probe: Option<Probe>,
    proof: Option<(ProofRule, ProofConfig)>,
}

impl HostnameChecks {
    /// Creates the configuration. `rule` selects the hostnames that need a proof.
    ///
    /// # Errors
    /// Returns an error if no resolvers are configured.
    pub(super) fn new(names: &NamesArgs, rule: Option<ProofRule>) -> anyhow::Result<Self> {
        let probe = names.probe();
        let probe = probe.map(|budget| Probe::new(Arc::new(ProbeClient::new()), budget));
        let proving = |rule| {
            let dns = Dns::new(&names.dns_server)
                .context("cannot configure the DNS resolvers of --hostname-proof")?;
            anyhow::Ok((rule, ProofConfig::new(Arc::new(dns), names.proving())))
        };
        let proof = rule.map(proving).transpose()?;
        Ok(Self { probe, proof })
    }

    pub(super) fn give(self, options: &mut HostnameOperatorOptions) {
        options.probe = self.probe;
        (options.plan.proof, options.proving) = self.proof.unzip();
    }
}

impl Operator for HostnameOperator {
    const NAME: &'static str = "hostname";
    const TEXTS: &'static [&'static str] = &["/managed-hostnames", "/ignore-list"];

    fn is_ready(&self) -> bool {
        Self::is_ready(self)
    }

    fn awaited(&self) -> String {
        awaited(&Self::status(self).watches)
    }

    fn text(&self, path: &str) -> Option<Vec<u8>> {
        Some(match path {
            "/managed-hostnames" => json(&self.managed_hostnames()),
            _ => json(&self.ignore_list()),
        })
    }

    fn status(&self) -> Value {
        value(&self.status_page(None, NAMES_MAX))
    }

    fn page(&self, query: &str) -> Result<Value, (StatusCode, String)> {
        let (mut after, mut limit, mut hostname) = (None, NAMES_MAX, None);
        let wrong = |words: String| Err((StatusCode::BAD_REQUEST, words));
        for (field, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match &*field {
                "after" => after = Some(value.to_ascii_lowercase()),
                "hostname" => hostname = Some(value.to_ascii_lowercase()),
                "limit" => match value.parse() {
                    Ok(asked @ 1..=NAMES_MAX) => limit = asked,
                    _ => return wrong(format!("limit: use 1 to {NAMES_MAX}\n")),
                },
                _ => return wrong("unknown parameter: use after, limit or hostname\n".to_owned()),
            }
        }
        let found = match &hostname {
            Some(name) => self.status_of(name),
            None => Some(self.status_page(after.as_deref(), limit)),
        };
        let nobody = "no record and no route of this hostname\n".to_owned();
        found
            .map(|found| value(&found))
            .ok_or((StatusCode::NOT_FOUND, nobody))
    }

    fn measures(&self) -> Vec<Measure> {
        let now = Self::status(self);
        let count = |is: fn(&HostnameStatus) -> bool| now.hostnames.values().filter(|name| is(name)).count();
        let states = [
            ("declared", count(|name| name.lease.is_some())),
            ("written", count(|name| name.is_written)),
            ("accepted", count(|name| name.accepted == Acceptance::Yes)),
            (
                "refused",
                count(|name| matches!(name.accepted, Acceptance::No(_))),
            ),
            ("kept_back", count(|name| name.problem.is_some())),
            (
                "unreachable",
                count(|name| {
                    name.reachable
                        .as_ref()
                        .is_some_and(|so| so.state == ReachState::No)
                }),
            ),
            (
                "unproven",
                count(|name| {
                    name.proof
                        .as_ref()
                        .is_some_and(|so| so.state != ProofState::Proven)
                }),
            ),
            ("failed", count(|name| name.error.is_some())),
            ("ignored", count(|name| name.is_ignored)),
        ];
        let help = "Number of hostnames in each state; a hostname may be in several states";
        let mut measures = vec![Measure::gauge("hostnames", help).counted("state", states)];
        measures.extend(count_metrics(now.counts));
        measures.extend(watch_metrics(&now.watches));
        measures
    }

    fn work(&self) -> WorkStatistics {
        self.work_statistics()
    }

    fn routes(self: Arc<Self>) -> Router {
        Router::new()
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

async fn forget(
    State(operator): State<Arc<HostnameOperator>>,
    Extension(peer): Extension<Peer>,
    Path(lease): Path<String>,
) -> Response<Body> {
    forgotten(HostnameOperator::NAME, peer, &lease, || operator.forget(&lease))
}

#[cfg(test)]
mod tests;
