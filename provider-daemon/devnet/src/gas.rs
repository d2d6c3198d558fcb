//! Gas costs: a deterministic model that is close to the gas on the Akash network.
//!
//! Gas measured on the Akash network: a bid 125k; two bids in one transaction 209k; the close of an open bid 118k; the
//! close of an active bid 252k; a payout 98k; a payout that overdraws the account 277k; a new deployment with one group
//! 140k, and 55k for each further group.

use akash_provider_core::types::ChainEvent;

/// Gas for the accounts, the fee and the signature check.
pub(super) const ANTE: u64 = 37_000;
/// Gas of each byte of the transaction, as on the Akash network.
pub(super) const BYTE: u64 = 10;
/// Additional gas of an unordered transaction, which writes its nonce.
pub(super) const UNORDERED: u64 = 4_000;
/// Total gas of a message that fails.
pub(super) const FAILED: u64 = 8_000;
pub(super) const TRANSFER: u64 = 18_000;

/// Returns the gas of a message. The gas of the resulting events is added separately.
pub(super) fn message(type_url: &str) -> u64 {
    match type_url.rsplit('.').next().unwrap_or_default() {
        "MsgWithdrawLease" => 39_000,
        "MsgCreateCertificate" | "MsgRevokeCertificate" => 42_000,
        "MsgCreateProvider" | "MsgLeaseStartReclaim" => 34_000,
        _ => 20_000,
    }
}

/// Returns the gas of one effect of a message.
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
        // Not measured: the gas of the message covers it.
        _ => 0,
    }
}
