//! Write access of one instance. This module creates the interfaces through which `run` changes anything
//! outside of its home directory. These interfaces reject writes while another instance leads.
//!
//! There are two exceptions. The client of the provider's election is created in another module, because the
//! election decides which instance leads. The client of the embedded operators ([`Writers::unguarded`])
//! rejects no writes, because these operators have their own elections.

use crate::audit::Audit;
use akash_provider_chain::AkashClient;
use akash_provider_core::bus::{Bus, LeaderBus};
use akash_provider_core::election::LeadershipGate;
use akash_provider_k8s::audit::DeletionLog;
use akash_provider_k8s::statistics::ApiCalls;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt, TryFutureExt};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Either;
use kube::Client;
use kube::client::{Body, ClientBuilder};
use serde_json::json;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::layer::layer_fn;
use tower::{BoxError, Service};

/// API path prefixes of access reviews: POST requests that store nothing.
const REVIEWS: [&str; 2] = ["/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"];
const REFUSED: &str = "not written: another instance may be the leader";

/// Factory of clients and buses that write only while this instance leads.
#[derive(Debug, Clone)]
pub(crate) struct Writers {
    gate: Option<LeadershipGate>,
    lease: Duration,
    calls: ApiCalls,
    deletions: DeletionLog,
}

impl Writers {
    /// Creates the factory. With `gate` as `None`, writes are always permitted.
    pub(crate) fn new(gate: Option<LeadershipGate>, lease: Duration) -> Self {
        Self {
            gate,
            lease,
            calls: ApiCalls::default(),
            deletions: DeletionLog::default(),
        }
    }

    /// Sets the audit log for deletions in the cluster.
    pub(crate) fn audited(mut self, audit: Option<&Audit>) -> Self {
        self.deletions = audit.cloned().map(DeletionLog::new).unwrap_or_default();
        self
    }

    /// Returns the audit log of the deletions in the cluster.
    pub(crate) fn deletions(&self) -> DeletionLog {
        self.deletions.clone()
    }

    /// Returns the counter of cluster requests, which all clients from this factory share.
    pub(crate) const fn calls(&self) -> &ApiCalls {
        &self.calls
    }

    /// Returns a factory of clients that reject every write.
    pub(crate) fn read_only() -> Self {
        Self::new(Some(LeadershipGate::new(false)), Duration::ZERO)
    }

    /// Returns false for a single instance, which always writes.
    pub(crate) const fn has_election(&self) -> bool {
        self.gate.is_some()
    }

    /// Returns a chain client that sends transactions only while this instance leads.
    pub(crate) fn chain(&self, chain: AkashClient) -> AkashClient {
        match self.gate.clone() {
            Some(gate) => chain.fenced(move || gate.term().is_some()),
            None => chain,
        }
    }

    /// Returns a bus that publishes events only while this instance leads. A standby buffers each event for
    /// twice the election lease duration.
    pub(crate) fn bus(&self, bus: impl Bus) -> Arc<dyn Bus> {
        match self.gate.clone() {
            Some(gate) => Arc::new(LeaderBus::new(bus, gate, self.lease * 2)),
            None => Arc::new(bus),
        }
    }

    /// Returns a cluster client that rejects writes with 503 while another instance leads. The client checks
    /// the leadership immediately before it sends a write. A suspended process therefore sends no old write
    /// when it resumes.
    pub(crate) fn kubernetes<S, B>(&self, builder: ClientBuilder<S>) -> Client
    where
        S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError> + Send,
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let gate = self.gate.clone();
        let fence = layer_fn(move |inner| Fence {
            inner,
            gate: gate.clone(),
        });
        // The layer below the check counts only requests that are sent.
        builder.with_layer(&self.calls).with_layer(&fence).build()
    }

    /// Returns a cluster client that writes even while another instance leads, for parts with their own
    /// elections.
    pub(crate) fn unguarded<S, B>(&self, builder: ClientBuilder<S>) -> Client
    where
        S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError> + Send,
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        builder.with_layer(&self.calls).build()
    }

    /// Runs `work` while this instance leads. Starts `work` again in each election term.
    pub(crate) async fn while_leading<F: Future<Output = ()>>(&self, work: impl Fn() -> F) {
        let Some(gate) = &self.gate else {
            return work().await;
        };
        loop {
            gate.opened().await;
            if gate.during(work()).await.is_some() {
                return;
            }
        }
    }
}

/// Service that rejects writes while another instance leads.
#[derive(Debug, Clone)]
struct Fence<S> {
    inner: S,
    gate: Option<LeadershipGate>,
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
        let is_closed = self.gate.as_ref().is_some_and(|gate| gate.term().is_none());
        if is_closed && is_write(&request) {
            return std::future::ready(Ok(refusal().map(Either::Left))).boxed();
        }
        let response = self.inner.call(request);
        response.map_ok(|response| response.map(Either::Right)).boxed()
    }
}

fn is_write(request: &Request<Body>) -> bool {
    let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    // A review is a query in the form of a created object.
    !reads && !REVIEWS.iter().any(|path| request.uri().path().starts_with(path))
}

/// Returns the 503 error for a rejected write. Callers retry later.
fn refusal() -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": StatusCode::SERVICE_UNAVAILABLE.as_u16(), "reason": "ServiceUnavailable", "message": REFUSED,
    });
    let mut response = Response::new(Body::from(status.to_string().into_bytes()));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}

#[cfg(test)]
mod tests;
