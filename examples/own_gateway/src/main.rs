//! Embedded example with a tenant that queries its lease through the gateway.

use akash_provider_core::chain::MemoryChain;
use akash_provider_core::cluster::MemoryCluster;
use example_embedded::{Failed, Play, ProviderBackends, SDL, market};
use example_own_gateway::{Caller, GatewayServer, ask};
use std::sync::Arc;

const LEASE: &str = "/lease/1/1/1/status";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let chain = MemoryChain::with_market(market()?);
    let cluster = Arc::new(MemoryCluster::default());
    let ports = ProviderBackends {
        network: Arc::new(chain.clone()),
        cluster: cluster.clone(),
        ..ProviderBackends::memory()?
    };
    let play = Play::start(ports, SDL).await?;
    let server = GatewayServer::start(play.handle(), cluster, &chain).await?;
    let tenant = Caller::new(server.gateway, &chain).await?;
    play.order().await?;
    play.run().await?;

    println!("{}", tenant.curl(LEASE));
    let (status, body) = tenant.get(LEASE).await?;
    assert_eq!(status, 200, "{body}");
    let lease: serde_json::Value = serde_json::from_str(&body)?;
    assert_eq!(lease["services"]["web"]["available"], 1, "{body}");
    // A request without a token gets no data.
    assert_eq!(tenant.get_anonymously(LEASE).await?.0, 401);
    let (_, version) = tenant.get_anonymously("/version").await?;
    assert!(version.contains("example-own-gateway"), "{version}");

    println!("curl http://{}/leases", server.page);
    assert_eq!(ask(server.page, "/hello").await?, (200, "hello\n".to_owned()));
    let (_, leases) = ask(server.page, "/leases").await?;
    assert_eq!(leases, format!("{} Good\n", play.lease()?));

    play.close().await?;
    assert_eq!(ask(server.page, "/leases").await?.1, "");
    assert_eq!(tenant.get(LEASE).await?.0, 404);
    server.stop().await?;
    play.stop().await?;
    Ok(())
}
