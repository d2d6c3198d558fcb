//! How long a block takes, measured from the newest ones: money is counted in blocks, and looked at by the clock.

use crate::types::{BlockTime, Height};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// Blocks measured; some minutes of any chain, so that it follows a change and not a moment.
const MEASURED: usize = 64;
/// With fewer the setting counts.
const ENOUGH: usize = 16;
/// A block counts as at most so many times the usual one, and at least so small a part of it: a chain that stood
/// still for an hour has not become slow.
const OUTLIER: u64 = 4;

/// The pace of the chain.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Pace {
    last: Option<(Height, BlockTime)>,
    /// Milliseconds that each of the newest blocks took.
    took: VecDeque<u64>,
    measured: Option<Duration>,
}

impl Pace {
    /// A block was told. Where some were not, each of them took its share.
    pub(super) fn block(&mut self, height: Height, time: BlockTime) {
        let Some((before, then)) = self.last.replace((height, time)) else {
            return;
        };
        let passed = u64::try_from(time.0.saturating_sub(then.0));
        // A time that is before the last one says nothing of how long a block takes.
        let (Ok(passed), true) = (passed, height > before) else {
            return;
        };
        if self.took.len() >= MEASURED {
            self.took.pop_front();
        }
        self.took.push_back(passed / (height - before));
        self.measured = self.measure();
    }

    /// The time of a block, or what is expected of it while too few were seen.
    pub(super) fn block_time(&self, expected: Duration) -> Duration {
        self.measured.unwrap_or(expected)
    }

    fn measure(&self) -> Option<Duration> {
        if self.took.len() < ENOUGH {
            return None;
        }
        let mut sorted: Vec<u64> = self.took.iter().copied().collect();
        sorted.sort_unstable();
        // The middle one, which a few outliers do not move.
        let usual = sorted[sorted.len() / 2];
        let (least, most) = (usual / OUTLIER, usual.saturating_mul(OUTLIER));
        let each = sorted.iter().map(|ms| (*ms).clamp(least, most));
        let sum = each.fold(0, u64::saturating_add);
        // At least a millisecond, because others divide by it.
        Some(Duration::from_millis((sum / sorted.len() as u64).max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: Duration = Duration::from_millis(6500);

    fn pace(took: impl IntoIterator<Item = i64>) -> Pace {
        let (mut pace, mut time) = (Pace::default(), 1_000);
        pace.block(1, BlockTime(time));
        for (height, ms) in (2..).zip(took) {
            time += ms;
            pace.block(height, BlockTime(time));
        }
        pace
    }

    #[test]
    fn the_setting_counts_until_enough_blocks_were_seen() {
        assert_eq!(pace([2_000; 15]).block_time(EXPECTED), EXPECTED);
        assert_eq!(pace([2_000; 16]).block_time(EXPECTED), Duration::from_secs(2));
    }

    #[test]
    fn it_follows_a_change_and_no_single_block() {
        let changed = [6_000; 64].into_iter().chain([2_000; 64]);
        assert_eq!(pace(changed).block_time(EXPECTED), Duration::from_secs(2));
        let halted = [2_000; 32].into_iter().chain([3_600_000]).chain([2_000; 31]);
        let slower = pace(halted).block_time(EXPECTED);
        assert!(slower < Duration::from_millis(2_100), "{slower:?}");
        let uneven = [1_000, 3_000].into_iter().cycle().take(64);
        assert_eq!(pace(uneven).block_time(EXPECTED), Duration::from_secs(2));
    }

    #[test]
    fn blocks_that_were_not_told_and_times_that_make_no_sense_are_no_measure() {
        let mut pace = pace([2_000; 32]);
        let now = 1_000 + 32 * 2_000;
        pace.block(133, BlockTime(now + 100 * 2_000));
        pace.block(133, BlockTime(i64::MAX));
        pace.block(134, BlockTime(i64::MIN));
        assert_eq!(pace.block_time(EXPECTED), Duration::from_secs(2));
        assert_eq!(
            super::tests::pace([0; 64]).block_time(EXPECTED),
            Duration::from_millis(1)
        );
    }
}
