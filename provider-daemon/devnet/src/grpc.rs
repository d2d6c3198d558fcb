//! gRPC port of the node. The request and response of each query are encoded messages, selected by the path of the
//! query.
//!
//! Metadata of responses, the same as on Akash nodes:
//!
//! | response | head | trailers |
//! |---|---|---|
//! | from the state after a block | `content-type`, the height | `grpc-status`, `grpc-message` |
//! | refusal by the state | the same | the same; there is no message |
//! | from the server itself (discovery) | `content-type` | `grpc-status`, `grpc-message` |
//! | refusal before any state | `content-type`, `grpc-status`, `grpc-message` | none |

use super::node::DevnetNode;
use super::query::{Transport, execute};
use super::serve::{Served, ServerLimits};
use akash_provider_chain::Raw;
use akash_provider_chain::method::Method;
use akash_provider_chain::proto::akash::discovery::v1::GetInfoRequest;
use bytes::Bytes;
use futures::stream::once;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::future::{Ready, ready};
use tokio::net::TcpStream;
use tonic::body::Body;
use tonic::metadata::{AsciiMetadataValue, MetadataMap};
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};

/// Metadata key of the height, in requests and responses.
const HEIGHT: &str = "x-cosmos-block-height";

const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";

pub(super) async fn connection(node: DevnetNode, stream: TcpStream, limits: ServerLimits) -> Served {
    let service = service_fn(move |request: Request<Incoming>| {
        let node = node.clone();
        async move { Ok::<_, Infallible>(respond(node, request, limits).await) }
    });
    hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .max_concurrent_streams(limits.streams)
        // The network's nodes send no date.
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
        .map_err(Into::into)
}

async fn respond(node: DevnetNode, request: Request<Incoming>, limits: ServerLimits) -> Response<Body> {
    let requested = RawQuery {
        node,
        path: request.uri().path().to_owned(),
    };
    let mut grpc = Grpc::new(Raw).max_decoding_message_size(limits.request_bytes);
    move_status(grpc.unary(requested, request).await)
}

/// Moves `grpc-status` and `grpc-message` to the trailers, as Akash nodes do. In a response without a height,
/// both fields remain in the head.
fn move_status(response: Response<Body>) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    let no_message = || HeaderValue::from_static("");
    if !head.headers.contains_key(STATUS) {
        let body = body.map_frame(move |mut frame| {
            if let Some(trailers) = frame.trailers_mut() {
                trailers.entry(MESSAGE).or_insert_with(no_message);
            }
            frame
        });
        return Response::from_parts(head, Body::new(body));
    }
    head.headers.entry(MESSAGE).or_insert_with(no_message);
    if !head.headers.contains_key(HEIGHT) {
        return Response::from_parts(head, body);
    }
    let trailers = [STATUS, MESSAGE].into_iter();
    let trailers = trailers.filter_map(|name| Some((name.parse().ok()?, head.headers.remove(name)?)));
    let trailers: HeaderMap = trailers.collect();
    // A body of unknown size, because hyper would send a content length for an empty one.
    let trailers = Ok::<_, Infallible>(Frame::<Bytes>::trailers(trailers));
    Response::from_parts(head, Body::new(StreamBody::new(once(ready(trailers)))))
}

struct RawQuery {
    node: DevnetNode,
    path: String,
}

impl UnaryService<Bytes> for RawQuery {
    type Response = Bytes;
    type Future = Ready<Result<tonic::Response<Bytes>, Status>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        ready(self.execute(&request))
    }
}

impl RawQuery {
    fn execute(&self, request: &tonic::Request<Bytes>) -> Result<tonic::Response<Bytes>, Status> {
        // Discovery has no height in its request and response.
        let is_of_server = self.path == GetInfoRequest::PATH;
        let requested = match request.metadata().get(HEIGHT).filter(|_| !is_of_server) {
            None => 0,
            Some(text) => {
                let height = text.to_str().ok().and_then(|t| t.parse().ok());
                height.ok_or_else(|| {
                    Status::new(Code::InvalidArgument, "invalid height header: invalid request")
                })?
            }
        };
        match execute(
            &self.node,
            Transport::Grpc,
            &self.path,
            request.get_ref(),
            requested,
        ) {
            Ok((bytes, height)) => {
                let mut response = tonic::Response::new(Bytes::from(bytes));
                if !is_of_server {
                    let height = AsciiMetadataValue::from(height);
                    response.metadata_mut().insert(HEIGHT, height);
                }
                Ok(response)
            }
            Err((refused, height)) => {
                let mut metadata = MetadataMap::new();
                if !refused.is_without_state && !is_of_server {
                    metadata.insert(HEIGHT, AsciiMetadataValue::from(height));
                }
                Err(Status::with_metadata(refused.status, refused.text, metadata))
            }
        }
    }
}
