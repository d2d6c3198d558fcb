//! A provider with many open bids stops immediately and does not close the bids.

use crate::chain_faults::world::{CHAIN, bid_id, chain, devnet, impatient, order, price, start, until, us};
use akash_provider_core::bus::LocalBus;
use akash_provider_core::cluster::MemoryCluster;
use akash_provider_core::config::Config;
use akash_provider_core::inventory::node_inventory::MemoryInventorySource;
use akash_provider_core::inventory::{ClusterSpec, InventoryUpdate, NodeInventory, NodeSpec};
use akash_provider_core::pricing::{PriceRequest, PricingStrategy};
use akash_provider_core::provider::Provider;
use akash_provider_core::types::{BidState, DecCoin};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const BIDS: u64 = 64;

/// Pricing strategy with a fixed price.
#[derive(Debug)]
struct Fixed;

#[async_trait::async_trait]
impl PricingStrategy for Fixed {
    async fn calculate_price(&self, _: &PriceRequest) -> Result<DecCoin, akash_provider_core::Error> {
        Ok(price())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_with_64_open_bids_takes_less_than_two_seconds_and_closes_none() {
    let chain = chain();
    let net = devnet(&chain, Some(Duration::from_millis(500))).await;
    let stop = CancellationToken::new();
    let client = start(impatient(vec![net.rpc_url()]), &stop);
    let inventory = MemoryInventorySource::new();
    let node = NodeSpec::new("node-1", 1_000_000, 1 << 42, 1 << 44);
    inventory.push(InventoryUpdate {
        inventory: Arc::new(NodeInventory::new(&ClusterSpec::from_nodes([node]))),
        placements: Vec::new(),
        leased_ips: None,
    });
    let (provider, handle) = Provider::builder()
        .config(Config::new(us(), CHAIN))
        .chain(Arc::new(client))
        .cluster(Arc::new(MemoryCluster::default()))
        .bus(Arc::new(LocalBus::new()))
        .pricing(Arc::new(Fixed))
        .inventory(Arc::new(inventory))
        .build()
        .unwrap();
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(provider.run(shutdown.clone()));
    handle.wait_ready().await.unwrap();
    let orders: Vec<_> = (1..=BIDS).map(|dseq| order(&chain, dseq)).collect();
    let open = |order| {
        chain.market(|market| {
            market
                .bid(&bid_id(order))
                .is_some_and(|b| b.state == BidState::Open)
        })
    };
    until("64 open bids", || orders.iter().all(open)).await;

    let began = Instant::now();
    shutdown.cancel();
    running.await.unwrap().unwrap();
    stop.cancel();
    let took = began.elapsed();
    assert!(took <= Duration::from_secs(2), "{took:?}");
    // The bids are still open some blocks later.
    let after = crate::chain_faults::world::height(&chain) + 3;
    until("three blocks", || {
        crate::chain_faults::world::height(&chain) >= after
    })
    .await;
    assert!(orders.iter().all(open), "all bids are open");
    println!("shutdown with {BIDS} open bids took {took:?}");
    net.stop().await;
}
