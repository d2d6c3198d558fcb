//! Bytes as they are, for what cannot be read, as TLS: cut, frozen, late.

use crate::faults::{Faults, Shared, Stats};
use crate::{FREE, serve};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::DropGuard;

const CHUNK: usize = 16 << 10;

/// A pipe before a node that is spoken to in TLS. It knows no questions: of [`Faults`] those hold that need none, which are `down`,
/// `frozen`, `delay_ms` for each chunk, and `swallow` and `truncate` as so many of a hundred chunks after which the
/// connection ends. Dropping it ends it.
#[derive(Debug)]
pub struct Pipe {
    pub(crate) shared: Arc<Shared>,
    address: SocketAddr,
    _ends: DropGuard,
}

impl Pipe {
    /// Listens at a free port of this machine, before `upstream` (`host:port`).
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
        let (address, ends) = serve(listen, &shared, connection).await?;
        Ok(Self {
            shared,
            address,
            _ends: ends,
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on these faults hold and no others.
    pub fn set(&self, faults: Faults) {
        self.shared.set(faults);
    }

    /// Cuts every connection, once.
    pub fn cut(&self) {
        self.shared.cut();
    }

    /// What has passed; of questions it knows nothing.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}

async fn connection(shared: Arc<Shared>, client: TcpStream) {
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
    shared: &Shared,
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
            if shared.strikes(faults.swallow) {
                return;
            }
            if shared.strikes(faults.truncate) {
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
