//! The node's gRPC: every query by its path, bytes in and bytes out.
//!
//! What a node says beside its answers, as the network's own does:
//!
//! | answer | head | trailers |
//! |---|---|---|
//! | of the state after a block | `content-type`, the height | `grpc-status`, `grpc-message` |
//! | a refusal by the state | the same | the same; there is no message |
//! | of the server itself (discovery) | `content-type` | `grpc-status`, `grpc-message` |
//! | a refusal before there was a state | `content-type`, `grpc-status`, `grpc-message` | none |

use super::node::Node;
use super::query::{Transport, answer};
use super::serve::{Limits, Served};
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

/// Metadata key of the height, in questions and in answers.
const HEIGHT: &str = "x-cosmos-block-height";

const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";

/// Serves one connection until it ends.
pub(super) async fn connection(node: Node, stream: TcpStream, limits: Limits) -> Served {
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

async fn respond(node: Node, request: Request<Incoming>, limits: Limits) -> Response<Body> {
    let asked = Asked {
        node,
        path: request.uri().path().to_owned(),
    };
    let mut grpc = Grpc::new(Raw).max_decoding_message_size(limits.request_bytes);
    as_the_network(grpc.unary(asked, request).await)
}

/// Puts status and message where the network's nodes have them: in the head only where nothing else is said.
fn as_the_network(response: Response<Body>) -> Response<Body> {
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
    // A body of unknown size: of an empty one hyper would say the length.
    let trailers = Ok::<_, Infallible>(Frame::<Bytes>::trailers(trailers));
    Response::from_parts(head, Body::new(StreamBody::new(once(ready(trailers)))))
}

struct Asked {
    node: Node,
    path: String,
}

impl UnaryService<Bytes> for Asked {
    type Response = Bytes;
    type Future = Ready<Result<tonic::Response<Bytes>, Status>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        ready(self.answer(&request))
    }
}

impl Asked {
    fn answer(&self, request: &tonic::Request<Bytes>) -> Result<tonic::Response<Bytes>, Status> {
        // The server answers it itself: no height is asked, and none is said.
        let is_of_server = self.path == GetInfoRequest::PATH;
        let asked = match request.metadata().get(HEIGHT).filter(|_| !is_of_server) {
            None => 0,
            Some(text) => {
                let height = text.to_str().ok().and_then(|t| t.parse().ok());
                height.ok_or_else(|| {
                    Status::new(Code::InvalidArgument, "invalid height header: invalid request")
                })?
            }
        };
        match answer(&self.node, Transport::Grpc, &self.path, request.get_ref(), asked) {
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
