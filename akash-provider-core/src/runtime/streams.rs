//! The three streams the engine is fed by: chain, cluster, capacity. One task each follows its port for ever,
//! subscribes again when the stream ends, fails or panics, and hands items over through a short queue, so
//! that a port is slowed down rather than memory filled.

use super::execute::panic_text;
use crate::chain::ChainEvents;
use crate::cluster::{Cluster, ClusterChange};
use crate::error::{Error, chain_text};
use crate::inventory::{InventorySource, InventoryUpdate};
use crate::types::{Address, ChainEvent};
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use futures::future::FutureExt;
use futures::stream::{BoxStream, StreamExt};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Facts waiting for the loop: more than a busy block has, little to step through at shutdown.
const CHAIN_QUEUE: usize = 256;
/// Changes waiting for the loop: a rollout touches tens of workloads at once.
const CLUSTER_QUEUE: usize = 128;
/// An update is the whole of capacity, so more than one waiting is waste.
const INVENTORY_QUEUE: usize = 1;
/// First wait after a failure: short, most gaps are a closed connection.
const RETRY_MIN: Duration = Duration::from_millis(200);
/// Longest wait before jitter, which may double it: a healed port is noticed within a minute.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// A chain makes a block every few seconds; this long without a word is worth a line in the log.
const SILENCE: Duration = Duration::from_secs(120);

/// The loop's ends of the streams. Dropping it ends the tasks.
#[derive(Debug)]
pub(crate) struct Feeds {
    pub(crate) chain: mpsc::Receiver<ChainEvent>,
    pub(crate) cluster: mpsc::Receiver<ClusterChange>,
    pub(crate) inventory: mpsc::Receiver<InventoryUpdate>,
    _tasks: JoinSet<()>,
}

impl Feeds {
    /// Starts following the ports.
    pub(crate) fn start(
        chain: Arc<dyn crate::chain::ChainClient>,
        cluster: Arc<dyn Cluster>,
        inventory: Arc<dyn InventorySource>,
        provider: Address,
    ) -> Self {
        let (chain_in, chain_out) = mpsc::channel(CHAIN_QUEUE);
        let (cluster_in, cluster_out) = mpsc::channel(CLUSTER_QUEUE);
        let (inventory_in, inventory_out) = mpsc::channel(INVENTORY_QUEUE);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let chain: &dyn ChainEvents = &*chain;
            follow("chain", || chain.subscribe(&provider), None, &chain_in).await;
        });
        tasks.spawn(async move {
            let lost = Some(ClusterChange::Lost);
            follow("cluster", || cluster.changes(), lost, &cluster_in).await;
        });
        tasks.spawn(async move {
            follow("inventory", || inventory.watch(), None, &inventory_in).await;
        });
        Self {
            chain: chain_out,
            cluster: cluster_out,
            inventory: inventory_out,
            _tasks: tasks,
        }
    }
}

/// Follows one port until the loop is gone. `lost` is handed over once for every gap.
async fn follow<T: Clone + Send>(
    port: &'static str,
    subscribe: impl Fn() -> BoxStream<'static, Result<T, Error>>,
    lost: Option<T>,
    queue: &mpsc::Sender<T>,
) {
    let mut gap = Gap::new(lost);
    loop {
        let once = listen(port, &subscribe, &mut gap, queue);
        match AssertUnwindSafe(once).catch_unwind().await {
            Ok(Err(LoopGone)) => return,
            Ok(Ok(())) => tracing::warn!(port, "stream ended; subscribing again"),
            Err(panic) => {
                tracing::warn!(
                    port,
                    panic = panic_text(panic.as_ref()),
                    "stream panicked; subscribing again"
                );
            }
        }
        if gap.open(queue).await.is_err() {
            return;
        }
    }
}

/// Hands items over until the stream ends.
async fn listen<T: Clone + Send>(
    port: &'static str,
    subscribe: &impl Fn() -> BoxStream<'static, Result<T, Error>>,
    gap: &mut Gap<T>,
    queue: &mpsc::Sender<T>,
) -> Result<(), LoopGone> {
    let mut stream = subscribe();
    loop {
        // Silence is told and not taken for a failure: the stream is asked again as it is.
        let Ok(item) = tokio::time::timeout(SILENCE, stream.next()).await else {
            // Capacity and health may well stand still; a chain does not.
            if port == "chain" {
                tracing::warn!(port, silent_for = ?SILENCE, "nothing heard from the chain");
            }
            continue;
        };
        match item {
            None => return Ok(()),
            Some(Ok(item)) => {
                gap.close();
                queue.send(item).await.map_err(|_| LoopGone)?;
            }
            // The stream heals itself or ends; either way it is not asked again in a hot loop.
            Some(Err(error)) => {
                tracing::warn!(port, error = %chain_text(&error), "stream reports an error");
                gap.open(queue).await?;
            }
        }
    }
}

/// The time between the last good item and the next: waits that grow, and one word to the engine.
struct Gap<T> {
    lost: Option<T>,
    /// A good item came since the last gap.
    known: bool,
    waits: Option<ExponentialBackoff>,
}

impl<T: Clone> Gap<T> {
    const fn new(lost: Option<T>) -> Self {
        Self {
            lost,
            known: false,
            waits: None,
        }
    }

    /// A good item came.
    fn close(&mut self) {
        self.known = true;
        self.waits = None;
    }

    /// A failure: tells it once, then waits.
    async fn open(&mut self, queue: &mpsc::Sender<T>) -> Result<(), LoopGone> {
        if std::mem::take(&mut self.known)
            && let Some(lost) = &self.lost
        {
            queue.send(lost.clone()).await.map_err(|_| LoopGone)?;
        }
        let wait = self.waits.get_or_insert_with(waits).next().unwrap_or(RETRY_MAX);
        tokio::select! {
            biased;
            // Or the task would sleep on when the loop is gone.
            () = queue.closed() => Err(LoopGone),
            () = tokio::time::sleep(wait) => Ok(()),
        }
    }
}

/// Nobody listens to the queue any more.
struct LoopGone;

/// For ever, from [`RETRY_MIN`] doubling to [`RETRY_MAX`], with jitter so that several providers do not
/// come back to one node at the same moment.
fn waits() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(RETRY_MIN)
        .with_max_delay(RETRY_MAX)
        .with_jitter()
        .without_max_times()
        .build()
}

#[cfg(test)]
mod tests;
