//! Embedded example with capacity from a file: one machine with one core.

use akash_provider_core::inventory::{ClusterSpec, NodeSpec};
use akash_provider_core::sdl;
use example_embedded::{Failed, Play, ProviderBackends, SDL};
use example_static_inventory::FileInventory;
use std::sync::Arc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    const GIB: i64 = 1 << 30;
    let path = std::env::temp_dir().join(format!("nodes-{}.json", std::process::id()));
    let spec = ClusterSpec::from_nodes([NodeSpec::new("attic", 1000, 2 * GIB, 20 * GIB)]);
    std::fs::write(&path, serde_json::to_string_pretty(&spec)?)?;
    let played = play(FileInventory::new(&path)).await;
    std::fs::remove_file(&path)?;
    played
}

async fn play(inventory: FileInventory) -> Result<(), Failed> {
    let ports = ProviderBackends {
        inventory: Arc::new(inventory),
        ..ProviderBackends::memory()?
    };
    let play = Play::start(ports, SDL).await?;
    play.order().await?;
    play.run().await?;

    let status = play.handle().status().await;
    let nodes = &status.inventory.available.nodes;
    assert_eq!(nodes.len(), 1);
    assert_eq!((nodes[0].name.as_str(), nodes[0].cpu.available), ("attic", 500));
    // Half of the machine is left: a second order of this size fits, one of a whole core does not.
    let same = sdl::parse(SDL)?;
    let larger = sdl::parse(&SDL.replace("units: 0.5", "units: 1"))?;
    for (sdl, fits) in [(same, true), (larger, false)] {
        let explained = play.handle().explain(&sdl.groups[0]).await?;
        let explained = explained.ok_or("the capacity is not known")?;
        assert_eq!(explained.fits, fits, "{explained:?}");
        for verdict in explained.nodes {
            println!(
                "{}: fits {}, missing {:?}",
                verdict.node, explained.fits, verdict.missing
            );
        }
    }

    play.close().await?;
    let status = play.stop().await?;
    assert_eq!(status.inventory.available.nodes[0].cpu.available, 1000);
    Ok(())
}
