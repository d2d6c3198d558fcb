//! `akash.provider.lease.v1.LeaseRPC`: attestation quotes of leases.

use super::GrpcRequest;
use crate::rest::attestation::NOT_OFFERED;
use http::Response;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use tonic::server::NamedService;
use tower::Service;

/// Service without state. Each response is the same for every caller, so no method authenticates.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeaseRpc;

impl NamedService for LeaseRpc {
    const NAME: &'static str = "akash.provider.lease.v1.LeaseRPC";
}

impl Service<GrpcRequest> for LeaseRpc {
    type Response = Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: GrpcRequest) -> Self::Future {
        let is_quote = request.uri().path().ends_with("/AttestationQuote");
        let status = if is_quote {
            tonic::Status::not_found(format!("attestation quote: {NOT_OFFERED}"))
        } else {
            tonic::Status::unimplemented("unknown method")
        };
        ready(Ok(status.into_http()))
    }
}
