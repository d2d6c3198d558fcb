//! Cluster client that writes only while a leadership gate is open. A write ends with the term in which it
//! started, so a suspended process sends no queued write after it resumes.

mod executor;

use akash_provider_core::election::{LeadershipGate, WritePermit};
use bytes::Bytes;
pub use executor::TermExecutor;
use futures::future::{BoxFuture, FutureExt};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Either;
use kube::Client;
use kube::client::{Body, ClientBuilder};
use serde_json::json;
use std::fmt;
use std::task::{Context, Poll};
use tower::layer::layer_fn;
use tower::{BoxError, Service};

/// API path prefixes of access reviews: POST requests that store nothing.
const REVIEWS: [&str; 2] = ["/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"];
const NOT_SENT: &str = "not written: another instance may be the leader";
const INTERRUPTED: &str = "the leadership ended before the response, so the write may have been applied";

/// Client of a cluster. While the gate of the client is closed, the client rejects writes with status 503.
/// Clones share connections and gate.
///
/// Every backend and operator that writes requires this client.
#[derive(Clone)]
pub struct WriteClient {
    client: Client,
    gate: LeadershipGate,
}

impl fmt::Debug for WriteClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteClient")
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}

impl WriteClient {
    /// Creates a client with connections of its own. Create the builder with a [`TermExecutor`], so that no connection
    /// sends a write after the end of its term.
    pub fn build<S, B>(builder: ClientBuilder<S>, gate: LeadershipGate) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError> + Send + 'static,
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let at = gate.clone();
        let fence = layer_fn(move |inner| Fence {
            inner,
            gate: at.clone(),
        });
        let client = builder.with_layer(&fence).build();
        Self { client, gate }
    }

    /// Creates a client that always writes, for a program without an election.
    #[must_use]
    pub fn without_election(client: Client) -> Self {
        let gate = LeadershipGate::new(true);
        Self { client, gate }
    }

    /// Creates a client that shares the connections and the queue of `client`. The gate is checked before this
    /// queue. A write ends with its term also in the queue.
    #[must_use]
    pub fn sharing(client: Client, gate: LeadershipGate) -> Self {
        let namespace = client.default_namespace().to_owned();
        let sending = tower::service_fn(move |request| {
            let client = client.clone();
            async move { client.send(request).await }
        });
        Self::build(ClientBuilder::new(sending, namespace), gate)
    }

    /// Returns the client of the cluster. The client rejects writes while the gate is closed.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the gate of the client.
    #[must_use]
    pub const fn gate(&self) -> &LeadershipGate {
        &self.gate
    }
}

/// Service that rejects writes while another instance leads.
#[derive(Debug, Clone)]
struct Fence<S> {
    inner: S,
    gate: LeadershipGate,
}

impl<S, B> Fence<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    /// Sends a write. Stops waiting when the term of `permit` ends, because the client may still wait for a
    /// connection and would then send the write too late.
    fn write(
        &mut self,
        request: Request<Body>,
        permit: WritePermit,
    ) -> impl Future<Output = Result<Response<Either<Body, B>>, S::Error>> + Send + 'static {
        let (sending, gate) = (self.inner.call(request), self.gate.clone());
        async move {
            match gate.under(&permit, sending).await {
                Some(response) => response.map(|response| response.map(Either::Right)),
                None => Ok(unavailable(INTERRUPTED).map(Either::Left)),
            }
        }
    }
}

impl<S, B> Service<Request<Body>> for Fence<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<Either<Body, B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if !is_write(&request) {
            let response = self.inner.call(request);
            return async { Ok(response.await?.map(Either::Right)) }.boxed();
        }
        match self.gate.permit() {
            Some(permit) => self.write(request, permit).boxed(),
            None => std::future::ready(Ok(unavailable(NOT_SENT).map(Either::Left))).boxed(),
        }
    }
}

fn is_write(request: &Request<Body>) -> bool {
    let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    let uri = request.uri();
    // A review is a query in the form of a created object.
    let is_review = REVIEWS.iter().any(|path| uri.path().starts_with(path));
    let is_dry_run = uri
        .query()
        .is_some_and(|query| query.split('&').any(|one| one == "dryRun=All"));
    !reads && !is_review && !is_dry_run
}

/// Returns a 503 error. Callers retry later.
fn unavailable(message: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": StatusCode::SERVICE_UNAVAILABLE.as_u16(), "reason": "ServiceUnavailable", "message": message,
    });
    let mut response = Response::new(Body::from(status.to_string().into_bytes()));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}

#[cfg(test)]
mod tests;
