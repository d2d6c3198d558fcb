//! Settings of the gateway, and its limits.

use super::auth::Clock;
use super::{LeadershipSource, Screening};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of a gateway: begin with [`Settings::at`] and change what is to be otherwise.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// Where REST and websockets are served (`gateway-listen-address`).
    pub listen: SocketAddr,
    /// Where gRPC is served (`gateway-grpc-listen-address`); `None` for nowhere.
    pub grpc_listen: Option<SocketAddr>,
    /// Name by which tenants reach the provider (`cluster-public-hostname`); empty for none.
    pub public_hostname: String,
    /// Window offered in every bid, as the status shows it.
    pub reclamation_window: Option<Duration>,
    /// A certificate of a public authority, for the public name alone.
    pub public_certificate: Option<CertificateFiles>,
    /// A token valid for longer than this is refused; `None` for no limit.
    pub token_lifetime_max: Option<Duration>,
    /// What bids follow from, for whoever asks whether there would be one; without it nobody is told.
    pub screening: Option<Screening>,
    /// The program that serves, for `/version`.
    pub program: Program,
    /// What tenants miss here and others must do, in words; `/readyz` says it.
    pub notes: Vec<String>,
    /// Which of several instances leads; `None` where there is one.
    pub leadership: Option<LeadershipSource>,
    /// What callers may take at most, and how long things may take; [`Settings::at`] sets the default.
    pub limits: Limits,
    /// Time of day by which tokens and certificates are judged; tests let it stand still.
    pub clock: Clock,
}

impl Settings {
    /// The defaults, at an address.
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
            program: Program::default(),
            notes: Vec::new(),
            leadership: None,
            limits: Limits::default(),
            clock: Clock::default(),
        }
    }
}

/// Which program serves; `/version` says it to anybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Name of the program, as `server_name` of `/version`.
    pub name: &'static str,
    /// Version of that program, as its `Cargo.toml` has it.
    pub version: &'static str,
    /// The commit that it was built from, in hexadecimal; empty where that is not known.
    pub commit: &'static str,
}

impl Default for Program {
    /// This library, at no commit.
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
    /// The chain, the server's own first.
    pub certificate: PathBuf,
    /// Private key of the first certificate, unencrypted PEM; read again whenever either file changes.
    pub key: PathBuf,
}

/// How much of anything one caller, or all of them, may take: begin with the default.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Connections at once on each port: some 10 KiB each, streams included. Fewer where the process may open too few
    /// files.
    pub connections: usize,
    /// Connections of one network at once without a live lease, anonymous or authenticated; the least recently used
    /// makes room for another.
    pub strangers_per_network: usize,
    /// Requests of nobody from one network in a minute: a console asks a few times, and so do many behind one
    /// address.
    pub requests_per_network: u32,
    /// Groups screened for one network in a minute.
    pub screenings_per_network: u32,
    /// Groups screened at once, those whose answer is being written included.
    pub screenings: usize,
    /// Questions of one network to the chain in a minute that were in vain, for there is no such account or
    /// certificate: consoles bring many tenants from one address, and few of them are unknown.
    pub unknown_per_network: u32,
    /// Streams of the gRPC status at once: indexers keep one each.
    pub status_streams: usize,
    /// Streams of the gRPC status of one network at once: an indexer keeps one.
    pub status_streams_per_network: usize,
    /// A handshake takes three trips; this is for the slowest network.
    pub handshake: Duration,
    /// The head of a request, counted from the end of the one before: an idle connection is closed after it. One of
    /// HTTP/2 is idle while no call is under way on it.
    pub idle: Duration,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// Bytes of a request's body: a manifest may have a mebibyte.
    pub body_bytes: usize,
    /// How long a body may take to come.
    pub body: Duration,
    /// How long a question to the cluster may take.
    pub cluster: Duration,
    /// How old the provider's status may be.
    pub status_age: Duration,
    /// How long the other end of a connection may take nothing of what waits for it.
    pub write: Duration,
    /// Streams (logs, events, shells) of one tenant at once.
    pub streams_per_tenant: usize,
    /// Time between pings, on websockets and on HTTP/2; clients give up after 15 s without one.
    pub ping: Duration,
    /// How long an answer to a ping may take.
    pub pong: Duration,
    /// How long a reader of a stream may take nothing.
    pub stalled: Duration,
    /// Bytes of a message of a client: terminals paste pages, not files.
    pub frame_bytes: usize,
    /// How long a certificate that was held against the chain is taken for valid, and how often those of open
    /// connections are looked at: a revocation is seen after twice this at the latest. The chain is asked once in
    /// that time for each certificate, however many connections show it.
    pub recheck: Duration,
    /// How often the files of the public certificate are looked at.
    pub look_at_files: Duration,
    /// How long requests and streams get to end when the gateway stops.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        const SECOND: Duration = Duration::from_secs(1);
        Self {
            connections: 12_000,
            strangers_per_network: 256,
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
            look_at_files: 30 * SECOND,
            grace: 5 * SECOND,
        }
    }
}
