//! Bid screening without authentication. The size of responses and the number of queries are limited, and other clients
//! are not delayed.

use super::clients::{Client, Reply};
use super::grpc;
use super::world::{SDL, World, hardware, until};
use crate::DECLINE_JSON;
use akash_provider_chain::convert::wire_group_spec;
use akash_provider_chain::proto::akash::provider::v1::{BidScreeningRequest, BidScreeningResponse};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::inventory::node_inventory::NodeInventory;
use akash_provider_core::inventory::spec::{ClusterSpec, NodeSpec};
use akash_provider_core::inventory::{
    AdjustOptions, Allocation, Explanation, InsufficientCapacity, Inventory, InventoryUpdate, Metrics,
};
use akash_provider_core::pricing::{PriceRequest, PricingStrategy};
use akash_provider_core::sdl;
use akash_provider_core::types::{Attribute, DecCoin, GroupSpec, ResourceUnit};
use prost::Message;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(60);
const ANSWER_BYTES_MAX: usize = 16 * 1024;

pub(super) fn group() -> GroupSpec {
    let mut group = sdl::parse(SDL).unwrap().groups.remove(0);
    group.resources.truncate(1);
    group
}

/// Returns a group with `units` resource units. Each unit is too large for any node.
fn large(units: u32) -> GroupSpec {
    let mut group = group();
    let mut unit = group.resources.remove(0);
    unit.resources.cpu.units = 300_000;
    unit.resources.memory.bytes = 1 << 40;
    let more = (0..16).map(|n| Attribute::new(format!("vendor/name/model/a{n}"), "true"));
    unit.resources.cpu.attributes = more.collect();
    group.resources = (1..=units)
        .map(|id| {
            let mut unit = unit.clone();
            unit.resources.id = id;
            unit
        })
        .collect();
    group
}

/// Returns an inventory with a thousand nodes with long names.
fn thousand_nodes() -> InventoryUpdate {
    const GIB: i64 = 1 << 30;
    let node = |n: usize| {
        let name = format!("node-{n:04}.a-pool-of-the-cluster.some-region.compute.internal.example.com");
        NodeSpec::new(&name, 16_000, 64 * GIB, 500 * GIB)
    };
    InventoryUpdate {
        inventory: Arc::new(NodeInventory::new(&ClusterSpec::from_nodes((0..1000).map(node)))),
        ..hardware()
    }
}

#[derive(Debug, Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    /// Number of callers that reached the gate.
    came: AtomicUsize,
    /// Number of callers that passed the gate.
    went: AtomicUsize,
}

impl Gate {
    fn pass(&self) {
        self.came.fetch_add(1, Ordering::SeqCst);
        let is_open = self.is_open.lock().unwrap();
        let waiting = self
            .opened
            .wait_timeout_while(is_open, TIMEOUT, |is_open| !*is_open);
        // Limits the time of a failing test.
        *waiting.unwrap().0 = true;
        self.went.fetch_add(1, Ordering::SeqCst);
    }

    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

/// Inventory with an `explain` that waits at a gate.
#[derive(Debug)]
struct GatedInventory {
    inner: Box<dyn Inventory>,
    gate: Arc<Gate>,
}

impl Inventory for GatedInventory {
    fn adjust(
        &mut self,
        units: &[ResourceUnit],
        options: AdjustOptions,
    ) -> Result<Allocation, InsufficientCapacity> {
        self.inner.adjust(units, options)
    }

    fn restore(&mut self, allocation: &Allocation) {
        self.inner.restore(allocation);
    }

    fn release(&mut self, allocation: &Allocation) {
        self.inner.release(allocation);
    }

    fn explain(&self, units: &[ResourceUnit]) -> Explanation {
        self.gate.pass();
        self.inner.explain(units)
    }

    fn metrics(&self) -> Metrics {
        self.inner.metrics()
    }

    fn dup(&self) -> Box<dyn Inventory> {
        Box::new(Self {
            inner: self.inner.dup(),
            gate: Arc::clone(&self.gate),
        })
    }
}

#[tokio::test]
async fn status_does_not_wait_for_screenings() {
    const AT_ONCE: usize = 64;
    let (gate, nodes) = (Arc::new(Gate::default()), thousand_nodes());
    let gated = GatedInventory {
        inner: nodes.inventory.dup(),
        gate: Arc::clone(&gate),
    };
    let capacity = InventoryUpdate {
        inventory: Arc::new(gated),
        ..nodes
    };
    let world = World::with_all(Vec::new(), capacity, |s| {
        s.limits.screenings = AT_ONCE;
        s.limits.screenings_per_network = 1000;
    })
    .await;
    let key = world.known_tenant(1);
    let body = serde_json::to_string(&large(20)).unwrap();
    let client = world.client();
    let asking = (0..AT_ONCE).map(|_| {
        let (client, body) = (client.clone(), body.clone());
        tokio::spawn(async move { client.send("GET", "/validate", &body).await })
    });
    let asking: Vec<_> = asking.collect();
    until("as many screenings as permitted have started", || async {
        gate.came.load(Ordering::SeqCst) == AT_ONCE
    })
    .await;
    let (_, code) = screen(&world, &group()).await;
    assert_eq!(code, "8", "no permit is free");
    let status = timeout(TIMEOUT, world.client().get("/status")).await;
    assert_eq!(status.expect("a response").status, 200);
    // The life cycle of a lease, from the order to the workload and its status.
    timeout(TIMEOUT, world.running(key.address(), 7, SDL))
        .await
        .expect("a lease");
    let status = timeout(TIMEOUT, world.client().get("/status")).await;
    assert_eq!(status.expect("a response").json()["cluster"]["leases"], 1);
    assert_eq!(gate.went.load(Ordering::SeqCst), 0, "a screening ended");
    gate.open();
    for asked in asking {
        let reply = timeout(TIMEOUT, asked).await.expect("a response").unwrap();
        assert_eq!(reply.status, 422, "{}", reply.body);
    }
    assert_eq!(gate.went.load(Ordering::SeqCst), AT_ONCE);
    world.stop().await;
}

pub(super) async fn validate(world: &World, group: &GroupSpec) -> Reply {
    let body = serde_json::to_string(group).unwrap();
    world.client().send("GET", "/validate", &body).await
}

/// Requests `/validate` with the `Accept` value for detailed declines.
pub(super) async fn detailed(world: &World, group: &GroupSpec) -> Reply {
    let body = serde_json::to_string(group).unwrap();
    let client = world.client().header("Accept", DECLINE_JSON);
    client.send("GET", "/validate", &body).await
}

pub(super) async fn screen(world: &World, group: &GroupSpec) -> (Vec<u8>, String) {
    let request = BidScreeningRequest {
        group_spec: Some(wire_group_spec(group)),
        hostnames: Vec::new(),
    };
    let (mut messages, code) = grpc::unary(world, "BidScreening", request.encode_to_vec()).await;
    (messages.pop().unwrap_or_default(), code)
}

#[tokio::test]
async fn screening_response_is_bounded_with_a_thousand_nodes() {
    let world = World::with_all(Vec::new(), thousand_nodes(), |_| {}).await;
    // The maximum number of units in a body, and then in a group.
    let mut units = 20;
    while serde_json::to_string(&large(units + 1)).unwrap().len() <= 256 * 1024 {
        units += 1;
    }
    for (units, words) in [
        (units, "at most 20 are accepted"),
        (20, "on 1000 nodes"),
        (1, "on 1000 nodes"),
    ] {
        let reply = validate(&world, &large(units)).await;
        assert_eq!(reply.status, 422, "{}", reply.body);
        assert!(reply.body.contains(words), "{}", reply.body);
        assert!(reply.body.len() < ANSWER_BYTES_MAX, "{}", reply.body.len());
        let (message, code) = screen(&world, &large(units)).await;
        assert_eq!(code, "0");
        assert!(message.len() < ANSWER_BYTES_MAX, "{}", message.len());
        let screened = BidScreeningResponse::decode(&message[..]).unwrap();
        assert!(
            !screened.passed && screened.reasons.iter().any(|r| r.contains(words)),
            "{:?}",
            screened.reasons
        );
    }
    // Each kind has its examples.
    let reply = validate(&world, &large(1)).await;
    let example = "cpu, on 1000 nodes: node-0000.a-pool-of-the-cluster.some-region.compute.internal.example.com \
                   for unit 1 (300 requested, 16 free); node-0001";
    assert!(reply.body.contains(example), "{}", reply.body);
    world.stop().await;
}

#[tokio::test]
async fn clients_that_do_not_read_hold_no_screening_permit() {
    let world = World::with_all(Vec::new(), thousand_nodes(), |_| {}).await;
    let body = serde_json::to_string(&large(20)).unwrap();
    let mut readers = Vec::new();
    let mut answers = 0;
    for _ in 0..20 {
        let mut connection = world.client().connect().await.unwrap();
        let head = format!(
            "GET /validate HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        connection.write_all((head + &body).as_bytes()).await.unwrap();
        connection.flush().await.unwrap();
        // Reads the first byte of its response and nothing more.
        timeout(TIMEOUT, connection.read_u8())
            .await
            .expect("a response")
            .unwrap();
        readers.push(connection);
        answers += 1;
    }
    let reply = timeout(TIMEOUT, validate(&world, &group()))
        .await
        .expect("a response");
    assert_eq!((answers, reply.status), (20, 200), "{}", reply.body);
    drop(readers);
    world.stop().await;
}

/// Slow price strategy that counts its calls.
#[derive(Debug, Default)]
struct SlowPrices {
    runs: AtomicUsize,
    at_once: AtomicUsize,
    most: AtomicUsize,
}

#[async_trait::async_trait]
impl PricingStrategy for SlowPrices {
    async fn calculate_price(&self, request: &PriceRequest) -> Result<DecCoin, Error> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(300)).await;
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        Ok(DecCoin::new(
            &request.group.max_price().unwrap().denom,
            "1".parse().unwrap(),
        ))
    }
}

async fn with_slow_prices() -> (World, Arc<SlowPrices>) {
    let slow = Arc::new(SlowPrices::default());
    let pricing = Arc::clone(&slow);
    let world = World::with(|settings| {
        let screening = settings.screening.as_mut().unwrap();
        screening.pricing = pricing;
    });
    (world.await, slow)
}

#[tokio::test]
async fn concurrent_screening_prices_are_limited() {
    let (world, slow) = with_slow_prices().await;
    let group = group();
    let asking = (0..12).map(|_| validate(&world, &group));
    let replies = futures::future::join_all(asking).await;
    let of = |status| replies.iter().filter(|r| r.status == status).count();
    assert_eq!(of(200) + of(429), 12, "{replies:?}");
    // Four have a permit at once, so at least those get a response.
    assert!(of(200) >= 4, "{replies:?}");
    assert_eq!(slow.runs.load(Ordering::SeqCst), of(200));
    assert_eq!(slow.most.load(Ordering::SeqCst), 2);
    world.stop().await;
}

/// Price strategy with one price for a certain GPU model, and one for all other groups.
#[derive(Debug)]
struct ByModel;

#[async_trait::async_trait]
impl PricingStrategy for ByModel {
    async fn calculate_price(&self, request: &PriceRequest) -> Result<DecCoin, Error> {
        let gpus = request.units().iter().flat_map(|u| &u.resources.gpu.attributes);
        let has_model = gpus.into_iter().any(|a| a.key.contains("/model/a100"));
        let price = if has_model { "30" } else { "10" };
        Ok(DecCoin::new(&"uact".into(), price.parse().unwrap()))
    }
}

#[tokio::test]
async fn a_screening_is_priced_by_what_a_bid_would_reserve() {
    let model = Attribute::new("capabilities/gpu/vendor/nvidia/model/a100", "true");
    let world = World::with_all(vec![model], hardware(), |settings| {
        settings.screening.as_mut().unwrap().pricing = Arc::new(ByModel);
    })
    .await;
    let mut group = group();
    let gpu = &mut group.resources[0].resources.gpu;
    gpu.units = 1;
    gpu.attributes = vec![Attribute::new("vendor/nvidia/model/*", "true")];
    let amount = |text: &str| text.parse::<f64>().unwrap();
    let validated = validate(&world, &group).await;
    assert_eq!(validated.status, 200, "{}", validated.body);
    let price = &validated.json()["min_bid_price"]["amount"];
    assert_eq!(amount(price.as_str().unwrap()), 30.0);
    let (message, code) = screen(&world, &group).await;
    let screened = BidScreeningResponse::decode(&message[..]).unwrap();
    assert!(code == "0" && screened.passed, "{:?}", screened.reasons);
    // The wire format of a price has eighteen decimals without a point.
    let amount = screened.price.unwrap().amount;
    assert!(
        amount.starts_with("30") && amount.trim_end_matches('0') == "3",
        "{amount}"
    );
    let offered = screened.resource_offers[0]
        .resources
        .as_ref()
        .unwrap()
        .gpu
        .as_ref()
        .unwrap();
    assert!(offered.attributes[0].key.contains("/model/a100"), "{offered:?}");
    world.stop().await;
}

/// Price strategy that always fails. The error contains the path and the output of a script.
#[derive(Debug)]
pub(super) struct FailingPrices;

#[async_trait::async_trait]
impl PricingStrategy for FailingPrices {
    async fn calculate_price(&self, _: &PriceRequest) -> Result<DecCoin, Error> {
        let cause = Error::new(ErrorKind::Invalid, "script", "stderr: password=hunter2");
        Err(Error::new(ErrorKind::Invalid, "calculate price", "/opt/secret/price.sh").with_source(cause))
    }
}

#[tokio::test]
async fn errors_of_a_price_script_do_not_reach_callers_of_screening() {
    let world = World::with(|s| s.screening.as_mut().unwrap().pricing = Arc::new(FailingPrices)).await;
    let validated = validate(&world, &group()).await;
    let (message, _) = screen(&world, &group()).await;
    let screened = BidScreeningResponse::decode(&message[..]).unwrap();
    assert_eq!(screened.reasons, ["the provider could not calculate a price"]);
    assert_eq!(validated.status, 422, "{}", validated.body);
    for secret in ["/opt/secret", "hunter2"] {
        assert!(!validated.body.contains(secret), "{}", validated.body);
    }
    world.stop().await;
}

#[tokio::test]
async fn unsupported_denomination_is_refused_before_the_price() {
    let (world, slow) = with_slow_prices().await;
    for denom in ["uother", "u$(touch /tmp/x)", ""] {
        let mut group = group();
        group.resources[0].price = DecCoin::new(&denom.into(), "50000".parse().unwrap());
        let reply = validate(&world, &group).await;
        assert_eq!(reply.status, 422, "{denom}: {}", reply.body);
    }
    assert_eq!(slow.runs.load(Ordering::SeqCst), 0);
    assert_eq!(validate(&world, &group()).await.status, 200);
    assert_eq!(slow.runs.load(Ordering::SeqCst), 1);
    world.stop().await;
}

#[tokio::test]
async fn screening_budget_is_per_network() {
    let world = World::with(|s| s.limits.screenings_per_network = 3).await;
    let body = serde_json::to_string(&group()).unwrap();
    let ask = async |from: &str| {
        let client = Client::new(world.address).from(from);
        client.send("GET", "/validate", &body).await.status
    };
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(ask("127.0.0.1").await);
    }
    assert_eq!(statuses, [200; 3]);
    assert_eq!(ask("127.0.0.1").await, 429);
    let (_, code) = screen(&world, &group()).await;
    assert_eq!(code, "8");
    assert_eq!(ask("127.0.0.2").await, 200);
    world.stop().await;
}

#[tokio::test]
async fn auditors_without_signatures_have_a_query_budget() {
    use akash_provider_core::types::Address;
    let world = World::start().await;
    let mut number = 0_u16;
    let mut statuses = Vec::new();
    for _ in 0..10 {
        let mut group = group();
        let named = (0..10).map(|_| {
            number += 1;
            let mut account = [7; 20];
            account[..2].copy_from_slice(&number.to_be_bytes());
            Address::from_bytes(&account).unwrap().to_string()
        });
        group.requirements.signed_by.any_of = named.collect();
        statuses.push(validate(&world, &group).await.status);
    }
    // Sixty per minute: no more chain queries.
    assert_eq!(statuses, [[422; 6].as_slice(), &[429; 4]].concat());
    assert_eq!(validate(&world, &group()).await.status, 200);
    world.stop().await;
}
