//! Mocks of the ports by `mockall`, for tests of the kind "this call is made once".
//!
//! Behaviour is better tested on the memory backends: [`MemoryChain`](crate::chain::MemoryChain),
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

use crate::bus::{Bus, EventStream};
use crate::chain::{
    Account, BidFilter, Certificate, ChainEvents, ChainQuery, ChainTx, LeaseFilter, OrderFilter, Page,
    PageRequest, SyncInfo,
};
use crate::cluster::{
    Cluster, ClusterChange, DeclaredHostname, EventOptions, ExecIo, ExecRequest, ForwardedPort,
    HostnameDeclaration, Hostnames, IpDeclaration, LeaseEvent, LeaseStatus, LeasedIps, Listing, LogLine,
    LogOptions, ServiceStatus, Shell, Teardown, WorkloadSpec,
};
use crate::error::Error;
use crate::inventory::{InventorySource, InventoryUpdate, LeasedIpUsage};
use crate::manifest::Group;
use crate::pricing::{PriceRequest, PricingStrategy};
use crate::types::{
    Address, AuditedAttributes, Bid, BidId, BlockTime, ChainEvent, Coin, DecCoin, DeploymentId,
    DeploymentRecord, Event, GroupId, Height, LeaseId, LeaseRecord, MarketParams, Msg, Observed, Order,
    OrderId, ProviderRecord, Snapshot, Topic, TxOutcome,
};
use async_trait::async_trait;
use futures::stream::BoxStream;
use mockall::mock;
use std::collections::BTreeMap;
use std::sync::Arc;

mock! {
    /// A mock of the cluster.
    #[derive(Debug)]
    pub Cluster {}

    #[async_trait]
    impl Cluster for Cluster {
        async fn deploy(&self, deployment: &WorkloadSpec) -> Result<(), Error>;
        async fn record(&self, deployment: &WorkloadSpec) -> Result<(), Error>;
        fn changes(&self) -> BoxStream<'static, Result<ClusterChange, Error>>;
        async fn teardown_lease(&self, lease: &LeaseId) -> Result<Teardown, Error>;
        async fn deployments(&self) -> Result<Listing, Error>;
        async fn manifest_group(&self, lease: &LeaseId) -> Result<Option<Arc<Group>>, Error>;
        async fn lease_status(&self, lease: &LeaseId) -> Result<LeaseStatus, Error>;
        async fn service_status(&self, lease: &LeaseId, service: &str) -> Result<ServiceStatus, Error>;
        async fn forwarded_port_status(
            &self,
            lease: &LeaseId,
        ) -> Result<BTreeMap<String, Vec<ForwardedPort>>, Error>;
        async fn lease_logs(
            &self,
            lease: &LeaseId,
            options: LogOptions,
        ) -> Result<BoxStream<'static, Result<LogLine, Error>>, Error>;
        async fn lease_events(
            &self,
            lease: &LeaseId,
            options: EventOptions,
        ) -> Result<BoxStream<'static, Result<LeaseEvent, Error>>, Error>;
        async fn version(&self) -> Result<String, Error>;
        fn hostnames(&self) -> Option<Arc<dyn Hostnames>>;
        fn leased_ips(&self) -> Option<Arc<dyn LeasedIps>>;
        fn shell(&self) -> Option<Arc<dyn Shell>>;
    }
}

mock! {
    /// A mock of the hostname facet.
    #[derive(Debug)]
    pub Hostnames {}

    #[async_trait]
    impl Hostnames for Hostnames {
        async fn declare_hostname(&self, lease: &LeaseId, name: &HostnameDeclaration) -> Result<(), Error>;
        async fn purge_declared_hostname(&self, lease: &LeaseId, hostname: &str) -> Result<(), Error>;
        async fn purge_declared_hostnames(&self, lease: &LeaseId) -> Result<(), Error>;
        async fn all_hostnames(&self) -> Result<Vec<DeclaredHostname>, Error>;
    }
}

mock! {
    /// A mock of the leased-IP facet.
    #[derive(Debug)]
    pub LeasedIps {}

    #[async_trait]
    impl LeasedIps for LeasedIps {
        async fn declare_ip(
            &self,
            lease: &LeaseId,
            ip: &IpDeclaration,
            overwrite: bool,
        ) -> Result<(), Error>;
        async fn purge_declared_ip(&self, lease: &LeaseId, ip: &IpDeclaration) -> Result<(), Error>;
        async fn purge_declared_ips(&self, lease: &LeaseId) -> Result<(), Error>;
        async fn declared_ips(&self, lease: &LeaseId) -> Result<Vec<IpDeclaration>, Error>;
        async fn usage(&self) -> Result<LeasedIpUsage, Error>;
    }
}

mock! {
    /// A mock of the shell facet.
    #[derive(Debug)]
    pub Shell {}

    #[async_trait]
    impl Shell for Shell {
        async fn exec(&self, lease: &LeaseId, request: ExecRequest, io: ExecIo) -> Result<i32, Error>;
    }
}

mock! {
    /// A mock of the bus.
    #[derive(Debug)]
    pub Bus {}

    #[async_trait]
    impl Bus for Bus {
        async fn publish(&self, topic: Topic, event: Arc<Event>) -> Result<(), Error>;
        async fn subscribe(&self, topics: &[Topic]) -> Result<EventStream, Error>;
        async fn last(&self, topic: Topic) -> Result<Option<Arc<Event>>, Error>;
    }
}

mock! {
    /// A mock of a pricing strategy.
    #[derive(Debug)]
    pub PricingStrategy {}

    #[async_trait]
    impl PricingStrategy for PricingStrategy {
        async fn calculate_price(&self, request: &PriceRequest) -> Result<DecCoin, Error>;
    }
}

mock! {
    /// A mock of what watches capacity.
    #[derive(Debug)]
    pub InventorySource {}

    impl InventorySource for InventorySource {
        fn watch(&self) -> BoxStream<'static, Result<InventoryUpdate, Error>>;
    }
}

mock! {
    /// A mock of the whole chain port.
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
    }

    impl ChainEvents for ChainClient {
        fn subscribe(&self, provider: &Address) -> BoxStream<'static, Result<ChainEvent, Error>>;
    }
}

#[cfg(test)]
mod tests;
