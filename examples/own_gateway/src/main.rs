//! The embedded example, whose tenant asks the gateway for its lease over the wire.

use akash_provider_core::chain::MemoryChain;
use akash_provider_core::cluster::MemoryCluster;
use example_embedded::{Failed, Play, Ports, SDL, market};
use example_own_gateway::{Caller, Served, ask};
use std::sync::Arc;

const LEASE: &str = "/lease/1/1/1/status";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let chain = MemoryChain::with_market(market()?);
    let cluster = Arc::new(MemoryCluster::default());
    let ports = Ports {
        network: Arc::new(chain.clone()),
        cluster: cluster.clone(),
        ..Ports::memory()?
    };
    let play = Play::start(ports, SDL).await?;
    let served = Served::start(play.handle(), cluster, &chain).await?;
    let tenant = Caller::new(served.gateway, &chain).await?;
    play.order().await?;
    play.run().await?;

    println!("{}", tenant.curl(LEASE));
    let (status, body) = tenant.get(LEASE).await?;
    assert_eq!(status, 200, "{body}");
    let lease: serde_json::Value = serde_json::from_str(&body)?;
    assert_eq!(lease["services"]["web"]["available"], 1, "{body}");
    // Whoever has no token is told nothing of it.
    assert_eq!(tenant.get_as_nobody(LEASE).await?.0, 401);
    let (_, version) = tenant.get_as_nobody("/version").await?;
    assert!(version.contains("example-own-gateway"), "{version}");

    println!("curl http://{}/leases", served.page);
    assert_eq!(ask(served.page, "/hello").await?, (200, "hello\n".to_owned()));
    let (_, leases) = ask(served.page, "/leases").await?;
    assert_eq!(leases, format!("{} Good\n", play.lease()?));

    play.close().await?;
    assert_eq!(ask(served.page, "/leases").await?.1, "");
    assert_eq!(tenant.get(LEASE).await?.0, 404);
    served.stop().await?;
    play.stop().await?;
    Ok(())
}
