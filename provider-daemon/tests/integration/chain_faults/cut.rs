//! The link is cut while the chain goes on.

use crate::chain_faults::bidder::Bidder;
use crate::chain_faults::setting;
use crate::chain_faults::world::{CHAIN, authority, bid_id, chain, devnet, height, key, order, start, until};
use akash_provider_chain::ClientSettings;
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{ChainEvent, Height};
use fault_proxy::{Faults, Proxy};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// As on the network.
const BLOCK: Duration = Duration::from_secs(6);

/// The height at which a lease's end was told.
fn told_closed(bidder: &Bidder, dseq: u64) -> bool {
    let is_it = |event: &ChainEvent| matches!(event, ChainEvent::LeaseClosed { id, .. } if id.deployment().dseq == dseq);
    let book = bidder.book();
    let mut facts = book
        .runs
        .iter()
        .flat_map(|run| run.blocks.iter().flat_map(|(_, facts)| facts).chain(&run.open));
    facts.any(is_it)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_cut_of_the_link_everything_is_handled_within_two_blocks() {
    let seconds = setting("CHAIN_CUT_SECONDS", 15);
    let chain = chain();
    let net = devnet(&chain, Some(BLOCK)).await;
    let proxy = Proxy::start(&authority(&net.rpc_url()), 1).await.unwrap();
    // The settings of a provider, none of them for the test.
    let settings = ClientSettings {
        key: Some(key()),
        ..ClientSettings::new(vec![proxy.url()], CHAIN)
    };
    let stop = CancellationToken::new();
    let bidder = Bidder::new(start(settings, &stop));
    tokio::spawn(bidder.clone().run());
    let has_bid = |order: &akash_provider_core::types::OrderId| {
        chain.market(|market| market.bid(&bid_id(order)).map(|bid| bid.created_at))
    };
    let before: Vec<_> = (1..=2).map(|dseq| order(&chain, dseq)).collect();
    until("the first bids", || {
        before.iter().all(|order| has_bid(order).is_some())
    })
    .await;
    for order in &before {
        chain
            .tenant(TenantMsg::CreateLease { bid: bid_id(order) })
            .unwrap();
    }

    proxy.set(Faults {
        down: true,
        ..Faults::default()
    });
    tokio::time::sleep(Duration::from_secs(seconds / 3)).await;
    let during: Vec<_> = (11..=13).map(|dseq| order(&chain, dseq)).collect();
    let closed = before[0].deployment().clone();
    chain.tenant(TenantMsg::CloseDeployment { id: closed }).unwrap();
    tokio::time::sleep(Duration::from_secs(seconds - seconds / 3)).await;
    assert!(
        during.iter().all(|order| has_bid(order).is_none()),
        "the link was cut"
    );
    proxy.set(Faults::default());
    let back = height(&chain);

    until("the bids", || during.iter().all(|order| has_bid(order).is_some())).await;
    let heights: Vec<Height> = during.iter().filter_map(has_bid).collect();
    assert!(
        heights.iter().all(|at| *at <= back + 2),
        "back at {back}, bids at {heights:?}"
    );
    until("the lease's end", || told_closed(&bidder, 1)).await;
    let told = bidder.told();
    assert!(
        told <= back + 3,
        "back at {back}, the lease's end was told by {told}"
    );
    assert!(!told_closed(&bidder, 2));
    assert_eq!(
        bidder.client.status().reader.follower.resyncs,
        1,
        "filled block by block"
    );
    println!("cut of {seconds} s: back at {back}, bids at {heights:?}, the lease's end told by {told}");
    stop.cancel();
    net.stop().await;
}
