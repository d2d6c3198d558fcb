//! `operator ip`: load balancers of leased addresses.
//!
//! | route | says |
//! |---|---|
//! | `GET /health` | it runs |
//! | `GET /readyz` | records and Services were listed; 503 with what is awaited before that |
//! | `GET /version` | name, version, commit |
//! | `GET /usage`, `/state`, `/ignored-leases`, `/ip-lease-status/OWNER/DSEQ/GSEQ/OSEQ` | as today's operator says it |
//! | `GET /status` | watches, pools, counts, and each port of an address as it is wanted, written and given |
//! | `POST /forget/LEASE` | its addresses are tried again now; from this machine alone |

use super::serve::{Peer, Prepared, serve, status};
use super::words::{awaited, forgotten, json, version};
use crate::args::Output;
use crate::args::operators::IpArgs;
use crate::cluster_client::client;
use crate::dev::Printer;
use crate::signals::on_signals;
use akash_provider_core::error::listen_text;
use akash_provider_core::types::{Address, DeploymentId, GroupId, LeaseId, OrderId};
use akash_provider_k8s::operators::ip::IpOperator;
use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::routing::{get, post};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use serde::Serialize;
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
    operator: IpOperator,
    usage: Prepared,
    state: Prepared,
    ignored: Prepared,
    status: Prepared,
}

/// How many addresses there are, as today's operator says it.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Counted {
    /// All of them: that is what it means by the word.
    available: u32,
    in_use: u32,
}

/// An error as today's operator says it.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Failed {
    error: String,
    code: i32,
}

impl Desk {
    fn new(operator: IpOperator) -> Self {
        Self {
            operator,
            usage: Prepared::default(),
            state: Prepared::default(),
            ignored: Prepared::default(),
            status: Prepared::default(),
        }
    }

    fn refresh(&self) {
        let operator = &self.operator;
        self.status.set(json(&operator.status()));
        if !operator.is_ready() {
            return;
        }
        self.state.set(json(&operator.held()));
        self.ignored.set(json(&operator.ignored_leases()));
        if let Some((available, in_use)) = operator.usage().known() {
            self.usage.set(json(&Counted { available, in_use }));
        }
    }
}

/// Runs until it is told to stop.
///
/// # Errors
/// A setting makes no sense, no cluster is known, or its port is taken. That the cluster is away is no error.
pub fn run(args: &IpArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(live(args));
    runtime.shutdown_timeout(Duration::from_secs(1));
    code
}

async fn live(args: &IpArgs) -> anyhow::Result<ExitCode> {
    let options = args.options()?;
    let client = client(args.kubeconfig.as_deref()).await?;
    let address = SocketAddr::new(args.rest_address, args.rest_port);
    // The port before the operator: one that cannot have it writes nothing.
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| {
        anyhow::anyhow!("--rest-address, --rest-port: {address}: {}", listen_text(&error))
    })?;
    let printer = Arc::new(Printer::with_wall_clock(Output::Text));
    let (shutdown, abort) = (CancellationToken::new(), CancellationToken::new());
    let signals = on_signals(Arc::clone(&printer), shutdown.clone(), abort.clone())?;
    let _signals = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(signals));
    let desk = Arc::new(Desk::new(IpOperator::start(&client, options)));
    let at = listener.local_addr().unwrap_or(address);
    printer.note(&format!("the IP operator answers at http://{at}/status"));
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
        let was_ready = desk.operator.is_ready();
        tokio::select! {
            _ = ticks.tick() => {}
            // Whoever waits for that asks at once.
            () = desk.operator.ready(), if !was_ready => {}
        }
        desk.refresh();
    }
}

fn router(desk: Arc<Desk>) -> Router {
    Router::new()
        .route("/health", get(|| async { status(StatusCode::OK, "OK") }))
        .route("/healthz", get(|| async { status(StatusCode::OK, "OK") }))
        .route("/readyz", get(ready))
        .route("/version", get(|| async { version() }))
        .route("/usage", get(usage))
        .route(
            "/state",
            get(|State(desk): State<Arc<Desk>>| async move { synced(&desk, || desk.state.answer()) }),
        )
        .route(
            "/ignored-leases",
            get(|State(desk): State<Arc<Desk>>| async move { synced(&desk, || desk.ignored.answer()) }),
        )
        .route(
            "/status",
            get(|State(desk): State<Arc<Desk>>| async move { desk.status.answer() }),
        )
        .route("/ip-lease-status/{owner}/{dseq}/{gseq}/{oseq}", get(of_lease))
        .route("/forget/{*lease}", post(forget))
        .with_state(desk)
}

/// The answer, or 503 before everything was listed.
fn synced(desk: &Desk, answer: impl FnOnce() -> Response<Body>) -> Response<Body> {
    if desk.operator.is_ready() {
        return answer();
    }
    let mut watches = desk.operator.status().watches;
    // Nobody waits for the pools.
    watches.remove("ipaddresspools");
    status(StatusCode::SERVICE_UNAVAILABLE, awaited(&watches))
}

async fn ready(State(desk): State<Arc<Desk>>) -> Response<Body> {
    synced(&desk, || status(StatusCode::OK, "ok\n"))
}

async fn usage(State(desk): State<Arc<Desk>>) -> Response<Body> {
    synced(&desk, || {
        let answer = desk.usage.answer();
        // Unknown is not none: who promises addresses has to keep what was said last.
        if answer.status() == StatusCode::NO_CONTENT {
            let words = "how many addresses there are is not known; /status says why\n";
            return status(StatusCode::SERVICE_UNAVAILABLE, words);
        }
        answer
    })
}

async fn of_lease(
    State(desk): State<Arc<Desk>>,
    Path((owner, dseq, gseq, oseq)): Path<(String, String, String, String)>,
) -> Response<Body> {
    synced(&desk, || {
        let Some(lease) = lease(&desk, &owner, &dseq, &gseq, &oseq) else {
            return status(StatusCode::NOT_FOUND, "");
        };
        match desk.operator.assigned(&lease) {
            Ok(all) if all.is_empty() => status(StatusCode::NO_CONTENT, ""),
            Ok(all) => answer(StatusCode::OK, &all),
            Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, &Failed { error, code: -1 }),
        }
    })
}

fn lease(desk: &Desk, owner: &str, dseq: &str, gseq: &str, oseq: &str) -> Option<LeaseId> {
    let owner: Address = owner.parse().ok()?;
    let deployment = DeploymentId {
        owner,
        dseq: dseq.parse().ok()?,
    };
    let group = GroupId {
        deployment,
        gseq: gseq.parse().ok()?,
    };
    Some(LeaseId {
        order: OrderId {
            group,
            oseq: oseq.parse().ok()?,
        },
        provider: desk.operator.provider().clone(),
    })
}

fn answer(code: StatusCode, value: &impl Serialize) -> Response<Body> {
    let mut text = json(value);
    text.push(b'\n');
    let mut answer = Response::new(Body::from(text));
    *answer.status_mut() = code;
    let kind = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

async fn forget(
    State(desk): State<Arc<Desk>>,
    Extension(peer): Extension<Peer>,
    Path(lease): Path<String>,
) -> Response<Body> {
    forgotten("ip", peer, &lease, || desk.operator.forget(&lease))
}

#[cfg(test)]
mod tests;
