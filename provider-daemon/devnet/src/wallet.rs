//! Wallet that sends transactions to a node over its protocols, for tenants, auditors and competing providers.
//!
//! Each call estimates, signs and sends one unordered transaction. A provider uses the transaction writer of
//! the chain client instead. This wallet is for clients that send single messages and wait for the result.

use akash_provider_chain::gas::{FeeError, GasConfig};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_chain::signer::{Ordering, SignedTx, SigningAccount, TxFee, TxHash, sign};
use akash_provider_chain::tx::api::{Code, IncludedTx, Simulation, Submission, TxApi};
use akash_provider_core::error::Error;
use akash_provider_core::types::{Address, BlockTime, Coin, Height};
use prost_types::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering as Memory};
use std::time::Duration;

/// Lifetime of a transaction, in block time.
const LIFETIME: Duration = Duration::from_secs(60);
/// Gas limit of a transaction during the simulation.
const TRIAL_GAS: u64 = 2_000_000;
/// Interval between queries for a pending transaction.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const NANOS_PER_MILLI: i64 = 1_000_000;

/// Reason why no block includes a transaction, or why the transaction failed in its block.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WalletError {
    /// A query or the broadcast failed, for example because the node does not respond.
    #[error(transparent)]
    Node(#[from] Error),
    /// The node accepts no fee that the wallet can pay.
    #[error(transparent)]
    Fee(#[from] FeeError),
    /// The account does not exist on the chain.
    #[error("account {0} does not exist on the chain: send it some uakt first")]
    Unknown(Address),
    /// The simulation failed, so the transaction was not sent.
    #[error("the chain would refuse the transaction: {log}")]
    Refused {
        /// Text of the refusal, from the simulation.
        log: String,
    },
    /// The node refused the transaction.
    #[error("the node refused the transaction ({code}): {log}")]
    MempoolError {
        /// Code of the refusal.
        code: Code,
        /// Text of the refusal.
        log: String,
    },
    /// The transaction expired before a block included it.
    #[error("transaction {0} is in no block and has expired")]
    Expired(TxHash),
    /// The transaction failed in its block.
    #[error("transaction failed in block {height} ({code}): {log}")]
    Failed {
        /// Height of the block with the failed transaction. The fee was paid.
        height: Height,
        /// Code of the failure.
        code: Code,
        /// Text of the failure.
        log: String,
    },
}

/// Transaction that a node accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentTx {
    /// Hash of the encoded transaction, for queries.
    pub hash: TxHash,
    /// Last block time at which the transaction is valid.
    pub expires: BlockTime,
}

/// Signing key, and the node that receives the transactions.
#[derive(Debug, Clone)]
pub struct Wallet {
    api: Arc<dyn TxApi>,
    key: Arc<PrivateKey>,
    gas: GasConfig,
    /// Nonce of the last transaction of this wallet, in nanoseconds.
    last_nanos: Arc<AtomicI64>,
}

impl Wallet {
    /// Creates a wallet with the default gas settings. Sends no query.
    #[must_use]
    pub fn new(api: Arc<dyn TxApi>, key: PrivateKey) -> Self {
        Self {
            api,
            key: Arc::new(key),
            gas: GasConfig::default(),
            last_nanos: Arc::default(),
        }
    }

    /// Returns the address of the key's account.
    #[must_use]
    pub fn address(&self) -> &Address {
        self.key.address()
    }

    /// Sends messages as one transaction. Returns after the node has accepted the transaction.
    ///
    /// # Errors
    /// The node does not respond, or refuses the transaction.
    pub async fn submit(&self, messages: Vec<Any>) -> Result<SentTx, WalletError> {
        let address = self.address();
        let account = self.api.account(address).await?;
        let account = account.ok_or_else(|| WalletError::Unknown(address.clone()))?;
        let tip = self.api.sync_info().await?;
        let minimum = self.api.min_gas_prices().await?;
        let price = self.gas.price_at(&minimum)?;
        let sign_with = |gas_limit, price: TxFee| {
            let (ordering, expires) = self.nonce(tip.time);
            let account = SigningAccount {
                key: &self.key,
                number: account.number,
                chain_id: &tip.chain_id,
            };
            let price = TxFee { gas_limit, ..price };
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
            // A node that already has the same bytes also stores them for a block.
            Submission::Accepted | Submission::Known => Ok(SentTx { hash, expires }),
            Submission::Refused { code, log } => Err(WalletError::MempoolError { code, log }),
        }
    }

    /// Waits until a block includes a transaction. Returns the height of this block.
    ///
    /// # Errors
    /// The transaction failed in its block or expired, or the node does not respond.
    pub async fn wait(&self, sent: &SentTx) -> Result<Height, WalletError> {
        loop {
            // The time first: otherwise a block between the two queries may contain it, and it would look expired.
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

    /// Sends messages as one transaction, and waits until a block contains the transaction. Returns the
    /// height of this block.
    ///
    /// # Errors
    /// The transaction is refused or fails, or the node does not respond.
    pub async fn send(&self, messages: Vec<Any>) -> Result<Height, WalletError> {
        let sent = self.submit(messages).await?;
        self.wait(&sent).await
    }

    /// Returns an unused nonce, and the expiry time of its transaction.
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

fn landed(included: IncludedTx) -> Result<Height, WalletError> {
    match included.failure {
        None => Ok(included.height),
        Some(code) => Err(WalletError::Failed {
            height: included.height,
            code,
            log: included.log,
        }),
    }
}

/// Returns the initial balance of an account: uakt for fees, and uact for all other payments.
#[must_use]
pub fn allowance() -> [Coin; 2] {
    const AMOUNT: u128 = 1_000_000_000_000;
    ["uakt", "uact"].map(|denom| Coin::new(denom, AMOUNT))
}
