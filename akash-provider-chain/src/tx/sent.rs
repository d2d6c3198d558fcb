//! Receipts of the transactions that contained recent messages.

use crate::signer::TxHash;
use akash_provider_core::types::{Coin, Msg, TxReceipt};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

/// Maximum number of messages with a stored receipt.
const MESSAGES_MAX: usize = 4096;

/// Hash and fee of the last transaction of each recent message.
#[derive(Debug, Default)]
pub(super) struct SentReceipts {
    hasher: RandomState,
    /// Receipts by the digest of the message. [`SentReceipts::clear`] replaces a receipt with `None`.
    receipts: HashMap<u64, Option<(TxHash, Coin)>>,
    /// Digests, oldest first.
    digests: VecDeque<u64>,
}

impl SentReceipts {
    /// Removes the receipts of `messages` before a new call.
    pub(super) fn clear(&mut self, messages: &[Msg]) {
        for message in messages {
            if let Some(receipt) = self.receipts.get_mut(&self.hasher.hash_one(message)) {
                *receipt = None;
            }
        }
    }

    pub(super) fn insert(&mut self, messages: &[Msg], hash: TxHash, fee: &Coin) {
        for message in messages {
            let digest = self.hasher.hash_one(message);
            let receipt = Some((hash, fee.clone()));
            if self.receipts.insert(digest, receipt).is_none() {
                self.digests.push_back(digest);
            }
        }
        while self.digests.len() > MESSAGES_MAX {
            if let Some(oldest) = self.digests.pop_front() {
                self.receipts.remove(&oldest);
            }
        }
    }

    pub(super) fn get(&self, message: &Msg) -> Option<TxReceipt> {
        let (hash, fee) = self.receipts.get(&self.hasher.hash_one(message))?.clone()?;
        Some(TxReceipt {
            hash: hash.to_string(),
            fee,
        })
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
    fn a_message_has_the_receipt_of_its_last_transaction_and_the_oldest_are_removed() {
        let mut sent = SentReceipts::default();
        let (first, second) = (TxHash([1; 32]), TxHash([2; 32]));
        let fee: Coin = "500uakt".parse().unwrap();
        sent.insert(&[withdrawal(0), withdrawal(1)], first, &fee);
        sent.insert(&[withdrawal(1)], second, &fee);
        let receipt = |hash: TxHash| {
            let hash = hash.to_string();
            Some(TxReceipt {
                hash,
                fee: fee.clone(),
            })
        };
        let receipts = [0, 1, 2].map(|dseq| sent.get(&withdrawal(dseq)));
        assert_eq!(receipts, [receipt(first), receipt(second), None]);
        // A cleared receipt is stored again without a second digest.
        sent.clear(&[withdrawal(1), withdrawal(2)]);
        assert_eq!(sent.get(&withdrawal(1)), None);
        sent.insert(&[withdrawal(1)], second, &fee);
        for dseq in 2..=MESSAGES_MAX {
            sent.insert(&[withdrawal(dseq)], first, &fee);
        }
        let receipts = [0, 1].map(|dseq| sent.get(&withdrawal(dseq)));
        assert_eq!(receipts, [None, receipt(second)]);
        assert_eq!(
            (sent.receipts.len(), sent.digests.len()),
            (MESSAGES_MAX, MESSAGES_MAX)
        );
    }
}
