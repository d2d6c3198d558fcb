//! Process of an operator: cluster client, HTTP port, election and shutdown.
//!
//! | route | response |
//! |---|---|
//! | `GET /health`, `/healthz` | 200 while the process runs |
//! | `GET /readyz` | 200 after the initial lists; 503 with the pending lists before |
//! | `GET /version` | name, version, commit |
//! | `GET /status` | status of the operator and of the election |
//! | `GET /metrics` | metrics for Prometheus |

use super::metrics;
use super::pod;
use super::responses::{answer, json, not_local};
use super::serve::{CachedBody, Peer, serve, status, typed};
use crate::COMMIT;
use crate::args::operators::common::{CommonArgs, ElectionArg};
use crate::cluster_client::client;
use crate::metrics::convert::flag;
use crate::metrics::{Format, Measure, OperatorValues};
use crate::printer::Printer;
use crate::signals::on_signals;
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::flags::Output;
use akash_provider_core::election::{Candidate, ElectionConfig};
use akash_provider_core::error::listen_text;
use akash_provider_k8s::election::{Election, LeaseElection, Timing};
use akash_provider_k8s::write_client::WriteClient;
use akash_provider_operators::WorkStatistics;
use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::routing::{get, post};
use http::{Response, StatusCode, Uri};
use kube::Client;
use serde_json::{Value, json as object};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Default HTTP port.
const REST_PORT: u16 = 8080;
/// Default maximum age of a cached response.
const REFRESH: Duration = Duration::from_secs(5);

/// Interface between an operator and the process that runs the operator.
pub(super) trait Operator: Send + Sync + 'static {
    /// Name of the operator. Its election Lease is `akash-operator-NAME`.
    const NAME: &'static str;
    /// Paths of cached responses, in addition to the paths that all operators serve.
    const TEXTS: &'static [&'static str];

    /// Returns true after the initial lists of all watches.
    fn is_ready(&self) -> bool;

    /// Returns the unmet conditions for readiness, one per line.
    fn awaited(&self) -> String;

    /// Returns a new JSON response to a path in [`Operator::TEXTS`]. Returns `None` if the cached response is
    /// valid.
    fn text(&self, path: &str) -> Option<Vec<u8>>;

    /// Returns why the response of a path is unavailable; `None` if it is available.
    fn unavailable(&self, _path: &str) -> Option<String> {
        None
    }

    /// Returns the text of the 503 response for a path without a cached response. If this method returns
    /// `None`, the status is 204.
    fn missing(&self, _path: &str) -> Option<&'static str> {
        None
    }

    fn status(&self) -> Value;

    /// Returns the status items that the query string selects, or an error response.
    fn page(&self, _query: &str) -> Result<Value, (StatusCode, String)> {
        Err((
            StatusCode::BAD_REQUEST,
            "this status has no query parameters\n".to_owned(),
        ))
    }

    /// Returns the metrics of the operator, except those of [`Operator::work`].
    fn measures(&self) -> Vec<Measure>;

    /// Returns statistics of the work queue, the writes and the deletions.
    fn work(&self) -> WorkStatistics;

    /// Returns the routes of the operator. Omits the paths with a cached response.
    fn routes(self: Arc<Self>) -> Router;

    /// Returns log text about further listening addresses, or an empty text.
    fn also_answers(&self) -> String {
        String::new()
    }

    /// Confirms the withheld deletions and returns their number. Returns `None` if the operator never
    /// withholds deletions.
    fn confirm(&self) -> Option<usize> {
        None
    }

    fn beside(self: Arc<Self>, until: CancellationToken) -> impl Future<Output = ()> + Send {
        async move { until.cancelled().await }
    }

    /// Starts no new work, and waits for the work in progress.
    fn stop(&self) -> impl Future<Output = ()> + Send;
}

/// Operator with its election and its cached responses.
pub(super) struct Process<O> {
    pub(super) operator: Arc<O>,
    election: Option<Election>,
    texts: BTreeMap<&'static str, CachedBody>,
    /// Maximum age of a cached response.
    every: Duration,
}

/// Runs an operator until a signal stops the process. Opens the port before any write.
///
/// # Errors
/// Returns an error if no cluster is configured, or if the port is in use. An unreachable cluster is not an
/// error.
pub(super) fn run<O: Operator>(
    args: &CommonArgs,
    start: impl AsyncFnOnce(&WriteClient) -> anyhow::Result<O>,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(live(args, start));
    runtime.shutdown_timeout(Duration::from_secs(1));
    code
}

async fn live<O: Operator>(
    args: &CommonArgs,
    start: impl AsyncFnOnce(&WriteClient) -> anyhow::Result<O>,
) -> anyhow::Result<ExitCode> {
    let client = client(args.kubeconfig.as_deref()).await?;
    let port = match args.rest_port {
        Some(port) => port,
        None => pod::port(&client, args, "rest").await.unwrap_or(REST_PORT),
    };
    let address = SocketAddr::new(args.rest_address, port);
    let listener = bind("--rest-port", address).await?;
    let printer = Arc::new(Printer::with_wall_clock(Output::Text));
    let (shutdown, abort) = (CancellationToken::new(), CancellationToken::new());
    let signals = on_signals(Arc::clone(&printer), shutdown.clone(), abort.clone())?;
    let _signals = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(signals));
    let election = (args.election == ElectionArg::On).then(|| {
        let identity = pod::identity(args.pod_name.as_deref());
        elected(&client, O::NAME, &args.k8s_manifest_ns, identity, args.timing())
    });
    let client = match &election {
        Some(election) => WriteClient::sharing(client, election.gate()),
        None => WriteClient::without_election(client),
    };
    let operator = start(&client).await?;
    let process = Process::new(operator, election).refreshed(args.web_refresh_interval);
    let process = Arc::new(process);
    let at = listener.local_addr().unwrap_or(address);
    let also = process.operator.also_answers();
    printer.note(&format!(
        "the {} operator listens at http://{at}/status{also}",
        O::NAME
    ));
    let served = serve(listener, router(&process), shutdown.clone());
    let beside = Arc::clone(&process.operator).beside(shutdown.clone());
    let code = tokio::select! {
        () = abort.cancelled() => ExitCode::FAILURE,
        ((), (), ()) = async { tokio::join!(served, beside, drain(&process, &shutdown)) } => ExitCode::SUCCESS,
    };
    Ok(code)
}

/// Opens a port that `--rest-address` and the flag `flag` select.
pub(super) async fn bind(flag: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| {
        anyhow::anyhow!(WithHelp::new(
            format!("--rest-address, {flag}: {address}: {}", listen_text(&error)),
            format!("set --rest-address and {flag} to a free address of this machine")
        ))
    })
}

pub(super) fn elected(
    client: &Client,
    name: &str,
    namespace: &str,
    identity: String,
    timing: Timing,
) -> Election {
    let name = format!("akash-operator-{name}");
    let me = Candidate::new(identity);
    let mut config = ElectionConfig::new(name.clone(), me, timing);
    config.may_be_alone = true;
    Election::start(
        LeaseElection::new(client, namespace, &name, config.call_timeout),
        config,
    )
}

async fn drain<O: Operator>(process: &Process<O>, shutdown: &CancellationToken) {
    shutdown.cancelled().await;
    process.stop().await;
}

impl<O: Operator> Process<O> {
    pub(super) fn new(operator: impl Into<Arc<O>>, election: Option<Election>) -> Self {
        let paths = O::TEXTS.iter().copied().chain(["/status"]);
        Self {
            operator: operator.into(),
            election,
            texts: paths.map(|path| (path, CachedBody::default())).collect(),
            every: REFRESH,
        }
    }

    /// Sets the maximum age of cached responses.
    fn refreshed(mut self, every: Duration) -> Self {
        // The minimum limits the load of frequent requests.
        self.every = every.max(Duration::from_millis(100));
        self
    }

    /// Stops the operator, waits for its work, and then releases its election lease.
    pub(super) async fn stop(&self) {
        self.operator.stop().await;
        if let Some(election) = &self.election {
            election.release().await;
        }
    }

    /// Confirms the withheld deletions, and returns their number.
    ///
    /// # Errors
    /// Returns an error if another instance leads, or if this operator never withholds deletions.
    pub(super) fn confirm(&self) -> Result<usize, String> {
        let election = self.election.as_ref().map(Election::status);
        if let Some(election) = election.filter(|election| !election.is_leader) {
            let holder = election.holder.unwrap_or_else(|| "no instance".to_owned());
            return Err(format!(
                "cannot confirm deletions: {holder} leads the {0} operator; run `operator {0} confirm` there",
                O::NAME
            ));
        }
        let nothing = || format!("the {} operator holds no deletions", O::NAME);
        self.operator.confirm().ok_or_else(nothing)
    }

    pub(super) fn values(&self) -> OperatorValues {
        let election = self.election.as_ref();
        OperatorValues {
            name: O::NAME,
            is_ready: self.operator.is_ready(),
            is_leader: election.is_none_or(|election| election.status().is_leader),
            work: self.operator.work(),
        }
    }

    pub(super) fn status(&self) -> Value {
        self.with_election(self.operator.status())
    }

    fn with_election(&self, mut status: Value) -> Value {
        if let (Some(election), Some(fields)) = (&self.election, status.as_object_mut()) {
            fields.insert("election".to_owned(), object!(election.status()));
        }
        status
    }

    fn page_response(&self, path: &str) -> Response<Body> {
        if let Some(words) = self.operator.unavailable(path) {
            return status(StatusCode::SERVICE_UNAVAILABLE, words);
        }
        let text = self.texts.get(path).map(|text| {
            let is_ready = self.operator.is_ready();
            text.renew(self.every, is_ready, || match path {
                "/status" => Some(json(&self.status())),
                path => self.operator.text(path),
            });
            text.answer()
        });
        match (text, self.operator.missing(path)) {
            (Some(text), Some(words)) if text.status() == StatusCode::NO_CONTENT => {
                status(StatusCode::SERVICE_UNAVAILABLE, words)
            }
            (Some(text), _) => text,
            (None, _) => status(StatusCode::NOT_FOUND, ""),
        }
    }

    fn measures(&self) -> Vec<Measure> {
        let mut measures = self.operator.measures();
        let values = self.values();
        measures.push(Measure::gauge("ready", "1 after the initial lists").with([], flag(values.is_ready)));
        measures.push(Measure::gauge("leader", "1 for the leader").with([], flag(values.is_leader)));
        measures.extend(metrics::work_metrics(&values.work));
        measures
    }
}

pub(super) fn router<O: Operator>(process: &Arc<Process<O>>) -> Router {
    let mut router = Router::new()
        .route("/health", get(|| async { status(StatusCode::OK, "OK") }))
        .route("/healthz", get(|| async { status(StatusCode::OK, "OK") }))
        .route("/readyz", get(ready::<O>))
        .route("/metrics", get(scrape::<O>))
        .route("/version", get(version))
        .route("/confirm", post(confirm::<O>));
    for path in process.texts.keys().copied() {
        let page = move |State(process): State<Arc<Process<O>>>, uri: Uri| async move {
            if let Some(query) = uri.query().filter(|query| path == "/status" && !query.is_empty()) {
                return match process.operator.page(query) {
                    Ok(page) => answer(StatusCode::OK, &process.with_election(page)),
                    Err((code, words)) => status(code, words),
                };
            }
            process.page_response(path)
        };
        router = router.route(path, get(page));
    }
    let own = Arc::clone(&process.operator).routes();
    router.with_state(Arc::clone(process)).merge(own)
}

async fn confirm<O: Operator>(
    State(process): State<Arc<Process<O>>>,
    Extension(peer): Extension<Peer>,
) -> Response<Body> {
    if let Some(refused) = not_local(peer, &format!("{} confirm", O::NAME)) {
        return refused;
    }
    match process.confirm() {
        Ok(confirmed) => answer(StatusCode::OK, &object!({ "confirmed": confirmed })),
        Err(why) => status(StatusCode::CONFLICT, why + "\n"),
    }
}

async fn ready<O: Operator>(State(process): State<Arc<Process<O>>>) -> Response<Body> {
    if process.operator.is_ready() {
        return status(StatusCode::OK, "ok\n");
    }
    status(StatusCode::SERVICE_UNAVAILABLE, process.operator.awaited())
}

async fn scrape<O: Operator>(State(process): State<Arc<Process<O>>>) -> Response<Body> {
    let Some(text) = metrics::text(O::NAME, process.measures()) else {
        return status(StatusCode::INTERNAL_SERVER_ERROR, "cannot encode the metrics\n");
    };
    typed(StatusCode::OK, Format::OpenMetrics.content_type(), text)
}

async fn version() -> Response<Body> {
    answer(
        StatusCode::OK,
        &object!({
            "name": "provider-services",
            "server_name": crate::PROGRAM,
            "version": env!("CARGO_PKG_VERSION"),
            "commit": COMMIT,
        }),
    )
}
