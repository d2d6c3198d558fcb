//! Encoding of measures with `prometheus-client`.

use super::Metrics;
use super::measure::{Labels, Measure, MetricKind, Value};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use std::collections::BTreeMap;
use std::fmt;

/// Prometheus collector for metrics with already computed values.
#[derive(Debug)]
pub(crate) struct MeasureCollector {
    measures: Vec<Measure>,
}

impl MeasureCollector {
    pub(crate) const fn new(measures: Vec<Measure>) -> Self {
        Self { measures }
    }
}

impl Collector for MeasureCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.measures
            .iter()
            .try_for_each(|measure| encode(measure, &mut encoder))
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let measures = merged(self.measures());
        measures
            .iter()
            .try_for_each(|measure| encode(measure, &mut encoder))
    }
}

/// Merges measures with the same name, because both text formats allow each name only once. Adds a measure
/// that counts the dropped values.
fn merged(measures: Vec<Measure>) -> Vec<Measure> {
    let mut positions: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut merged: Vec<Measure> = Vec::new();
    for measure in measures {
        match positions.get(measure.name()) {
            Some(at) => merged[*at].merge(measure),
            None => {
                positions.insert(measure.name(), merged.len());
                merged.push(measure);
            }
        }
    }
    let dropped = merged.iter().map(Measure::dropped).sum();
    merged.push(
        Measure::gauge(
            "akash_provider_metrics_dropped_series",
            "Values that this scrape omits because of the limit per metric",
        )
        .counted("reason", [("limit", dropped)]),
    );
    merged
}

fn encode(measure: &Measure, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let kind = match measure.kind() {
        MetricKind::Counter => MetricType::Counter,
        MetricKind::GoCounter => MetricType::Unknown,
        MetricKind::Gauge => MetricType::Gauge,
        MetricKind::Histogram => MetricType::Histogram,
    };
    let mut metric = encoder.encode_descriptor(measure.name(), measure.help(), None, kind)?;
    for (labels, value) in measure.values() {
        if labels.is_empty() {
            // A family without labels would be encoded with empty braces.
            encode_value(measure.kind(), value, &mut metric)?;
        } else {
            encode_value(measure.kind(), value, &mut metric.encode_family(labels)?)?;
        }
    }
    Ok(())
}

fn encode_value(kind: MetricKind, value: &Value, metric: &mut MetricEncoder<'_>) -> Result<(), fmt::Error> {
    match (kind, value) {
        (MetricKind::Counter, Value::Number(number)) => metric.encode_counter::<Labels, _, f64>(number, None),
        (_, Value::Number(number)) => metric.encode_gauge(number),
        (_, Value::Histogram(histogram)) => {
            metric.encode_histogram::<Labels>(histogram.sum(), histogram.count(), histogram.buckets(), None)
        }
    }
}
