//! Chain client that uses gRPC for everything except blocks, which gRPC does not provide.

use akash_provider_chain::endpoints::Endpoints;
use akash_provider_chain::gas::MemoryExpenses;
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_chain::tx::PlannerConfig;
use akash_provider_chain::tx::TxSigner;
use akash_provider_chain::tx::TxWriter;
use akash_provider_chain::{EndpointLimits, FollowerSettings, Reader};
use akash_provider_core::chain::{
    Account, BidFilter, Certificate, ChainEvents, ChainQuery, ChainTx, LeaseFilter, OrderFilter, Page,
    PageRequest, SyncInfo,
};
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::error::Error;
use akash_provider_core::types::{
    Address, AuditedAttributes, Bid, BidId, BlockTime, ChainEvent, Coin, DeploymentId, DeploymentRecord,
    Group, GroupId, Height, LeaseId, LeaseRecord, MarketParams, Msg, Observed, Order, OrderId,
    ProviderRecord, Snapshot, TxOutcome,
};
use async_trait::async_trait;
use futures::stream::BoxStream;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Client with one address for queries and transactions, and another for events.
#[derive(Debug)]
pub(crate) struct WireClient {
    queries: Reader,
    events: Reader,
    writer: TxWriter,
    _ends: DropGuard,
}

/// Returns a reader for the node at `address`, with intervals that fit the short block time.
pub(crate) fn reader(address: &str, chain_id: &str) -> Reader {
    let mut limits = EndpointLimits::default();
    limits.health_age = Duration::from_millis(200);
    let endpoints = Endpoints::new(&[address], chain_id, limits).unwrap();
    let mut settings = FollowerSettings::default();
    settings.poll_interval = Duration::from_millis(50);
    Reader::new(endpoints).with_settings(settings)
}

impl WireClient {
    pub(crate) fn start(queries: &str, events: &str, chain_id: &str, key: PrivateKey) -> Self {
        let stop = CancellationToken::new();
        let queries = reader(queries, chain_id);
        let mut config = PlannerConfig::new(chain_id);
        config.poll = Duration::from_millis(30);
        let spent = Arc::new(MemoryExpenses::default());
        let (writer, task) = TxWriter::new(
            Arc::new(queries.clone()),
            TxSigner::new(key, LeadershipGate::new(true)),
            config,
            spent,
            stop.clone(),
        );
        tokio::spawn(task);
        Self {
            events: reader(events, chain_id),
            queries,
            writer,
            _ends: stop.drop_guard(),
        }
    }
}

#[async_trait]
impl ChainQuery for WireClient {
    async fn provider(&self, owner: &Address) -> Result<Option<ProviderRecord>, Error> {
        self.queries.provider(owner).await
    }
    async fn orders(&self, filter: &OrderFilter, page: PageRequest) -> Result<Page<Order>, Error> {
        self.queries.orders(filter, page).await
    }
    async fn order(&self, id: &OrderId) -> Result<Option<Order>, Error> {
        self.queries.order(id).await
    }
    async fn bid(&self, id: &BidId) -> Result<Observed<Bid>, Error> {
        self.queries.bid(id).await
    }
    async fn bids(&self, filter: &BidFilter, page: PageRequest) -> Result<Page<Bid>, Error> {
        self.queries.bids(filter, page).await
    }
    async fn group(&self, id: &GroupId) -> Result<Option<Group>, Error> {
        self.queries.group(id).await
    }
    async fn deployment(&self, id: &DeploymentId) -> Result<Option<DeploymentRecord>, Error> {
        self.queries.deployment(id).await
    }
    async fn lease(&self, id: &LeaseId) -> Result<Observed<LeaseRecord>, Error> {
        self.queries.lease(id).await
    }
    async fn leases(&self, filter: &LeaseFilter, page: PageRequest) -> Result<Page<LeaseRecord>, Error> {
        self.queries.leases(filter, page).await
    }
    async fn auditor_attributes(
        &self,
        auditor: &str,
        owner: &Address,
    ) -> Result<Option<AuditedAttributes>, Error> {
        self.queries.auditor_attributes(auditor, owner).await
    }
    async fn certificates(&self, owner: &Address, serial: Option<&str>) -> Result<Vec<Certificate>, Error> {
        self.queries.certificates(owner, serial).await
    }
    async fn account(&self, address: &Address) -> Result<Option<Account>, Error> {
        ChainQuery::account(&self.queries, address).await
    }
    async fn params(&self) -> Result<MarketParams, Error> {
        self.queries.params().await
    }
    async fn balance(&self, address: &Address, denom: &str) -> Result<Coin, Error> {
        self.queries.balance(address, denom).await
    }
    async fn block_time(&self, height: Height) -> Result<Option<BlockTime>, Error> {
        self.queries.block_time(height).await
    }
    async fn sync_info(&self) -> Result<SyncInfo, Error> {
        ChainQuery::sync_info(&self.queries).await
    }
    async fn snapshot(&self, provider: &Address) -> Result<Snapshot, Error> {
        self.queries.snapshot(provider).await
    }
}

#[async_trait]
impl ChainTx for WireClient {
    async fn broadcast_msgs(&self, msgs: Vec<Msg>) -> Result<TxOutcome, Error> {
        self.writer.broadcast_msgs(msgs).await
    }
}

impl ChainEvents for WireClient {
    fn subscribe(&self, provider: &Address) -> BoxStream<'static, Result<ChainEvent, Error>> {
        self.events.subscribe(provider)
    }
}
