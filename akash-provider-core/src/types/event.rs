//! What the provider tells the world: facts and statuses, published on the bus.

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
    /// Orders in hand, and what was declined for which reason.
    #[serde(rename = "akash.provider.bidengine.status")]
    BidengineStatus,
    /// Deployments, with their manifests and the requests that wait.
    #[serde(rename = "akash.provider.manifest.status")]
    ManifestStatus,
    /// Who has reserved what, and which ports and addresses are left.
    #[serde(rename = "akash.provider.inventory.status")]
    InventoryStatus,
    /// Capacity of the cluster as a whole.
    #[serde(rename = "inventory.cluster")]
    InventoryCluster,
    /// Capacity node by node.
    #[serde(rename = "inventory.nodes")]
    InventoryNodes,
    /// Capacity of storage classes.
    #[serde(rename = "inventory.storage")]
    InventoryStorage,
    /// Facts: everything that happens to orders, bids, leases, manifests and money.
    #[serde(rename = "akash.provider.facts")]
    Facts,
}

impl Topic {
    /// Every topic there is, in the order of its declaration.
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

    /// The topic's name on the wire.
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

    /// True when the bus keeps the last value for late subscribers.
    #[must_use]
    pub const fn is_retained(self) -> bool {
        !matches!(self, Self::Facts)
    }
}

/// How a bid ended that got no lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BidOutcome {
    /// Another provider has the lease.
    Lost,
    /// The order, its group or its deployment is over.
    OrderClosed,
    /// Nobody took it in time.
    Timeout,
    /// It was closed while the order went on.
    Closed,
}

impl BidOutcome {
    /// The outcome as one short word, the same as in JSON.
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

/// Everything the bus carries.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// An order was seen and is being looked at.
    OrderSeen {
        /// Group and oseq of the order.
        order: OrderId,
    },
    /// We will not bid.
    OrderDeclined {
        /// Group and oseq of the order.
        order: OrderId,
        /// The reason as a short word a machine can count.
        reason: DeclineCode,
        /// The reason for people.
        message: String,
    },
    /// How many bids an order has could not be found out; it is bid on all the same.
    BidsNotCounted {
        /// Group and oseq of the order.
        order: OrderId,
        /// What went wrong, for people.
        message: String,
    },
    /// The account cannot pay the deposit of a bid: the order waits for money and is bid on when it comes.
    BidUnfunded {
        /// Group and oseq of the order.
        order: OrderId,
        /// What is wanted and what is there, for people.
        message: String,
    },
    /// Our bid is on the chain.
    BidPlaced {
        /// Order and provider of the bid.
        bid: BidId,
        /// Price per block for the whole group.
        price: DecCoin,
    },
    /// An open bid of ours from before was taken over.
    BidAdopted {
        /// Order and provider of the bid.
        bid: BidId,
        /// Price per block for the whole group, as the chain has it.
        price: DecCoin,
    },
    /// Our bid is over without a lease.
    BidEnded {
        /// Order and provider of the bid.
        bid: BidId,
        /// Which of the ways without a lease it was.
        outcome: BidOutcome,
    },
    /// A live lease of ours from before was taken over.
    LeaseAdopted {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Price per block for the whole group, as the chain has it.
        price: DecCoin,
    },
    /// Our bid won: the chain has made a lease of it.
    LeaseWon {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Price per block for the whole group.
        price: DecCoin,
    },
    /// A manifest was accepted and is durable.
    ManifestReceived {
        /// Owner and dseq of the deployment that it is for.
        deployment: DeploymentId,
        /// Lower-case hex of its hash.
        hash: String,
    },
    /// A manifest was refused: it is wrong, and the tenant was told so.
    ManifestRefused {
        /// Owner and dseq of the deployment that it was sent for.
        deployment: DeploymentId,
        /// What is wrong with it, and the mend.
        message: String,
    },
    /// The cluster took a lease's workload.
    Deployed {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// 1 for the first version, counted up by updates.
        generation: u64,
    },
    /// The cluster did not take a lease's workload; it is tried again.
    DeployFailed {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// What went wrong, for people.
        message: String,
    },
    /// What is known of a workload's health changed.
    HealthChanged {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// What is known now. Only `bad` counts as unhealthy time.
        health: Health,
    },
    /// We decided to end a lease.
    LeaseEnding {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Reason as the chain records it.
        reason: CloseReason,
    },
    /// A lease is over and everything of it is gone.
    LeaseClosed {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Reason as the chain records it; `None` where it is not known.
        reason: Option<CloseReason>,
    },
    /// A deployment's money was looked at.
    BalanceChecked {
        /// Owner and dseq of the deployment whose escrow it is.
        deployment: DeploymentId,
        /// Blocks until it runs dry; `None` when nothing is owed per block.
        blocks_left: Option<u64>,
    },
    /// A lease was paid out.
    Withdrawn {
        /// Order and provider of the lease.
        lease: LeaseId,
    },
    /// A payout failed; it is tried again.
    WithdrawFailed {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// What went wrong, for people.
        message: String,
    },
    /// The circuit breaker stopped our own closes; keep this over a restart.
    BreakerTripped {
        /// How many were wanted within the window.
        wanted: u32,
    },
    /// The circuit breaker stopped our own closes of one owner's leases alone; keep this over a restart.
    BreakerTrippedFor {
        /// Account that it belongs to.
        owner: Address,
        /// How many of his were wanted within the window.
        wanted: u32,
    },
    /// The end of a lease, or the teardown of its workload, waits for a release of the circuit breaker.
    EndHeld {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Reason, and the command that releases it.
        message: String,
    },
    /// The circuit breaker was released by command, for all and for each owner.
    BreakerReleased,
    /// The circuit breaker was released by command for one owner for whom alone it had tripped.
    BreakerReleasedFor {
        /// Account that it belongs to.
        owner: Address,
    },
    /// The cluster has something of a lease that does not say what to run: nothing ends the lease for want of a
    /// manifest. Told once for each problem.
    RecordUnusable {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// The object and what is wrong with it.
        problem: String,
    },
    /// What the cluster has of a lease can be used again.
    RecordUsable {
        /// Order and provider of the lease.
        lease: LeaseId,
    },
    /// There are leases on the chain and no record of any of them in the cluster: nothing is ended until a record
    /// is found, or the circuit breaker is released by command.
    RecordsNotFound {
        /// How many leases of ours the chain has.
        leases: u32,
        /// Where records were looked for, as the backend says it, for people.
        place: String,
    },
    /// A record was found after all.
    RecordsFound,
    /// A full scan found differences between chain, cluster and ledger.
    DriftFound {
        /// One line for each difference, for people.
        findings: Vec<String>,
    },
    /// A retained status; the body is the JSON of that part of the status.
    Status {
        /// JSON of that part of the status; its shape depends on the topic.
        body: Value,
    },
}

impl Event {
    /// Returns the id of a fact, or `None` for a status and for an observation or act of one instance.
    ///
    /// The id depends on the fact alone: every instance, before and after a restart or a fail-over, gives a fact the
    /// same id. A consumer that drops ids it has seen processes each fact once. Facts without an id are published by
    /// the instance that made them, while it leads, and by no other.
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
            // These may happen again with the same content, and only the leader makes them.
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

    /// Returns the event with its [id](Self::id) as the field `id`: the form that other processes read.
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
    fn words_are_written_as_they_are_shown() {
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
