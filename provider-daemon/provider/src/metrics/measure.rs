//! Metric with its values, as plain data.

use super::convert::length;
use std::collections::BTreeMap;

/// Maximum length of a label value in bytes.
const LABEL_MAX: usize = 128;
/// Maximum number of values of a metric.
const SERIES_MAX: usize = 2048;

pub(super) type Labels = Vec<(&'static str, String)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetricKind {
    Counter,
    /// Counter with a name of the Go provider, without the suffix `_total`.
    GoCounter,
    Gauge,
    Histogram,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Number(f64),
    Histogram(Histogram),
}

/// Distribution of observed values.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Histogram {
    buckets: Vec<(f64, u64)>,
    sum: f64,
}

impl Histogram {
    /// Creates a histogram from its buckets and the sum of all observations. A bucket is an upper bound and
    /// the number of observations above the previous bound. The last bound is infinite.
    #[must_use]
    pub const fn new(buckets: Vec<(f64, u64)>, sum: f64) -> Self {
        Self { buckets, sum }
    }

    pub(super) fn buckets(&self) -> &[(f64, u64)] {
        &self.buckets
    }

    pub(super) const fn sum(&self) -> f64 {
        self.sum
    }

    pub(super) fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

/// Metric with one value per set of labels.
#[derive(Debug, Clone)]
pub struct Measure {
    name: &'static str,
    help: &'static str,
    kind: MetricKind,
    values: BTreeMap<Labels, Value>,
    dropped: usize,
}

impl Measure {
    const fn new(name: &'static str, help: &'static str, kind: MetricKind) -> Self {
        Self {
            name,
            help,
            kind,
            values: BTreeMap::new(),
            dropped: 0,
        }
    }

    /// Creates a gauge.
    #[must_use]
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, MetricKind::Gauge)
    }

    /// Creates a counter. `name` has no suffix `_total`; the encoder adds the suffix.
    #[must_use]
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, MetricKind::Counter)
    }

    /// Creates a counter with a name of the Go provider, without the suffix `_total`. `OpenMetrics` requires
    /// this suffix for counters. For this reason, the type in `OpenMetrics` is `unknown`.
    #[must_use]
    pub const fn go_counter(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, MetricKind::GoCounter)
    }

    /// Creates a histogram.
    #[must_use]
    pub const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, MetricKind::Histogram)
    }

    /// Adds a number for these labels. Numbers with equal labels are added up.
    #[must_use]
    pub fn with<const N: usize>(self, labels: [(&'static str, &str); N], value: f64) -> Self {
        self.with_value(labels, Value::Number(value))
    }

    /// Adds a distribution. The distribution is dropped if the labels already have a distribution.
    #[must_use]
    pub fn with_histogram<const N: usize>(self, labels: [(&'static str, &str); N], value: Histogram) -> Self {
        self.with_value(labels, Value::Histogram(value))
    }

    /// Adds a count for each value of a label.
    #[must_use]
    pub fn counted<const N: usize>(self, label: &'static str, counts: [(&'static str, usize); N]) -> Self {
        counts.into_iter().fold(self, |measure, (value, count)| {
            measure.with([(label, value)], length(count))
        })
    }

    fn with_value<const N: usize>(mut self, labels: [(&'static str, &str); N], value: Value) -> Self {
        let labels = labels
            .map(|(name, value)| (name, bounded(value).to_owned()))
            .into();
        self.insert(labels, value);
        self
    }

    fn insert(&mut self, labels: Labels, value: Value) {
        let is_full = self.values.len() >= SERIES_MAX;
        match (self.values.get_mut(&labels), value) {
            (Some(Value::Number(sum)), Value::Number(more)) => *sum += more,
            (None, value) if !is_full => {
                self.values.insert(labels, value);
            }
            _ => self.dropped += 1,
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.dropped += other.dropped;
        for (labels, value) in other.values {
            self.insert(labels, value);
        }
    }

    /// Returns the name of the metric, without the suffix `_total` of counters.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the value of a metric that has exactly one value.
    #[cfg(test)]
    pub(super) fn number(&self) -> Option<f64> {
        let mut values = self.values.values();
        match (values.next(), values.next()) {
            (Some(Value::Number(number)), None) => Some(*number),
            _ => None,
        }
    }

    pub(super) const fn help(&self) -> &'static str {
        self.help
    }

    pub(super) const fn kind(&self) -> MetricKind {
        self.kind
    }

    pub(super) const fn values(&self) -> &BTreeMap<Labels, Value> {
        &self.values
    }

    /// Returns the number of dropped values. A metric has at most [`SERIES_MAX`] values.
    pub(super) const fn dropped(&self) -> usize {
        self.dropped
    }
}

/// Returns the start of a label value, at most [`LABEL_MAX`] bytes.
fn bounded(value: &str) -> &str {
    &value[..value.floor_char_boundary(LABEL_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_and_series_are_bounded() {
        let long = "é".repeat(2048);
        let mut measure = Measure::gauge("nodes", "Nodes").with([("node", long.as_str())], 1.0);
        assert_eq!(measure.values.keys().next().unwrap()[0].1, "é".repeat(64));
        for number in 0..3000 {
            measure = measure.with([("node", number.to_string().as_str())], 1.0);
        }
        assert_eq!(
            (measure.values.len(), measure.dropped),
            (SERIES_MAX, 3001 - SERIES_MAX)
        );
    }

    #[test]
    fn numbers_with_equal_labels_are_added_up() {
        let mut measure = Measure::counter("bids", "Bids").with([("result", "won")], 1.0);
        measure.merge(Measure::counter("bids", "Bids").with([("result", "won")], 2.0));
        let expected = (vec![("result", "won".to_owned())], Value::Number(3.0));
        assert_eq!(measure.values.into_iter().collect::<Vec<_>>(), [expected]);
    }
}
