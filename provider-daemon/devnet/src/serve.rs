//! Listening: one task a connection, as many as there may be, all ended together.

use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Connections of one listener, as the network's default for its RPC.
const CONNECTIONS_MAX: usize = 900;
/// Pause after a connection that could not be taken: there are no more files, or such.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How a connection ended.
pub(super) type Served = Result<(), Box<dyn Error + Send + Sync>>;

/// What a client may ask for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Bytes of one request: the largest transaction in hexadecimal digits or base64, and what is around it.
    pub(super) request_bytes: usize,
    /// Calls of one gRPC connection under way together.
    pub(super) streams: u32,
    /// Time for the head and the body of a request to arrive.
    pub(super) request_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes: 4 << 20,
            streams: 1024,
            request_time: Duration::from_secs(30),
        }
    }
}

/// Takes connections until it is stopped, and ends them all then.
pub(super) async fn listen<F>(
    listener: TcpListener,
    stop: CancellationToken,
    serve: impl Fn(TcpStream, SocketAddr) -> F,
) where
    F: Future<Output = Served> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        // The set keeps those that have ended until they are taken out, and would grow with each connection.
        while connections.try_join_next().is_some() {}
        // A place before a connection: who is too much waits in the system's queue and is not refused.
        let place = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            // Never closed.
            Ok(place) = Arc::clone(&room).acquire_owned() => place,
        };
        let taken = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            taken = listener.accept() => taken,
        };
        let (stream, peer) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be taken");
                // Mostly file handles are used up, and come back as others end: no reason to spin meanwhile.
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection without TCP_NODELAY");
        }
        let serving = serve(stream, peer);
        connections.spawn(async move {
            if let Err(error) = serving.await {
                tracing::debug!(%peer, %error, "a connection ended");
            }
            // Held up to here, so that a place is free only when its connection has ended.
            drop(place);
        });
    }
    connections.shutdown().await;
}
