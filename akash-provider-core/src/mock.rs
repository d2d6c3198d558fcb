//! Mocks of the ports by `mockall`, for tests of single calls. Each mock is generated beside its port. The
//! mock of the chain is defined here, because one client implements three traits.
//!
//! Use the in-memory backends to test behavior: [`MemoryChain`](crate::chain::MemoryChain),
//! [`MemoryCluster`](crate::cluster::MemoryCluster) and [`LocalBus`](crate::bus::LocalBus).
//!
//! ```
//! use akash_provider_core::cluster::{Cluster, Teardown};
//! use akash_provider_core::mock::MockCluster;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut cluster = MockCluster::new();
//! cluster.expect_teardown_lease().once().returning(|_| Ok(Teardown::Done));
//! let owner = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
//! let provider = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
//! let lease = format!("{owner}/1/1/1/{provider}").parse()?;
//! assert_eq!(cluster.teardown_lease(&lease).await?, Teardown::Done);
//! # Ok(()) }
//! ```
#![allow(
    missing_docs,
    reason = "the methods of a mock are generated; the ports describe them"
)]

use crate::chain::{
    Account, BidFilter, Certificate, ChainEvents, ChainQuery, ChainTx, LeaseFilter, OrderFilter, Page,
    PageRequest, SyncInfo,
};
use crate::error::Error;
use crate::types::{
    Address, AuditedAttributes, Bid, BidId, BlockTime, ChainEvent, Coin, DeploymentId, DeploymentRecord,
    GroupId, Height, LeaseId, LeaseRecord, MarketParams, Msg, Observed, Order, OrderId, ProviderRecord,
    Snapshot, TxOutcome, TxReceipt,
};
use async_trait::async_trait;
use futures::stream::BoxStream;
use mockall::mock;

pub use crate::bus::MockBus;
pub use crate::cluster::{MockCluster, MockHostnames, MockLeasedIps, MockShell};
pub use crate::inventory::MockInventorySource;
pub use crate::pricing::MockPricingStrategy;

mock! {
    /// Mock of the whole chain port.
    #[derive(Debug)]
    pub ChainClient {}

    #[async_trait]
    impl ChainQuery for ChainClient {
        async fn provider(&self, owner: &Address) -> Result<Option<ProviderRecord>, Error>;
        async fn orders(&self, filter: &OrderFilter, page: PageRequest) -> Result<Page<Order>, Error>;
        async fn order(&self, id: &OrderId) -> Result<Option<Order>, Error>;
        async fn bid(&self, id: &BidId) -> Result<Observed<Bid>, Error>;
        async fn bids(&self, filter: &BidFilter, page: PageRequest) -> Result<Page<Bid>, Error>;
        async fn group(&self, id: &GroupId) -> Result<Option<crate::types::Group>, Error>;
        async fn deployment(&self, id: &DeploymentId) -> Result<Option<DeploymentRecord>, Error>;
        async fn lease(&self, id: &LeaseId) -> Result<Observed<LeaseRecord>, Error>;
        async fn leases(&self, filter: &LeaseFilter, page: PageRequest) -> Result<Page<LeaseRecord>, Error>;
        async fn auditor_attributes(
            &self,
            auditor: &str,
            owner: &Address,
        ) -> Result<Option<AuditedAttributes>, Error>;
        async fn certificates<'s, 'o, 'a>(
            &'s self,
            owner: &'o Address,
            serial: Option<&'a str>,
        ) -> Result<Vec<Certificate>, Error>;
        async fn account(&self, address: &Address) -> Result<Option<Account>, Error>;
        async fn params(&self) -> Result<MarketParams, Error>;
        async fn balance(&self, address: &Address, denom: &str) -> Result<Coin, Error>;
        async fn block_time(&self, height: Height) -> Result<Option<BlockTime>, Error>;
        async fn sync_info(&self) -> Result<SyncInfo, Error>;
        async fn snapshot(&self, provider: &Address) -> Result<Snapshot, Error>;
    }

    #[async_trait]
    impl ChainTx for ChainClient {
        async fn broadcast_msgs(&self, msgs: Vec<Msg>) -> Result<TxOutcome, Error>;
        fn receipt_of(&self, message: &Msg) -> Option<TxReceipt>;
    }

    impl ChainEvents for ChainClient {
        fn subscribe(&self, provider: &Address) -> BoxStream<'static, Result<ChainEvent, Error>>;
    }
}

#[cfg(test)]
mod tests;
