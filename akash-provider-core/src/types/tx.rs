//! Messages to the chain, and their outcomes.

use super::chain::{CloseReason, ProviderRecord};
use super::id::{Address, BidId, LeaseId};
use super::price::{Coin, DecCoin};
use super::resources::ResourceUnit;
use super::time::{BlockTime, Height};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A message that the provider sends to the chain. A new variant is a breaking change for chain clients.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "msg", rename_all = "snake_case")]
pub enum Msg {
    /// Places a bid on an order.
    CreateBid {
        /// Order and provider of the bid.
        id: BidId,
        /// Price per block of the whole group.
        price: DecCoin,
        /// Deposit from the provider's balance.
        deposit: Coin,
        /// Units that the provider reserved and offers.
        resources_offer: Vec<ResourceUnit>,
        /// Offered reclamation window; `None` offers no reclamation terms.
        reclamation_window: Option<Duration>,
    },
    /// Closes an open bid, or a lease.
    CloseBid {
        /// Order and provider of the bid.
        id: BidId,
        /// Reason of the close. Only reasons for providers are valid.
        reason: CloseReason,
    },
    /// Starts the reclamation of a lease with reclamation terms.
    StartReclaim {
        /// Order and provider of the lease.
        id: LeaseId,
        /// Reason of the reclamation. Only reasons for providers are valid.
        reason: CloseReason,
    },
    /// Settles a lease and withdraws its earnings.
    WithdrawLease {
        /// Order and provider of the lease.
        id: LeaseId,
    },
    /// Registers the provider.
    CreateProvider(ProviderRecord),
    /// Replaces the record of a registered provider.
    UpdateProvider(ProviderRecord),
    /// Publishes a certificate of the account.
    CreateCertificate {
        /// Account that the certificate belongs to.
        owner: Address,
        /// Certificate in PEM.
        cert: Vec<u8>,
        /// Public key in PEM.
        pubkey: Vec<u8>,
    },
    /// Revokes a published certificate. The record remains on the chain, but is no longer valid.
    RevokeCertificate {
        /// Account that the certificate belongs to.
        owner: Address,
        /// Serial number of the certificate, in decimal digits.
        serial: String,
    },
}

impl Msg {
    /// Returns the account that signs the message.
    #[must_use]
    pub const fn signer(&self) -> &Address {
        match self {
            Self::CreateBid { id, .. }
            | Self::CloseBid { id, .. }
            | Self::StartReclaim { id, .. }
            | Self::WithdrawLease { id } => &id.provider,
            Self::CreateProvider(record) | Self::UpdateProvider(record) => &record.owner,
            Self::CreateCertificate { owner, .. } | Self::RevokeCertificate { owner, .. } => owner,
        }
    }

    /// Returns the name of the message on the network, such as `MsgCreateBid`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::CreateBid { .. } => "MsgCreateBid",
            Self::CloseBid { .. } => "MsgCloseBid",
            Self::StartReclaim { .. } => "MsgLeaseStartReclaim",
            Self::WithdrawLease { .. } => "MsgWithdrawLease",
            Self::CreateProvider(_) => "MsgCreateProvider",
            Self::UpdateProvider(_) => "MsgUpdateProvider",
            Self::CreateCertificate { .. } => "MsgCreateCertificate",
            Self::RevokeCertificate { .. } => "MsgRevokeCertificate",
        }
    }

    /// Returns the priority of a pending message. Messages with lower numbers are sent first: 0 for closes
    /// and reclamations, 1 for bids, 2 for withdrawals, 3 for other messages.
    #[must_use]
    pub const fn priority(&self) -> u8 {
        match self {
            Self::CloseBid { .. } | Self::StartReclaim { .. } => 0,
            Self::CreateBid { .. } => 1,
            Self::WithdrawLease { .. } => 2,
            Self::CreateProvider(_)
            | Self::UpdateProvider(_)
            | Self::CreateCertificate { .. }
            | Self::RevokeCertificate { .. } => 3,
        }
    }
}

/// Category of a rejection by the chain. A rejection that needs no specific handling is `Other`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TxError {
    /// market/21: the provider has already bid on the order.
    BidExists,
    /// market/13, 23, 24, 15: the order accepts no bids.
    OrderNotOpen,
    /// market/4 or 22: the price exceeds the maximum of the order.
    PriceTooHigh,
    /// market/5: attributes do not match.
    AttributeMismatch,
    /// market/32: capabilities do not match.
    CapabilitiesMismatch,
    /// market/28: the chain does not accept the deposit.
    Deposit,
    /// market/8, 6, 18: the bid or lease to close does not exist.
    UnknownBid,
    /// market/10, 20, 7: the lease is not active.
    LeaseNotActive,
    /// market/37: the reclamation has not been started.
    ReclaimNotStarted,
    /// market/36: the reclamation has already been started.
    AlreadyReclaiming,
    /// market/38: the reclamation deadline has not passed.
    WindowNotElapsed,
    /// market/39 to 41: the offered window is missing, too short or outside the limits of the market parameters.
    Reclamation,
    /// market/31: the order has more bids than the parameters allow.
    InvalidBid,
    /// undefined/1 for a bid: the account cannot pay the deposit, or the deposit has a wrong amount or
    /// denomination.
    InsufficientFunds,
    /// sdk/5, sdk/38, feegrant/2, 3, 5: the account, or its fee grant, cannot pay the fee. The transaction
    /// costs nothing.
    FeeUnpaid,
    /// A refusal without specific handling; code and log contain the reason.
    Other,
}

/// Hash and fee of a transaction that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TxReceipt {
    /// Hash in upper-case hexadecimal digits.
    pub hash: String,
    /// Fee that the transaction offers. The chain charges the fee when a block includes the transaction.
    pub fee: Coin,
}

/// Outcome of a message. With the outcome `Unknown`, a block may contain the message.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum TxOutcome {
    /// The message was executed successfully.
    Committed {
        /// Height of the block that contains the message.
        height: Height,
    },
    /// The message was refused, before or in a block.
    Rejected {
        /// Category of the refusal.
        error: TxError,
        /// Codespace and code of the refusal.
        code: String,
        /// Error text of the chain, shortened.
        log: String,
    },
    /// The message may have been sent. A block can include the message until `expires`, not later.
    Unknown {
        /// Timeout of the transaction in block time.
        expires: BlockTime,
    },
}
