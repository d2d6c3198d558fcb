//! What we tell the chain: messages, and how they end.

use super::chain::{CloseReason, ProviderRecord};
use super::id::{Address, BidId, LeaseId};
use super::price::{Coin, DecCoin};
use super::resources::ResourceUnit;
use super::time::{BlockTime, Height};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A message the provider sends. A chain client writes every one of them: a new one is a breaking change.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "msg", rename_all = "snake_case")]
pub enum Msg {
    /// Bid on an order.
    CreateBid {
        /// Order and provider of the bid.
        id: BidId,
        /// Price per block for the whole group.
        price: DecCoin,
        /// Deposit, from the provider's balance.
        deposit: Coin,
        /// The units as reserved.
        resources_offer: Vec<ResourceUnit>,
        /// Reclamation window offered; `None` offers no reclamation terms.
        reclamation_window: Option<Duration>,
    },
    /// Take an open bid back, or end a lease.
    CloseBid {
        /// Order and provider of the bid.
        id: BidId,
        /// Why; one of the provider's reasons.
        reason: CloseReason,
    },
    /// Announce that a lease with reclamation terms will be taken back.
    StartReclaim {
        /// Order and provider of the lease.
        id: LeaseId,
        /// Why; one of the provider's reasons.
        reason: CloseReason,
    },
    /// Settle and pay out a lease.
    WithdrawLease {
        /// Order and provider of the lease.
        id: LeaseId,
    },
    /// Register the provider, with its first record.
    CreateProvider(ProviderRecord),
    /// Replace the whole record of a registered provider.
    UpdateProvider(ProviderRecord),
    /// Publish a certificate for the account.
    CreateCertificate {
        /// Account that it belongs to.
        owner: Address,
        /// The certificate as PEM bytes.
        cert: Vec<u8>,
        /// Its public key as PEM bytes.
        pubkey: Vec<u8>,
    },
    /// Revoke a published certificate; its record stays, and is no longer valid.
    RevokeCertificate {
        /// Account that it belongs to.
        owner: Address,
        /// Serial number of the certificate, in decimal digits.
        serial: String,
    },
}

impl Msg {
    /// Whose signature it needs.
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

    /// Order in which waiting messages are sent; the lowest goes first (close, bid, withdraw, rest).
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

/// The chain's refusals that the provider acts on; everything else is `Other`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TxError {
    /// market/21: we have bid on this order before.
    BidExists,
    /// market/13, 23, 24, 15: the order takes no bids.
    OrderNotOpen,
    /// market/4 or 22: the price is above the order's.
    PriceTooHigh,
    /// market/5: attributes do not match.
    AttributeMismatch,
    /// market/32: capabilities do not match.
    CapabilitiesMismatch,
    /// market/28: the chain takes no such deposit.
    Deposit,
    /// market/8, 6, 18: there is no such bid or lease to close.
    UnknownBid,
    /// market/10, 20, 7: there is no such live lease.
    LeaseNotActive,
    /// market/37: reclamation must be started first.
    ReclaimNotStarted,
    /// market/36: reclamation has been started already.
    AlreadyReclaiming,
    /// market/38: the reclamation deadline has not passed.
    WindowNotElapsed,
    /// market/39 to 41: the window offered is missing, too short or outside the parameters.
    Reclamation,
    /// market/31: the order has more bids than the parameters allow.
    InvalidBid,
    /// undefined/1 of a bid: the account cannot pay the deposit. The chain refuses a deposit of a wrong amount or
    /// denomination with undefined/1 too.
    InsufficientFunds,
    /// sdk/5, sdk/38, feegrant/2, 3, 5: the account, or the grant it uses, cannot pay the fee. The transaction is in no block
    /// and costs nothing.
    FeeUnpaid,
    /// A refusal that needs no answer of its own; code and log say which it was.
    Other,
}

/// How a message ended. Unknown is never "absent".
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum TxOutcome {
    /// In a block, with success.
    Committed {
        /// Height of the block it landed in.
        height: Height,
    },
    /// Refused, before or in a block.
    Rejected {
        /// What it means for us.
        error: TxError,
        /// Codespace and code as the chain gave them, for people.
        code: String,
        /// The chain's text, shortened.
        log: String,
    },
    /// Sent, or perhaps sent; it may land until `expires`, and never after a block later than that.
    Unknown {
        /// The transaction's timeout in block time.
        expires: BlockTime,
    },
}
