//! Statistics of the gateway, as plain data.

use crate::App;
use crate::auth::Denial;
use akash_provider_core::statistics::{CALL_BOUNDS, CounterMap, DurationCounts, DurationHistogram};
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, Method};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::Instant;

/// Maximum number of counted combinations of route, method and status.
const REQUESTS_MAX: usize = 512;
/// Maximum number of keys in each counter map, except the map of requests.
const KEYS_MAX: usize = 64;
/// Value of [`RequestKind::route`] for an unknown path.
const NO_ROUTE: &str = "other";
/// Path of the provider's gRPC service, without the name of the method.
const PROVIDER_RPC: &str = "/akash.provider.v1.ProviderRPC/";
const RPC_METHODS: [&str; 3] = ["GetStatus", "StreamStatus", "BidScreening"];

/// Requests that are counted together: route, method and status.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKind {
    /// Pattern of the path, such as `/lease/{dseq}/{gseq}/{oseq}/status`; `other` for an unknown path.
    pub route: String,
    /// HTTP method, or `other`.
    pub method: &'static str,
    /// HTTP status of the response.
    pub status: u16,
    /// gRPC status in the head of a response, otherwise 0.
    pub grpc_status: u8,
}

/// Kind of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamKind {
    /// Logs of a lease.
    Logs,
    /// Kubernetes events of a lease.
    Events,
    /// Command in a container.
    Shell,
    /// Status of the provider over gRPC.
    Status,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    Rest,
    Grpc,
}

/// Statistics of connections to one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortStatistics {
    /// Number of open connections, including streams.
    pub open: u64,
    /// Number of accepted connections.
    pub accepted: u64,
    /// Number of connections that were closed in favor of other connections.
    pub displaced: u64,
    /// Number of connections that waited until another connection was closed.
    pub delayed: u64,
    /// Number of failed TLS handshakes.
    pub failed_handshakes: u64,
}

/// Statistics of a gateway since the start of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayStatistics {
    /// Number of requests by kind.
    pub requests: BTreeMap<RequestKind, u64>,
    /// Durations from a request to the head of its response.
    pub durations: DurationCounts,
    /// Connections to the port of REST and websockets.
    pub rest: PortStatistics,
    /// Connections to the port of gRPC.
    pub grpc: PortStatistics,
    /// Number of currently open streams, by kind.
    pub open_streams: BTreeMap<StreamKind, u64>,
    /// Number of streams opened since the start of the process, by kind.
    pub streams: BTreeMap<StreamKind, u64>,
    /// Number of streams refused because of a limit, by kind.
    pub refused_streams: BTreeMap<StreamKind, u64>,
    /// Number of requests and connections with rejected credentials, by reason.
    pub rejected_credentials: BTreeMap<&'static str, u64>,
    /// Number of requests without credentials that were refused, because their IP network has used its
    /// budget.
    pub over_budget: u64,
}

/// Counters of a gateway, shared by all clones. A new gateway can continue the counters of a stopped gateway.
#[derive(Debug, Clone)]
pub struct GatewayCounters(Arc<Counters>);

#[derive(Debug)]
struct Counters {
    requests: CounterMap<RequestKind>,
    durations: DurationHistogram,
    ports: [PortCounters; 2],
    open_streams: [AtomicU64; 4],
    streams: CounterMap<StreamKind>,
    refused_streams: CounterMap<StreamKind>,
    rejected: CounterMap<&'static str>,
    over_budget: AtomicU64,
}

#[derive(Debug, Default)]
struct PortCounters {
    open: AtomicU64,
    accepted: AtomicU64,
    displaced: AtomicU64,
    delayed: AtomicU64,
    failed_handshakes: AtomicU64,
}

/// Open stream. Dropping this value counts the stream as closed.
#[derive(Debug)]
pub(crate) struct OpenStream {
    counters: GatewayCounters,
    kind: StreamKind,
}

impl StreamKind {
    /// All kinds of streams.
    pub const ALL: [Self; 4] = [Self::Logs, Self::Events, Self::Shell, Self::Status];

    /// Returns the name of the kind, such as `logs`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Logs => "logs",
            Self::Events => "events",
            Self::Shell => "shell",
            Self::Status => "status",
        }
    }
}

impl Default for GatewayCounters {
    fn default() -> Self {
        let other = RequestKind {
            route: NO_ROUTE.to_owned(),
            method: "other",
            status: 0,
            grpc_status: 0,
        };
        Self(Arc::new(Counters {
            requests: CounterMap::new(REQUESTS_MAX, other),
            durations: DurationHistogram::new(&CALL_BOUNDS),
            ports: Default::default(),
            open_streams: Default::default(),
            streams: CounterMap::new(KEYS_MAX, StreamKind::Status),
            refused_streams: CounterMap::new(KEYS_MAX, StreamKind::Status),
            rejected: CounterMap::new(KEYS_MAX, "other"),
            over_budget: AtomicU64::new(0),
        }))
    }
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

fn increment(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

impl GatewayCounters {
    /// Returns a copy of the counters.
    #[must_use]
    pub fn statistics(&self) -> GatewayStatistics {
        let counters = &*self.0;
        let open = StreamKind::ALL.into_iter().zip(&counters.open_streams);
        GatewayStatistics {
            requests: counters.requests.values(),
            durations: counters.durations.values(),
            rest: self.port(Port::Rest).statistics(),
            grpc: self.port(Port::Grpc).statistics(),
            open_streams: open.map(|(kind, count)| (kind, load(count))).collect(),
            streams: counters.streams.values(),
            refused_streams: counters.refused_streams.values(),
            rejected_credentials: counters.rejected.values(),
            over_budget: load(&counters.over_budget),
        }
    }

    fn port(&self, port: Port) -> &PortCounters {
        let [rest, grpc] = &self.0.ports;
        match port {
            Port::Rest => rest,
            Port::Grpc => grpc,
        }
    }

    pub(crate) fn count_denial(&self, denial: Denial) {
        self.0.rejected.increment(denial.name());
    }

    /// Counts a connection with a client certificate that is invalid on the chain.
    pub(crate) fn count_certificate(&self) {
        self.0.rejected.increment("certificate");
    }

    pub(crate) fn count_over_budget(&self) {
        increment(&self.0.over_budget);
    }

    pub(crate) fn connection_opened(&self, port: Port) {
        increment(&self.port(port).open);
        increment(&self.port(port).accepted);
    }

    pub(crate) fn connection_closed(&self, port: Port) {
        self.port(port).open.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn count_displaced(&self, port: Port) {
        increment(&self.port(port).displaced);
    }

    pub(crate) fn count_delayed(&self, port: Port) {
        increment(&self.port(port).delayed);
    }

    pub(crate) fn count_failed_handshake(&self, port: Port) {
        increment(&self.port(port).failed_handshakes);
    }

    /// Counts a stream as open until the returned value is dropped.
    pub(crate) fn open_stream(&self, kind: StreamKind) -> OpenStream {
        self.0.streams.increment(kind);
        increment(&self.0.open_streams[kind as usize]);
        OpenStream {
            counters: self.clone(),
            kind,
        }
    }

    pub(crate) fn count_refused_stream(&self, kind: StreamKind) {
        self.0.refused_streams.increment(kind);
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let open = &self.counters.0.open_streams[self.kind as usize];
        open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PortCounters {
    fn statistics(&self) -> PortStatistics {
        PortStatistics {
            open: load(&self.open),
            accepted: load(&self.accepted),
            displaced: load(&self.displaced),
            delayed: load(&self.delayed),
            failed_handshakes: load(&self.failed_handshakes),
        }
    }
}

pub(crate) async fn count_requests(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (route, method) = (route(&request), method(request.method()));
    let began = Instant::now();
    let response = next.run(request).await;
    let counters = &*app.counters.0;
    counters.durations.record(began.elapsed());
    counters.requests.increment(RequestKind {
        route,
        method,
        status: response.status().as_u16(),
        grpc_status: grpc_status(response.headers()),
    });
    response
}

fn route(request: &Request) -> String {
    let path = request.uri().path();
    let rpc = path.strip_prefix(PROVIDER_RPC);
    match (rpc, request.extensions().get::<MatchedPath>()) {
        (Some(method), _) if RPC_METHODS.contains(&method) => path.to_owned(),
        (_, Some(matched)) => matched.as_str().to_owned(),
        (_, None) => NO_ROUTE.to_owned(),
    }
}

fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::PATCH => "PATCH",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// Returns the gRPC status in the head of a response, or 0. A response with a message has its status in the
/// trailers.
fn grpc_status(headers: &HeaderMap) -> u8 {
    let status = headers.get("grpc-status").and_then(|status| status.to_str().ok());
    status.and_then(|status| status.parse().ok()).unwrap_or(0)
}
