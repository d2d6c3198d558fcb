//! Progress of the engine along the chain and the cluster, and its two clocks.

mod block_time;

use crate::types::{BlockTime, Height, Mono, Now};
use block_time::BlockTimeEstimate;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Position of a block relative to the newest processed block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockPosition {
    AlreadyProcessed,
    Next,
    /// The block is above the next height: blocks in between were not received.
    AfterGap,
}

/// Newest processed block and snapshot, and the current times.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct EngineProgress {
    now: Now,
    height: Height,
    /// Time of the block at `height`. The clock can be ahead of this time.
    #[serde(default)]
    height_time: BlockTime,
    block_time: BlockTimeEstimate,
    /// Height of the newest applied snapshot. This height can be ahead of the event stream.
    snapshot_height: Height,
    /// Block time of the newest applied snapshot.
    #[serde(default)]
    snapshot_time: BlockTime,
    /// True if events of the block at `height + 1` were already received.
    within_block: bool,
    /// True if the event stream restarted below the processed height, so that events are repeated.
    replayed: bool,
    chain_known: bool,
    cluster_known: bool,
}

impl EngineProgress {
    pub(super) const fn now(&self) -> Now {
        self.now
    }

    pub(super) const fn mono(&self) -> Mono {
        self.now.mono
    }

    pub(super) const fn block_time(&self) -> BlockTime {
        self.now.block_time
    }

    /// Returns the height of the newest block that was processed completely.
    pub(super) const fn height(&self) -> Height {
        self.height
    }

    /// Returns the highest height of any processed block or snapshot.
    pub(super) fn known_height(&self) -> Height {
        self.height.max(self.snapshot_height)
    }

    /// Returns the average interval between blocks. Returns `expected` until enough blocks were observed.
    pub(super) fn block_length(&self, expected: Duration) -> Duration {
        self.block_time.get_or(expected)
    }

    pub(super) const fn within_block(&self) -> bool {
        self.within_block
    }

    /// Returns true after the first `Resync`.
    pub(super) const fn chain_known(&self) -> bool {
        self.chain_known
    }

    pub(super) const fn cluster_known(&self) -> bool {
        self.cluster_known
    }

    pub(super) const fn set_cluster_known(&mut self, known: bool) {
        self.cluster_known = known;
    }

    /// Advances the monotonic clock and the block time. The clocks are never set back.
    pub(super) fn advance(&mut self, now: Now) {
        self.now.mono = self.now.mono.max(now.mono);
        self.pass_block_time(now.block_time);
    }

    fn pass_block_time(&mut self, time: BlockTime) {
        self.now.block_time = self.now.block_time.max(time);
    }

    pub(super) const fn set_within_block(&mut self, within_block: bool) {
        self.within_block = within_block;
    }

    /// Records the end of a block, and returns the position of this block.
    pub(super) fn block(&mut self, height: Height, time: BlockTime) -> BlockPosition {
        if height <= self.height {
            return BlockPosition::AlreadyProcessed;
        }
        let position = if height > self.height + 1 {
            BlockPosition::AfterGap
        } else {
            BlockPosition::Next
        };
        self.drop_contradicted_snapshot(height, time);
        (self.height, self.height_time) = (height, time);
        self.block_time.record(height, time);
        // A block above the processed height ends the replay.
        self.replayed = false;
        self.pass_block_time(time);
        position
    }

    /// Sets the processed height and time to the values of a snapshot that starts the event stream. Returns
    /// false if a newer snapshot was already applied.
    pub(super) fn resync(&mut self, height: Height, time: BlockTime) -> bool {
        self.drop_contradicted_snapshot(height, time);
        self.replayed = false;
        (self.height, self.height_time) = (height, time);
        self.within_block = false;
        self.chain_known = true;
        self.pass_block_time(time);
        height >= self.snapshot_height
    }

    /// Returns true if a block has a lower height but a later time than the newest processed block. Such a
    /// block shows that the processed height is wrong.
    pub(super) fn is_contradicted_by(&self, height: Height, time: BlockTime) -> bool {
        height < self.height && time > self.height_time
    }

    /// Returns true if a block has a lower height but a later time than the newest snapshot.
    fn is_snapshot_contradicted_by(&self, height: Height, time: BlockTime) -> bool {
        height < self.snapshot_height && time > self.snapshot_time
    }

    fn drop_contradicted_snapshot(&mut self, height: Height, time: BlockTime) {
        if self.is_snapshot_contradicted_by(height, time) {
            self.snapshot_height = 0;
        }
    }

    pub(super) const fn start_replay(&mut self) {
        self.replayed = true;
    }

    /// Returns true if the current events are a replay, or if an applied snapshot already contains these
    /// events.
    pub(super) const fn is_replayed(&self) -> bool {
        self.replayed || self.height < self.snapshot_height
    }

    pub(super) const fn snapshot_applied(&mut self, height: Height, time: BlockTime) {
        self.snapshot_height = height;
        self.snapshot_time = time;
    }

    /// Returns true if a snapshot of this height and time is older than the newest applied snapshot.
    pub(super) fn is_before_snapshot(&self, height: Height, time: BlockTime) -> bool {
        height < self.snapshot_height && !self.is_snapshot_contradicted_by(height, time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_and_lower_snapshot_replaces_contradicted_snapshot() {
        let mut progress = EngineProgress::default();
        assert!(progress.resync(1_000, BlockTime(10_000)));
        progress.snapshot_applied(1_000, BlockTime(10_000));
        assert!(
            !progress.resync(990, BlockTime(9_000)),
            "older than the applied snapshot"
        );
        assert!(progress.is_replayed());
        assert!(progress.is_before_snapshot(991, BlockTime(9_500)));
        assert!(
            !progress.is_before_snapshot(109, BlockTime(15_000)),
            "snapshot of a scan of the correct chain"
        );
        assert!(progress.resync(110, BlockTime(16_000)));
        assert!(!progress.is_replayed() && !progress.is_before_snapshot(111, BlockTime(16_500)));
    }

    #[test]
    fn block_replaces_contradicted_snapshot_of_scan() {
        let mut progress = EngineProgress::default();
        assert!(progress.resync(100, BlockTime(10_000)));
        progress.snapshot_applied(1_000, BlockTime(10_500));
        assert!(progress.is_replayed());
        progress.block(101, BlockTime(10_400));
        assert!(
            progress.is_replayed(),
            "the snapshot of the scan is ahead of the stream"
        );
        progress.block(102, BlockTime(11_000));
        assert!(!progress.is_replayed());
    }
}
