//! `operator inventory`: what the cluster has, and the labels of its nodes.
//!
//! | route | says |
//! |---|---|
//! | `GET /health`, `/metrics/health`, `/metrics/ready` | it runs |
//! | `GET /readyz` | the cluster was counted; 503 with what is awaited before that |
//! | `GET /version` | name, version, commit |
//! | `GET /v1/inventory[?pretty]` | the cluster as today's operator says it; 500 without a word before it was counted |
//! | `GET /status` | watches, counts, rules, the list of GPUs, each node, and what is not offered and why |
//!
//! The same cluster is at the port of gRPC.

mod config;
mod grpc;
mod list;
mod shape;

use super::serve::{Prepared, serve, status};
use crate::COMMIT;
use crate::args::Output;
use crate::args::operators::InventoryArgs;
use crate::cluster_client::client;
use crate::dev::Printer;
use crate::signals::on_signals;
use akash_provider_core::error::listen_text;
use akash_provider_k8s::operators::inventory::rules::Rules;
use akash_provider_k8s::operators::inventory::{InventoryOperator, Options, Shown, Status};
use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::routing::get;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use list::{List, ListStatus};
use serde::Serialize;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::{interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// How often the file of rules is looked at.
const RULES_EVERY: Duration = Duration::from_secs(2);

/// What is shown, and who is asked.
#[derive(Debug)]
struct Desk {
    operator: InventoryOperator,
    list: Arc<List>,
    rules: Mutex<RulesStatus>,
    status: Prepared,
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

/// Runs until it is told to stop.
///
/// # Errors
/// A setting or the file of rules makes no sense, no cluster is known, or a port is taken. That the cluster is away is no
/// error.
pub fn run(args: &InventoryArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(live(args));
    runtime.shutdown_timeout(Duration::from_secs(1));
    code
}

async fn live(args: &InventoryArgs) -> anyhow::Result<ExitCode> {
    let source = args
        .config
        .as_deref()
        .filter(|flag| !flag.trim().is_empty())
        .map(config::Source::of);
    let (text, rules) = first_rules(source.as_ref())?;
    let client = client(args.kubeconfig.as_deref()).await?;
    // The ports before the operator: one that cannot have them writes no label.
    let rest = bind("--rest-port", SocketAddr::new(args.rest_address, args.rest_port)).await?;
    let grpc = bind("--grpc-port", SocketAddr::new(args.rest_address, args.grpc_port)).await?;
    let printer = Arc::new(Printer::with_wall_clock(Output::Text));
    let (shutdown, abort) = (CancellationToken::new(), CancellationToken::new());
    let signals = on_signals(Arc::clone(&printer), shutdown.clone(), abort.clone())?;
    let _signals = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(signals));
    let options = Options {
        rules,
        retry_delay: args.retry_delay,
        call_timeout: args.kube_call_timeout,
        ..Options::default()
    };
    let list = List::new(
        list_source(args),
        args.state_dir.as_deref(),
        args.registry_query_period,
    );
    let from = source.as_ref().map(config::Source::name);
    let desk = Arc::new(Desk {
        operator: InventoryOperator::start(&client, options),
        list: Arc::new(list),
        rules: Mutex::new(RulesStatus { from, error: None }),
        status: Prepared::default(),
        patience: args.api_timeout,
    });
    for flag in args.without_effect.relied_on() {
        printer.note(&format!(
            "{flag} has no effect: no pod runs on nodes, whose labels say what devices they have"
        ));
    }
    printer.note(&format!(
        "the inventory operator answers at http://{}/status, and over gRPC at {}",
        rest.local_addr()?,
        grpc.local_addr()?
    ));
    let served = serve(rest, router(Arc::clone(&desk)), shutdown.clone());
    let served_grpc = grpc::serve(grpc, Arc::clone(&desk), shutdown.clone());
    let code = tokio::select! {
        () = abort.cancelled() => ExitCode::FAILURE,
        ((), (), ()) = async { tokio::join!(served, served_grpc, drain(&desk, &shutdown)) } => ExitCode::SUCCESS,
        never = refresh(&desk, args.web_refresh_interval) => match never {},
        never = Arc::clone(&desk.list).keep(&desk.operator) => match never {},
        never = follow_rules(&desk, source, text) => match never {},
    };
    Ok(code)
}

fn list_source(args: &InventoryArgs) -> list::Source {
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
fn first_rules(source: Option<&config::Source>) -> anyhow::Result<(String, Rules)> {
    let Some(source) = source else {
        return Ok((String::new(), Rules::default()));
    };
    let read = source.text().and_then(|text| Ok((source.rules(&text)?, text)));
    let (rules, text) = read.map_err(|why| anyhow::anyhow!("--config: {why}"))?;
    Ok((text, rules))
}

async fn bind(flag: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| anyhow::anyhow!("--rest-address, {flag}: {address}: {}", listen_text(&error)))
}

/// At the end it begins nothing more, and what it began is finished.
async fn drain(desk: &Desk, shutdown: &CancellationToken) {
    shutdown.cancelled().await;
    desk.operator.stop().await;
}

/// Looks at the file of rules, for ever. What cannot be read changes nothing.
async fn follow_rules(desk: &Desk, source: Option<config::Source>, mut text: String) -> Infallible {
    let Some(source @ config::Source::File(_)) = source else {
        return std::future::pending().await;
    };
    loop {
        sleep(RULES_EVERY).await;
        look_at_rules(desk, &source, &mut text);
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

/// Makes the text of the status anew, for ever.
async fn refresh(desk: &Desk, every: Duration) -> Infallible {
    // An interval of zero panics, and a flag can say zero.
    let mut ticks = interval(every.max(Duration::from_millis(100)));
    loop {
        ticks.tick().await;
        desk.status.set(json(&desk.page()));
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // Maps with texts as keys, and plain data below them, always have a form in JSON.
    serde_json::to_vec(value).unwrap_or_default()
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

fn router(desk: Arc<Desk>) -> Router {
    let fine = || async { status(StatusCode::OK, "OK") };
    // As today's operator has it: the status alone.
    let silent = || async { status(StatusCode::OK, "") };
    Router::new()
        .route("/health", get(fine))
        .route("/healthz", get(fine))
        .route("/metrics/health", get(silent))
        .route("/metrics/ready", get(silent))
        .route("/readyz", get(ready))
        .route("/version", get(version))
        .route("/v1/inventory", get(inventory))
        .route(
            "/status",
            get(|State(desk): State<Arc<Desk>>| async move { desk.status.answer() }),
        )
        .with_state(desk)
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

async fn ready(State(desk): State<Arc<Desk>>) -> Response<Body> {
    let now = desk.operator.status();
    if now.is_ready {
        return status(StatusCode::OK, "ok\n");
    }
    let unsynced = now.watches.iter().filter(|(_, watch)| !watch.synced);
    let mut words: String = unsynced
        .map(|(kind, watch)| match &watch.last_error {
            Some(error) => format!("{kind} are not listed yet: {error}\n"),
            None => format!("{kind} are not listed yet\n"),
        })
        .collect();
    words.push_str(&match now.count_error {
        Some(error) => format!("the cluster was not counted yet: {error}\n"),
        None => "the cluster was not counted yet\n".to_owned(),
    });
    status(StatusCode::SERVICE_UNAVAILABLE, words)
}

async fn version() -> Response<Body> {
    let text = serde_json::json!({
        "name": "provider-services",
        "server_name": env!("CARGO_PKG_NAME"),
        "version": env!("CARGO_PKG_VERSION"),
        "commit": COMMIT,
    });
    let prepared = Prepared::default();
    prepared.set(json(&text));
    prepared.answer()
}

#[cfg(test)]
mod tests;
