//! A proxy in front of a chain node that injects faults on request.
//!
//! ```text
//!   client ──▶ proxy ── JSON-RPC, websocket, or gRPC ──▶ node        client ──▶ pipe ── bytes (TLS) ──▶ node
//!                ▲ Faults                                                         ▲ Faults
//!             test, or PUT /faults at the control address ────────────────────────┘
//! ```
//! The proxy works with any unmodified node. Each field of [`Faults`] is a fault that clients can observe.
//! Several faults can be active, and each can be switched at any time. Random choices follow from a seed.
//!
//! ```
//! use fault_proxy::{Faults, Proxy};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
//! let proxy = Proxy::start("127.0.0.1:26657", 7).await?;
//! proxy.set(Faults { lag: 3, ..Faults::default() });
//! println!("{} is three blocks behind", proxy.url());
//! proxy.set(Faults::default());
//! # Ok(()) }
//! ```

mod control;
mod faults;
mod grpc;
mod http;
mod lie;
mod number;
mod pipe;
mod rpc;
mod view;
mod websocket;

pub use control::Control;
pub use faults::{Faults, Stats};
pub use lie::Lie;
pub use pipe::TlsProxy;

use faults::ProxyFaults;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Loopback address with a port that the system chooses.
const FREE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Proxy in front of a node, for the gRPC endpoint, or for JSON-RPC and websocket. Dropping the value stops
/// the proxy.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<ProxyFaults>,
    address: SocketAddr,
    scheme: &'static str,
    _ends: DropGuard,
}

impl Proxy {
    /// Starts a proxy on loopback for the JSON-RPC endpoint `upstream` (`host:port`).
    ///
    /// # Errors
    /// Fails if no port can be bound.
    pub async fn start(upstream: &str, seed: u64) -> std::io::Result<Self> {
        Self::start_at(FREE, upstream, seed).await
    }

    /// Starts a proxy as [`Self::start`] does, at the address `listen`.
    ///
    /// # Errors
    /// Fails if the address cannot be bound.
    pub async fn start_at(listen: SocketAddr, upstream: &str, seed: u64) -> std::io::Result<Self> {
        let shared = Arc::new(ProxyFaults::new(upstream, seed));
        let (address, ends) = serve(listen, &shared, http::connection).await?;
        Ok(Self {
            shared,
            address,
            scheme: "http",
            _ends: ends,
        })
    }

    /// Starts a proxy on loopback for the gRPC endpoint `upstream` (`host:port`).
    ///
    /// # Errors
    /// Fails if no port can be bound.
    pub async fn start_grpc(upstream: &str, seed: u64) -> std::io::Result<Self> {
        Self::start_grpc_at(FREE, upstream, seed).await
    }

    /// Starts a proxy as [`Self::start_grpc`] does, at the address `listen`.
    ///
    /// # Errors
    /// Fails if the address cannot be bound.
    pub async fn start_grpc_at(listen: SocketAddr, upstream: &str, seed: u64) -> std::io::Result<Self> {
        let shared = Arc::new(ProxyFaults::new(upstream, seed));
        let (address, ends) = serve(listen, &shared, grpc::connection).await?;
        Ok(Self {
            shared,
            address,
            scheme: "grpc",
            _ends: ends,
        })
    }

    /// Listening address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listening address as the URL of a node.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Replaces the active faults.
    pub fn set(&self, faults: Faults) {
        self.shared.set(faults);
    }

    /// Closes all current connections.
    pub fn cut(&self) {
        self.shared.cut();
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}

/// Serves connections until the returned guard is dropped.
async fn serve<F>(
    listen: SocketAddr,
    shared: &Arc<ProxyFaults>,
    connection: impl Fn(Arc<ProxyFaults>, TcpStream) -> F + Send + 'static,
) -> std::io::Result<(SocketAddr, DropGuard)>
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    let stop = CancellationToken::new();
    let serving = Arc::clone(shared);
    let serve = move |stream| connection(Arc::clone(&serving), stream);
    tokio::spawn(accept(listener, Arc::clone(shared), stop.clone(), serve));
    Ok((address, stop.drop_guard()))
}

/// Accepts connections until `stop` is cancelled. Then all connections end.
async fn accept<F>(
    listener: TcpListener,
    shared: Arc<ProxyFaults>,
    stop: CancellationToken,
    serve: impl Fn(TcpStream) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // Out of file descriptors for a moment.
                Err(_) => {
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                    continue;
                }
            },
        };
        while connections.try_join_next().is_some() {}
        if shared.faults().down {
            continue;
        }
        // Nagle's algorithm would hide small requested delays.
        drop(stream.set_nodelay(true));
        let (cut, serving) = (shared.cutter(), serve(stream));
        connections.spawn(async move {
            tokio::select! {
                biased;
                () = cut.cancelled() => {}
                () = serving => {}
            }
        });
    }
}
