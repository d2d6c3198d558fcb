//! How long to wait before trying again. Deterministic: machines keep the moment in their state.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
/// Tenants wait for the other side of most retries, so none waits longer than a minute.
const LONGEST: Duration = Duration::from_secs(60);

/// 1, 2, 4 … 60 seconds.
pub(crate) fn after(attempts: u32) -> Duration {
    let factor = 1u32.checked_shl(attempts.min(31)).unwrap_or(u32::MAX);
    FIRST.saturating_mul(factor).min(LONGEST)
}
