//! Plausibility checks of block heights and block times.
//!
//! A single node can report any number. After a height is accepted, all nodes with a lower height are
//! excluded. For this reason, each height is checked before it is accepted:
//!
//! | check | refuses |
//! |---|---|
//! | The block time is at most ten seconds ahead of the local clock. The local clock is corrected if two nodes agree. | times in the future |
//! | The number of blocks since the processed block is possible in the elapsed time. | impossible heights |
//! | The node serves a header close to the height. Checked only if the height is more than the lag limit above the processed block. | heights without blocks |
//!
//! A false height that passes these checks is detected later. Heights and times of one chain rise together,
//! so a lower block with a later time contradicts the false height.

use crate::fault::Fault;
use akash_provider_core::types::{BlockTime, Height};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum time by which a block time may be ahead of the local clock, in ms.
pub(crate) const AHEAD_MAX_MS: i64 = 10_000;
/// Maximum height difference, in blocks, between two blocks with the same time. Each [`BLOCK_MIN_MS`]
/// between the two block times permits one more block.
pub(crate) const BURST: Height = 1000;
/// Minimum average block interval, in ms. The block interval is 6 s on the Akash network, and down to 100 ms
/// on development networks.
pub(crate) const BLOCK_MIN_MS: u64 = 100;
/// Block before the first block of any chain: height 0 on 2019-01-01. Used until a block is processed.
const GENESIS: Checkpoint = Checkpoint {
    height: 0,
    time: BlockTime(1_546_300_800_000),
};

/// Height and time of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checkpoint {
    /// Height of the block.
    pub height: Height,
    /// Time of the block, in ms since the Unix epoch.
    pub time: BlockTime,
}

impl Checkpoint {
    /// Checks that time and height of this block are plausible, compared with the local clock `now` and the
    /// block `before`.
    pub(crate) fn check(self, before: Option<Self>, now: BlockTime) -> Result<(), Fault> {
        check_time(self.time, now)?;
        let before = before.unwrap_or(GENESIS);
        let grown = self.height.saturating_sub(before.height);
        let passed = u64::try_from(self.time.0.saturating_sub(before.time.0)).unwrap_or(0);
        if grown > passed / BLOCK_MIN_MS + BURST {
            return Err(Fault::Untrusted(format!(
                "height {} is {grown} blocks above {}, which is impossible in {} s",
                self.height,
                before.height,
                passed / 1000
            )));
        }
        Ok(())
    }

    /// Returns true if `other` has a lower height but a later time. One chain cannot contain both blocks.
    pub(crate) const fn is_contradicted_by(self, other: Self) -> bool {
        other.height < self.height && other.time.0 > self.time.0
    }
}

/// Returns an error if the block time is more than [`AHEAD_MAX_MS`] ahead of `now`.
pub(crate) fn check_time(time: BlockTime, now: BlockTime) -> Result<(), Fault> {
    let ahead = time.0.saturating_sub(now.0);
    if ahead <= AHEAD_MAX_MS {
        return Ok(());
    }
    Err(Fault::Ahead {
        by: Duration::from_millis(u64::try_from(ahead).unwrap_or(u64::MAX)),
    })
}

/// Time in milliseconds that is added to the local clock for checks of block times.
static CORRECTION_MS: AtomicI64 = AtomicI64::new(0);

pub(crate) fn correct_clock(by_ms: i64) {
    CORRECTION_MS.store(by_ms, Ordering::Relaxed);
}

pub(crate) fn correction_ms() -> i64 {
    CORRECTION_MS.load(Ordering::Relaxed)
}

/// Returns the corrected local time as a block time.
pub(crate) fn now() -> BlockTime {
    BlockTime(local().0.saturating_add(correction_ms()))
}

/// Returns the uncorrected local time as a block time.
pub(crate) fn local() -> BlockTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    BlockTime(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: BlockTime = BlockTime(1_700_000_000_000);

    fn at(height: Height, ms: i64) -> Checkpoint {
        let time = BlockTime(NOW.0.saturating_add(ms));
        Checkpoint { height, time }
    }

    #[test]
    fn implausible_heights_and_times_are_refused() {
        let processed = Some(at(10_000, -60_000));
        let cases = [
            ("the next block", at(10_001, -54_000), processed, true),
            ("a halted chain", at(10_000, -60_000), processed, true),
            ("a node that lags", at(9_000, -600_000), processed, true),
            ("a small clock difference", at(10_010, 10_000), processed, true),
            ("a time in the future", at(10_001, 10_001), processed, false),
            ("the largest time", at(10_001, i64::MAX), processed, false),
            ("the smallest time", at(10_001, i64::MIN), processed, true),
            ("fast blocks for a minute", at(10_600, 0), processed, true),
            ("too many blocks for one minute", at(11_601, 0), processed, false),
            ("the largest height", at(i64::MAX as u64, 0), processed, false),
            ("the largest number", at(u64::MAX, 0), processed, false),
            ("the first start", at(25_000_000, 0), None, true),
            (
                "the largest height at the first start",
                at(i64::MAX as u64, 0),
                None,
                false,
            ),
        ];
        for (case, tip, before, is_plausible) in cases {
            let checked = tip.check(before, NOW);
            assert_eq!(checked.is_ok(), is_plausible, "{case}: {checked:?}");
        }
    }

    #[test]
    fn lower_block_with_a_later_time_is_a_contradiction() {
        let processed = at(1000, 0);
        assert!(processed.is_contradicted_by(at(999, 1)));
        assert!(!processed.is_contradicted_by(at(999, -1)), "lagging node");
        assert!(!processed.is_contradicted_by(at(1001, 1)), "node ahead");
        assert!(!processed.is_contradicted_by(processed));
    }
}
