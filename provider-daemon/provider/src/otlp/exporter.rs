//! Export of spans or log records: a bounded queue and a task that sends batches to the collector.

use super::collector::{CollectorClient, PartialSuccess, SendFailure};
use super::signal::Signal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Capacity of the queue, in spans or log records.
const QUEUE: usize = 4096;
/// Maximum number of spans or log records in a request.
const BATCH_MAX: usize = 512;
/// Maximum back-off.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Delays and time limits of the export task.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExportTiming {
    /// Maximum time that the first item of a request waits for further items.
    pub(super) collect: Duration,
    /// Back-off after the first failure, doubled after each further failure.
    pub(super) backoff: Duration,
    /// Maximum time of a request.
    pub(super) request: Duration,
    /// Maximum time to send the remaining items at shutdown.
    pub(super) last: Duration,
}

impl ExportTiming {
    /// Values that a provider uses; tests use shorter times.
    pub(super) const DEFAULT: Self = Self {
        collect: Duration::from_millis(500),
        backoff: Duration::from_secs(1),
        request: Duration::from_secs(10),
        last: Duration::from_secs(2),
    };
}

/// Counters of items (spans or log records) and requests.
#[derive(Debug, Default)]
pub(super) struct ItemCounts {
    /// Items that entered the queue.
    pub(super) queued: AtomicU64,
    /// Items that the collector accepted.
    pub(super) exported: AtomicU64,
    /// Number of items dropped because the queue was full.
    pub(super) queue_full: AtomicU64,
    /// Items that the collector rejected.
    pub(super) rejected: AtomicU64,
    /// Number of items not sent before the end of the process.
    pub(super) unsent: AtomicU64,
    /// Failed requests.
    pub(super) failures: AtomicU64,
}

impl ItemCounts {
    fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(u64::try_from(count).unwrap_or_default(), Ordering::Relaxed);
    }

    /// Returns the number of items that are not yet sent.
    pub(super) fn waiting(&self) -> u64 {
        let done = [&self.exported, &self.rejected, &self.unsent];
        let done: u64 = done.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        self.queued.load(Ordering::Relaxed).saturating_sub(done)
    }
}

/// Creates a queue.
pub(super) fn queue<T>() -> (ItemSender<T>, ItemReceiver<T>) {
    let (queue, items) = mpsc::channel(QUEUE);
    let counts = Arc::<ItemCounts>::default();
    let sender = ItemSender {
        queue,
        counts: Arc::clone(&counts),
    };
    (sender, ItemReceiver { items, counts })
}

/// Receiving half of the queue.
#[derive(Debug)]
pub(super) struct ItemReceiver<T> {
    items: Receiver<T>,
    counts: Arc<ItemCounts>,
}

/// Sending half of the queue.
#[derive(Debug)]
pub(super) struct ItemSender<T> {
    queue: Sender<T>,
    counts: Arc<ItemCounts>,
}

impl<T> ItemSender<T> {
    /// Sends an item. If the queue is full, counts and drops the item.
    pub(super) fn send(&self, item: T) {
        let counter = match self.queue.try_send(item) {
            Ok(()) => &self.counts.queued,
            Err(_) => &self.counts.queue_full,
        };
        ItemCounts::add(counter, 1);
    }
}

#[derive(Debug)]
pub(super) struct Export {
    /// Name of the signal.
    signal: &'static str,
    task: JoinHandle<()>,
    end: CancellationToken,
    counts: Arc<ItemCounts>,
    /// Maximum time to send the remaining items at shutdown.
    last: Duration,
}

impl Export {
    /// Starts the export task. `endpoint` is the name of the collector in log messages.
    pub(super) fn start<S: Signal>(
        exporter: S,
        client: Arc<CollectorClient>,
        endpoint: String,
        timing: ExportTiming,
        queue: ItemReceiver<S::Item>,
    ) -> Self {
        let ItemReceiver { items, counts } = queue;
        let end = CancellationToken::new();
        let worker = Worker {
            exporter,
            client,
            endpoint,
            timing,
            items,
            batch: Vec::new(),
            counts: Arc::clone(&counts),
            end: end.clone(),
            is_failing: false,
            is_incomplete: false,
        };
        Self {
            signal: S::NAME,
            task: tokio::spawn(worker.run()),
            end,
            counts,
            last: timing.last,
        }
    }

    pub(super) const fn counts(&self) -> &Arc<ItemCounts> {
        &self.counts
    }

    /// Sends the remaining items for at most `self.last`, then stops the task.
    pub(super) async fn finish(mut self) {
        self.end.cancel();
        if timeout(self.last, &mut self.task).await.is_err() {
            self.task.abort();
        }
        let unsent = self.counts.waiting();
        self.counts.unsent.fetch_add(unsent, Ordering::Relaxed);
        let unsent = self.counts.unsent.load(Ordering::Relaxed);
        if unsent > 0 {
            tracing::warn!(
                signal = self.signal,
                unsent,
                "last spans or log records not exported; check the OpenTelemetry collector"
            );
        }
    }
}

struct Worker<S: Signal> {
    exporter: S,
    client: Arc<CollectorClient>,
    endpoint: String,
    timing: ExportTiming,
    items: Receiver<S::Item>,
    /// Items of the current request.
    batch: Vec<S::Item>,
    counts: Arc<ItemCounts>,
    end: CancellationToken,
    /// True from a reported failure until a request succeeds.
    is_failing: bool,
    /// True after the first warning about dropped items.
    is_incomplete: bool,
}

impl<S: Signal> Worker<S> {
    async fn run(mut self) {
        while self.collect().await {
            self.deliver().await;
            self.batch.clear();
            self.report_full();
        }
    }

    /// Collects items for a request. Returns `false` if the queue is closed and empty.
    async fn collect(&mut self) -> bool {
        let end = self.end.clone();
        tokio::select! {
            biased;
            _ = self.items.recv_many(&mut self.batch, BATCH_MAX) => {}
            () = end.cancelled() => {
                self.items.close();
                self.items.recv_many(&mut self.batch, BATCH_MAX).await;
            }
        }
        if self.batch.is_empty() {
            return false;
        }
        if self.batch.len() < BATCH_MAX {
            // Returns immediately at the end.
            let _ = timeout(self.timing.collect, end.cancelled()).await;
            while self.batch.len() < BATCH_MAX
                && let Ok(item) = self.items.try_recv()
            {
                self.batch.push(item);
            }
        }
        true
    }

    /// Sends the batch until the collector accepts or rejects the batch. After the shutdown has started,
    /// sends the batch at most once.
    async fn deliver(&mut self) {
        let mut backoff = self.timing.backoff;
        loop {
            let failure = match self.send().await {
                Ok(rejection) => return self.accepted(&rejection),
                Err(failure) => failure,
            };
            self.counts.failures.fetch_add(1, Ordering::Relaxed);
            self.report_failure(&failure);
            if !failure.is_transient {
                return ItemCounts::add(&self.counts.rejected, self.batch.len());
            }
            if self.end.is_cancelled() {
                return ItemCounts::add(&self.counts.unsent, self.batch.len());
            }
            // The end interrupts the back-off, and the batch is sent a last time.
            let _ = timeout(backoff, self.end.cancelled()).await;
            backoff = BACKOFF_MAX.min(backoff * 2);
        }
    }

    async fn send(&self) -> Result<PartialSuccess, SendFailure> {
        let exported = self.exporter.send(&self.batch).await;
        match (self.client.take_result(), exported) {
            (Some(result), _) => result,
            (None, Ok(())) => Ok(PartialSuccess::default()),
            // The request was not sent.
            (None, Err(error)) => Err(SendFailure {
                message: error.to_string(),
                is_transient: false,
            }),
        }
    }

    fn accepted(&mut self, rejection: &PartialSuccess) {
        let sent = u64::try_from(self.batch.len()).unwrap_or_default();
        let rejected = rejection.items.min(sent);
        self.counts.rejected.fetch_add(rejected, Ordering::Relaxed);
        self.counts.exported.fetch_add(sent - rejected, Ordering::Relaxed);
        if rejected > 0 && !std::mem::replace(&mut self.is_incomplete, true) {
            tracing::warn!(
                signal = S::NAME,
                endpoint = self.endpoint,
                rejected,
                error = rejection.message,
                "OpenTelemetry collector rejected spans or log records; check the limits of the collector"
            );
        }
        if std::mem::take(&mut self.is_failing) {
            let dropped = self.counts.queue_full.load(Ordering::Relaxed);
            tracing::info!(
                signal = S::NAME,
                endpoint = self.endpoint,
                dropped,
                "export to the OpenTelemetry collector works again"
            );
        }
    }

    /// Logs the first of several consecutive failures.
    fn report_failure(&mut self, failure: &SendFailure) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(
                signal = S::NAME,
                endpoint = self.endpoint,
                error = failure.message,
                "cannot export to the OpenTelemetry collector, no lease is affected; check --otlp-endpoint and the collector"
            );
        }
    }

    /// Logs one warning after items were dropped.
    fn report_full(&mut self) {
        let dropped = self.counts.queue_full.load(Ordering::Relaxed);
        if dropped > 0 && !std::mem::replace(&mut self.is_incomplete, true) {
            tracing::warn!(
                signal = S::NAME,
                endpoint = self.endpoint,
                dropped,
                "OpenTelemetry collector is too slow, spans or log records were dropped; check the load of the collector"
            );
        }
    }
}
