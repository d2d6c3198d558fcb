//! The whole chain client: what the reader hears is told to the writer, so that outcomes are known without asking.
//!
//! ```text
//!   nodes ──▶ Reader ── queries, events ──▶ provider
//!     ▲          │ every block it tells
//!     │          ▼
//!     └────── TxWriter ◀── messages ─────── provider
//! ```

use crate::endpoint::{BadEndpoint, shown_address};
use crate::endpoints::Endpoints;
use crate::events::{HeightStore, MemoryHeights, SeenTx, Settings, Witness};
use crate::gas::{MemorySpent, SpentStore};
use crate::limits::Limits;
use crate::private_key::PrivateKey;
use crate::reader::{Reader, ReaderStatus};
use crate::tls::Roots;
use crate::tx::PlannerConfig;
use crate::tx::api::{Code, Included};
use crate::tx::{Fence, SeenBlock, TxWriter, WriterStatus};
use akash_provider_core::chain::{
    Account, BidFilter, Certificate, ChainEvents, ChainQuery, ChainTx, LeaseFilter, OrderFilter, Page,
    PageRequest, SyncInfo,
};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::{
    Address, AuditedAttributes, Bid, BidId, BlockTime, ChainEvent, Coin, DeploymentId, DeploymentRecord,
    Group, GroupId, Height, LeaseId, LeaseRecord, MarketParams, Msg, Observed, Order, OrderId,
    ProviderRecord, Snapshot, TxOutcome,
};
use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a client is made from.
pub struct ClientSettings {
    /// Addresses of nodes, as [`Endpoints::new`] takes them.
    pub nodes: Vec<String>,
    /// The chain they all belong to.
    pub chain_id: String,
    /// Who vouches for nodes that are spoken to in TLS.
    pub roots: Roots,
    /// Signs transactions; without one the client only reads.
    pub key: Option<PrivateKey>,
    /// Keeps the last height over a restart.
    pub heights: Arc<dyn HeightStore>,
    /// Keeps what was paid in the last hour over a restart.
    pub spent: Arc<dyn SpentStore>,
    /// How transactions are sent. Its chain id is replaced by the one above.
    pub planner: PlannerConfig,
    /// What one answer may take.
    pub limits: Limits,
    /// How the chain is followed.
    pub follower: Settings,
}

impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<String> = self.nodes.iter().map(|node| shown_address(node)).collect();
        f.debug_struct("ClientSettings")
            .field("nodes", &nodes)
            .field("chain_id", &self.chain_id)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl ClientSettings {
    /// The usual settings, with no key, and nothing kept over a restart.
    pub fn new(nodes: Vec<String>, chain_id: impl Into<String>) -> Self {
        let chain_id = chain_id.into();
        Self {
            nodes,
            planner: PlannerConfig::new(chain_id.clone()),
            chain_id,
            roots: Roots::System,
            key: None,
            heights: Arc::new(MemoryHeights::default()),
            spent: Arc::new(MemorySpent::default()),
            limits: Limits::default(),
            follower: Settings::default(),
        }
    }
}

/// What a client does, as values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientStatus {
    /// Endpoints, and how the chain is followed.
    pub reader: ReaderStatus,
    /// Transactions; `None` for a client that only reads.
    pub writer: Option<WriterStatus>,
}

/// Queries, transactions and events over a set of nodes. A clone is the same client.
#[derive(Debug, Clone)]
pub struct AkashClient {
    reader: Reader,
    writer: Option<TxWriter>,
    fence: Option<Fence>,
}

/// Passes blocks on to the writer.
#[derive(Debug)]
struct ToWriter {
    writer: TxWriter,
    chain_id: String,
}

impl Witness for ToWriter {
    fn saw(&self, height: Height, time: BlockTime, is_newest: bool, txs: Option<Vec<SeenTx>>) {
        let block = SyncInfo {
            chain_id: self.chain_id.clone(),
            height,
            time,
            catching_up: false,
        };
        let included = |tx: SeenTx| {
            // Codes have 32 bits. What does not fit is a failure all the same.
            let code = u32::try_from(tx.code).unwrap_or(u32::MAX);
            let included = Included {
                height,
                failure: (tx.code != 0).then(|| Code::new(tx.codespace, code)),
                log: tx.log,
                gas_used: tx.gas_used,
            };
            (tx.hash, included)
        };
        self.writer.observe_block(SeenBlock {
            block,
            is_newest,
            included: txs.map(|txs| txs.into_iter().map(included).collect()),
        });
    }
}

impl AkashClient {
    /// A client, and its task: run it until it ends, which it does when `stop` is cancelled. Nothing is connected
    /// yet, so the nodes may be down.
    ///
    /// # Errors
    /// When an address cannot be an endpoint, or there is none.
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
        let Some(key) = settings.key else {
            let client = Self {
                reader,
                writer: None,
                fence: None,
            };
            // A reader has nothing to run; its task ends like that of a writer, so callers treat both alike.
            return Ok((client, Box::pin(async move { stop.cancelled().await })));
        };
        let reader = reader.with_account(key.address().clone());
        let planner = PlannerConfig {
            chain_id: settings.chain_id.clone(),
            ..settings.planner
        };
        let (writer, task) = TxWriter::new(Arc::new(reader.clone()), key, planner, settings.spent, stop);
        let witness = ToWriter {
            writer: writer.clone(),
            chain_id: settings.chain_id,
        };
        let client = Self {
            reader: reader.with_witness(Arc::new(witness)),
            writer: Some(writer),
            fence: None,
        };
        Ok((client, task))
    }

    /// The reading half: queries and events, no transactions.
    #[must_use]
    pub const fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Returns the same client, which signs only while `may_send` returns true. For a provider with several instances: one
    /// that was suspended may have been deposed meanwhile.
    #[must_use]
    pub fn fenced(&self, may_send: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            fence: Some(Fence::new(may_send)),
            ..self.clone()
        }
    }

    /// What is being done, and how well.
    #[must_use]
    pub fn status(&self) -> ClientStatus {
        ClientStatus {
            reader: self.reader.status(),
            writer: self.writer.as_ref().map(TxWriter::status),
        }
    }
}

#[async_trait]
impl ChainTx for AkashClient {
    async fn broadcast_msgs(&self, msgs: Vec<Msg>) -> Result<TxOutcome, Error> {
        let Some(writer) = &self.writer else {
            let message = "no key was given, so nothing can be signed: start with the key of the account";
            return Err(Error::new(ErrorKind::Denied, "broadcast", message));
        };
        writer.broadcast_fenced(msgs, self.fence.clone()).await
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
