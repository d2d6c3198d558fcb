//! Average block time, measured from the newest blocks. Converts amounts counted in blocks to time.

use crate::types::{BlockTime, Height};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// Number of newest blocks in the average. The average follows a changed block interval within minutes.
const MEASURED: usize = 64;
/// Minimum number of measured blocks. With fewer blocks, the configured interval is used.
const ENOUGH: usize = 16;
/// Factor that limits outliers. In the average, each block interval is limited to the range from a quarter to
/// four times the median. A halt of the chain therefore does not distort the average.
const OUTLIER: u64 = 4;

/// Estimate of the average interval between blocks.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct BlockTimeEstimate {
    last: Option<(Height, BlockTime)>,
    /// Duration of each of the newest blocks, in milliseconds.
    durations: VecDeque<u64>,
    measured: Option<Duration>,
}

impl BlockTimeEstimate {
    /// Records a block. After missing blocks, the average interval since the last recorded block counts as
    /// one measurement.
    pub(super) fn record(&mut self, height: Height, time: BlockTime) {
        let Some((before, then)) = self.last.replace((height, time)) else {
            return;
        };
        let passed = u64::try_from(time.0.saturating_sub(then.0));
        // A time before the previous block is not a measurement.
        let (Ok(passed), true) = (passed, height > before) else {
            return;
        };
        if self.durations.len() >= MEASURED {
            self.durations.pop_front();
        }
        self.durations.push_back(passed / (height - before));
        self.measured = self.measure();
    }

    /// Returns the measured average interval between blocks, or `expected` before enough blocks were observed.
    pub(super) fn get_or(&self, expected: Duration) -> Duration {
        self.measured.unwrap_or(expected)
    }

    fn measure(&self) -> Option<Duration> {
        if self.durations.len() < ENOUGH {
            return None;
        }
        let mut sorted: Vec<u64> = self.durations.iter().copied().collect();
        sorted.sort_unstable();
        // The median, because outliers do not affect it.
        let usual = sorted[sorted.len() / 2];
        let (least, most) = (usual / OUTLIER, usual.saturating_mul(OUTLIER));
        let each = sorted.iter().map(|ms| (*ms).clamp(least, most));
        let sum = each.fold(0, u64::saturating_add);
        // At least one millisecond, because callers divide by the result.
        Some(Duration::from_millis((sum / sorted.len() as u64).max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: Duration = Duration::from_millis(6500);

    fn estimate(durations: impl IntoIterator<Item = i64>) -> BlockTimeEstimate {
        let (mut estimate, mut time) = (BlockTimeEstimate::default(), 1_000);
        estimate.record(1, BlockTime(time));
        for (height, ms) in (2..).zip(durations) {
            time += ms;
            estimate.record(height, BlockTime(time));
        }
        estimate
    }

    #[test]
    fn uses_configured_value_until_enough_blocks_were_observed() {
        assert_eq!(estimate([2_000; 15]).get_or(EXPECTED), EXPECTED);
        assert_eq!(estimate([2_000; 16]).get_or(EXPECTED), Duration::from_secs(2));
    }

    #[test]
    fn adapts_to_lasting_change_but_not_to_outlier() {
        let changed = [6_000; 64].into_iter().chain([2_000; 64]);
        assert_eq!(estimate(changed).get_or(EXPECTED), Duration::from_secs(2));
        let halted = [2_000; 32].into_iter().chain([3_600_000]).chain([2_000; 31]);
        let slower = estimate(halted).get_or(EXPECTED);
        assert!(slower < Duration::from_millis(2_100), "{slower:?}");
        let uneven = [1_000, 3_000].into_iter().cycle().take(64);
        assert_eq!(estimate(uneven).get_or(EXPECTED), Duration::from_secs(2));
    }

    #[test]
    fn averages_over_missing_blocks_and_ignores_invalid_times() {
        let mut estimate = estimate([2_000; 32]);
        let now = 1_000 + 32 * 2_000;
        estimate.record(133, BlockTime(now + 100 * 2_000));
        estimate.record(133, BlockTime(i64::MAX));
        estimate.record(134, BlockTime(i64::MIN));
        assert_eq!(estimate.get_or(EXPECTED), Duration::from_secs(2));
        assert_eq!(
            super::tests::estimate([0; 64]).get_or(EXPECTED),
            Duration::from_millis(1)
        );
    }
}
