//! The three input streams of the engine: chain, cluster, capacity. One task per port subscribes, and
//! subscribes again when the stream ends, fails or panics. A short queue forwards the items, so that a full
//! queue slows the port down instead of filling the memory.

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

/// Length of the chain queue, in events: long enough for a busy block, and short enough that a shutdown can
/// process all queued events.
const CHAIN_QUEUE: usize = 256;
/// Length of the cluster queue: a rollout changes tens of workloads at once.
const CLUSTER_QUEUE: usize = 128;
/// Length of the capacity queue: 1, because each update contains the whole capacity.
const INVENTORY_QUEUE: usize = 1;
/// Initial back-off. The value is small because most failures are closed connections.
const RETRY_MIN: Duration = Duration::from_millis(200);
/// Maximum delay after a failure. The jitter can double the delay.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Time without a chain event after which a warning is logged. A chain creates a block every few seconds.
const SILENCE: Duration = Duration::from_secs(120);

/// Receivers of the streams. Dropping this value ends the tasks of the streams.
#[derive(Debug)]
pub(crate) struct Feeds {
    pub(crate) chain: mpsc::Receiver<ChainEvent>,
    pub(crate) cluster: mpsc::Receiver<ClusterChange>,
    pub(crate) inventory: mpsc::Receiver<InventoryUpdate>,
    _tasks: JoinSet<()>,
}

impl Feeds {
    /// Starts one forwarding task per port.
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

/// Forwards the events of one port to `queue`, and subscribes again when the stream ends or fails. Sends
/// `lost` once per gap in the stream.
async fn follow<T: Clone + Send>(
    port: &'static str,
    subscribe: impl Fn() -> BoxStream<'static, Result<T, Error>>,
    lost: Option<T>,
    queue: &mpsc::Sender<T>,
) {
    let mut gap = StreamGap::new(lost);
    loop {
        let once = listen(port, &subscribe, &mut gap, queue);
        match AssertUnwindSafe(once).catch_unwind().await {
            Ok(Err(LoopGone)) => return,
            Ok(Ok(())) => tracing::warn!(
                port,
                "event stream from chain, cluster or inventory ended, subscribing again"
            ),
            Err(panic) => {
                tracing::warn!(
                    port,
                    panic = panic_text(panic.as_ref()),
                    "event stream from chain, cluster or inventory panicked, subscribing again; report \
                     this as a bug"
                );
            }
        }
        if gap.open(queue).await.is_err() {
            return;
        }
    }
}

/// Forwards items until the stream ends.
async fn listen<T: Clone + Send>(
    port: &'static str,
    subscribe: &impl Fn() -> BoxStream<'static, Result<T, Error>>,
    gap: &mut StreamGap<T>,
    queue: &mpsc::Sender<T>,
) -> Result<(), LoopGone> {
    let mut stream = subscribe();
    loop {
        // A quiet stream is logged, but not treated as a failure.
        let Ok(item) = tokio::time::timeout(SILENCE, stream.next()).await else {
            // Capacity and health can stay unchanged for a long time, a chain cannot.
            if port == "chain" {
                tracing::warn!(port, silent_for = ?SILENCE, "no event received from the chain, still waiting: check the chain nodes");
            }
            continue;
        };
        match item {
            None => return Ok(()),
            Some(Ok(item)) => {
                gap.close();
                queue.send(item).await.map_err(|_| LoopGone)?;
            }
            // The stream recovers or ends. The delay prevents a hot loop.
            Some(Err(error)) => {
                tracing::warn!(port, error = %chain_text(&error), "event stream from chain, cluster or inventory failed, waiting until the stream recovers or ends");
                gap.open(queue).await?;
            }
        }
    }
}

/// Retry state of a stream.
struct StreamGap<T> {
    lost: Option<T>,
    /// Whether a valid item arrived after the last failure.
    is_reset: bool,
    waits: Option<ExponentialBackoff>,
}

impl<T: Clone> StreamGap<T> {
    const fn new(lost: Option<T>) -> Self {
        Self {
            lost,
            is_reset: false,
            waits: None,
        }
    }

    /// Ends the current gap in the stream, because a valid item arrived.
    fn close(&mut self) {
        self.is_reset = true;
        self.waits = None;
    }

    /// Waits before the next subscription. First sends `lost` if the previous subscription delivered a valid
    /// item.
    async fn open(&mut self, queue: &mpsc::Sender<T>) -> Result<(), LoopGone> {
        if std::mem::take(&mut self.is_reset)
            && let Some(lost) = &self.lost
        {
            queue.send(lost.clone()).await.map_err(|_| LoopGone)?;
        }
        let wait = self.waits.get_or_insert_with(waits).next().unwrap_or(RETRY_MAX);
        tokio::select! {
            biased;
            // Ends the wait when the loop ends.
            () = queue.closed() => Err(LoopGone),
            () = tokio::time::sleep(wait) => Ok(()),
        }
    }
}

/// Error: the receiver of the queue was dropped.
struct LoopGone;

/// Returns an endless sequence of retry delays. With the jitter, several providers do not reconnect at the
/// same time.
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
