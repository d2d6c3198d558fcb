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
    /// Takes bids, until one of them wins or the order closes.
    Open,
    /// One bid won and has a lease.
    Active,
    /// Over for good; a group that is started again gets a new order.
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
    /// Runs, and is paid per block.
    Active,
    /// Runs and pays until the reclamation deadline has passed and the provider closes it.
    Reclaiming,
    /// Closed by the chain because the escrow ran dry.
    InsufficientFunds,
    /// Ended for another reason than a dry escrow, and for good.
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
    /// Stopped by the chain because the escrow of its deployment ran dry.
    InsufficientFunds,
    /// Over for good: it gets no further order.
    Closed,
}

/// Why a lease ended, in the chain's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Number of the reason on the chain: 1 is the tenant's, 10000 to 19999 a provider's, 20000 the chain's own.
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

/// A group's call for bids, as the market records it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Order {
    /// The group it is for, and which of that group's orders it is.
    pub id: OrderId,
    /// Whether it takes bids, has a lease, or is over.
    pub state: OrderState,
    /// What is asked for.
    pub spec: Arc<GroupSpec>,
    /// Height it was created at.
    pub created_at: Height,
    /// Shortest reclamation window the tenant accepts; `None` when it does not ask for one.
    pub reclamation_min_window: Option<Duration>,
}

/// A provider's offer on an order; the chain allows each provider one per order, ever.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bid {
    /// Order and bidder; the lease that it may win has the same id.
    pub id: BidId,
    /// Where it stands; the record of a closed bid stays.
    pub state: BidState,
    /// Price per block for the whole group.
    pub price: DecCoin,
    /// Height it was created at.
    pub created_at: Height,
    /// What was offered: the units as reserved (GPU models concrete); may be empty.
    pub resources_offer: Vec<ResourceUnit>,
    /// Reclamation window offered; `None` when the bid has no reclamation terms.
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

/// What a bid becomes that won: paid per block from the deployment's escrow.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// The id of the bid that won it.
    pub id: LeaseId,
    /// Active or reclaiming while the workload is to run; the other states are final.
    pub state: LeaseState,
    /// Price per block for the whole group, as it was bid.
    pub price: DecCoin,
    /// Height it was created at.
    pub created_at: Height,
    /// Height it ended at; 0 while it lives.
    pub closed_on: Height,
    /// Why it ended; `None` while it lives and where the record does not say.
    pub reason: Option<CloseReason>,
    /// Terms, where the bid offered them.
    pub reclamation: Option<Reclamation>,
}

/// What a lease has earned.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Payment {
    /// What the escrow pays for it per block.
    pub rate: DecCoin,
    /// Settled and not yet withdrawn.
    pub balance: DecCoin,
    /// Paid out to the provider so far, in whole units.
    pub withdrawn: Coin,
}

/// A lease with its payment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeaseRecord {
    /// The lease itself, without what it earned.
    pub lease: Lease,
    /// Its payment; `None` when the node did not give one.
    pub payment: Option<Payment>,
}

/// A tenant's deployment, without its groups and its money.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Deployment {
    /// Its owner, and the sequence number that the owner chose.
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
    /// Its deployment, and its place among that deployment's groups.
    pub id: GroupId,
    /// Whether it may have an order: only an open group has one.
    pub state: GroupState,
    /// What the tenant asks for, and where it may run.
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
    /// State and manifest hash of the deployment itself.
    pub deployment: Deployment,
    /// All its groups, by gseq.
    pub groups: Vec<Group>,
    /// Its money, from which the leases of all its groups are paid.
    pub escrow: EscrowAccount,
    /// All its live leases (active and reclaiming), of every provider.
    pub leases: Vec<Lease>,
}

/// A provider as registered.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProviderRecord {
    /// Account the provider bids and signs with; it is part of the id of each of its bids.
    pub owner: Address,
    /// Where tenants reach it.
    pub host_uri: String,
    /// What it declares of itself; orders are matched against these.
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
        // What comes before the last `@` is a login, which may have one itself.
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
    /// E-mail address; empty when the provider gave none.
    #[serde(default)]
    pub email: String,
    /// Web address; empty when the provider gave none.
    #[serde(default)]
    pub website: String,
}

/// What an auditor has signed about a provider.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AuditedAttributes {
    /// The auditor, as text (orders may name auditors that are no addresses).
    pub auditor: String,
    /// Keys and values it signed; the requirements of orders are matched against these.
    pub attributes: Vec<Attribute>,
}

/// A certificate as published.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Certificate {
    /// Serial number in decimal digits; names the certificate among those of its account.
    pub serial: String,
    /// False once its owner has revoked it.
    pub valid: bool,
    /// The X.509 certificate as PEM bytes.
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
        /// Height of the block that is complete.
        height: Height,
        /// Time in that block's header.
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
        /// SHA-256 of the canonical manifest that is to be run from then on.
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
    /// A provider has bid on an order.
    BidCreated {
        /// Order and provider of the bid.
        id: BidId,
        /// Price per block for the whole group.
        price: DecCoin,
    },
    /// A bid is over.
    BidClosed {
        /// Order and provider of the bid.
        id: BidId,
    },
    /// A bid won: the order has its lease.
    LeaseCreated {
        /// Order and provider of the lease.
        id: LeaseId,
        /// Price per block for the whole group, as the winner bid it.
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
        /// Account of the auditor who signed or took back.
        auditor: Address,
        /// Account of the provider that the attributes are about.
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
    /// Market parameters in force at this height.
    pub params: MarketParams,
    /// All open orders of the chain, also those that we have not bid on.
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
