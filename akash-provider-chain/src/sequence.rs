//! What makes each transaction of the account different from the others.
//!
//! Unordered transactions carry a timeout that is their nonce, so they need no account sequence and nothing can
//! get out of step with it. Where a chain does not know them, the sequence is counted here: learned from the
//! chain, counted up with every transaction a node accepts, learned again when a node says it is wrong, as it
//! does when the owner uses the key elsewhere.

use crate::signer::Ordering;
use akash_provider_core::types::{BlockTime, Height};
use std::time::Duration;

/// Life of a transaction in block time.
pub const LIFETIME: Duration = Duration::from_secs(60);
/// Life of an ordered transaction in blocks: a minute of the network's blocks.
pub const LIFETIME_BLOCKS: u64 = 10;
/// A block takes less than this, so an ordered transaction has surely expired [`LIFETIME_BLOCKS`] times later.
const BLOCK_MAX: Duration = Duration::from_secs(12);
const NANOS_PER_MILLI: i64 = 1_000_000;

/// When a transaction can no longer land.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Expiry {
    /// After a block later than this; for ordered transactions an estimate on the safe side.
    pub time: BlockTime,
    /// After this height, for ordered transactions.
    pub height: Option<Height>,
}

impl Expiry {
    /// True when no block after this one can hold it.
    #[must_use]
    pub(crate) fn passed(&self, height: Height, time: BlockTime) -> bool {
        // It may land at its timeout height itself, and at none above.
        self.height.map_or(time > self.time, |last| height >= last)
    }
}

/// Gives out nonces: timeouts, or sequences where the chain knows no unordered transactions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Sequencer {
    /// Nanoseconds below a millisecond by which the timeouts of two processes differ.
    salt: i64,
    last_nanos: i64,
    ordered: Option<Sequence>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Sequence {
    next: Option<u64>,
}

impl Sequencer {
    /// A sequencer for unordered transactions. `salt` keeps two processes with one key apart.
    #[must_use]
    pub(crate) fn new(salt: u32) -> Self {
        Self {
            salt: i64::from(salt) % NANOS_PER_MILLI,
            last_nanos: 0,
            ordered: None,
        }
    }

    /// True once the chain turned out not to know unordered transactions.
    #[must_use]
    pub(crate) const fn is_ordered(&self) -> bool {
        self.ordered.is_some()
    }

    /// Counts sequences from now on.
    pub(crate) fn fall_back(&mut self) {
        self.ordered.get_or_insert_default();
    }

    /// True when the sequence must be learned before the next transaction.
    #[must_use]
    pub(crate) fn must_learn(&self) -> bool {
        self.ordered.is_some_and(|s| s.next.is_none())
    }

    /// The chain's sequence, and the highest of ours that waits for a block.
    pub(crate) fn learn(&mut self, sequence: u64, waiting: Option<u64>) {
        if let Some(ordered) = &mut self.ordered {
            // Ours that wait for a block are not in the chain's number yet.
            let after = waiting.map_or(0, |w| w.saturating_add(1));
            ordered.next = Some(sequence.max(after));
        }
    }

    /// A node says that the sequence is wrong.
    pub(crate) fn mismatch(&mut self) {
        if let Some(ordered) = &mut self.ordered {
            ordered.next = None;
        }
    }

    /// A node accepted a transaction with this sequence.
    pub(crate) fn used(&mut self, sequence: u64) {
        if let Some(Sequence { next: Some(next) }) = &mut self.ordered {
            // Answers may come out of order.
            *next = (*next).max(sequence.saturating_add(1));
        }
    }

    /// The next nonce, and when it expires; `None` while the sequence is not known.
    pub(crate) fn stamp(&mut self, height: Height, time: BlockTime) -> Option<(Ordering, Expiry)> {
        let Some(ordered) = &self.ordered else {
            return Some(self.stamp_unordered(time));
        };
        let last = height.saturating_add(LIFETIME_BLOCKS);
        let lifetime = BLOCK_MAX.saturating_mul(u32::try_from(LIFETIME_BLOCKS).unwrap_or(u32::MAX));
        let expiry = Expiry {
            time: time.plus(lifetime),
            height: Some(last),
        };
        let ordering = Ordering::Ordered {
            sequence: ordered.next?,
            timeout_height: last,
        };
        Some((ordering, expiry))
    }

    fn stamp_unordered(&mut self, time: BlockTime) -> (Ordering, Expiry) {
        let expires = time.plus(LIFETIME);
        let wanted = expires
            .0
            .saturating_mul(NANOS_PER_MILLI)
            .saturating_add(self.salt);
        // Between blocks the newest block's time stands still, so each nonce must be above the last.
        let timeout_nanos = wanted.max(self.last_nanos.saturating_add(1));
        self.last_nanos = timeout_nanos;
        // A block one millisecond later than this is later than the timeout.
        let time = BlockTime(timeout_nanos.div_euclid(NANOS_PER_MILLI));
        (
            Ordering::Unordered { timeout_nanos },
            Expiry { time, height: None },
        )
    }
}
