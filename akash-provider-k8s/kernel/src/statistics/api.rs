//! Layer of a client that counts requests to the API server.

use super::request::{ApiCall, ApiResult, Verb, classify};
use akash_provider_core::statistics::{CALL_BOUNDS, CounterMap, DurationCounts, DurationHistogram};
use futures::future::{BoxFuture, FutureExt};
use http::{Request, Response};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::Instant;
use tower::{Layer, Service};

/// Maximum number of counted combinations of verb, resource and result.
const CALLS_MAX: usize = 512;

/// Statistics of requests since the start of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiStatistics {
    /// Number of requests by verb, resource and result.
    pub calls: BTreeMap<ApiCall, u64>,
    /// Durations of read requests until the start of the response. Watches are not counted.
    pub reads: DurationCounts,
    /// Durations of write requests until the start of the response.
    pub writes: DurationCounts,
}

/// Counter of requests, as a layer for [`kube::client::ClientBuilder`]. Clones share the counters.
///
/// Add this layer before all others, so that requests rejected by another layer are not counted.
#[derive(Debug, Clone)]
pub struct ApiCalls(Arc<Counters>);

#[derive(Debug)]
struct Counters {
    calls: CounterMap<ApiCall>,
    reads: DurationHistogram,
    writes: DurationHistogram,
}

/// Service that counts requests.
#[derive(Debug, Clone)]
pub struct CountedCalls<S> {
    inner: S,
    calls: ApiCalls,
}

impl Default for ApiCalls {
    fn default() -> Self {
        let other = ApiCall {
            verb: Verb::Other,
            resource: "other",
            result: ApiResult::Error,
        };
        Self(Arc::new(Counters {
            calls: CounterMap::new(CALLS_MAX, other),
            reads: DurationHistogram::new(&CALL_BOUNDS),
            writes: DurationHistogram::new(&CALL_BOUNDS),
        }))
    }
}

impl ApiCalls {
    /// Returns a copy of the counters.
    #[must_use]
    pub fn statistics(&self) -> ApiStatistics {
        ApiStatistics {
            calls: self.0.calls.values(),
            reads: self.0.reads.values(),
            writes: self.0.writes.values(),
        }
    }
}

impl<S> Layer<S> for ApiCalls {
    type Service = CountedCalls<S>;

    fn layer(&self, inner: S) -> CountedCalls<S> {
        CountedCalls {
            inner,
            calls: self.clone(),
        }
    }
}

impl<S, A, B> Service<Request<A>> for CountedCalls<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (verb, resource) = classify(&request);
        let counters = Arc::clone(&self.calls.0);
        let (began, response) = (Instant::now(), self.inner.call(request));
        async move {
            let response = response.await;
            let result = match &response {
                Ok(response) => ApiResult::from_status(response.status()),
                Err(_) => ApiResult::Unreachable,
            };
            counters.calls.increment(ApiCall {
                verb,
                resource,
                result,
            });
            match verb {
                // The start of a watch and of a command depends on other programs.
                Verb::Watch | Verb::Connect => {}
                verb if verb.is_read() => counters.reads.record(began.elapsed()),
                _ => counters.writes.record(began.elapsed()),
            }
            response
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower::ServiceExt;

    #[tokio::test]
    async fn requests_are_counted_with_their_results() {
        let calls = ApiCalls::default();
        let server = tower::service_fn(async |request: Request<()>| {
            let status: u16 = request.headers()["wanted"].to_str().unwrap().parse().unwrap();
            match status {
                0 => Err("connection refused"),
                status => Ok(Response::builder().status(status).body(()).unwrap()),
            }
        });
        let client = calls.layer(server);
        let statuses = [
            (200, ApiResult::Success),
            (201, ApiResult::Created),
            (404, ApiResult::NotFound),
            (409, ApiResult::Conflict),
            (403, ApiResult::Denied),
            (429, ApiResult::Throttled),
            (500, ApiResult::Error),
            (0, ApiResult::Unreachable),
        ];
        for (status, _) in statuses {
            let request = Request::get("/api/v1/pods").header("wanted", status.to_string());
            drop(client.clone().oneshot(request.body(()).unwrap()).await);
        }
        let watch = Request::get("/api/v1/pods?watch=true").header("wanted", "200");
        client.clone().oneshot(watch.body(()).unwrap()).await.unwrap();
        let counted = calls.statistics();
        for (status, result) in statuses {
            let key = ApiCall {
                verb: Verb::List,
                resource: "pods",
                result,
            };
            assert_eq!(counted.calls.get(&key), Some(&1), "{status}");
        }
        assert_eq!(counted.calls.values().sum::<u64>(), 9);
        assert_eq!((counted.reads.total(), counted.writes.total()), (8, 0));
    }
}
