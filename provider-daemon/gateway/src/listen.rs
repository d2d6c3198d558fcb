//! Connections: accept, TLS handshake, check of the client certificate, requests, close.
//!
//! ```text
//!  accept ──► hello (name?) ──► handshake ──► certificate on the chain? ──► requests
//!     └ up to the limit                             └ no: closed
//! ```
//! A slow or silent client does not delay other clients. If no place is free, its connection is closed for a new
//! client.

mod plain;

use super::auth::{Authenticator, ClientCertificate, CredentialValidity};
use super::calls::OpenCalls;
use super::connections::{Connection, Connections, network_of};
use super::settings::GatewayLimits;
use super::statistics::{GatewayCounters, Port};
use super::tls::{Protocol, Tls};
use super::wire::{PendingWrites, Wire};
use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::server::Acceptor;
use std::future::pending;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

/// Pause after a failure to accept a connection, for example because no file descriptor was free.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// Maximum number of concurrent calls on one connection.
const CALLS_MAX: u32 = 100;

#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) certificate: Option<Arc<ClientCertificate>>,
    /// Entry in the table of connections. A stream holds a clone until the end of the stream.
    pub(crate) connection: Arc<Connection>,
    pub(super) pending_writes: PendingWrites,
}

impl Peer {
    /// Returns the client's IP address, or `0.0.0.0` for `None`, as in tests without a connection.
    pub(crate) fn ip(peer: Option<&Self>) -> IpAddr {
        peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |p| p.address.ip())
    }
}

#[derive(Debug)]
pub(crate) struct GatewayListener {
    pub(crate) tls: Arc<Tls>,
    pub(crate) auth: Arc<Authenticator>,
    pub(crate) limits: GatewayLimits,
    pub(crate) shutdown: CancellationToken,
    pub(crate) protocol: Protocol,
    pub(crate) counters: GatewayCounters,
    /// Open connections of both ports.
    pub(crate) table: Arc<Connections>,
    /// Maximum number of concurrent connections on this port. A low limit of open files reduces this number.
    pub(crate) places: usize,
}

impl Protocol {
    const fn port(self) -> Port {
        match self {
            Self::Http1 => Port::Rest,
            Self::Http2 => Port::Grpc,
        }
    }
}

impl GatewayListener {
    /// Accepts connections until the gateway shuts down. Open connections then have at most [`GatewayLimits::grace`] to end.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener, router: Router) {
        let places = Arc::new(Semaphore::new(self.places));
        let (table, port) = (Arc::clone(&self.table), self.protocol.port());
        let connections = TaskTracker::new();
        while let Some(accepted) = self.shutdown.run_until_cancelled(listener.accept()).await {
            let (tcp, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connection to the gateway, retrying; if the error persists, raise the limit of open files");
                    tokio::time::sleep(REFUSED_PAUSE).await;
                    continue;
                }
            };
            // Closed before the wait below: silent clients with all places would never release one.
            if places.available_permits() == 0 {
                if table.make_room(port) {
                    tracing::debug!(%address, "connection closed for a new client");
                } else {
                    self.counters.count_delayed(port);
                }
            }
            // Never closed, so a place always becomes free.
            let place = Arc::clone(&places).acquire_owned();
            let Some(Ok(place)) = self.shutdown.run_until_cancelled(place).await else {
                break;
            };
            // Entered before the handshake, where a silent client would stay.
            let network = network_of(address.ip(), tcp.local_addr().ok().map(|server| server.ip()));
            let connection = Arc::new(table.enter(port, network, place));
            let (this, router) = (Arc::clone(&self), router.clone());
            connections.spawn(async move {
                let served = this.connection(tcp, address, router, Arc::clone(&connection));
                tokio::select! {
                    biased;
                    // Dropping the future closes the socket at once: another client waits for the place.
                    () = connection.displaced() => tracing::debug!(%address, "connection displaced"),
                    served = served => if let Err(error) = served {
                        tracing::debug!(%address, %error, "connection failed");
                    }
                }
            });
        }
        // Closed before the wait, so that the system refuses new clients instead of queueing them.
        drop(listener);
        connections.close();
        if timeout(self.limits.grace, connections.wait()).await.is_err() {
            tracing::warn!(
                count = connections.len(),
                "gateway stopped, connections closed before their requests ended"
            );
        }
    }

    async fn connection(
        &self,
        tcp: TcpStream,
        address: SocketAddr,
        router: Router,
        connection: Arc<Connection>,
    ) -> io::Result<()> {
        // Shells write single keys: with Nagle's algorithm each would arrive tens of milliseconds late.
        tcp.set_nodelay(true)?;
        // No request is open in a handshake, so a shutdown need not wait for it.
        let greeted = tokio::select! {
            biased;
            () = self.shutdown.cancelled() => return Ok(()),
            greeted = timeout(self.limits.handshake, self.handshake(tcp)) => greeted,
        };
        if !matches!(greeted, Ok(Ok(_))) {
            self.counters.count_failed_handshake(self.protocol.port());
        }
        let Ok(tls) = greeted else {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the handshake took too long",
            ));
        };
        let tls = tls?;
        let peer_certificate = tls.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let certificate = peer_certificate
            .and_then(|c| ClientCertificate::read(c))
            .map(Arc::new);
        if let Some(certificate) = &certificate {
            // After a failed query the connection stays open, and its requests get the error.
            match self.auth.is_certificate_valid(certificate, address.ip()).await {
                // Whether the account has a lease is looked up with its first request.
                Ok(true) => connection.used_by(&certificate.owner, false),
                Ok(false) => {
                    self.counters.count_certificate();
                    tracing::info!(%address, owner = %certificate.owner, "gateway closed a client connection: the client certificate is revoked or not on the chain");
                    return close(tls).await;
                }
                Err(_) => {}
            }
        }
        let peer = Peer {
            address,
            certificate,
            connection,
            pending_writes: PendingWrites::default(),
        };
        self.requests(tls, peer, router).await
    }

    async fn handshake(&self, tcp: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        // Checked before TLS reads the bytes and fails with an alert that no HTTP client shows.
        if plain::is_spoken(&tcp).await? {
            return Err(plain::refuse(tcp).await);
        }
        // The hello is read first: its server name selects the certificate and whether a client certificate is
        // requested.
        let hello = LazyConfigAcceptor::new(Acceptor::default(), tcp).await?;
        let config = self.tls.config_for(&hello.client_hello(), self.protocol);
        hello.into_stream(config).await
    }

    async fn requests(&self, tls: TlsStream<TcpStream>, peer: Peer, router: Router) -> io::Result<()> {
        let wire = Wire::new(tls, self.limits.write, peer.pending_writes.clone());
        let certificate = peer.certificate.as_ref();
        // Each request carries its token; a certificate belongs to the whole connection.
        let validity = certificate
            .map(|c| CredentialValidity::new(&self.auth, Some(&peer), c.not_after, self.limits.recheck));
        let calls = OpenCalls::default();
        let counting = calls.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            let (mut router, call) = (router.clone(), counting.start());
            async move {
                let reply = router.call(request.map(Body::new)).await;
                reply.map(|reply| reply.map(|body| call.attach(body)))
            }
        });
        match self.protocol {
            Protocol::Http1 => {
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    // Also closes clients that send a head byte by byte to occupy a place.
                    .header_read_timeout(self.limits.idle)
                    .max_buf_size(self.limits.head_bytes)
                    .serve_connection(TokioIo::new(wire), service)
                    .with_upgrades();
                // For HTTP/1 the idle time is that of the next head.
                self.until_over(connection, validity, pending(), |c| c.graceful_shutdown())
                    .await
            }
            Protocol::Http2 => {
                let connection = http2::Builder::new(TokioExecutor::new())
                    .timer(TokioTimer::new())
                    // Behind an expired NAT entry the client disappears without a packet. Only pings detect that.
                    .keep_alive_interval(self.limits.ping)
                    .keep_alive_timeout(self.limits.pong)
                    .max_concurrent_streams(CALLS_MAX)
                    .max_header_list_size(u32::try_from(self.limits.head_bytes).unwrap_or(u32::MAX))
                    .serve_connection(TokioIo::new(wire.greeted_within(self.limits.handshake)), service);
                let idle = calls.idle_for(self.limits.idle);
                self.until_over(connection, validity, idle, |c| c.graceful_shutdown())
                    .await
            }
        }
    }

    /// Serves a connection until a shutdown, an invalid credential, or the completion of `idle`. Then only
    /// open requests are served. Except in a shutdown, open requests are aborted after [`GatewayLimits::grace`].
    async fn until_over<C: Future<Output = hyper::Result<()>>>(
        &self,
        connection: C,
        validity: Option<CredentialValidity>,
        idle: impl Future<Output = ()>,
        end: impl FnOnce(Pin<&mut C>),
    ) -> io::Result<()> {
        let over = async {
            match validity {
                Some(validity) => validity.ended().await,
                None => pending().await,
            }
        };
        let cut = |words| move |_| io::Error::new(io::ErrorKind::TimedOut, words);
        let mut connection = pin!(connection);
        let served = tokio::select! {
            // A finished connection wins over the reasons to close it.
            biased;
            served = connection.as_mut() => served,
            () = self.shutdown.cancelled() => {
                end(connection.as_mut());
                connection.await
            }
            over = over => {
                tracing::info!(reason = over.message(), "gateway closed a client connection, see the field `reason`");
                end(connection.as_mut());
                let cut = cut(over.message());
                timeout(self.limits.grace, connection).await.map_err(cut)?
            }
            () = idle => {
                tracing::debug!("idle connection closed");
                end(connection.as_mut());
                let cut = cut("requests of an idle connection did not end in time");
                timeout(self.limits.grace, connection).await.map_err(cut)?
            }
        };
        served.map_err(io::Error::other)
    }
}

/// Closes a TLS connection with an alert.
async fn close(mut tls: TlsStream<TcpStream>) -> io::Result<()> {
    use tokio::io::AsyncWriteExt;
    timeout(Duration::from_secs(1), tls.shutdown()).await?
}
