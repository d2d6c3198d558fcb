//! The traits [`ChainQuery`], [`ChainTx`] and [`ChainEvents`], and [`ChainClient`], which combines them.

use crate::error::{Error, ErrorKind};
use crate::types::{
    Address, AuditedAttributes, Bid, BidId, BidState, BlockTime, Certificate, ChainEvent, Coin, DeploymentId,
    DeploymentRecord, Group, GroupId, Height, LeaseId, LeaseRecord, LeaseState, MarketParams, Msg, Observed,
    Order, OrderId, OrderState, ProviderRecord, Snapshot, TxOutcome, TxReceipt,
};
use async_trait::async_trait;
use futures::stream::BoxStream;
use std::fmt;
use std::str::FromStr;

/// Filter of a query for orders. The default matches all orders.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OrderFilter {
    /// State of the orders; `None` matches any.
    pub state: Option<OrderState>,
    /// Deployment of the orders; `None` matches any.
    pub deployment: Option<DeploymentId>,
}

impl OrderFilter {
    /// Returns whether the filter matches an order.
    #[must_use]
    pub fn matches(&self, record: &Order) -> bool {
        matches(self.state.as_ref(), &record.state)
            && matches(self.deployment.as_ref(), record.id.deployment())
    }
}

/// Filter of a query for bids. The default matches all bids.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BidFilter {
    /// Order on which the bids were placed; `None` matches any.
    pub order: Option<OrderId>,
    /// Provider of the bids; `None` matches any.
    pub provider: Option<Address>,
    /// State of the bids; `None` matches any.
    pub state: Option<BidState>,
}

impl BidFilter {
    /// Returns whether the filter matches a bid.
    #[must_use]
    pub fn matches(&self, record: &Bid) -> bool {
        matches(self.order.as_ref(), &record.id.order)
            && matches(self.provider.as_ref(), &record.id.provider)
            && matches(self.state.as_ref(), &record.state)
    }
}

/// Filter of a query for leases. The default matches all leases.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeaseFilter {
    /// Provider of the leases; `None` matches any.
    pub provider: Option<Address>,
    /// Deployment of the leases; `None` matches any.
    pub deployment: Option<DeploymentId>,
    /// State of the leases; `None` matches any.
    pub state: Option<LeaseState>,
}

impl LeaseFilter {
    /// Returns whether the filter matches a lease.
    #[must_use]
    pub fn matches(&self, record: &LeaseRecord) -> bool {
        matches(self.provider.as_ref(), &record.lease.id.provider)
            && matches(self.deployment.as_ref(), record.lease.id.deployment())
            && matches(self.state.as_ref(), &record.lease.state)
    }
}

fn matches<T: PartialEq>(filter: Option<&T>, value: &T) -> bool {
    filter.is_none_or(|wanted| wanted == value)
}

/// Request for one page of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageRequest {
    /// Opaque key from the previous page; `None` for the first page.
    pub key: Option<Vec<u8>>,
    /// Maximum number of records; 0 for the default of the backend.
    pub limit: u32,
}

/// Page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// Records of the page, at most the requested number.
    pub items: Vec<T>,
    /// Key of the next page; `None` on the last page.
    pub next: Option<Vec<u8>>,
}

/// Default number of records per page, as on the Akash network.
const PAGE_DEFAULT: usize = 100;
/// Maximum number of records per page.
const PAGE_MAX: usize = 1000;

impl<T> Page<T> {
    /// Returns one page of records that are sorted by id. The limit is 100 by default and 1000 at most. The
    /// page key is the id of the last record, so that new and removed records do not shift the next page.
    ///
    /// # Errors
    /// Returns `Invalid` when the key was not returned by a previous page.
    pub fn from_sorted<I>(
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
                let wrong = "the page key was not returned by a previous page";
                Some(id.ok_or_else(|| Error::new(ErrorKind::Invalid, operation, wrong))?)
            }
        };
        let limit = match usize::try_from(request.limit) {
            Ok(0) => PAGE_DEFAULT,
            Ok(limit) => limit.min(PAGE_MAX),
            Err(_) => PAGE_MAX,
        };
        // Compared by order instead of searched, because the record that gave the key may be deleted.
        let mut rest = records.skip_while(|r| after.as_ref().is_some_and(|a| id(r) <= *a));
        let items: Vec<T> = rest.by_ref().take(limit).collect();
        // One more record is read to detect the last page.
        let more = rest.next().is_some();
        let last = items.last().filter(|_| more);
        let next = last.map(|r| id(r).to_string().into_bytes());
        Ok(Self { items, next })
    }
}

/// Status that a node reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncInfo {
    /// Chain id that the node reports.
    pub chain_id: String,
    /// Height of the newest block of the node.
    pub height: Height,
    /// Time of the newest block.
    pub time: BlockTime,
    /// True if the node still replays old blocks.
    pub catching_up: bool,
}

/// A chain account, with the data for signing its transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Bech32 address of the account.
    pub address: Address,
    /// Compressed secp256k1 public key; `None` before the first transaction of the account.
    pub pubkey: Option<Vec<u8>>,
    /// Account number on the chain, part of the signed bytes.
    pub number: u64,
    /// Sequence number of the next transaction. Each transaction increments the sequence.
    pub sequence: u64,
}

/// Queries of the chain.
///
/// # Contract
/// "Not found" is `Ok(None)` or an empty page. A failed query is an error, never an empty result. For an
/// incomplete record, the client returns [`Disputed`](crate::types::Agreement::Disputed), and the provider
/// closes no lease. Responses come from a node that has the configured chain id and is not catching up.
/// When the outcome of a transaction is known, queries return the changes of this transaction. The height in
/// [`Observed`] is then at least the height of the transaction. A provider record is returned exactly as the
/// provider sent it.
///
/// Each page has at most `limit` records. The pages contain every matching record once, and the number of
/// pages is finite. [`Page::from_sorted`] builds such pages. After `query_timeout`, the caller drops the
/// future of a query. `docs/writing-a-chain.md` describes how to implement this trait.
///
/// # Errors
/// Returns `Unavailable` or `Timeout` when no node responds, and `Invalid` when the query can never succeed.
#[async_trait]
#[auto_impl::auto_impl(Arc, Box)]
pub trait ChainQuery: fmt::Debug + Send + Sync + 'static {
    /// Returns the record of a provider, or `None` if the provider is not registered.
    async fn provider(&self, owner: &Address) -> Result<Option<ProviderRecord>, Error>;
    /// Returns one page of orders.
    async fn orders(&self, filter: &OrderFilter, page: PageRequest) -> Result<Page<Order>, Error>;
    /// Returns an order in any state, or `None` if no order has this id.
    async fn order(&self, id: &OrderId) -> Result<Option<Order>, Error>;
    /// Returns a bid. The result contains the height, and states whether the endpoints agree about the bid.
    async fn bid(&self, id: &BidId) -> Result<Observed<Bid>, Error>;
    /// Returns one page of bids.
    async fn bids(&self, filter: &BidFilter, page: PageRequest) -> Result<Page<Bid>, Error>;
    /// Returns a group in any state, or `None` if no group has this id.
    async fn group(&self, id: &GroupId) -> Result<Option<Group>, Error>;
    /// Returns a deployment with its groups, its escrow account, and its active and reclaiming leases.
    async fn deployment(&self, id: &DeploymentId) -> Result<Option<DeploymentRecord>, Error>;
    /// Returns a lease. The result contains the height, and states whether the endpoints agree about the
    /// lease.
    async fn lease(&self, id: &LeaseId) -> Result<Observed<LeaseRecord>, Error>;
    /// Returns one page of leases.
    async fn leases(&self, filter: &LeaseFilter, page: PageRequest) -> Result<Page<LeaseRecord>, Error>;
    /// Returns the provider attributes that an auditor has signed for `owner`, or `None` if no signed
    /// attributes exist.
    async fn auditor_attributes(
        &self,
        auditor: &str,
        owner: &Address,
    ) -> Result<Option<AuditedAttributes>, Error>;
    /// Returns all certificates of an account, or the certificate with the given serial number.
    async fn certificates(&self, owner: &Address, serial: Option<&str>) -> Result<Vec<Certificate>, Error>;
    /// Returns number, sequence and key of an account, or `None` if the account does not exist.
    async fn account(&self, address: &Address) -> Result<Option<Account>, Error>;
    /// Returns the current market parameters. Governance can change them at any height.
    async fn params(&self) -> Result<MarketParams, Error>;
    /// Returns the balance of an account in one denomination.
    async fn balance(&self, address: &Address, denom: &str) -> Result<Coin, Error>;
    /// Returns the time of a block, or `None` if no node has the block any more.
    async fn block_time(&self, height: Height) -> Result<Option<BlockTime>, Error>;
    /// Returns the sync status of the node that the client currently uses.
    async fn sync_info(&self) -> Result<SyncInfo, Error>;
    /// Returns the current state of all records of `provider`, all from one height.
    async fn snapshot(&self, provider: &Address) -> Result<Snapshot, Error>;
}

/// Transactions of the chain.
///
/// # Contract
/// Each call is one transaction: all its messages are executed, or none. The caller sends each bid in its own
/// transaction.
///
/// A call returns an error only if the transaction was certainly not sent. After any other failure, the
/// outcome is `Unknown`: a block can include the transaction until the transaction expires. A committed
/// transaction is durable. The caller may drop the future after `tx_timeout`. A block can still include the
/// sent transaction.
///
/// If the chain refuses a message, the reason is returned. A second bid on an order is
/// [`TxError::BidExists`](crate::types::TxError::BidExists), even after the first bid was closed. A message
/// for a bid that does not exist is [`TxError::UnknownBid`](crate::types::TxError::UnknownBid).
#[async_trait]
#[auto_impl::auto_impl(Arc, Box)]
pub trait ChainTx: fmt::Debug + Send + Sync + 'static {
    /// Sends messages as one transaction and waits for the outcome.
    ///
    /// # Errors
    /// Returns an error only if the transaction was certainly not sent.
    async fn broadcast_msgs(&self, msgs: Vec<Msg>) -> Result<TxOutcome, Error>;

    /// Finds the last [`ChainTx::broadcast_msgs`] call with this message, and returns the hash and the fee of
    /// its transaction. Returns `None` if this call sent no transaction, or if the client has no receipt.
    fn receipt_of(&self, _message: &Msg) -> Option<TxReceipt> {
        None
    }
}

/// Events of the chain.
///
/// # Contract
/// The first item, and the first item after every gap, is a `Resync`. Facts follow in the order of their
/// heights. `Block` ends each block, and contains the height and the time of the block.
/// [`ChainQuery::block_time`] returns the same time. A `Resync` is not older than previous events. The
/// `Resync` contains all open orders and the state that [`ChainQuery::snapshot`] returns, so a consumer needs
/// no further query. The stream ends only at shutdown. After an error item, a `Resync` follows eventually.
///
/// `Block` confirms that *all* facts of the block were sent. A block without facts also has a `Block`. An
/// implementation sends `Block` late rather than too early. After an interruption, an implementation may
/// repeat facts, but must not skip a block. The queue of a slow consumer is bounded, and a `Resync` replaces
/// the missed events.
#[auto_impl::auto_impl(Arc, Box)]
pub trait ChainEvents: fmt::Debug + Send + Sync + 'static {
    /// Subscribes to the events that concern `provider` (`ChainEvent::concerns`).
    fn subscribe(&self, provider: &Address) -> BoxStream<'static, Result<ChainEvent, Error>>;
}

/// Chain port: queries, transactions and events.
pub trait ChainClient: ChainQuery + ChainTx + ChainEvents {}

impl<T: ChainQuery + ChainTx + ChainEvents> ChainClient for T {}
