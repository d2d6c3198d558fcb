//! Events that the provider publishes on the bus: facts and statuses.

use super::chain::CloseReason;
use super::decline_code::DeclineCode;
use super::id::{Address, BidId, DeploymentId, LeaseId, OrderId};
use super::price::DecCoin;
use crate::cluster::Health;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// A bus topic. Status topics retain their last value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Topic {
    /// Leases and their health.
    #[serde(rename = "akash.provider.cluster.status")]
    ClusterStatus,
    /// Orders in progress, number of declined orders by reason, and the newest declines.
    #[serde(rename = "akash.provider.bidengine.status")]
    BidengineStatus,
    /// Deployments with their manifests and pending requests.
    #[serde(rename = "akash.provider.manifest.status")]
    ManifestStatus,
    /// Reservations, and the number of free external ports and leased IPs.
    #[serde(rename = "akash.provider.inventory.status")]
    InventoryStatus,
    /// Capacity of the cluster as a whole.
    #[serde(rename = "inventory.cluster")]
    InventoryCluster,
    /// Capacity of each node.
    #[serde(rename = "inventory.nodes")]
    InventoryNodes,
    /// Capacity of storage classes.
    #[serde(rename = "inventory.storage")]
    InventoryStorage,
    /// Facts: events of orders, bids, leases, manifests and payments.
    #[serde(rename = "akash.provider.facts")]
    Facts,
}

impl Topic {
    /// All topics, in the order of declaration.
    pub const ALL: [Self; 8] = [
        Self::ClusterStatus,
        Self::BidengineStatus,
        Self::ManifestStatus,
        Self::InventoryStatus,
        Self::InventoryCluster,
        Self::InventoryNodes,
        Self::InventoryStorage,
        Self::Facts,
    ];

    /// Returns the name of the topic on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClusterStatus => "akash.provider.cluster.status",
            Self::BidengineStatus => "akash.provider.bidengine.status",
            Self::ManifestStatus => "akash.provider.manifest.status",
            Self::InventoryStatus => "akash.provider.inventory.status",
            Self::InventoryCluster => "inventory.cluster",
            Self::InventoryNodes => "inventory.nodes",
            Self::InventoryStorage => "inventory.storage",
            Self::Facts => "akash.provider.facts",
        }
    }

    /// Returns whether the bus retains the last value for late subscribers.
    #[must_use]
    pub const fn is_retained(self) -> bool {
        !matches!(self, Self::Facts)
    }
}

/// Outcome of a bid that won no lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BidOutcome {
    /// Another provider got the lease.
    Lost,
    /// The order, its group or its deployment was closed.
    OrderClosed,
    /// The tenant did not accept the bid in time.
    Timeout,
    /// The bid was closed while the order stayed open.
    Closed,
}

impl BidOutcome {
    /// Returns the name of the outcome, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::OrderClosed => "order_closed",
            Self::Timeout => "timeout",
            Self::Closed => "closed",
        }
    }
}

impl fmt::Display for BidOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An event on the bus.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The provider received an order and evaluates it.
    OrderSeen {
        /// Group and oseq of the order.
        order: OrderId,
    },
    /// The provider does not bid on an order.
    OrderDeclined {
        /// Group and oseq of the order.
        order: OrderId,
        /// Machine-readable reason.
        reason: DeclineCode,
        /// Reason why the provider does not bid, as text.
        message: String,
    },
    /// The number of bids of an order could not be queried. The provider bids anyway.
    BidsNotCounted {
        /// Group and oseq of the order.
        order: OrderId,
        /// Cause of the failed query, as text.
        message: String,
    },
    /// The account cannot pay the deposit of a bid. The order waits for funds.
    BidUnfunded {
        /// Group and oseq of the order.
        order: OrderId,
        /// Required and available funds, as text.
        message: String,
    },
    /// The chain recorded a bid of the provider.
    BidPlaced {
        /// Order and provider of the bid.
        bid: BidId,
        /// Price per block for the whole group.
        price: DecCoin,
    },
    /// After a start, the provider found its open bid on the chain and continues with this bid.
    BidAdopted {
        /// Order and provider of the bid.
        bid: BidId,
        /// Price per block of the whole group, as on the chain.
        price: DecCoin,
    },
    /// A bid of the provider ended and won no lease.
    BidEnded {
        /// Order and provider of the bid.
        bid: BidId,
        /// Outcome of the bid.
        outcome: BidOutcome,
    },
    /// After a start, the provider found its active lease on the chain and continues with this lease.
    LeaseAdopted {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Price per block of the whole group, as on the chain.
        price: DecCoin,
    },
    /// A bid of the provider won a lease.
    LeaseWon {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Price per block for the whole group.
        price: DecCoin,
    },
    /// A manifest was accepted and stored durably.
    ManifestReceived {
        /// Owner and dseq of the deployment.
        deployment: DeploymentId,
        /// Hash of the manifest in lower-case hexadecimal digits.
        hash: String,
    },
    /// An invalid manifest was refused.
    ManifestRefused {
        /// Owner and dseq of the deployment.
        deployment: DeploymentId,
        /// Problem and remedy.
        message: String,
    },
    /// The cluster accepted the workload of a lease.
    Deployed {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Version number of the workload: 1 for the first manifest, increased by each update.
        generation: u64,
    },
    /// The cluster did not accept the workload of a lease. The deploy is retried.
    DeployFailed {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Cause of the failed deploy, as text.
        message: String,
    },
    /// The health of a workload changed.
    HealthChanged {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Current health. Only the time in the state `bad` counts towards the unhealthy time of the lease.
        health: Health,
    },
    /// The provider decided to close a lease.
    LeaseEnding {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Reason that the provider records on the chain.
        reason: CloseReason,
    },
    /// A lease was closed and its workload removed.
    LeaseClosed {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Reason recorded on the chain; `None` if unknown.
        reason: Option<CloseReason>,
    },
    /// The escrow balance of a deployment was checked.
    BalanceChecked {
        /// Owner and dseq of the deployment.
        deployment: DeploymentId,
        /// Number of blocks until the funds are exhausted; `None` if the deployment pays nothing per block.
        blocks_left: Option<u64>,
    },
    /// The earnings of a lease were withdrawn.
    Withdrawn {
        /// Order and provider of the lease.
        lease: LeaseId,
    },
    /// A withdrawal failed. The withdrawal is retried.
    WithdrawFailed {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Cause of the failed withdrawal, as text.
        message: String,
    },
    /// The circuit breaker tripped for all owners: the provider closes no lease until the breaker is released
    /// by command. This state must be stored, because the next start needs it.
    BreakerTripped {
        /// Number of requested closes within the time window of the circuit breaker.
        wanted: u32,
    },
    /// The circuit breaker tripped for one owner: the provider closes no lease of this owner until the
    /// breaker is released by command. This state must be stored, because the next start needs it.
    BreakerTrippedFor {
        /// Account of the owner.
        owner: Address,
        /// Number of requested closes of this owner's leases within the time window of the circuit breaker.
        wanted: u32,
    },
    /// The close of a lease, or the teardown of its workload, waits for a release of the circuit breaker.
    EndHeld {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Reason why the close waits, and the command that releases the breaker.
        message: String,
    },
    /// The circuit breaker was released by command, for all leases and owners.
    BreakerReleased,
    /// The circuit breaker was released by command for one owner.
    BreakerReleasedFor {
        /// Account of the owner.
        owner: Address,
    },
    /// The cluster has an unusable record of a lease. While the record is unusable, a missing manifest is no
    /// reason to close the lease. Published once for each problem.
    RecordUnusable {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// The invalid object and its problem, as text.
        problem: String,
    },
    /// The record of the lease in the cluster is usable again.
    RecordUsable {
        /// Order and provider of the lease.
        lease: LeaseId,
    },
    /// The chain has leases of the provider and the cluster has no record of any of them. No lease is closed
    /// until a record is found, or the circuit breaker is released by command.
    RecordsNotFound {
        /// Number of leases of the provider on the chain.
        leases: u32,
        /// Location in which the cluster backend searched for the records, as text.
        place: String,
    },
    /// A record was found after `RecordsNotFound`.
    RecordsFound,
    /// A full scan found differences between the chain, the cluster and the engine's ledgers.
    DriftFound {
        /// One line for each difference.
        findings: Vec<String>,
    },
    /// New value of a status topic. The bus retains the value for late subscribers.
    Status {
        /// JSON of a part of the status. The form depends on the topic.
        body: Value,
    },
}

impl Event {
    /// Returns the id of a fact, the same in every instance and after a restart. Consumers drop events with
    /// an id that they already received.
    ///
    /// Returns `None` for a status, and for an event that only one instance can report.
    #[must_use]
    pub fn id(&self) -> Option<String> {
        Some(match self {
            Self::OrderSeen { order } => format!("order_seen/{order}"),
            Self::OrderDeclined { order, reason, .. } => format!("order_declined/{order}/{reason}"),
            Self::BidPlaced { bid, .. } => format!("bid_placed/{bid}"),
            Self::BidAdopted { bid, .. } => format!("bid_adopted/{bid}"),
            Self::BidEnded { bid, outcome } => format!("bid_ended/{bid}/{outcome}"),
            Self::LeaseAdopted { lease, .. } => format!("lease_adopted/{lease}"),
            Self::LeaseWon { lease, .. } => format!("lease_won/{lease}"),
            Self::LeaseClosed { lease, .. } => format!("lease_closed/{lease}"),
            // These events can be repeated with the same content, and only the leader creates them.
            Self::BidsNotCounted { .. }
            | Self::BidUnfunded { .. }
            | Self::ManifestReceived { .. }
            | Self::ManifestRefused { .. }
            | Self::Deployed { .. }
            | Self::DeployFailed { .. }
            | Self::HealthChanged { .. }
            | Self::LeaseEnding { .. }
            | Self::BalanceChecked { .. }
            | Self::Withdrawn { .. }
            | Self::WithdrawFailed { .. }
            | Self::BreakerTripped { .. }
            | Self::BreakerTrippedFor { .. }
            | Self::EndHeld { .. }
            | Self::BreakerReleased
            | Self::BreakerReleasedFor { .. }
            | Self::RecordUnusable { .. }
            | Self::RecordUsable { .. }
            | Self::RecordsNotFound { .. }
            | Self::RecordsFound
            | Self::DriftFound { .. }
            | Self::Status { .. } => return None,
        })
    }

    /// Returns the event with its [id](Self::id) as the field `id`, for other processes.
    #[must_use]
    pub fn with_id(&self) -> impl Serialize + '_ {
        WithId {
            id: self.id(),
            event: self,
        }
    }
}

#[derive(Serialize)]
struct WithId<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(flatten)]
    event: &'a Event,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Outage;

    #[test]
    fn a_fact_of_the_market_has_one_id_and_an_observation_has_none() {
        let lease: LeaseId =
            "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/1/1/1/akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm"
                .parse()
                .unwrap();
        let price = |amount: &str| DecCoin::new(&"uact".into(), amount.parse().unwrap());
        let placed = |amount: &str| Event::BidPlaced {
            bid: lease.clone(),
            price: price(amount),
        };
        let written = serde_json::to_value(placed("1").with_id()).unwrap();
        assert_eq!(written["id"], format!("bid_placed/{lease}"));
        assert_eq!(serde_json::from_value::<Event>(written).unwrap(), placed("1"));
        assert_eq!(placed("1").id(), placed("2").id());
        let declined = |reason| {
            let (order, message) = (lease.order.clone(), "any".to_owned());
            let declined = Event::OrderDeclined {
                order,
                reason,
                message,
            };
            declined.id()
        };
        assert_ne!(declined(DeclineCode::Gpu), declined(DeclineCode::PriceTooHigh));
        for event in [Event::RecordsFound, Event::Withdrawn { lease: lease.clone() }] {
            let written = serde_json::to_value(event.with_id()).unwrap();
            assert_eq!(written, serde_json::to_value(&event).unwrap());
            assert_eq!(serde_json::from_value::<Event>(written).unwrap(), event);
        }
    }

    #[test]
    fn names_serialize_as_displayed() {
        let lease: LeaseId =
            "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/1/1/1/akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm"
                .parse()
                .unwrap();
        for (health, word) in [
            (Health::Unknown, "unknown"),
            (Health::Good, "good"),
            (Health::Bad, "bad"),
            (Health::Out(Outage::NodeAway), "node_away"),
        ] {
            let lease = lease.clone();
            let written = serde_json::to_value(Event::HealthChanged { lease, health }).unwrap();
            assert_eq!((written["health"].as_str(), health.name()), (Some(word), word));
        }
        for (outcome, word) in [
            (BidOutcome::Lost, "lost"),
            (BidOutcome::OrderClosed, "order_closed"),
            (BidOutcome::Timeout, "timeout"),
            (BidOutcome::Closed, "closed"),
        ] {
            let bid = lease.clone();
            let written = serde_json::to_value(Event::BidEnded { bid, outcome }).unwrap();
            assert_eq!((written["outcome"].as_str(), outcome.name()), (Some(word), word));
        }
    }
}
