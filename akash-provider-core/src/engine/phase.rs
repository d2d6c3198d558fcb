//! Where provider, orders and leases stand, as a status says it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Where a provider is in its life; it only ever moves forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// Waits for the cluster and for capacity.
    #[default]
    Init,
    /// Takes orders, and looks after leases.
    Running,
    /// Finishes what is in flight, starts nothing new.
    Shutdown,
    /// Over. An [`Engine`](super::Engine) by itself never is.
    Done,
}

impl Lifecycle {
    /// The name in a status.
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

/// Where an order in hand stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OrderPhase {
    /// Its record is read.
    Looking,
    /// It is looked at whether we want it, or facts about us are awaited.
    Judging,
    /// Capacity is reserved, or awaited.
    Reserving,
    /// The other bids are counted, and the price is asked for.
    Pricing,
    /// The bid waits for leadership, or to be sent again.
    Ready,
    /// The account cannot pay the deposit.
    Unfunded,
    /// The bid is being sent.
    Bidding,
    /// Whether the bid landed is unknown.
    Unsure,
    /// The bid is looked up.
    Checking,
    /// The bid is on the chain and open.
    Open,
    /// The bid is being taken back.
    Closing,
    /// Over; the engine is about to forget it.
    Done,
}

impl OrderPhase {
    /// The name in a status.
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

/// Where the workload of a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LeasePhase {
    /// The tenant has not sent a manifest.
    WaitingForManifest,
    /// What is wanted was not deployed by us, or it is not known to be.
    Pending,
    /// It is being deployed.
    Deploying,
    /// The cluster took what is wanted. Whether it is well is its health.
    Running,
    /// The cluster did not do what it was asked for; it is asked again.
    Retrying,
    /// The lease is being ended.
    Ending,
    /// The chain is asked whether the lease is over.
    Checking,
    /// It is being torn down.
    Teardown,
    /// Nothing of it is left.
    Gone,
}

impl LeasePhase {
    /// The name in a status.
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
    fn what_is_written_is_what_is_shown() {
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
