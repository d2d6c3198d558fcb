//! Heights and times that a node names, compared with the clock and with what was processed before.
//!
//! A single node can name any number. A height that was accepted refuses every node below it, so it is checked first:
//!
//! | check | refuses |
//! |---|---|
//! | block time at most ten seconds ahead of the local clock, which is corrected where two nodes agree | times in the future |
//! | growth since the processed block possible in the time that passed | absurd heights |
//! | a header is served close to the height, where the height is more than a node may lag above the processed block | heights without blocks |
//!
//! A false height that passes is found later: the heights and times of one chain rise together, so a lower block with a
//! later time contradicts it.

use crate::fault::Fault;
use akash_provider_core::types::{BlockTime, Height};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Largest difference in ms between a block time and the local clock; clocks set by NTP differ by less.
pub(crate) const AHEAD_MAX_MS: i64 = 10_000;
/// Blocks that a chain may grow in no time at all: about two hours of the network, and the rounding of fast test chains.
pub(crate) const BURST: Height = 1000;
/// Shortest block in ms that is accepted over time. The network takes 6 s; development networks go down to 100 ms.
pub(crate) const BLOCK_MIN_MS: u64 = 100;
/// The first block of any chain of this kind is later than this: 2019-01-01.
const GENESIS: Checkpoint = Checkpoint {
    height: 0,
    time: BlockTime(1_546_300_800_000),
};

/// Height and time of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checkpoint {
    /// Height of the block.
    pub height: Height,
    /// Its time, in ms since the Unix epoch.
    pub time: BlockTime,
}

impl Checkpoint {
    /// Checks this block against the local clock and the block that was processed `before`.
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

    /// True where both cannot belong to one chain, because the other block is lower and later.
    pub(crate) const fn is_contradicted_by(self, other: Self) -> bool {
        other.height < self.height && other.time.0 > self.time.0
    }
}

/// Refuses a block time that is in the future.
pub(crate) fn check_time(time: BlockTime, now: BlockTime) -> Result<(), Fault> {
    let ahead = time.0.saturating_sub(now.0);
    if ahead <= AHEAD_MAX_MS {
        return Ok(());
    }
    Err(Fault::Ahead {
        by: Duration::from_millis(u64::try_from(ahead).unwrap_or(u64::MAX)),
    })
}

/// Correction of the local clock in ms. It belongs to the machine, and so to the whole process.
static CORRECTION_MS: AtomicI64 = AtomicI64::new(0);

/// Adds this number of ms to the local clock in all checks of block times.
pub(crate) fn correct_clock(by_ms: i64) {
    CORRECTION_MS.store(by_ms, Ordering::Relaxed);
}

pub(crate) fn correction_ms() -> i64 {
    CORRECTION_MS.load(Ordering::Relaxed)
}

/// The corrected clock as a block time.
pub(crate) fn now() -> BlockTime {
    BlockTime(local().0.saturating_add(correction_ms()))
}

/// The local clock as a block time.
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
    fn heights_and_times_are_plausible_or_refused() {
        let processed = Some(at(10_000, -60_000));
        let cases = [
            ("the next block", at(10_001, -54_000), processed, true),
            ("a chain that stood still", at(10_000, -60_000), processed, true),
            ("a node that lags", at(9_000, -600_000), processed, true),
            (
                "a clock that differs a little",
                at(10_010, 10_000),
                processed,
                true,
            ),
            ("a time in the future", at(10_001, 10_001), processed, false),
            ("the last time there is", at(10_001, i64::MAX), processed, false),
            ("the first time there is", at(10_001, i64::MIN), processed, true),
            ("fast blocks for a minute", at(10_600, 0), processed, true),
            ("more blocks than a minute has", at(11_601, 0), processed, false),
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
    fn a_lower_block_with_a_later_time_contradicts() {
        let processed = at(1000, 0);
        assert!(processed.is_contradicted_by(at(999, 1)));
        assert!(!processed.is_contradicted_by(at(999, -1)), "it lags");
        assert!(!processed.is_contradicted_by(at(1001, 1)), "it is ahead");
        assert!(!processed.is_contradicted_by(processed));
    }
}
