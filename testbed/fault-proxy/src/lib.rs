//! A proxy before a chain node that behaves badly on request.
//!
//! ```text
//!   client ──▶ proxy ── JSON-RPC, websocket, or gRPC ──▶ node        client ──▶ pipe ── bytes (TLS) ──▶ node
//!                ▲ Faults                                                         ▲ Faults
//!             test, or PUT /faults at the control address ────────────────────────┘
//! ```
//! The node behind it may be any: nothing of it is changed. What a node can do to its clients is a field of
//! [`Faults`]; several may hold at once, and each can be switched at any moment. What is drawn by lot is drawn from
//! a seed.
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
mod pipe;
mod rpc;
mod view;
mod websocket;

pub use control::Control;
pub use faults::{Faults, Stats};
pub use lie::Lie;
pub use pipe::Pipe;

use faults::Shared;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A free port of this machine.
const FREE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A proxy of a node's JSON-RPC and websocket, or of its gRPC. Dropping it ends it.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    scheme: &'static str,
    _ends: DropGuard,
}

impl Proxy {
    /// Listens at a free port of this machine, before the JSON-RPC of the node at `upstream` (`host:port`).
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(upstream: &str, seed: u64) -> std::io::Result<Self> {
        Self::start_at(FREE, upstream, seed).await
    }

    /// The same at an address.
    ///
    /// # Errors
    /// When it cannot be had.
    pub async fn start_at(listen: SocketAddr, upstream: &str, seed: u64) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::new(upstream, seed));
        let (address, ends) = serve(listen, &shared, http::connection).await?;
        Ok(Self {
            shared,
            address,
            scheme: "http",
            _ends: ends,
        })
    }

    /// Listens at a free port of this machine, before the gRPC of the node at `upstream` (`host:port`). It knows the
    /// heights of questions, and what is in those about the node itself.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start_grpc(upstream: &str, seed: u64) -> std::io::Result<Self> {
        Self::start_grpc_at(FREE, upstream, seed).await
    }

    /// The same at an address.
    ///
    /// # Errors
    /// When it cannot be had.
    pub async fn start_grpc_at(listen: SocketAddr, upstream: &str, seed: u64) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::new(upstream, seed));
        let (address, ends) = serve(listen, &shared, grpc::connection).await?;
        Ok(Self {
            shared,
            address,
            scheme: "grpc",
            _ends: ends,
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as an address of a node.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// From now on these faults hold and no others.
    pub fn set(&self, faults: Faults) {
        self.shared.set(faults);
    }

    /// Cuts every connection, once.
    pub fn cut(&self) {
        self.shared.cut();
    }

    /// What has passed.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}

/// Listens, and serves each connection until the guard is dropped.
async fn serve<F>(
    listen: SocketAddr,
    shared: &Arc<Shared>,
    connection: impl Fn(Arc<Shared>, TcpStream) -> F + Send + 'static,
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

/// Takes connections until the end; all of them end with it.
async fn accept<F>(
    listener: TcpListener,
    shared: Arc<Shared>,
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
                // Out of descriptors, for a moment.
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
        // A smaller delay of its own would hide the one that is asked for.
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
