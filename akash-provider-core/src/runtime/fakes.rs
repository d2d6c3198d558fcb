//! Scripted ports and a scripted brain for the tests of the loop.

use super::*;
use crate::audit::{Act, ActKind, Actor};
use crate::bus::EventStream;
use crate::chain::{
    Account, BidFilter, Certificate, ChainEvents, ChainQuery, ChainTx, LeaseFilter, OrderFilter, Page,
    PageRequest, SyncInfo,
};
use crate::cluster::{
    Cluster, ClusterChange, DeclaredHostname, EventOptions, ForwardedPort, HostnameDeclaration, Hostnames,
    IpDeclaration, LeaseEvent, LeaseStatus, LeasedIps, Listing, LogLine, LogOptions, ServiceStatus, Shell,
    Teardown, WorkloadSpec,
};
use crate::engine::counts::EngineCounts;
use crate::engine::reservations::{Capacity, Reservations};
use crate::engine::status::Pulse;
use crate::engine::{Call, EffectId};
use crate::inventory::{
    AdjustOptions, Allocation, Explanation, InsufficientCapacity, Inventory, InventoryUpdate, LeasedIpUsage,
    Metrics,
};
use crate::manifest::Group;
use crate::pricing::{PriceRequest, PricingStrategy};
use crate::types::{
    Address, AuditedAttributes, Bid, BidId, Coin, DecCoin, DeploymentId, DeploymentRecord, Event, Group as G,
    GroupId, Height, LeaseId, LeaseRecord, MarketParams, Msg, Observed, Order, OrderId, ProviderRecord,
    ResourceUnit, Snapshot, Topic, TxOutcome,
};
use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

mod chain;
mod cluster;
pub(crate) use chain::{FakeChain, block, snapshot};
pub(crate) use cluster::FakeCluster;

pub(crate) const CHAIN_ID: &str = "testing";

pub(crate) fn lease(dseq: u64) -> LeaseId {
    let text = format!("{TENANT}/{dseq}/1/1/{PROVIDER}");
    text.parse().unwrap()
}

pub(crate) fn workload(dseq: u64) -> WorkloadSpec {
    WorkloadSpec::new(lease(dseq), Arc::new(Group::new("g", Vec::new())))
}

pub(crate) const TENANT: &str = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
pub(crate) const PROVIDER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

pub(crate) fn config() -> Config {
    Config::new(PROVIDER.parse().unwrap(), CHAIN_ID)
}

/// Behavior of a scripted call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    Answer,
    Hang,
    Panic,
    Fail(ErrorKind),
    /// Returns `InProgress` (teardown only).
    NotYet,
}

/// Scripted behavior of the fake ports for each call name, and a log of the received calls.
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

/// Scripted streams of a port: the items for each subscription. The last stream does not end.
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

/// A bus that records events. `publish` hangs while `gate` has no permits.
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
    InventoryUpdate::new(Arc::new(Nothing::default()), Vec::new())
}

/// An empty inventory that blocks `explain` until a message arrives.
#[derive(Debug, Clone, Default)]
struct Nothing(Arc<Mutex<Option<std::sync::mpsc::Receiver<()>>>>);

impl Inventory for Nothing {
    fn adjust(&mut self, _: &[ResourceUnit], _: AdjustOptions) -> Result<Allocation, InsufficientCapacity> {
        Ok(Allocation::default())
    }
    fn restore(&mut self, _: &Allocation) {}
    fn release(&mut self, _: &Allocation) {}
    fn explain(&self, _: &[ResourceUnit]) -> Explanation {
        if let Some(judging) = &*self.0.lock().unwrap() {
            let _ = judging.recv();
        }
        Explanation::default()
    }
    fn metrics(&self) -> Metrics {
        Metrics::default()
    }
    fn dup(&self) -> Box<dyn Inventory> {
        Box::new(self.clone())
    }
}

/// Converts a call to its audited act, without evidence. Every bid close is treated as the close of a lease.
pub(crate) fn audited(call: &Call) -> Option<Act> {
    match call {
        Call::Broadcast(msg @ Msg::CloseBid { .. }) => Some(Act {
            kind: ActKind::LeaseClose,
            ..Act::from_msg(msg, Actor::Provider)
        }),
        Call::Broadcast(msg) => Some(Act::from_msg(msg, Actor::Provider)),
        Call::Teardown(lease) => Some(Act::new(ActKind::Teardown, Actor::Provider, lease.to_string())),
        _ => None,
    }
}

pub(crate) type Reaction = Box<dyn FnMut(Now, &Input) -> Vec<Effect> + Send>;

/// Inputs that a [`ScriptedMachine`] received, and the status that this machine reports.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) inputs: Vec<(Now, Input)>,
    pub(crate) timeouts: Vec<Now>,
    pub(crate) busy: bool,
    /// Template of every status.
    pub(crate) status: Status,
    /// Number of created statuses.
    pub(crate) statuses: usize,
    /// Number of inputs other than blocks.
    pub(crate) changes: u64,
    pub(crate) deadline: Option<Mono>,
    /// Blocks the evaluation of the next group until a message arrives.
    pub(crate) judging: Option<std::sync::mpsc::Receiver<()>>,
}

pub(crate) struct ScriptedMachine {
    pub(crate) memory: Arc<Mutex<Memory>>,
    pub(crate) reaction: Reaction,
}

impl StateMachine for ScriptedMachine {
    fn step(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let effects = (self.reaction)(now, &input);
        let mut memory = self.memory.lock().unwrap();
        memory.changes += u64::from(!matches!(input, Input::Chain(ChainEvent::Block { .. })));
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
        let pulse = self.pulse();
        let mut memory = self.memory.lock().unwrap();
        memory.statuses += 1;
        let mut status = memory.status.clone();
        status.set_pulse(pulse);
        status
    }
    fn changes(&self) -> u64 {
        self.memory.lock().unwrap().changes
    }
    fn pulse(&self) -> Pulse {
        Pulse {
            unexpected_inputs: self.memory.lock().unwrap().inputs.len() as u64,
            ..Pulse::default()
        }
    }
    fn counts(&self) -> EngineCounts {
        EngineCounts::default()
    }
    fn capacity(&self) -> Option<Capacity> {
        let judging = self.memory.lock().unwrap().judging.take();
        let mut ledger = Reservations::new(&config());
        ledger.update(InventoryUpdate {
            inventory: Arc::new(Nothing(Arc::new(Mutex::new(judging)))),
            ..capacity()
        });
        ledger.capacity()
    }
    fn has_lease(&self, lease: &LeaseId) -> bool {
        lease.deployment().dseq == 1
    }
    fn lease_of(&self, _: &GroupId) -> Option<LeaseId> {
        None
    }
    fn act_of_call(&self, _: EffectId, call: &Call) -> Option<Act> {
        audited(call)
    }
}
