//! The chain port's suite over both protocols.

use super::client::WireClient;
use super::driver::{CHAIN_ID, WireDriver, key};
use akash_provider_chain::{AkashClient, ClientSettings};
use akash_provider_core::chain::conformance::suite;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_over_json_rpc_conforms() {
    let driver = WireDriver::new().await;
    let mut settings = ClientSettings::new(vec![driver.devnet.rpc_url()], CHAIN_ID);
    settings.key = Some(key(2));
    settings.planner.poll = Duration::from_millis(30);
    settings.limits.health_age = Duration::from_millis(200);
    let stop = CancellationToken::new();
    let (client, task) = AkashClient::start(settings, stop.clone()).unwrap();
    let task = tokio::spawn(task);
    suite(&client, &driver).await;
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_over_grpc_conforms() {
    let driver = WireDriver::new().await;
    let (rpc, grpc) = (driver.devnet.rpc_url(), driver.devnet.grpc_url());
    let client = WireClient::start(&grpc, &rpc, CHAIN_ID, key(2));
    suite(&client, &driver).await;
}
