//! What MetalLB's controller counts by itself. It decides nothing: where it differs from what is counted here, that is
//! told.
//!
//! It is asked when the own count has changed, and some times more while it does not say the same; then it rests until
//! the next change.

use super::shared::Shared;
use super::usage::Usage;
use crate::hostnames::rfc3339;
use crate::operators::said::cut;
use akash_provider_core::error::chain_text;
use futures::AsyncReadExt;
use k8s_openapi::jiff::Timestamp;
use kube::api::GetParams;
use kube::core::Request;
use kube::{Client, Config};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Least time between two questions; it doubles while the answer is not the own count.
const EVERY: Duration = Duration::from_secs(60);
/// What comes within this time after a change is in the same question.
const GATHER: Duration = Duration::from_secs(5);
/// Questions after one change: an hour of them.
const TRIES: u32 = 7;
/// Longest answer in bytes.
const ANSWER_MAX: u64 = 4 << 20;
/// Addresses of a pool, by MetalLB's count.
const TOTAL: &str = "metallb_allocator_addresses_total";
/// Those of them that are in use.
const IN_USE: &str = "metallb_allocator_addresses_in_use_total";

/// What MetalLB says, and whether it is what is counted here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MetricsStatus {
    /// Who is asked.
    pub of: String,
    /// Addresses of the pools that count here.
    pub total: Option<u32>,
    /// Those of them that are in use.
    pub in_use: Option<u32>,
    /// How it differs from what is counted here, when it did so twice in a row.
    pub differs: Option<String>,
    /// Why it is not known.
    pub error: Option<String>,
    /// When it was asked last, RFC 3339: after the last change of what is counted here.
    pub at: Option<String>,
}

/// When it is asked.
#[derive(Debug, Default)]
struct Cadence {
    /// What was counted here when it was asked last, or is to be asked.
    counted: Option<(u32, u32)>,
    /// Questions since that changed.
    tries: u32,
    is_same: bool,
}

impl Cadence {
    /// How long after the last question to ask; `None` for not before what is counted here changes.
    fn wait(&mut self, counted: Option<(u32, u32)>) -> Option<Duration> {
        // While it is unknown there is nothing to compare with.
        let counted = counted?;
        if self.counted != Some(counted) {
            *self = Self {
                counted: Some(counted),
                ..Self::default()
            };
        }
        (!self.is_same && self.tries < TRIES).then(|| EVERY.saturating_mul(1 << self.tries.saturating_sub(1)))
    }

    fn answered(&mut self, is_same: bool) {
        self.tries += 1;
        self.is_same = is_same;
    }
}

/// Who is asked.
pub(super) struct Source {
    client: Client,
    path: String,
    of: String,
}

impl Source {
    /// The controller at `endpoint`, as `HOST:PORT`; or that of the cluster, by its API server.
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
        let url = url.parse().map_err(|_| format!("`{endpoint}` is no HOST:PORT"))?;
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
        let read = Box::pin(answer).take(ANSWER_MAX).read_to_end(&mut bytes).await;
        read.map_err(|error| chain_text(&error))?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length >= ANSWER_MAX) {
            return Err(format!("the answer is longer than {ANSWER_MAX} bytes"));
        }
        String::from_utf8(bytes).map_err(|_| "the answer is no text".to_owned())
    }
}

/// Asks whenever it is time, for ever.
pub(super) async fn watch(source: Result<Source, String>, limit: Duration, shared: Arc<Shared>) {
    let source = match source {
        Ok(source) => source,
        Err(error) => {
            tracing::warn!(error, "MetalLB cannot be asked what it counts");
            let error = Some(error);
            shared.set_metrics(MetricsStatus {
                error,
                ..MetricsStatus::default()
            });
            return;
        }
    };
    let mut changes = shared.board.changes();
    let mut cadence = Cadence::default();
    let (mut last, mut asked): (Option<String>, Option<Instant>) = (None, None);
    loop {
        changes.borrow_and_update();
        let usage = Usage::of(&shared.board.inner().index);
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
            // The other end is in our hands, so it does not go away.
            Ok(()) = changes.changed() => {
                sleep(GATHER).await;
                continue;
            }
        }
        let answer = timeout(limit, source.ask()).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {limit:?}")));
        let (mut status, difference) = judged(&source.of, answer, &usage, last.as_deref());
        status.at = Some(rfc3339(Timestamp::now()));
        asked = Some(Instant::now());
        cadence.answered(status.error.is_none() && difference.is_none());
        last = difference;
        let before = shared.set_metrics(status.clone());
        // Said when it begins, and not each time.
        if let (Some(difference), None) = (&status.differs, &before.differs) {
            tracing::warn!(difference, "MetalLB counts its addresses otherwise");
        }
    }
}

/// What is to be shown; and how the two differ now, which counts when it is so again.
fn judged(
    of: &str,
    answer: Result<String, String>,
    usage: &Usage,
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
        status.error = Some(format!("it says nothing of {}", counted.join(", ")));
        return (status, None);
    };
    let Some((own_total, own_in_use)) = usage.known() else {
        return (status, None);
    };
    let is_same = total == own_total && in_use == own_in_use;
    let difference = (!is_same).then(|| {
        format!(
            "{in_use} of {total} in use by its count, {own_in_use} of {own_total} by that of this operator"
        )
    });
    // Between the two looks a Service may have come or gone.
    if last.is_some() {
        status.differs.clone_from(&difference);
    }
    (status, difference)
}

/// The values of a metric by pool. What is no number, or none that counts addresses, is left out.
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

/// MetalLB counts in floats, of which the largest means "without end".
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
    use kube::core::DynamicObject;
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    fn usage(range: &str) -> Usage {
        let object = json!({"metadata": {"name": "default"}, "spec": {"addresses": [range]}});
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let pools = BTreeMap::from([("default".to_owned(), super::super::pool::pool(&object))]);
        Usage::with(
            Some(&pools),
            &super::super::balancer::Mode::default(),
            &std::collections::BTreeSet::new(),
        )
    }

    fn said(total: &str, in_use: &str) -> String {
        format!(
            "# HELP x\n{TOTAL}{{pool=\"other\"}} 7\n{TOTAL}{{pool=\"default\"}} {total}\n{IN_USE}{{pool=\"default\"}} {in_use}\n"
        )
    }

    #[test]
    fn it_is_asked_after_a_change_and_less_and_less_while_it_says_something_else() {
        let mut cadence = Cadence::default();
        assert_eq!(cadence.wait(None), None, "there is nothing to compare with");
        let mut waits = Vec::new();
        while let Some(wait) = cadence.wait(Some((16, 1))) {
            waits.push(wait.as_secs());
            cadence.answered(false);
        }
        assert_eq!(waits, [60, 60, 120, 240, 480, 960, 1_920], "it has an end");
        assert!(cadence.wait(Some((16, 2))).is_some(), "it has changed");
        cadence.answered(true);
        assert_eq!(cadence.wait(Some((16, 2))), None, "both say the same");
    }

    #[test]
    fn a_difference_is_told_when_it_lasts() {
        let usage = usage("10.0.0.1-10.0.0.100");
        let (same, difference) = judged("x", Ok(said("100", "0")), &usage, None);
        assert_eq!((same.total, same.in_use, same.error), (Some(100), Some(0), None));
        assert_eq!(difference, None);
        let (once, difference) = judged("x", Ok(said("1e+02", "3")), &usage, None);
        assert_eq!(once.differs, None, "a Service may just have come");
        let (twice, _) = judged("x", Ok(said("100", "3")), &usage, difference.as_deref());
        assert!(
            twice
                .differs
                .unwrap()
                .starts_with("3 of 100 in use by its count, 0 of 100")
        );
    }

    /// What a controller that answers `text` is understood to say.
    async fn asked(text: String) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 1024];
            let length = stream.read(&mut head).await.unwrap();
            let asked = String::from_utf8_lossy(&head[..length]).into_owned();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
            // Who has read enough hangs up.
            let _ = stream.write_all(answer.as_bytes()).await;
            asked
        });
        let nobody = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>()
        });
        let client = Client::new(nobody, "default");
        let answer = Source::new(&client, "metallb-system", Some(&endpoint))
            .unwrap()
            .ask()
            .await;
        let asked = serving.await.unwrap();
        assert!(asked.starts_with("GET /metrics"), "{asked}");
        answer
    }

    #[tokio::test]
    async fn the_controller_is_asked_and_a_long_answer_has_an_end() {
        assert_eq!(asked(said("100", "3")).await, Ok(said("100", "3")));
        let endless = "x".repeat(usize::try_from(ANSWER_MAX).unwrap() + 1);
        assert!(asked(endless).await.unwrap_err().contains("longer than"));
    }

    #[test]
    fn garbage_is_no_count() {
        let usage = usage("2001:db8::/32");
        let (endless, difference) = judged("x", Ok(said("9.223372036854776e+18", "0")), &usage, Some("x"));
        assert_eq!(
            (endless.total, difference),
            (Some(u32::MAX), None),
            "without end is without end"
        );
        for (total, in_use) in [("NaN", "1"), ("-5", "1"), ("", "1"), ("x", "y")] {
            let (status, difference) = judged("x", Ok(said(total, in_use)), &usage, None);
            assert!(
                status.error.is_some() && difference.is_none(),
                "{total}: {status:?}"
            );
        }
        let (away, _) = judged("x", Err("é".repeat(9_000)), &usage, None);
        assert!(away.error.unwrap().chars().count() < 400);
        let none = Usage::with(
            None,
            &super::super::balancer::Mode::default(),
            &std::collections::BTreeSet::new(),
        );
        assert!(judged("x", Ok(said("1", "1")), &none, None).0.error.is_some());
    }
}
