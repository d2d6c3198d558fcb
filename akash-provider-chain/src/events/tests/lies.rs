//! Nodes that lie, alone and beside an honest one: soon after the lie ends new orders arrive again, also after a restart.

use crate::checkpoint::Checkpoint;
use crate::endpoints::Endpoints;
use crate::events::{HeightStore, MemoryHeights, Settings};
use crate::limits::Limits;
use crate::reader::Reader;
use crate::testing::Node;
use crate::testing::chain::{Chain, Habits, Lie, account};
use crate::tx::api::TxApi;
use akash_provider_core::chain::{ChainEvents, ChainQuery};
use akash_provider_core::error::Error;
use akash_provider_core::types::{Address, BlockTime, ChainEvent, Height, Snapshot};
use futures::StreamExt;
use futures::stream::BoxStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Most real time for a step. The limits below are a hundredth of the real ones, so a busy machine passes too.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the lie goes on: as long as many times all limits.
const LIE: Duration = Duration::from_millis(400);

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

/// A chain, a node that may lie, an honest one or none, and what is stored over a restart.
struct Stage {
    chain: Chain,
    habits: Arc<Mutex<Habits>>,
    nodes: Vec<Node>,
    heights: Arc<MemoryHeights>,
    next_dseq: u64,
}

/// A provider that follows the chain.
struct Listener {
    reader: Reader,
    events: BoxStream<'static, Result<ChainEvent, Error>>,
}

impl Stage {
    async fn new(has_honest: bool) -> Self {
        let chain = Chain::new();
        let habits: Arc<Mutex<Habits>> = Arc::default();
        let mut nodes = vec![chain.node(Arc::clone(&habits)).await];
        if has_honest {
            nodes.push(chain.node(Arc::default()).await);
        }
        for node in &nodes {
            node.pushes.refused.store(true, Ordering::Relaxed);
        }
        let (heights, next_dseq) = (Arc::default(), 1);
        Self {
            chain,
            habits,
            nodes,
            heights,
            next_dseq,
        }
    }

    fn lie(&self, lie: Option<Lie>) {
        self.habits.lock().unwrap().lie = lie;
    }

    fn start(&self) -> Listener {
        let limits = Limits {
            answer_time: Duration::from_secs(2),
            connect_time: Duration::from_secs(1),
            health_age: Duration::from_millis(50),
            single_age: Duration::from_millis(50),
            contradiction: Duration::from_millis(100),
            attempts: 2,
            ..Limits::default()
        };
        let settings = Settings {
            poll_interval: Duration::from_millis(20),
            silence: Duration::from_millis(300),
            wait_min: Duration::from_millis(5),
            wait_max: Duration::from_millis(50),
            gap_max: 50,
            ..Settings::default()
        };
        let urls: Vec<&String> = self.nodes.iter().map(|node| &node.url).collect();
        let heights: Arc<dyn HeightStore> = Arc::<MemoryHeights>::clone(&self.heights);
        let reader = Reader::new(Endpoints::new(&urls, "local", limits).unwrap());
        let reader = reader.with_settings(settings).with_heights(heights);
        let events = reader.subscribe(&account(2));
        Listener { reader, events }
    }

    /// Pushes the newest block with a height that is this much higher.
    fn push(&self, above: Height) {
        let newest = self.chain.height();
        let named = |height: Height| format!("\"height\":\"{height}\"");
        let frame = self.chain.frame(newest);
        self.nodes[0].push(frame.replace(&named(newest), &named(newest + above)));
    }

    /// Blocks come for a while, and are listened to. Returns how often the nodes disagreed about a value to store.
    async fn lie_for(&mut self, time: Duration, listener: &mut Listener) -> usize {
        let mut disagreements = 0;
        let until = tokio::time::Instant::now() + time;
        while tokio::time::Instant::now() < until {
            self.chain.end_block();
            let event = tokio::time::timeout(Duration::from_millis(30), listener.events.next());
            if let Ok(Some(Ok(event))) = event.await {
                assert_no_future(&event);
            }
            if self.nodes.len() > 1 {
                // A stored value is the true one, or the nodes disagree and there is none.
                let stored = listener.stored().await;
                assert!(stored.is_err() || stored == Ok(((7, 0), 1)), "{stored:?}");
                disagreements += usize::from(stored.is_err());
            }
        }
        disagreements
    }

    /// A new order reaches the provider, with the true parameters.
    async fn is_well(&mut self, listener: &mut Listener, case: &str) {
        let order = self.chain.order(self.next_dseq, 1).remove(0);
        self.next_dseq += 1;
        self.chain.end_block();
        let mut snapshot: Option<Arc<Snapshot>> = None;
        let (mut is_told, true_params) = (false, self.chain.snapshot(2).params);
        let waiting = async {
            // Blocks go on, as on any chain: a false height is known by the later block.
            let mut blocks = tokio::time::interval(Duration::from_millis(30));
            loop {
                let event = tokio::select! {
                    _ = blocks.tick() => {
                        self.chain.end_block();
                        continue;
                    }
                    event = listener.events.next() => event.unwrap(),
                };
                match event {
                    Ok(ChainEvent::Resync(all)) => {
                        is_told = all.orders.iter().any(|o| o.id == order);
                        snapshot = Some(all);
                    }
                    Ok(ChainEvent::OrderCreated { id, .. }) => is_told |= id == order,
                    Ok(_) | Err(_) => {}
                }
                let is_true = snapshot.as_ref().is_none_or(|all| all.params == true_params);
                let height = listener.reader.status().follower.height;
                if is_told && is_true && height <= self.chain.height() {
                    break;
                }
            }
        };
        let done = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(done.is_ok(), "{case}: {:?}", listener.reader.status());
        assert_eq!(listener.reader.params().await.unwrap(), true_params, "{case}");
        let stored = listener.stored().await;
        assert_eq!(stored, Ok(((7, 0), 1)), "{case}");
    }
}

impl Listener {
    fn connections(&self) -> u64 {
        self.reader.status().follower.connections
    }

    /// Number and sequence of the account as the transaction writer reads them, and the number of certificates.
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
    // The clock of the test chain stands in 2023.
    assert!(time < BlockTime(2_000_000_000_000), "{event:?}");
}

#[tokio::test]
async fn after_any_lie_orders_are_told_again_also_after_a_restart() {
    let cases = LIES.iter().flat_map(|lie| [(*lie, false), (*lie, true)]);
    let runs = cases.map(|(lie, has_honest)| async move {
        let case = format!("{lie:?}, beside an honest node: {has_honest}");
        let mut stage = Stage::new(has_honest).await;
        let mut listener = stage.start();
        stage.is_well(&mut listener, &case).await;
        stage.lie(Some(lie));
        let disagreements = stage.lie_for(LIE, &mut listener).await;
        if has_honest && matches!(lie, Lie::Account | Lie::Certificates) {
            assert!(disagreements > 0, "{case}: one node alone was asked");
        }
        // A provider that starts while the node lies.
        let mut second = stage.start();
        stage.lie_for(LIE, &mut second).await;
        let stored = stage.heights.load().unwrap().unwrap();
        stage.lie(None);
        stage.is_well(&mut listener, &case).await;
        stage.is_well(&mut second, &case).await;
        drop((listener, second));
        // A provider that was stopped while the node lied, and starts with what it stored then.
        stage.heights.store(stored).unwrap();
        let mut third = stage.start();
        stage.is_well(&mut third, &format!("{case}, restarted")).await;
        let stored = stage.heights.load().unwrap().unwrap();
        assert!(stored.height <= stage.chain.height(), "{case}: {stored:?}");
    });
    futures::future::join_all(runs).await;
}

#[tokio::test]
async fn an_honest_node_goes_on_beside_one_that_names_absurd_heights_and_times() {
    for lie in [Lie::Height(i64::MAX as Height), Lie::Time] {
        let mut stage = Stage::new(true).await;
        let mut listener = stage.start();
        stage.is_well(&mut listener, "before").await;
        stage.lie(Some(lie));
        stage.lie_for(LIE, &mut listener).await;
        stage
            .is_well(&mut listener, &format!("while it lies: {lie:?}"))
            .await;
    }
}

#[tokio::test]
async fn a_stored_height_that_is_impossible_is_not_used() {
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
async fn heights_that_are_pushed_and_in_no_status_bring_no_resync() {
    let mut stage = Stage::new(false).await;
    stage.nodes[0].pushes.refused.store(false, Ordering::Relaxed);
    let mut listener = stage.start();
    stage.is_well(&mut listener, "before").await;
    let resyncs = listener.reader.status().follower.resyncs;
    // Far ones first. Then as many near ones without a block between them as a block may be refused.
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
