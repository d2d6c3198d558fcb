//! HTTP server of `GET /metrics`.

use super::{Format, Metrics};
use crate::operators::serve::{self, listen};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::get;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Ratio of the lifetime of a cached text to the duration of its computation. The lifetime is at most
/// [`LIFETIME_MAX`].
const LIFETIME_RATIO: u32 = 50;
/// Maximum lifetime of a cached text.
const LIFETIME_MAX: Duration = Duration::from_secs(5);

/// Listen address of the metrics, or `None` if disabled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsAddress(Option<String>);

impl MetricsAddress {
    /// Parses `HOST:PORT`, or `:PORT` for all IPv4 addresses. An empty text and `none` disable the metrics.
    ///
    /// # Errors
    /// Returns an error if the text has no valid port.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text == "none" {
            return Ok(Self(None));
        }
        let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
        if port.parse::<u16>().is_err() || host.contains('/') {
            return Err("expected HOST:PORT such as 0.0.0.0:9090, or none".to_owned());
        }
        let host = if host.is_empty() { "0.0.0.0" } else { host };
        Ok(Self(Some(format!("{host}:{port}"))))
    }

    /// Returns the host and port.
    pub(crate) fn get(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

#[derive(Debug, Clone)]
struct Texts {
    prometheus: Bytes,
    open_metrics: Bytes,
    valid_until: Instant,
}

#[derive(Debug)]
struct Cache {
    metrics: Metrics,
    texts: Mutex<Option<Texts>>,
}

impl Cache {
    /// Returns the cached texts, or new texts if the cached texts are too old. Concurrent requests share one
    /// computation.
    async fn texts(&self) -> Option<Texts> {
        let mut cached = self.texts.lock().await;
        if let Some(texts) = cached.as_ref().filter(|texts| Instant::now() < texts.valid_until) {
            return Some(texts.clone());
        }
        let begun = std::time::Instant::now();
        self.metrics.refresh().await;
        let (prometheus, open_metrics) = self.metrics.texts().ok()?;
        let lifetime = (begun.elapsed() * LIFETIME_RATIO).min(LIFETIME_MAX);
        let texts = Texts {
            prometheus: prometheus.into(),
            open_metrics: open_metrics.into(),
            valid_until: Instant::now() + lifetime,
        };
        *cached = Some(texts.clone());
        Some(texts)
    }
}

fn router(metrics: Metrics) -> Router {
    let cache = Cache {
        metrics,
        texts: Mutex::new(None),
    };
    Router::new()
        .route("/metrics", get(answer))
        .with_state(Arc::new(cache))
}

async fn answer(State(cache): State<Arc<Cache>>, headers: HeaderMap) -> Response<Body> {
    let Some(texts) = cache.texts().await else {
        return serve::status(StatusCode::INTERNAL_SERVER_ERROR, "cannot encode the metrics\n");
    };
    let format = Format::from_headers(&headers);
    let body = match format {
        Format::Prometheus => texts.prometheus,
        Format::OpenMetrics => texts.open_metrics,
    };
    let mut response = Response::new(Body::from(body));
    let kind = HeaderValue::from_static(format.content_type());
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Serves the metrics until `until` is cancelled. Calls `started` with the URL.
pub(crate) async fn serve(
    address: &str,
    metrics: Metrics,
    until: &CancellationToken,
    started: impl FnOnce(&str),
) {
    let report = |error: &std::io::Error| {
        tracing::warn!(address, %error, "cannot listen for metrics, retrying: free the port or change --metrics-listener");
    };
    let Some(listener) = listen(address, until, report).await else {
        return;
    };
    let address = listener
        .local_addr()
        .map_or_else(|_| address.to_owned(), |address| address.to_string());
    started(&format!("http://{address}/metrics"));
    serve::serve(listener, router(metrics), until.clone()).await;
}

#[cfg(test)]
mod tests {
    use super::super::{Measure, MetricSource};
    use super::*;
    use http::Request;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tower::ServiceExt;

    /// Characters of a label value that the Prometheus format and the OpenMetrics format both escape.
    const LABEL: &str = "\"\\\n";

    /// Metric source with a label value of 4 KiB. Counts its scrapes.
    #[derive(Debug, Clone, Default)]
    struct Source(Arc<AtomicU32>);

    impl MetricSource for Source {
        fn measures(&self) -> Vec<Measure> {
            self.0.fetch_add(1, Ordering::Relaxed);
            // The text is valid for 50 times this duration.
            std::thread::sleep(Duration::from_millis(20));
            vec![Measure::gauge("up", "Up").with([("text", &LABEL.repeat(1366))], 1.0)]
        }
    }

    /// Decodes a label value as Prometheus does. Fails if a quote is not escaped.
    fn unescaped(text: &str) -> String {
        let mut chars = text.chars();
        let mut value = String::new();
        while let Some(c) = chars.next() {
            value.push(match c {
                '\\' => match chars.next() {
                    Some('n') => '\n',
                    Some(c @ ('"' | '\\')) => c,
                    other => panic!("{other:?} in {text}"),
                },
                '"' => panic!("quote in {text}"),
                c => c,
            });
        }
        value
    }

    #[tokio::test]
    async fn frequent_scrapes_share_one_computation() {
        let (metrics, source) = (Metrics::default(), Source::default());
        metrics.add(source.clone());
        let router = router(metrics);
        let scrape = |method: &'static str| {
            let request = Request::builder()
                .method(method)
                .uri("/metrics")
                .body(Body::empty());
            router.clone().oneshot(request.unwrap())
        };
        let responses = futures::future::join_all((0..10).map(|_| scrape("GET"))).await;
        let response = responses.into_iter().next().unwrap().unwrap();
        assert_eq!(source.0.load(Ordering::Relaxed), 1);
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        let line = body.lines().find(|line| line.starts_with("up{")).unwrap();
        let escaped = line
            .strip_prefix("up{text=\"")
            .and_then(|rest| rest.strip_suffix("\"} 1.0"));
        assert_eq!(unescaped(escaped.unwrap()), LABEL.repeat(1366)[..128]);
        scrape("GET").await.unwrap();
        assert_eq!(source.0.load(Ordering::Relaxed), 1, "the text is reused");
        assert_eq!(
            scrape("POST").await.unwrap().status(),
            StatusCode::METHOD_NOT_ALLOWED
        );
    }

    #[test]
    fn an_address_has_a_port() {
        let parsed = |text: &str| MetricsAddress::parse(text).map(|address| address.0);
        assert_eq!(parsed("localhost:9090"), Ok(Some("localhost:9090".to_owned())));
        assert_eq!(parsed(":9090"), Ok(Some("0.0.0.0:9090".to_owned())));
        assert_eq!((parsed(""), parsed("none")), (Ok(None), Ok(None)));
        for bad in [
            "9090",
            "localhost",
            "localhost:http",
            "http://localhost:9090",
            "host:70000",
        ] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }
}
