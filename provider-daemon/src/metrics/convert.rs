//! Conversions of statistics to values of metrics.

use super::Histogram;
use akash_provider_core::statistics::DurationCounts;
use std::time::{Duration, SystemTime};

/// Converts a count.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts are below 2^53 in any lifetime of a process"
)]
pub(super) const fn number(count: u64) -> f64 {
    count as f64
}

/// Converts a length.
pub(super) fn length(count: usize) -> f64 {
    number(u64::try_from(count).unwrap_or(u64::MAX))
}

/// Converts a flag to 0 or 1.
pub(super) fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}

/// Converts durations to a histogram in seconds.
pub(super) fn seconds(durations: &DurationCounts) -> Histogram {
    let bounds = durations.bounds.iter().map(Duration::as_secs_f64);
    let buckets = bounds
        .chain([f64::INFINITY])
        .zip(durations.counts.iter().copied());
    Histogram::new(buckets.collect(), durations.sum.as_secs_f64())
}

/// Returns the time since the Unix epoch.
pub(super) fn now() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}
