//! `operator hostname`: routes of declared hostnames.
//!
//! | route | says |
//! |---|---|
//! | `GET /health` | it runs |
//! | `GET /readyz` | everything was listed; 503 with what is awaited before that |
//! | `GET /version` | name, version, commit |
//! | `GET /managed-hostnames`, `/ignore-list` | as today's operator says it |
//! | `GET /status` | watches, counts, and each hostname as it is wanted, written and accepted |
//! | `POST /forget/LEASE` | its hostnames are tried again now; from this machine alone |

use super::serve::{Peer, Prepared, serve, status};
use super::words::{awaited, forgotten, json, version};
use crate::args::Output;
use crate::args::operators::HostnameArgs;
use crate::cluster_client::client;
use crate::dev::Printer;
use crate::signals::on_signals;
use akash_provider_core::error::listen_text;
use akash_provider_k8s::operators::hostname::HostnameOperator;
use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::routing::{get, post};
use http::{Response, StatusCode};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::interval;
use tokio_util::sync::CancellationToken;

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
    let options = args.options(|name| std::env::var(name).ok());
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
        status.set(json(&operator.status()));
    }
}

fn router(desk: Arc<Desk>) -> Router {
    Router::new()
        .route("/health", get(|| async { status(StatusCode::OK, "OK") }))
        .route("/healthz", get(|| async { status(StatusCode::OK, "OK") }))
        .route("/readyz", get(ready))
        .route("/version", get(|| async { version() }))
        .route(
            "/managed-hostnames",
            get(|State(desk): State<Arc<Desk>>| async move { desk.managed.answer() }),
        )
        .route(
            "/ignore-list",
            get(|State(desk): State<Arc<Desk>>| async move { desk.ignored.answer() }),
        )
        .route(
            "/status",
            get(|State(desk): State<Arc<Desk>>| async move { desk.status.answer() }),
        )
        .route("/forget/{*lease}", post(forget))
        .with_state(desk)
}

async fn ready(State(desk): State<Arc<Desk>>) -> Response<Body> {
    if desk.operator.is_ready() {
        return status(StatusCode::OK, "ok\n");
    }
    status(
        StatusCode::SERVICE_UNAVAILABLE,
        awaited(&desk.operator.status().watches),
    )
}

async fn forget(
    State(desk): State<Arc<Desk>>,
    Extension(peer): Extension<Peer>,
    Path(lease): Path<String>,
) -> Response<Body> {
    forgotten("hostname", peer, &lease, || desk.operator.forget(&lease))
}

#[cfg(test)]
mod tests;
