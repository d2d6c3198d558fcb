//! Whole provider in one program: one order from end to end on the in-memory backends.

use akash_provider_core::cluster::MemoryCluster;
use example_embedded::{Failed, Play, ProviderBackends, SDL};
use std::sync::Arc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let cluster = MemoryCluster::default();
    let ports = ProviderBackends {
        cluster: Arc::new(cluster.clone()),
        ..ProviderBackends::memory()?
    };
    let play = Play::start(ports, SDL).await?;

    let price = play.order().await?;
    // 500 thousandths of a core and 256 MiB at a hundredth each, 512 MiB at a thousandth.
    assert_eq!(price.to_string(), "8.072uact");

    play.run().await?;
    let running = cluster.contents();
    let lease = play.lease()?;
    assert!(running.running.contains_key(&lease));
    assert_eq!(running.hostnames.get("web.example.com"), Some(&lease));
    let status = play.handle().status().await;
    assert_eq!(status.inventory.active.len(), 1);
    assert_eq!(status.inventory.active[0].cpu, 500);

    let earned = play.close().await?;
    assert!(earned.amount > 0);
    let status = play.stop().await?;
    assert!(status.leases.is_empty() && status.orders.is_empty());
    assert_eq!(status.unexpected_inputs, 0);
    assert!(cluster.contents().is_empty());
    Ok(())
}
