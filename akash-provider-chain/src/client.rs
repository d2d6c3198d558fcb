//! Complete chain client. The reader forwards each block to the writer. The writer finds the outcomes of its
//! transactions in the blocks.
//!
//! ```text
//!   nodes ──▶ Reader ── queries, events ──▶ provider
//!     ▲          │ each block
//!     │          ▼
//!     └────── TxWriter ◀── messages ─────── provider
//! ```

use crate::endpoint::{BadEndpoint, redact_address};
use crate::endpoints::{EndpointStatistics, Endpoints};
use crate::events::{BlockObserver, BlockTx, FollowerSettings, HeightStore, MemoryHeights};
use crate::gas::{ExpenseStore, MemoryExpenses};
use crate::limits::EndpointLimits;
use crate::reader::{Reader, ReaderStatus};
use crate::tls::Roots;
use crate::tx::PlannerConfig;
use crate::tx::api::{Code, IncludedTx};
use crate::tx::{ObservedBlock, TxSigner, TxStatistics, TxWriter, WriterStatus};
use akash_provider_core::chain::{
    Account, BidFilter, Certificate, ChainEvents, ChainQuery, ChainTx, LeaseFilter, OrderFilter, Page,
    PageRequest, SyncInfo,
};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::{
    Address, AuditedAttributes, Bid, BidId, BlockTime, ChainEvent, Coin, DeploymentId, DeploymentRecord,
    Group, GroupId, Height, LeaseId, LeaseRecord, MarketParams, Msg, Observed, Order, OrderId,
    ProviderRecord, Snapshot, TxOutcome, TxReceipt,
};
use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Settings of a chain client.
#[non_exhaustive]
pub struct ClientSettings {
    /// Addresses of nodes, in the format of [`Endpoints::new`].
    pub nodes: Vec<String>,
    /// Chain id that all nodes must report.
    pub chain_id: String,
    /// Trusted root certificates for TLS connections to nodes.
    pub roots: Roots,
    /// Signer of transactions. Without a signer, the client can only read.
    pub signer: Option<TxSigner>,
    /// Store of the last processed height. The client loads this height after a restart.
    pub heights: Arc<dyn HeightStore>,
    /// Store of the gas limits and fees of the last hour. The client loads this data after a restart.
    pub expenses: Arc<dyn ExpenseStore>,
    /// Settings for sending transactions. The client replaces the chain id in these settings with
    /// [`Self::chain_id`].
    pub planner: PlannerConfig,
    /// Limits for requests to nodes and for the responses.
    pub limits: EndpointLimits,
    /// Settings of the event follower.
    pub follower: FollowerSettings,
}

impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<String> = self.nodes.iter().map(|node| redact_address(node)).collect();
        f.debug_struct("ClientSettings")
            .field("nodes", &nodes)
            .field("chain_id", &self.chain_id)
            .field("signer", &self.signer)
            .finish_non_exhaustive()
    }
}

impl ClientSettings {
    /// Creates default settings: no signer, and in-memory stores.
    pub fn new(nodes: Vec<String>, chain_id: impl Into<String>) -> Self {
        let chain_id = chain_id.into();
        Self {
            nodes,
            planner: PlannerConfig::new(chain_id.clone()),
            chain_id,
            roots: Roots::System,
            signer: None,
            heights: Arc::new(MemoryHeights::default()),
            expenses: Arc::new(MemoryExpenses::default()),
            limits: EndpointLimits::default(),
            follower: FollowerSettings::default(),
        }
    }
}

/// Status of a chain client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientStatus {
    /// Status of the endpoints and the event follower.
    pub reader: ReaderStatus,
    /// Status of transactions. `None` for a client without a signer.
    pub writer: Option<WriterStatus>,
}

/// Counters of a chain client since the start of the process. [`ClientStatus`] contains the counters of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientStatistics {
    /// Statistics of the requests to each endpoint, in the order of the addresses.
    pub endpoints: Vec<EndpointStatistics>,
    /// Statistics of the sent transactions. `None` for a client without a signer.
    pub transactions: Option<TxStatistics>,
}

/// Client of a set of nodes, for queries, transactions and events. Clones share all state.
#[derive(Debug, Clone)]
pub struct AkashClient {
    reader: Reader,
    writer: Option<TxWriter>,
}

/// Observer that forwards each block from the reader to the writer.
#[derive(Debug)]
struct BlockForwarder {
    writer: TxWriter,
    chain_id: String,
}

impl BlockObserver for BlockForwarder {
    fn observe(&self, height: Height, time: BlockTime, is_newest: bool, txs: Option<Vec<BlockTx>>) {
        let block = SyncInfo {
            chain_id: self.chain_id.clone(),
            height,
            time,
            catching_up: false,
        };
        let included = |tx: BlockTx| {
            // Codes have 32 bits. A larger value is a failure too.
            let code = u32::try_from(tx.code).unwrap_or(u32::MAX);
            let included = IncludedTx {
                height,
                failure: (tx.code != 0).then(|| Code::new(tx.codespace, code)),
                log: tx.log,
                gas_used: tx.gas_used,
            };
            (tx.hash, included)
        };
        self.writer.observe_block(ObservedBlock {
            block,
            is_newest,
            included: txs.map(|txs| txs.into_iter().map(included).collect()),
        });
    }
}

impl AkashClient {
    /// Creates a client and its task. The caller runs the task, which ends after `stop` is cancelled.
    ///
    /// No connection is opened, so the nodes need not be reachable.
    ///
    /// # Errors
    /// Returns an error if an address is invalid, or if `settings` contains no address.
    pub fn start(
        settings: ClientSettings,
        stop: CancellationToken,
    ) -> Result<(Self, BoxFuture<'static, ()>), BadEndpoint> {
        let ClientSettings {
            nodes, limits, roots, ..
        } = &settings;
        let endpoints = Endpoints::with_roots(nodes, &settings.chain_id, *limits, roots)?;
        let reader = Reader::new(endpoints)
            .with_heights(settings.heights)
            .with_settings(settings.follower);
        let Some(signer) = settings.signer else {
            let client = Self { reader, writer: None };
            // A client without a signer has no work, but its task ends as the task of a writer does, so callers treat
            // both alike.
            return Ok((client, Box::pin(async move { stop.cancelled().await })));
        };
        let reader = reader.with_account(signer.address().clone());
        let planner = PlannerConfig {
            chain_id: settings.chain_id.clone(),
            ..settings.planner
        };
        let (writer, task) =
            TxWriter::new(Arc::new(reader.clone()), signer, planner, settings.expenses, stop);
        let observer = BlockForwarder {
            writer: writer.clone(),
            chain_id: settings.chain_id,
        };
        let client = Self {
            reader: reader.with_observer(Arc::new(observer)),
            writer: Some(writer),
        };
        Ok((client, task))
    }

    /// Returns the read-only part of the client: queries and events.
    #[must_use]
    pub const fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Returns the status of the client.
    #[must_use]
    pub fn status(&self) -> ClientStatus {
        ClientStatus {
            reader: self.reader.status(),
            writer: self.writer.as_ref().map(TxWriter::status),
        }
    }

    /// Returns the counters of requests and transactions.
    #[must_use]
    pub fn statistics(&self) -> ClientStatistics {
        ClientStatistics {
            endpoints: self.reader.endpoints().statistics(),
            transactions: self.writer.as_ref().map(TxWriter::statistics),
        }
    }
}

#[async_trait]
impl ChainTx for AkashClient {
    async fn broadcast_msgs(&self, msgs: Vec<Msg>) -> Result<TxOutcome, Error> {
        let Some(writer) = &self.writer else {
            let message = "cannot sign without a key: start the client with the signer of the account";
            return Err(Error::new(ErrorKind::Denied, "broadcast", message));
        };
        writer.broadcast_msgs(msgs).await
    }

    fn receipt_of(&self, message: &Msg) -> Option<TxReceipt> {
        self.writer.as_ref()?.receipt_of(message)
    }
}

impl ChainEvents for AkashClient {
    fn subscribe(&self, provider: &Address) -> BoxStream<'static, Result<ChainEvent, Error>> {
        self.reader.subscribe(provider)
    }
}

#[async_trait]
impl ChainQuery for AkashClient {
    async fn provider(&self, owner: &Address) -> Result<Option<ProviderRecord>, Error> {
        self.reader.provider(owner).await
    }

    async fn orders(&self, filter: &OrderFilter, page: PageRequest) -> Result<Page<Order>, Error> {
        self.reader.orders(filter, page).await
    }

    async fn order(&self, id: &OrderId) -> Result<Option<Order>, Error> {
        self.reader.order(id).await
    }

    async fn bid(&self, id: &BidId) -> Result<Observed<Bid>, Error> {
        self.reader.bid(id).await
    }

    async fn bids(&self, filter: &BidFilter, page: PageRequest) -> Result<Page<Bid>, Error> {
        self.reader.bids(filter, page).await
    }

    async fn group(&self, id: &GroupId) -> Result<Option<Group>, Error> {
        self.reader.group(id).await
    }

    async fn deployment(&self, id: &DeploymentId) -> Result<Option<DeploymentRecord>, Error> {
        self.reader.deployment(id).await
    }

    async fn lease(&self, id: &LeaseId) -> Result<Observed<LeaseRecord>, Error> {
        self.reader.lease(id).await
    }

    async fn leases(&self, filter: &LeaseFilter, page: PageRequest) -> Result<Page<LeaseRecord>, Error> {
        self.reader.leases(filter, page).await
    }

    async fn auditor_attributes(
        &self,
        auditor: &str,
        owner: &Address,
    ) -> Result<Option<AuditedAttributes>, Error> {
        self.reader.auditor_attributes(auditor, owner).await
    }

    async fn certificates(&self, owner: &Address, serial: Option<&str>) -> Result<Vec<Certificate>, Error> {
        self.reader.certificates(owner, serial).await
    }

    async fn account(&self, address: &Address) -> Result<Option<Account>, Error> {
        ChainQuery::account(&self.reader, address).await
    }

    async fn params(&self) -> Result<MarketParams, Error> {
        self.reader.params().await
    }

    async fn balance(&self, address: &Address, denom: &str) -> Result<Coin, Error> {
        self.reader.balance(address, denom).await
    }

    async fn block_time(&self, height: Height) -> Result<Option<BlockTime>, Error> {
        self.reader.block_time(height).await
    }

    async fn sync_info(&self) -> Result<SyncInfo, Error> {
        ChainQuery::sync_info(&self.reader).await
    }

    async fn snapshot(&self, provider: &Address) -> Result<Snapshot, Error> {
        self.reader.snapshot(provider).await
    }
}

#[cfg(test)]
mod tests;
