//! Comparison with the metrics of the MetalLB controller. A lasting difference from the operator's own count of
//! addresses is only logged.
//!
//! The metrics are requested after a change of the operator's own count. While the counts differ, the request is
//! repeated a limited number of times.

use super::shared::{IpOperatorState, MetricsStatus};
use super::usage;
use akash_provider_core::error::chain_text;
use akash_provider_kube_kernel::time::rfc3339;
use akash_provider_kube_model::leased_ips::AddressUsage;
use akash_provider_kube_model::problem::cut;
use futures::AsyncReadExt;
use k8s_openapi::jiff::Timestamp;
use kube::api::GetParams;
use kube::core::Request;
use kube::{Client, Config};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Minimum interval between two requests for the metrics of MetalLB. Doubles while the counts differ.
const EVERY: Duration = Duration::from_secs(60);
/// Delay from a change of the operator's own address count to the request for the metrics of MetalLB.
const GATHER: Duration = Duration::from_secs(5);
/// Maximum number of requests for the metrics after a change of the operator's own count. The requests are
/// spread over about an hour.
const TRIES: u32 = 7;
/// Maximum size of a response, in bytes.
const RESPONSE_MAX: u64 = 4 << 20;
const TOTAL: &str = "metallb_allocator_addresses_total";
const IN_USE: &str = "metallb_allocator_addresses_in_use_total";

#[derive(Debug, Default)]
struct RequestSchedule {
    /// Address counts of this operator at the time of the last request.
    counted: Option<(u32, u32)>,
    /// Number of requests since the last change of `counted`.
    tries: u32,
    is_same: bool,
}

impl RequestSchedule {
    /// Returns the delay between the last and the next request. Returns `None` if the next request waits for
    /// a change of the operator's own count.
    fn wait(&mut self, counted: Option<(u32, u32)>) -> Option<Duration> {
        // An unknown count cannot be compared.
        let counted = counted?;
        if self.counted != Some(counted) {
            *self = Self {
                counted: Some(counted),
                ..Self::default()
            };
        }
        (!self.is_same && self.tries < TRIES).then(|| EVERY.saturating_mul(1 << self.tries.saturating_sub(1)))
    }

    fn note_result(&mut self, is_same: bool) {
        self.tries += 1;
        self.is_same = is_same;
    }
}

pub(super) struct MetricsEndpoint {
    client: Client,
    path: String,
    of: String,
}

impl MetricsEndpoint {
    /// Creates a source for the metrics at `endpoint` (`HOST:PORT`). Without `endpoint`, uses the Service of
    /// the MetalLB controller.
    pub(super) fn new(client: &Client, namespace: &str, endpoint: Option<&str>) -> Result<Self, String> {
        let Some(endpoint) = endpoint else {
            let service = format!("/api/v1/namespaces/{namespace}/services/controller:monitoring/proxy");
            return Ok(Self {
                client: client.clone(),
                path: service,
                of: format!("Service controller in namespace {namespace}, port monitoring"),
            });
        };
        let url = format!("http://{endpoint}");
        let url = url
            .parse()
            .map_err(|_| format!("invalid endpoint `{endpoint}`: expected HOST:PORT"))?;
        let client = Client::try_from(Config::new(url)).map_err(|error| chain_text(&error))?;
        Ok(Self {
            client,
            path: String::new(),
            of: endpoint.to_owned(),
        })
    }

    async fn ask(&self) -> Result<String, String> {
        let request = Request::new(&self.path).get("metrics", &GetParams::default());
        let request = request.map_err(|error| error.to_string())?;
        let answer = self.client.request_stream(request).await;
        let answer = answer.map_err(|error| chain_text(&error))?;
        let mut bytes = Vec::new();
        let read = Box::pin(answer).take(RESPONSE_MAX).read_to_end(&mut bytes).await;
        read.map_err(|error| chain_text(&error))?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length >= RESPONSE_MAX) {
            return Err(format!("the response is longer than {RESPONSE_MAX} bytes"));
        }
        String::from_utf8(bytes).map_err(|_| "the response is not valid UTF-8".to_owned())
    }
}

/// Requests the metrics on schedule, forever.
pub(super) async fn watch(
    source: Result<MetricsEndpoint, String>,
    limit: Duration,
    shared: Arc<IpOperatorState>,
) {
    let source = match source {
        Ok(source) => source,
        Err(error) => {
            tracing::warn!(
                error,
                "invalid address of the MetalLB metrics, number of addresses not compared; check --metal-lb-endpoint"
            );
            let error = Some(error);
            shared.set_metrics(MetricsStatus {
                error,
                ..MetricsStatus::default()
            });
            return;
        }
    };
    let mut changes = shared.state.changes();
    let mut cadence = RequestSchedule::default();
    let (mut last, mut asked): (Option<String>, Option<Instant>) = (None, None);
    loop {
        changes.borrow_and_update();
        let usage = usage::usage(&shared.state.inner().index);
        let wait = cadence.wait(usage.known());
        let due = async {
            match (wait, asked) {
                (None, _) => std::future::pending().await,
                (Some(_), None) => {}
                (Some(wait), Some(asked)) => sleep_until(asked + wait).await,
            }
        };
        tokio::select! {
            biased;
            () = due => {}
            // The sender is a field of the shared state, so the channel is open.
            Ok(()) = changes.changed() => {
                sleep(GATHER).await;
                continue;
            }
        }
        let answer = timeout(limit, source.ask()).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("no response within {limit:?}")));
        let (mut status, difference) = judged(&source.of, answer, &usage, last.as_deref());
        status.at = Some(rfc3339(Timestamp::now()));
        asked = Some(Instant::now());
        cadence.note_result(status.error.is_none() && difference.is_none());
        last = difference;
        let before = shared.set_metrics(status.clone());
        // Logged on the first occurrence only.
        if let (Some(difference), None) = (&status.differs, &before.differs) {
            tracing::warn!(
                difference,
                "MetalLB reports another number of assigned addresses than this operator counts; compare the pools with the assigned addresses"
            );
        }
    }
}

/// Compares the counts of MetalLB with the counts of the operator. Returns the new status and the difference.
///
/// `last` is the difference in the previous comparison. If `last` is `None`, the status does not contain the
/// difference.
fn judged(
    of: &str,
    answer: Result<String, String>,
    usage: &AddressUsage,
    last: Option<&str>,
) -> (MetricsStatus, Option<String>) {
    let mut status = MetricsStatus {
        of: of.to_owned(),
        ..MetricsStatus::default()
    };
    let text = match answer {
        Ok(text) => text,
        Err(error) => {
            status.error = Some(cut(error));
            return (status, None);
        }
    };
    let counted: Vec<&str> = usage.counted().collect();
    status.total = sum(&parsed(&text, TOTAL), &counted);
    status.in_use = sum(&parsed(&text, IN_USE), &counted);
    let (Some(total), Some(in_use)) = (status.total, status.in_use) else {
        status.error = Some(format!("the metrics lack the pools {}", counted.join(", ")));
        return (status, None);
    };
    let Some((own_total, own_in_use)) = usage.known() else {
        return (status, None);
    };
    let is_same = total == own_total && in_use == own_in_use;
    let difference = (!is_same).then(|| {
        format!("MetalLB reports {in_use} of {total} in use, this operator {own_in_use} of {own_total}")
    });
    // A Service may have been created or deleted between the two counts.
    if last.is_some() {
        status.differs.clone_from(&difference);
    }
    (status, difference)
}

/// Returns the values of a metric by pool, without invalid values.
fn parsed(text: &str, metric: &str) -> BTreeMap<String, u32> {
    let lines = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(metric)?.strip_prefix('{')?;
        let (labels, value) = rest.rsplit_once('}')?;
        let pool = labels
            .split(',')
            .find_map(|label| label.trim().strip_prefix("pool=\""))?;
        let pool = pool.strip_suffix('"')?;
        let value: f64 = value.split_whitespace().next()?.parse().ok()?;
        let value = whole(value)?;
        Some((pool.to_owned(), value))
    });
    lines.collect()
}

/// Converts a number of addresses that MetalLB reports. Values above `u32::MAX` mean "unlimited" and become
/// `u32::MAX`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is within the range"
)]
fn whole(value: f64) -> Option<u32> {
    let most = f64::from(u32::MAX);
    (value >= 0.0).then(|| value.min(most) as u32)
}

fn sum(values: &BTreeMap<String, u32>, pools: &[&str]) -> Option<u32> {
    let found: Vec<u32> = pools
        .iter()
        .filter_map(|pool| values.get(*pool).copied())
        .collect();
    let is_all = !pools.is_empty() && found.len() == pools.len();
    is_all.then(|| found.into_iter().fold(0, u32::saturating_add))
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_kube_model::leased_ips::DEFAULT_POOL;
    use akash_provider_kube_model::leased_ips::pool::pool;
    use kube::core::DynamicObject;
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    fn usage(range: &str) -> AddressUsage {
        let object = json!({"metadata": {"name": "default"}, "spec": {"addresses": [range]}});
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let pools = BTreeMap::from([("default".to_owned(), pool(&object))]);
        AddressUsage::with(Some(&pools), DEFAULT_POOL, &std::collections::BTreeSet::new())
    }

    fn metrics_text(total: &str, in_use: &str) -> String {
        format!(
            "# HELP x\n{TOTAL}{{pool=\"other\"}} 7\n{TOTAL}{{pool=\"default\"}} {total}\n{IN_USE}{{pool=\"default\"}} {in_use}\n"
        )
    }

    #[test]
    fn metrics_are_requested_after_a_change_with_back_off_while_counts_differ() {
        let mut cadence = RequestSchedule::default();
        assert_eq!(cadence.wait(None), None, "an unknown count cannot be compared");
        let mut waits = Vec::new();
        while let Some(wait) = cadence.wait(Some((16, 1))) {
            waits.push(wait.as_secs());
            cadence.note_result(false);
        }
        assert_eq!(
            waits,
            [60, 60, 120, 240, 480, 960, 1_920],
            "the number of requests is limited"
        );
        assert!(cadence.wait(Some((16, 2))).is_some(), "the count changed");
        cadence.note_result(true);
        assert_eq!(cadence.wait(Some((16, 2))), None, "the counts are equal");
    }

    #[test]
    fn lasting_difference_is_reported() {
        let usage = usage("10.0.0.1-10.0.0.100");
        let (same, difference) = judged("x", Ok(metrics_text("100", "0")), &usage, None);
        assert_eq!((same.total, same.in_use, same.error), (Some(100), Some(0), None));
        assert_eq!(difference, None);
        let (once, difference) = judged("x", Ok(metrics_text("1e+02", "3")), &usage, None);
        assert_eq!(once.differs, None, "a Service may be new");
        let (twice, _) = judged("x", Ok(metrics_text("100", "3")), &usage, difference.as_deref());
        assert!(
            twice
                .differs
                .unwrap()
                .starts_with("MetalLB reports 3 of 100 in use, this operator 0 of 100")
        );
    }

    /// Returns the result of a request to a controller that responds with `text`.
    async fn asked(text: String) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 1024];
            let length = stream.read(&mut head).await.unwrap();
            let asked = String::from_utf8_lossy(&head[..length]).into_owned();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
            // A client that has read enough closes the connection.
            let _ = stream.write_all(answer.as_bytes()).await;
            asked
        });
        let nobody = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>()
        });
        let client = Client::new(nobody, "default");
        let answer = MetricsEndpoint::new(&client, "metallb-system", Some(&endpoint))
            .unwrap()
            .ask()
            .await;
        let asked = serving.await.unwrap();
        assert!(asked.starts_with("GET /metrics"), "{asked}");
        answer
    }

    #[tokio::test]
    async fn controller_is_requested_and_a_long_response_is_limited() {
        assert_eq!(
            asked(metrics_text("100", "3")).await,
            Ok(metrics_text("100", "3"))
        );
        let endless = "x".repeat(usize::try_from(RESPONSE_MAX).unwrap() + 1);
        assert!(asked(endless).await.unwrap_err().contains("longer than"));
    }

    #[test]
    fn invalid_metrics_are_no_count() {
        let usage = usage("2001:db8::/32");
        let (endless, difference) = judged(
            "x",
            Ok(metrics_text("9.223372036854776e+18", "0")),
            &usage,
            Some("x"),
        );
        assert_eq!(
            (endless.total, difference),
            (Some(u32::MAX), None),
            "unlimited pools are equal"
        );
        for (total, in_use) in [("NaN", "1"), ("-5", "1"), ("", "1"), ("x", "y")] {
            let (status, difference) = judged("x", Ok(metrics_text(total, in_use)), &usage, None);
            assert!(
                status.error.is_some() && difference.is_none(),
                "{total}: {status:?}"
            );
        }
        let (away, _) = judged("x", Err("é".repeat(9_000)), &usage, None);
        assert!(away.error.unwrap().chars().count() < 400);
        let none = AddressUsage::with(None, DEFAULT_POOL, &std::collections::BTreeSet::new());
        assert!(
            judged("x", Ok(metrics_text("1", "1")), &none, None)
                .0
                .error
                .is_some()
        );
    }
}
