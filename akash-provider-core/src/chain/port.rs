//! The traits [`ChainQuery`], [`ChainTx`], [`ChainEvents`] and their sum [`ChainClient`].

use crate::error::{Error, ErrorKind};
use crate::types::{
    Address, AuditedAttributes, Bid, BidId, BidState, BlockTime, Certificate, ChainEvent, Coin, DeploymentId,
    DeploymentRecord, Group, GroupId, Height, LeaseId, LeaseRecord, LeaseState, MarketParams, Msg, Observed,
    Order, OrderId, OrderState, ProviderRecord, Snapshot, TxOutcome,
};
use async_trait::async_trait;
use futures::stream::BoxStream;
use std::fmt;
use std::str::FromStr;

/// Which orders a question is about; the default takes all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OrderFilter {
    /// Only in this state.
    pub state: Option<OrderState>,
    /// Only of this deployment.
    pub deployment: Option<DeploymentId>,
}

impl OrderFilter {
    /// True for an order that the question is about.
    #[must_use]
    pub fn takes(&self, record: &Order) -> bool {
        takes(self.state.as_ref(), &record.state) && takes(self.deployment.as_ref(), record.id.deployment())
    }
}

/// Which bids a question is about; the default takes all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BidFilter {
    /// Only on this order.
    pub order: Option<OrderId>,
    /// Only of this provider.
    pub provider: Option<Address>,
    /// Only in this state.
    pub state: Option<BidState>,
}

impl BidFilter {
    /// True for a bid that the question is about.
    #[must_use]
    pub fn takes(&self, record: &Bid) -> bool {
        takes(self.order.as_ref(), &record.id.order)
            && takes(self.provider.as_ref(), &record.id.provider)
            && takes(self.state.as_ref(), &record.state)
    }
}

/// Which leases a question is about; the default takes all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeaseFilter {
    /// Only of this provider.
    pub provider: Option<Address>,
    /// Only of this deployment.
    pub deployment: Option<DeploymentId>,
    /// Only in this state.
    pub state: Option<LeaseState>,
}

impl LeaseFilter {
    /// True for a lease that the question is about.
    #[must_use]
    pub fn takes(&self, record: &LeaseRecord) -> bool {
        takes(self.provider.as_ref(), &record.lease.id.provider)
            && takes(self.deployment.as_ref(), record.lease.id.deployment())
            && takes(self.state.as_ref(), &record.lease.state)
    }
}

fn takes<T: PartialEq>(filter: Option<&T>, value: &T) -> bool {
    filter.is_none_or(|wanted| wanted == value)
}

/// Which page; opaque key from the page before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageRequest {
    /// `None` for the first.
    pub key: Option<Vec<u8>>,
    /// At most so many; 0 for the backend's own limit.
    pub limit: u32,
}

/// A page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// Its records, at most as many as were asked for.
    pub items: Vec<T>,
    /// Key of the next page; `None` at the end.
    pub next: Option<Vec<u8>>,
}

/// Records of a page when the question names no number, as the network's default.
const PAGE_DEFAULT: usize = 100;
/// Most records of a page.
const PAGE_MAX: usize = 1000;

impl<T> Page<T> {
    /// One page of records that come in the order of their ids: 100 when the request names no number, 1000 at most.
    /// The key is the id of the last one, so records that come or go between two pages neither repeat nor hide another.
    ///
    /// # Errors
    /// `Invalid` when the key is none that a page before gave.
    pub fn of<I>(
        operation: &'static str,
        records: impl Iterator<Item = T>,
        id: impl Fn(&T) -> I,
        request: &PageRequest,
    ) -> Result<Self, Error>
    where
        I: Ord + fmt::Display + FromStr,
    {
        let after = match &request.key {
            None => None,
            Some(key) => {
                let text = std::str::from_utf8(key).ok();
                let id = text.and_then(|t| t.parse::<I>().ok());
                let wrong = "the page key is not one that a page before gave";
                Some(id.ok_or_else(|| Error::new(ErrorKind::Invalid, operation, wrong))?)
            }
        };
        let limit = match usize::try_from(request.limit) {
            Ok(0) => PAGE_DEFAULT,
            Ok(limit) => limit.min(PAGE_MAX),
            Err(_) => PAGE_MAX,
        };
        // Compared and not looked for: the record that gave the key may be gone.
        let mut rest = records.skip_while(|r| after.as_ref().is_some_and(|a| id(r) <= *a));
        let items: Vec<T> = rest.by_ref().take(limit).collect();
        // One more is asked for, so that the last page is known to be the last.
        let more = rest.next().is_some();
        let last = items.last().filter(|_| more);
        let next = last.map(|r| id(r).to_string().into_bytes());
        Ok(Self { items, next })
    }
}

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncInfo {
    /// Chain id that the node itself reports.
    pub chain_id: String,
    /// Height of the newest block it has.
    pub height: Height,
    /// Time of that block.
    pub time: BlockTime,
    /// Still replaying the past: its answers are old.
    pub catching_up: bool,
}

/// An account, with what a signature of its needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Bech32 address that the account is known by.
    pub address: Address,
    /// Compressed secp256k1 key; `None` until the account's first transaction.
    pub pubkey: Option<Vec<u8>>,
    /// Number the chain gave the account; it is part of what is signed.
    pub number: u64,
    /// Sequence that its next transaction must carry; each transaction uses one up.
    pub sequence: u64,
}

/// Questions to the chain.
///
/// # Contract
/// "Not found" is `Ok(None)` (or an empty page), not an error; "I do not know" is an error, never an empty answer. What is
/// not known of a record is not guessed: a client that knows its own record to have gaps says
/// [`Disputed`](crate::types::Agreement::Disputed), and no lease is ended on its word. Answers come from a node with our chain id; a
/// node that is catching up is not asked. What a transaction changed is seen by every question asked after its outcome
/// was told, and [`Observed`] is then of its height or later. A provider's record comes back as it was sent.
///
/// Pages: at most `limit` records each, every record of the filter once, and an end; [`Page::of`] makes them. A question
/// takes `query_timeout` at most, then its future is dropped. How to write one: `docs/writing-a-chain.md`.
///
/// # Errors
/// `Unavailable` or `Timeout` when nobody answers, `Invalid` when the question can never be answered.
#[async_trait]
#[auto_impl::auto_impl(Arc, Box)]
pub trait ChainQuery: fmt::Debug + Send + Sync + 'static {
    /// The record of a provider; `None` when it is not registered.
    async fn provider(&self, owner: &Address) -> Result<Option<ProviderRecord>, Error>;
    /// Orders, page by page.
    async fn orders(&self, filter: &OrderFilter, page: PageRequest) -> Result<Page<Order>, Error>;
    /// One order, whatever its state; `None` when there is none of this id.
    async fn order(&self, id: &OrderId) -> Result<Option<Order>, Error>;
    /// One bid, with what the answer is worth.
    async fn bid(&self, id: &BidId) -> Result<Observed<Bid>, Error>;
    /// Bids, page by page.
    async fn bids(&self, filter: &BidFilter, page: PageRequest) -> Result<Page<Bid>, Error>;
    /// One group, whatever its state; `None` when there is none of this id.
    async fn group(&self, id: &GroupId) -> Result<Option<Group>, Error>;
    /// A deployment with its groups, escrow and live leases.
    async fn deployment(&self, id: &DeploymentId) -> Result<Option<DeploymentRecord>, Error>;
    /// One lease, with what the answer is worth.
    async fn lease(&self, id: &LeaseId) -> Result<Observed<LeaseRecord>, Error>;
    /// Leases, page by page.
    async fn leases(&self, filter: &LeaseFilter, page: PageRequest) -> Result<Page<LeaseRecord>, Error>;
    /// What an auditor has signed about a provider; `None` when nothing.
    async fn auditor_attributes(
        &self,
        auditor: &str,
        owner: &Address,
    ) -> Result<Option<AuditedAttributes>, Error>;
    /// Certificates of an account; all, or one serial.
    async fn certificates(&self, owner: &Address, serial: Option<&str>) -> Result<Vec<Certificate>, Error>;
    /// Number, sequence and key of an account; `None` when the chain has no such account.
    async fn account(&self, address: &Address) -> Result<Option<Account>, Error>;
    /// Market parameters in force; governance may change them at any height.
    async fn params(&self) -> Result<MarketParams, Error>;
    /// Balance of an account in one denomination.
    async fn balance(&self, address: &Address, denom: &str) -> Result<Coin, Error>;
    /// Time of a block; `None` when no node knows it any more.
    async fn block_time(&self, height: Height) -> Result<Option<BlockTime>, Error>;
    /// What the node in use says of itself.
    async fn sync_info(&self) -> Result<SyncInfo, Error>;
    /// The whole present as far as it concerns `provider`, consistent at one height.
    async fn snapshot(&self, provider: &Address) -> Result<Snapshot, Error>;
}

/// Messages to the chain.
///
/// # Contract
/// Each call is one transaction: all its messages land, or none. Bids come alone (the caller's duty).
/// `Unknown` is never "absent": it may land until it expires, and not after. From when a message may have left, what
/// goes wrong is `Unknown` and no error. What is told as committed is durable. A call may be dropped (`tx_timeout`), and
/// what it sent may land all the same. What the chain refuses is told as such with what was
/// wrong: a second bid on an order, also after the first was closed, is
/// [`TxError::BidExists`](crate::types::TxError::BidExists), a bid that is no longer there
/// [`TxError::UnknownBid`](crate::types::TxError::UnknownBid).
#[async_trait]
#[auto_impl::auto_impl(Arc, Box)]
pub trait ChainTx: fmt::Debug + Send + Sync + 'static {
    /// Sends messages as one transaction and waits until its outcome is known, or known to be unknown.
    ///
    /// # Errors
    /// Only when it was certainly not sent.
    async fn broadcast_msgs(&self, msgs: Vec<Msg>) -> Result<TxOutcome, Error>;
}

/// What the chain says by itself.
///
/// # Contract
/// `Resync` first and after every gap, then single facts in height order, each block closed by `Block` with the height
/// and the time that [`ChainQuery::block_time`] knows it by. A `Resync` is not older than what was told before, and has
/// all open orders and what [`ChainQuery::snapshot`] says. A consumer needs no other way to catch up. The stream ends only at
/// shutdown; an error item is followed by a `Resync`, sooner or later.
///
/// `Block` says that *all* of the block was told, and is told of blocks without facts too: rather late than early. A fact
/// told twice changes nothing, so after a break rather tell a block again than leave one out. A listener that does not
/// read costs a bounded amount; a `Resync` replaces what it missed.
#[auto_impl::auto_impl(Arc, Box)]
pub trait ChainEvents: fmt::Debug + Send + Sync + 'static {
    /// Starts listening for what concerns `provider`.
    fn subscribe(&self, provider: &Address) -> BoxStream<'static, Result<ChainEvent, Error>>;
}

/// The whole chain port.
pub trait ChainClient: ChainQuery + ChainTx + ChainEvents {}

impl<T: ChainQuery + ChainTx + ChainEvents> ChainClient for T {}
