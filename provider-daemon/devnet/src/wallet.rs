//! A key that acts on a node over the wire: what tenants, auditors and rivals send.
//!
//! Each call is one unordered transaction, estimated and signed. A provider sends through the chain client's own
//! writer; this one is for whoever sends a message now and then and waits for it.

use akash_provider_chain::gas::{GasConfig, NoFee};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_chain::signer::{Account, Ordering, Price, SignedTx, TxHash, sign};
use akash_provider_chain::tx::api::{Code, Included, Simulation, Submission, TxApi};
use akash_provider_core::error::Error;
use akash_provider_core::types::{Address, BlockTime, Coin, Height};
use prost_types::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering as Memory};
use std::time::Duration;

/// Life of a transaction in block time.
const LIFETIME: Duration = Duration::from_secs(60);
/// Gas of a transaction that is only tried.
const TRIAL_GAS: u64 = 2_000_000;
/// Time between two questions whether a transaction is in a block.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const NANOS_PER_MILLI: i64 = 1_000_000;

/// Why a transaction is in no block, or failed in its own.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WalletError {
    /// The node does not answer.
    #[error(transparent)]
    Node(#[from] Error),
    /// The node takes no fee that this key could pay.
    #[error(transparent)]
    Fee(#[from] NoFee),
    /// The account has never had anything.
    #[error("the chain does not know {0}: it needs some uakt before it can act")]
    Unknown(Address),
    /// It failed when it was tried, and was not sent.
    #[error("the chain refuses it: {log}")]
    Refused {
        /// The text of the refusal, as the simulation gave it.
        log: String,
    },
    /// The node did not take it.
    #[error("the node does not take it ({code}): {log}")]
    NotTaken {
        /// Why, as a code.
        code: Code,
        /// Why, as a text.
        log: String,
    },
    /// Its time is over.
    #[error("transaction {0} is in no block and can land in none any more")]
    Expired(TxHash),
    /// It failed in its block.
    #[error("it failed in block {height} ({code}): {log}")]
    Failed {
        /// Height of the block that holds it; its fee is paid.
        height: Height,
        /// Why, as a code.
        code: Code,
        /// Why, as a text.
        log: String,
    },
}

/// A transaction that a node took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Hash of its bytes, by which it is found in a block.
    pub hash: TxHash,
    /// The last block time it may land at.
    pub expires: BlockTime,
}

/// A key and the node it acts on.
#[derive(Debug, Clone)]
pub struct Wallet {
    api: Arc<dyn TxApi>,
    key: Arc<PrivateKey>,
    gas: GasConfig,
    /// The nonce that was used last.
    last_nanos: Arc<AtomicI64>,
}

impl Wallet {
    /// A wallet with the usual settings for gas; asks the node nothing yet.
    #[must_use]
    pub fn new(api: Arc<dyn TxApi>, key: PrivateKey) -> Self {
        Self {
            api,
            key: Arc::new(key),
            gas: GasConfig::default(),
            last_nanos: Arc::default(),
        }
    }

    /// Address of the account whose key it has.
    #[must_use]
    pub fn address(&self) -> &Address {
        self.key.address()
    }

    /// Sends messages as one transaction; returns when the node has checked it and it waits for a block.
    ///
    /// # Errors
    /// The node does not answer, or refuses it.
    pub async fn submit(&self, messages: Vec<Any>) -> Result<Sent, WalletError> {
        let address = self.address();
        let account = self.api.account(address).await?;
        let account = account.ok_or_else(|| WalletError::Unknown(address.clone()))?;
        let tip = self.api.sync_info().await?;
        let minimum = self.api.min_gas_prices().await?;
        let price = self.gas.price_at(&minimum)?;
        let sign_with = |gas_limit, price: Price| {
            let (ordering, expires) = self.nonce(tip.time);
            let account = Account {
                key: &self.key,
                number: account.number,
                chain_id: &tip.chain_id,
            };
            let price = Price { gas_limit, ..price };
            (sign(&account, messages.clone(), ordering, &price), expires)
        };
        let (trial, _) = sign_with(TRIAL_GAS, self.gas.price(TRIAL_GAS, price));
        let used = match self.api.simulate(trial.bytes).await? {
            Simulation::Gas { used } => used,
            Simulation::Refused { log } | Simulation::Unpaid { log, .. } => {
                return Err(WalletError::Refused { log });
            }
        };
        let limit = self.gas.limit(used);
        let (signed, expires) = sign_with(limit, self.gas.price(limit, price));
        let SignedTx { bytes, hash } = signed;
        match self.api.broadcast(bytes).await? {
            // A node that has the same bytes already keeps them for a block all the same.
            Submission::Accepted | Submission::Known => Ok(Sent { hash, expires }),
            Submission::Refused { code, log } => Err(WalletError::NotTaken { code, log }),
        }
    }

    /// Waits until a transaction is in a block; its height.
    ///
    /// # Errors
    /// It failed in its block, never got into one, or the node does not answer.
    pub async fn wait(&self, sent: &Sent) -> Result<Height, WalletError> {
        loop {
            // The time is asked first: a block between the two questions may hold it, and it would look expired.
            let tip = self.api.sync_info().await?;
            if let Some(included) = self.api.find(&sent.hash).await? {
                return landed(included);
            }
            if tip.time > sent.expires {
                return Err(WalletError::Expired(sent.hash));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Sends messages as one transaction and waits until it is in a block; its height.
    ///
    /// # Errors
    /// It is refused, or failed in its block, or the node does not answer.
    pub async fn send(&self, messages: Vec<Any>) -> Result<Height, WalletError> {
        let sent = self.submit(messages).await?;
        self.wait(&sent).await
    }

    /// A nonce that was not used before.
    fn nonce(&self, now: BlockTime) -> (Ordering, BlockTime) {
        let wanted = now.plus(LIFETIME).0.saturating_mul(NANOS_PER_MILLI);
        // Two within one block time would have the same nonce, so each is at least a nanosecond after the last.
        let later = |last: i64| Some(wanted.max(last.saturating_add(1)));
        let last = self
            .last_nanos
            .fetch_update(Memory::Relaxed, Memory::Relaxed, later);
        let timeout_nanos = wanted.max(last.unwrap_or(0).saturating_add(1));
        let expires = BlockTime(timeout_nanos.div_euclid(NANOS_PER_MILLI));
        (Ordering::Unordered { timeout_nanos }, expires)
    }
}

fn landed(included: Included) -> Result<Height, WalletError> {
    match included.failure {
        None => Ok(included.height),
        Some(code) => Err(WalletError::Failed {
            height: included.height,
            code,
            log: included.log,
        }),
    }
}

/// Money in uakt for fees and in uact for everything else, enough for a long day.
#[must_use]
pub fn allowance() -> [Coin; 2] {
    const AMOUNT: u128 = 1_000_000_000_000;
    ["uakt", "uact"].map(|denom| Coin {
        denom: denom.into(),
        amount: AMOUNT,
    })
}
