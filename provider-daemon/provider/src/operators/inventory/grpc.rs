//! gRPC service `akash.inventory.v1.ClusterRPC` without TLS, for the provider in the same cluster, with server
//! reflection.
//!
//! A subscriber first receives the whole cluster, and then the whole cluster again after each change. A slow subscriber
//! misses intermediate states and receives the newest state. The service is read-only.

use super::super::serve::take;
use super::InventoryProcess;
use super::shape::on_the_wire;
use akash_provider_chain::proto::DESCRIPTORS;
use akash_provider_chain::proto::akash::inventory::v1::Cluster;
use axum::Router;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use http::{Request, Response};
use hyper::server::conn::http2;
use hyper::service::service_fn as hyper_service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService};
use tonic::service::Routes;
use tonic_prost::ProstCodec;
use tower::{Service, ServiceExt, service_fn};

/// Maximum number of concurrent calls per connection.
const CALLS_MAX: u32 = 16;
/// Maximum number of subscribers.
pub(super) const STREAMS_MAX: usize = 64;
/// Minimum interval between two messages of a stream. Each message contains the whole inventory.
const PAUSE: Duration = Duration::from_millis(250);
/// Maximum size of a request, in bytes; a valid request is empty.
const REQUEST_BYTES_MAX: usize = 4096;
/// Maximum size of a response, in bytes: the default limit of gRPC clients.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Maximum size of the request headers, in bytes.
const HEAD_BYTES_MAX: u32 = 16 << 10;
/// Interval of keep-alive pings, and timeout of the ping response.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));

#[derive(Debug, Clone)]
struct ClusterRpc {
    process: Arc<InventoryProcess>,
    /// Permits for concurrent subscribers.
    streams: Arc<Semaphore>,
    until: CancellationToken,
}

impl NamedService for ClusterRpc {
    const NAME: &'static str = "akash.inventory.v1.ClusterRPC";
}

type Streamed = BoxStream<'static, Result<Cluster, tonic::Status>>;

fn grpc() -> Grpc<ProstCodec<Cluster, ()>> {
    Grpc::new(ProstCodec::default())
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(ANSWER_BYTES_MAX)
}

impl ClusterRpc {
    fn query(&self, request: Request<Body>) -> BoxFuture<'static, Response<Body>> {
        let process = Arc::clone(&self.process);
        let method = service_fn(move |_: tonic::Request<()>| {
            let process = Arc::clone(&process);
            async move {
                let report = process.awaited().await;
                let report =
                    report.ok_or_else(|| tonic::Status::unavailable("first count of the cluster pending"))?;
                Ok(tonic::Response::new(on_the_wire(&report)))
            }
        });
        Box::pin(async move { grpc().unary(method, request).await })
    }

    fn stream(&self, request: Request<Body>) -> BoxFuture<'static, Response<Body>> {
        let method = Subscribe(self.clone());
        Box::pin(async move { grpc().server_streaming(method, request).await })
    }
}

struct Subscribe(ClusterRpc);

impl tonic::server::ServerStreamingService<()> for Subscribe {
    type Response = Cluster;
    type ResponseStream = Streamed;
    type Future = Ready<Result<tonic::Response<Streamed>, tonic::Status>>;

    fn call(&mut self, _: tonic::Request<()>) -> Self::Future {
        let ClusterRpc {
            process,
            streams,
            until,
        } = self.0.clone();
        let Ok(place) = streams.try_acquire_owned() else {
            let words = format!("limit of {STREAMS_MAX} subscribers reached; retry later");
            return ready(Err(tonic::Status::resource_exhausted(words)));
        };
        let mut reports = process.operator.reports();
        reports.mark_changed();
        let changes = stream::unfold((reports, None), |(mut reports, last)| async move {
            loop {
                if last.is_some() {
                    sleep(PAUSE).await;
                }
                reports.changed().await.ok()?;
                let now = reports.borrow_and_update().clone();
                let now = now.map(|now| on_the_wire(&now));
                // Resources that the rules exclude change too.
                if let Some(now) = now.filter(|now| last.as_ref() != Some(now)) {
                    return Some((Ok(now.clone()), (reports, Some(now))));
                }
            }
        });
        let changes = changes.inspect(move |_| {
            // The permit is released with the stream.
            let _held = &place;
        });
        ready(Ok(tonic::Response::new(
            changes.take_until(until.cancelled_owned()).boxed(),
        )))
    }
}

impl Service<Request<Body>> for ClusterRpc {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let method = request.uri().path().rsplit('/').next().unwrap_or_default();
        let answer = match method {
            "QueryCluster" => self.query(request),
            "StreamCluster" => self.stream(request),
            _ => Box::pin(async { tonic::Status::unimplemented("unknown method").into_http() }),
        };
        Box::pin(async move { Ok(answer.await) })
    }
}

fn router(process: Arc<InventoryProcess>, until: CancellationToken) -> Router {
    let streams = Arc::new(Semaphore::new(STREAMS_MAX));
    let mut routes = Routes::new(ClusterRpc {
        process,
        streams,
        until,
    });
    let describe = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .with_service_name(ClusterRpc::NAME)
    };
    // The service works without reflection.
    match (describe().build_v1(), describe().build_v1alpha()) {
        (Ok(v1), Ok(v1alpha)) => routes = routes.add_service(v1).add_service(v1alpha),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "cannot build the gRPC reflection service, serving without it; report this as a bug")
        }
    }
    routes.prepare().into_axum_router()
}

/// Serves requests until `until` is cancelled, and then finishes the requests in progress.
pub(super) async fn serve(listener: TcpListener, process: Arc<InventoryProcess>, until: CancellationToken) {
    let (router, end) = (router(process, until.clone()), until.clone());
    let answer = move |stream, _| converse(stream, router.clone(), end.clone());
    take(listener, answer, until).await;
}

async fn converse(stream: TcpStream, router: Router, until: CancellationToken) {
    let service = hyper_service(move |request: Request<hyper::body::Incoming>| {
        router.clone().oneshot(request.map(axum::body::Body::new))
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1)
        .max_concurrent_streams(CALLS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = &mut connection => ended,
        () = until.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "gRPC connection failed");
    }
}

#[cfg(test)]
mod tests;
