//! Prometheus metrics of an operator, computed from its status on each request.

use akash_provider_k8s::operators::{Counts, WatchStatus};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt;

/// Labels of a value: names and values.
type Labels = Vec<(&'static str, String)>;

/// Metric with one value per set of labels.
#[derive(Debug)]
pub(super) struct Measure {
    name: &'static str,
    help: &'static str,
    counts: bool,
    values: Vec<(Labels, f64)>,
}

impl Measure {
    /// Creates a gauge.
    pub(super) fn gauge(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            counts: false,
            values: Vec::new(),
        }
    }

    /// Creates a counter.
    pub(super) fn counter(name: &'static str, help: &'static str) -> Self {
        Self {
            counts: true,
            ..Self::gauge(name, help)
        }
    }

    /// Adds a value for these labels.
    pub(super) fn with<const N: usize>(mut self, labels: [(&'static str, &str); N], value: f64) -> Self {
        let labels = labels.map(|(name, value)| (name, value.to_owned()));
        self.values.push((labels.into(), value));
        self
    }
}

impl Measure {
    /// Adds a count for each value of a label.
    pub(super) fn counted<const N: usize>(
        self,
        label: &'static str,
        counts: [(&'static str, usize); N],
    ) -> Self {
        counts.into_iter().fold(self, |measure, (value, count)| {
            let count = f64::from(u32::try_from(count).unwrap_or(u32::MAX));
            measure.with([(label, value)], count)
        })
    }
}

/// Returns the metrics of writes and deletions.
#[expect(clippy::cast_precision_loss, reason = "a count of writes is below 2^52")]
pub(super) fn count_metrics(counts: Counts) -> [Measure; 3] {
    let one = |name, help, count: u64| Measure::counter(name, help).with([], count as f64);
    [
        one("writes", "Objects created or updated", counts.written),
        one("deletes", "Objects deleted", counts.deleted),
        one("failures", "Failed writes and deletes", counts.failed),
    ]
}

/// Returns the metrics of the watches.
#[expect(clippy::cast_precision_loss, reason = "seconds of an outage are below 2^52")]
pub(super) fn watch_metrics(watches: &BTreeMap<&'static str, WatchStatus>) -> [Measure; 2] {
    let mut synced = Measure::gauge("watch_synced", "1 after the initial list of this kind");
    let mut down = Measure::gauge(
        "watch_down_seconds",
        "Seconds since the watch of this kind failed; 0 while it works",
    );
    for (kind, watch) in watches {
        let labels = [("kind", *kind)];
        synced = synced.with(labels, f64::from(u8::from(watch.synced)));
        down = down.with(labels, watch.down_for_seconds.unwrap_or(0) as f64);
    }
    [synced, down]
}

/// Metrics of one request.
#[derive(Debug)]
pub(super) struct MetricsCollector {
    operator: &'static str,
    measures: Vec<Measure>,
}

impl MetricsCollector {
    pub(super) fn new(operator: &'static str, measures: Vec<Measure>) -> Self {
        Self { operator, measures }
    }

    /// Encodes the metrics in the OpenMetrics text format.
    pub(super) fn text(self) -> Option<String> {
        let mut registry = Registry::with_prefix("provider_operator");
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        encode(&mut text, &registry).ok()?;
        Some(text)
    }
}

impl Collector for MetricsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for measure in &self.measures {
            let kind = if measure.counts {
                MetricType::Counter
            } else {
                MetricType::Gauge
            };
            let mut family = encoder.encode_descriptor(measure.name, measure.help, None, kind)?;
            for (labels, value) in &measure.values {
                let mut labels = labels.clone();
                labels.insert(0, ("operator", self.operator.to_owned()));
                let one = family.encode_family(&labels)?;
                if measure.counts {
                    ConstCounter::new(*value).encode(one)?;
                } else {
                    ConstGauge::new(*value).encode(one)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_encoded_as_openmetrics_text() {
        let measures = vec![
            Measure::gauge("objects", "Objects by state")
                .with([("state", "written")], 3.0)
                .with([("state", "a \"b\"\n\\")], 0.0),
            Measure::counter("writes", "Objects written").with([], 7.0),
        ];
        let text = MetricsCollector::new("hostname", measures).text().unwrap();
        let expected = "# HELP provider_operator_objects Objects by state\n\
                        # TYPE provider_operator_objects gauge\n\
                        provider_operator_objects{operator=\"hostname\",state=\"written\"} 3.0\n\
                        provider_operator_objects{operator=\"hostname\",state=\"a \\\"b\\\"\\n\\\\\"} 0.0\n\
                        # HELP provider_operator_writes Objects written\n\
                        # TYPE provider_operator_writes counter\n\
                        provider_operator_writes_total{operator=\"hostname\"} 7.0\n\
                        # EOF\n";
        assert_eq!(text, expected);
    }
}
