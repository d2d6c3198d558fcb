//! The embedded example with a bus of files. At its end, the example reads the events from the files.

use akash_provider_core::bus::Bus;
use akash_provider_core::types::Topic;
use example_embedded::{Failed, Play, ProviderBackends, SDL};
use example_file_bus::FileBus;
use std::path::Path;
use std::sync::Arc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let folder = std::env::temp_dir().join(format!("bus-{}", std::process::id()));
    let played = play(&folder).await;
    std::fs::remove_dir_all(&folder)?;
    played
}

async fn play(folder: &Path) -> Result<(), Failed> {
    let bus = FileBus::open(folder)?;
    let ports = ProviderBackends {
        bus: Arc::new(bus.clone()),
        ..ProviderBackends::memory()?
    };
    let play = Play::start(ports, SDL).await?;
    play.order().await?;
    play.run().await?;
    play.close().await?;
    play.stop().await?;

    let story = facts(folder)?;
    println!("{}", story.join(" → "));
    let milestones = [
        "order_seen",
        "bid_placed",
        "lease_won",
        "manifest_received",
        "deployed",
        "lease_closed",
    ];
    let mut facts = story.iter();
    for milestone in milestones {
        assert!(
            facts.any(|fact| fact == milestone),
            "{milestone} is missing or out of order: {story:?}"
        );
    }
    let last = bus.last(Topic::ClusterStatus).await?;
    assert!(last.is_some(), "the last status is retained");
    Ok(())
}

/// Returns the names of the [`Topic::Facts`] events in the first log file. Reads plain JSON, as another
/// program would.
fn facts(folder: &Path) -> Result<Vec<String>, Failed> {
    let text = std::fs::read_to_string(folder.join("events-00000000000000000000.jsonl"))?;
    let mut names = Vec::new();
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line)?;
        if line["topic"] == Topic::Facts.name() {
            names.push(line["event"]["event"].as_str().unwrap_or_default().to_owned());
        }
    }
    Ok(names)
}
