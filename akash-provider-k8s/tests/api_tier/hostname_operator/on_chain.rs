//! A provider on a memory chain, with one lease that has hostnames and a leased IP address.

use crate::world::World;
use akash_provider_core::Config;
use akash_provider_core::bus::LocalBus;
use akash_provider_core::chain::MemoryChain;
use akash_provider_core::inventory::node_inventory::MemoryInventorySource;
use akash_provider_core::inventory::{ClusterSpec, InventoryUpdate, LeasedIpUsage, NodeInventory, NodeSpec};
use akash_provider_core::market::{MarketConfig, TenantMsg};
use akash_provider_core::pricing::{Scale, ScaleConfig};
use akash_provider_core::provider::{Provider, ProviderHandle};
use akash_provider_core::sdl;
use akash_provider_core::types::{BlockTime, Coin, LeaseId, Msg, ProviderRecord};
use akash_provider_k8s::cluster::KubeCluster;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(super) const NAMES: [&str; 3] = ["a.example.com", "b.example.com", "c.example.com"];
/// Port of the leased IP address.
pub(super) const PORT: u16 = 8080;
/// A service with three hostnames and a port on a leased IP address.
const SDL: &str = r#"
version: "2.1"
endpoints: {front: {kind: ip}}
services:
  web:
    image: web:1
    expose:
      - port: 80
        accept: [a.example.com, b.example.com, c.example.com]
        to: [{global: true}]
      - port: 8080
        to: [{global: true, ip: front}]
profiles:
  compute:
    web: {resources: {cpu: {units: 0.1}, memory: {size: 64Mi}, storage: {size: 64Mi}}}
  placement:
    anywhere: {pricing: {web: {denom: uact, amount: 1000}}}
deployment:
  web: {anywhere: {profile: web, count: 1}}
"#;

/// Provider that uses an in-memory chain and deploys to the test cluster. Dropping the value stops the
/// provider.
pub(super) struct OnChain {
    chain: MemoryChain,
    handle: ProviderHandle,
    _stop: DropGuard,
}

impl OnChain {
    pub(super) async fn start(world: &World, cluster: Arc<KubeCluster>) -> Self {
        let (address, id) = (&world.settings.provider, world.settings.chain_id.as_str());
        let chain = MemoryChain::new(MarketConfig::new(id, BlockTime(1_700_000_000_000)));
        let tenant = world.lease(1, 1).owner().clone();
        chain.market(|market| {
            for account in [address, &tenant] {
                market.fund(account, &coin(1_000_000_000));
            }
            let record = ProviderRecord {
                owner: address.clone(),
                host_uri: "https://provider.test:8443".to_owned(),
                info: Default::default(),
                attributes: Vec::new(),
            };
            market.execute(&Msg::CreateProvider(record)).unwrap();
        });
        let inventory = MemoryInventorySource::new();
        let nodes = ClusterSpec::from_nodes([NodeSpec::new("node", 4_000, 8 << 30, 100 << 30)]);
        inventory.push(InventoryUpdate {
            inventory: Arc::new(NodeInventory::new(&nodes)),
            placements: Vec::new(),
            leased_ips: Some(LeasedIpUsage {
                total: 2,
                ..LeasedIpUsage::default()
            }),
        });
        let mut prices = ScaleConfig::default();
        prices.cpu = "0.01".parse().unwrap();
        prices.storage = [("ephemeral".to_owned(), "0.001".parse().unwrap())].into();
        let (provider, handle) = Provider::builder()
            .config(Config::new(address.clone(), id))
            .chain(Arc::new(chain.clone()))
            .cluster(cluster)
            .inventory(Arc::new(inventory))
            .pricing(Arc::new(Scale::new(prices).unwrap()))
            .bus(Arc::new(LocalBus::new()))
            .build()
            .unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(provider.run(stop.clone()));
        handle.wait_ready().await.unwrap();
        Self {
            chain,
            handle,
            _stop: stop.drop_guard(),
        }
    }

    pub(super) async fn block(&self, is_so: impl AsyncFnOnce() -> bool) -> bool {
        self.chain.advance(Duration::from_secs(6));
        is_so().await
    }

    /// Creates an order, accepts the bid and submits the manifest.
    pub(super) async fn lease(&self, world: &World) -> LeaseId {
        let lease = world.lease(1, 1);
        let wanted = sdl::parse(SDL).unwrap();
        let created = self.chain.tenant(TenantMsg::CreateDeployment {
            id: lease.deployment().clone(),
            groups: wanted.groups,
            hash: wanted.hash,
            deposit: coin(5_000_000),
            reclamation_min_window: None,
        });
        created.unwrap();
        let has_bid = || {
            self.chain
                .market(|market| market.bids().any(|bid| bid.id == lease))
        };
        let bids = || {
            self.block(async || {
                let declines = self.handle.status().await.recent_declines.clone();
                assert!(declines.is_empty(), "{declines:?}");
                has_bid()
            })
        };
        world.until("the bid", bids).await;
        let bid = lease.clone();
        self.chain.tenant(TenantMsg::CreateLease { bid }).unwrap();
        let has_lease = || self.block(async || self.handle.has_lease(&lease).await.unwrap());
        world.until("the lease", has_lease).await;
        let (id, manifest) = (lease.deployment().clone(), Arc::new(wanted.manifest));
        // The manifest is refused until the cluster has been listed.
        let is_accepted = || {
            let submitted = self
                .handle
                .submit_manifest(&id, Arc::clone(&manifest), wanted.hash);
            self.block(async || submitted.await.is_ok())
        };
        world.until("the manifest is accepted", is_accepted).await;
        lease
    }
}

fn coin(amount: u128) -> Coin {
    Coin::new("uact", amount)
}
