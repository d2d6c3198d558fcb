//! Phases of the provider, of orders and of leases, as reported in the status.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Phase of the provider's life cycle. The phase only moves forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// Waiting for the cluster and the inventory.
    #[default]
    Init,
    /// Bidding on orders and managing leases.
    Running,
    /// Finishing calls in flight. No new work starts.
    Shutdown,
    /// Stopped. Set by the runtime, never by an [`Engine`](super::Engine).
    Done,
}

impl Lifecycle {
    /// Returns the name used in the status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Running => "running",
            Self::Shutdown => "shutdown",
            Self::Done => "done",
        }
    }
}

impl fmt::Display for Lifecycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Phase of an order in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OrderPhase {
    /// The record of the order is being fetched.
    Looking,
    /// The engine decides whether to bid, or waits for audits of this provider.
    Judging,
    /// Capacity for the order is being reserved, or the engine waits for the first inventory update.
    Reserving,
    /// The bids of other providers are counted, and the price is calculated.
    Pricing,
    /// The bid waits for leadership or for a retry.
    Ready,
    /// The account cannot pay the deposit of the bid.
    Unfunded,
    /// The bid transaction is in flight.
    Bidding,
    /// The result of the bid transaction is unknown.
    Unsure,
    /// The bid is being fetched from the chain.
    Checking,
    /// The bid is open on the chain.
    Open,
    /// The bid is being closed.
    Closing,
    /// The order is finished and about to be removed.
    Done,
}

impl OrderPhase {
    /// Returns the name used in the status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Looking => "looking",
            Self::Judging => "judging",
            Self::Reserving => "reserving",
            Self::Pricing => "pricing",
            Self::Ready => "ready",
            Self::Unfunded => "unfunded",
            Self::Bidding => "bidding",
            Self::Unsure => "unsure",
            Self::Checking => "checking",
            Self::Open => "open",
            Self::Closing => "closing",
            Self::Done => "done",
        }
    }
}

impl fmt::Display for OrderPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Phase of a lease's workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LeasePhase {
    /// The tenant has not submitted a manifest.
    WaitingForManifest,
    /// This instance has not deployed the newest version of the workload yet.
    Pending,
    /// A deploy is in flight.
    Deploying,
    /// The cluster accepted the newest version. The health is reported separately.
    Running,
    /// The last cluster call failed and will be retried.
    Retrying,
    /// The lease is being closed.
    Ending,
    /// The chain is queried for the state of the lease.
    Checking,
    /// The workload is being torn down.
    Teardown,
    /// The workload was removed.
    Gone,
}

impl LeasePhase {
    /// Returns the name used in the status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WaitingForManifest => "waiting_for_manifest",
            Self::Pending => "pending",
            Self::Deploying => "deploying",
            Self::Running => "running",
            Self::Retrying => "retrying",
            Self::Ending => "ending",
            Self::Checking => "checking",
            Self::Teardown => "teardown",
            Self::Gone => "gone",
        }
    }
}

impl fmt::Display for LeasePhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialized_name_equals_display() {
        use {LeasePhase as Lease, Lifecycle as Life, OrderPhase as Order};
        let written = |value: serde_json::Value| value.as_str().unwrap().to_owned();
        for life in [Life::Init, Life::Running, Life::Shutdown, Life::Done] {
            assert_eq!(written(serde_json::json!(life)), life.to_string());
        }
        let begun = [
            Order::Looking,
            Order::Judging,
            Order::Reserving,
            Order::Pricing,
            Order::Ready,
        ];
        let sent = [
            Order::Unfunded,
            Order::Bidding,
            Order::Unsure,
            Order::Checking,
            Order::Open,
        ];
        for order in begun.into_iter().chain(sent).chain([Order::Closing, Order::Done]) {
            assert_eq!(written(serde_json::json!(order)), order.to_string());
        }
        let up = [
            Lease::WaitingForManifest,
            Lease::Pending,
            Lease::Deploying,
            Lease::Running,
            Lease::Retrying,
        ];
        for lease in up
            .into_iter()
            .chain([Lease::Ending, Lease::Checking, Lease::Teardown, Lease::Gone])
        {
            assert_eq!(written(serde_json::json!(lease)), lease.to_string());
        }
    }
}
