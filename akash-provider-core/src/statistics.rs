//! Counters and histograms of running parts, as plain data for embedders.
//!
//! A part updates its counters while it works, from any task. Readers take a copy at any time. A program exports the
//! copies in the format of its monitoring system; this crate depends on none.
//!
//! ```
//! use akash_provider_core::statistics::{CALL_BOUNDS, CounterMap, DurationHistogram};
//! use std::time::Duration;
//!
//! let (calls, durations) = (CounterMap::new(100, "other"), DurationHistogram::new(&CALL_BOUNDS));
//! calls.increment("query");
//! durations.record(Duration::from_millis(30));
//! assert_eq!(calls.values()["query"], 1);
//! assert_eq!(durations.values().total(), 1);
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

/// Bucket bounds for the duration of calls to other processes: 5 ms to 30 s.
pub const CALL_BOUNDS: [Duration; 10] = [
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2_500),
    Duration::from_secs(10),
    Duration::from_secs(30),
];

/// Histogram of durations with fixed bucket bounds, updated without a lock.
#[derive(Debug)]
pub struct DurationHistogram {
    bounds: &'static [Duration],
    /// Number of durations in each bucket. The last bucket has no upper bound.
    counts: Box<[AtomicU64]>,
    sum_us: AtomicU64,
}

/// Copy of a histogram.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DurationCounts {
    /// Inclusive upper bounds of the buckets, in increasing order.
    pub bounds: &'static [Duration],
    /// Number of durations of each bucket, not cumulative. The last bucket has no upper bound.
    pub counts: Vec<u64>,
    /// Sum of all durations.
    pub sum: Duration,
}

/// Counters by key, with a limited number of keys. Only the first use of a key takes a write lock.
#[derive(Debug)]
pub struct CounterMap<K> {
    counts: RwLock<BTreeMap<K, AtomicU64>>,
    limit: usize,
    other: K,
}

impl DurationHistogram {
    /// Creates a histogram with these upper bounds, which must increase.
    #[must_use]
    pub fn new(bounds: &'static [Duration]) -> Self {
        Self {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum_us: AtomicU64::new(0),
        }
    }

    /// Adds a duration.
    pub fn record(&self, duration: Duration) {
        let at = self.bounds.partition_point(|bound| *bound < duration);
        if let Some(count) = self.counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.sum_us.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns a copy of the counts.
    #[must_use]
    pub fn values(&self) -> DurationCounts {
        DurationCounts {
            bounds: self.bounds,
            counts: self
                .counts
                .iter()
                .map(|count| count.load(Ordering::Relaxed))
                .collect(),
            sum: Duration::from_micros(self.sum_us.load(Ordering::Relaxed)),
        }
    }
}

impl DurationCounts {
    /// Returns the number of recorded durations.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl<K: Ord + Clone> CounterMap<K> {
    /// Creates counters for at most `limit` keys. Further keys are counted under the key `other`.
    #[must_use]
    pub const fn new(limit: usize, other: K) -> Self {
        Self {
            counts: RwLock::new(BTreeMap::new()),
            limit,
            other,
        }
    }

    /// Adds 1 to the counter of a key.
    pub fn increment(&self, key: K) {
        self.add(key, 1);
    }

    /// Adds `amount` to the counter of a key.
    pub fn add(&self, key: K, amount: u64) {
        {
            let counts = self.counts.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(count) = counts.get(&key) {
                count.fetch_add(amount, Ordering::Relaxed);
                return;
            }
        }
        let mut counts = self.counts.write().unwrap_or_else(PoisonError::into_inner);
        let is_full = counts.len() >= self.limit && !counts.contains_key(&key);
        let key = if is_full { self.other.clone() } else { key };
        counts
            .entry(key)
            .or_default()
            .fetch_add(amount, Ordering::Relaxed);
    }

    /// Returns a copy of all counters.
    #[must_use]
    pub fn values(&self) -> BTreeMap<K, u64> {
        let counts = self.counts.read().unwrap_or_else(PoisonError::into_inner);
        let values = counts.iter();
        values
            .map(|(key, count)| (key.clone(), count.load(Ordering::Relaxed)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_counts_each_duration_in_the_first_bucket_that_contains_it() {
        let histogram = DurationHistogram::new(&CALL_BOUNDS);
        for millis in [0, 5, 6, 30_000, 30_001] {
            histogram.record(Duration::from_millis(millis));
        }
        let values = histogram.values();
        assert_eq!(values.counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(values.total(), 5);
        assert_eq!(values.sum, Duration::from_millis(60_012));
    }

    #[test]
    fn keys_above_the_limit_are_counted_as_other() {
        let map = CounterMap::new(2, "other");
        for key in ["a", "b", "c", "d", "a"] {
            map.increment(key);
        }
        map.add("b", 10);
        assert_eq!(map.values(), [("a", 2), ("b", 11), ("other", 2)].into());
    }
}
