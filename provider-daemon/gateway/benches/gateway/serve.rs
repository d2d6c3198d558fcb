//! Daemon: a provider on in-memory backends with 68 running leases, and its gateway.

use super::cluster::Talkative;
use super::{DSEQ, TENANTS};
use akash_provider_chain::cert::{CertUsage, OwnCertificate};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::Config;
use akash_provider_core::bus::LocalBus;
use akash_provider_core::chain::{Inclusion, MemoryChain};
use akash_provider_core::cluster::{Cluster, Facets, MemoryCluster};
use akash_provider_core::inventory::node_inventory::{MemoryInventorySource, NodeInventory};
use akash_provider_core::inventory::spec::{ClusterSpec, NodeSpec};
use akash_provider_core::inventory::{InventoryUpdate, LeasedIpUsage};
use akash_provider_core::market::{MarketConfig, TenantMsg};
use akash_provider_core::pricing::scale::{Scale, ScaleConfig};
use akash_provider_core::provider::{Provider, ProviderHandle};
use akash_provider_core::sdl::{self, Sdl};
use akash_provider_core::types::{
    Address, BlockTime, Coin, DeploymentId, LeaseId, Msg, OrderState, ProviderRecord as Record,
};
use akash_provider_gateway::auth::memory::InMemory;
use akash_provider_gateway::{Gateway, GatewayBackends, GatewaySettings};
use anyhow::{Context, bail};
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio_util::sync::CancellationToken;

const TIMEOUT: Duration = Duration::from_secs(60);
const SDL: &str = include_str!("../../../samples/web.yaml");

/// Prints the address of the gateway, and serves requests until the standard input is closed.
pub(crate) fn run() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(serve())
}

/// Returns the key of a tenant, the same in both processes.
pub(crate) fn tenant(number: u8) -> anyhow::Result<PrivateKey> {
    Ok(PrivateKey::from_bytes(&[number; 32])?)
}

fn provider() -> anyhow::Result<Address> {
    Ok(Address::from_bytes(&[200; 20])?)
}

fn coin(amount: u128) -> Coin {
    Coin::new("uact", amount)
}

fn hardware() -> InventoryUpdate {
    const GIB: i64 = 1 << 30;
    let node = NodeSpec::new("node1", 256_000, 512 * GIB, 1000 * GIB);
    InventoryUpdate {
        inventory: Arc::new(NodeInventory::new(&ClusterSpec::from_nodes([node]))),
        placements: Vec::new(),
        leased_ips: Some(LeasedIpUsage::default()),
    }
}

/// Returns a price strategy with prices below the maximum prices of the tenants.
fn prices() -> anyhow::Result<Scale> {
    let mut config = ScaleConfig::default();
    config.cpu = "0.001".parse()?;
    config.memory = "0.0002".parse()?;
    config.storage = [("ephemeral".to_owned(), "0.00001".parse()?)].into();
    Ok(Scale::new(config)?)
}

fn chain(provider: &Address) -> anyhow::Result<MemoryChain> {
    let chain = MemoryChain::new(MarketConfig::new("bench", BlockTime(0)));
    chain.set_inclusion(Inclusion::Immediate {
        block_time: Duration::from_secs(1),
    });
    chain.market(|market| {
        market.fund(provider, &coin(1_000_000_000_000));
        market.execute(&Msg::CreateProvider(Record {
            owner: provider.clone(),
            host_uri: "https://localhost:8443".to_owned(),
            attributes: Vec::new(),
            info: Default::default(),
        }))
    })?;
    Ok(chain)
}

async fn serve() -> anyhow::Result<()> {
    let us = provider()?;
    let chain = chain(&us)?;
    let cluster: Arc<dyn Cluster> = Arc::new(Talkative(MemoryCluster::new(Facets::default())));
    let mut config = Config::new(us.clone(), "bench");
    config.static_hosts_domain = Some("ingress.localhost".to_owned());
    let source = MemoryInventorySource::new();
    source.push(hardware());
    let (provider, handle) = Provider::builder()
        .config(config)
        .chain(Arc::new(chain.clone()))
        .cluster(Arc::clone(&cluster))
        .inventory(Arc::new(source))
        .pricing(Arc::new(prices()?))
        .bus(Arc::new(LocalBus::new()))
        .build()?;
    let stop = CancellationToken::new();
    let running = tokio::spawn(provider.run(stop.clone()));
    handle.wait_ready().await?;
    let sdl = sdl::parse(SDL)?;
    for number in 1..=TENANTS {
        let key = tenant(number)?;
        chain.market(|market| {
            market.fund(key.address(), &coin(1_000_000_000_000));
            market.set_pubkey(key.address(), key.public().as_bytes().to_vec());
        });
        let lease = lease(&chain, &handle, key.address(), &sdl).await?;
        deploy(&handle, &cluster, &lease, &sdl).await?;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)? - Duration::from_secs(60);
    let usage = CertUsage::Server {
        domains: vec!["localhost".to_owned()],
    };
    let own = OwnCertificate::make(&us, &usage, now)?;
    let ports = GatewayBackends {
        handle,
        cluster,
        chain: Arc::new(chain),
        memory: Arc::new(InMemory::default()),
    };
    let mut settings = GatewaySettings::at(([127, 0, 0, 1], 0).into());
    // All load comes from one address.
    settings.limits.requests_per_network = u32::MAX;
    settings.limits.unleased_per_network = settings.limits.connections;
    let gateway = Gateway::bind(us, ports, &own, settings).await?;
    println!("{}", gateway.address()?);
    std::io::stdout().flush()?;
    let serving = tokio::spawn(gateway.serve(stop.clone()));
    let waiting = || std::io::stdin().read_to_end(&mut Vec::new());
    tokio::task::spawn_blocking(waiting).await??;
    stop.cancel();
    serving.await?;
    Ok(running.await??)
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) -> anyhow::Result<()> {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(TIMEOUT, waiting).await;
    waited.with_context(|| format!("{what}: condition not reached within {TIMEOUT:?}"))
}

async fn lease(
    chain: &MemoryChain,
    handle: &ProviderHandle,
    owner: &Address,
    sdl: &Sdl,
) -> anyhow::Result<LeaseId> {
    let id = DeploymentId::new(owner.clone(), DSEQ);
    chain.tenant(TenantMsg::create_deployment(id.clone(), sdl, coin(5_000_000)))?;
    let bid = || {
        chain.market(|market| {
            let mut orders = market.orders().filter(|o| *o.id.deployment() == id);
            let open = orders.find(|o| o.state == OrderState::Open)?.id.clone();
            market.bids_of(&open).next().map(|b| b.id.clone())
        })
    };
    let waited = until("a bid", async || bid().is_some()).await;
    if waited.is_err() {
        let status = handle.status().await;
        bail!(
            "no bid for {id}: {:?} {:?}",
            status.orders,
            status.recent_declines
        );
    }
    let lease = bid().context("a bid")?;
    chain.tenant(TenantMsg::CreateLease { bid: lease.clone() })?;
    until("the lease", async || {
        handle.has_lease(&lease).await.is_ok_and(|has| has)
    })
    .await?;
    Ok(lease)
}

async fn deploy(
    handle: &ProviderHandle,
    cluster: &Arc<dyn Cluster>,
    lease: &LeaseId,
    sdl: &Sdl,
) -> anyhow::Result<()> {
    let manifest = Arc::new(sdl.manifest.clone());
    let handed_in = handle
        .submit_manifest(lease.deployment(), manifest, sdl.hash)
        .await;
    handed_in.map_err(|refusal| anyhow::anyhow!("{refusal}"))?;
    until("a running workload", async || {
        let status = cluster.lease_status(lease).await;
        status.is_ok_and(|s| s.services.values().all(|s| s.available == s.total))
    })
    .await
}
