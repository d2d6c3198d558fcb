//! Conversions of statistics to values of metrics.

use super::{Histogram, Measure};
use akash_provider_core::statistics::DurationCounts;
use akash_provider_core::types::{BlockTime, Dec};
use std::time::{Duration, SystemTime};

/// Converts a count to a metric value.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts are below 2^53 in any lifetime of a process"
)]
pub(crate) const fn number(count: u64) -> f64 {
    count as f64
}

pub(crate) fn length(count: usize) -> f64 {
    number(u64::try_from(count).unwrap_or(u64::MAX))
}

pub(crate) fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}

/// Converts an amount to a metric value; 0 if the conversion fails.
pub(super) fn decimal(amount: Dec) -> f64 {
    amount.to_plain().parse().unwrap_or_default()
}

pub(crate) fn seconds(durations: &DurationCounts) -> Histogram {
    histogram(durations, 1.0)
}

pub(super) fn micros(durations: &DurationCounts) -> Histogram {
    histogram(durations, 1e6)
}

/// Converts durations to a histogram. `units` is the number of histogram units per second.
fn histogram(durations: &DurationCounts, units: f64) -> Histogram {
    let bounds = durations.bounds.iter().map(|bound| bound.as_secs_f64() * units);
    let buckets = bounds
        .chain([f64::INFINITY])
        .zip(durations.counts.iter().copied());
    Histogram::new(buckets.collect(), durations.sum.as_secs_f64() * units)
}

/// Converts a block time to seconds since the Unix epoch.
pub(super) fn block_seconds(time: BlockTime) -> f64 {
    number(u64::try_from(time.0).unwrap_or_default()) / 1000.0
}

pub(super) fn gauge(name: &'static str, help: &'static str, value: f64) -> Measure {
    Measure::gauge(name, help).with([], value)
}

pub(super) fn counter(name: &'static str, help: &'static str, count: u64) -> Measure {
    Measure::counter(name, help).with([], number(count))
}

pub(super) fn now() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}
