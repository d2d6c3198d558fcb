//! Encoding and signing of transactions, in direct mode.
//!
//! ```text
//! TxBody ─┐
//!         ├─ SignDoc { body, auth info, chain id, account number } ── secp256k1 ──▶ TxRaw ── SHA-256 ──▶ hash
//! AuthInfo┘
//! ```
//! The encoding is deterministic: the same input results in the same bytes. A transaction can therefore be
//! sent again without being executed twice.

use crate::private_key::{PrivateKey, PublicKey};
use crate::proto::cosmos::base::v1beta1::Coin as WireCoin;
use crate::proto::cosmos::crypto::secp256k1::PubKey;
use crate::proto::cosmos::tx::signing::v1beta1::SignMode;
use crate::proto::cosmos::tx::v1beta1::mode_info::{Single, Sum};
use crate::proto::cosmos::tx::v1beta1::{AuthInfo, Fee, ModeInfo, SignDoc, SignerInfo, TxBody, TxRaw};
use akash_provider_core::types::{Address, Coin};
use data_encoding::HEXUPPER;
use prost::{Message, Name};
use prost_types::{Any, Timestamp};
use sha2::{Digest, Sha256};
use std::fmt;

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Hash of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxHash(pub [u8; 32]);

impl TxHash {
    /// Computes the hash of an encoded transaction.
    #[must_use]
    pub fn new(tx: &[u8]) -> Self {
        Self(Sha256::digest(tx).into())
    }
}

impl fmt::Display for TxHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXUPPER.encode(&self.0))
    }
}

/// Nonce of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ordering {
    /// Unordered transaction. The timeout is also the nonce, so the timeout must be unique for the account.
    Unordered {
        /// Last block time at which a block can include the transaction, in nanoseconds since the Unix epoch.
        timeout_nanos: i64,
    },
    /// Ordered transaction. The account sequence determines the order of inclusion.
    Ordered {
        /// Number of transactions that the account has sent before this one.
        sequence: u64,
        /// Last height at which a block can include the transaction; 0 for no limit.
        timeout_height: u64,
    },
}

/// Chain account that signs a transaction.
#[derive(Debug, Clone, Copy)]
pub struct SigningAccount<'a> {
    /// Private key of the account.
    pub key: &'a PrivateKey,
    /// Account number on the chain.
    pub number: u64,
    /// Chain id, which is part of the signed data.
    pub chain_id: &'a str,
}

/// Fee and gas limit of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TxFee {
    /// Fee that is paid for the whole gas limit.
    pub fee: Coin,
    /// Maximum gas that the transaction may use.
    pub gas_limit: u64,
    /// Chain account that pays the fee by a fee grant. `None` if the signer pays.
    pub granter: Option<Address>,
}

/// Signed transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedTx {
    /// Encoded transaction.
    pub bytes: Vec<u8>,
    /// Hash of the encoded transaction.
    pub hash: TxHash,
}

/// Signs messages as one transaction.
#[must_use]
pub fn sign(account: &SigningAccount<'_>, messages: Vec<Any>, ordering: Ordering, price: &TxFee) -> SignedTx {
    sign_with_note(account, messages, ordering, price, "")
}

/// Signs messages as one transaction with a public note.
#[must_use]
pub fn sign_with_note(
    account: &SigningAccount<'_>,
    messages: Vec<Any>,
    ordering: Ordering,
    price: &TxFee,
    note: &str,
) -> SignedTx {
    let mut body = body(messages, ordering);
    note.clone_into(&mut body.memo);
    let body_bytes = body.encode_to_vec();
    let auth_info_bytes = auth_info(account.key.public(), ordering, price).encode_to_vec();
    let document = SignDoc {
        body_bytes,
        auth_info_bytes,
        chain_id: account.chain_id.to_owned(),
        account_number: account.number,
    };
    let signature = account.key.sign(&document.encode_to_vec());
    let raw = TxRaw {
        body_bytes: document.body_bytes,
        auth_info_bytes: document.auth_info_bytes,
        signatures: vec![signature.to_vec()],
    };
    let bytes = raw.encode_to_vec();
    let hash = TxHash::new(&bytes);
    SignedTx { bytes, hash }
}

fn body(messages: Vec<Any>, ordering: Ordering) -> TxBody {
    let mut body = TxBody {
        messages,
        ..TxBody::default()
    };
    match ordering {
        Ordering::Unordered { timeout_nanos } => {
            body.unordered = true;
            body.timeout_timestamp = Some(Timestamp {
                seconds: timeout_nanos.div_euclid(NANOS_PER_SECOND),
                nanos: i32::try_from(timeout_nanos.rem_euclid(NANOS_PER_SECOND)).unwrap_or(0),
            });
        }
        Ordering::Ordered { timeout_height, .. } => body.timeout_height = timeout_height,
    }
    body
}

fn auth_info(public_key: &PublicKey, ordering: Ordering, price: &TxFee) -> AuthInfo {
    let sequence = match ordering {
        // Unordered transactions must have sequence 0. The timeout is the nonce.
        Ordering::Unordered { .. } => 0,
        Ordering::Ordered { sequence, .. } => sequence,
    };
    let single = Single {
        mode: SignMode::Direct.into(),
    };
    let signer = SignerInfo {
        public_key: Some(public_key_any(public_key)),
        mode_info: Some(ModeInfo {
            sum: Some(Sum::Single(single)),
        }),
        sequence,
    };
    let amount = WireCoin {
        denom: price.fee.denom.to_string(),
        amount: price.fee.amount.to_string(),
    };
    let fee = Fee {
        // The chain refuses a coin with the amount 0. An empty list means no fee.
        amount: if price.fee.amount == 0 {
            vec![]
        } else {
            vec![amount]
        },
        gas_limit: price.gas_limit,
        payer: String::new(),
        granter: price
            .granter
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
    };
    AuthInfo {
        signer_infos: vec![signer],
        fee: Some(fee),
        tip: None,
    }
}

fn public_key_any(key: &PublicKey) -> Any {
    let message = PubKey {
        key: key.as_bytes().to_vec(),
    };
    Any {
        type_url: PubKey::type_url(),
        value: message.encode_to_vec(),
    }
}

#[cfg(test)]
mod tests;
