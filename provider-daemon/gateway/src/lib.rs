//! HTTP gateway of the provider for tenants, consoles and tools: REST, websockets and gRPC over TLS.
//!
//! ```text
//!  TLS 1.3 ──► listen ──► rest ──► auth: who? ──► permits? ──┬──► provider handle   (manifests, status, transfers)
//!   certificate by name,   routes,                           ├──► cluster           (status, manifest back)
//!   client certificate     limits                            └──► stream ──► cluster (logs, events, commands)
//! ```
//! Requests and responses match those of the Go provider; `docs/parity.md` lists the differences. The gateway depends
//! on the provider's handle and on ports for the cluster and the chain, so it serves any provider. The gateway reads no
//! flags and has no Kubernetes dependency.
//!
//! ```no_run
//! # use akash_provider_gateway::{Gateway, GatewayBackends, GatewaySettings, auth::memory::InMemory};
//! # use akash_provider_core::{chain::ChainQuery, cluster::Cluster, provider::ProviderHandle, types::Address};
//! # use akash_provider_chain::cert::OwnCertificate;
//! # use std::sync::Arc;
//! # async fn serve(
//! #     account: Address, handle: ProviderHandle, cluster: Arc<dyn Cluster>, chain: Arc<dyn ChainQuery>,
//! #     own: OwnCertificate, shutdown: tokio_util::sync::CancellationToken,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let ports = GatewayBackends { handle, cluster, chain, memory: Arc::new(InMemory::default()) };
//! let settings = GatewaySettings::at("0.0.0.0:8443".parse()?);
//! let gateway = Gateway::bind(account, ports, &own, settings).await?;
//! println!("serving at {}", gateway.address()?);
//! gateway.serve(shutdown).await;
//! # Ok(()) }
//! ```
//! [`GatewaySettings::at`] sets defaults, also of [`GatewayLimits`]: every resource that an unauthenticated client can use has a
//! limit.
//! [`auth::memory::AuthStore`] stores keys and certificates of tenants. The guide is `docs/gateway.md`.

pub mod auth;
mod budget;
mod calls;
mod clock;
mod connections;
pub mod descriptors;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod grpc;
pub mod inventory;
mod leadership;
mod listen;
mod rest;
mod screening;
mod settings;
mod statistics;
mod stream;
#[cfg(test)]
mod tests;
pub mod tls;
mod wire;

pub use leadership::{Leadership, LeadershipSource};
pub use rest::reply::escaped;
pub use rest::validate::DECLINE_JSON;
pub use screening::Screening;
pub use settings::{CertificateFiles, GatewayLimits, GatewaySettings, ProblemSource, ProgramVersion};
pub use statistics::{GatewayCounters, GatewayStatistics, PortStatistics, RequestKind, StreamKind};

use akash_provider_chain::cert::OwnCertificate;
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::cluster::Cluster;
use akash_provider_core::error::{Error, ErrorKind, listen_text};
use akash_provider_core::provider::ProviderHandle;
use akash_provider_core::types::{Address, LeaseId};
use auth::Authenticator;
use auth::memory::AuthStore;
use axum::Router;
use budget::{RequestBudget, Shares};
use clock::Clock;
use connections::Connections;
use listen::GatewayListener;
use rest::status::{ProviderInfo, StatusCache};
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;
use stream::StreamPermits;
use tls::{Protocol, Tls, TlsError};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Provider, cluster, chain and store that the gateway needs.
#[derive(Debug, Clone)]
pub struct GatewayBackends {
    /// Running provider, which receives manifests and migrations and reports the status.
    pub handle: ProviderHandle,
    /// Cluster of the workloads, for logs, shells and lease statuses.
    pub cluster: Arc<dyn Cluster>,
    /// Chain, for certificates and keys of tenants, and for bid screening.
    pub chain: Arc<dyn ChainQuery>,
    /// Store of keys and certificates, for outages of the chain.
    pub memory: Arc<dyn AuthStore>,
}

/// Reason why the gateway cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The address cannot be bound.
    #[error("{flag} {address}: {}", listen_text(.why))]
    Listen {
        /// Name of the flag that sets the address.
        flag: &'static str,
        /// Requested address. Port 0 means any free port.
        address: SocketAddr,
        /// Cause: usually the address is in use, or the port requires privileges.
        why: io::Error,
    },
    /// A certificate cannot be used.
    #[error("cannot load the certificates of the gateway")]
    Tls(#[from] TlsError),
}

struct App {
    handle: ProviderHandle,
    cluster: Arc<dyn Cluster>,
    auth: Arc<Authenticator>,
    status: StatusCache,
    limits: GatewayLimits,
    stream_permits: StreamPermits,
    tasks: TaskTracker,
    /// Cancelled when the provider drains: open streams end, and new streams are refused.
    draining: CancellationToken,
    chain: Arc<dyn ChainQuery>,
    clock: Clock,
    screening: Option<Screening>,
    /// Instructions that `/readyz` returns for the operator of the provider.
    notes: Vec<String>,
    problem: Option<ProblemSource>,
    leadership: Option<LeadershipSource>,
    program: ProgramVersion,
    screenings: screening::ScreeningState,
    budgets: Budgets,
    counters: GatewayCounters,
    /// Permits for concurrent status streams of all clients.
    status_streams: Arc<Semaphore>,
}

/// Budgets per IP network for requests without authentication.
struct Budgets {
    /// Budget of anonymous requests per minute.
    requests: RequestBudget,
    /// Budget of bid screenings per minute, in groups.
    screenings: RequestBudget,
    /// Limit of concurrent gRPC status streams.
    status_streams: Arc<Shares>,
}

impl Budgets {
    fn new(limits: &GatewayLimits) -> Self {
        Self {
            requests: RequestBudget::new(limits.requests_per_network),
            screenings: RequestBudget::new(limits.screenings_per_network),
            status_streams: Arc::new(Shares::new(limits.status_streams_per_network)),
        }
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").finish_non_exhaustive()
    }
}

impl App {
    async fn bounded<T>(
        &self,
        operation: &'static str,
        query: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let limit = self.limits.cluster;
        match timeout(limit, query).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(self.settled(operation, error).await),
            Err(_) => {
                let message = format!("the cluster did not respond within {limit:?}");
                Err(Error::new(ErrorKind::Timeout, operation, message))
            }
        }
    }

    /// Replaces a "not found" error by "unavailable" while the state of the chain or of the cluster is
    /// incomplete.
    async fn settled(&self, operation: &'static str, error: Error) -> Error {
        // Only "not found" depends on the completeness of the state.
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        match self.status.missing_state().await {
            Some(why) => Error::new(ErrorKind::Unavailable, operation, format!("{why}; try again")),
            None => error,
        }
    }

    async fn has_workload(&self, lease: &LeaseId) -> bool {
        let call = self.cluster.lease_status(lease);
        self.bounded("lease status", call).await.is_ok()
    }
}

/// Gateway with bound addresses that does not serve yet.
#[derive(Debug)]
pub struct Gateway {
    app: Arc<App>,
    tls: Arc<Tls>,
    listener: TcpListener,
    grpc: Option<TcpListener>,
    settings: GatewaySettings,
}

impl Gateway {
    /// Reads the certificates and binds the addresses. `provider` is the provider's chain account.
    ///
    /// # Errors
    /// Returns an error if an address cannot be bound, or a certificate cannot be used.
    pub async fn bind(
        provider: Address,
        ports: GatewayBackends,
        own: &OwnCertificate,
        settings: GatewaySettings,
    ) -> Result<Self, GatewayError> {
        let tls = Tls::new(own, settings.clock.clone())?;
        // Certificates are read before the ports are bound, so an invalid file is reported before a client can connect.
        if let Some(files) = &settings.public_certificate {
            tls.set_public(&settings.public_hostname, &files.certificate, &files.key)?;
        }
        let listener = listen("--gateway-listen-address", settings.listen).await?;
        let grpc = match settings.grpc_listen {
            Some(address) => Some(listen("--gateway-grpc-listen-address", address).await?),
            None => None,
        };
        let auth = Authenticator::new(
            provider.clone(),
            Arc::clone(&ports.chain),
            ports.memory,
            settings.token_lifetime_max,
            &settings.limits,
            settings.clock.clone(),
        );
        let about = ProviderInfo {
            address: provider,
            public_hostname: settings.public_hostname.clone(),
            reclamation_window: settings.reclamation_window,
            leadership: settings.leadership.clone(),
        };
        let app = App {
            status: StatusCache::new(ports.handle.clone(), about, settings.limits.status_age),
            handle: ports.handle,
            cluster: ports.cluster,
            auth: Arc::new(auth),
            limits: settings.limits.clone(),
            stream_permits: StreamPermits::default(),
            tasks: TaskTracker::new(),
            draining: CancellationToken::new(),
            chain: ports.chain,
            clock: settings.clock.clone(),
            screening: settings.screening.clone(),
            notes: settings.notes.clone(),
            problem: settings.problem.clone(),
            leadership: settings.leadership.clone(),
            program: settings.program.clone(),
            screenings: screening::ScreeningState::new(settings.limits.screenings),
            budgets: Budgets::new(&settings.limits),
            counters: settings.counters.clone(),
            status_streams: Arc::new(Semaphore::new(settings.limits.status_streams)),
        };
        Ok(Self {
            app: Arc::new(app),
            tls: Arc::new(tls),
            listener,
            grpc,
            settings,
        })
    }

    /// Returns a router with `/healthz` and `/readyz`, for a separate port without TLS.
    pub fn health_router(&self) -> Router {
        rest::health_router(&self.app)
    }

    /// Returns the address of the gRPC port, or `None` if gRPC is disabled.
    #[must_use]
    pub fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc.as_ref()?.local_addr().ok()
    }

    /// Returns the address of the port for REST and websockets.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the TLS configuration of REST and gRPC. Its certificates can be replaced while the gateway
    /// serves.
    #[must_use]
    pub fn tls(&self) -> Arc<Tls> {
        Arc::clone(&self.tls)
    }

    /// Serves until `shutdown` is cancelled. Open requests and streams then have at most [`GatewayLimits::grace`] to end.
    pub async fn serve(self, shutdown: CancellationToken) {
        self.serve_through(shutdown.clone(), shutdown).await;
    }

    /// Serves until `shutdown` is cancelled. After `draining` is cancelled, streams end and new streams are
    /// refused, but other requests are still served.
    pub async fn serve_through(self, draining: CancellationToken, shutdown: CancellationToken) {
        let app = self.app;
        let places = descriptors::places(app.limits.connections);
        if let Some(needed) = descriptors::files_to_raise_to(places, app.limits.connections) {
            tracing::warn!(
                rest = places.rest,
                grpc = places.grpc,
                needed,
                "limit of open files allows few connections, tenants may have to wait: raise it to `needed` with \
                 `ulimit -n`, or with LimitNOFILE of a systemd unit"
            );
        }
        let places_of = [places.rest, places.grpc];
        let table = Connections::new(places_of, app.limits.unleased_per_network, app.counters.clone());
        let listener_for = |protocol, places| {
            Arc::new(GatewayListener {
                tls: Arc::clone(&self.tls),
                auth: Arc::clone(&app.auth),
                limits: app.limits.clone(),
                shutdown: shutdown.clone(),
                protocol,
                counters: app.counters.clone(),
                table: Arc::clone(&table),
                places,
            })
        };
        let rest = listener_for(Protocol::Http1, places.rest).serve(self.listener, rest::router(&app));
        let grpc = async {
            if let Some(listener) = self.grpc {
                listener_for(Protocol::Http2, places.grpc)
                    .serve(listener, grpc::router(&app))
                    .await;
            }
        };
        let ending = async {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = draining.cancelled() => {}
            }
            // A shutdown without a drain must also end the streams, and they only watch this token.
            app.draining.cancel();
        };
        tokio::select! {
            ((), (), ()) = async { tokio::join!(rest, grpc, ending) } => {}
            () = follow_files(&self.tls, &self.settings) => {}
        }
        // Streams outlive their connections: after the upgrade they are separate tasks, awaited here.
        app.tasks.close();
        if timeout(app.limits.grace, app.tasks.wait()).await.is_err() {
            tracing::warn!(
                count = app.tasks.len(),
                "gateway stopped before the streams of tenants ended, closing the streams"
            );
        }
    }
}

async fn listen(flag: &'static str, address: SocketAddr) -> Result<TcpListener, GatewayError> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|why| GatewayError::Listen { flag, address, why })
}

/// Reloads the public certificate each time its files change. Never returns.
async fn follow_files(tls: &Tls, settings: &GatewaySettings) {
    let Some(files) = &settings.public_certificate else {
        return std::future::pending().await;
    };
    let stamp = || {
        let of = |path| std::fs::metadata(path).and_then(|m| m.modified()).ok();
        let stamps: [Option<SystemTime>; 2] = [of(&files.certificate), of(&files.key)];
        stamps
    };
    // Polled and not watched: Kubernetes replaces mounted secrets through symbolic links, which file events miss.
    let mut loaded = stamp();
    let mut ticks = tokio::time::interval(settings.limits.certificate_interval);
    loop {
        ticks.tick().await;
        let there = stamp();
        if there == loaded {
            continue;
        }
        match tls.set_public(&settings.public_hostname, &files.certificate, &files.key) {
            Ok(()) => {
                tracing::info!("gateway reloaded the certificate of its public hostname");
                loaded = there;
            }
            // The files are written one after the other, so they may not match for a moment.
            Err(error) => {
                tracing::warn!(%error, "gateway cannot reload the certificate of its public hostname, using the previous certificate; check the certificate and key files")
            }
        }
    }
}

/// Doc tests of the page `docs/gateway.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/gateway.md")]
pub struct GatewayGuide;
