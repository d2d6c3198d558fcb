//! How far chain and cluster have been followed, and what time it is in either clock.

mod pace;

use crate::types::{BlockTime, Height, Mono, Now};
use pace::Pace;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a block is to what was followed before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    /// It was followed already.
    Not,
    Directly,
    /// Some between were not told.
    AfterGap,
}

/// How far chain and cluster have been followed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Progress {
    now: Now,
    height: Height,
    /// Time of the block at that height. The clock is no substitute: the block that is handled moves it first.
    #[serde(default)]
    height_time: BlockTime,
    pace: Pace,
    /// Height of the newest snapshot that was applied; a full scan may be ahead of the stream.
    snapshot_height: Height,
    /// Time of that snapshot.
    #[serde(default)]
    snapshot_time: BlockTime,
    /// Facts of the block after that were told.
    within_block: bool,
    /// The stream has started anew before what was followed, so its events are replayed.
    replayed: bool,
    chain_known: bool,
    cluster_known: bool,
}

impl Progress {
    pub(super) const fn now(&self) -> Now {
        self.now
    }

    pub(super) const fn mono(&self) -> Mono {
        self.now.mono
    }

    pub(super) const fn block_time(&self) -> BlockTime {
        self.now.block_time
    }

    /// Height of the newest block that was followed to its end.
    pub(super) const fn height(&self) -> Height {
        self.height
    }

    /// Greatest height that anything known here is of.
    pub(super) fn known_height(&self) -> Height {
        self.height.max(self.snapshot_height)
    }

    /// How long a block takes: as measured, or as expected while too few were seen.
    pub(super) fn block_length(&self, expected: Duration) -> Duration {
        self.pace.block_time(expected)
    }

    pub(super) const fn within_block(&self) -> bool {
        self.within_block
    }

    /// A first snapshot was applied.
    pub(super) const fn chain_known(&self) -> bool {
        self.chain_known
    }

    /// It is known what the cluster runs.
    pub(super) const fn cluster_known(&self) -> bool {
        self.cluster_known
    }

    pub(super) const fn set_cluster_known(&mut self, known: bool) {
        self.cluster_known = known;
    }

    /// Time passes; neither clock goes back.
    pub(super) fn pass(&mut self, now: Now) {
        self.now.mono = self.now.mono.max(now.mono);
        self.pass_block_time(now.block_time);
    }

    fn pass_block_time(&mut self, time: BlockTime) {
        self.now.block_time = self.now.block_time.max(time);
    }

    /// A fact of the block under way was told, or that block ends.
    pub(super) const fn told(&mut self, within_block: bool) {
        self.within_block = within_block;
    }

    /// A block has ended.
    pub(super) fn block(&mut self, height: Height, time: BlockTime) -> Follows {
        if height <= self.height {
            return Follows::Not;
        }
        let follows = if height > self.height + 1 {
            Follows::AfterGap
        } else {
            Follows::Directly
        };
        self.drop_contradicted_snapshot(height, time);
        (self.height, self.height_time) = (height, time);
        self.pace.block(height, time);
        // A block beyond what was followed ends the replay.
        self.replayed = false;
        self.pass_block_time(time);
        follows
    }

    /// The stream restarts with this snapshot. Returns true where no newer one was applied.
    pub(super) fn resync(&mut self, height: Height, time: BlockTime) -> bool {
        self.drop_contradicted_snapshot(height, time);
        self.replayed = false;
        (self.height, self.height_time) = (height, time);
        self.within_block = false;
        self.chain_known = true;
        self.pass_block_time(time);
        height >= self.snapshot_height
    }

    /// Returns true where a block is lower and later than the followed one. Heights and times of a chain rise together, so
    /// the followed height is false.
    pub(super) fn is_contradicted_by(&self, height: Height, time: BlockTime) -> bool {
        height < self.height && time > self.height_time
    }

    /// The same for the newest snapshot.
    fn is_snapshot_contradicted_by(&self, height: Height, time: BlockTime) -> bool {
        height < self.snapshot_height && time > self.snapshot_time
    }

    fn drop_contradicted_snapshot(&mut self, height: Height, time: BlockTime) {
        if self.is_snapshot_contradicted_by(height, time) {
            self.snapshot_height = 0;
        }
    }

    /// The stream starts anew before what was followed.
    pub(super) const fn replays(&mut self) {
        self.replayed = true;
    }

    /// The events are a replay: they came before, or are in a snapshot that was applied.
    pub(super) const fn is_replayed(&self) -> bool {
        self.replayed || self.height < self.snapshot_height
    }

    pub(super) const fn snapshot_applied(&mut self, height: Height, time: BlockTime) {
        self.snapshot_height = height;
        self.snapshot_time = time;
    }

    /// A snapshot of this height and time is older than one that was applied.
    pub(super) fn is_before_snapshot(&self, height: Height, time: BlockTime) -> bool {
        height < self.snapshot_height && !self.is_snapshot_contradicted_by(height, time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_that_a_later_and_lower_one_contradicts_holds_nothing_up() {
        let mut progress = Progress::default();
        assert!(progress.resync(1_000, BlockTime(10_000)));
        progress.snapshot_applied(1_000, BlockTime(10_000));
        assert!(!progress.resync(990, BlockTime(9_000)), "an older state");
        assert!(progress.is_replayed());
        assert!(progress.is_before_snapshot(991, BlockTime(9_500)));
        assert!(
            !progress.is_before_snapshot(109, BlockTime(15_000)),
            "a scan of the true chain"
        );
        assert!(progress.resync(110, BlockTime(16_000)));
        assert!(!progress.is_replayed() && !progress.is_before_snapshot(111, BlockTime(16_500)));
    }

    #[test]
    fn a_block_contradicts_a_snapshot_of_a_scan() {
        let mut progress = Progress::default();
        assert!(progress.resync(100, BlockTime(10_000)));
        progress.snapshot_applied(1_000, BlockTime(10_500));
        assert!(progress.is_replayed());
        progress.block(101, BlockTime(10_400));
        assert!(progress.is_replayed(), "the scan is ahead of the stream");
        progress.block(102, BlockTime(11_000));
        assert!(!progress.is_replayed());
    }
}
