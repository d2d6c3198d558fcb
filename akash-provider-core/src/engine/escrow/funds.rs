//! How long a deployment's money lasts, in whole blocks and exact decimals.

use crate::config::Config;
use crate::types::{Dec, DeploymentRecord, Height};
use std::time::Duration;

/// Blocks until the money is used up, counted from `height`; zero or less when it is. `None` when nothing is
/// owed per block (no live lease, or all at price zero), which is not "out of funds".
///
/// Every live lease of the deployment counts, active and reclaiming, of every provider. The money is looked
/// up in the leases' own denomination; a denomination without an entry counts as zero.
#[must_use]
pub fn blocks_left(record: &DeploymentRecord, height: Height) -> Option<i128> {
    let mut shortest: Option<i128> = None;
    let live = || record.leases.iter().filter(|l| l.state.is_live());
    for (index, lease) in live().enumerate() {
        let denom = &lease.price.denom;
        if live().take(index).any(|l| l.price.denom == *denom) {
            continue;
        }
        let rate = live()
            .filter(|l| l.price.denom == *denom)
            .try_fold(Dec::ZERO, |sum, l| sum.checked_add(l.price.amount))?;
        if rate.is_zero() || rate.is_negative() {
            continue;
        }
        let since = i128::from(height.saturating_sub(record.escrow.settled_at));
        let balance = record.escrow.funds.get(denom).copied().unwrap_or(Dec::ZERO);
        let owed = rate.checked_mul_int(since);
        // An amount beyond all numbers is owed: nothing can be left.
        let left = owed
            .and_then(|o| balance.checked_sub(o))
            .and_then(|r| r.div_floor_int(rate))
            .unwrap_or(0);
        shortest = Some(shortest.map_or(left, |s| s.min(left)));
    }
    shortest
}

/// When to look again: after as many blocks as the money lasts, at most the configured interval.
#[must_use]
pub fn next_check(blocks_left: Option<u64>, config: &Config) -> Duration {
    let block = config.average_block_time;
    let in_interval = config.balance_check_interval.as_millis() / block.as_millis().max(1);
    let in_interval = u64::try_from(in_interval).unwrap_or(u64::MAX);
    blocks_as_time(
        blocks_left.map_or(in_interval, |blocks| blocks.min(in_interval)),
        block,
    )
}

/// That many average blocks as time; saturates.
#[must_use]
pub fn blocks_as_time(blocks: u64, average_block_time: Duration) -> Duration {
    let millis = u64::try_from(average_block_time.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(millis.saturating_mul(blocks))
}
