//! Embedded example with processes of this machine as its cluster: the tenant's service really runs.

use akash_provider_core::cluster::{Cluster, LogOptions};
use akash_provider_core::types::LeaseId;
use akash_provider_process::{Images, ProcessCluster};
use example_embedded::{Failed, Play, ProviderBackends, SDL};
use futures::StreamExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Script that prints its process ID and an environment variable, and waits for a child process.
const SCRIPT: &str = "echo $$; echo $GREETING from $PORT_8080; sleep 1000 & wait";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let folder = std::env::temp_dir().join(format!("processes-{}", std::process::id()));
    let played = play(&folder).await;
    std::fs::remove_dir_all(&folder)?;
    played
}

async fn play(folder: &Path) -> Result<(), Failed> {
    let script = ["sh", "-c", SCRIPT].map(str::to_owned).to_vec();
    let images = Images::from([("web-server:1".to_owned(), script)]);
    let cluster = ProcessCluster::open(folder, images).await?;
    let ports = ProviderBackends {
        cluster: Arc::new(cluster.clone()),
        ..ProviderBackends::memory()?
    };
    // Processes have ports and no hostnames, so a service has its own port.
    let sdl = SDL
        .replace("port: 80", "port: 8080")
        .replace("        accept: [web.example.com]\n", "");
    let play = Play::start(ports, &sdl).await?;
    play.order().await?;
    play.run().await?;

    let lease = play.lease()?;
    let status = cluster.service_status(&lease, "web").await?;
    assert_eq!((status.available, status.total), (1, 1));
    let lines = lines(&cluster, &lease).await?;
    println!("output: {lines:?}");
    let forwarded = cluster.forwarded_port_status(&lease).await?;
    let port = forwarded["web"][0].external_port;
    assert_eq!(lines[1], format!("hello from {port}"));
    let process = &lines[0];
    assert!(is_alive(process)?);

    play.close().await?;
    assert!(!is_alive(process)?);
    assert_eq!(cluster.deployments().await?.deployments, []);
    assert_eq!(std::fs::read_dir(folder)?.count(), 0);
    play.stop().await?;
    Ok(())
}

/// Returns the first two log lines of the workload.
async fn lines(cluster: &ProcessCluster, lease: &LeaseId) -> Result<Vec<String>, Failed> {
    let mut follow = LogOptions::default();
    follow.follow = true;
    let mut lines = Vec::new();
    let mut logs = cluster.lease_logs(lease, follow).await?.take(2);
    while let Some(line) = logs.next().await {
        lines.push(line?.message);
    }
    Ok(lines)
}

fn is_alive(process: &str) -> Result<bool, Failed> {
    let asked = Command::new("sh")
        .args(["-c", "kill -0 $0 2>/dev/null", process])
        .status()?;
    Ok(asked.success())
}
