//! The environment of an engine. The responses to calls come from a simulated market and a map of workloads,
//! either immediately or when the test requests them.
//!
//! Length: one world for all engine tests; each part handles calls that other parts cause.

use akash_provider_core::Config;
use akash_provider_core::cluster::{
    ClusterChange, DeclaredHostname, Health, IpDeclaration, Listing, Teardown, UnusableRecord, WorkloadSpec,
};
use akash_provider_core::engine::status::Pulse;
use akash_provider_core::engine::{
    Call, Completion, Effect, EffectId, Engine, Input, Leadership, Request, RequestId, Response, Status,
    Workloads,
};
use akash_provider_core::error::{ErrorKind, Failure};
use akash_provider_core::inventory::node_inventory::NodeInventory;
use akash_provider_core::inventory::spec::{ClusterSpec, NodeSpec};
use akash_provider_core::inventory::{InventoryUpdate, LeasedIpUsage};
use akash_provider_core::market::{Market, MarketConfig, TenantMsg};
use akash_provider_core::sdl::{self, Sdl};
use akash_provider_core::types::{
    Address, Agreement, Bid, BidId, BidState, BlockTime, ChainEvent, CloseReason, Coin, Dec, DecCoin,
    DeploymentId, Event, GroupId, LeaseId, LeaseState, Mono, Msg, Now, Observed, OrderId, ProviderRecord,
    TxError, TxOutcome,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const BLOCK: Duration = Duration::from_secs(6);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
const CHAIN: &str = "tests";
const TI: i64 = 1 << 40;

pub(crate) type Which = fn(&Call) -> bool;

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) market: Market,
    pub(crate) engine: Engine,
    pub(crate) config: Config,
    pub(crate) mono: Mono,
    pub(crate) in_flight: VecDeque<(EffectId, Call)>,
    /// All calls of the engine since the last crash.
    pub(crate) calls: Vec<Call>,
    /// All events of the engine since the last crash.
    pub(crate) facts: Vec<Event>,
    pub(crate) replies: BTreeMap<u64, Response>,
    pub(crate) cluster: BTreeMap<LeaseId, Arc<WorkloadSpec>>,
    /// Calls that wait until the test sends the response.
    pub(crate) hold: Option<Which>,
    /// Calls that fail.
    pub(crate) fail: Option<Which>,
    /// Whether the failures of the calls in `fail` are permanent.
    pub(crate) permanent: bool,
    /// Cluster calls that take effect but report a failure.
    pub(crate) lie: Option<Which>,
    /// Older state of the chain on a lagging node. Queries of single records return this state.
    pub(crate) lagging: Option<Market>,
    pub(crate) price: Result<DecCoin, Failure>,
    pub(crate) agreement: Agreement,
    /// Whether the engine receives no events of new blocks.
    pub(crate) deaf: bool,
    /// Unusable Manifest records in cluster lists.
    pub(crate) unusable: Vec<UnusableRecord>,
    /// Leases that have a Manifest record but no running workload.
    pub(crate) incomplete: Vec<LeaseId>,
    /// If true, the cluster's list of declared hostnames is empty.
    pub(crate) undeclared: bool,
    /// IP addresses in the next cluster lists. `None` means the addresses of the deployed workloads.
    pub(crate) ips: Option<Vec<(LeaseId, Vec<IpDeclaration>)>>,
    /// Number of subsequent transactions that get lost, with an unknown outcome.
    pub(crate) lost_txs: u32,
    asked: u64,
    /// Whether every 13th step compares the status before and after the step.
    pub(crate) looks: bool,
    steps: u64,
}

/// Returns a status without counters and without time-dependent values.
fn lasting(mut status: Status) -> Status {
    status.set_pulse(Pulse::default());
    let bad = status
        .leases
        .iter_mut()
        .filter(|lease| lease.health == Health::Bad);
    bad.for_each(|lease| lease.known_unhealthy_ms = 0);
    status
}

pub(crate) fn us() -> Address {
    Address::from_bytes(&[7; 20]).unwrap()
}

pub(crate) fn rival() -> Address {
    Address::from_bytes(&[8; 20]).unwrap()
}

pub(crate) fn auditor() -> Address {
    Address::from_bytes(&[5; 20]).unwrap()
}

pub(crate) fn tenant(number: u8) -> Address {
    Address::from_bytes(&[100 + number; 20]).unwrap()
}

/// Returns a deployment id. The numbers 8000 to 8999 belong to the second tenant. The numbers 9000 to 9999
/// belong to the third tenant.
pub(crate) fn deployment_id(dseq: u64) -> DeploymentId {
    let number = match dseq {
        8_000..9_000 => 2,
        9_000..10_000 => 3,
        _ => 1,
    };
    DeploymentId::new(tenant(number), dseq)
}

pub(crate) fn group_id(dseq: u64, gseq: u32) -> GroupId {
    deployment_id(dseq).group(gseq)
}

pub(crate) fn order_id(dseq: u64) -> OrderId {
    group_id(dseq, 1).order(1)
}

pub(crate) fn bid_of(order: &OrderId, provider: Address) -> BidId {
    order.clone().bid(provider)
}

pub(crate) fn lease_id(dseq: u64) -> LeaseId {
    bid_of(&order_id(dseq), us())
}

pub(crate) fn uact(amount: u128) -> Coin {
    Coin::new("uact", amount)
}

pub(crate) fn price(amount: i64) -> DecCoin {
    DecCoin::new(&"uact".into(), Dec::from_int(amount))
}

pub(crate) fn failure(transient: bool) -> Failure {
    Failure {
        kind: ErrorKind::Unavailable,
        transient,
        message: "away".to_owned(),
    }
}

pub(crate) fn sdl_of(service: &str, image: &str, hosts: &[&str], placements: &[&str]) -> Sdl {
    let accept = if hosts.is_empty() {
        String::new()
    } else {
        // An unquoted `*` is a YAML alias.
        let quoted: Vec<_> = hosts.iter().map(|host| format!("\"{host}\"")).collect();
        format!("\n        accept: [{}]", quoted.join(", "))
    };
    let pricing =
        |p: &&str| format!("    {p}:\n      pricing:\n        {service}: {{denom: uact, amount: 100}}\n");
    let deployed = |p: &&str| format!("    {p}: {{profile: {service}, count: 1}}\n");
    let text = format!(
        "version: \"2.0\"\nservices:\n  {service}:\n    image: {image}\n    expose:\n      - port: 80\n        as: 80{accept}\n        \
         to: [{{global: true}}]\nprofiles:\n  compute:\n    {service}:\n      resources:\n        cpu: {{units: 100m}}\n        \
         memory: {{size: 128Mi}}\n        storage: {{size: 512Mi}}\n  placement:\n{}deployment:\n  {service}:\n{}",
        placements.iter().map(pricing).collect::<String>(),
        placements.iter().map(deployed).collect::<String>(),
    );
    sdl::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub(crate) fn web() -> Sdl {
    sdl_of("web", "nginx:1", &[], &["east"])
}

pub(crate) fn settings() -> Config {
    let mut config = Config::new(us(), CHAIN);
    config.static_hosts_domain = Some("ingress.example".to_owned());
    config.unhealthy_limit = Some(HOUR);
    // The warm-up period of the breaker has its own tests.
    config.breaker_warmup = Duration::ZERO;
    config
}

impl World {
    /// Creates a world with a registered provider and a started engine, without orders and workloads.
    pub(crate) fn new() -> Self {
        Self::with(settings())
    }

    pub(crate) fn with(config: Config) -> Self {
        let mut world = Self::unstarted(config);
        world.start();
        world
    }

    pub(crate) fn unstarted(config: Config) -> Self {
        let mut market = Market::new(MarketConfig::new(CHAIN, BlockTime(1_000_000)));
        for provider in [us(), rival()] {
            market.fund(&provider, &uact(1 << 60));
            let record = ProviderRecord {
                owner: provider,
                host_uri: "https://provider.example:8443".to_owned(),
                info: Default::default(),
                attributes: Vec::new(),
            };
            market.execute(&Msg::CreateProvider(record)).unwrap();
        }
        for number in 1..=3 {
            market.fund(&tenant(number), &uact(1 << 60));
        }
        Self {
            market,
            engine: Engine::new(config.clone()).unwrap(),
            config,
            mono: Mono(1_000),
            in_flight: VecDeque::new(),
            calls: Vec::new(),
            facts: Vec::new(),
            replies: BTreeMap::new(),
            cluster: BTreeMap::new(),
            hold: None,
            fail: None,
            permanent: false,
            lie: None,
            lagging: None,
            price: Ok(price(10)),
            agreement: Agreement::Single,
            deaf: false,
            undeclared: false,
            ips: None,
            unusable: Vec::new(),
            incomplete: Vec::new(),
            lost_txs: 0,
            asked: 0,
            looks: true,
            steps: 0,
        }
    }

    pub(crate) fn start(&mut self) {
        self.feed_capacity();
        self.resync();
    }

    pub(crate) fn feed_capacity(&mut self) {
        let node = NodeSpec::new("node-1", 1_000_000, 4 * TI, 40 * TI);
        let inventory = Arc::new(NodeInventory::new(&ClusterSpec::from_nodes([node])));
        self.feed(Input::Inventory(InventoryUpdate {
            inventory,
            placements: Vec::new(),
            leased_ips: Some(LeasedIpUsage {
                total: 100,
                ..LeasedIpUsage::default()
            }),
        }));
        self.settle();
    }

    pub(crate) fn resync(&mut self) {
        let snapshot = Arc::new(self.market.snapshot(&self.config.provider));
        self.feed(Input::Chain(ChainEvent::Resync(snapshot)));
        self.settle();
    }

    /// Crashes and starts the process. Chain and cluster keep their state.
    pub(crate) fn restart(&mut self) {
        self.crash();
        self.start();
    }

    pub(crate) fn crash(&mut self) {
        self.engine = Engine::new(self.config.clone()).unwrap();
        self.in_flight.clear();
        self.calls.clear();
        self.facts.clear();
        self.deaf = false;
    }

    pub(crate) fn now(&self) -> Now {
        Now {
            mono: self.mono,
            block_time: self.market.time(),
        }
    }

    pub(crate) fn feed(&mut self, input: Input) {
        // Like the runtime: the time of the new block already applies.
        let block_time = match &input {
            Input::Chain(ChainEvent::Resync(snapshot)) => snapshot.time,
            Input::Chain(ChainEvent::Block { time, .. }) => *time,
            _ => Default::default(),
        };
        let mono = self.mono;
        let now = Now { mono, block_time };
        let before = self.counted_status();
        let effects = self.engine.step(now, input);
        self.compare(before);
        self.take(effects);
    }

    /// Returns the change counter and the status in every 13th step, otherwise `None`. Always returns `None`
    /// if `looks` is false.
    fn counted_status(&self) -> Option<(u64, Status)> {
        let is_looked_at = self.looks && self.steps.is_multiple_of(13);
        is_looked_at.then(|| (self.engine.changes(), lasting(self.status())))
    }

    /// Asserts that the change counter increased if the status differs from `before`.
    fn compare(&mut self, before: Option<(u64, Status)>) {
        if let (Some((changes, before)), Some((now, after))) = (before, self.counted_status()) {
            assert!(changes != now || before == after, "{before:#?}\n{after:#?}");
        }
        self.steps += 1;
    }

    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Call(id, call) => {
                    self.calls.push(call.clone());
                    self.in_flight.push_back((id, call));
                }
                Effect::Publish(event) => self.facts.push((*event).clone()),
                Effect::Reply(RequestId(id), response) => {
                    let before = self.replies.insert(id, response);
                    assert!(before.is_none(), "request {id} got two replies");
                }
            }
        }
    }

    /// Responds to the engine's calls until all pending calls match `hold`.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            let is_pending = self.hold;
            let free = |(_, call): &(EffectId, Call)| !is_pending.is_some_and(|which| which(call));
            let Some(at) = self.in_flight.iter().position(free) else {
                return;
            };
            let (id, call) = self.in_flight.remove(at).unwrap();
            let completion = self.answer(&call);
            self.feed(Input::Completed(id, completion));
        }
        panic!("the engine never becomes idle");
    }

    pub(crate) fn take_pending(&mut self, which: Which) -> (EffectId, Call) {
        let at = self.in_flight.iter().position(|(_, call)| which(call)).unwrap();
        self.in_flight.remove(at).unwrap()
    }

    /// Reports an error from the chain as the outcome of the first pending transaction of this kind.
    pub(crate) fn refuse(&mut self, which: Which, error: TxError, code: &str) {
        let (id, _) = self.take_pending(which);
        let (code, log) = (code.to_owned(), "refused".to_owned());
        let refused = TxOutcome::Rejected { error, code, log };
        self.feed(Input::Completed(id, Completion::Tx(Ok(refused))));
    }

    pub(crate) fn answer(&mut self, call: &Call) -> Completion {
        let fails = self.fail.is_some_and(|which| which(call));
        let mut its_failure = failure(!self.permanent);
        if self.permanent {
            its_failure.kind = ErrorKind::Invalid;
        }
        let answer = || if fails { Err(its_failure.clone()) } else { Ok(()) };
        match call {
            Call::FetchOrder(id) => Completion::Order(answer().map(|()| self.market.order(id).cloned())),
            Call::CountBids(id) => Completion::BidCount(answer().map(|()| counted_bids(&self.market, id))),
            Call::FetchProvider => {
                Completion::Provider(answer().map(|()| self.market.provider(&self.config.provider).cloned()))
            }
            Call::FetchBalances(denoms) => Completion::Balances(answer().map(|()| {
                let balance = |denom| self.market.balance(&self.config.provider, denom);
                denoms.iter().map(|denom| balance(denom)).collect()
            })),
            Call::FetchAudit(auditor) => {
                Completion::Audit(answer().map(|()| self.market.auditor_attributes(auditor, &us())))
            }
            Call::FetchBid(id) => {
                Completion::Bid(answer().map(|()| self.observed(self.node().bid(id).cloned())))
            }
            Call::FetchLease(id) => {
                Completion::Lease(answer().map(|()| self.observed(self.node().lease(id))))
            }
            Call::FetchDeployment(id) => {
                Completion::Deployment(answer().map(|()| self.market.deployment(id)))
            }
            Call::FetchSnapshot => {
                Completion::Snapshot(answer().map(|()| Arc::new(self.market.snapshot(&self.config.provider))))
            }
            Call::CalculatePrice(_) => Completion::Price(answer().and_then(|()| self.price.clone())),
            Call::Broadcast(_) if fails => Completion::Tx(Err(failure(true))),
            Call::Broadcast(msg) => Completion::Tx(Ok(self.broadcast(msg))),
            Call::Record(deployment) | Call::Deploy { deployment, .. } => {
                if !fails {
                    self.cluster
                        .insert(deployment.lease.clone(), Arc::clone(deployment));
                }
                let lies = self.lie.is_some_and(|which| which(call));
                Completion::Cluster(if lies { Err(failure(true)) } else { answer() })
            }
            Call::Teardown(lease) => {
                if !fails {
                    self.cluster.remove(lease);
                }
                Completion::Teardown(answer().map(|()| Teardown::Done))
            }
            Call::ListWorkloads => Completion::Workloads(answer().map(|()| self.workloads())),
        }
    }

    fn node(&self) -> &Market {
        self.lagging.as_ref().unwrap_or(&self.market)
    }

    fn observed<T>(&self, value: Option<T>) -> Observed<T> {
        Observed::new(value, self.node().height(), self.agreement)
    }

    fn workloads(&self) -> Workloads {
        let names = |d: &Arc<WorkloadSpec>| {
            let lease = d.lease.clone();
            let names = d.hostnames.clone().into_iter();
            names.map(move |h| DeclaredHostname {
                hostname: h.hostname,
                lease: lease.clone(),
            })
        };
        Workloads {
            listing: Listing {
                unusable: self.unusable.clone(),
                incomplete: self.incomplete.clone(),
                ..Listing::from(self.cluster.values().map(|d| (**d).clone()).collect::<Vec<_>>())
            },
            hostnames: Some(
                self.cluster
                    .values()
                    .filter(|_| !self.undeclared)
                    .flat_map(names)
                    .collect(),
            ),
            ips: Some(self.ips.clone().unwrap_or_else(|| {
                let deployed = self.cluster.values();
                deployed.map(|d| (d.lease.clone(), d.ips.clone())).collect()
            })),
        }
    }

    fn broadcast(&mut self, msg: &Msg) -> TxOutcome {
        if self.lost_txs > 0 {
            self.lost_txs -= 1;
            let expires = self.market.time().plus(MINUTE);
            return TxOutcome::Unknown { expires };
        }
        match self.market.execute(msg) {
            Ok(events) => {
                self.tell(events);
                self.end_block(BLOCK);
                let height = self.market.height();
                TxOutcome::Committed { height }
            }
            Err(refused) => TxOutcome::Rejected {
                error: refused.error,
                code: refused.code,
                log: refused.log,
            },
        }
    }

    pub(crate) fn tell(&mut self, events: Vec<ChainEvent>) {
        if !self.deaf {
            events
                .into_iter()
                .for_each(|event| self.feed(Input::Chain(event)));
        }
    }

    fn end_block(&mut self, elapsed: Duration) {
        let block = self.market.end_block(elapsed);
        self.mono = self.mono.plus(elapsed);
        self.tell(vec![block]);
    }

    /// Adds `count` blocks, each after the given time.
    pub(crate) fn blocks(&mut self, count: u32, each: Duration) {
        for _ in 0..count {
            self.end_block(each);
            self.settle();
        }
    }

    /// Advances the time without new blocks.
    pub(crate) fn wait(&mut self, time: Duration) {
        let end = self.mono.plus(time);
        while let Some(due) = self.engine.next_deadline().filter(|due| *due < end) {
            self.mono = due.max(self.mono.plus(Duration::from_secs(1))).min(end);
            self.pass();
            if self.mono == end {
                return;
            }
        }
        self.mono = end;
        self.pass();
    }

    fn pass(&mut self) {
        let now = Now {
            mono: self.mono,
            ..Now::default()
        };
        let before = self.counted_status();
        let effects = self.engine.handle_timeout(now);
        self.compare(before);
        self.take(effects);
        self.settle();
    }

    /// Sends a tenant's transaction in its own block.
    pub(crate) fn tenant(&mut self, msg: TenantMsg) {
        let events = self.market.tenant(msg).unwrap();
        self.tell(events);
        self.blocks(1, BLOCK);
    }

    /// Executes a message that another program signed with the key of the provider.
    pub(crate) fn outside(&mut self, msg: &Msg) {
        let events = self.market.execute(msg).unwrap();
        self.tell(events);
        self.blocks(1, BLOCK);
    }

    pub(crate) fn order(&mut self, dseq: u64, sdl: &Sdl) -> OrderId {
        self.order_as(deployment_id(dseq), sdl, None);
        order_id(dseq)
    }

    pub(crate) fn order_as(&mut self, id: DeploymentId, sdl: &Sdl, reclamation_min_window: Option<Duration>) {
        self.tenant(TenantMsg::CreateDeployment {
            id,
            groups: sdl.groups.clone(),
            hash: sdl.hash,
            deposit: uact(50_000_000),
            reclamation_min_window,
        });
    }

    pub(crate) fn lease_of_another(&mut self, sdl: &Sdl) -> LeaseId {
        let deployment = DeploymentId::new(tenant(2), 1);
        self.order_as(deployment.clone(), sdl, None);
        let group = deployment.group(1);
        let bid = bid_of(&group.order(1), us());
        self.tenant(TenantMsg::CreateLease { bid: bid.clone() });
        bid
    }

    pub(crate) fn lease(&mut self, dseq: u64, sdl: &Sdl) -> LeaseId {
        self.order(dseq, sdl);
        self.take_bids(dseq, sdl);
        lease_id(dseq)
    }

    pub(crate) fn take_bids(&mut self, dseq: u64, sdl: &Sdl) {
        for gseq in (1..).take(sdl.groups.len()) {
            let order = group_id(dseq, gseq).order(1);
            let bid = bid_of(&order, us());
            self.tenant(TenantMsg::CreateLease { bid });
        }
    }

    /// Creates a healthy lease with an accepted and deployed manifest.
    pub(crate) fn running(&mut self, dseq: u64, sdl: &Sdl) -> LeaseId {
        let lease = self.lease(dseq, sdl);
        assert_eq!(self.submit(dseq, sdl).map(|_| ()), Ok(()));
        self.health(&lease, Health::Good);
        lease
    }

    pub(crate) fn health(&mut self, lease: &LeaseId, health: Health) {
        let lease = lease.clone();
        self.feed(Input::Cluster(ClusterChange::Health { lease, health }));
        self.settle();
    }

    pub(crate) fn submit(&mut self, dseq: u64, sdl: &Sdl) -> Response {
        let id = self.submit_later(dseq, sdl);
        self.replies
            .get(&id)
            .cloned()
            .unwrap_or_else(|| panic!("no reply"))
    }

    pub(crate) fn submit_later(&mut self, dseq: u64, sdl: &Sdl) -> u64 {
        self.request(Request::SubmitManifest {
            deployment: deployment_id(dseq),
            manifest: Arc::new(sdl.manifest.clone()),
            hashes: sdl.hash.into(),
        })
    }

    pub(crate) fn request(&mut self, request: Request) -> u64 {
        self.asked += 1;
        self.feed(Input::Request(RequestId(self.asked), request));
        self.settle();
        self.asked
    }

    pub(crate) fn lead(&mut self, leadership: Leadership) {
        self.feed(Input::Leadership(leadership));
        self.settle();
    }

    pub(crate) fn status(&self) -> Status {
        self.engine.status(self.now())
    }

    /// Orders with a reservation but without a lease.
    pub(crate) fn pending(&self) -> Vec<OrderId> {
        let pending = self.status().inventory.pending;
        pending.into_iter().map(|r| r.order).collect()
    }

    /// Orders with a reservation and a lease.
    pub(crate) fn active(&self) -> Vec<OrderId> {
        let active = self.status().inventory.active;
        active.into_iter().map(|r| r.order).collect()
    }

    pub(crate) fn bid(&self, order: &OrderId) -> Option<&Bid> {
        self.market.bid(&bid_of(order, us()))
    }

    pub(crate) fn lease_state(&self, lease: &LeaseId) -> Option<LeaseState> {
        self.market.lease(lease).map(|record| record.lease.state)
    }

    pub(crate) fn count(&self, which: Which) -> usize {
        self.calls.iter().filter(|call| which(call)).count()
    }

    pub(crate) fn closes(&self) -> Vec<(BidId, CloseReason)> {
        let close = |call: &Call| match call {
            Call::Broadcast(Msg::CloseBid { id, reason }) => Some((id.clone(), *reason)),
            _ => None,
        };
        self.calls.iter().filter_map(close).collect()
    }

    pub(crate) fn count_facts(&self, which: fn(&Event) -> bool) -> usize {
        self.facts.iter().filter(|event| which(event)).count()
    }
}

/// Returns the number of bids that count towards the chain's maximum per order.
fn counted_bids(market: &Market, order: &OrderId) -> u32 {
    let counts = market.bids_of(order).filter(|b| b.state != BidState::Lost);
    u32::try_from(counts.count()).unwrap()
}

pub(crate) fn is_bid(call: &Call) -> bool {
    matches!(call, Call::Broadcast(Msg::CreateBid { .. }))
}

pub(crate) fn is_close(call: &Call) -> bool {
    matches!(call, Call::Broadcast(Msg::CloseBid { .. }))
}

pub(crate) fn is_withdrawal(call: &Call) -> bool {
    matches!(call, Call::Broadcast(Msg::WithdrawLease { .. }))
}

pub(crate) fn is_teardown(call: &Call) -> bool {
    matches!(call, Call::Teardown(_))
}

pub(crate) fn is_deploy(call: &Call) -> bool {
    matches!(call, Call::Deploy { .. })
}

pub(crate) fn is_list(call: &Call) -> bool {
    matches!(call, Call::ListWorkloads)
}

pub(crate) fn is_snapshot(call: &Call) -> bool {
    matches!(call, Call::FetchSnapshot)
}

pub(crate) fn is_record(call: &Call) -> bool {
    matches!(call, Call::Record(_))
}

pub(crate) fn is_price(call: &Call) -> bool {
    matches!(call, Call::CalculatePrice(_))
}

pub(crate) fn is_write(call: &Call) -> bool {
    call.is_write()
}
