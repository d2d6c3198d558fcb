//! `operator hostname`: routes of declared hostnames.
//!
//! | route | says |
//! |---|---|
//! | `GET /health` | it runs |
//! | `GET /readyz` | everything was listed; 503 with what is awaited before that |
//! | `GET /version` | name, version, commit |
//! | `GET /managed-hostnames`, `/ignore-list` | as today's operator says it |
//! | `GET /status` | watches, counts, and each hostname as it is wanted, written and accepted; `?after=NAME` and `?limit=N`, `?hostname=NAME` |
//! | `POST /forget/LEASE` | its hostnames are tried again now; from this machine alone |

mod forget;

pub use forget::forget;

use super::serve::{Peer, Prepared, serve, status};
use crate::COMMIT;
use crate::args::Output;
use crate::args::operators::HostnameArgs;
use crate::cluster_client::client;
use crate::dev::Printer;
use crate::signals::on_signals;
use akash_provider_core::error::listen_text;
use akash_provider_k8s::operators::hostname::{HostnameOperator, Status};
use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::routing::{get, post};
use http::{Response, StatusCode, Uri};
use serde::Serialize;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::interval;
use tokio_util::sync::CancellationToken;

/// Hostnames in one answer of `/status`: some 4 MiB.
const NAMES_MAX: usize = 10_000;

/// What is shown, and who is asked.
#[derive(Debug)]
struct Desk {
    operator: HostnameOperator,
    managed: Prepared,
    ignored: Prepared,
    status: Prepared,
}

/// Runs until it is told to stop.
///
/// # Errors
/// A setting makes no sense, no cluster is known, or its port is taken. That the cluster is away is no error.
pub fn run(args: &HostnameArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(live(args));
    runtime.shutdown_timeout(Duration::from_secs(1));
    code
}

async fn live(args: &HostnameArgs) -> anyhow::Result<ExitCode> {
    let options = args.options(|name| std::env::var(name).ok())?;
    let client = client(args.kubeconfig.as_deref()).await?;
    let address = SocketAddr::new(args.rest_address, args.rest_port);
    // The port before the operator: one that cannot have it writes no route.
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| {
        anyhow::anyhow!("--rest-address, --rest-port: {address}: {}", listen_text(&error))
    })?;
    let printer = Arc::new(Printer::with_wall_clock(Output::Text));
    let (shutdown, abort) = (CancellationToken::new(), CancellationToken::new());
    let signals = on_signals(Arc::clone(&printer), shutdown.clone(), abort.clone())?;
    let _signals = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(signals));
    let desk = Arc::new(Desk {
        operator: HostnameOperator::start(&client, options),
        managed: Prepared::default(),
        ignored: Prepared::default(),
        status: Prepared::default(),
    });
    let at = listener.local_addr().unwrap_or(address);
    printer.note(&format!("the hostname operator answers at http://{at}/status"));
    let refreshing = refresh(Arc::clone(&desk), args.web_refresh_interval);
    let served = serve(listener, router(Arc::clone(&desk)), shutdown.clone());
    let code = tokio::select! {
        () = abort.cancelled() => ExitCode::FAILURE,
        ((), ()) = async { tokio::join!(served, drain(&desk, &shutdown)) } => ExitCode::SUCCESS,
        never = refreshing => match never {},
    };
    Ok(code)
}

/// At the end it begins nothing more, and what it began is finished.
async fn drain(desk: &Desk, shutdown: &CancellationToken) {
    shutdown.cancelled().await;
    desk.operator.stop().await;
}

/// Makes the texts anew, for ever.
async fn refresh(desk: Arc<Desk>, every: Duration) -> std::convert::Infallible {
    // An interval of zero panics, and a flag can say zero.
    let mut ticks = interval(every.max(Duration::from_millis(100)));
    loop {
        ticks.tick().await;
        let Desk {
            operator,
            managed,
            ignored,
            status,
        } = &*desk;
        managed.set(json(&operator.managed_hostnames()));
        ignored.set(json(&operator.ignore_list()));
        status.set(json(&operator.status_page(None, NAMES_MAX)));
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // Maps with texts as keys, and plain data below them, always have a form in JSON.
    serde_json::to_vec(value).unwrap_or_default()
}

fn router(desk: Arc<Desk>) -> Router {
    Router::new()
        .route("/health", get(|| async { status(StatusCode::OK, "OK") }))
        .route("/healthz", get(|| async { status(StatusCode::OK, "OK") }))
        .route("/readyz", get(ready))
        .route("/version", get(version))
        .route(
            "/managed-hostnames",
            get(|State(desk): State<Arc<Desk>>| async move { desk.managed.answer() }),
        )
        .route(
            "/ignore-list",
            get(|State(desk): State<Arc<Desk>>| async move { desk.ignored.answer() }),
        )
        .route("/status", get(shown))
        .route("/forget/{*lease}", post(forgotten))
        .with_state(desk)
}

/// The text that is at hand, or what was asked for of it.
async fn shown(State(desk): State<Arc<Desk>>, uri: Uri) -> Response<Body> {
    let Some(query) = uri.query().filter(|query| !query.is_empty()) else {
        return desk.status.answer();
    };
    let (mut after, mut limit, mut hostname) = (None, NAMES_MAX, None);
    for (field, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match &*field {
            "after" => after = Some(value.to_ascii_lowercase()),
            "hostname" => hostname = Some(value.to_ascii_lowercase()),
            "limit" => match value.parse() {
                Ok(asked @ 1..=NAMES_MAX) => limit = asked,
                _ => return status(StatusCode::BAD_REQUEST, format!("limit: use 1 to {NAMES_MAX}\n")),
            },
            _ => {
                return status(StatusCode::BAD_REQUEST, "ask with after, limit or hostname\n");
            }
        }
    }
    let found = match &hostname {
        Some(name) => desk.operator.status_of(name),
        None => Some(desk.operator.status_page(after.as_deref(), limit)),
    };
    let Some(found) = found else {
        return status(
            StatusCode::NOT_FOUND,
            "no such hostname is declared or has a route\n",
        );
    };
    let prepared = Prepared::default();
    prepared.set(json(&found));
    prepared.answer()
}

async fn ready(State(desk): State<Arc<Desk>>) -> Response<Body> {
    if desk.operator.is_ready() {
        return status(StatusCode::OK, "ok\n");
    }
    status(StatusCode::SERVICE_UNAVAILABLE, awaited(&desk.operator.status()))
}

/// What a start waits for, in words.
fn awaited(now: &Status) -> String {
    let unsynced = now
        .watches
        .iter()
        .filter(|(_, watch)| watch.is_needed && !watch.synced);
    let words = unsynced.map(|(kind, watch)| match &watch.last_error {
        Some(error) => format!("{kind} are not listed yet: {error}\n"),
        None => format!("{kind} are not listed yet\n"),
    });
    words.collect()
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

/// It costs the cluster a write for each name, so that only who is on this machine may ask for it.
async fn forgotten(
    State(desk): State<Arc<Desk>>,
    Extension(Peer(peer)): Extension<Peer>,
    Path(lease): Path<String>,
) -> Response<Body> {
    // A socket of both versions shows 127.0.0.1 as an address of version 6, which by itself is no loopback.
    if !peer.ip().to_canonical().is_loopback() {
        let words = "this is asked where the operator runs: provider-daemon operator hostname forget LEASE\n";
        return status(StatusCode::FORBIDDEN, words);
    }
    let count = desk.operator.forget(&lease);
    tracing::info!(lease, count, "hostnames of a lease are tried again");
    let prepared = Prepared::default();
    prepared.set(json(&serde_json::json!({ "lease": lease, "forgotten": count })));
    prepared.answer()
}

#[cfg(test)]
mod tests;
