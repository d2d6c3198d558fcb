//! `example-own-daemon daemon.toml`: runs a custom provider until Ctrl-C.
//!
//! The cluster of this example is in memory. Replace this cluster and its capacity with your own. For
//! Kubernetes, use `KubeCluster` and the inventory of `akash-provider-k8s`.

use akash_provider_core::cluster::MemoryCluster;
use akash_provider_core::inventory::node_inventory::{NodeInventory, StaticInventorySource};
use akash_provider_core::inventory::{ClusterSpec, NodeSpec};
use example_own_daemon::{ClusterBackend, DaemonError, DaemonSettings, run};
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), DaemonError> {
    // Without a file there is nothing to run; with one it runs until Ctrl-C.
    let Some(file) = std::env::args().nth(1) else {
        println!("the path of a settings file is missing: run `example-own-daemon daemon.toml`");
        return Ok(());
    };
    let settings = DaemonSettings::read(Path::new(&file))?;
    let nodes = ClusterSpec::from_nodes([NodeSpec::new("node-1", 8_000, 16 << 30, 100 << 30)]);
    let backend = ClusterBackend {
        cluster: Arc::new(MemoryCluster::default()),
        inventory: Arc::new(StaticInventorySource::new(NodeInventory::new(&nodes))),
    };
    let stop = CancellationToken::new();
    let signal = stop.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            signal.cancel();
        }
    });
    run(settings, backend, stop, |_| ()).await
}
