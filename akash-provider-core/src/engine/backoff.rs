//! Back-off before a retry. Deterministic, because machines store the time of the next attempt in their state.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
/// Maximum delay before a retry. The delay is short, because a tenant waits for the result of most retries.
const LONGEST: Duration = Duration::from_secs(60);

/// Returns the delay after a number of failed attempts: 1, 2, 4 … 60 seconds.
pub(crate) fn after(attempts: u32) -> Duration {
    let factor = 1u32.checked_shl(attempts.min(31)).unwrap_or(u32::MAX);
    FIRST.saturating_mul(factor).min(LONGEST)
}
