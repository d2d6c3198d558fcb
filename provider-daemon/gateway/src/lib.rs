//! The gateway: where tenants, consoles and tools meet the provider.
//!
//! ```text
//!  TLS 1.3 ──► listen ──► rest ──► auth: who? ──► permits? ──┬──► provider handle   (manifests, status, moves)
//!   certificate by name,   routes,                           ├──► cluster           (status, manifest back)
//!   client's certificate   limits                            └──► stream ──► cluster (logs, events, commands)
//! ```
//! It speaks as today's provider does, so that clients need no change; `docs/parity.md` has the differences. It
//! depends on the provider's handle and on two ports, so it serves any provider, whatever its cluster is. Flags, files and
//! Kubernetes are the daemon's and do not come with it.
//!
//! ```no_run
//! # use akash_provider_gateway::{Gateway, Ports, Settings, auth::memory::Volatile};
//! # use akash_provider_core::{chain::ChainQuery, cluster::Cluster, provider::ProviderHandle, types::Address};
//! # use akash_provider_chain::cert::OwnCertificate;
//! # use std::sync::Arc;
//! # async fn serve(
//! #     account: Address, handle: ProviderHandle, cluster: Arc<dyn Cluster>, chain: Arc<dyn ChainQuery>,
//! #     own: OwnCertificate, shutdown: tokio_util::sync::CancellationToken,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let ports = Ports { handle, cluster, chain, memory: Arc::new(Volatile::default()) };
//! let settings = Settings::at("0.0.0.0:8443".parse()?);
//! let gateway = Gateway::bind(account, ports, &own, settings).await?;
//! println!("serving at {}", gateway.address()?);
//! gateway.serve(shutdown).await;
//! # Ok(()) }
//! ```
//! Settings have usual values, [`Settings::at`], and so have [`Limits`]: everything that strangers could make grow has one.
//! [`auth::memory::Memory`] is where it keeps what the chain has said of tenants. The guide is `docs/gateway.md`.

pub mod auth;
mod budget;
mod calls;
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
mod stream;
#[cfg(test)]
mod tests;
pub mod tls;
mod wire;

pub use leadership::{Leadership, LeadershipSource};
pub use rest::answer::escaped;
pub use screening::Screening;
pub use settings::{CertificateFiles, Limits, Program, Settings};

use akash_provider_chain::cert::OwnCertificate;
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::cluster::Cluster;
use akash_provider_core::error::{Error, ErrorKind, listen_text};
use akash_provider_core::provider::ProviderHandle;
use akash_provider_core::types::{Address, LeaseId};
use auth::memory::Memory;
use auth::{Authenticator, Clock};
use axum::Router;
use budget::{Budget, Shares};
use connections::Connections;
use listen::{Listener, Protocol};
use rest::status::{About, StatusPage};
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;
use stream::StreamPermits;
use tls::{Tls, TlsError};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What the gateway works with.
#[derive(Debug, Clone)]
pub struct Ports {
    /// The running provider: takes manifests and transfers, and tells the status.
    pub handle: ProviderHandle,
    /// Where workloads run. Logs, shells and lease statuses are asked of it directly, past the provider.
    pub cluster: Arc<dyn Cluster>,
    /// Says which certificates and keys are a tenant's, and the facts that a screening is judged by.
    pub chain: Arc<dyn ChainQuery>,
    /// What is known of them while the chain is away.
    pub memory: Arc<dyn Memory>,
}

/// Why a gateway cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The address cannot be had.
    #[error("{flag} {address}: {}", listen_text(.why))]
    Listen {
        /// The setting that names it, as the command line has it.
        flag: &'static str,
        /// The address that was asked for; port 0 is any free one.
        address: SocketAddr,
        /// The system's answer: mostly that the address is in use, or that the port needs a privilege.
        why: io::Error,
    },
    /// A certificate cannot be used.
    #[error("certificates of the gateway")]
    Tls(#[from] TlsError),
}

/// What every request can reach.
struct App {
    handle: ProviderHandle,
    cluster: Arc<dyn Cluster>,
    auth: Arc<Authenticator>,
    status: StatusPage,
    limits: Limits,
    stream_permits: StreamPermits,
    tasks: TaskTracker,
    /// No stream begins any more, and those that are open end.
    draining: CancellationToken,
    chain: Arc<dyn ChainQuery>,
    clock: Clock,
    screening: Option<Screening>,
    /// What others must do.
    notes: Vec<String>,
    leadership: Option<LeadershipSource>,
    program: Program,
    desk: screening::Desk,
    budgets: Budgets,
    /// Streams of the status at once.
    status_streams: Arc<Semaphore>,
}

/// What one network may take of what is there for anybody.
struct Budgets {
    /// Requests of nobody in a minute.
    requests: Budget,
    /// Groups looked at in a minute.
    screenings: Budget,
    /// Streams of the status at once.
    status_streams: Arc<Shares>,
}

impl Budgets {
    fn new(limits: &Limits) -> Self {
        Self {
            requests: Budget::new(limits.requests_per_network),
            screenings: Budget::new(limits.screenings_per_network),
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
    /// A question to the cluster, with a limit.
    async fn bounded<T>(
        &self,
        operation: &'static str,
        question: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let limit = self.limits.cluster;
        match timeout(limit, question).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.settled(operation, error).await),
            Err(_) => {
                let message = format!("the cluster did not answer within {limit:?}");
                Err(Error::new(ErrorKind::Timeout, operation, message))
            }
        }
    }

    /// An error as it may be told: before everything is known, "there is none" is no answer yet.
    async fn settled(&self, operation: &'static str, error: Error) -> Error {
        // Only "there is none" depends on how much is known. Any other failure is one at any time.
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        match self.status.awaited().await {
            Some(why) => Error::new(ErrorKind::Unavailable, operation, format!("{why}; ask again")),
            None => error,
        }
    }

    /// True when the cluster has something of a lease.
    async fn has_workload(&self, lease: &LeaseId) -> bool {
        let asking = self.cluster.lease_status(lease);
        self.bounded("lease status", asking).await.is_ok()
    }
}

/// A gateway that has its address and is not serving yet.
#[derive(Debug)]
pub struct Gateway {
    app: Arc<App>,
    tls: Arc<Tls>,
    listener: TcpListener,
    grpc: Option<TcpListener>,
    settings: Settings,
}

impl Gateway {
    /// Takes the address and reads the certificates. `provider` is whose gateway it is.
    ///
    /// # Errors
    /// The address is taken, or a certificate cannot be used.
    pub async fn bind(
        provider: Address,
        ports: Ports,
        own: &OwnCertificate,
        settings: Settings,
    ) -> Result<Self, GatewayError> {
        let tls = Tls::new(own, settings.clock.clone())?;
        // Certificates are read before the ports are bound: a bad file is told before anybody can connect.
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
        let about = About {
            address: provider,
            public_hostname: settings.public_hostname.clone(),
            reclamation_window: settings.reclamation_window,
            leadership: settings.leadership.clone(),
        };
        let app = App {
            status: StatusPage::new(ports.handle.clone(), about, settings.limits.status_age),
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
            leadership: settings.leadership.clone(),
            program: settings.program.clone(),
            desk: screening::Desk::new(settings.limits.screenings),
            budgets: Budgets::new(&settings.limits),
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

    /// Returns the routes `/healthz` and `/readyz`, to be served without TLS on a port of its own. Probes of that port do
    /// not compete with tenants for connections.
    pub fn health_router(&self) -> Router {
        rest::health_router(&self.app)
    }

    /// Where gRPC is served; `None` where it is not.
    #[must_use]
    pub fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc.as_ref()?.local_addr().ok()
    }

    /// Where REST and websockets are served.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What it shows, for REST and for gRPC; certificates can be replaced while it serves.
    #[must_use]
    pub fn tls(&self) -> Arc<Tls> {
        Arc::clone(&self.tls)
    }

    /// Serves until `shutdown`; then lets requests end, and streams with a word, but not for long.
    pub async fn serve(self, shutdown: CancellationToken) {
        self.serve_through(shutdown.clone(), shutdown).await;
    }

    /// The same for a provider that takes its time to stop: from `draining` on streams end and no new one begins,
    /// and requests are still answered; until `shutdown`.
    pub async fn serve_through(self, draining: CancellationToken, shutdown: CancellationToken) {
        let app = self.app;
        let places = descriptors::places(app.limits.connections);
        if let Some(warning) = descriptors::warning(places, app.limits.connections) {
            tracing::warn!("{warning}");
        }
        let table = Connections::new(places.rest, places.grpc, app.limits.strangers_per_network);
        let door = |protocol, places| {
            Arc::new(Listener {
                tls: Arc::clone(&self.tls),
                auth: Arc::clone(&app.auth),
                limits: app.limits.clone(),
                shutdown: shutdown.clone(),
                protocol,
                table: Arc::clone(&table),
                places,
            })
        };
        let rest = door(Protocol::Http1, places.rest).serve(self.listener, rest::router(&app));
        let grpc = async {
            if let Some(listener) = self.grpc {
                door(Protocol::Http2, places.grpc)
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
            // A shutdown without a drain still has to end the streams, and they listen to this token alone.
            app.draining.cancel();
        };
        tokio::select! {
            ((), (), ()) = async { tokio::join!(rest, grpc, ending) } => {}
            () = follow_files(&self.tls, &self.settings) => {}
        }
        // Streams outlive their connections: after the upgrade they are tasks of their own, waited for here.
        app.tasks.close();
        if timeout(app.limits.grace, app.tasks.wait()).await.is_err() {
            tracing::warn!("{} streams were cut at the end", app.tasks.len());
        }
    }
}

async fn listen(flag: &'static str, address: SocketAddr) -> Result<TcpListener, GatewayError> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|why| GatewayError::Listen { flag, address, why })
}

/// Shows the public certificate anew whenever its files change. Never ends.
async fn follow_files(tls: &Tls, settings: &Settings) {
    let Some(files) = &settings.public_certificate else {
        return std::future::pending().await;
    };
    let stamp = || {
        let of = |path| std::fs::metadata(path).and_then(|m| m.modified()).ok();
        let stamps: [Option<SystemTime>; 2] = [of(&files.certificate), of(&files.key)];
        stamps
    };
    // Polled and not watched: Kubernetes replaces mounted secrets through symbolic links, which file events miss.
    let mut shown = stamp();
    let mut ticks = tokio::time::interval(settings.limits.look_at_files);
    loop {
        ticks.tick().await;
        let there = stamp();
        if there == shown {
            continue;
        }
        match tls.set_public(&settings.public_hostname, &files.certificate, &files.key) {
            Ok(()) => {
                tracing::info!("the public certificate was replaced");
                shown = there;
            }
            // Written one after the other, they may not fit for a moment.
            Err(error) => tracing::warn!("the public certificate cannot be replaced: {error}"),
        }
    }
}

/// The guide is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/gateway.md")]
pub struct GatewayGuide;
