//! The node's gRPC: every query by its path, bytes in and bytes out.

use super::node::Node;
use super::query::{Door, answer};
use super::serve::{Limits, Served};
use akash_provider_chain::Raw;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::future::{Ready, ready};
use tokio::net::TcpStream;
use tonic::metadata::{AsciiMetadataValue, MetadataMap};
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};

/// Metadata key of the height, in questions and in answers.
const HEIGHT: &str = "x-cosmos-block-height";

/// Serves one connection until it ends.
pub(super) async fn connection(node: Node, stream: TcpStream, limits: Limits) -> Served {
    let service = service_fn(move |request: Request<Incoming>| {
        let node = node.clone();
        async move { Ok::<_, Infallible>(respond(node, request, limits).await) }
    });
    hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .max_concurrent_streams(limits.streams)
        .serve_connection(TokioIo::new(stream), service)
        .await
        .map_err(Into::into)
}

async fn respond(node: Node, request: Request<Incoming>, limits: Limits) -> Response<tonic::body::Body> {
    let asked = Asked {
        node,
        path: request.uri().path().to_owned(),
    };
    let mut grpc = Grpc::new(Raw).max_decoding_message_size(limits.request_bytes);
    grpc.unary(asked, request).await
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
        let asked = match request.metadata().get(HEIGHT) {
            None => 0,
            Some(text) => {
                let height = text.to_str().ok().and_then(|t| t.parse().ok());
                height.ok_or_else(|| {
                    Status::new(Code::InvalidArgument, "invalid height header: invalid request")
                })?
            }
        };
        match answer(&self.node, Door::Grpc, &self.path, request.get_ref(), asked) {
            Ok((bytes, height)) => {
                let mut response = tonic::Response::new(Bytes::from(bytes));
                response
                    .metadata_mut()
                    .insert(HEIGHT, AsciiMetadataValue::from(height));
                Ok(response)
            }
            Err((refused, height)) => {
                let mut metadata = MetadataMap::new();
                metadata.insert(HEIGHT, AsciiMetadataValue::from(height));
                Err(Status::with_metadata(refused.status, refused.text, metadata))
            }
        }
    }
}
