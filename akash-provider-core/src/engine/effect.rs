//! Effects of the engine: calls to ports, events and replies.

use super::input::{RequestId, Response};
use crate::cluster::WorkloadSpec;
use crate::pricing::PriceRequest;
use crate::types::{BidId, Denom, DeploymentId, Event, LeaseId, Msg, OrderId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Number of a call. The completion of the call carries the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EffectId(pub u64);

/// One effect of [`Engine::step`](super::Engine::step). The driver must carry out every effect.
///
/// The enum is not `#[non_exhaustive]`: if a driver ignored a new variant, the engine would wait permanently
/// for the completion.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Make a call, and send back exactly one [`Completion`](super::Completion).
    Call(EffectId, Call),
    /// Publish an event. No completion is expected.
    Publish(Arc<Event>),
    /// Reply to a request. No completion is expected.
    Reply(RequestId, Response),
}

/// A call to a port. A new variant is a breaking change, as with [`Effect`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Call {
    /// Chain: fetch one order in any state.
    FetchOrder(OrderId),
    /// Chain: count the bids on an order. The chain limits this number.
    CountBids(OrderId),
    /// Chain: fetch the record of this provider.
    FetchProvider,
    /// Chain: fetch the account balances in these denominations.
    FetchBalances(Vec<Denom>),
    /// Chain: fetch the attributes that the named auditor signed for this provider.
    FetchAudit(String),
    /// Chain: fetch one bid, and check whether all endpoints return the same record.
    FetchBid(BidId),
    /// Chain: fetch one lease, and check whether all endpoints return the same record.
    FetchLease(LeaseId),
    /// Chain: fetch a deployment with its groups, escrow account and leases.
    FetchDeployment(DeploymentId),
    /// Chain: fetch all records of this provider, for a full scan.
    FetchSnapshot,
    /// Pricing: calculate the bid price of an order, per block.
    CalculatePrice(PriceRequest),
    /// Chain: broadcast one message in its own transaction.
    Broadcast(Msg),
    /// Cluster: store the record of a workload durably.
    Record(Arc<WorkloadSpec>),
    /// Cluster: deploy a workload, then declare its hostnames and IP addresses, then remove the listed
    /// hostnames.
    Deploy {
        /// Workload to deploy.
        deployment: Arc<WorkloadSpec>,
        /// Hostnames that the deploy must remove. Earlier versions of the workload declared these hostnames.
        purge_hostnames: Vec<String>,
    },
    /// Cluster: tear down a workload, and purge its hostnames and IP addresses.
    Teardown(LeaseId),
    /// Cluster: list all workloads of this provider.
    ListWorkloads,
}

impl Call {
    /// Returns the name of the call, such as `fetch_order`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::FetchOrder(_) => "fetch_order",
            Self::CountBids(_) => "count_bids",
            Self::FetchProvider => "fetch_provider",
            Self::FetchBalances(_) => "fetch_balances",
            Self::FetchAudit(_) => "fetch_audit",
            Self::FetchBid(_) => "fetch_bid",
            Self::FetchLease(_) => "fetch_lease",
            Self::FetchDeployment(_) => "fetch_deployment",
            Self::FetchSnapshot => "fetch_snapshot",
            Self::CalculatePrice(_) => "calculate_price",
            Self::Broadcast(_) => "broadcast",
            Self::Record(_) => "record",
            Self::Deploy { .. } => "deploy",
            Self::Teardown(_) => "teardown",
            Self::ListWorkloads => "list_workloads",
        }
    }

    /// Returns true for a call that changes the chain or the cluster. A standby makes no such calls.
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
