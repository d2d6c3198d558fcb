//! A proxy that forwards encrypted bytes, and closes, freezes or delays connections.

use crate::faults::{Faults, ProxyFaults, Stats};
use crate::{FREE, serve};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::DropGuard;

const CHUNK: usize = 16 << 10;

/// Proxy in front of a TLS endpoint, without decryption. Dropping the value stops the proxy.
///
/// Only these [`Faults`] apply: `down`, `frozen`, `delay_ms`, `swallow` and `truncate`. The values of
/// `swallow` and `truncate` are percentages of response chunks. `swallow` closes the connection before a
/// chunk, `truncate` within a chunk.
#[derive(Debug)]
pub struct TlsProxy {
    pub(crate) shared: Arc<ProxyFaults>,
    address: SocketAddr,
    _ends: DropGuard,
}

impl TlsProxy {
    /// Starts a proxy on loopback for `upstream` (`host:port`).
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
        let (address, ends) = serve(listen, &shared, connection).await?;
        Ok(Self {
            shared,
            address,
            _ends: ends,
        })
    }

    /// Listening address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the active faults.
    pub fn set(&self, faults: Faults) {
        self.shared.set(faults);
    }

    /// Closes all current connections.
    pub fn cut(&self) {
        self.shared.cut();
    }

    /// Returns the counters. A pipe counts only the injected faults.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}

async fn connection(shared: Arc<ProxyFaults>, client: TcpStream) {
    let Ok(node) = TcpStream::connect(&shared.upstream).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_node, to_node) = node.into_split();
    tokio::select! {
        () = copy(&shared, from_client, to_node, false) => {}
        () = copy(&shared, from_node, to_client, true) => {}
    }
}

async fn copy(
    shared: &ProxyFaults,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    is_answer: bool,
) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        shared.thaw().await;
        if is_answer {
            shared.delay().await;
            let faults = shared.faults();
            if shared.injects(faults.swallow) {
                return;
            }
            if shared.injects(faults.truncate) {
                let half = chunk.get(..read / 2).unwrap_or_default();
                drop(to.write_all(half).await);
                return;
            }
        }
        if to.write_all(chunk.get(..read).unwrap_or_default()).await.is_err() {
            return;
        }
    }
}
