//! The environment of the scenarios: a chain, a cluster, a bus, two providers and two tenants.

use akash_provider_core::Config;
use akash_provider_core::bus::{Bus, Delivery, EventStream, LocalBus};
use akash_provider_core::chain::MemoryChain;
use akash_provider_core::cluster::MemoryCluster;
use akash_provider_core::engine::{OrderPhase, Refusal, Status};
use akash_provider_core::inventory::node_inventory::{NodeInventory, StaticInventorySource};
use akash_provider_core::inventory::spec::{ClusterSpec, NodeSpec};
use akash_provider_core::market::{Market, MarketConfig, TenantMsg};
use akash_provider_core::pricing::{Scale, ScaleConfig};
use akash_provider_core::provider::{Provider, ProviderHandle};
use akash_provider_core::sdl::{self, Sdl};
use akash_provider_core::types::{
    Address, Bid, BidId, BlockTime, Coin, Dec, DecCoin, DeploymentId, Event, LeaseId, Msg,
    ProviderRecord as Registration, Topic,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const PROVIDER: u8 = 1;
const OTHER_PROVIDER: u8 = 2;
const TENANT: u8 = 3;
const OTHER_TENANT: u8 = 4;
const BLOCK: Duration = Duration::from_secs(6);
/// Maximum wait of a scenario, in blocks: half an hour of block time.
const BLOCK_LIMIT: u32 = 300;

const SDL: &str = r#"
version: "2.0"
services:
  web:
    image: nginx:1.27
    env: [GREETING=hello]
    expose:
      - port: 80
        accept: [HOSTNAME]
        to: [{global: true}]
profiles:
  compute:
    web:
      resources: {cpu: {units: 0.5}, memory: {size: 256Mi}, storage: {size: 512Mi}}
  placement:
    anywhere:
      pricing:
        web: {denom: uact, amount: 50}
deployment:
  web:
    anywhere: {profile: web, count: 1}
"#;

fn account(number: u8) -> Address {
    Address::from_bytes(&[number; 20]).unwrap()
}

fn coin(amount: u128) -> Coin {
    Coin::new("uact", amount)
}

fn bid_id(tenant: u8, dseq: u64, provider: u8) -> BidId {
    let owner = account(tenant);
    let group = DeploymentId::new(owner, dseq).group(1);
    group.order(1).bid(account(provider))
}

/// Everything outside of the provider: chain, cluster, bus and tenants.
pub(crate) struct World {
    pub(crate) chain: MemoryChain,
    pub(crate) cluster: MemoryCluster,
    bus: LocalBus,
}

impl World {
    pub(crate) fn new() -> Self {
        let mut market = Market::new(MarketConfig::new("story", BlockTime(1_700_000_000_000)));
        for number in [PROVIDER, OTHER_PROVIDER, TENANT, OTHER_TENANT] {
            market.fund(&account(number), &coin(100_000_000));
        }
        for number in [PROVIDER, OTHER_PROVIDER] {
            let registration = Registration {
                owner: account(number),
                host_uri: format!("https://provider-{number}.example.com:8443"),
                info: Default::default(),
                attributes: Vec::new(),
            };
            market.execute(&Msg::CreateProvider(registration)).unwrap();
        }
        Self {
            chain: MemoryChain::with_market(market),
            cluster: MemoryCluster::default(),
            bus: LocalBus::new(),
        }
    }

    pub(crate) async fn start(&self) -> Running {
        const GIB: i64 = 1 << 30;
        let nodes = ClusterSpec::from_nodes([NodeSpec::new("node", 4000, 8 * GIB, 100 * GIB)]);
        let mut prices = ScaleConfig::default();
        prices.cpu = "0.02".parse().unwrap();
        prices.storage = [("ephemeral".to_owned(), "0".parse().unwrap())].into();
        let (provider, handle) = Provider::builder()
            .config(Config::new(account(PROVIDER), "story"))
            .chain(Arc::new(self.chain.clone()))
            .cluster(Arc::new(self.cluster.clone()))
            .bus(Arc::new(self.bus.clone()))
            .pricing(Arc::new(Scale::new(prices).unwrap()))
            .inventory(Arc::new(StaticInventorySource::new(NodeInventory::new(&nodes))))
            .build()
            .unwrap();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(provider.run(shutdown.clone()));
        handle.wait_ready().await.unwrap();
        Running {
            handle,
            chain: self.chain.clone(),
            shutdown,
            task,
        }
    }

    /// Starts a provider that wins a lease. No manifest is submitted yet.
    pub(crate) async fn leased(&self) -> (Running, Tenant) {
        let tenant = self.tenant("web.example.com");
        let provider = self.start().await;
        self.act(tenant.create());
        provider
            .until("a bid", |s| s.orders.iter().any(|o| o.phase == OrderPhase::Open))
            .await;
        self.act(TenantMsg::CreateLease { bid: self.lease(1) });
        provider.until("the lease", |s| s.leases.len() == 1).await;
        (provider, tenant)
    }

    pub(crate) fn act(&self, msg: TenantMsg) {
        self.chain.tenant(msg).unwrap();
    }

    pub(crate) fn lease(&self, dseq: u64) -> LeaseId {
        bid_id(TENANT, dseq, PROVIDER)
    }

    pub(crate) fn bid(&self, id: &BidId) -> Bid {
        self.chain.market(|market| market.bid(id).cloned()).unwrap()
    }

    /// Balance of the provider's account, in uact.
    pub(crate) fn balance(&self) -> u128 {
        self.chain
            .market(|market| market.balance(&account(PROVIDER), "uact").amount)
    }

    pub(crate) fn tenant(&self, hostname: &str) -> Tenant {
        Tenant::new(TENANT, SDL.replace("HOSTNAME", hostname))
    }

    pub(crate) fn other_tenant(&self, hostname: &str) -> Tenant {
        Tenant::new(OTHER_TENANT, SDL.replace("HOSTNAME", hostname))
    }

    pub(crate) fn let_other_provider_win(&self, tenant: &Tenant) {
        let bid = bid_id(OTHER_TENANT, tenant.id.dseq, OTHER_PROVIDER);
        let msg = Msg::CreateBid {
            id: bid.clone(),
            price: DecCoin::new(&"uact".into(), Dec::from_int(1)),
            deposit: coin(500_000),
            resources_offer: tenant.sdl.groups[0].resources.clone(),
            reclamation_window: None,
        };
        self.chain.market(|market| market.execute(&msg)).unwrap();
        self.act(TenantMsg::CreateLease { bid });
    }

    pub(crate) async fn subscribe(&self) -> Subscription {
        Subscription(self.bus.subscribe(&[Topic::Facts]).await.unwrap())
    }
}

pub(crate) struct Subscription(EventStream);

impl Subscription {
    /// Returns all events published since the subscription.
    pub(crate) async fn all(mut self) -> Vec<Arc<Event>> {
        use futures::{FutureExt, StreamExt};
        let mut events = Vec::new();
        while let Some(Some(delivery)) = self.0.next().now_or_never() {
            match delivery {
                Delivery::Event { event, .. } => events.push(event),
                Delivery::Lagged(lost) => panic!("{lost:?} events are lost"),
            }
        }
        events
    }

    /// Returns the names of the events, except for balance checks and health changes.
    pub(crate) async fn milestones(self) -> Vec<String> {
        let names = self.names().await.into_iter();
        let aside = ["balance_checked", "health_changed"];
        names.filter(|name| !aside.contains(&name.as_str())).collect()
    }

    pub(crate) async fn names(self) -> Vec<String> {
        let name = |fact: &Arc<Event>| {
            serde_json::to_value(fact).unwrap()["event"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        self.all().await.iter().map(name).collect()
    }
}

pub(crate) struct Running {
    pub(crate) handle: ProviderHandle,
    chain: MemoryChain,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), akash_provider_core::Error>>,
}

impl Running {
    /// Adds blocks until the provider's status satisfies the condition.
    pub(crate) async fn until(&self, what: &str, seen: impl Fn(&Status) -> bool) -> Arc<Status> {
        for _ in 0..BLOCK_LIMIT {
            self.pass(1).await;
            let status = self.handle.status().await;
            if seen(&status) {
                return status;
            }
        }
        panic!("no {what} in time: {:#?}", self.handle.status().await);
    }

    pub(crate) async fn pass(&self, blocks: u32) {
        for _ in 0..blocks {
            self.chain.advance(BLOCK);
            tokio::time::sleep(BLOCK).await;
        }
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// A tenant with one deployment.
#[derive(Clone)]
pub(crate) struct Tenant {
    id: DeploymentId,
    text: String,
    sdl: Sdl,
}

impl Tenant {
    fn new(number: u8, text: String) -> Self {
        let owner = account(number);
        let sdl = sdl::parse(&text).unwrap();
        Self {
            id: DeploymentId::new(owner, 1),
            text,
            sdl,
        }
    }

    /// Sets the sequence number (dseq) of the tenant's deployment.
    pub(crate) fn numbered(mut self, dseq: u64) -> Self {
        self.id.dseq = dseq;
        self
    }

    pub(crate) fn create(&self) -> TenantMsg {
        TenantMsg::CreateDeployment {
            id: self.id.clone(),
            groups: self.sdl.groups.clone(),
            hash: self.sdl.hash,
            deposit: coin(5_000_000),
            reclamation_min_window: None,
        }
    }

    pub(crate) fn update(&self) -> TenantMsg {
        TenantMsg::UpdateDeployment {
            id: self.id.clone(),
            hash: self.sdl.hash,
        }
    }

    pub(crate) fn close(&self) -> TenantMsg {
        TenantMsg::CloseDeployment { id: self.id.clone() }
    }

    pub(crate) async fn submit(&self, provider: &Running) -> Result<(), Refusal> {
        let manifest = Arc::new(self.sdl.manifest.clone());
        provider
            .handle
            .submit_manifest(&self.id, manifest, self.sdl.hash)
            .await
    }

    pub(crate) fn env(&self) -> Option<Vec<String>> {
        self.sdl.manifest.groups[0].services[0].env.clone()
    }
}

pub(crate) fn with_greeting(tenant: Tenant, greeting: &str) -> Tenant {
    let text = tenant
        .text
        .replace("GREETING=hello", &format!("GREETING={greeting}"));
    Tenant {
        sdl: sdl::parse(&text).unwrap(),
        text,
        ..tenant
    }
}
