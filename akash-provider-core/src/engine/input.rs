//! Everything that can happen to the engine.

use super::effect::EffectId;
use crate::cluster::{ClusterChange, DeclaredHostname, IpDeclaration, Listing, Teardown};
use crate::error::Failure;
use crate::inventory::InventoryUpdate;
use crate::kept::Kept;
use crate::manifest::{Hashes, Manifest};
use crate::types::{
    Address, AuditedAttributes, Bid, ChainEvent, CloseReason, Coin, DecCoin, DeploymentId, DeploymentRecord,
    LeaseId, LeaseRecord, Observed, Order, ProviderRecord, Snapshot, TxOutcome,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Number of a request of the handle; replies carry it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// One input of [`Engine::step`](super::Engine::step).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Input {
    /// The chain said something.
    Chain(ChainEvent),
    /// The cluster said something.
    Cluster(ClusterChange),
    /// A new view of capacity, in place of the one before.
    Inventory(InventoryUpdate),
    /// A call ended, well or badly; the id is that of its effect.
    Completed(EffectId, Completion),
    /// Somebody asks for something.
    Request(RequestId, Request),
    /// Whether we may write.
    Leadership(Leadership),
    /// No bid is to be sent, and why; `None` lets them go again. Leases are looked after as ever.
    HoldBids(Option<Arc<str>>),
    /// What the leader before us kept, or what was kept over a restart: it is so from here on.
    Kept(Kept),
    /// The prices changed.
    PricesChanged,
    /// Finish what is in flight, start nothing new.
    Shutdown,
}

/// Whether this instance may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Leadership {
    /// It may; later leaders have higher epochs.
    Leader {
        /// Stamped on every apply.
        epoch: u64,
    },
    /// It follows everything and emits no write.
    Standby,
}

/// How a call ended. Each call has exactly one kind of completion.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Completion {
    /// Of `FetchOrder`; `None` when the chain has no such order.
    Order(Result<Option<Order>, Failure>),
    /// Of `CountBids`: those that count against the chain's limit.
    BidCount(Result<u32, Failure>),
    /// Of `FetchProvider`; `None` when we are not registered.
    Provider(Result<Option<ProviderRecord>, Failure>),
    /// Of `FetchBalances`; what is not there is zero.
    Balances(Result<Vec<Coin>, Failure>),
    /// Of `FetchAudit`; `None` when the auditor has signed nothing about us.
    Audit(Result<Option<AuditedAttributes>, Failure>),
    /// Of `FetchBid`, with what the answer is worth as evidence.
    Bid(Result<Observed<Bid>, Failure>),
    /// Of `FetchLease`, with what the answer is worth as evidence.
    Lease(Result<Observed<LeaseRecord>, Failure>),
    /// Of `FetchDeployment`; `None` when the chain has no such deployment.
    Deployment(Result<Option<DeploymentRecord>, Failure>),
    /// Of `FetchSnapshot`: everything at one height.
    Snapshot(Result<Arc<Snapshot>, Failure>),
    /// Of `CalculatePrice`: per block, for the whole group.
    Price(Result<DecCoin, Failure>),
    /// Of `Broadcast`. `Err` means that it was certainly not sent.
    Tx(Result<TxOutcome, Failure>),
    /// Of `Record` and `Deploy`.
    Cluster(Result<(), Failure>),
    /// Of `Teardown`; one that is in progress is asked for again.
    Teardown(Result<Teardown, Failure>),
    /// Of `ListWorkloads`; a listing that lacks a part is a failure.
    Workloads(Result<Workloads, Failure>),
}

/// What the cluster has of ours.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Workloads {
    /// Recorded or deployed, and what cannot be used.
    #[serde(flatten)]
    pub listing: Listing,
    /// Declared hostnames; `None` where the backend has none.
    pub hostnames: Option<Vec<DeclaredHostname>>,
    /// Declared addresses of the leases that have or want some; `None` where the backend has none or cannot say.
    #[serde(default)]
    pub ips: Option<Vec<(LeaseId, Vec<IpDeclaration>)>>,
}

/// A request of the handle.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Request {
    /// A tenant's manifest, already checked in itself (`manifest::validate`).
    SubmitManifest {
        /// For which deployment; the tenant is its owner.
        deployment: DeploymentId,
        /// The manifest as it was read, with all its groups.
        manifest: Arc<Manifest>,
        /// What its hash on the chain may be.
        hashes: Hashes,
    },
    /// Hostnames are to move to this lease from the tenant's other leases.
    TransferHostnames {
        /// The lease that is to hold the names from then on.
        lease: LeaseId,
        /// Names that are to move.
        hostnames: Vec<String>,
    },
    /// The operator ends a lease.
    EndLease {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Why; one of the provider's reasons.
        reason: CloseReason,
    },
    /// Compare chain, cluster and ledger now.
    Scan {
        /// Only report what differs, and mend nothing.
        dry_run: bool,
    },
    /// Release the circuit breaker, for all and for each owner.
    ReleaseBreaker,
    /// Release the circuit breaker for an owner for whom alone it has tripped.
    ReleaseBreakerFor {
        /// Owner of the leases whose ends wait.
        owner: Address,
    },
}

/// Answer to a [`Request`]; exactly one for each.
pub type Response = Result<Reply, Refusal>;

/// A request was granted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Reply {
    /// Done (for a manifest: durable).
    Done,
    /// Differences found by a scan, one line each; empty when there are none.
    Scan(Vec<String>),
}

/// A request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What it means for the asker.
    pub kind: RefusalKind,
    /// For people: what, where and the mend.
    pub message: String,
}

/// What a refusal means for the asker: mend the request, wait, or ask elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefusalKind {
    /// We hold no lease of that deployment.
    NoLease,
    /// The manifest's hash is not the one on the chain.
    VersionMismatch,
    /// The manifest is wrong in itself.
    InvalidManifest,
    /// The manifest does not match the groups on the chain.
    CrossValidation,
    /// A hostname is taken, blocked or missing.
    Hostname,
    /// The request cannot be granted as it is.
    Rejected,
    /// Chain or cluster cannot be asked; nothing was kept; try again.
    Unavailable,
    /// Too many requests wait already.
    Busy,
    /// The provider is stopping.
    Stopping,
    /// This instance does not lead, so it writes nothing; ask the one that does.
    NotLeader,
}

impl RefusalKind {
    /// True where another manifest would be taken: the one that came is wrong.
    #[must_use]
    pub const fn is_of_manifest(self) -> bool {
        match self {
            Self::VersionMismatch
            | Self::InvalidManifest
            | Self::CrossValidation
            | Self::Hostname
            | Self::Rejected => true,
            Self::NoLease | Self::Unavailable | Self::Busy | Self::Stopping | Self::NotLeader => false,
        }
    }
}
