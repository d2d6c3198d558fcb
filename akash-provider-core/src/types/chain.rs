//! Data of the chain: records as queries return them, and events.

use super::attribute::Attribute;
use super::group::GroupSpec;
use super::id::{Address, BidId, DeploymentId, GroupId, LeaseId, OrderId};
use super::price::{Coin, Dec, DecCoin, Denom};
use super::resources::ResourceUnit;
use super::time::{BlockTime, Height};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// State of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderState {
    /// Accepts bids, until one wins or the order closes.
    Open,
    /// One bid won and has a lease.
    Active,
    /// Final. A group that is started again gets a new order.
    Closed,
}

/// State of a bid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BidState {
    /// Waits for the decision of the tenant.
    Open,
    /// The bid won. The lease has the same id as the bid.
    Active,
    /// Another provider won the order. The chain has returned the deposit of this bid.
    Lost,
    /// Closed. The record remains and prevents a second bid of the provider on the order.
    Closed,
}

/// State of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseState {
    /// The workload runs, and the lease is paid per block.
    Active,
    /// The provider reclaims the capacity. The workload runs and is paid until the provider closes the lease.
    Reclaiming,
    /// Closed by the chain because of insufficient escrow funds.
    InsufficientFunds,
    /// Closed for another reason.
    Closed,
}

impl LeaseState {
    /// Returns whether the workload has to run.
    #[must_use]
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Active | Self::Reclaiming)
    }
}

/// State of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupState {
    /// The group has an order, or will get one.
    Open,
    /// Stopped by the tenant, or because the provider closed the lease of the group. The tenant can start the group
    /// again.
    Paused,
    /// Stopped by the chain because of insufficient escrow funds of its deployment.
    InsufficientFunds,
    /// Final. The group gets no further order.
    Closed,
}

/// Reason of a closed lease. Each reason has a number on the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CloseReason {
    /// Closed by the tenant (1).
    Owner,
    /// Unhealthy for too long (10000).
    Unstable,
    /// The provider needs the capacity (10001).
    Decommission,
    /// The provider states no reason (10002).
    Unspecified,
    /// No manifest arrived in time (10003).
    ManifestTimeout,
    /// The escrow funds were insufficient (20000).
    InsufficientFunds,
    /// Any other number. The field contains this number.
    Other(u32),
}

impl CloseReason {
    /// Returns the number that the chain stores for this reason: 1 for the tenant, 10000 to 19999 for a
    /// provider, 20000 for the chain.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Owner => 1,
            Self::Unstable => 10_000,
            Self::Decommission => 10_001,
            Self::Unspecified => 10_002,
            Self::ManifestTimeout => 10_003,
            Self::InsufficientFunds => 20_000,
            Self::Other(code) => code,
        }
    }

    /// Returns the name of the reason, such as `manifest_timeout`; `other` for an unknown number.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Unstable => "unstable",
            Self::Decommission => "decommission",
            Self::Unspecified => "unspecified",
            Self::ManifestTimeout => "manifest_timeout",
            Self::InsufficientFunds => "insufficient_funds",
            Self::Other(_) => "other",
        }
    }

    /// Returns whether a provider can state this reason (numbers 10000 to 19999).
    #[must_use]
    pub const fn is_providers(self) -> bool {
        let code = self.code();
        code >= 10_000 && code <= 19_999
    }
}

/// Request for bids on a group, as the market records it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Order {
    /// Group and oseq of the order.
    pub id: OrderId,
    /// Whether the order accepts bids, has a lease, or is closed.
    pub state: OrderState,
    /// Requested resources and requirements.
    pub spec: Arc<GroupSpec>,
    /// Height of the block in which the order was created.
    pub created_at: Height,
    /// Minimum reclamation window that the tenant accepts; `None` if no window is required.
    pub reclamation_min_window: Option<Duration>,
}

/// Offer of a provider for an order. The chain allows one bid per provider and order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bid {
    /// Order and provider. The lease of a winning bid has the same id.
    pub id: BidId,
    /// State of the bid. The record of a closed bid is not removed.
    pub state: BidState,
    /// Price per block for the whole group.
    pub price: DecCoin,
    /// Height of the block in which the bid was created.
    pub created_at: Height,
    /// Units that the provider reserved and offers, with concrete GPU models; may be empty.
    pub resources_offer: Vec<ResourceUnit>,
    /// Offered reclamation window; `None` for a bid without reclamation terms.
    pub reclamation_window: Option<Duration>,
}

/// Reclamation terms of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reclamation {
    /// Minimum time between the start of the reclamation and the close of the lease.
    pub window: Duration,
    /// Earliest time at which the provider can close the lease. Set when the reclamation starts.
    pub deadline: Option<BlockTime>,
    /// Reason of the reclamation; `None` before its start, or if no reason is recorded.
    #[serde(default)]
    pub reason: Option<CloseReason>,
}

/// Lease of a winning bid, paid per block from the escrow of the deployment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// Id of the winning bid.
    pub id: LeaseId,
    /// State of the lease. All states except active and reclaiming are final.
    pub state: LeaseState,
    /// Price per block of the whole group, as in the bid.
    pub price: DecCoin,
    /// Height of the block in which the lease was created.
    pub created_at: Height,
    /// Height of the close; 0 while the lease is active.
    pub closed_on: Height,
    /// Reason of the close; `None` while the lease is active, or if no reason is recorded.
    pub reason: Option<CloseReason>,
    /// Reclamation terms of the bid, if any.
    pub reclamation: Option<Reclamation>,
}

/// Earnings of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Payment {
    /// Amount that the lease earns per block.
    pub rate: DecCoin,
    /// Earnings that are not withdrawn yet, as of the last settlement.
    pub balance: DecCoin,
    /// Total amount withdrawn by the provider, in whole base units.
    pub withdrawn: Coin,
}

/// A lease with its payment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeaseRecord {
    /// Lease without its earnings.
    pub lease: Lease,
    /// Earnings; `None` if the node returned no earnings.
    pub payment: Option<Payment>,
}

/// Record of a tenant's deployment. The groups and the funds are in other records.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Deployment {
    /// Owner, and the sequence number that the owner chose.
    pub id: DeploymentId,
    /// True until the deployment is closed.
    pub active: bool,
    /// SHA-256 of the canonical manifest.
    pub hash: [u8; 32],
    /// Height of the block in which the deployment was created.
    pub created_at: Height,
    /// Minimum reclamation window that the tenant accepts.
    pub reclamation_min_window: Option<Duration>,
}

/// A group of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Group {
    /// Deployment and gseq.
    pub id: GroupId,
    /// State of the group. Only an open group can have an order.
    pub state: GroupState,
    /// Requested resources and requirements.
    pub spec: Arc<GroupSpec>,
}

/// Escrow account of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EscrowAccount {
    /// Remaining funds at the height `settled_at`, by denomination; negative if the account is overdrawn.
    pub funds: BTreeMap<Denom, Dec>,
    /// Height up to which payments are settled.
    pub settled_at: Height,
}

/// Deployment with its groups, its escrow account, and its active and reclaiming leases.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeploymentRecord {
    /// State and manifest hash.
    pub deployment: Deployment,
    /// All groups, by gseq.
    pub groups: Vec<Group>,
    /// Escrow account that pays the leases of all groups.
    pub escrow: EscrowAccount,
    /// Active and reclaiming leases of every provider.
    pub leases: Vec<Lease>,
}

/// Record of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProviderRecord {
    /// Account that signs transactions and is part of every bid id.
    pub owner: Address,
    /// URI at which tenants reach the provider.
    pub host_uri: String,
    /// Declared attributes, compared with the requirements of orders.
    pub attributes: Vec<Attribute>,
    /// Contact information.
    #[serde(default)]
    pub info: ProviderInfo,
}

impl ProviderRecord {
    /// Returns the host of [`host_uri`](Self::host_uri) as written, without the port, or `None` if the URI
    /// has no host.
    ///
    /// ```
    /// # use akash_provider_core::types::{Address, ProviderRecord};
    /// let record = |uri: &str| ProviderRecord {
    ///     owner: Address::from_bytes(&[7; 20]).unwrap(), host_uri: uri.to_owned(), attributes: vec![], info: Default::default(),
    /// };
    /// for (uri, host) in [
    ///     ("https://Provider.example:8443/path", Some("Provider.example")),
    ///     ("https://provider.example.", Some("provider.example")),
    ///     ("https://me:pass@provider.example?a=@b:1", Some("provider.example")),
    ///     ("https://[2001:db8::1]:8443", Some("2001:db8::1")),
    ///     ("https://:8443", None),
    ///     ("provider.example", None),
    /// ] {
    ///     assert_eq!(record(uri).host(), host);
    /// }
    /// ```
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        let (_, rest) = self.host_uri.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next()?;
        // The part before the last `@` is a login, which may itself contain an `@`.
        let place = authority.rsplit('@').next()?;
        let host = match place.strip_prefix('[') {
            Some(address) => address.split(']').next()?,
            None => place.split(':').next()?,
        };
        let host = host.trim_end_matches('.');
        (!host.is_empty()).then_some(host)
    }
}

/// Contact information of a provider; each field may be empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ProviderInfo {
    /// E-mail address; empty if unknown.
    #[serde(default)]
    pub email: String,
    /// Web address; empty if unknown.
    #[serde(default)]
    pub website: String,
}

/// Attributes that an auditor signed for a provider.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AuditedAttributes {
    /// Auditor as text, because orders may name auditors that are not addresses.
    pub auditor: String,
    /// Signed attributes, compared with the requirements of orders.
    pub attributes: Vec<Attribute>,
}

impl AuditedAttributes {
    /// Creates the attributes that `auditor` signed.
    #[must_use]
    pub fn new(auditor: impl Into<String>, attributes: Vec<Attribute>) -> Self {
        let auditor = auditor.into();
        Self { auditor, attributes }
    }
}

/// A published certificate.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Certificate {
    /// Serial number in decimal digits, unique per account.
    pub serial: String,
    /// True until the certificate is revoked.
    pub valid: bool,
    /// X.509 certificate in PEM.
    pub cert: Vec<u8>,
    /// Public key in PEM.
    pub pubkey: Vec<u8>,
}

/// Market parameters for bids.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MarketParams {
    /// Minimum deposit of a bid, one entry per accepted denomination.
    pub bid_min_deposits: Vec<Coin>,
    /// Maximum number of bids per order. Lost bids do not count.
    pub order_max_bids: u32,
    /// Minimum reclamation window of a bid.
    pub min_reclamation_window: Duration,
    /// Maximum reclamation window of a bid.
    pub max_reclamation_window: Duration,
}

/// An event of a block. Events of one transaction arrive in the order of emission.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChainEvent {
    /// The current state: the first item of every subscription, and the first item after every gap.
    Resync(Arc<Snapshot>),
    /// A block is complete: all its events have been sent.
    Block {
        /// Height of the block.
        height: Height,
        /// Time in the header of the block.
        time: BlockTime,
    },
    /// A deployment was created.
    DeploymentCreated {
        /// Owner and dseq of the deployment.
        id: DeploymentId,
    },
    /// The manifest hash of a deployment changed.
    DeploymentUpdated {
        /// Owner and dseq of the deployment.
        id: DeploymentId,
        /// SHA-256 of the new canonical manifest.
        hash: [u8; 32],
    },
    /// A deployment was closed.
    DeploymentClosed {
        /// Owner and dseq of the deployment.
        id: DeploymentId,
    },
    /// A group was started again.
    GroupStarted {
        /// Deployment and gseq of the group.
        id: GroupId,
    },
    /// A group was paused. Separate events report its closed order, bids and lease.
    GroupPaused {
        /// Deployment and gseq of the group.
        id: GroupId,
    },
    /// A group was closed.
    GroupClosed {
        /// Deployment and gseq of the group.
        id: GroupId,
    },
    /// An order was created and accepts bids.
    OrderCreated {
        /// Group and oseq of the order.
        id: OrderId,
    },
    /// An order was closed.
    OrderClosed {
        /// Group and oseq of the order.
        id: OrderId,
    },
    /// A provider placed a bid.
    BidCreated {
        /// Order and provider of the bid.
        id: BidId,
        /// Price per block for the whole group.
        price: DecCoin,
    },
    /// A bid was closed.
    BidClosed {
        /// Order and provider of the bid.
        id: BidId,
    },
    /// A bid won and its lease was created.
    LeaseCreated {
        /// Order and provider of the lease.
        id: LeaseId,
        /// Price per block of the whole group, as in the bid.
        price: DecCoin,
    },
    /// A lease was closed.
    LeaseClosed {
        /// Order and provider of the lease.
        id: LeaseId,
        /// Reason recorded on the chain.
        reason: CloseReason,
    },
    /// A provider started the reclamation of a lease.
    LeaseReclaimStarted {
        /// Order and provider of the lease.
        id: LeaseId,
        /// Reason recorded on the chain.
        reason: CloseReason,
        /// Earliest time at which the provider can close the lease.
        deadline: BlockTime,
    },
    /// The record of a provider was created or changed.
    ProviderUpdated {
        /// Account of the provider.
        owner: Address,
    },
    /// An auditor signed attributes of a provider, or removed the signature.
    AuditChanged {
        /// Account of the auditor.
        auditor: Address,
        /// Account of the provider.
        owner: Address,
    },
}

impl ChainEvent {
    /// Returns whether the event is relevant to `provider`. `LeaseCreated` for another provider is relevant,
    /// because `provider` can no longer win the order.
    #[must_use]
    pub fn concerns(&self, provider: &Address) -> bool {
        match self {
            Self::BidCreated { id, .. }
            | Self::BidClosed { id }
            | Self::LeaseClosed { id, .. }
            | Self::LeaseReclaimStarted { id, .. } => id.provider == *provider,
            Self::ProviderUpdated { owner } | Self::AuditChanged { owner, .. } => owner == provider,
            Self::Resync(_)
            | Self::Block { .. }
            | Self::DeploymentCreated { .. }
            | Self::DeploymentUpdated { .. }
            | Self::DeploymentClosed { .. }
            | Self::GroupStarted { .. }
            | Self::GroupPaused { .. }
            | Self::GroupClosed { .. }
            | Self::OrderCreated { .. }
            | Self::OrderClosed { .. }
            | Self::LeaseCreated { .. } => true,
        }
    }
}

/// Current records of one provider, and all open orders, at one height.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Snapshot {
    /// Chain id.
    pub chain_id: String,
    /// Height of the snapshot. The snapshot contains all changes up to this height.
    pub height: Height,
    /// Time of the block at this height.
    pub time: BlockTime,
    /// Record of the provider; `None` if the provider is not registered.
    pub provider: Option<ProviderRecord>,
    /// Market parameters in force at this height.
    pub params: MarketParams,
    /// All open orders of the chain.
    pub orders: Vec<Order>,
    /// Bids of the provider: all open and active bids, and the lost and closed bids on open orders.
    pub bids: Vec<Bid>,
    /// Active and reclaiming leases of the provider.
    pub leases: Vec<LeaseRecord>,
    /// Deployments to which the leases of the provider belong.
    pub deployments: Vec<DeploymentRecord>,
    /// Times of the blocks in which the records were created, by height. If the map lacks a height, the time
    /// of the snapshot is used.
    pub block_times: BTreeMap<Height, BlockTime>,
}

impl Snapshot {
    /// Returns the time of the block at `height`. If the block time is unknown, returns the time of the
    /// snapshot, which is later.
    #[must_use]
    pub fn block_time(&self, height: Height) -> BlockTime {
        self.block_times.get(&height).copied().unwrap_or(self.time)
    }
}

/// Agreement of several endpoints about a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// Only one endpoint is configured.
    Single,
    /// A second endpoint returned the same record.
    Confirmed,
    /// The endpoints disagree, or the first endpoint returned an incomplete record.
    Disputed,
    /// The second endpoint could not be queried.
    Unreachable,
}

/// Record that was read from the chain at one height. `agreement` states whether a second endpoint returned
/// the same record. The node had the configured chain id and was not catching up.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Observed<T> {
    /// Record, or `None` if the endpoint found no record. `None` alone does not prove that the chain has no
    /// such record.
    pub value: Option<T>,
    /// Height at which the record was read.
    pub height: Height,
    /// Agreement of the endpoints about the record.
    pub agreement: Agreement,
}

impl<T> Observed<T> {
    /// Creates the result of a read at one height.
    pub const fn new(value: Option<T>, height: Height, agreement: Agreement) -> Self {
        Self {
            value,
            height,
            agreement,
        }
    }
}
