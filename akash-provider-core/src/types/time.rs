//! The two clocks (both are inputs, nobody in here reads one).
//!
//! Deadlines born on the chain count in block time, so a halted chain expires nothing; health, retries and
//! caches count in monotonic time.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A block height; the first block is 1.
pub type Height = u64;

/// Monotonic time in milliseconds since an arbitrary start; never goes back within a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Mono(pub u64);

/// Time of a block in milliseconds since the Unix epoch, as the chain says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct BlockTime(pub i64);

/// What a step is told about time: monotonic now, and the time of the newest processed block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Now {
    /// Monotonic clock of this process.
    pub mono: Mono,
    /// Time of the newest block processed; stands still while the chain does.
    pub block_time: BlockTime,
}

impl Mono {
    /// The moment `after` from this one; saturates.
    #[must_use]
    pub fn plus(self, after: Duration) -> Self {
        Self(self.0.saturating_add(millis(after)))
    }

    /// Time since `earlier`; zero if it is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl BlockTime {
    /// The moment `after` from this one; saturates.
    #[must_use]
    pub fn plus(self, after: Duration) -> Self {
        Self(self.0.saturating_add_unsigned(millis(after)))
    }

    /// The moment `before` ahead of this one; saturates.
    #[must_use]
    pub fn minus(self, before: Duration) -> Self {
        Self(self.0.saturating_sub_unsigned(millis(before)))
    }

    /// Time since `earlier`; zero if it is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
