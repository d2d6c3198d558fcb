//! Every async port is also implemented by `Arc` and `Box` of it, so that a wrapper, a shared backend or a
//! `dyn` one can be handed over as it is. (Pricing forwards in its own room.)

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
use crate::types::{
    Address, AuditedAttributes, Bid, BidId, BlockTime, ChainEvent, Coin, DeploymentId, DeploymentRecord,
    Event, GroupId, Height, LeaseId, LeaseRecord, MarketParams, Msg, Observed, Order, OrderId,
    ProviderRecord, Snapshot, Topic, TxOutcome,
};
use async_trait::async_trait;
use futures::stream::BoxStream;
use std::collections::BTreeMap;
use std::sync::Arc;

type Ports = BTreeMap<String, Vec<ForwardedPort>>;
type Items<T> = BoxStream<'static, Result<T, Error>>;

macro_rules! forward {
    ($pointer:ident; async $port:ident {
        $(async fn $call:ident($($arg:ident: $of:ty),*) -> $out:ty;)*
        $(fn $plain:ident($($plain_arg:ident: $plain_of:ty),*) -> $plain_out:ty;)*
    }) => {
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<T: $port + ?Sized> $port for $pointer<T> {
            $(async fn $call(&self, $($arg: $of),*) -> Result<$out, Error> {
                (**self).$call($($arg),*).await
            })*
            $(fn $plain(&self, $($plain_arg: $plain_of),*) -> $plain_out {
                (**self).$plain($($plain_arg),*)
            })*
        }
    };
}

macro_rules! forward_ports {
    ($($pointer:ident)*) => {$(
        forward! { $pointer; async Cluster {
            async fn deploy(deployment: &WorkloadSpec) -> ();
            async fn record(deployment: &WorkloadSpec) -> ();
            async fn teardown_lease(lease: &LeaseId) -> Teardown;
            async fn deployments() -> Listing;
            async fn manifest_group(lease: &LeaseId) -> Option<Arc<Group>>;
            async fn lease_status(lease: &LeaseId) -> LeaseStatus;
            async fn service_status(lease: &LeaseId, service: &str) -> ServiceStatus;
            async fn forwarded_port_status(lease: &LeaseId) -> Ports;
            async fn lease_logs(lease: &LeaseId, options: LogOptions) -> Items<LogLine>;
            async fn lease_events(lease: &LeaseId, options: EventOptions) -> Items<LeaseEvent>;
            async fn version() -> String;
            fn changes() -> Items<ClusterChange>;
            fn hostnames() -> Option<Arc<dyn Hostnames>>;
            fn leased_ips() -> Option<Arc<dyn LeasedIps>>;
            fn shell() -> Option<Arc<dyn Shell>>;
        } }
        forward! { $pointer; async Hostnames {
            async fn declare_hostname(lease: &LeaseId, name: &HostnameDeclaration) -> ();
            async fn purge_declared_hostname(lease: &LeaseId, hostname: &str) -> ();
            async fn purge_declared_hostnames(lease: &LeaseId) -> ();
            async fn all_hostnames() -> Vec<DeclaredHostname>;
        } }
        forward! { $pointer; async LeasedIps {
            async fn declare_ip(lease: &LeaseId, ip: &IpDeclaration, overwrite: bool) -> ();
            async fn purge_declared_ip(lease: &LeaseId, ip: &IpDeclaration) -> ();
            async fn purge_declared_ips(lease: &LeaseId) -> ();
            async fn declared_ips(lease: &LeaseId) -> Vec<IpDeclaration>;
            async fn usage() -> LeasedIpUsage;
        } }
        forward! { $pointer; async Shell {
            async fn exec(lease: &LeaseId, request: ExecRequest, io: ExecIo) -> i32;
        } }
        forward! { $pointer; async ChainQuery {
            async fn provider(owner: &Address) -> Option<ProviderRecord>;
            async fn orders(filter: &OrderFilter, page: PageRequest) -> Page<Order>;
            async fn order(id: &OrderId) -> Option<Order>;
            async fn bid(id: &BidId) -> Observed<Bid>;
            async fn bids(filter: &BidFilter, page: PageRequest) -> Page<Bid>;
            async fn group(id: &GroupId) -> Option<crate::types::Group>;
            async fn deployment(id: &DeploymentId) -> Option<DeploymentRecord>;
            async fn lease(id: &LeaseId) -> Observed<LeaseRecord>;
            async fn leases(filter: &LeaseFilter, page: PageRequest) -> Page<LeaseRecord>;
            async fn auditor_attributes(auditor: &str, owner: &Address) -> Option<AuditedAttributes>;
            async fn certificates(owner: &Address, serial: Option<&str>) -> Vec<Certificate>;
            async fn account(address: &Address) -> Option<Account>;
            async fn params() -> MarketParams;
            async fn balance(address: &Address, denom: &str) -> Coin;
            async fn block_time(height: Height) -> Option<BlockTime>;
            async fn sync_info() -> SyncInfo;
            async fn snapshot(provider: &Address) -> Snapshot;
        } }
        forward! { $pointer; async ChainTx {
            async fn broadcast_msgs(msgs: Vec<Msg>) -> TxOutcome;
        } }
        forward! { $pointer; async Bus {
            async fn publish(topic: Topic, event: Arc<Event>) -> ();
            async fn subscribe(topics: &[Topic]) -> EventStream;
            async fn last(topic: Topic) -> Option<Arc<Event>>;
        } }
        #[deny(clippy::missing_trait_methods)]
        impl<T: ChainEvents + ?Sized> ChainEvents for $pointer<T> {
            fn subscribe(&self, provider: &Address) -> Items<ChainEvent> {
                (**self).subscribe(provider)
            }
        }
        #[deny(clippy::missing_trait_methods)]
        impl<T: InventorySource + ?Sized> InventorySource for $pointer<T> {
            fn watch(&self) -> Items<InventoryUpdate> {
                (**self).watch()
            }
        }
    )*};
}
forward_ports!(Arc Box);
