//! The chain port's suite over both protocols.

use super::client::WireClient;
use super::driver::{CHAIN_ID, WireDriver, key};
use akash_provider_core::chain::conformance::suite;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_over_json_rpc_conforms() {
    let driver = WireDriver::new().await;
    let rpc = driver.devnet.rpc_url();
    let client = WireClient::start(&rpc, &rpc, CHAIN_ID, key(2));
    suite(&client, &driver).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_over_grpc_conforms() {
    let driver = WireDriver::new().await;
    let (rpc, grpc) = (driver.devnet.rpc_url(), driver.devnet.grpc_url());
    let client = WireClient::start(&grpc, &rpc, CHAIN_ID, key(2));
    suite(&client, &driver).await;
}
