//! Correction of the local clock by the newest blocks of the nodes.
//!
//! If the local clock is behind, the block times of all nodes seem to be in the future, and no node could be
//! used. For this reason, the checks of block times use a corrected clock. The table shows the correction. If
//! no two nodes agree, the node with the smallest difference counts as the single node.
//!
//! | nodes | correction |
//! |---|---|
//! | Two nodes agree within ten seconds, and agree with the local clock. | none |
//! | Two nodes agree within ten seconds, and are ahead of the local clock. | the smaller of the two differences |
//! | A single node agrees with the local clock. | none |
//! | A single node is ahead. Its block time has not advanced faster than real time since the processed block. | the difference of this node |
//! | A single node is ahead. Its block time has advanced faster than real time, or no block is processed. | unchanged, because a false time could end Akash leases early |

use super::Endpoints;
use crate::checkpoint::{AHEAD_MAX_MS, correct_clock, correction_ms, local};
use crate::lock::lock;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

impl Endpoints {
    /// Updates the correction of the local clock from the block times of the nodes. Checks of block times use
    /// the corrected clock.
    pub(super) fn update_clock_correction(&self) {
        let Some(correction) = self.correction() else {
            return;
        };
        // Only the nodes that caused a correction can revoke it.
        let had_corrected = self.shared.corrects_clock.swap(correction > 0, Ordering::Relaxed);
        if correction > 0 || had_corrected {
            correct_clock(correction);
        }
        let behind_s = correction / 1000;
        if !had_corrected && correction > 0 {
            tracing::warn!(
                behind_s,
                "clock of this machine is behind the chain nodes, the check of block times adds the difference: set the clock with `timedatectl set-ntp true`"
            );
        } else if had_corrected && correction == 0 {
            tracing::info!("clock of this machine is no longer behind the clocks of the chain nodes");
        }
    }

    /// Returns the time by which the local clock is behind the nodes. Returns `None` if the clocks agree, or
    /// if no node has reported a time.
    #[must_use]
    pub fn clock_behind(&self) -> Option<Duration> {
        let corrects = self.shared.corrects_clock.load(Ordering::Relaxed);
        let behind = u64::try_from(correction_ms()).ok().filter(|_| corrects);
        behind.map(Duration::from_millis)
    }

    /// Returns the new correction of the local clock in ms. `None` means that the current correction does not change.
    fn correction(&self) -> Option<i64> {
        let members = self.shared.members.iter().enumerate();
        let ahead = members.filter_map(|(at, member)| Some((at, lock(&member.health).ahead?)));
        let ahead: Vec<(usize, i64)> = ahead.collect();
        let pairs = ahead
            .iter()
            .flat_map(|one| ahead.iter().map(move |other| (one, other)));
        let agreed = pairs.filter(|((one, a), (other, b))| {
            a <= b && b.saturating_sub(*a) <= AHEAD_MAX_MS && self.is_other_node(*one, *other)
        });
        let agreed = agreed.map(|((_, a), _)| *a).min();
        let smallest = ahead.iter().map(|(_, a)| *a).min()?;
        match agreed {
            Some(agreed) if agreed > AHEAD_MAX_MS => Some(agreed),
            Some(_) => Some(0),
            None if smallest <= AHEAD_MAX_MS => Some(0),
            None if self.follows_processed(smallest) => Some(smallest),
            None => None,
        }
    }

    /// Returns true if the newest block of a node can follow the processed block. Since the processed block,
    /// the block time may advance at most as much as the monotonic clock, plus [`AHEAD_MAX_MS`].
    ///
    /// `ahead` is the time by which the newest block of a node is ahead of the local clock, in ms.
    fn follows_processed(&self, ahead: i64) -> bool {
        let processed = lock(&self.shared.processed);
        let (Some(block), Some(since)) = (processed.block, processed.since) else {
            return false;
        };
        let passed = Instant::now().duration_since(since).as_millis();
        let passed = i64::try_from(passed).unwrap_or(i64::MAX);
        let grown = local().0.saturating_add(ahead).saturating_sub(block.time.0);
        grown <= passed.saturating_add(AHEAD_MAX_MS)
    }
}
