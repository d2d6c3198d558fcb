//! gRPC: the status as consoles and indexers read it, and whether a group would get a bid.
//!
//! Anybody may ask; nothing here changes anything. Who asks without speaking gRPC is told so in the form that
//! liveness checks look for.

mod screening;
mod status;

use super::App;
use super::calls::Timely;
use super::listen::Peer;
use super::wire::Held;
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

/// A group of a deployment is some kilobytes.
const REQUEST_BYTES_MAX: usize = 256 * 1024;

/// `akash.provider.v1.ProviderRPC`, of which three methods are served; any other is "unimplemented".
#[derive(Debug, Clone)]
struct ProviderRpc {
    app: Arc<App>,
}

impl NamedService for ProviderRpc {
    const NAME: &'static str = "akash.provider.v1.ProviderRPC";
}

/// A call as it comes.
type Call = http::Request<tonic::body::Body>;
/// Statuses, one after the other.
type Streamed = BoxStream<'static, Result<Status, tonic::Status>>;

impl ProviderRpc {
    fn get_status(&self, request: Call) -> BoxFuture<'static, Response<tonic::body::Body>> {
        let app = Arc::clone(&self.app);
        let method = service_fn(move |_: tonic::Request<()>| {
            let app = Arc::clone(&app);
            async move { Ok(tonic::Response::new(status::now(&app).await)) }
        });
        let codec = ProstCodec::<Status, ()>::default();
        Box::pin(async move { Grpc::new(codec).unary(method, request).await })
    }

    fn stream_status(&self, request: Call) -> BoxFuture<'static, Response<tonic::body::Body>> {
        let method = StreamStatus(Arc::clone(&self.app), peer_of(&request));
        let codec = ProstCodec::<Status, ()>::default();
        Box::pin(async move { Grpc::new(codec).server_streaming(method, request).await })
    }

    fn screen(&self, request: Call) -> BoxFuture<'static, Response<tonic::body::Body>> {
        let (app, peer) = (Arc::clone(&self.app), peer_of(&request));
        let unwritten = peer.as_ref().map(|p| p.unwritten.clone()).unwrap_or_default();
        // The method can return a message only. The turn leaves it through here, so that the body of the answer can
        // carry it.
        let held = Arc::new(Mutex::new(None));
        let keep = Arc::clone(&held);
        let method = service_fn(move |asked: tonic::Request<BidScreeningRequest>| {
            let (app, peer, keep) = (Arc::clone(&app), peer.clone(), Arc::clone(&keep));
            async move {
                let (answer, turn) = screening::answer(&app, peer.as_ref(), asked.into_inner()).await?;
                *keep.lock().unwrap_or_else(PoisonError::into_inner) = turn;
                Ok(tonic::Response::new(answer))
            }
        });
        let codec = ProstCodec::<BidScreeningResponse, BidScreeningRequest>::default();
        // The limit of the codec comes before the decoding, so a large message is never built up in memory.
        let mut grpc = Grpc::new(codec).max_decoding_message_size(REQUEST_BYTES_MAX);
        Box::pin(async move {
            let answer = grpc.unary(method, request).await;
            let turn = held.lock().unwrap_or_else(PoisonError::into_inner).take();
            answer.map(|body| tonic::body::Body::new(Held::new(body, turn, unwritten)))
        })
    }
}

/// The connection of a call.
fn peer_of<B>(call: &http::Request<B>) -> Option<Peer> {
    call.extensions().get::<Peer>().cloned()
}

/// The method that answers with a stream, and who asks.
struct StreamStatus(Arc<App>, Option<Peer>);

impl tonic::server::ServerStreamingService<()> for StreamStatus {
    type Response = Status;
    type ResponseStream = Streamed;
    type Future = Ready<Result<tonic::Response<Streamed>, tonic::Status>>;

    fn call(&mut self, _: tonic::Request<()>) -> Self::Future {
        ready(status::changes(Arc::clone(&self.0), Peer::ip(self.1.as_ref())).map(tonic::Response::new))
    }
}

impl Service<Call> for ProviderRpc {
    type Response = Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Call) -> Self::Future {
        let method = request.uri().path().rsplit('/').next().unwrap_or_default();
        let answer = match method {
            "GetStatus" => self.get_status(request),
            "StreamStatus" => self.stream_status(request),
            "BidScreening" => self.screen(request),
            _ => Box::pin(async { tonic::Status::unimplemented("unknown method").into_http() }),
        };
        Box::pin(async move { Ok(answer.await) })
    }
}

/// All services: the provider's, health, and what they are.
pub(super) fn router(app: &Arc<App>) -> Router {
    let rpc = ProviderRpc { app: Arc::clone(app) };
    let (health, healthy) = tonic_health::server::health_reporter();
    let draining = app.draining.clone();
    app.tasks.spawn(async move {
        health.set_serving::<ProviderRpc>().await;
        // Health says "not serving" as soon as it drains, so that a load balancer looks elsewhere before the port
        // closes.
        draining.cancelled().await;
        health.set_not_serving::<ProviderRpc>().await;
    });
    let describe = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let mut routes = Routes::new(rpc).add_service(healthy);
    // Without descriptions everything else still works.
    match (describe().build_v1(), describe().build_v1alpha()) {
        (Ok(v1), Ok(v1alpha)) => routes = routes.add_service(v1).add_service(v1alpha),
        (Err(error), _) | (_, Err(error)) => tracing::error!("services cannot be described: {error}"),
    }
    routes
        .prepare()
        .into_axum_router()
        .layer(middleware::from_fn(only_grpc))
        .layer(middleware::from_fn_with_state(Arc::clone(app), counted))
}

/// Everything here is for anybody, and each network has so much of it; but for its health, as over REST. No request
/// takes long to come.
async fn counted(State(app): State<Arc<App>>, request: Request, next: Next) -> Response<Body> {
    // A probe may share its address with many clients. Counted, it would fail with them and the process be restarted.
    let is_health = request.uri().path().starts_with("/grpc.health.v1.Health/");
    let request = request.map(|body| Body::new(Timely::new(body, app.limits.body)));
    if is_health || app.budgets.requests.take(Peer::ip(peer_of(&request).as_ref())) {
        return next.run(request).await;
    }
    let words = "too many requests from this address; try again in a minute";
    tonic::Status::resource_exhausted(words).into_http()
}

/// Turns away who does not speak gRPC.
async fn only_grpc(request: Request, next: Next) -> Response<Body> {
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let kind = kind.unwrap_or_default();
    if kind.starts_with(b"application/grpc") {
        return next.run(request).await;
    }
    // The words come from a stranger and go back in a header: cut short, and quoted below so that no control
    // character stays.
    let kind: String = String::from_utf8_lossy(kind).chars().take(100).collect();
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(
        HeaderName::from_static("grpc-status"),
        HeaderValue::from_static("3"),
    );
    let words = format!("invalid gRPC request content-type {kind:?}");
    // Non-ASCII letters survive quoting and may not stand in a header. The status alone says enough then.
    if let Ok(words) = HeaderValue::from_str(&words) {
        headers.insert(HeaderName::from_static("grpc-message"), words);
    }
    answer
}
