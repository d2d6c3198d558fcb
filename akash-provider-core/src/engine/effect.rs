//! Everything the engine wants done.

use super::input::{RequestId, Response};
use crate::cluster::WorkloadSpec;
use crate::pricing::PriceRequest;
use crate::types::{BidId, Denom, DeploymentId, Event, LeaseId, Msg, OrderId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Number of a call; its completion carries it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EffectId(pub u64);

/// One effect of [`Engine::step`](super::Engine::step). Whoever drives the engine carries out every one of them, and
/// one that hid behind a `_` would be waited for without end: a new one is a breaking change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Make a call; answer with exactly one [`Completion`](super::Completion).
    Call(EffectId, Call),
    /// Publish a fact; no answer.
    Publish(Arc<Event>),
    /// Answer a request; no answer.
    Reply(RequestId, Response),
}

/// A call to a port. Each is answered, so a new one is a breaking change, as with [`Effect`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Call {
    /// Chain: one order, whatever its state.
    FetchOrder(OrderId),
    /// Chain: how many bids an order has that count against the chain's limit.
    CountBids(OrderId),
    /// Chain: our own record.
    FetchProvider,
    /// Chain: what our account has of each of these.
    FetchBalances(Vec<Denom>),
    /// Chain: what an auditor (as named in an order) has signed about us.
    FetchAudit(String),
    /// Chain: one bid, with what the answer is worth.
    FetchBid(BidId),
    /// Chain: one lease, with what the answer is worth.
    FetchLease(LeaseId),
    /// Chain: a deployment with groups, escrow and leases.
    FetchDeployment(DeploymentId),
    /// Chain: the whole present, for a full scan.
    FetchSnapshot,
    /// Pricing: what a bid on an order is to ask per block.
    CalculatePrice(PriceRequest),
    /// Chain: one message in a transaction of its own.
    Broadcast(Msg),
    /// Cluster: make a deployment durable.
    Record(Arc<WorkloadSpec>),
    /// Cluster: deploy, then declare hostnames and addresses, then purge the named ones.
    Deploy {
        /// What is to be.
        deployment: Arc<WorkloadSpec>,
        /// Hostnames of an earlier version that go.
        purge_hostnames: Vec<String>,
    },
    /// Cluster: tear down, and purge hostnames and addresses.
    Teardown(LeaseId),
    /// Cluster: everything of ours that is there.
    ListWorkloads,
}

impl Call {
    /// True when it changes something outside; a standby emits none of these.
    #[must_use]
    pub const fn is_write(&self) -> bool {
        match self {
            Self::Broadcast(_) | Self::Record(_) | Self::Deploy { .. } | Self::Teardown(_) => true,
            Self::FetchOrder(_)
            | Self::CountBids(_)
            | Self::FetchProvider
            | Self::FetchBalances(_)
            | Self::FetchAudit(_)
            | Self::FetchBid(_)
            | Self::FetchLease(_)
            | Self::FetchDeployment(_)
            | Self::FetchSnapshot
            | Self::CalculatePrice(_)
            | Self::ListWorkloads => false,
        }
    }
}
