//! Key of the account with the gate that permits its transactions.

use super::planner::Draft;
use crate::convert::to_any;
use crate::private_key::PrivateKey;
use crate::signer::{SignedTx, SigningAccount, TxHash, sign};
use akash_provider_core::election::{LeadershipGate, WritePermit};
use akash_provider_core::types::Address;

/// Signer of the transactions of one account. The signer signs only while its gate is open. A provider
/// without an election uses `LeadershipGate::new(true)`.
///
/// ```compile_fail
/// # use akash_provider_chain::private_key::PrivateKey;
/// # use akash_provider_chain::tx::TxSigner;
/// # fn example(key: PrivateKey) {
/// let signer = TxSigner::new(key);
/// # }
/// ```
#[derive(Debug)]
pub struct TxSigner {
    key: PrivateKey,
    gate: LeadershipGate,
}

impl TxSigner {
    /// Creates the signer of the account of `key`.
    #[must_use]
    pub const fn new(key: PrivateKey, gate: LeadershipGate) -> Self {
        Self { key, gate }
    }

    /// Returns the address of the account.
    pub fn address(&self) -> &Address {
        self.key.address()
    }

    /// Returns a permit to send a transaction; `None` while another instance may be the leader.
    pub(super) fn permit(&self) -> Option<WritePermit> {
        self.gate.permit()
    }

    /// Signs a transaction for a broadcast or a simulation. A simulation needs a permit too, because a
    /// dishonest node can broadcast the received transaction.
    pub(super) fn sign(&self, draft: &Draft, chain_id: &str, _permit: &WritePermit) -> SignedTx {
        self.signed(draft, chain_id)
    }

    /// Returns the hash of the transaction.
    pub(super) fn hash(&self, draft: &Draft, chain_id: &str) -> TxHash {
        self.signed(draft, chain_id).hash
    }

    fn signed(&self, draft: &Draft, chain_id: &str) -> SignedTx {
        let account = SigningAccount {
            key: &self.key,
            number: draft.account_number,
            chain_id,
        };
        let messages = draft.msgs.iter().map(to_any).collect();
        sign(&account, messages, draft.ordering, &draft.price)
    }
}
