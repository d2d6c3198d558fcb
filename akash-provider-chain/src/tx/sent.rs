//! Hashes of the transactions that contained recent messages.

use crate::signer::TxHash;
use akash_provider_core::types::Msg;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

/// Maximum number of messages with a stored hash.
const MESSAGES_MAX: usize = 4096;

/// Hash of the last transaction of each recent message. The oldest messages are removed first.
#[derive(Debug, Default)]
pub(super) struct SentHashes {
    hasher: RandomState,
    /// Hash by digest of the message.
    hashes: HashMap<u64, TxHash>,
    /// Digests, oldest first.
    digests: VecDeque<u64>,
}

impl SentHashes {
    /// Stores the hash of a transaction for each of its messages.
    pub(super) fn insert(&mut self, messages: &[Msg], hash: TxHash) {
        for message in messages {
            let digest = self.hasher.hash_one(message);
            if self.hashes.insert(digest, hash).is_none() {
                self.digests.push_back(digest);
            }
        }
        while self.digests.len() > MESSAGES_MAX {
            if let Some(oldest) = self.digests.pop_front() {
                self.hashes.remove(&oldest);
            }
        }
    }

    /// Returns the hash of the last transaction with this message.
    pub(super) fn get(&self, message: &Msg) -> Option<TxHash> {
        self.hashes.get(&self.hasher.hash_one(message)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn withdrawal(dseq: usize) -> Msg {
        let text = format!(
            "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/{dseq}/1/1/akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm"
        );
        Msg::WithdrawLease {
            id: text.parse().unwrap(),
        }
    }

    #[test]
    fn a_message_has_the_hash_of_its_last_transaction_and_the_oldest_are_removed() {
        let mut sent = SentHashes::default();
        let (first, second) = (TxHash([1; 32]), TxHash([2; 32]));
        sent.insert(&[withdrawal(0), withdrawal(1)], first);
        sent.insert(&[withdrawal(1)], second);
        let hashes = [0, 1, 2].map(|dseq| sent.get(&withdrawal(dseq)));
        assert_eq!(hashes, [Some(first), Some(second), None]);
        for dseq in 2..=MESSAGES_MAX {
            sent.insert(&[withdrawal(dseq)], first);
        }
        let hashes = [0, 1].map(|dseq| sent.get(&withdrawal(dseq)));
        assert_eq!(hashes, [None, Some(second)]);
        assert_eq!(
            (sent.hashes.len(), sent.digests.len()),
            (MESSAGES_MAX, MESSAGES_MAX)
        );
    }
}
