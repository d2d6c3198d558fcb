//! `operator inventory`: resources of the cluster, and labels of its nodes. Routes in addition to those of every
//! operator:
//!
//! | route | response |
//! |---|---|
//! | `GET /metrics/health`, `/metrics/ready` | 200 while the process runs |
//! | `GET /v1/inventory[?pretty]` | the cluster in the format of the Go operator; 500 with an empty body before the first count |
//! | `GET /status` | watches, counts, rules, the list of GPUs, each node, and resources that are not offered |
//!
//! The gRPC port serves the same cluster.

mod config;
mod grpc;
mod list;
mod shape;

use super::metrics::{count_metrics, watch_metrics};
use super::pod;
use super::process::{self, Operator, bind};
use super::responses::{awaited, value};
use super::serve::{status, typed};
use crate::args::operators::{GpuListArgs, InventoryArgs};
use crate::metrics::Measure;
use akash_provider_cli::error::WithHelp;
use akash_provider_k8s::write_client::WriteClient;
use akash_provider_operators::WorkStatistics;
use akash_provider_operators::inventory::rules::Rules;
use akash_provider_operators::inventory::{
    ClusterReport, DiscoveryStatus, InventoryOperator, InventoryOperatorOptions, InventoryOperatorStatus,
};
use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::routing::get;
use http::{Response, StatusCode};
use list::{List, ListStatus};
use serde::Serialize;
use serde_json::Value;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

const GRPC_PORT: u16 = 8081;

/// Interval between two reads of the rules file.
const RULES_EVERY: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct InventoryProcess {
    operator: InventoryOperator,
    list: Arc<List>,
    rules: Mutex<RulesStatus>,
    /// Source of the inventory rules, and the text of the rules at the start.
    source: Option<(config::RulesSource, String)>,
    /// gRPC listener; `None` in an embedded operator, and after the gRPC server started.
    grpc: Mutex<Option<TcpListener>>,
    /// Maximum time that a request waits for the first complete inventory.
    patience: Duration,
}

#[derive(Debug, Clone, Default, Serialize)]
struct RulesStatus {
    /// Source of the rules; `None` without rules.
    from: Option<String>,
    /// Error of the last read. The last valid rules stay in force.
    error: Option<String>,
}

/// Response of the route `/status`.
#[derive(Serialize)]
struct StatusReport {
    rules: RulesStatus,
    gpu_list: ListStatus,
    #[serde(flatten)]
    operator: InventoryOperatorStatus,
}

#[derive(Debug)]
pub(crate) struct InventorySetup {
    rules: Rules,
    /// Source of the inventory rules, and the text from this source.
    source: Option<(config::RulesSource, String)>,
    list: List,
}

impl InventorySetup {
    /// Reads the inventory rules from the flag `flag`. The directory `folder` stores the GPU list.
    ///
    /// # Errors
    /// Returns an error for invalid or unreadable rules.
    pub(crate) fn read(
        flag: &'static str,
        rules: Option<&str>,
        gpus: &GpuListArgs,
        folder: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let given = rules.filter(|given| !given.trim().is_empty());
        let source = given.map(|given| config::RulesSource::from_flag(flag, given));
        let (text, rules) = first_rules(flag, source.as_ref())?;
        Ok(Self {
            rules,
            source: source.map(|source| (source, text)),
            list: List::new(list_source(gpus), folder, gpus.registry_query_period),
        })
    }

    /// Starts the operator with the rules of this plan.
    pub(super) fn start(
        self,
        client: &WriteClient,
        mut options: InventoryOperatorOptions,
        patience: Duration,
    ) -> InventoryProcess {
        let from = self.source.as_ref().map(|(source, _)| source.name());
        options.rules = self.rules;
        InventoryProcess {
            operator: InventoryOperator::start(client, options),
            list: Arc::new(self.list),
            rules: Mutex::new(RulesStatus { from, error: None }),
            source: self.source,
            grpc: Mutex::default(),
            patience,
        }
    }
}

/// Runs the operator until a signal stops the process.
///
/// # Errors
/// Returns an error if a setting or the rules are invalid, no cluster is configured, or a port is in use. An
/// unreachable cluster is not an error.
pub fn run(args: &InventoryArgs) -> anyhow::Result<ExitCode> {
    let plan = InventorySetup::read(
        "--config",
        args.config.as_deref(),
        &args.gpus,
        args.state_dir.as_deref(),
    )?;
    let options = args.options()?;
    process::run(&args.common, async move |client| {
        let port = match args.grpc_port {
            Some(port) => port,
            None => pod::port(client.client(), &args.common, "grpc")
                .await
                .unwrap_or(GRPC_PORT),
        };
        // The port is opened first, so that a second process with the same port writes no label.
        let grpc = bind("--grpc-port", SocketAddr::new(args.common.rest_address, port)).await?;
        let process = plan.start(client, options, args.api_timeout);
        Ok(InventoryProcess {
            grpc: Mutex::new(Some(grpc)),
            ..process
        })
    })
}

fn list_source(args: &GpuListArgs) -> list::GpuListSource {
    match (&args.gpu_list, &args.provider_configs_url.0) {
        (Some(path), _) => list::GpuListSource::File(path.clone()),
        (None, Some(url)) => {
            let mut url = url.clone();
            let path = format!("{}/devices/gpus", url.path().trim_end_matches('/'));
            url.set_path(&path);
            list::GpuListSource::Network(url)
        }
        (None, None) => list::GpuListSource::Nowhere,
    }
}

/// Remedy for unreadable or invalid rules.
const RULES_HELP: &str = "correct the rules; docs/operators.md describes their fields";

/// Reads the rules at the start. An error stops the process.
fn first_rules(flag: &str, source: Option<&config::RulesSource>) -> anyhow::Result<(String, Rules)> {
    let Some(source) = source else {
        return Ok((String::new(), Rules::default()));
    };
    let read = source.text().and_then(|text| Ok((source.rules(&text)?, text)));
    let (rules, text) = read.map_err(|why| match source {
        config::RulesSource::File(_) => WithHelp::new(format!("{flag}: {why}"), RULES_HELP),
        // The error contains the flag.
        config::RulesSource::Inline(..) => WithHelp::new(why.to_string(), RULES_HELP),
    })?;
    Ok((text, rules))
}

/// Reads the rules file periodically. If the rules are invalid, the last valid rules stay in force.
async fn follow_rules(process: &InventoryProcess) -> Infallible {
    let Some((source @ config::RulesSource::File(_), text)) = &process.source else {
        return std::future::pending().await;
    };
    let mut text = text.clone();
    loop {
        sleep(RULES_EVERY).await;
        look_at_rules(process, source, &mut text);
    }
}

/// Reads the rules, and applies them if they changed.
fn look_at_rules(process: &InventoryProcess, source: &config::RulesSource, text: &mut String) {
    let now = source.text();
    let read = match now {
        Ok(now) if now == *text => Ok(None),
        Ok(now) => source.rules(&now).map(|rules| Some((rules, now))),
        Err(why) => Err(why),
    };
    let mut status = process.rules.lock().unwrap_or_else(PoisonError::into_inner);
    match read {
        Ok(change) => {
            status.error = None;
            if let Some((rules, now)) = change {
                tracing::info!(from = status.from, "inventory rules changed");
                *text = now;
                process.operator.set_rules(rules);
            }
        }
        Err(why) => {
            if status.error.as_ref() != Some(&why) {
                tracing::warn!(
                    why,
                    "cannot read the inventory rules, the last valid rules apply: fix the file"
                );
            }
            status.error = Some(why);
        }
    }
}

impl InventoryProcess {
    fn page(&self) -> StatusReport {
        StatusReport {
            rules: self.rules.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            gpu_list: self.list.status(),
            operator: self.operator.status(),
        }
    }

    /// Waits at most `patience` for the first complete inventory. Returns `None` after this time.
    async fn awaited(&self) -> Option<Arc<ClusterReport>> {
        let mut reports = self.operator.reports();
        let report = timeout(self.patience, reports.wait_for(Option::is_some)).await;
        report.ok()?.ok()?.clone()
    }
}

impl Operator for InventoryProcess {
    const NAME: &'static str = "inventory";
    const TEXTS: &'static [&'static str] = &[];

    fn is_ready(&self) -> bool {
        self.operator.is_ready()
    }

    fn awaited(&self) -> String {
        let now = self.operator.status();
        let mut words = awaited(&now.watches);
        words.push_str(&match now.count_error {
            Some(error) => format!("first count of the cluster pending: {error}\n"),
            None => "first count of the cluster pending\n".to_owned(),
        });
        words
    }

    fn text(&self, _path: &str) -> Option<Vec<u8>> {
        None
    }

    fn status(&self) -> Value {
        value(&self.page())
    }

    fn measures(&self) -> Vec<Measure> {
        let now = self.operator.status();
        let mut measures = Vec::new();
        measures.extend(count_metrics(now.counts));
        measures.extend(watch_metrics(&now.watches));
        measures.extend(now.discovery.iter().flat_map(discovery_metrics));
        measures
    }

    fn work(&self) -> WorkStatistics {
        self.operator.work_statistics()
    }

    fn routes(self: Arc<Self>) -> Router {
        // The Go operator returns the status without a body.
        let silent = || async { status(StatusCode::OK, "") };
        Router::new()
            .route("/metrics/health", get(silent))
            .route("/metrics/ready", get(silent))
            .route("/v1/inventory", get(inventory))
            .with_state(self)
    }

    fn also_answers(&self) -> String {
        let grpc = self.grpc.lock().unwrap_or_else(PoisonError::into_inner);
        let at = grpc.as_ref().and_then(|listener| listener.local_addr().ok());
        at.map_or_else(String::new, |at| format!(", and over gRPC at {at}"))
    }

    async fn beside(self: Arc<Self>, until: CancellationToken) {
        let listener = self.grpc.lock().unwrap_or_else(PoisonError::into_inner).take();
        let served = async {
            match listener {
                Some(listener) => grpc::serve(listener, Arc::clone(&self), until.clone()).await,
                None => until.cancelled().await,
            }
        };
        tokio::select! {
            () = served => {}
            never = Arc::clone(&self.list).keep(&self.operator) => match never {},
            never = follow_rules(&self) => match never {},
        }
    }

    async fn stop(&self) {
        self.operator.stop().await;
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count of looks is below 2^52")]
fn discovery_metrics(now: &DiscoveryStatus) -> [Measure; 3] {
    let nodes = Measure::gauge("discovery_nodes", "Nodes with a pending hardware discovery");
    let looks = Measure::counter("discoveries", "Successful hardware discoveries");
    let failures = Measure::counter("discovery_failures", "Failed hardware discoveries");
    [
        nodes.counted("state", [("waiting", now.waiting), ("failing", now.failing)]),
        looks.with([], now.looks as f64),
        failures.with([], now.failures as f64),
    ]
}

async fn inventory(
    State(process): State<Arc<InventoryProcess>>,
    RawQuery(query): RawQuery,
) -> Response<Body> {
    let Some(report) = process.awaited().await else {
        return status(StatusCode::INTERNAL_SERVER_ERROR, "");
    };
    let query = query.unwrap_or_default();
    let is_pretty = query
        .split('&')
        .any(|word| word == "pretty" || word.starts_with("pretty="));
    let text = shape::in_json(&shape::on_the_wire(&report), is_pretty);
    typed(StatusCode::OK, "application/json", text)
}

#[cfg(test)]
mod tests;
