//! The connection is cut while the chain continues.

use crate::chain_faults::bidder::Bidder;
use crate::chain_faults::setting;
use crate::chain_faults::world::{CHAIN, authority, bid_id, chain, devnet, height, key, order, start, until};
use akash_provider_chain::ClientSettings;
use akash_provider_chain::tx::TxSigner;
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{ChainEvent, Height};
use fault_proxy::{Faults, Proxy};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Block time of the network.
const BLOCK: Duration = Duration::from_secs(6);

/// Returns true if the bidder received an event that closes the lease of deployment `dseq`.
fn is_close_received(bidder: &Bidder, dseq: u64) -> bool {
    let is_it = |event: &ChainEvent| matches!(event, ChainEvent::LeaseClosed { id, .. } if id.deployment().dseq == dseq);
    let record = bidder.record();
    let mut facts = record
        .runs
        .iter()
        .flat_map(|run| run.blocks.iter().flat_map(|(_, facts)| facts).chain(&run.open));
    facts.any(is_it)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_events_are_handled_within_two_blocks_after_a_cut() {
    let seconds = setting("CHAIN_CUT_SECONDS", 15);
    let chain = chain();
    let net = devnet(&chain, Some(BLOCK)).await;
    let proxy = Proxy::start(&authority(&net.rpc_url()), 1).await.unwrap();
    // The default settings of a provider.
    let mut settings = ClientSettings::new(vec![proxy.url()], CHAIN);
    settings.signer = Some(TxSigner::new(key(), LeadershipGate::new(true)));
    let stop = CancellationToken::new();
    let bidder = Bidder::new(start(settings, &stop));
    tokio::spawn(bidder.clone().run());
    let has_bid = |order: &akash_provider_core::types::OrderId| {
        chain.market(|market| market.bid(&bid_id(order)).map(|bid| bid.created_at))
    };
    let before: Vec<_> = (1..=2).map(|dseq| order(&chain, dseq)).collect();
    until("the first orders have bids", || {
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
        "the connection was cut"
    );
    proxy.set(Faults::default());
    let back = height(&chain);

    until("the bids", || during.iter().all(|order| has_bid(order).is_some())).await;
    let heights: Vec<Height> = during.iter().filter_map(has_bid).collect();
    assert!(
        heights.iter().all(|at| *at <= back + 2),
        "reconnected at height {back}, bids at heights {heights:?}"
    );
    until("the client received the end of the lease", || {
        is_close_received(&bidder, 1)
    })
    .await;
    let received_at = bidder.last_height();
    assert!(
        received_at <= back + 3,
        "reconnected at height {back}, but the end of the lease was received only at height {received_at}"
    );
    assert!(!is_close_received(&bidder, 2));
    assert_eq!(
        bidder.client.status().reader.follower.resyncs,
        1,
        "the gap was filled block by block"
    );
    println!(
        "cut of {seconds} s: reconnected at height {back}, bids at heights {heights:?}, end of the lease received at height {received_at}"
    );
    stop.cancel();
    net.stop().await;
}
