//! False responses of a node, first without and then with a second, honest node. Soon after the false
//! responses end, the follower reports new orders again, also after a restart.

use crate::checkpoint::Checkpoint;
use crate::endpoints::{Endpoints, LAG_MAX};
use crate::events::{FollowerSettings, HeightStore, MemoryHeights};
use crate::limits::EndpointLimits;
use crate::reader::Reader;
use crate::testing::Node;
use crate::testing::chain::{Chain, Lie, NodeBehavior, account, rfc3339};
use crate::tx::api::TxApi;
use akash_provider_core::chain::{ChainEvents, ChainQuery};
use akash_provider_core::error::Error;
use akash_provider_core::types::{Address, BlockTime, ChainEvent, Height, OrderId, Snapshot};
use futures::StreamExt;
use futures::stream::BoxStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Maximum time of a test step.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Number of blocks with false responses, enough to exceed every limit of the follower.
const LIE: usize = 8;
const BLOCK: Duration = Duration::from_millis(50);

/// Block time later than all blocks of the test chain, which starts in 2023.
const FUTURE: BlockTime = BlockTime(2_000_000_000_000);

const LIES: [Lie; 8] = [
    Lie::Height(i64::MAX as Height),
    Lie::Height(500),
    Lie::Chain(30),
    Lie::Chain(900),
    Lie::Time,
    Lie::Params,
    Lie::Account,
    Lie::Certificates,
];

/// Test setup: a chain, a node with false responses, an optional honest node, and the stored height.
struct Stage {
    chain: Chain,
    behavior: Arc<Mutex<NodeBehavior>>,
    nodes: Vec<Node>,
    heights: Arc<MemoryHeights>,
    next_dseq: u64,
    /// Height of a block. The first node pushes this block three times, each time with a different false
    /// height.
    pushes_next: Option<Height>,
}

/// Provider that follows the chain.
struct Listener {
    reader: Reader,
    events: BoxStream<'static, Result<ChainEvent, Error>>,
}

impl Stage {
    async fn new(has_honest: bool) -> Self {
        let chain = Chain::new();
        let behavior: Arc<Mutex<NodeBehavior>> = Arc::default();
        let mut nodes = vec![chain.node(Arc::clone(&behavior)).await];
        if has_honest {
            nodes.push(chain.node(Arc::default()).await);
        }
        for node in &nodes {
            node.pushes.refused.store(true, Ordering::Relaxed);
        }
        let (heights, next_dseq) = (Arc::default(), 1);
        Self {
            chain,
            behavior,
            nodes,
            heights,
            next_dseq,
            pushes_next: None,
        }
    }

    async fn pushing() -> Self {
        let stage = Self::new(false).await;
        stage.nodes[0].pushes.refused.store(false, Ordering::Relaxed);
        stage
    }

    fn lie(&self, lie: Option<Lie>) {
        self.behavior.lock().unwrap().lie = lie;
    }

    fn start(&self) -> Listener {
        self.start_with(Duration::from_millis(100))
    }

    /// Starts a provider with the given minimum time between two `Resync` events.
    fn start_with(&self, resync_pause: Duration) -> Listener {
        let limits = EndpointLimits {
            // Slow responses of a busy machine are not failures.
            response_time: TIMEOUT,
            connect_time: TIMEOUT,
            health_age: Duration::from_millis(50),
            single_age: Duration::from_millis(50),
            contradiction: Duration::from_millis(100),
            attempts: 2,
            ..EndpointLimits::default()
        };
        let settings = FollowerSettings {
            poll_interval: Duration::from_millis(20),
            silence: Duration::from_millis(300),
            wait_min: Duration::from_millis(5),
            wait_max: Duration::from_millis(50),
            gap_max: 50,
            resync_pause,
            ..FollowerSettings::default()
        };
        let urls: Vec<&String> = self.nodes.iter().map(|node| &node.url).collect();
        let heights: Arc<dyn HeightStore> = Arc::<MemoryHeights>::clone(&self.heights);
        let reader = Reader::new(Endpoints::new(&urls, "local", limits).unwrap());
        let reader = reader.with_settings(settings).with_heights(heights);
        let events = reader.subscribe(&account(2));
        Listener { reader, events }
    }

    /// Pushes the newest block with a false height: the true height plus `above`.
    fn push(&self, above: Height) {
        let newest = self.chain.height();
        self.push_as(newest, newest + above);
    }

    /// Pushes the contents of the block `block` under the height `height`.
    fn push_as(&self, block: Height, height: Height) {
        self.nodes[0].push(self.chain.frame_as(block, height));
    }

    fn push_next(&self, listener: &Listener) {
        let last = listener.reader.status().follower.height;
        if let Some(block) = self.pushes_next {
            (1..=3).for_each(|above| self.push_as(block, last + above));
        }
    }

    /// Adds blocks to the chain and receives the events of each block. With two nodes, also reads values of
    /// the account after each block. Returns the number of reads on which the nodes disagreed.
    async fn lie_for(&mut self, blocks: usize, listener: &mut Listener) -> usize {
        let mut disagreements = 0;
        for _ in 0..blocks {
            self.chain.end_block();
            let until = tokio::time::Instant::now() + BLOCK;
            while let Ok(event) = tokio::time::timeout_at(until, listener.events.next()).await {
                let Some(Ok(event)) = event else { continue };
                assert_no_future(&event);
                if let ChainEvent::Resync(snapshot) = event
                    && self.nodes.len() > 1
                {
                    assert_eq!(snapshot.params, self.chain.snapshot(2).params);
                }
            }
            if self.nodes.len() > 1 {
                // Two nodes either agree on the true value or cause an error.
                let stored = listener.stored().await;
                assert!(stored.is_err() || stored == Ok(((7, 0), 1)), "{stored:?}");
                disagreements += usize::from(stored.is_err());
            }
        }
        disagreements
    }

    /// Checks that the provider receives a new order and the true market parameters.
    async fn is_well(&mut self, listener: &mut Listener, case: &str) {
        let order = self.chain.order(self.next_dseq, 1).remove(0);
        self.next_dseq += 1;
        self.chain.end_block();
        let mut snapshot: Option<Arc<Snapshot>> = None;
        let (mut is_reported, true_params) = (false, self.chain.snapshot(2).params);
        let waiting = async {
            // Further blocks are completed, because a later block contradicts a false height.
            let mut blocks = tokio::time::interval(BLOCK);
            loop {
                let event = tokio::select! {
                    _ = blocks.tick() => {
                        self.chain.end_block();
                        self.push_next(listener);
                        continue;
                    }
                    event = listener.events.next() => event.unwrap(),
                };
                match event {
                    Ok(ChainEvent::Resync(all)) => {
                        is_reported = all.orders.iter().any(|o| o.id == order);
                        snapshot = Some(all);
                    }
                    Ok(ChainEvent::OrderCreated { id, .. }) => is_reported |= id == order,
                    Ok(_) | Err(_) => {}
                }
                let is_true = snapshot.as_ref().is_none_or(|all| all.params == true_params);
                let height = listener.reader.status().follower.height;
                if is_reported && is_true && height <= self.chain.height() {
                    break;
                }
            }
        };
        let done = tokio::time::timeout(TIMEOUT, waiting).await;
        assert!(done.is_ok(), "{case}: {:?}", listener.reader.status());
        assert_eq!(listener.reader.params().await.unwrap(), true_params, "{case}");
        // A refused node is used again after its back-off.
        let stored = async {
            loop {
                if let Ok(stored) = listener.stored().await {
                    break stored;
                }
            }
        };
        let stored = tokio::time::timeout(TIMEOUT, stored).await;
        assert_eq!(stored, Ok(((7, 0), 1)), "{case}");
    }
}

impl Listener {
    /// Reads events until the follower reports the block at this height.
    async fn follows(&mut self, height: Height) {
        let followed = async {
            while self.reader.status().follower.height < height {
                self.events.next().await.unwrap().unwrap();
            }
        };
        tokio::time::timeout(TIMEOUT, followed).await.unwrap();
    }

    /// Reads events until an event contains the order. Returns false after the time limit.
    async fn hears(&mut self, order: &OrderId) -> bool {
        let receiving = async {
            loop {
                match self.events.next().await.unwrap() {
                    Ok(ChainEvent::Resync(all)) if all.orders.iter().any(|o| o.id == *order) => break,
                    Ok(ChainEvent::OrderCreated { id, .. }) if id == *order => break,
                    _ => {}
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(5), receiving)
            .await
            .is_ok()
    }

    fn connections(&self) -> u64 {
        self.reader.status().follower.connections
    }

    fn resyncs(&self) -> u64 {
        self.reader.status().follower.resyncs
    }

    /// Reads the account number, the account sequence and the number of certificates from the chain.
    async fn stored(&self) -> Result<((u64, u64), usize), String> {
        let account = TxApi::account(&self.reader, &account(2)).await;
        let account = account.map_err(|e| e.to_string())?;
        let account = account.map(|account| (account.number, account.sequence));
        let certificates = self.reader.certificates(&tenant(), Some("7")).await;
        let certificates = certificates.map_err(|e| e.to_string())?.len();
        Ok((account.unwrap_or_default(), certificates))
    }
}

fn tenant() -> Address {
    account(1)
}

fn assert_no_future(event: &ChainEvent) {
    let time = match event {
        ChainEvent::Resync(snapshot) => snapshot.time,
        ChainEvent::Block { time, .. } => *time,
        _ => return,
    };
    assert!(time < FUTURE, "{event:?}");
}

#[tokio::test]
async fn orders_are_reported_after_false_responses_and_a_restart() {
    let cases = LIES.iter().flat_map(|lie| [(*lie, false), (*lie, true)]);
    let runs = cases.map(|(lie, has_honest)| async move {
        let case = format!("{lie:?}, with an honest node: {has_honest}");
        let mut stage = Stage::new(has_honest).await;
        let mut listener = stage.start();
        stage.is_well(&mut listener, &case).await;
        stage.lie(Some(lie));
        let disagreements = stage.lie_for(LIE, &mut listener).await;
        if has_honest && matches!(lie, Lie::Account | Lie::Certificates) {
            assert!(disagreements > 0, "{case}: only one node was queried");
        }
        // A provider that starts during the false responses.
        let mut second = stage.start();
        stage.lie_for(LIE, &mut second).await;
        let stored = stage.heights.load().unwrap().unwrap();
        stage.lie(None);
        stage.is_well(&mut listener, &case).await;
        stage.is_well(&mut second, &case).await;
        drop((listener, second));
        // A provider that stopped during the false responses, and starts with the height that was stored then.
        stage.heights.store(stored).unwrap();
        let mut third = stage.start();
        stage.is_well(&mut third, &format!("{case}, restarted")).await;
        let stored = stage.heights.load().unwrap().unwrap();
        assert!(stored.height <= stage.chain.height(), "{case}: {stored:?}");
    });
    futures::future::join_all(runs).await;
}

#[tokio::test]
async fn honest_node_stays_in_use_with_a_node_of_impossible_heights() {
    for lie in [Lie::Height(i64::MAX as Height), Lie::Time] {
        let mut stage = Stage::new(true).await;
        let mut listener = stage.start();
        stage.is_well(&mut listener, "before").await;
        stage.lie(Some(lie));
        stage.lie_for(LIE, &mut listener).await;
        stage.is_well(&mut listener, &format!("during {lie:?}")).await;
    }
}

#[tokio::test]
async fn overtaken_false_chain_hides_no_order() {
    for starts_during_the_lie in [false, true] {
        let mut stage = Stage::new(false).await;
        let mut listener = stage.start();
        stage.is_well(&mut listener, "before").await;
        stage.lie(Some(Lie::Chain(3)));
        let false_height = stage.chain.height() + 3;
        if starts_during_the_lie {
            listener = stage.start();
        }
        listener.follows(false_height).await;
        stage.lie(None);
        let order = stage.chain.order(stage.next_dseq, 1).remove(0);
        // All blocks come at once, so no status shows the lower height.
        for _ in 0..5 {
            stage.chain.end_block();
        }
        let is_reported = listener.hears(&order).await;
        assert!(
            is_reported,
            "started during the lie: {starts_during_the_lie}, {:?}",
            listener.reader.status()
        );
    }
}

#[tokio::test]
async fn impossible_stored_height_is_ignored() {
    let now = crate::checkpoint::now();
    let absurd = [
        (i64::MAX as Height, now),
        (Height::MAX, BlockTime(i64::MIN)),
        (5, BlockTime(i64::MAX)),
    ];
    for (height, time) in absurd {
        let mut stage = Stage::new(false).await;
        stage.heights.store(Checkpoint { height, time }).unwrap();
        let mut listener = stage.start();
        stage.is_well(&mut listener, "absurd").await;
        let stored = stage.heights.load().unwrap().unwrap();
        assert!(stored.height <= stage.chain.height(), "{stored:?}");
    }
}

#[tokio::test]
async fn pushed_heights_without_a_status_cause_no_resync() {
    let mut stage = Stage::pushing().await;
    let mut listener = stage.start();
    stage.is_well(&mut listener, "before").await;
    let resyncs = listener.resyncs();
    // Large differences first. Then as many small ones, without a block between, as failures of one block are
    // allowed.
    let far = [900, 100_000, i64::MAX as Height / 2, 40, 6];
    for above in far.into_iter().chain([2; 12]) {
        let before = listener.connections();
        while listener.connections() == before {
            stage.push(above);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    stage.is_well(&mut listener, "after").await;
    let follower = listener.reader.status().follower;
    assert_eq!(follower.resyncs, resyncs, "{follower:?}");
}

#[tokio::test]
async fn pushed_blocks_above_pruned_blocks_cause_one_resync_per_pause() {
    let mut stage = Stage::pushing().await;
    let mut listener = stage.start_with(Duration::from_secs(60));
    stage.is_well(&mut listener, "before").await;
    let resyncs = listener.resyncs();
    {
        let mut behavior = stage.behavior.lock().unwrap();
        (behavior.results_from, behavior.no_index) = (Height::MAX, true);
    }
    for _ in 0..20 {
        stage.chain.end_block();
        stage.chain.end_block();
        stage.push(0);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let follower = listener.reader.status().follower;
    assert_eq!(follower.resyncs, resyncs + 1, "{follower:?}");
    *stage.behavior.lock().unwrap() = NodeBehavior::default();
    stage.is_well(&mut listener, "after").await;
    assert_eq!(listener.resyncs(), resyncs + 1, "the blocks are available again");
}

#[tokio::test]
async fn pushed_next_heights_are_bounded_by_the_status() {
    let mut stage = Stage::pushing().await;
    let mut listener = stage.start();
    stage.is_well(&mut listener, "before").await;
    let newest = stage.chain.height();
    stage.pushes_next = Some(newest);
    for _ in 0..20 {
        stage.push_next(&listener);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let height = listener.reader.status().follower.height;
    assert!(height > newest, "a pushed block may precede its status");
    assert!(
        height <= newest + LAG_MAX,
        "reported height {height} is above the newest block {newest}"
    );
}

#[tokio::test]
async fn orders_are_reported_while_a_node_pushes_false_heights() {
    let mut stage = Stage::pushing().await;
    let mut listener = stage.start();
    stage.is_well(&mut listener, "before").await;
    stage.pushes_next = Some(stage.chain.height());
    stage.is_well(&mut listener, "during the pushes").await;
    assert!(listener.resyncs() > 1, "the false heights were not reported");
}

#[tokio::test]
async fn pushed_block_in_the_future_is_refused() {
    let mut stage = Stage::pushing().await;
    let mut listener = stage.start();
    stage.is_well(&mut listener, "before").await;
    let (newest, connections) = (stage.chain.end_block(), listener.connections());
    let time = rfc3339(stage.chain.lock().market.time());
    let frame = stage.chain.frame(newest).replace(&time, "2126-01-01T00:00:00Z");
    let follower = || listener.reader.status().follower;
    while follower().height < newest && listener.connections() == connections {
        stage.nodes[0].push(frame.clone());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(follower().time < FUTURE, "{:?}", follower());
    stage.is_well(&mut listener, "after").await;
}
