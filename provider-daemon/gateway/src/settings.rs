//! Settings and limits of the gateway.

use super::clock::Clock;
use super::{GatewayCounters, LeadershipSource, Screening};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Settings of a gateway. Create this struct with [`GatewaySettings::at`], then change single fields.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GatewaySettings {
    /// Address of the port for REST and websockets (`gateway-listen-address`).
    pub listen: SocketAddr,
    /// Address of the gRPC port (`gateway-grpc-listen-address`). `None` disables gRPC.
    pub grpc_listen: Option<SocketAddr>,
    /// Public hostname of the provider (`cluster-public-hostname`). May be empty.
    pub public_hostname: String,
    /// Reclamation window that every bid of the provider offers.
    pub reclamation_window: Option<Duration>,
    /// Certificate of a public certificate authority, used only for connections to the public hostname.
    pub public_certificate: Option<CertificateFiles>,
    /// Maximum lifetime of a token. `None` for no maximum.
    pub token_lifetime_max: Option<Duration>,
    /// Configuration of bid screening. `None` disables bid screening.
    pub screening: Option<Screening>,
    /// Name and version of the program that serves the gateway, for `/version`.
    pub program: ProgramVersion,
    /// Texts that the response of `/readyz` contains, for example about missing features.
    pub notes: Vec<String>,
    /// Source of a problem that `/readyz` reports. The problem does not affect requests of tenants.
    pub problem: Option<ProblemSource>,
    /// Source of the state of the leader election. `None` for a provider with a single instance.
    pub leadership: Option<LeadershipSource>,
    /// Limits for connections, requests and streams.
    pub limits: GatewayLimits,
    /// Counters of requests and connections. Use a clone to read the statistics of the gateway.
    pub counters: GatewayCounters,
    /// Clock for the validity of tokens and certificates.
    pub clock: Clock,
}

impl GatewaySettings {
    /// Returns the default settings, with `listen` as the address of REST and websockets.
    #[must_use]
    pub fn at(listen: SocketAddr) -> Self {
        Self {
            listen,
            grpc_listen: None,
            public_hostname: String::new(),
            reclamation_window: None,
            public_certificate: None,
            token_lifetime_max: None,
            screening: None,
            program: ProgramVersion::default(),
            notes: Vec::new(),
            problem: None,
            leadership: None,
            limits: GatewayLimits::default(),
            counters: GatewayCounters::default(),
            clock: Clock::default(),
        }
    }
}

/// Source of the program's current problem. Any client can read the text, so the text must contain no path
/// and no secret.
#[derive(Clone)]
pub struct ProblemSource(Arc<dyn Fn() -> Option<String> + Send + Sync>);

impl fmt::Debug for ProblemSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProblemSource").field(&self.now()).finish()
    }
}

impl ProblemSource {
    /// Creates a source that calls `now` for the current problem.
    #[must_use]
    pub fn new(now: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the current problem, or `None` without a problem.
    #[must_use]
    pub fn now(&self) -> Option<String> {
        (self.0)()
    }
}

/// Name and version of the program that serves the gateway, as `/version` reports them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramVersion {
    /// Name of the program: the field `server_name` of `/version`.
    pub name: &'static str,
    /// Version of the program, from its `Cargo.toml`.
    pub version: &'static str,
    /// Commit that the program was built from, in hexadecimal; empty if unknown.
    pub commit: &'static str,
}

impl Default for ProgramVersion {
    fn default() -> Self {
        Self {
            name: env!("CARGO_PKG_NAME"),
            version: env!("CARGO_PKG_VERSION"),
            commit: "",
        }
    }
}

/// A certificate chain and its key, as PEM files (`AP_GATEWAY_TLS_CERT`, `AP_GATEWAY_TLS_KEY`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// Certificate chain, the server's certificate first.
    pub certificate: PathBuf,
    /// Private key of the first certificate, as unencrypted PEM. A change of the certificate file or of the
    /// key file reloads both files.
    pub key: PathBuf,
}

/// Limits of the gateway. Create this struct with `GatewayLimits::default()`, then change single fields.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayLimits {
    /// Maximum number of concurrent connections on each port, including streams. The limit of open files can
    /// reduce this maximum. A connection uses about 10 KiB.
    pub connections: usize,
    /// Maximum number of concurrent connections per IP network, on both ports together. Connections of
    /// accounts with a live lease are not counted. At the maximum, a new connection replaces the least
    /// recently used connection. Anonymous connections are replaced first.
    pub unleased_per_network: usize,
    /// Maximum number of anonymous requests of one IP network per minute.
    pub requests_per_network: u32,
    /// Maximum number of groups that one IP network may screen per minute.
    pub screenings_per_network: u32,
    /// Maximum number of concurrent screenings. A screening ends when its response is written.
    pub screenings: usize,
    /// Maximum number of chain queries per minute and IP network. Queries for known accounts and
    /// certificates are not counted.
    pub unknown_per_network: u32,
    /// Maximum number of concurrent gRPC status streams of all clients.
    pub status_streams: usize,
    /// Maximum number of concurrent gRPC status streams of one IP network.
    pub status_streams_per_network: usize,
    /// Maximum time of a TLS handshake.
    pub handshake: Duration,
    /// Maximum time between the end of a request and the complete head of the next request on a connection. An HTTP/2
    /// connection without an open call is closed after this time.
    pub idle: Duration,
    /// Maximum size of a request's head, in bytes.
    pub head_bytes: usize,
    /// Maximum size of a manifest in a request body, in bytes.
    pub body_bytes: usize,
    /// Maximum time to receive the body of a request.
    pub body: Duration,
    /// Maximum time of a query to the cluster.
    pub cluster: Duration,
    /// Maximum age of the cached provider status.
    pub status_age: Duration,
    /// Time after which a connection is closed if pending data makes no progress.
    pub write: Duration,
    /// Maximum number of concurrent streams (logs, events, shells) of one tenant.
    pub streams_per_tenant: usize,
    /// Interval of pings on websockets and on HTTP/2. Clients close a connection after 15 s without a ping.
    pub ping: Duration,
    /// Maximum time between a ping and the response of the client.
    pub pong: Duration,
    /// Maximum time for which the client of a stream may stop reading.
    pub stalled: Duration,
    /// Maximum size of a websocket message from a client, in bytes.
    pub frame_bytes: usize,
    /// Interval at which a certificate is compared with the chain, also on open connections. A revocation
    /// takes effect after at most twice this time.
    pub recheck: Duration,
    /// Interval at which the gateway checks the files of the public certificate for changes.
    pub certificate_interval: Duration,
    /// Maximum time for open requests and streams to end during a shutdown.
    pub grace: Duration,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        const SECOND: Duration = Duration::from_secs(1);
        Self {
            connections: 12_000,
            unleased_per_network: 256,
            requests_per_network: 3000,
            screenings_per_network: 60,
            screenings: 4,
            unknown_per_network: 60,
            status_streams: 1024,
            status_streams_per_network: 32,
            handshake: 10 * SECOND,
            idle: 60 * SECOND,
            head_bytes: 64 * 1024,
            body_bytes: akash_provider_core::manifest::MAX_BYTES,
            body: 30 * SECOND,
            cluster: 30 * SECOND,
            status_age: SECOND / 5,
            write: 60 * SECOND,
            streams_per_tenant: 256,
            ping: 10 * SECOND,
            pong: 15 * SECOND,
            stalled: 60 * SECOND,
            frame_bytes: 64 * 1024,
            recheck: 30 * SECOND,
            certificate_interval: 30 * SECOND,
            grace: 5 * SECOND,
        }
    }
}
