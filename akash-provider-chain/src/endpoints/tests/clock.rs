//! A clock of this machine that is behind the nodes.

use super::*;
use crate::checkpoint::{Checkpoint, correct_clock, local};
use crate::testing::chain::rfc3339;
use akash_provider_core::types::BlockTime;
use std::sync::atomic::{AtomicI64, Ordering};

/// Starts a node that reports its newest block with a time `ahead` ms after the local time.
async fn node_ahead(chain: &Chain, ahead: &Arc<AtomicI64>) -> Node {
    let (chain, ahead, behavior) = (chain.clone(), Arc::clone(ahead), behavior());
    Node::start(move |method, params| {
        let mut reply = chain.reply(&behavior, method, params);
        if let (Reply::Result(status), "status") = (&mut reply, method) {
            let time = local().0 + ahead.load(Ordering::Relaxed);
            status["sync_info"]["latest_block_time"] = rfc3339(BlockTime(time)).into();
        }
        reply
    })
    .await
}

#[tokio::test]
async fn late_clock_is_corrected_if_two_nodes_agree_or_one_continues() {
    let (chain, ahead) = (Chain::new(), Arc::new(AtomicI64::new(60_500)));
    let (first, second) = (node_ahead(&chain, &ahead).await, node_ahead(&chain, &ahead).await);
    let one = Endpoints::new(&[&first.url], "local", quick()).unwrap();
    let error = one.sync_info().await.unwrap_err().to_string();
    assert!(
        error.contains("60 s ahead") && error.contains("timedatectl"),
        "{error}"
    );
    assert_eq!(one.clock_behind(), None, "a single node may be false");
    let fault = one.status()[0].fault.clone();
    ahead.store(62_500, Ordering::Relaxed);
    one.sync_info().await.unwrap_err();
    assert_eq!(one.status()[0].fault, fault, "reported once");
    ahead.store(60_500, Ordering::Relaxed);
    let both = Endpoints::new(&[&first.url, &second.url], "local", quick()).unwrap();
    both.sync_info().await.unwrap();
    let behind = both.clock_behind().unwrap().as_millis();
    assert!((59_500..=60_500).contains(&behind), "{behind}");
    // The clock is set.
    ahead.store(0, Ordering::Relaxed);
    for _ in 0..100 {
        if both.clock_behind().is_none() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        both.sync_info().await.unwrap();
    }
    assert_eq!(both.clock_behind(), None);
    // The clock is set back while the single node continues.
    ahead.store(60_500, Ordering::Relaxed);
    let one = Endpoints::new(&[&first.url], "local", quick()).unwrap();
    let time = BlockTime(local().0 + 60_500);
    one.raise_floor(Checkpoint { height: 1, time });
    one.sync_info().await.unwrap();
    assert!(one.clock_behind().is_some());
    correct_clock(0);
}
