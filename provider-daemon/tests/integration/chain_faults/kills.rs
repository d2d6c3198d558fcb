//! A client that is killed after it has sent a transaction and before it has received the response.

use crate::chain_faults::bidder::Bidder;
use crate::chain_faults::setting;
use crate::chain_faults::world::{
    CHAIN, authority, bid_id, chain, devnet, height, impatient, order, start, until,
};
use crate::landed::landed;
use akash_provider_core::types::{BidState, Msg};
use fault_proxy::{Faults, Proxy};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const BLOCK: Duration = Duration::from_millis(300);
const NODE: &str = "CHAIN_NODE";

struct Process(Child);

impl Process {
    fn start(node: &str) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "chain_faults::kills::kill_between_send_and_response_loses_or_duplicates_no_bid",
                "--nocapture",
            ])
            .env(NODE, node)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    fn kill(&mut self) {
        // SIGKILL stops all threads.
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_between_send_and_response_loses_or_duplicates_no_bid() {
    if let Ok(node) = std::env::var(NODE) {
        // The process bids on all orders until it is killed.
        let client = start(impatient(vec![node]), &CancellationToken::new());
        return Bidder::new(client).run().await;
    }
    let kills = setting("CHAIN_KILLS", 10);
    let chain = chain();
    let net = devnet(&chain, Some(BLOCK)).await;
    let proxy = Proxy::start(&authority(&net.rpc_url()), 5).await.unwrap();
    let mut process = Process::start(&proxy.url());
    let (mut orders, mut in_the_gap) = (Vec::new(), 0);
    for kill in 0..kills {
        let sent = proxy.stats().broadcasts;
        // The response takes longer than the time until the kill.
        proxy.set(Faults {
            delay_ms: 400,
            ..Faults::default()
        });
        let order = order(&chain, kill + 1);
        until("a send", || proxy.stats().broadcasts > sent).await;
        // At different times between the broadcast and the block.
        tokio::time::sleep(Duration::from_millis(kill * 37 % 200)).await;
        let in_block = chain.market(|market| market.bid(&bid_id(&order)).is_some());
        process.kill();
        in_the_gap += u64::from(!in_block);
        proxy.set(Faults::default());
        process = Process::start(&proxy.url());
        orders.push(order);
    }
    let began = Instant::now();
    let open = |order| {
        chain.market(|market| {
            market
                .bid(&bid_id(order))
                .is_some_and(|b| b.state == BidState::Open)
        })
    };
    until("every order has its bid", || orders.iter().all(open)).await;
    let settled_in = began.elapsed();
    process.kill();
    let landed = landed(&net.rpc_url(), CHAIN, height(&chain)).await;
    let (mut doubled, mut most) = (0, 0);
    for order in &orders {
        let is_it = |msg: &Msg| matches!(msg, Msg::CreateBid { id, .. } if *id == bid_id(order));
        let of: Vec<_> = landed.iter().filter(|tx| tx.msgs.iter().any(is_it)).collect();
        assert_eq!(
            of.iter().filter(|tx| tx.code == 0).count(),
            1,
            "{order:?}: {of:?}"
        );
        doubled += of.len() - 1;
        most = most.max(of.len());
    }
    // A new process without state may repeat a transaction that is not in a block yet. The chain refuses the
    // duplicate.
    assert!(most <= 3, "one bid was sent in {most} transactions");
    println!(
        "{kills} kills, {in_the_gap} before the block; {doubled} bids were sent again and refused; settled in \
         {settled_in:?}"
    );
    net.stop().await;
}
