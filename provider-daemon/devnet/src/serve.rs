//! Listeners: one task per connection, up to a maximum number of connections. A stop closes all of them.

use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Maximum number of connections of a listener, as on the JSON-RPC port of Akash nodes.
const CONNECTIONS_MAX: usize = 900;
/// Pause after the system failed to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

pub(super) type Served = Result<(), Box<dyn Error + Send + Sync>>;

#[derive(Debug, Clone, Copy)]
pub(super) struct ServerLimits {
    /// Maximum size of a request in bytes. The limit is sufficient for the largest transaction in hexadecimal
    /// digits or base64.
    pub(super) request_bytes: usize,
    /// Maximum number of concurrent calls on one gRPC connection.
    pub(super) streams: u32,
    /// Maximum time to receive the head and the body of a request.
    pub(super) request_time: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            request_bytes: 4 << 20,
            streams: 1024,
            request_time: Duration::from_secs(30),
        }
    }
}

/// Accepts connections until the node is stopped. Then closes all connections.
pub(super) async fn listen<F>(
    listener: TcpListener,
    stop: CancellationToken,
    serve: impl Fn(TcpStream, SocketAddr) -> F,
) where
    F: Future<Output = Served> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        // The set stores finished tasks until they are taken out, and would grow with each connection.
        while connections.try_join_next().is_some() {}
        // A place first: excess clients wait in the queue of the system and are not refused.
        let place = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            // Never closed.
            Ok(place) = Arc::clone(&places).acquire_owned() => place,
        };
        let taken = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            taken = listener.accept() => taken,
        };
        let (stream, peer) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                tracing::warn!(%error, "cannot accept connection to the devnet, retrying; if the error persists, raise the limit of open files");
                // File descriptors become free when other connections close, so an immediate retry is useless.
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let serving = serve(stream, peer);
        connections.spawn(async move {
            if let Err(error) = serving.await {
                tracing::debug!(%peer, %error, "connection failed");
            }
            // Held until here, so that a place becomes free only when its connection has closed.
            drop(place);
        });
    }
    connections.shutdown().await;
}
