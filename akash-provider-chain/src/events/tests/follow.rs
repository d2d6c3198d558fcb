//! The follower reports every block once and in order, under all faults of a node.
//!
//! Length: one scenario for each fault.

use crate::checkpoint::Checkpoint;
use crate::endpoints::Endpoints;
use crate::events::follow::Follower;
use crate::events::{
    BlockObserver, BlockSource, BlockTx, FollowerSettings, FollowerStatus, HeightStore, MemoryHeights,
};
use crate::limits::EndpointLimits;
use crate::reader::Reader;
use crate::testing::Node;
use crate::testing::chain::{Chain, NodeBehavior, account};
use akash_provider_core::chain::{ChainEvents, ChainQuery};
use akash_provider_core::error::Error;
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{Address, BlockTime, ChainEvent, Height, Snapshot};
use futures::StreamExt;
use futures::stream::BoxStream;
use proptest::prelude::*;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

const TIMEOUT: Duration = Duration::from_secs(30);

fn limits() -> EndpointLimits {
    EndpointLimits {
        response_time: Duration::from_secs(2),
        connect_time: Duration::from_secs(1),
        health_age: Duration::from_millis(200),
        attempts: 3,
        ..EndpointLimits::default()
    }
}

fn settings() -> FollowerSettings {
    FollowerSettings {
        ping_interval: Duration::from_millis(100),
        read_deadline: Duration::from_millis(500),
        poll_interval: Duration::from_millis(30),
        poll_for: Duration::from_millis(300),
        silence: Duration::from_millis(700),
        outage: Duration::from_secs(2),
        gap_max: 50,
        wait_min: Duration::from_millis(10),
        wait_max: Duration::from_millis(100),
        ..FollowerSettings::default()
    }
}

/// A chain, one of its nodes, and a subscribed reader.
struct Scene {
    chain: Chain,
    behavior: Arc<Mutex<NodeBehavior>>,
    node: Option<Node>,
    address: SocketAddr,
    reader: Reader,
    events: BoxStream<'static, Result<ChainEvent, Error>>,
    reported: Height,
}

/// Observer that records each reported height, and whether the block was the newest.
#[derive(Debug, Default)]
struct RecordingObserver(Mutex<Vec<(Height, bool)>>);

impl BlockObserver for RecordingObserver {
    fn observe(&self, height: Height, _: BlockTime, is_newest: bool, _: Option<Vec<BlockTx>>) {
        self.0.lock().unwrap().push((height, is_newest));
    }
}

impl Scene {
    async fn new(settings: FollowerSettings) -> Self {
        Self::before(settings, Arc::<RecordingObserver>::default()).await
    }

    async fn before(settings: FollowerSettings, observer: Arc<RecordingObserver>) -> Self {
        let chain = Chain::new();
        let behavior: Arc<Mutex<NodeBehavior>> = Arc::default();
        let node = chain.node(Arc::clone(&behavior)).await;
        let endpoints = Endpoints::new(&[&node.url], "local", limits()).unwrap();
        let reader = Reader::new(endpoints)
            .with_settings(settings)
            .with_observer(observer);
        let mut scene = Self {
            chain,
            behavior,
            address: node.address(),
            node: Some(node),
            events: reader.subscribe(&us()),
            reader,
            reported: 0,
        };
        let snapshot = scene.resync().await;
        assert_eq!(snapshot.height, scene.chain.height());
        scene
    }

    fn behavior(&self, change: impl FnOnce(&mut NodeBehavior)) {
        change(&mut self.behavior.lock().unwrap());
    }

    async fn wait_for_subscription(&self) {
        let began = Instant::now();
        let node = self.node.as_ref().unwrap();
        while node.pushes.subscribed.load(Ordering::Relaxed) == 0 {
            assert!(began.elapsed() < TIMEOUT, "{:?}", self.reader.status());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until the status of the follower satisfies the condition `is_so`.
    async fn status(&self, what: &str, is_so: impl Fn(&FollowerStatus) -> bool) {
        let began = Instant::now();
        while !is_so(&self.reader.status().follower) {
            assert!(began.elapsed() < TIMEOUT, "{what}: {:?}", self.reader.status());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Pushes a block and waits until the follower reports it. On a slow machine, the follower may report an
    /// outage first.
    async fn push_until_reported(&mut self) {
        self.wait_for_subscription().await;
        let height = self.block(0);
        self.push(height);
        while self.reported < height {
            match self.next().await {
                Ok(ChainEvent::Block { height, .. }) => self.reported = height,
                Ok(ChainEvent::Resync(snapshot)) => self.reported = snapshot.height,
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Makes the node accept connections without sending a response.
    fn freeze(&mut self) {
        self.behavior(|h| h.is_frozen = true);
        let node = self.node.as_ref().unwrap();
        node.pushes.frozen.store(true, Ordering::Relaxed);
    }

    async fn next(&mut self) -> Result<ChainEvent, Error> {
        let next = tokio::time::timeout(TIMEOUT, self.events.next()).await;
        next.unwrap_or_else(|_| panic!("no event: {:?}", self.reader.status()))
            .unwrap()
    }

    async fn resync(&mut self) -> Arc<Snapshot> {
        match self.next().await.unwrap() {
            ChainEvent::Resync(snapshot) => {
                self.reported = snapshot.height;
                snapshot
            }
            other => panic!("expected Resync, got {other:?}"),
        }
    }

    /// Completes a block and returns its height. The block contains an order and two bids if `dseq` is not 0.
    fn block(&self, dseq: u64) -> Height {
        if dseq > 0 {
            let order = self.chain.order(dseq, 1).remove(0);
            self.chain.bid(&order, 2);
            self.chain.bid(&order, 3);
        }
        self.chain.end_block()
    }

    fn push(&self, height: Height) {
        if let Some(node) = &self.node {
            node.push(self.chain.frame(height));
        }
    }

    /// Expects all blocks up to a height, in order, each with its events. Transient errors are ignored.
    async fn expect_up_to(&mut self, height: Height) {
        let mut facts = Vec::new();
        while self.reported < height {
            let event = match self.next().await {
                Err(error) if error.is_transient() => continue,
                event => event.unwrap(),
            };
            match event {
                ChainEvent::Block { height, .. } => {
                    assert_eq!(
                        height,
                        self.reported + 1,
                        "the blocks must be in order and without duplicates"
                    );
                    let mut happened = self.chain.facts(height);
                    happened.retain(|fact| fact.concerns(&us()));
                    assert_eq!(std::mem::take(&mut facts), happened, "block {height}");
                    self.reported = height;
                }
                ChainEvent::Resync(_) => panic!("unexpected Resync: {:?}", self.reader.status()),
                fact => facts.push(fact),
            }
        }
    }

    fn stop_node(&mut self) {
        self.node = None;
    }

    async fn start_node(&mut self) {
        let (chain, behavior) = (self.chain.clone(), Arc::clone(&self.behavior));
        let response = move |method: &str, params: &serde_json::Value| chain.reply(&behavior, method, params);
        self.node = Some(Node::start_at(Some(self.address), response).await);
    }
}

fn us() -> Address {
    account(2)
}

#[tokio::test]
async fn reports_pushed_blocks_without_queries() {
    let mut scene = Scene::new(settings()).await;
    scene.wait_for_subscription().await;
    // Waits for the first query after the subscription.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let calls = scene.node.as_ref().unwrap().calls.load(Ordering::Relaxed);
    for dseq in 1..=5 {
        let height = scene.block(dseq);
        scene.push(height);
        scene.expect_up_to(height).await;
    }
    assert_eq!(
        scene.node.as_ref().unwrap().calls.load(Ordering::Relaxed),
        calls,
        "no queries except the subscription"
    );
    let status = scene.reader.status().follower;
    assert!(matches!(status.source, BlockSource::Websocket(_)), "{status:?}");
    assert_eq!(
        (status.blocks, status.fetched(), status.resyncs),
        (5, 0, 1),
        "{status:?}"
    );
    let fetched = (status.polled, status.missed, status.replayed, status.skipped);
    assert_eq!(fetched, (0, 0, 0, 0));
    let stored = scene.reader.heights.load().unwrap();
    assert_eq!(stored.map(|block| block.height), Some(scene.reported));
}

#[tokio::test]
async fn lagging_subscription_does_not_delay_blocks() {
    // The subscription is not silent, but pushes old blocks.
    let settings = FollowerSettings {
        silence: TIMEOUT * 2,
        ..settings()
    };
    let observer = Arc::<RecordingObserver>::default();
    let mut scene = Scene::before(settings, Arc::clone(&observer)).await;
    scene.push_until_reported().await;
    let first = scene.block(1);
    for dseq in 2..20 {
        scene.block(dseq);
    }
    let last = scene.block(20);
    // The response to another query contains the newest height.
    scene.reader.params().await.unwrap();
    let before = scene.reader.status().follower;
    scene.push(first);
    scene.expect_up_to(last).await;
    let after = scene.reader.status().follower;
    assert_eq!(
        (after.missed - before.missed, after.blocks - before.blocks),
        (19, 20)
    );
    let seen = observer.0.lock().unwrap().clone();
    let of = |height| seen.iter().find(|(at, _)| *at == height).unwrap().1;
    assert!(!of(first) && of(last), "{seen:?}");
    assert_eq!(scene.reader.status().follower.resyncs, 1);
}

#[tokio::test]
async fn lost_duplicate_and_reordered_messages_have_no_effect() {
    let mut scene = Scene::new(settings()).await;
    scene.wait_for_subscription().await;
    let heights: Vec<Height> = (1..=9).map(|dseq| scene.block(dseq)).collect();
    for at in [0, 0, 3, 1, 2, 3, 8, 8, 5] {
        scene.push(heights[at]);
    }
    scene.expect_up_to(heights[8]).await;
    let next = scene.block(0);
    scene.push(next);
    scene.expect_up_to(next).await;
    assert_eq!(scene.reader.status().follower.resyncs, 1);
}

#[tokio::test]
async fn without_a_websocket_blocks_are_polled() {
    let mut scene = Scene::new(settings()).await;
    scene
        .node
        .as_ref()
        .unwrap()
        .pushes
        .refused
        .store(true, Ordering::Relaxed);
    scene.stop_node();
    scene.start_node().await;
    scene
        .node
        .as_ref()
        .unwrap()
        .pushes
        .refused
        .store(true, Ordering::Relaxed);
    for dseq in 1..=3 {
        let height = scene.block(dseq);
        scene.expect_up_to(height).await;
    }
    let status = scene.reader.status().follower;
    assert_eq!(status.source, BlockSource::Polling);
    assert!(status.polled > 0, "{status:?}");
    assert_eq!((status.missed, status.polled + status.replayed), (0, 3));
    scene
        .node
        .as_ref()
        .unwrap()
        .pushes
        .refused
        .store(false, Ordering::Relaxed);
    scene.wait_for_subscription().await;
}

#[tokio::test]
async fn detects_a_hanging_connection() {
    let mut scene = Scene::new(settings()).await;
    scene.stop_node();
    scene.start_node().await;
    scene
        .node
        .as_ref()
        .unwrap()
        .pushes
        .frozen
        .store(true, Ordering::Relaxed);
    for dseq in 1..=3 {
        let height = scene.block(dseq);
        scene.expect_up_to(height).await;
    }
    let status = scene.reader.status().follower;
    assert_eq!(status.resyncs, 1, "{status:?}");
}

#[tokio::test]
async fn detects_a_silent_subscription_but_a_halted_chain_is_no_error() {
    let mut scene = Scene::new(settings()).await;
    scene.wait_for_subscription().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    // The node has lost the subscription, but still responds to pings.
    let height = scene.block(1);
    scene.expect_up_to(height).await;
    let last = SystemTime::now();
    scene.status("silent", |s| s.silent_since.is_some()).await;
    let status = scene.reader.status().follower;
    assert!(
        matches!(status.source, BlockSource::Websocket(_)) && status.silent_since.unwrap() <= last,
        "since the last block, with a working connection: {status:?}"
    );
    let height = scene.block(2);
    scene.expect_up_to(height).await;
    scene.status("blocks again", |s| s.silent_since.is_none()).await;
}

#[tokio::test]
async fn status_reports_an_outage_and_its_start() {
    let mut scene = Scene::new(settings()).await;
    for is_frozen in [false, true] {
        scene.push_until_reported().await;
        scene
            .status("blocks", |s| {
                matches!(s.source, BlockSource::Websocket(_)) && s.silent_since.is_none()
            })
            .await;
        match is_frozen {
            true => scene.freeze(),
            false => scene.stop_node(),
        }
        scene
            .status("no blocks", |s| {
                s.source == BlockSource::None && s.silent_since.is_some()
            })
            .await;
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let status = scene.reader.status().follower;
            assert!(status.silent_since.is_some(), "during all retries: {status:?}");
        }
        scene.stop_node();
        scene.behavior(|h| h.is_frozen = false);
        scene.start_node().await;
    }
}

#[tokio::test]
async fn blocks_during_a_network_failure_are_reported_afterwards() {
    let mut scene = Scene::new(settings()).await;
    scene.wait_for_subscription().await;
    scene.stop_node();
    let mut last = 0;
    for dseq in 1..=20 {
        last = scene.block(dseq);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    scene.start_node().await;
    scene.expect_up_to(last).await;
    let status = scene.reader.status().follower;
    assert_eq!(status.resyncs, 1);
    assert_eq!((status.replayed, status.missed, status.fetched()), (20, 0, 20));
}

#[tokio::test(start_paused = true)]
async fn first_attempt_follows_at_once_and_back_off_starts_at_200_ms() {
    let endpoints = Endpoints::new(&["http://127.0.0.1:1"], "local", limits()).unwrap();
    let (out, _events) = tokio::sync::mpsc::channel(1);
    let mut follower = Follower::new(Reader::new(endpoints), us(), out);
    for _ in 0..2 {
        let mut pauses = Vec::new();
        for _ in 0..6 {
            let began = tokio::time::Instant::now();
            follower.back_off().await;
            pauses.push(began.elapsed().as_millis());
        }
        assert_eq!(pauses, [0, 200, 400, 800, 1000, 1000]);
        // After a reported block, the back-off starts again.
        follower.record_reported(7, BlockTime(1));
    }
}

#[tokio::test]
async fn failed_subscription_is_reopened_at_once() {
    let settings = FollowerSettings {
        wait_min: TIMEOUT,
        wait_max: TIMEOUT,
        ..settings()
    };
    let mut scene = Scene::new(settings).await;
    scene.push_until_reported().await;
    let began = Instant::now();
    let node = scene.node.as_ref().unwrap();
    node.push("nonsense".to_owned());
    while node.pushes.subscribed.load(Ordering::Relaxed) < 2 {
        assert!(began.elapsed() < TIMEOUT / 3, "{:?}", scene.reader.status());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn websocket_is_retried_soon_while_polling() {
    let settings = FollowerSettings {
        poll_for: TIMEOUT,
        ..settings()
    };
    let mut scene = Scene::new(settings).await;
    scene.push_until_reported().await;
    let node = scene.node.as_ref().unwrap();
    node.pushes.refused.store(true, Ordering::Relaxed);
    node.push("nonsense".to_owned());
    scene
        .status("polling", |s| s.source == BlockSource::Polling)
        .await;
    node.pushes.refused.store(false, Ordering::Relaxed);
    let began = Instant::now();
    while node.pushes.subscribed.load(Ordering::Relaxed) < 2 {
        assert!(began.elapsed() < TIMEOUT / 3, "{:?}", scene.reader.status());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn long_outage_is_reported_and_ends_with_a_resync() {
    let mut scene = Scene::new(settings()).await;
    scene.stop_node();
    assert!(scene.next().await.is_err());
    let order = scene.chain.order(5, 1).remove(0);
    scene.chain.end_block();
    tokio::time::sleep(Duration::from_millis(500)).await;
    scene.start_node().await;
    let snapshot = scene.resync().await;
    assert!(snapshot.orders.iter().any(|o| o.id == order));
    let height = scene.block(6);
    scene.expect_up_to(height).await;
}

#[tokio::test]
async fn pruned_gap_is_filled_by_a_search_or_a_resync() {
    let mut scene = Scene::new(settings()).await;
    scene.stop_node();
    for dseq in 1..=5 {
        scene.block(dseq);
    }
    let last = scene.block(0);
    scene.behavior(|h| h.results_from = last);
    scene.start_node().await;
    scene.expect_up_to(last).await;
    assert_eq!(
        scene.reader.status().follower.resyncs,
        1,
        "the search returned the blocks"
    );
    scene.stop_node();
    scene.block(6);
    let last = scene.block(7);
    scene.behavior(|h| (h.results_from, h.no_index) = (last + 1, true));
    scene.start_node().await;
    let snapshot = scene.resync().await;
    assert_eq!(snapshot.orders.len(), 7);
    let status = scene.reader.status().follower;
    assert!(
        status
            .last_resync
            .as_ref()
            .is_some_and(|r| r.contains("cannot get block")),
        "{status:?}"
    );
}

#[tokio::test]
async fn incomplete_search_does_not_cause_a_resync() {
    let mut scene = Scene::new(settings()).await;
    scene.stop_node();
    scene.block(1);
    let last = scene.block(2);
    scene.behavior(|h| (h.results_from, h.cut_searches) = (last + 1, 2));
    scene.start_node().await;
    scene.expect_up_to(last).await;
    let incomplete = scene.behavior.lock().unwrap().cut_searches;
    assert_eq!((incomplete, scene.reader.status().follower.resyncs), (0, 1));
}

#[tokio::test]
async fn large_gap_causes_a_resync() {
    let mut scene = Scene::new(settings()).await;
    scene.stop_node();
    for _ in 0..50 {
        scene.block(0);
    }
    scene.start_node().await;
    let at_the_limit = scene.chain.height();
    scene.expect_up_to(at_the_limit).await;
    scene.stop_node();
    for _ in 0..51 {
        scene.block(0);
    }
    scene.start_node().await;
    let snapshot = scene.resync().await;
    assert_eq!(snapshot.height, at_the_limit + 51);
    scene.status("skipped blocks", |s| s.skipped == 51).await;
}

#[tokio::test]
async fn unavailable_block_causes_a_resync() {
    let mut scene = Scene::new(settings()).await;
    scene.stop_node();
    scene.block(1);
    let withheld = scene.block(2);
    scene.block(3);
    scene.behavior(|h| h.withheld = Some(withheld));
    scene.start_node().await;
    scene.expect_up_to(withheld - 1).await;
    let snapshot = scene.resync().await;
    assert_eq!((snapshot.height, snapshot.orders.len()), (withheld + 1, 3));
}

#[tokio::test]
async fn invalid_messages_do_not_stop_the_follower() {
    let mut scene = Scene::new(settings()).await;
    scene.wait_for_subscription().await;
    for nonsense in [
        "<html>",
        "",
        "{}",
        "{\"result\":{\"data\":{\"type\":\"tendermint/event/NewBlock\",\"value\":{}}}}",
    ] {
        scene.node.as_ref().unwrap().push(nonsense.to_owned());
        let height = scene.block(0);
        scene.push(height);
        scene.expect_up_to(height).await;
    }
    let height = scene.block(1);
    let lying = scene
        .chain
        .frame(height)
        .replace("\\\"gseq\\\":1", "\\\"gseq\\\":-1");
    scene.node.as_ref().unwrap().push(lying);
    // The malformed events are skipped, and the block is reported.
    loop {
        if let ChainEvent::Block { height: reported, .. } = scene.next().await.unwrap() {
            assert_eq!(reported, height);
            break;
        }
    }
    assert_eq!(scene.reader.status().follower.resyncs, 1);
}

#[tokio::test]
async fn node_below_the_stored_height_is_not_trusted() {
    let chain = Chain::new();
    let node = chain.node(Arc::default()).await;
    let heights = Arc::new(MemoryHeights::default());
    let (height, time) = (chain.height() + 2, chain.lock().market.time());
    let time = time.plus(Duration::from_secs(12));
    heights.store(Checkpoint { height, time }).unwrap();
    let endpoints = Endpoints::new(&[&node.url], "local", limits()).unwrap();
    let reader = Reader::new(endpoints)
        .with_settings(settings())
        .with_heights(heights);
    let mut events = reader.subscribe(&us());
    let early = tokio::time::timeout(Duration::from_millis(800), events.next()).await;
    assert!(early.is_err(), "{early:?}");
    chain.end_block();
    let last = chain.end_block();
    let first = tokio::time::timeout(TIMEOUT, events.next())
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(first, Ok(ChainEvent::Resync(s)) if s.height == last));
}

#[tokio::test]
async fn follower_stops_when_the_stream_is_dropped() {
    let scene = Scene::new(settings()).await;
    scene.wait_for_subscription().await;
    let Scene {
        reader, events, node, ..
    } = scene;
    drop(events);
    let began = Instant::now();
    while reader.status().follower.source != BlockSource::None {
        assert!(began.elapsed() < TIMEOUT);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(node);
}

#[tokio::test]
async fn catching_up_is_fast() {
    const BLOCKS: u64 = 600;
    let settings = FollowerSettings {
        gap_max: BLOCKS,
        ..settings()
    };
    let mut scene = Scene::new(settings).await;
    scene.stop_node();
    let mut last = 0;
    for at in 0..BLOCKS {
        last = scene.block(if at < 20 { at + 1 } else { 0 });
    }
    scene.start_node().await;
    let first = scene.reported + 1;
    scene.expect_up_to(first).await;
    let began = Instant::now();
    scene.expect_up_to(last).await;
    let took = began.elapsed();
    let rate = f64::from(u32::try_from(last - first).unwrap()) / took.as_secs_f64();
    println!(
        "caught up {} blocks in {took:?}: {rate:.0} blocks/s",
        last - first
    );
}

#[derive(Debug, Clone)]
enum Act {
    Block { pushed: bool, doubled: bool },
    Cut,
    Freeze,
    Refuse,
    Lag(u64),
    Prune,
    Wait,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (any::<bool>(), any::<bool>()).prop_map(|(pushed, doubled)| Act::Block { pushed, doubled }),
        1 => Just(Act::Cut),
        1 => Just(Act::Freeze),
        1 => Just(Act::Refuse),
        1 => (0_u64..4).prop_map(Act::Lag),
        1 => Just(Act::Prune),
        2 => Just(Act::Wait),
    ]
}

async fn campaign(acts: Vec<Act>) {
    let mut scene = Scene::new(FollowerSettings {
        // A slow machine may stall for seconds, which is not an outage.
        outage: Duration::from_secs(30),
        ..settings()
    })
    .await;
    let mut dseq = 0;
    for act in acts {
        match act {
            Act::Block { pushed, doubled } => {
                dseq += 1;
                let height = scene.block(dseq);
                for _ in 0..usize::from(pushed) + usize::from(doubled) {
                    scene.push(height);
                }
                if dseq % 3 == 0 {
                    let id = akash_provider_core::types::DeploymentId::new(account(1), dseq - 1);
                    scene.chain.tenant(TenantMsg::CloseDeployment { id });
                }
            }
            Act::Cut => {
                scene.stop_node();
                scene.start_node().await;
            }
            Act::Freeze => scene
                .node
                .as_ref()
                .unwrap()
                .pushes
                .frozen
                .store(true, Ordering::Relaxed),
            Act::Refuse => scene
                .node
                .as_ref()
                .unwrap()
                .pushes
                .refused
                .store(true, Ordering::Relaxed),
            // A node never reports a height below its first block.
            Act::Lag(lag) => scene.behavior(|h| h.lag = lag.min(scene.reported.saturating_sub(2))),
            Act::Prune => {
                let newest = scene.chain.height();
                scene.behavior(|h| h.results_from = newest);
            }
            Act::Wait => tokio::time::sleep(Duration::from_millis(30)).await,
        }
    }
    scene.behavior(|h| h.lag = 0);
    let last = scene.block(0);
    scene.expect_up_to(last).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 8, ..ProptestConfig::default() })]
    #[test]
    fn random_faults_lose_no_block(acts in proptest::collection::vec(act(), 1..25)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(campaign(acts));
    }
}

#[tokio::test]
async fn malformed_event_of_another_provider_has_no_effect() {
    let mut scene = Scene::new(settings()).await;
    scene.wait_for_subscription().await;
    let odd = scene.block(1);
    scene.behavior(|h| h.malformed_bid = Some(odd));
    let next = scene.block(2);
    scene.push(next);
    scene.expect_up_to(next).await;
    let status = scene.reader.status().follower;
    assert_eq!((status.malformed, status.resyncs), (0, 1), "{status:?}");
}

#[tokio::test]
async fn malformed_event_is_reported_and_causes_a_resync() {
    let settings = FollowerSettings {
        resync_pause: Duration::from_millis(300),
        ..settings()
    };
    let mut scene = Scene::new(settings).await;
    scene.wait_for_subscription().await;
    // The block with the malformed event is fetched. Only the next one is pushed.
    let lost = scene.block(1);
    scene.behavior(|h| h.malformed_event = Some(lost));
    let next = scene.block(2);
    scene.push(next);
    match scene.next().await.unwrap() {
        ChainEvent::Block { height, .. } => {
            assert_eq!(height, lost, "the block is reported without the malformed event")
        }
        other => panic!("{other:?}"),
    }
    let snapshot = scene.resync().await;
    assert!(snapshot.height >= next);
    assert_eq!(snapshot.orders.len(), 2, "the missing order is in the snapshot");
    let status = scene.reader.status().follower;
    let malformed = status.last_malformed.clone().unwrap();
    assert_eq!(
        (malformed.height, malformed.tx, malformed.index),
        (lost, Some(0), 0),
        "{status:?}"
    );
    assert_eq!((status.malformed, status.resyncs), (1, 2), "{status:?}");
    let why = status.last_resync.unwrap();
    assert!(why.contains("EventOrderCreated"), "{why}");
    // After a second malformed event, the next `Resync` waits for the pause.
    let second = scene.block(3);
    scene.behavior(|h| h.malformed_event = Some(second));
    let began = Instant::now();
    let mut last = scene.block(0);
    scene.push(last);
    let resync = loop {
        match scene.next().await.unwrap() {
            ChainEvent::Resync(snapshot) => break snapshot,
            ChainEvent::Block { height, .. } if height >= last => {
                last = scene.block(0);
                scene.push(last);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            _ => {}
        }
        assert!(began.elapsed() < TIMEOUT);
    };
    assert_eq!(resync.orders.len(), 3);
    assert_eq!(scene.reader.status().follower.resyncs, 3);
}
