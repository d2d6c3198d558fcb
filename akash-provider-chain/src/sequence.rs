//! Nonces of transactions.
//!
//! The timeout of an unordered transaction is also its nonce, so an unordered transaction needs no account
//! sequence. A chain without unordered transactions requires sequences. In this case, the sequence is read
//! from the chain and incremented for each accepted transaction. If a node reports a wrong sequence, for
//! example because another program uses the same key, the sequence is read again.

use crate::signer::Ordering;
use akash_provider_core::types::{BlockTime, Height};
use std::time::Duration;

/// Lifetime of an unordered transaction, in block time.
pub const LIFETIME: Duration = Duration::from_secs(60);
/// Lifetime of an ordered transaction, in blocks: about one minute on the Akash network.
pub const LIFETIME_BLOCKS: u64 = 10;
/// Maximum expected block interval.
const BLOCK_MAX: Duration = Duration::from_secs(12);
const NANOS_PER_MILLI: i64 = 1_000_000;

/// Latest block that can include a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Expiry {
    /// Latest time of a block that can include the transaction. For an ordered transaction, the time is an
    /// estimate and never too early.
    pub time: BlockTime,
    /// Height of the last block that can include the transaction. `None` for unordered transactions.
    pub height: Option<Height>,
}

impl Expiry {
    /// Returns true if no block after the given block can include the transaction.
    pub(crate) fn has_passed(&self, height: Height, time: BlockTime) -> bool {
        // The timeout height itself can still include the transaction.
        self.height.map_or(time > self.time, |last| height >= last)
    }
}

/// Generator of nonces. The nonce of an unordered transaction is its timeout. On a chain without unordered
/// transactions, the nonce is the account sequence.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Sequencer {
    /// Nanoseconds that are added to each timeout. The value is below one million, and differs between
    /// processes.
    salt: i64,
    last_nanos: i64,
    ordered: Option<Sequence>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Sequence {
    next: Option<u64>,
}

impl Sequencer {
    /// Creates a generator for unordered transactions. `salt` must differ between processes that sign with
    /// the same key.
    pub(crate) fn new(salt: u32) -> Self {
        Self {
            salt: i64::from(salt) % NANOS_PER_MILLI,
            last_nanos: 0,
            ordered: None,
        }
    }

    /// Returns true if sequences are used instead of unordered transactions.
    pub(crate) const fn is_ordered(&self) -> bool {
        self.ordered.is_some()
    }

    pub(crate) fn use_sequences(&mut self) {
        self.ordered.get_or_insert_default();
    }

    /// Returns true if the sequence must be read before the next transaction.
    pub(crate) fn needs_sequence(&self) -> bool {
        self.ordered.is_some_and(|s| s.next.is_none())
    }

    /// Sets the next sequence. `sequence` is the account sequence on the chain. `waiting` is the highest
    /// sequence of the pending transactions.
    pub(crate) fn set_sequence(&mut self, sequence: u64, waiting: Option<u64>) {
        if let Some(ordered) = &mut self.ordered {
            // The sequence on the chain does not include pending transactions.
            let after = waiting.map_or(0, |w| w.saturating_add(1));
            ordered.next = Some(sequence.max(after));
        }
    }

    /// Marks the sequence as unknown, so that it is read again.
    pub(crate) fn invalidate(&mut self) {
        if let Some(ordered) = &mut self.ordered {
            ordered.next = None;
        }
    }

    /// Records that a node accepted a transaction with this sequence.
    pub(crate) fn mark_used(&mut self, sequence: u64) {
        if let Some(Sequence { next: Some(next) }) = &mut self.ordered {
            // Responses may arrive out of order.
            *next = (*next).max(sequence.saturating_add(1));
        }
    }

    /// Returns the next nonce and its expiry, or `None` while the sequence is unknown.
    pub(crate) fn next_nonce(&mut self, height: Height, time: BlockTime) -> Option<(Ordering, Expiry)> {
        let Some(ordered) = &self.ordered else {
            return Some(self.next_timeout(time));
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

    fn next_timeout(&mut self, time: BlockTime) -> (Ordering, Expiry) {
        let expires = time.plus(LIFETIME);
        let wanted = expires
            .0
            .saturating_mul(NANOS_PER_MILLI)
            .saturating_add(self.salt);
        // The newest block time is constant between blocks, so each nonce must be greater than the last one.
        let timeout_nanos = wanted.max(self.last_nanos.saturating_add(1));
        self.last_nanos = timeout_nanos;
        // A block that is one millisecond later is after the timeout.
        let time = BlockTime(timeout_nanos.div_euclid(NANOS_PER_MILLI));
        (
            Ordering::Unordered { timeout_nanos },
            Expiry { time, height: None },
        )
    }
}
