//! Speed of the chain client with a development network. Each transaction is confirmed by its block. Prints
//! one JSON object per line.
//!
//! `cargo bench -p provider-daemon --bench chain [-- NAME…]`

#[path = "chain/slow.rs"]
mod slow;

use akash_provider_chain::private_key::PrivateKey;
use akash_provider_chain::tx::TxSigner;
use akash_provider_chain::{AkashClient, BlockSource, ClientSettings};
use akash_provider_core::chain::{ChainEvents, ChainTx, MemoryChain};
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::market::{MarketConfig, TenantMsg};
use akash_provider_core::types::{
    Address, BidId, BlockTime, ChainEvent, Coin, Cpu, Dec, DecCoin, DeploymentId, GroupSpec, Height, Memory,
    Msg, OrderId, PlacementRequirements, ProviderRecord, ResourceUnit, Resources, Storage,
};
use akash_provider_devnet::{Devnet, DevnetConfig};
use anyhow::{Context, ensure};
use fault_proxy::{Faults, Proxy};
use futures::StreamExt;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const CHAIN: &str = "bench";
const BLOCK: Duration = Duration::from_millis(if cfg!(debug_assertions) { 250 } else { 1_000 });
const PATIENCE: Duration = Duration::from_secs(60);
/// Sizes of the measured bursts, in bids.
const BURSTS: &[u64] = if cfg!(debug_assertions) {
    &[100]
} else {
    &[100, 1_000]
};
/// Number of missed blocks. After a larger gap, the client would read a snapshot.
const MISSED: Height = if cfg!(debug_assertions) { 100 } else { 1_500 };
/// Duration for which the calls of an idle client are counted.
const IDLE: Duration = if cfg!(debug_assertions) {
    Duration::from_secs(2)
} else {
    Duration::from_secs(20)
};

/// Counter of allocated bytes. The benchmark does not measure resident memory, because the allocator affects
/// its size.
#[global_allocator]
static ALLOCATED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let is_wanted = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    if let Ok(node) = std::env::var(slow::NODE) {
        return runtime.block_on(slow::client(node));
    }
    runtime.block_on(async {
        if is_wanted("burst") {
            for count in BURSTS {
                burst(*count).await?;
            }
        }
        if is_wanted("catchup") {
            catch_up().await?;
        }
        if is_wanted("idle") {
            idle().await?;
        }
        if is_wanted("slow") {
            slow::growth().await?;
        }
        Ok(())
    })
}

fn figure(name: &str, value: f64, unit: &str) {
    println!(r#"{{"name":"{name}","value":{value},"unit":"{unit}"}}"#);
}

fn key() -> anyhow::Result<PrivateKey> {
    Ok(PrivateKey::from_bytes(&[7; 32])?)
}

fn chain(us: &Address, tenant: &Address) -> anyhow::Result<MemoryChain> {
    let chain = MemoryChain::new(MarketConfig::new(CHAIN, BlockTime(1_700_000_000_000)));
    let coin = |denom: &str| Coin::new(denom, u128::from(u64::MAX));
    chain.market(|market| {
        market.fund(tenant, &coin("uact"));
        market.fund(us, &coin("uact"));
        market.fund(us, &coin("uakt"));
        market.execute(&Msg::CreateProvider(ProviderRecord {
            owner: us.clone(),
            host_uri: "https://provider.example:8443".to_owned(),
            attributes: Vec::new(),
            info: Default::default(),
        }))
    })?;
    chain.advance(BLOCK);
    Ok(chain)
}

fn price(units: i64) -> DecCoin {
    DecCoin::new(&"uact".into(), Dec::from_int(units))
}

fn create(tenant: &Address, dseq: u64) -> (TenantMsg, OrderId) {
    let id = DeploymentId::new(tenant.clone(), dseq);
    let resources = Resources {
        id: 1,
        cpu: Cpu {
            units: 100,
            ..Cpu::default()
        },
        memory: Memory {
            bytes: 1 << 27,
            ..Memory::default()
        },
        storage: vec![Storage {
            name: "default".to_owned(),
            bytes: 1 << 27,
            ..Storage::default()
        }],
        ..Resources::default()
    };
    let group = GroupSpec {
        name: "web".to_owned(),
        requirements: PlacementRequirements::default(),
        resources: vec![ResourceUnit {
            resources,
            count: 1,
            price: price(100),
        }],
    };
    let msg = TenantMsg::CreateDeployment {
        id: id.clone(),
        groups: vec![group],
        hash: [1; 32],
        deposit: Coin::new("uact", 5_000_000),
        reclamation_min_window: None,
    };
    let group = id.group(1);
    (msg, group.order(1))
}

fn client(node: String, stop: &CancellationToken) -> anyhow::Result<AkashClient> {
    let mut settings = ClientSettings::new(vec![node], CHAIN);
    settings.signer = Some(TxSigner::new(key()?, LeadershipGate::new(true)));
    let (client, task) = AkashClient::start(settings, stop.clone())?;
    tokio::spawn(task);
    Ok(client)
}

fn bid_id(us: &Address, order: &OrderId) -> BidId {
    order.clone().bid(us.clone())
}

fn bid(us: &Address, order: &OrderId) -> Msg {
    Msg::CreateBid {
        id: bid_id(us, order),
        price: price(40),
        deposit: Coin::new("uact", 500_000),
        resources_offer: Vec::new(),
        reclamation_window: None,
    }
}

struct Scene {
    chain: MemoryChain,
    net: Devnet,
    us: Address,
    tenant: Address,
    stop: CancellationToken,
}

impl Scene {
    async fn new(block_time: Option<Duration>) -> anyhow::Result<Self> {
        let (us, tenant) = (key()?.address().clone(), Address::from_bytes(&[1; 20])?);
        let chain = chain(&us, &tenant)?;
        let mut config = DevnetConfig::new(chain.clone());
        config.block_time = block_time;
        let net = Devnet::start(config).await?;
        Ok(Self {
            chain,
            net,
            us,
            tenant,
            stop: CancellationToken::new(),
        })
    }

    fn client(&self, node: String) -> anyhow::Result<AkashClient> {
        client(node, &self.stop)
    }

    fn bid_id(&self, order: &OrderId) -> BidId {
        bid_id(&self.us, order)
    }

    fn bid(&self, order: &OrderId) -> Msg {
        bid(&self.us, order)
    }

    async fn end(self) {
        self.stop.cancel();
        self.net.stop().await;
    }
}

/// Measures the number of blocks between the block with the orders and the block with the last bid.
async fn burst(count: u64) -> anyhow::Result<()> {
    let scene = Scene::new(Some(BLOCK)).await?;
    let client = scene.client(scene.net.rpc_url())?;
    let mut events = client.subscribe(&scene.us);
    let first = events
        .next()
        .await
        .context("the stream ended before a `Resync` event")??;
    ensure!(matches!(first, ChainEvent::Resync(_)), "{first:?}");
    // The first bid fills the caches of the fee and the account, as in a provider that has run for a while.
    let (mut orders, mut calls) = (Vec::new(), tokio::task::JoinSet::new());
    let (before, warm) = create(&scene.tenant, 1_000_000);
    scene.chain.tenant(before)?;
    client.broadcast_msgs(vec![scene.bid(&warm)]).await?;
    // Orders are created directly after a block, so that all of them are in the next block.
    wait_for_block(&mut events).await?;
    for dseq in 1..=count {
        let (create, order) = create(&scene.tenant, dseq);
        scene.chain.tenant(create)?;
        orders.push(order);
    }
    let mut asked = 0;
    let mut orders_at = 0;
    while asked < count || orders_at == 0 {
        match events.next().await.context("the event stream ended")?? {
            ChainEvent::OrderCreated { id } if id != warm => {
                let (client, bid) = (client.clone(), scene.bid(&id));
                calls.spawn(async move { client.broadcast_msgs(vec![bid]).await });
                asked += 1;
            }
            ChainEvent::Block { height, .. } if asked == count => orders_at = height,
            _ => {}
        }
    }
    let done = tokio::time::timeout(PATIENCE, async {
        while let Some(call) = calls.join_next().await {
            call??;
        }
        anyhow::Ok(())
    });
    done.await.context("some bids got no outcome in time")??;
    let heights: Option<Vec<Height>> = scene.chain.market(|market| {
        let bid = |order| market.bid(&scene.bid_id(order)).map(|bid| bid.created_at);
        orders.iter().map(bid).collect()
    });
    let last = heights
        .context("a bid is missing on the chain")?
        .into_iter()
        .max()
        .unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "a handful of blocks")]
    figure(
        &format!("burst_{count}_blocks"),
        (last - orders_at) as f64,
        "blocks",
    );
    scene.end().await;
    Ok(())
}

async fn wait_for_block(
    events: &mut (impl StreamExt<Item = Result<ChainEvent, akash_provider_core::Error>> + Unpin),
) -> anyhow::Result<Height> {
    loop {
        if let ChainEvent::Block { height, .. } = events
            .next()
            .await
            .context("the event stream ended before a block")??
        {
            return Ok(height);
        }
    }
}

/// Measures the number of missed blocks that the client reads per second after a disconnect. Each block
/// contains one order. The client fetches each block with a separate request through a proxy on loopback.
async fn catch_up() -> anyhow::Result<()> {
    let scene = Scene::new(None).await?;
    let proxy = Proxy::start(scene.net.rpc_url().trim_start_matches("http://"), 1).await?;
    let client = scene.client(proxy.url())?;
    let mut events = client.subscribe(&scene.us);
    let first = events
        .next()
        .await
        .context("the stream ended before a `Resync` event")??;
    ensure!(matches!(first, ChainEvent::Resync(_)), "{first:?}");
    let from = scene.net.make_block();
    while wait_for_block(&mut events).await? < from {}
    proxy.set(Faults {
        down: true,
        ..Faults::default()
    });
    // Blocks that are pushed before the client notices the disconnect would not be missed.
    let until = Instant::now() + PATIENCE;
    while client.status().reader.follower.source != BlockSource::None {
        ensure!(
            Instant::now() < until,
            "the client has not noticed the disconnect: {:?}",
            client.status()
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut last = 0;
    for dseq in 1..=MISSED {
        let (create, _) = create(&scene.tenant, dseq);
        scene.chain.tenant(create)?;
        last = scene.net.make_block();
    }
    proxy.set(Faults::default());
    // The time starts at the first block after the connection is restored, so the reconnect is not measured.
    let mut height = wait_for_block(&mut events).await?;
    let began = Instant::now();
    let count = last - height;
    while height < last {
        height = wait_for_block(&mut events).await?;
    }
    let took = began.elapsed();
    let status = client.status().reader.follower;
    ensure!(status.resyncs == 1 && status.fetched() >= count, "{status:?}");
    #[expect(clippy::cast_precision_loss, reason = "some thousand blocks")]
    figure("catchup_blocks_per_s", count as f64 / took.as_secs_f64(), "1/s");
    scene.end().await;
    Ok(())
}

/// Counts the requests of an idle client.
async fn idle() -> anyhow::Result<()> {
    let scene = Scene::new(Some(BLOCK)).await?;
    let proxy = Proxy::start(scene.net.rpc_url().trim_start_matches("http://"), 1).await?;
    let client = scene.client(proxy.url())?;
    let mut events = client.subscribe(&scene.us);
    events
        .next()
        .await
        .context("the stream ended before a `Resync` event")??;
    for _ in 0..3 {
        wait_for_block(&mut events).await?;
    }
    let before = proxy.stats();
    let until = Instant::now() + IDLE;
    while Instant::now() < until {
        wait_for_block(&mut events).await?;
    }
    let after = proxy.stats();
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    {
        figure("idle_subscriptions", after.subscriptions as f64, "subscriptions");
        figure(
            "idle_questions",
            (after.questions - before.questions) as f64,
            "questions",
        );
    }
    scene.end().await;
    Ok(())
}
