//! Conformance suite of the chain port, over JSON-RPC and over gRPC.

use super::client::WireClient;
use super::driver::{CHAIN_ID, WireDriver, key};
use akash_provider_chain::tx::TxSigner;
use akash_provider_chain::{AkashClient, ClientSettings};
use akash_provider_core::chain::conformance::suite;
use akash_provider_core::election::LeadershipGate;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_over_grpc_conforms() {
    let driver = WireDriver::new().await;
    let (rpc, grpc) = (driver.devnet.rpc_url(), driver.devnet.grpc_url());
    let client = WireClient::start(&grpc, &rpc, CHAIN_ID, key(2));
    suite(&client, &driver).await;
}

/// Runs the conformance suite with the chain client of the daemon.
async fn conforms(driver: &WireDriver, nodes: Vec<String>) {
    let mut settings = ClientSettings::new(nodes, CHAIN_ID);
    settings.signer = Some(TxSigner::new(key(2), LeadershipGate::new(true)));
    settings.limits.health_age = Duration::from_millis(200);
    settings.follower.poll_interval = Duration::from_millis(50);
    settings.planner.poll = Duration::from_millis(30);
    let stop = CancellationToken::new();
    let (client, task) = AkashClient::start(settings, stop.clone()).unwrap();
    let task = tokio::spawn(task);
    suite(&client, driver).await;
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_client_conforms_over_json_rpc() {
    let driver = WireDriver::new().await;
    let nodes = vec![driver.devnet.rpc_url()];
    conforms(&driver, nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_client_conforms_over_both_protocols_together() {
    let driver = WireDriver::new().await;
    let nodes = vec![driver.devnet.grpc_url(), driver.devnet.rpc_url()];
    conforms(&driver, nodes).await;
}
