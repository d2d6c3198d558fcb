//! What the chain says: records as queries return them, and events.

use super::group::{Attribute, GroupSpec};
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
    /// Takes bids.
    Open,
    /// Has a lease.
    Active,
    /// Over.
    Closed,
}

/// State of a bid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BidState {
    /// Waits for the tenant.
    Open,
    /// Won; the lease has the same id.
    Active,
    /// Another provider won; the chain has returned the deposit.
    Lost,
    /// Over; the record stays and forbids another bid on the order.
    Closed,
}

/// State of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseState {
    /// Runs and pays.
    Active,
    /// Runs and pays until the reclamation deadline has passed and the provider closes it.
    Reclaiming,
    /// Closed by the chain because the escrow ran dry.
    InsufficientFunds,
    /// Over.
    Closed,
}

impl LeaseState {
    /// True while the workload is to run.
    #[must_use]
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Active | Self::Reclaiming)
    }
}

/// State of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupState {
    /// Has, or will get, an order.
    Open,
    /// Stopped by the tenant or by a close of the provider; may be started again.
    Paused,
    /// Out of money.
    InsufficientFunds,
    /// Over.
    Closed,
}

/// Why a lease ended, in the chain's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseReason {
    /// By the tenant (1).
    Owner,
    /// Known to be unhealthy for too long (10000).
    Unstable,
    /// The provider takes the capacity away (10001).
    Decommission,
    /// The provider gives no reason (10002).
    Unspecified,
    /// No manifest arrived in time (10003).
    ManifestTimeout,
    /// The escrow ran dry (20000).
    InsufficientFunds,
    /// A number we have no name for.
    Other(u32),
}

impl CloseReason {
    /// The chain's number.
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

    /// True for the reasons a provider may give (10000 to 19999).
    #[must_use]
    pub const fn is_providers(self) -> bool {
        let code = self.code();
        code >= 10_000 && code <= 19_999
    }
}

/// An order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Order {
    /// Id.
    pub id: OrderId,
    /// State.
    pub state: OrderState,
    /// What is asked for.
    pub spec: Arc<GroupSpec>,
    /// Height it was created at.
    pub created_at: Height,
    /// Shortest reclamation window the tenant accepts; `None` when it does not ask for one.
    pub reclamation_min_window: Option<Duration>,
}

/// A bid.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bid {
    /// Id.
    pub id: BidId,
    /// State.
    pub state: BidState,
    /// Price per block for the whole group.
    pub price: DecCoin,
    /// Height it was created at.
    pub created_at: Height,
    /// What was offered: the units as reserved (GPU models concrete); may be empty.
    pub resources_offer: Vec<ResourceUnit>,
    /// Reclamation window offered.
    pub reclamation_window: Option<Duration>,
}

/// Reclamation terms of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reclamation {
    /// Time between the announcement and the earliest close.
    pub window: Duration,
    /// When the provider may close; set once reclamation has started.
    pub deadline: Option<BlockTime>,
    /// Why it was started; `None` before, and where the record does not say.
    #[serde(default)]
    pub reason: Option<CloseReason>,
}

/// A lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// Id.
    pub id: LeaseId,
    /// State.
    pub state: LeaseState,
    /// Price per block.
    pub price: DecCoin,
    /// Height it was created at.
    pub created_at: Height,
    /// Height it ended at; 0 while it lives.
    pub closed_on: Height,
    /// Why it ended.
    pub reason: Option<CloseReason>,
    /// Terms, where the bid offered them.
    pub reclamation: Option<Reclamation>,
}

/// What a lease has earned.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Payment {
    /// Per block.
    pub rate: DecCoin,
    /// Settled and not yet withdrawn.
    pub balance: DecCoin,
    /// Withdrawn so far.
    pub withdrawn: Coin,
}

/// A lease with its payment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeaseRecord {
    /// The lease.
    pub lease: Lease,
    /// Its payment; `None` when the node did not give one.
    pub payment: Option<Payment>,
}

/// A deployment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Deployment {
    /// Id.
    pub id: DeploymentId,
    /// True until it is closed.
    pub active: bool,
    /// SHA-256 of the canonical manifest.
    pub hash: [u8; 32],
    /// Height it was created at.
    pub created_at: Height,
    /// Shortest reclamation window the tenant accepts.
    pub reclamation_min_window: Option<Duration>,
}

/// A group of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Group {
    /// Id.
    pub id: GroupId,
    /// State.
    pub state: GroupState,
    /// Spec.
    pub spec: Arc<GroupSpec>,
}

/// The money of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EscrowAccount {
    /// What is left at `settled_at`, by denomination; may be negative when overdrawn.
    pub funds: BTreeMap<Denom, Dec>,
    /// Height up to which payments are settled.
    pub settled_at: Height,
}

/// Everything about a deployment that a provider needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeploymentRecord {
    /// The deployment.
    pub deployment: Deployment,
    /// All its groups, by gseq.
    pub groups: Vec<Group>,
    /// Its money.
    pub escrow: EscrowAccount,
    /// All its live leases (active and reclaiming), of every provider.
    pub leases: Vec<Lease>,
}

/// A provider as registered.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProviderRecord {
    /// Account.
    pub owner: Address,
    /// Where tenants reach it.
    pub host_uri: String,
    /// What it declares.
    pub attributes: Vec<Attribute>,
    /// Who is behind it.
    #[serde(default)]
    pub info: ProviderInfo,
}

impl ProviderRecord {
    /// The host of [`host_uri`](Self::host_uri), as it is written there, without its port; `None` where there is none.
    ///
    /// ```
    /// # use akash_provider_core::types::{Address, ProviderRecord};
    /// let record = |uri: &str| ProviderRecord {
    ///     owner: Address::from_bytes(&[7; 20]).unwrap(), host_uri: uri.to_owned(), attributes: vec![], info: Default::default(),
    /// };
    /// for (uri, host) in [
    ///     ("https://Provider.example:8443/path", Some("Provider.example")),
    ///     ("https://provider.example.", Some("provider.example")),
    ///     ("https://me:word@provider.example?a=@b:1", Some("provider.example")),
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
        let place = authority.rsplit('@').next()?;
        let host = match place.strip_prefix('[') {
            Some(address) => address.split(']').next()?,
            None => place.split(':').next()?,
        };
        let host = host.trim_end_matches('.');
        (!host.is_empty()).then_some(host)
    }
}

/// How the people behind a provider are reached; each may be empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ProviderInfo {
    /// E-mail address.
    #[serde(default)]
    pub email: String,
    /// Web address.
    #[serde(default)]
    pub website: String,
}

/// What an auditor has signed about a provider.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AuditedAttributes {
    /// The auditor, as text (orders may name auditors that are no addresses).
    pub auditor: String,
    /// What it signed.
    pub attributes: Vec<Attribute>,
}

/// A certificate as published.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Certificate {
    /// Decimal serial.
    pub serial: String,
    /// True until revoked.
    pub valid: bool,
    /// The certificate, PEM.
    pub cert: Vec<u8>,
    /// Its public key, PEM.
    pub pubkey: Vec<u8>,
}

/// Parameters of the market that a bid must respect.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MarketParams {
    /// Least deposit of a bid, one entry per accepted denomination.
    pub bid_min_deposits: Vec<Coin>,
    /// Bids an order takes (open, active and closed ones count; lost ones do not).
    pub order_max_bids: u32,
    /// Shortest reclamation window a bid may offer.
    pub min_reclamation_window: Duration,
    /// Longest reclamation window a bid may offer.
    pub max_reclamation_window: Duration,
}

/// One fact in a block. Facts of a transaction come in the order of the transaction's events.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChainEvent {
    /// The known past is incomplete: this is the whole present. First on every subscription and after every gap.
    Resync(Arc<Snapshot>),
    /// A block is complete: all its facts have been told.
    Block {
        /// Its height.
        height: Height,
        /// Its time.
        time: BlockTime,
    },
    /// A deployment was created.
    DeploymentCreated {
        /// Owner and dseq of the deployment.
        id: DeploymentId,
    },
    /// A deployment's manifest hash changed.
    DeploymentUpdated {
        /// Owner and dseq of the deployment.
        id: DeploymentId,
        /// The new hash.
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
    /// A group was paused; its order, bids and lease are closed by events of their own.
    GroupPaused {
        /// Deployment and gseq of the group.
        id: GroupId,
    },
    /// A group was closed.
    GroupClosed {
        /// Deployment and gseq of the group.
        id: GroupId,
    },
    /// An order takes bids.
    OrderCreated {
        /// Group and oseq of the order.
        id: OrderId,
    },
    /// An order is over.
    OrderClosed {
        /// Group and oseq of the order.
        id: OrderId,
    },
    /// A provider bid.
    BidCreated {
        /// Order and provider of the bid.
        id: BidId,
        /// At what price.
        price: DecCoin,
    },
    /// A bid is over.
    BidClosed {
        /// Order and provider of the bid.
        id: BidId,
    },
    /// A bid won.
    LeaseCreated {
        /// Order and provider of the lease.
        id: LeaseId,
        /// At what price.
        price: DecCoin,
    },
    /// A lease is over.
    LeaseClosed {
        /// Order and provider of the lease.
        id: LeaseId,
        /// Reason as the chain records it.
        reason: CloseReason,
    },
    /// A provider announced that it takes a lease back.
    LeaseReclaimStarted {
        /// Order and provider of the lease.
        id: LeaseId,
        /// Reason as the chain records it.
        reason: CloseReason,
        /// When it may be closed.
        deadline: BlockTime,
    },
    /// A provider's record changed (or was made).
    ProviderUpdated {
        /// Account that it belongs to.
        owner: Address,
    },
    /// An auditor signed, or took back, attributes of a provider.
    AuditChanged {
        /// The auditor.
        auditor: Address,
        /// The provider.
        owner: Address,
    },
}

impl ChainEvent {
    /// True for what a provider is told: facts about other providers alone are not; that one of them won an
    /// order is.
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

/// The whole present, as far as it concerns one provider, at one height.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Snapshot {
    /// The chain it was read from.
    pub chain_id: String,
    /// Everything up to and including this height is in here.
    pub height: Height,
    /// Time of that block.
    pub time: BlockTime,
    /// Our record; `None` when we are not registered.
    pub provider: Option<ProviderRecord>,
    /// Market parameters.
    pub params: MarketParams,
    /// All open orders.
    pub orders: Vec<Order>,
    /// Our bids: all open and active ones, and the lost and closed ones of the open orders.
    pub bids: Vec<Bid>,
    /// Our live leases, active and reclaiming.
    pub leases: Vec<LeaseRecord>,
    /// The deployments of those leases.
    pub deployments: Vec<DeploymentRecord>,
    /// Times of the heights the records above were created at; a missing one counts as `time`.
    pub block_times: BTreeMap<Height, BlockTime>,
}

impl Snapshot {
    /// Time of a block the snapshot's records refer to; the snapshot's own time when the node no longer
    /// knows it (which gives every deadline its full length once more, never less).
    #[must_use]
    pub fn block_time(&self, height: Height) -> BlockTime {
        self.block_times.get(&height).copied().unwrap_or(self.time)
    }
}

/// How far several endpoints agree about a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// Only one endpoint is configured.
    Single,
    /// A second endpoint says the same.
    Confirmed,
    /// A second endpoint says something else, or the client knows that its own record has gaps.
    Disputed,
    /// The second endpoint could not be asked.
    Unreachable,
}

/// A record, and what its reading is worth as evidence.
///
/// Read from a node with our chain id that is not catching up.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Observed<T> {
    /// What was read; `None` is "not found", which is never evidence.
    pub value: Option<T>,
    /// Height it was read at.
    pub height: Height,
    /// What the other endpoints say.
    pub agreement: Agreement,
}
