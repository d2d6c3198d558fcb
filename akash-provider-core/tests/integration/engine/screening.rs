//! A screening returns the same result as the engine: the same bid, or the same decline reason.

use crate::engine::world::{auditor, bid_of, failure, order_id, settings, tenant, us};
use akash_provider_core::bidding::{self, Offer, OrderContext};
use akash_provider_core::engine::{Call, Completion, Effect, Engine, Input};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::inventory::node_inventory::NodeInventory;
use akash_provider_core::inventory::{ClusterSpec, GpuSpec, InventoryUpdate, LeasedIpUsage, NodeSpec};
use akash_provider_core::market::network_params;
use akash_provider_core::pricing::{PriceRequest, PricingStrategy};
use akash_provider_core::types::{
    Address, Attribute, AuditedAttributes, BlockTime, ChainEvent, Coin, Dec, DecCoin, DeclineCode, Denom,
    Endpoint, EndpointKind, Event, GroupSpec, Height, MarketParams, Mono, Msg, Now, Order, OrderState,
    PlacementRequirements, ProviderRecord, ResourceUnit, Resources, SignedBy, Snapshot, Storage, TxOutcome,
};
use akash_provider_core::{Config, Failure};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

const MI: u64 = 1 << 20;
const GI: i64 = 1 << 30;
const HOUR: Duration = Duration::from_secs(3600);

/// Result of an order: the bid, or the decline code and message.
type Outcome = Result<Offer, (DeclineCode, String)>;

/// Pricing strategy that depends on CPU and GPU models. Fails for some requests.
#[derive(Debug)]
struct PriceByModel;

fn price(request: &PriceRequest) -> Result<DecCoin, Error> {
    let reserved = request.allocated.as_ref().map_or(&[][..], |units| units);
    let mut amount = 0;
    for unit in reserved {
        let cpu = unit.resources.cpu.units;
        if cpu == 3_000 {
            return Err(Error::new(ErrorKind::Unavailable, "price", "no price"));
        }
        let model = |a: &Attribute| match a.key.as_str() {
            key if key.contains("/model/a100") => 30,
            key if key.contains("/model/t4") => 10,
            _ => 0,
        };
        let gpus: i64 = unit.resources.gpu.attributes.iter().map(model).sum();
        amount += i64::from(unit.count) * (gpus + i64::try_from(cpu / 100).unwrap());
    }
    let denom = if request.group.name == "odd" {
        "uakt"
    } else {
        "uact"
    };
    Ok(DecCoin::new(&denom.into(), Dec::from_int(amount)))
}

#[async_trait::async_trait]
impl PricingStrategy for PriceByModel {
    async fn calculate_price(&self, request: &PriceRequest) -> Result<DecCoin, Error> {
        price(request)
    }
}

#[derive(Debug, Clone)]
struct Setup {
    config: Config,
    is_registered: bool,
    signs: bool,
    params: MarketParams,
}

impl Setup {
    fn attributes() -> Vec<Attribute> {
        let flags = ["a100", "t4"].map(|model| format!("capabilities/gpu/vendor/nvidia/model/{model}"));
        let flags = flags.into_iter().map(|key| Attribute::new(key, "true"));
        let storage = [("class", "beta2"), ("persistent", "true")];
        let storage =
            storage.map(|(key, value)| Attribute::new(format!("capabilities/storage/1/{key}"), value));
        let region = Attribute::new("region", "eu");
        flags.chain(storage).chain([region]).collect()
    }

    fn audit(&self) -> Option<AuditedAttributes> {
        self.signs
            .then(|| AuditedAttributes::new(auditor().to_string(), vec![Attribute::new("region", "eu")]))
    }

    fn snapshot(&self) -> Snapshot {
        let record = ProviderRecord {
            owner: us(),
            host_uri: "https://provider.example:8443".to_owned(),
            info: Default::default(),
            attributes: Self::attributes(),
        };
        Snapshot {
            chain_id: self.config.chain_id.clone(),
            height: 10,
            time: BlockTime(1_000_000),
            provider: self.is_registered.then_some(record),
            params: self.params.clone(),
            orders: Vec::new(),
            bids: Vec::new(),
            leases: Vec::new(),
            deployments: Vec::new(),
            block_times: BTreeMap::new(),
        }
    }
}

/// An engine in which every call gets its response immediately.
struct SingleEngine {
    engine: Engine,
    setup: Setup,
    height: Height,
}

impl SingleEngine {
    fn new(setup: Setup, capacity: InventoryUpdate) -> Self {
        let engine = Engine::new(setup.config.clone()).unwrap();
        let snapshot = Arc::new(setup.snapshot());
        let mut alone = Self {
            engine,
            setup,
            height: 10,
        };
        alone.step(Input::Inventory(capacity));
        for effect in alone.step(Input::Chain(ChainEvent::Resync(snapshot))) {
            if let Effect::Call(id, Call::FetchBalances(denoms)) = effect {
                alone.step(Input::Completed(id, rich(denoms)));
            }
        }
        alone
    }

    fn time(&self) -> BlockTime {
        BlockTime(1_000_000 + i64::try_from(self.height).unwrap())
    }

    fn step(&mut self, input: Input) -> Vec<Effect> {
        let now = Now {
            mono: Mono(1_000),
            block_time: self.time(),
        };
        self.engine.step(now, input)
    }

    fn screened(&self, runtime: &tokio::runtime::Runtime, order: &Order, bids: u32) -> Outcome {
        let attributes = Setup::attributes();
        let audited: Vec<_> = self.setup.audit().into_iter().collect();
        let facts = OrderContext {
            attributes: self.setup.is_registered.then_some(&attributes[..]),
            audited: &audited,
            params: Some(&self.setup.params),
            bids: Some(bids),
        };
        let mut capacity = self.engine.capacity().unwrap();
        let verdict = runtime.block_on(bidding::screen(order, &facts, &mut capacity, &PriceByModel));
        let no_room = matches!(&verdict.bid, Err(d) if d.code() == DeclineCode::InsufficientCapacity);
        let has_room = verdict.bid.is_ok();
        assert!(!(no_room && verdict.explanation.fits), "{verdict:?}");
        assert!(!has_room || verdict.explanation.fits, "{verdict:?}");
        verdict
            .bid
            .map_err(|decline| (decline.code(), decline.to_string()))
    }

    /// Sends the order and `bids` bids of other providers. Returns the engine's bid or decline reason.
    fn done(&mut self, order: &Order, bids: u32) -> Outcome {
        let created = ChainEvent::OrderCreated { id: order.id.clone() };
        let mut effects = VecDeque::from(self.step(Input::Chain(created)));
        for rival in 0..u8::try_from(bids).unwrap() {
            let event = ChainEvent::BidCreated {
                id: bid_of(&order.id, Address::from_bytes(&[200 + rival; 20]).unwrap()),
                price: DecCoin::new(&"uact".into(), Dec::from_int(1)),
            };
            effects.extend(self.step(Input::Chain(event)));
        }
        let mut fate = None;
        while let Some(effect) = effects.pop_front() {
            let (id, completion) = match effect {
                Effect::Publish(event) => {
                    if let Event::OrderDeclined { reason, message, .. } = &*event {
                        fate = Some(Err((*reason, message.clone())));
                    }
                    continue;
                }
                Effect::Call(id, Call::FetchOrder(asked)) if asked == order.id => {
                    (id, Completion::Order(Ok(Some(order.clone()))))
                }
                Effect::Call(id, Call::FetchOrder(_)) => (id, Completion::Order(Err(failure(false)))),
                Effect::Call(id, Call::FetchBalances(denoms)) => (id, rich(denoms)),
                Effect::Call(id, Call::FetchAudit(_)) => (id, Completion::Audit(Ok(self.setup.audit()))),
                Effect::Call(id, Call::CalculatePrice(request)) => {
                    let answer: Result<_, Failure> = price(&request).map_err(|e| e.to_failure());
                    (id, Completion::Price(answer))
                }
                Effect::Call(
                    id,
                    Call::Broadcast(Msg::CreateBid {
                        price,
                        resources_offer,
                        ..
                    }),
                ) => {
                    let units = Arc::new(resources_offer);
                    fate = Some(Ok(Offer { price, units }));
                    let height = self.height;
                    (id, Completion::Tx(Ok(TxOutcome::Committed { height })))
                }
                Effect::Call(..) | Effect::Reply(..) => continue,
            };
            effects.extend(self.step(Input::Completed(id, completion)));
        }
        self.height += 1;
        let block = ChainEvent::Block {
            height: self.height,
            time: self.time(),
        };
        self.step(Input::Chain(block));
        if !matches!(fate, Some(Ok(_))) {
            self.step(Input::Chain(ChainEvent::OrderClosed { id: order.id.clone() }));
        }
        fate.expect("no outcome")
    }
}

/// Returns balances that are sufficient for every bid.
fn rich(denoms: Vec<Denom>) -> Completion {
    let coin = |denom| Coin::new(denom, 1 << 60);
    Completion::Balances(Ok(denoms.into_iter().map(coin).collect()))
}

fn nodes() -> impl Strategy<Value = InventoryUpdate> {
    let gpus = prop_oneof![Just(None), select(vec!["a100", "t4"]).prop_map(Some)];
    let node = (
        select(vec![2_000i64, 8_000, 30_000]),
        gpus,
        1u32..5,
        any::<bool>(),
    );
    let usage = (0u32..4, 0u32..2);
    (vec(node, 1..4), 0i64..8, usage).prop_map(|(nodes, pool, (total, in_use))| {
        let node = |(n, (cpu, gpu, count, mounts)): (usize, (i64, Option<&str>, u32, bool))| {
            let mut node = NodeSpec::new(format!("node{n}"), cpu, 32 * GI, 64 * GI);
            if let Some(model) = gpu {
                node = node.with_gpus(GpuSpec::new("nvidia", model, "16Gi", "pcie", count));
            }
            if mounts { node.with_class("beta2") } else { node }
        };
        let spec = ClusterSpec::from_nodes(nodes.into_iter().enumerate().map(node));
        let leased_ips = LeasedIpUsage {
            total,
            in_use,
            ..LeasedIpUsage::default()
        };
        InventoryUpdate {
            inventory: Arc::new(NodeInventory::new(&spec.with_storage("beta2", pool * GI))),
            placements: Vec::new(),
            leased_ips: Some(leased_ips),
        }
    })
}

fn setup() -> impl Strategy<Value = Setup> {
    let chain = (prop::bool::weighted(0.95), any::<bool>(), 0u32..4);
    let percents = select(vec![0u32, 50, 100]);
    let room = (0u32..6, any::<bool>(), prop::bool::weighted(0.9), 1u32..4);
    let rare = (
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.05),
        prop::bool::weighted(0.2),
    );
    (chain, percents, room, rare).prop_map(|(chain, percent, room, rare)| {
        let mut config = settings();
        config.overcommit_cpu_percent = percent;
        config.overcommit_storage_percent = percent / 2;
        (
            config.external_ports,
            config.leased_ips,
            config.hostnames,
            config.max_volumes_per_unit,
        ) = room;
        if rare.0 {
            config.required_attributes = vec![Attribute::new("region", "eu")];
        }
        if rare.1 {
            config.bid_deposit.amount = 1;
            config.other_bid_deposits.clear();
        }
        config.reclamation_window = rare.2.then_some(24 * HOUR);
        let mut params = network_params();
        params.order_max_bids = chain.2;
        Setup {
            config,
            is_registered: chain.0,
            signs: chain.1,
            params,
        }
    })
}

fn unit() -> impl Strategy<Value = ResourceUnit> {
    let models = ["*", "*", "a100", "t4", "h100"];
    let gpu = prop_oneof![
        2 => Just(None),
        1 => (select(models.to_vec()), 1u64..3).prop_map(Some),
    ];
    let kinds = [
        EndpointKind::SharedHttp,
        EndpointKind::RandomPort,
        EndpointKind::LeasedIp,
    ];
    let endpoints = vec((select(kinds.to_vec()), 1u32..3), 0..3);
    let cpu = select(vec![100u64, 100, 900, 3_000, 4_000]);
    let volume = prop::option::weighted(0.3, (select(vec!["beta2", "beta2", "beta3"]), 1u64..5));
    let price = prop_oneof![4 => Just(1_000), 1 => 1i64..60];
    (cpu, gpu, endpoints, volume, 1u32..4, price).prop_map(|(cpu, gpu, endpoints, volume, count, price)| {
        let mut resources = Resources::default();
        resources.cpu.units = cpu;
        resources.memory.bytes = 64 * MI;
        resources
            .storage
            .push(Storage::new("default", 512 * MI, Vec::new()));
        resources.storage.extend(volume.map(|(class, gibs)| Storage {
            name: "data".into(),
            bytes: gibs << 30,
            attributes: vec![
                Attribute::new("class", class),
                Attribute::new("persistent", "true"),
            ],
        }));
        if let Some((model, units)) = gpu {
            resources.gpu.units = units;
            resources.gpu.attributes = vec![Attribute::new(format!("vendor/nvidia/model/{model}"), "true")];
        }
        resources.endpoints = endpoints
            .into_iter()
            .map(|(kind, number)| {
                Endpoint::new(kind, if kind == EndpointKind::LeasedIp { number } else { 0 })
            })
            .collect();
        ResourceUnit::new(
            resources,
            count,
            DecCoin::new(&"uact".into(), Dec::from_int(price)),
        )
    })
}

fn order() -> impl Strategy<Value = (Order, u32)> {
    let name = select(vec!["even", "even", "even", "even", "even", "even", "odd", ""]);
    let region = prop_oneof![4 => Just(None), 2 => Just(Some("eu")), 1 => Just(Some("us"))];
    let window = prop_oneof![6 => Just(None), 1 => (1u32..48).prop_map(Some)];
    let rare = (prop::bool::weighted(0.2), window, 0u32..3);
    (name, vec(unit(), 0..4), region, rare).prop_map(|(name, mut units, region, (signed, window, bids))| {
        for (id, unit) in (1..).zip(&mut units) {
            unit.resources.id = id;
        }
        let signed_by = SignedBy {
            all_of: if signed {
                vec![auditor().to_string()]
            } else {
                Vec::new()
            },
            any_of: Vec::new(),
        };
        let group = GroupSpec {
            name: name.to_owned(),
            requirements: PlacementRequirements {
                signed_by,
                attributes: region.map(|r| Attribute::new("region", r)).into_iter().collect(),
            },
            resources: units,
        };
        let order = Order {
            id: order_id(1),
            state: OrderState::Open,
            spec: Arc::new(group),
            created_at: 10,
            reclamation_min_window: window.map(|hours| hours * HOUR),
        };
        (order, bids)
    })
}

/// Sends `orders` to one engine, one after the other. The hardware changes before every third order.
/// Reservations of earlier bids remain.
fn played(setup: Setup, hardware: &[InventoryUpdate], orders: Vec<(Order, u32)>) -> Vec<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut alone = SingleEngine::new(setup, hardware[0].clone());
    let mut fates = Vec::new();
    for (dseq, (mut order, bids)) in (1u64..).zip(orders) {
        if let Some(other) = hardware
            .get(usize::try_from(dseq / 3).unwrap())
            .filter(|_| dseq % 3 == 0)
        {
            alone.step(Input::Inventory(other.clone()));
        }
        order.id = order_id(dseq);
        assert_eq!(order.id.owner(), &tenant(1));
        let screened = alone.screened(&runtime, &order, bids);
        let done = alone.done(&order, bids);
        assert_eq!(screened, done, "{order:?}\n{:?}", alone.engine.capacity());
        fates.push(done);
    }
    fates
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(512), ..ProptestConfig::default() })]

    #[test]
    fn screening_matches_outcome_of_engine(
        setup in setup(), hardware in vec(nodes(), 1..4), orders in vec(order(), 1..10),
    ) {
        played(setup, &hardware, orders);
    }
}

#[test]
fn property_orders_cover_every_decline_reason_and_two_prices() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let world = (setup(), vec(nodes(), 1..4), vec(order(), 1..10));
    let (mut reasons, mut prices) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..400 {
        let (setup, hardware, orders) = world.new_tree(&mut runner).unwrap().current();
        for fate in played(setup, &hardware, orders) {
            match fate {
                Ok(offer) => drop(prices.insert(offer.price.to_string())),
                Err((reason, _)) => drop(reasons.insert(reason)),
            }
        }
    }
    let expected = [
        "attributes",
        "deposit",
        "external_ports_exhausted",
        "gpu",
        "insufficient_capacity",
        "invalid_group",
        "leased_ips_exhausted",
        "no_hostnames",
        "no_leased_ips",
        "not_for_us",
        "order_full",
        "price",
        "price_denom",
        "price_too_high",
        "reclamation",
        "signed_by",
        "storage",
        "too_many_volumes",
        "unknown",
    ];
    assert_eq!(
        reasons.iter().map(|reason| reason.as_str()).collect::<Vec<_>>(),
        expected
    );
    assert!(prices.len() > 10, "{prices:?}");
}
