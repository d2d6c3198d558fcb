//! Inputs of the engine: chain events, cluster changes, completions of calls and requests.

use super::effect::EffectId;
use crate::cluster::{ClusterChange, DeclaredHostname, IpDeclaration, Listing, Teardown};
use crate::error::Failure;
use crate::inventory::InventoryUpdate;
use crate::manifest::{Hashes, Manifest};
use crate::restart_state::RestartState;
use crate::types::{
    Address, AuditedAttributes, Bid, ChainEvent, CloseReason, Coin, DecCoin, DeploymentId, DeploymentRecord,
    LeaseId, LeaseRecord, Observed, Order, ProviderRecord, Snapshot, TxOutcome,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Id of a request from the handle. The reply has the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// One input of [`Engine::step`](super::Engine::step).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Input {
    /// Event from the chain.
    Chain(ChainEvent),
    /// Change in the cluster, such as a health update.
    Cluster(ClusterChange),
    /// New view of the capacity. Replaces the previous view.
    Inventory(InventoryUpdate),
    /// Result of the call with this id.
    Completed(EffectId, Completion),
    /// Request sent through the handle.
    Request(RequestId, Request),
    /// Change of leadership.
    Leadership(Leadership),
    /// Reason to send no bids, or `None` to resume bidding. Lease handling is not affected.
    HoldBids(Option<Arc<str>>),
    /// State stored by the previous leader, or by this provider before a restart.
    Kept(RestartState),
    /// Notice that the price configuration changed.
    PricesChanged,
    /// Request to stop: calls in flight finish, no new work starts.
    Shutdown,
}

/// Whether this instance may send writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Leadership {
    /// Leader with write permission. Each new leader has a higher epoch.
    Leader {
        /// Leadership epoch, which the engine writes into every object that it applies to the cluster.
        epoch: u64,
    },
    /// Standby. A standby follows the state of the chain and the cluster, and writes nothing.
    Standby,
}

/// Result of a call. Each kind of [`Call`](super::Call) has exactly one kind of completion.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Completion {
    /// Result of `FetchOrder`: `None` if the chain has no such order.
    Order(Result<Option<Order>, Failure>),
    /// Result of `CountBids`: the number of bids on the order that count towards the limit of the chain.
    BidCount(Result<u32, Failure>),
    /// Result of `FetchProvider`: `None` if this provider is not registered.
    Provider(Result<Option<ProviderRecord>, Failure>),
    /// Result of `FetchBalances`. A missing denomination has balance zero.
    Balances(Result<Vec<Coin>, Failure>),
    /// Result of `FetchAudit`: `None` if the auditor signed no attributes of this provider.
    Audit(Result<Option<AuditedAttributes>, Failure>),
    /// Result of `FetchBid`, and whether all endpoints returned the same record.
    Bid(Result<Observed<Bid>, Failure>),
    /// Result of `FetchLease`, and whether all endpoints returned the same record.
    Lease(Result<Observed<LeaseRecord>, Failure>),
    /// Result of `FetchDeployment`: `None` if the chain has no such deployment.
    Deployment(Result<Option<DeploymentRecord>, Failure>),
    /// Result of `FetchSnapshot`: the whole state at one height.
    Snapshot(Result<Arc<Snapshot>, Failure>),
    /// Result of `CalculatePrice`: the price per block for the whole group.
    Price(Result<DecCoin, Failure>),
    /// Result of `Broadcast`. `Err` means that the transaction was certainly not sent.
    Tx(Result<TxOutcome, Failure>),
    /// Result of `Record` or `Deploy`.
    Cluster(Result<(), Failure>),
    /// Result of `Teardown`. The engine repeats the call while the teardown is in progress.
    Teardown(Result<Teardown, Failure>),
    /// Result of `ListWorkloads`. If the listing is incomplete, the result is `Err`.
    Workloads(Result<Workloads, Failure>),
}

/// Workloads of this provider in the cluster, with their hostnames and addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Workloads {
    /// Recorded or deployed workloads, and unusable records.
    #[serde(flatten)]
    pub listing: Listing,
    /// Declared hostnames, or `None` if the backend does not support hostnames.
    pub hostnames: Option<Vec<DeclaredHostname>>,
    /// Declared IP addresses by lease. Contains each lease that requests IP addresses or has assigned
    /// addresses. `None` if the backend does not support or cannot read leased IPs.
    #[serde(default)]
    pub ips: Option<Vec<(LeaseId, Vec<IpDeclaration>)>>,
}

/// Request sent through the handle.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Request {
    /// Submit the manifest of a tenant. The caller has already checked the manifest with
    /// `manifest::validate`.
    SubmitManifest {
        /// Deployment of the manifest. Its owner is the tenant.
        deployment: DeploymentId,
        /// Parsed manifest with all its groups.
        manifest: Arc<Manifest>,
        /// Hashes of this manifest. The chain must contain one of these hashes.
        hashes: Hashes,
    },
    /// Move hostnames from other leases of the same tenant to this lease.
    TransferHostnames {
        /// Lease that receives the hostnames.
        lease: LeaseId,
        /// Hostnames to move.
        hostnames: Vec<String>,
    },
    /// Close a lease on behalf of the operator.
    EndLease {
        /// Lease to close.
        lease: LeaseId,
        /// Close reason. Only the reasons that a provider can state are allowed.
        reason: CloseReason,
    },
    /// Start a full scan at once: compare the chain, the cluster and the engine.
    Scan {
        /// Report the differences without repairing them.
        dry_run: bool,
    },
    /// Release the circuit breaker for all owners. All held close requests continue.
    ReleaseBreaker,
    /// Release the circuit breaker for one owner. The held close requests for this owner continue.
    ReleaseBreakerFor {
        /// Tenant for which the breaker is released.
        owner: Address,
    },
}

/// Response to a [`Request`]. Each request gets exactly one response.
pub type Response = Result<Reply, Refusal>;

/// Successful response to a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Reply {
    /// The request was carried out. A submitted manifest is stored.
    Done,
    /// Differences found by a scan, one line each; empty if the scan found no difference.
    Scan(Vec<String>),
}

/// Error response to a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Machine-readable category of the refusal.
    pub kind: RefusalKind,
    /// Description of the failure with the remedy, for users.
    pub message: String,
}

impl Refusal {
    /// Creates an error response.
    #[must_use]
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, message }
    }
}

/// Category of a [`Refusal`]. The category shows what a client can do: fix the request, retry, or use another
/// instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefusalKind {
    /// This provider has no lease of the deployment.
    NoLease,
    /// The hash of the manifest differs from the hash on the chain.
    VersionMismatch,
    /// The manifest is invalid.
    InvalidManifest,
    /// The manifest does not match the groups of the deployment on the chain.
    CrossValidation,
    /// A hostname is in use, blocked or missing.
    Hostname,
    /// The request cannot be fulfilled. The message contains the reason.
    Rejected,
    /// The chain or the cluster is not reachable, or the provider did not respond in time. The client can retry. After
    /// a timeout, the request can still take effect.
    Unavailable,
    /// Too many requests are pending.
    Busy,
    /// The provider is stopping.
    Stopping,
    /// This instance is a standby and sends no writes. The client must use the leader.
    NotLeader,
}

impl RefusalKind {
    /// Returns the name of the category, the same as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoLease => "no_lease",
            Self::VersionMismatch => "version_mismatch",
            Self::InvalidManifest => "invalid_manifest",
            Self::CrossValidation => "cross_validation",
            Self::Hostname => "hostname",
            Self::Rejected => "rejected",
            Self::Unavailable => "unavailable",
            Self::Busy => "busy",
            Self::Stopping => "stopping",
            Self::NotLeader => "not_leader",
        }
    }

    /// Returns true if the submitted manifest caused the refusal.
    #[must_use]
    pub const fn is_manifest_error(self) -> bool {
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
