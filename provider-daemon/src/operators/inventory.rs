//! `operator inventory`: what the cluster has, and the labels of its nodes. Beside what every operator answers:
//!
//! | route | says |
//! |---|---|
//! | `GET /metrics/health`, `/metrics/ready` | it runs |
//! | `GET /v1/inventory[?pretty]` | the cluster as today's operator says it; 500 without a word before it was counted |
//! | `GET /status` | watches, counts, rules, the list of GPUs, each node, and what is not offered and why |
//!
//! The same cluster is at the port of gRPC.

mod config;
mod grpc;
mod list;
mod shape;

use super::measures::{Measure, of_counts, of_watches};
use super::pod;
use super::process::{self, Operator};
use super::serve::status;
use super::words::{awaited, value};
use crate::args::operators::{GpuListArgs, InventoryArgs};
use akash_provider_core::error::listen_text;
use akash_provider_k8s::operators::inventory::rules::Rules;
use akash_provider_k8s::operators::inventory::{DiscoveryStatus, InventoryOperator, Options, Shown, Status};
use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::routing::get;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use kube::Client;
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

/// The port of gRPC without any word about it.
const GRPC_PORT: u16 = 8081;

/// How often the file of rules is looked at.
const RULES_EVERY: Duration = Duration::from_secs(2);

/// What is shown, and who is asked.
#[derive(Debug)]
pub(super) struct Desk {
    operator: InventoryOperator,
    list: Arc<List>,
    rules: Mutex<RulesStatus>,
    /// Where the rules are, and what they said last.
    source: Option<(config::Source, String)>,
    /// The port of gRPC, until it is served; none in the process of a provider.
    grpc: Mutex<Option<TcpListener>>,
    /// How long who asks for a cluster that was not counted yet waits.
    patience: Duration,
}

/// What is known of the rules.
#[derive(Debug, Clone, Default, Serialize)]
struct RulesStatus {
    /// Where they are; `None` where there are none.
    from: Option<String>,
    /// Why they were not read again; the last ones that made sense hold.
    error: Option<String>,
}

/// All that is said at `/status`.
#[derive(Serialize)]
struct Page {
    rules: RulesStatus,
    gpu_list: ListStatus,
    #[serde(flatten)]
    operator: Status,
}

/// What it works by, read and found to make sense.
#[derive(Debug)]
pub(crate) struct Plan {
    rules: Rules,
    /// Where the rules are, and what they said.
    source: Option<(config::Source, String)>,
    list: List,
}

impl Plan {
    /// Reads the rules; `flag` is where they are given, and `folder` is where the list of GPUs is kept.
    ///
    /// # Errors
    /// The rules make no sense, or cannot be read.
    pub(crate) fn read(
        flag: &'static str,
        rules: Option<&str>,
        gpus: &GpuListArgs,
        folder: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let given = rules.filter(|given| !given.trim().is_empty());
        let source = given.map(|given| config::Source::of(flag, given));
        let (text, rules) = first_rules(flag, source.as_ref())?;
        Ok(Self {
            rules,
            source: source.map(|source| (source, text)),
            list: List::new(list_source(gpus), folder, gpus.registry_query_period),
        })
    }

    /// The operator at work. `options` are without the rules.
    pub(super) fn start(self, client: &Client, options: Options, patience: Duration) -> Desk {
        let from = self.source.as_ref().map(|(source, _)| source.name());
        let options = Options {
            rules: self.rules,
            ..options
        };
        Desk {
            operator: InventoryOperator::start(client, options),
            list: Arc::new(self.list),
            rules: Mutex::new(RulesStatus { from, error: None }),
            source: self.source,
            grpc: Mutex::default(),
            patience,
        }
    }
}

/// Runs until it is told to stop.
///
/// # Errors
/// A setting or the file of rules makes no sense, no cluster is known, or a port is taken. That the cluster is away is no
/// error.
pub fn run(args: &InventoryArgs) -> anyhow::Result<ExitCode> {
    let plan = Plan::read(
        "--config",
        args.config.as_deref(),
        &args.gpus,
        args.state_dir.as_deref(),
    )?;
    process::run(&args.common, async move |client, gate| {
        let port = match args.grpc_port {
            Some(port) => port,
            None => pod::port(client, &args.common, "grpc").await.unwrap_or(GRPC_PORT),
        };
        // The port before the operator: one that cannot have it writes no label.
        let grpc = bind("--grpc-port", SocketAddr::new(args.common.rest_address, port)).await?;
        let options = Options {
            retry_delay: args.retry_delay,
            call_timeout: args.common.kube_call_timeout,
            discovery: args.discovery(),
            gate,
            ..Options::default()
        };
        let desk = plan.start(client, options, args.api_timeout);
        Ok(Desk {
            grpc: Mutex::new(Some(grpc)),
            ..desk
        })
    })
}

fn list_source(args: &GpuListArgs) -> list::Source {
    match (&args.gpu_list, &args.provider_configs_url.0) {
        (Some(path), _) => list::Source::File(path.clone()),
        (None, Some(url)) => {
            let mut url = url.clone();
            let path = format!("{}/devices/gpus", url.path().trim_end_matches('/'));
            url.set_path(&path);
            list::Source::Network(url)
        }
        (None, None) => list::Source::Nowhere,
    }
}

/// The rules at the start: there are no last good ones yet, so that bad ones end it.
fn first_rules(flag: &str, source: Option<&config::Source>) -> anyhow::Result<(String, Rules)> {
    let Some(source) = source else {
        return Ok((String::new(), Rules::default()));
    };
    let read = source.text().and_then(|text| Ok((source.rules(&text)?, text)));
    let (rules, text) = read.map_err(|why| match source {
        config::Source::File(_) => anyhow::anyhow!("{flag}: {why}"),
        // It names the flag by itself.
        config::Source::Inline(..) => anyhow::anyhow!("{why}"),
    })?;
    Ok((text, rules))
}

async fn bind(flag: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| anyhow::anyhow!("--rest-address, {flag}: {address}: {}", listen_text(&error)))
}

/// Looks at the file of rules, for ever. What cannot be read changes nothing.
async fn follow_rules(desk: &Desk) -> Infallible {
    let Some((source @ config::Source::File(_), text)) = &desk.source else {
        return std::future::pending().await;
    };
    let mut text = text.clone();
    loop {
        sleep(RULES_EVERY).await;
        look_at_rules(desk, source, &mut text);
    }
}

/// Takes the rules over where they have changed.
fn look_at_rules(desk: &Desk, source: &config::Source, text: &mut String) {
    let now = source.text();
    let read = match now {
        Ok(now) if now == *text => Ok(None),
        Ok(now) => source.rules(&now).map(|rules| Some((rules, now))),
        Err(why) => Err(why),
    };
    let mut status = desk.rules.lock().unwrap_or_else(PoisonError::into_inner);
    match read {
        Ok(news) => {
            status.error = None;
            if let Some((rules, now)) = news {
                tracing::info!(from = status.from, "the rules are others");
                *text = now;
                desk.operator.set_rules(rules);
            }
        }
        Err(why) => {
            if status.error.as_ref() != Some(&why) {
                tracing::warn!(
                    why,
                    "the rules cannot be read; the last ones that made sense hold"
                );
            }
            status.error = Some(why);
        }
    }
}

impl Desk {
    fn page(&self) -> Page {
        Page {
            rules: self.rules.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            gpu_list: self.list.status(),
            operator: self.operator.status(),
        }
    }

    /// The cluster; `None` where it was not counted within the patience.
    async fn awaited(&self) -> Option<Arc<Shown>> {
        let mut shown = self.operator.shown();
        let known = timeout(self.patience, shown.wait_for(Option::is_some)).await;
        known.ok()?.ok()?.clone()
    }
}

impl Operator for Desk {
    const NAME: &'static str = "inventory";
    const TEXTS: &'static [&'static str] = &[];

    fn is_ready(&self) -> bool {
        self.operator.is_ready()
    }

    fn awaited(&self) -> String {
        let now = self.operator.status();
        let mut words = awaited(&now.watches);
        words.push_str(&match now.count_error {
            Some(error) => format!("the cluster was not counted yet: {error}\n"),
            None => "the cluster was not counted yet\n".to_owned(),
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
        measures.extend(of_counts(now.counts));
        measures.extend(of_watches(&now.watches));
        measures.extend(now.discovery.iter().flat_map(of_discovery));
        measures
    }

    fn routes(self: Arc<Self>) -> Router {
        // As today's operator has it: the status alone.
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

/// How looking at machines fares.
#[expect(clippy::cast_precision_loss, reason = "a count of looks is far below 2^52")]
fn of_discovery(now: &DiscoveryStatus) -> [Measure; 3] {
    let nodes = Measure::gauge("discovery_nodes", "Nodes that are to be looked at");
    let looks = Measure::counter("discoveries", "Nodes that were looked at");
    let failures = Measure::counter("discovery_failures", "Looks at nodes that failed");
    [
        nodes.counted("state", [("waiting", now.waiting), ("failing", now.failing)]),
        looks.with([], now.looks as f64),
        failures.with([], now.failures as f64),
    ]
}

async fn inventory(State(desk): State<Arc<Desk>>, RawQuery(query): RawQuery) -> Response<Body> {
    let Some(shown) = desk.awaited().await else {
        return status(StatusCode::INTERNAL_SERVER_ERROR, "");
    };
    let query = query.unwrap_or_default();
    let is_pretty = query
        .split('&')
        .any(|word| word == "pretty" || word.starts_with("pretty="));
    let mut answer = Response::new(Body::from(shape::in_json(&shape::on_the_wire(&shown), is_pretty)));
    let kind = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

#[cfg(test)]
mod tests;
