//! What transactions cost: a model that is near what the network uses, and the same for the same transaction.
//!
//! Measured on the network: a bid 125k, two bids in one transaction 209k, closing an open bid 118k and an active
//! one 252k, a payout 98k, one that overdraws 277k, a new deployment 140k and 55k more for each further group.

use akash_provider_core::types::ChainEvent;

/// Reading the accounts, taking the fee, checking the signature.
pub(super) const ANTE: u64 = 37_000;
/// For each byte of the transaction, as the network's parameter says.
pub(super) const BYTE: u64 = 10;
/// More for an unordered transaction: its nonce is written.
pub(super) const UNORDERED: u64 = 4_000;
/// What a message that fails has used by then.
pub(super) const FAILED: u64 = 8_000;
/// A movement of money.
pub(super) const TRANSFER: u64 = 18_000;

/// What a message uses before anything comes of it.
pub(super) fn message(type_url: &str) -> u64 {
    match type_url.rsplit('.').next().unwrap_or_default() {
        "MsgWithdrawLease" => 39_000,
        "MsgCreateCertificate" | "MsgRevokeCertificate" => 42_000,
        "MsgCreateProvider" | "MsgLeaseStartReclaim" => 34_000,
        _ => 20_000,
    }
}

/// What comes of a message.
pub(super) const fn fact(fact: &ChainEvent) -> u64 {
    match fact {
        ChainEvent::DeploymentCreated { .. } => 10_000,
        ChainEvent::DeploymentClosed { .. } | ChainEvent::OrderClosed { .. } => 25_000,
        ChainEvent::GroupPaused { .. } | ChainEvent::GroupClosed { .. } => 20_000,
        ChainEvent::OrderCreated { .. } => 55_000,
        ChainEvent::BidCreated { .. } => 45_000,
        ChainEvent::BidClosed { .. } => 38_000,
        ChainEvent::LeaseCreated { .. } => 110_000,
        ChainEvent::LeaseClosed { .. } => 70_000,
        ChainEvent::DeploymentUpdated { .. }
        | ChainEvent::GroupStarted { .. }
        | ChainEvent::LeaseReclaimStarted { .. }
        | ChainEvent::ProviderUpdated { .. }
        | ChainEvent::AuditChanged { .. }
        | ChainEvent::Resync(_)
        | ChainEvent::Block { .. } => 0,
        // What was never measured costs what its message does.
        _ => 0,
    }
}
