mod mistakes;

use super::*;
use crate::chain::{Inclusion, MemoryChain};
use std::sync::Arc;

#[tokio::test]
async fn the_memory_chain_conforms() {
    let driver = MemoryDriver::new();
    suite(&driver.client(), &driver).await;
    assert_eq!(driver.client().waiting(), 0);
}

#[tokio::test]
async fn a_chain_with_immediate_blocks_conforms() {
    let driver = MemoryDriver::new();
    let block_time = Duration::from_secs(1);
    driver.client().set_inclusion(Inclusion::Immediate { block_time });
    suite(&driver.client(), &driver).await;
}

#[tokio::test]
async fn pointers_to_a_chain_conform() {
    let driver = MemoryDriver::new();
    let shared: Arc<dyn ChainClient> = Arc::new(driver.client());
    suite(&shared, &driver).await;
    let boxed: Box<MemoryChain> = Box::new(driver.client());
    suite(&boxed, &driver).await;
}

#[tokio::test]
#[should_panic(expected = "an order accepts one bid")]
async fn a_client_of_a_hanging_node_does_not_conform() {
    let driver = MemoryDriver::new();
    driver.client().freeze_reads();
    an_order_accepts_one_bid(&driver.client(), &driver).await;
}

#[tokio::test]
#[should_panic(expected = "a node that is catching up must not be queried")]
async fn a_client_of_a_node_that_is_catching_up_does_not_conform() {
    let driver = MemoryDriver::new();
    driver.client().set_catching_up(true);
    suite(&driver.client(), &driver).await;
}
