//! Small scripted ports and a scripted brain for the shell's own tests.

use super::*;
use crate::bus::EventStream;
use crate::chain::{
    Account, BidFilter, Certificate, ChainEvents, ChainQuery, ChainTx, LeaseFilter, OrderFilter, Page,
    PageRequest, SyncInfo,
};
use crate::cluster::{
    Cluster, ClusterChange, DeclaredHostname, Deployment, EventOptions, ForwardedPort, HostnameDeclaration,
    Hostnames, IpDeclaration, LeaseEvent, LeaseStatus, LeasedIps, LogLine, LogOptions, ServiceStatus, Shell,
    Teardown,
};
use crate::inventory::{
    AdjustOptions, Allocation, InsufficientCapacity, Inventory, InventoryUpdate, LeasedIpUsage, Metrics,
};
use crate::manifest::Group;
use crate::pricing::{PriceRequest, PricingStrategy};
use crate::types::{
    Address, AuditedAttributes, Bid, BidId, Coin, DecCoin, DeploymentId, DeploymentRecord, Event, Group as G,
    GroupId, Height, LeaseRecord, MarketParams, Msg, Observed, Order, OrderId, Provider, ResourceUnit,
    Snapshot, Topic, TxOutcome,
};
use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

pub(crate) const CHAIN_ID: &str = "testing";

pub(crate) fn lease(dseq: u64) -> LeaseId {
    let text = format!("{TENANT}/{dseq}/1/1/{PROVIDER}");
    text.parse().unwrap()
}
pub(crate) const TENANT: &str = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
pub(crate) const PROVIDER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

pub(crate) fn config() -> Config {
    Config::new(PROVIDER.parse().unwrap(), CHAIN_ID)
}

/// What a scripted call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    Answer,
    Hang,
    Panic,
    Fail(ErrorKind),
    /// Says that it is not finished (teardown only).
    NotYet,
}

/// What the ports do, by the name of the call, and what they were asked, in order.
#[derive(Debug, Default)]
pub(crate) struct Script {
    does: Mutex<BTreeMap<&'static str, Does>>,
    log: Mutex<Vec<String>>,
    pub(crate) running: AtomicUsize,
    pub(crate) most_running: AtomicUsize,
}

impl Script {
    pub(crate) fn set(&self, call: &'static str, does: Does) {
        self.does.lock().unwrap().insert(call, does);
    }
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
    async fn call(&self, name: &'static str, what: impl std::fmt::Display) -> Result<Does, Error> {
        self.log.lock().unwrap().push(format!("{name} {what}"));
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_running.fetch_max(running, Ordering::SeqCst);
        let does = self
            .does
            .lock()
            .unwrap()
            .get(name)
            .copied()
            .unwrap_or(Does::Answer);
        match does {
            Does::Answer | Does::NotYet => {}
            Does::Hang => std::future::pending().await,
            Does::Panic => panic!("scripted panic in {name}"),
            Does::Fail(kind) => {
                self.running.fetch_sub(1, Ordering::SeqCst);
                return Err(Error::new(kind, "scripted", name));
            }
        }
        tokio::task::yield_now().await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        Ok(does)
    }
}

/// A stream's script: what each subscription yields before it ends; the last one stays open.
pub(crate) type Takes<T> = Mutex<VecDeque<Vec<Result<T, Error>>>>;

fn take<T: Send + 'static>(takes: &Takes<T>) -> BoxStream<'static, Result<T, Error>> {
    let mut takes = takes.lock().unwrap();
    let items = takes.pop_front().unwrap_or_default();
    let ends = !takes.is_empty();
    let items = stream::iter(items);
    if ends {
        items.boxed()
    } else {
        items.chain(stream::pending()).boxed()
    }
}

#[derive(Debug, Default)]
pub(crate) struct FakeChain {
    pub(crate) script: Arc<Script>,
    pub(crate) events: Takes<ChainEvent>,
    /// After the scripted events, a block without end.
    pub(crate) flood: bool,
}

#[async_trait]
impl ChainTx for FakeChain {
    async fn broadcast_msgs(&self, msgs: Vec<Msg>) -> Result<TxOutcome, Error> {
        self.script.call("broadcast", msgs.len()).await?;
        Ok(TxOutcome::Committed { height: 7 })
    }
}

impl ChainEvents for FakeChain {
    fn subscribe(&self, _: &Address) -> BoxStream<'static, Result<ChainEvent, Error>> {
        if self.flood {
            return stream::repeat_with(|| Ok(block(1))).boxed();
        }
        take(&self.events)
    }
}

#[async_trait]
impl ChainQuery for FakeChain {
    async fn provider(&self, owner: &Address) -> Result<Option<Provider>, Error> {
        self.script.call("provider", owner).await?;
        Ok(None)
    }
    async fn orders(&self, _: &OrderFilter, _: PageRequest) -> Result<Page<Order>, Error> {
        unreachable!()
    }
    async fn order(&self, id: &OrderId) -> Result<Option<Order>, Error> {
        self.script.call("order", id).await?;
        Ok(None)
    }
    async fn bid(&self, id: &BidId) -> Result<Observed<Bid>, Error> {
        self.script.call("bid", id).await?;
        Ok(nothing())
    }
    async fn bids(&self, _: &BidFilter, _: PageRequest) -> Result<Page<Bid>, Error> {
        unreachable!()
    }
    async fn group(&self, _: &GroupId) -> Result<Option<G>, Error> {
        unreachable!()
    }
    async fn deployment(&self, id: &DeploymentId) -> Result<Option<DeploymentRecord>, Error> {
        self.script.call("deployment", id).await?;
        Ok(None)
    }
    async fn lease(&self, id: &LeaseId) -> Result<Observed<LeaseRecord>, Error> {
        self.script.call("lease", id).await?;
        Ok(nothing())
    }
    async fn leases(&self, _: &LeaseFilter, _: PageRequest) -> Result<Page<LeaseRecord>, Error> {
        unreachable!()
    }
    async fn auditor_attributes(&self, who: &str, of: &Address) -> Result<Option<AuditedAttributes>, Error> {
        self.script.call("audit", format!("{who} {of}")).await?;
        Ok(None)
    }
    async fn certificates(&self, _: &Address, _: Option<&str>) -> Result<Vec<Certificate>, Error> {
        unreachable!()
    }
    async fn account(&self, _: &Address) -> Result<Option<Account>, Error> {
        unreachable!()
    }
    async fn params(&self) -> Result<MarketParams, Error> {
        unreachable!()
    }
    async fn balance(&self, _: &Address, _: &str) -> Result<Coin, Error> {
        unreachable!()
    }
    async fn block_time(&self, _: Height) -> Result<Option<BlockTime>, Error> {
        unreachable!()
    }
    async fn sync_info(&self) -> Result<SyncInfo, Error> {
        unreachable!()
    }
    async fn snapshot(&self, provider: &Address) -> Result<Snapshot, Error> {
        self.script.call("snapshot", provider).await?;
        Ok(snapshot(5))
    }
}

fn nothing<T>() -> Observed<T> {
    Observed {
        value: None,
        height: 1,
        agreement: crate::types::Agreement::Single,
    }
}

pub(crate) fn snapshot(time: i64) -> Snapshot {
    Snapshot {
        chain_id: CHAIN_ID.into(),
        height: 1,
        time: BlockTime(time),
        provider: None,
        params: MarketParams {
            bid_min_deposits: Vec::new(),
            order_max_bids: 20,
            min_reclamation_window: Duration::ZERO,
            max_reclamation_window: Duration::ZERO,
        },
        orders: Vec::new(),
        bids: Vec::new(),
        leases: Vec::new(),
        deployments: Vec::new(),
        block_times: BTreeMap::new(),
    }
}

pub(crate) fn block(time: i64) -> ChainEvent {
    ChainEvent::Block {
        height: 1,
        time: BlockTime(time),
    }
}

#[derive(Debug, Default)]
pub(crate) struct FakeCluster {
    pub(crate) script: Arc<Script>,
    pub(crate) changes: Takes<ClusterChange>,
    pub(crate) facets: bool,
    pub(crate) declared: Vec<IpDeclaration>,
}

#[async_trait]
impl Cluster for FakeCluster {
    async fn deploy(&self, deployment: &Deployment) -> Result<(), Error> {
        self.script
            .call("deploy", deployment.lease.deployment().dseq)
            .await
            .map(drop)
    }
    async fn record(&self, deployment: &Deployment) -> Result<(), Error> {
        self.script
            .call("record", deployment.lease.deployment().dseq)
            .await
            .map(drop)
    }
    fn changes(&self) -> BoxStream<'static, Result<ClusterChange, Error>> {
        take(&self.changes)
    }
    async fn teardown_lease(&self, lease: &LeaseId) -> Result<Teardown, Error> {
        match self.script.call("teardown", lease.deployment().dseq).await? {
            Does::NotYet => Ok(Teardown::InProgress),
            _ => Ok(Teardown::Done),
        }
    }
    async fn deployments(&self) -> Result<Vec<Deployment>, Error> {
        self.script.call("deployments", "").await?;
        Ok(Vec::new())
    }
    async fn manifest_group(&self, _: &LeaseId) -> Result<Option<Arc<Group>>, Error> {
        unreachable!()
    }
    async fn lease_status(&self, _: &LeaseId) -> Result<LeaseStatus, Error> {
        unreachable!()
    }
    async fn service_status(&self, _: &LeaseId, _: &str) -> Result<ServiceStatus, Error> {
        unreachable!()
    }
    async fn forwarded_port_status(
        &self,
        _: &LeaseId,
    ) -> Result<BTreeMap<String, Vec<ForwardedPort>>, Error> {
        unreachable!()
    }
    async fn lease_logs(
        &self,
        _: &LeaseId,
        _: LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, Error>>, Error> {
        unreachable!()
    }
    async fn lease_events(
        &self,
        _: &LeaseId,
        _: EventOptions,
    ) -> Result<BoxStream<'static, Result<LeaseEvent, Error>>, Error> {
        unreachable!()
    }
    async fn version(&self) -> Result<String, Error> {
        unreachable!()
    }
    fn hostnames(&self) -> Option<Arc<dyn Hostnames>> {
        let facet = FakeFacet(Arc::clone(&self.script), Vec::new());
        self.facets.then(|| Arc::new(facet) as _)
    }
    fn leased_ips(&self) -> Option<Arc<dyn LeasedIps>> {
        let facet = FakeFacet(Arc::clone(&self.script), self.declared.clone());
        self.facets.then(|| Arc::new(facet) as _)
    }
    fn shell(&self) -> Option<Arc<dyn Shell>> {
        None
    }
}

#[derive(Debug)]
struct FakeFacet(Arc<Script>, Vec<IpDeclaration>);

#[async_trait]
impl Hostnames for FakeFacet {
    async fn declare_hostname(&self, _: &LeaseId, name: &HostnameDeclaration) -> Result<(), Error> {
        self.0.call("declare", &name.hostname).await.map(drop)
    }
    async fn purge_declared_hostname(&self, _: &LeaseId, hostname: &str) -> Result<(), Error> {
        self.0.call("purge", hostname).await.map(drop)
    }
    async fn purge_declared_hostnames(&self, _: &LeaseId) -> Result<(), Error> {
        self.0.call("purge-hostnames", "").await.map(drop)
    }
    async fn all_hostnames(&self) -> Result<Vec<DeclaredHostname>, Error> {
        self.0.call("all-hostnames", "").await?;
        Ok(Vec::new())
    }
}

#[async_trait]
impl LeasedIps for FakeFacet {
    async fn declare_ip(&self, _: &LeaseId, ip: &IpDeclaration, _: bool) -> Result<(), Error> {
        self.0.call("declare-ip", &ip.sharing_key).await.map(drop)
    }
    async fn purge_declared_ip(&self, _: &LeaseId, ip: &IpDeclaration) -> Result<(), Error> {
        self.0.call("purge-ip", &ip.sharing_key).await.map(drop)
    }
    async fn purge_declared_ips(&self, _: &LeaseId) -> Result<(), Error> {
        self.0.call("purge-ips", "").await.map(drop)
    }
    async fn declared_ips(&self, _: &LeaseId) -> Result<Vec<IpDeclaration>, Error> {
        Ok(self.1.clone())
    }
    async fn usage(&self) -> Result<LeasedIpUsage, Error> {
        unreachable!()
    }
}

#[derive(Debug, Default)]
pub(crate) struct FakePricing(pub(crate) Arc<Script>);

#[async_trait]
impl PricingStrategy for FakePricing {
    async fn calculate_price(&self, request: &PriceRequest) -> Result<DecCoin, Error> {
        self.0.call("price", &request.owner).await?;
        Ok(price())
    }
}

pub(crate) fn price() -> DecCoin {
    DecCoin::new(&"uact".into(), crate::types::Dec::ZERO)
}

/// A bus that notes what it gets; `gate` without permits makes it hang.
#[derive(Debug)]
pub(crate) struct FakeBus {
    pub(crate) events: Mutex<Vec<(Topic, Arc<Event>)>>,
    pub(crate) gate: Semaphore,
    pub(crate) script: Arc<Script>,
}

impl Default for FakeBus {
    fn default() -> Self {
        Self {
            events: Mutex::default(),
            gate: Semaphore::new(1),
            script: Arc::default(),
        }
    }
}

#[async_trait]
impl Bus for FakeBus {
    async fn publish(&self, topic: Topic, event: Arc<Event>) -> Result<(), Error> {
        let _open = self.gate.acquire().await;
        self.script.call("publish", topic.name()).await?;
        self.events.lock().unwrap().push((topic, event));
        Ok(())
    }
    async fn subscribe(&self, _: &[Topic]) -> Result<EventStream, Error> {
        unreachable!()
    }
    async fn last(&self, _: Topic) -> Result<Option<Arc<Event>>, Error> {
        unreachable!()
    }
}

#[derive(Debug, Default)]
pub(crate) struct FakeInventory(pub(crate) Takes<InventoryUpdate>);

impl InventorySource for FakeInventory {
    fn watch(&self) -> BoxStream<'static, Result<InventoryUpdate, Error>> {
        take(&self.0)
    }
}

pub(crate) fn capacity() -> InventoryUpdate {
    InventoryUpdate {
        inventory: Arc::new(Nothing),
        placements: Vec::new(),
        leased_ips: None,
    }
}

#[derive(Debug)]
struct Nothing;

impl Inventory for Nothing {
    fn adjust(&mut self, _: &[ResourceUnit], _: AdjustOptions) -> Result<Allocation, InsufficientCapacity> {
        Ok(Allocation::default())
    }
    fn restore(&mut self, _: &Allocation) {}
    fn release(&mut self, _: &Allocation) {}
    fn explain(&self, _: &[ResourceUnit]) -> Explanation {
        Explanation::default()
    }
    fn metrics(&self) -> Metrics {
        Metrics::default()
    }
    fn dup(&self) -> Box<dyn Inventory> {
        Box::new(Self)
    }
}

/// Answers an input with effects.
pub(crate) type Reaction = Box<dyn FnMut(Now, &Input) -> Vec<Effect> + Send>;

/// What a scripted brain was told, and what it says of itself.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) inputs: Vec<(Now, Input)>,
    pub(crate) timeouts: Vec<Now>,
    pub(crate) busy: bool,
    pub(crate) deadline: Option<Mono>,
}

pub(crate) struct ScriptedBrain {
    pub(crate) memory: Arc<Mutex<Memory>>,
    pub(crate) reaction: Reaction,
}

impl Brain for ScriptedBrain {
    fn step(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let effects = (self.reaction)(now, &input);
        let mut memory = self.memory.lock().unwrap();
        if memory.inputs.len() < 100_000 {
            memory.inputs.push((now, input));
        }
        effects
    }
    fn next_deadline(&self) -> Option<Mono> {
        self.memory.lock().unwrap().deadline
    }
    fn handle_timeout(&mut self, now: Now) -> Vec<Effect> {
        self.memory.lock().unwrap().timeouts.push(now);
        Vec::new()
    }
    fn is_idle(&self) -> bool {
        !self.memory.lock().unwrap().busy
    }
    fn status(&self, _: Now) -> Status {
        let inputs = self.memory.lock().unwrap().inputs.len();
        Status {
            unexpected_inputs: inputs as u64,
            ..Status::default()
        }
    }
    fn explain(&self, _: &GroupSpec) -> Option<Explanation> {
        Some(Explanation::default())
    }
    fn has_lease(&self, lease: &LeaseId) -> bool {
        lease.deployment().dseq == 1
    }
}
