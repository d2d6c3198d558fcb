//! Queries of the transaction writer to a node, independent of the transport.

use super::standing::Standing;
use crate::signer::TxHash;
use akash_provider_core::chain::{Account, SyncInfo};
use akash_provider_core::error::Error;
use akash_provider_core::types::{Address, Coin, DecCoin, Height, Msg};
use async_trait::async_trait;
use std::fmt;

/// A codespace and a number: what the chain says when it refuses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code {
    /// `sdk`, `market`, `cert` and so on.
    pub space: String,
    /// The number within it.
    pub number: u32,
}

impl Code {
    /// A code of a codespace; success has none.
    pub fn new(space: impl Into<String>, number: u32) -> Self {
        Self {
            space: space.into(),
            number,
        }
    }

    /// True for a number of the SDK itself.
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

/// What came of trying a transaction without sending it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Simulation {
    /// It would succeed as the chain stands.
    Gas {
        /// The gas it would use.
        used: u64,
    },
    /// It would fail. Nodes give a text here and no code.
    Refused {
        /// The node's text, shortened: all there is to tell the reason by.
        log: String,
    },
    /// It would fail, and the account has less than its fee and deposits.
    Unpaid {
        /// Text of the node, for operators.
        log: String,
        /// The account cannot even pay the fee.
        is_fee: bool,
    },
}

/// What a node says to a transaction that is sent to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submission {
    /// It waits for a block.
    Accepted,
    /// The node has it already (`tx already exists in cache`): it was sent before.
    Known,
    /// The node does not take it.
    Refused {
        /// Why, as a code.
        code: Code,
        /// Why, as a text.
        log: String,
    },
}

/// A transaction that is in a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Included {
    /// Height of the block it is in.
    pub height: Height,
    /// `None` when it succeeded.
    pub failure: Option<Code>,
    /// The chain's text, not shortened yet.
    pub log: String,
    /// The gas it used.
    pub gas_used: u64,
}

/// A node, as far as transactions go.
///
/// # Errors
/// `Unavailable` or `Timeout` when nobody answers. For `broadcast` that means: perhaps sent.
#[async_trait]
pub trait TxApi: fmt::Debug + Send + Sync + 'static {
    /// Newest block and chain id.
    async fn sync_info(&self) -> Result<SyncInfo, Error>;
    /// The signing account; `None` when the chain has never heard of it.
    async fn account(&self, address: &Address) -> Result<Option<Account>, Error>;
    /// Balance of the account in one denomination; zero where it has none.
    async fn balance(&self, address: &Address, denom: &str) -> Result<Coin, Error>;
    /// Least price of gas, one entry per denomination the node takes; empty when it takes transactions for nothing.
    async fn min_gas_prices(&self) -> Result<Vec<DecCoin>, Error>;
    /// Tries a signed transaction.
    async fn simulate(&self, tx: Vec<u8>) -> Result<Simulation, Error>;
    /// The same; where the answer is more gas than `most`, a second node is asked, if there is one, and the least
    /// counts.
    async fn simulate_below(&self, tx: Vec<u8>, most: u64) -> Result<Simulation, Error> {
        let _ = most;
        self.simulate(tx).await
    }
    /// Sends a signed transaction; answers when the node has checked it.
    async fn broadcast(&self, tx: Vec<u8>) -> Result<Submission, Error>;
    /// A transaction by its hash; `None` when the node knows none.
    async fn find(&self, hash: &TxHash) -> Result<Option<Included>, Error>;
    /// How the object of a message stands.
    async fn standing(&self, msg: &Msg) -> Result<Standing, Error>;
}
