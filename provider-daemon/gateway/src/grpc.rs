//! gRPC services: the provider's status for consoles and indexers, bid screening, and attestation quotes, which are
//! refused.
//!
//! Clients need no authentication, and no method changes state. A request in a protocol other than gRPC gets the gRPC
//! error that liveness checks expect.

mod lease;
mod screening;
mod status;

use super::App;
use super::calls::TimedBody;
use super::listen::Peer;
use super::statistics::count_requests;
use super::wire::PermitBody;
use akash_provider_chain::proto::DESCRIPTORS;
use akash_provider_chain::proto::akash::provider::v1::{BidScreeningRequest, BidScreeningResponse, Status};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tonic::server::{Grpc, NamedService};
use tonic::service::Routes;
use tonic_prost::ProstCodec;
use tower::{Service, service_fn};

/// Maximum size of a request message, in bytes.
const REQUEST_BYTES_MAX: usize = 256 * 1024;

#[derive(Debug, Clone)]
struct ProviderRpc {
    app: Arc<App>,
}

impl NamedService for ProviderRpc {
    const NAME: &'static str = "akash.provider.v1.ProviderRPC";
}

/// Call with a message that is not decoded yet.
type GrpcRequest = http::Request<tonic::body::Body>;
type Streamed = BoxStream<'static, Result<Status, tonic::Status>>;

impl ProviderRpc {
    fn get_status(&self, request: GrpcRequest) -> BoxFuture<'static, Response<tonic::body::Body>> {
        let app = Arc::clone(&self.app);
        let method = service_fn(move |_: tonic::Request<()>| {
            let app = Arc::clone(&app);
            async move { Ok(tonic::Response::new(status::now(&app).await)) }
        });
        let codec = ProstCodec::<Status, ()>::default();
        Box::pin(async move { Grpc::new(codec).unary(method, request).await })
    }

    fn stream_status(&self, request: GrpcRequest) -> BoxFuture<'static, Response<tonic::body::Body>> {
        let method = StreamStatus(Arc::clone(&self.app), peer_of(&request));
        let codec = ProstCodec::<Status, ()>::default();
        Box::pin(async move { Grpc::new(codec).server_streaming(method, request).await })
    }

    fn screen(&self, request: GrpcRequest) -> BoxFuture<'static, Response<tonic::body::Body>> {
        let (app, peer) = (Arc::clone(&self.app), peer_of(&request));
        let pending_writes = peer
            .as_ref()
            .map(|p| p.pending_writes.clone())
            .unwrap_or_default();
        // The method can only return a message. Its permit takes this way to the body of the response.
        let slot = Arc::new(Mutex::new(None));
        let keep = Arc::clone(&slot);
        let method = service_fn(move |request: tonic::Request<BidScreeningRequest>| {
            let (app, peer, keep) = (Arc::clone(&app), peer.clone(), Arc::clone(&keep));
            async move {
                let (reply, permit) = screening::respond(&app, peer.as_ref(), request.into_inner()).await?;
                *keep.lock().unwrap_or_else(PoisonError::into_inner) = permit;
                Ok(tonic::Response::new(reply))
            }
        });
        let codec = ProstCodec::<BidScreeningResponse, BidScreeningRequest>::default();
        // The limit of the codec comes before the decoding, so a large message is never decoded in memory.
        let mut grpc = Grpc::new(codec).max_decoding_message_size(REQUEST_BYTES_MAX);
        Box::pin(async move {
            let reply = grpc.unary(method, request).await;
            let permit = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
            reply.map(|body| tonic::body::Body::new(PermitBody::new(body, permit, pending_writes)))
        })
    }
}

/// Returns the client that sent a call, or `None` in tests without a connection.
fn peer_of<B>(call: &http::Request<B>) -> Option<Peer> {
    call.extensions().get::<Peer>().cloned()
}

struct StreamStatus(Arc<App>, Option<Peer>);

impl tonic::server::ServerStreamingService<()> for StreamStatus {
    type Response = Status;
    type ResponseStream = Streamed;
    type Future = Ready<Result<tonic::Response<Streamed>, tonic::Status>>;

    fn call(&mut self, _: tonic::Request<()>) -> Self::Future {
        ready(status::changes(Arc::clone(&self.0), Peer::ip(self.1.as_ref())).map(tonic::Response::new))
    }
}

impl Service<GrpcRequest> for ProviderRpc {
    type Response = Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: GrpcRequest) -> Self::Future {
        let method = request.uri().path().rsplit('/').next().unwrap_or_default();
        let reply = match method {
            "GetStatus" => self.get_status(request),
            "StreamStatus" => self.stream_status(request),
            "BidScreening" => self.screen(request),
            _ => Box::pin(async { tonic::Status::unimplemented("unknown method").into_http() }),
        };
        Box::pin(async move { Ok(reply.await) })
    }
}

pub(super) fn router(app: &Arc<App>) -> Router {
    let rpc = ProviderRpc { app: Arc::clone(app) };
    let (health, healthy) = tonic_health::server::health_reporter();
    let draining = app.draining.clone();
    app.tasks.spawn(async move {
        health.set_serving::<ProviderRpc>().await;
        // Health reports "not serving" when the provider drains, so that a load balancer selects another instance
        // before the port closes.
        draining.cancelled().await;
        health.set_not_serving::<ProviderRpc>().await;
    });
    let describe = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let mut routes = Routes::new(rpc).add_service(lease::LeaseRpc).add_service(healthy);
    // Reflection is optional.
    match (describe().build_v1(), describe().build_v1alpha()) {
        (Ok(v1), Ok(v1alpha)) => routes = routes.add_service(v1).add_service(v1alpha),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "cannot build the gRPC reflection service, serving without it; report this as a bug")
        }
    }
    routes
        .prepare()
        .into_axum_router()
        .layer(middleware::from_fn(only_grpc))
        .layer(middleware::from_fn_with_state(Arc::clone(app), counted))
        .layer(middleware::from_fn_with_state(Arc::clone(app), count_requests))
}

/// Limits the time to receive the request body. Counts the call in the request budget of the client's IP
/// network, unless the call is a health check.
async fn counted(State(app): State<Arc<App>>, request: Request, next: Next) -> Response<Body> {
    // A probe may share its address with many clients. If counted, it would fail with them and restart the process.
    let is_health = request.uri().path().starts_with("/grpc.health.v1.Health/");
    let request = request.map(|body| Body::new(TimedBody::new(body, app.limits.body)));
    if is_health || app.budgets.requests.take(Peer::ip(peer_of(&request).as_ref())) {
        return next.run(request).await;
    }
    app.counters.count_over_budget();
    let words = "too many requests from this address; try again in a minute";
    tonic::Status::resource_exhausted(words).into_http()
}

async fn only_grpc(request: Request, next: Next) -> Response<Body> {
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let kind = kind.unwrap_or_default();
    if kind.starts_with(b"application/grpc") {
        return next.run(request).await;
    }
    // Client data in a response header: shortened here, and quoted below so that it has no control characters.
    let kind: String = String::from_utf8_lossy(kind).chars().take(100).collect();
    let mut reply = Response::new(Body::empty());
    *reply.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(
        HeaderName::from_static("grpc-status"),
        HeaderValue::from_static("3"),
    );
    let words = format!("invalid gRPC request content-type {kind:?}");
    // Quoting leaves non-ASCII letters, which a header must not contain. The status is then enough.
    if let Ok(words) = HeaderValue::from_str(&words) {
        headers.insert(HeaderName::from_static("grpc-message"), words);
    }
    reply
}
