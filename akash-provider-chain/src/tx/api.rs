//! Queries of the transaction writer to a node, independent of the transport.

use super::object_state::ObjectState;
use crate::signer::TxHash;
use akash_provider_core::chain::{Account, SyncInfo};
use akash_provider_core::error::Error;
use akash_provider_core::types::{Address, Coin, DecCoin, Height, Msg};
use async_trait::async_trait;
use std::fmt;

/// Error code of the chain: a codespace and a number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code {
    /// Codespace, such as `sdk`, `market` or `cert`.
    pub space: String,
    /// Number in the codespace.
    pub number: u32,
}

impl Code {
    /// Creates an error code.
    pub fn new(space: impl Into<String>, number: u32) -> Self {
        Self {
            space: space.into(),
            number,
        }
    }

    /// Returns true if this is the error `number` of the codespace `sdk`.
    #[must_use]
    pub fn is_sdk(&self, number: u32) -> bool {
        self.space == "sdk" && self.number == number
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.space, self.number)
    }
}

/// Result of a simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Simulation {
    /// The transaction would succeed in the current state of the chain.
    Gas {
        /// Gas that the transaction used in the simulation.
        used: u64,
    },
    /// The transaction would fail. The node returns the reason as text.
    Refused {
        /// Error text of the node, truncated.
        log: String,
    },
    /// The transaction would fail, because the account cannot pay the fee and the deposits.
    Unpaid {
        /// Error text of the node.
        log: String,
        /// True if the balance is below the fee. False if the balance covers the fee but not the deposits.
        is_fee: bool,
    },
}

/// Response of a node to a new transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submission {
    /// The transaction is in the mempool.
    Accepted,
    /// The node has received this transaction before (`tx already exists in cache`).
    Known,
    /// The node refused the transaction.
    Refused {
        /// Error code of the refusal.
        code: Code,
        /// Error text of the node.
        log: String,
    },
}

/// Transaction in a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncludedTx {
    /// Height of the block that contains the transaction.
    pub height: Height,
    /// Error code of the transaction. `None` if the transaction succeeded.
    pub failure: Option<Code>,
    /// Log text of the chain, not truncated.
    pub log: String,
    /// Gas that the transaction used.
    pub gas_used: u64,
}

/// Queries and calls that the transaction writer sends to a node.
///
/// # Errors
/// All functions return `Unavailable` or `Timeout` if no node responds. After such an error of `broadcast`, a
/// node may have the transaction.
#[async_trait]
pub trait TxApi: fmt::Debug + Send + Sync + 'static {
    /// Returns the newest block and the chain id.
    async fn sync_info(&self) -> Result<SyncInfo, Error>;
    /// Returns the signing account, or `None` if the account does not exist on the chain.
    async fn account(&self, address: &Address) -> Result<Option<Account>, Error>;
    /// Returns the balance of the account in one denomination.
    async fn balance(&self, address: &Address, denom: &str) -> Result<Coin, Error>;
    /// Returns the minimum gas prices of the node, one entry per accepted denomination. The list is empty if
    /// the node requires no fee.
    async fn min_gas_prices(&self) -> Result<Vec<DecCoin>, Error>;
    /// Simulates a signed transaction.
    async fn simulate(&self, tx: Vec<u8>) -> Result<Simulation, Error>;
    /// Simulates a signed transaction. If the gas exceeds `most`, a second node repeats the simulation, and
    /// the lower result is returned. Without a second node, returns the first result.
    async fn simulate_below(&self, tx: Vec<u8>, most: u64) -> Result<Simulation, Error> {
        let _ = most;
        self.simulate(tx).await
    }
    /// Sends a signed transaction to the mempool of a node. Does not wait until a block includes the
    /// transaction.
    async fn broadcast(&self, tx: Vec<u8>) -> Result<Submission, Error>;
    /// Returns a transaction by hash, or `None` if the node does not have the transaction.
    async fn find(&self, hash: &TxHash) -> Result<Option<IncludedTx>, Error>;
    /// Queries the object that a message affects. Returns whether the chain has executed the message.
    async fn object_state(&self, msg: &Msg) -> Result<ObjectState, Error>;
}
