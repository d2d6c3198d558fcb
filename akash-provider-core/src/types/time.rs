//! The two clocks of the engine. The caller passes both to the engine, which reads no clock.
//!
//! Deadlines of chain records use block time, so that a halted chain expires nothing. Health, retries and
//! caches use monotonic time.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A block height; the first block is 1.
pub type Height = u64;

/// Monotonic time in milliseconds since an arbitrary start. The value never decreases within a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Mono(pub u64);

/// Time in the header of a block, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct BlockTime(pub i64);

/// Time at which the engine executes a step: the monotonic clock, and the time of the newest processed block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Now {
    /// Monotonic clock of the process.
    pub mono: Mono,
    /// Time of the newest processed block, constant while the chain is halted.
    pub block_time: BlockTime,
}

impl Mono {
    /// Returns this time plus `after`, or the maximum time on overflow.
    #[must_use]
    pub fn plus(self, after: Duration) -> Self {
        Self(self.0.saturating_add(millis(after)))
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later than this time.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl BlockTime {
    /// Returns this time plus `after`, or the maximum time on overflow.
    #[must_use]
    pub fn plus(self, after: Duration) -> Self {
        Self(self.0.saturating_add_unsigned(millis(after)))
    }

    /// Returns this time minus `before`, or the minimum time on overflow.
    #[must_use]
    pub fn minus(self, before: Duration) -> Self {
        Self(self.0.saturating_sub_unsigned(millis(before)))
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later than this time.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
