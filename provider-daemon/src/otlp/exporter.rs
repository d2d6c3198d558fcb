//! Export of spans: a bounded queue and a task that sends batches to the collector.

use super::collector::{CollectorClient, Rejection, SendFailure};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Capacity of the queue, in spans.
const QUEUE: usize = 4096;
/// Maximum number of spans in a request.
const BATCH_MAX: usize = 512;
/// Maximum back-off.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Delays and time limits of the export task.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    /// Time from the first span of a request until the request is sent.
    pub(super) collect: Duration,
    /// Back-off after the first failure, doubled after each further failure.
    pub(super) backoff: Duration,
    /// Maximum time of a request.
    pub(super) request: Duration,
    /// Maximum time to send the remaining spans at shutdown.
    pub(super) last: Duration,
}

impl Timing {
    /// Values that a provider uses; tests use shorter times.
    pub(super) const DEFAULT: Self = Self {
        collect: Duration::from_millis(500),
        backoff: Duration::from_secs(1),
        request: Duration::from_secs(10),
        last: Duration::from_secs(2),
    };
}

/// Counters of spans and requests.
#[derive(Debug, Default)]
pub(super) struct SpanCounts {
    /// Spans that entered the queue.
    pub(super) queued: AtomicU64,
    /// Spans that the collector accepted.
    pub(super) exported: AtomicU64,
    /// Number of spans that were dropped because the queue was full.
    pub(super) queue_full: AtomicU64,
    /// Spans that the collector rejected.
    pub(super) rejected: AtomicU64,
    /// Number of spans that were not sent before the end of the process.
    pub(super) unsent: AtomicU64,
    /// Failed requests.
    pub(super) failures: AtomicU64,
}

impl SpanCounts {
    fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(u64::try_from(count).unwrap_or_default(), Ordering::Relaxed);
    }

    /// Returns the number of spans in the queue and in the current request.
    pub(super) fn waiting(&self) -> u64 {
        let done = [&self.exported, &self.rejected, &self.unsent];
        let done: u64 = done.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        self.queued.load(Ordering::Relaxed).saturating_sub(done)
    }
}

/// Sending half of the queue.
#[derive(Debug, Clone)]
pub(super) struct SpanSender {
    queue: Sender<SpanData>,
    counts: Arc<SpanCounts>,
}

impl SpanSender {
    /// Sends a span. A span that does not fit into the queue is counted and dropped.
    pub(super) fn send(&self, span: SpanData) {
        let counter = match self.queue.try_send(span) {
            Ok(()) => &self.counts.queued,
            Err(_) => &self.counts.queue_full,
        };
        SpanCounts::add(counter, 1);
    }
}

#[derive(Debug)]
pub(super) struct Export {
    task: JoinHandle<()>,
    end: CancellationToken,
    counts: Arc<SpanCounts>,
    /// Maximum time to send the remaining spans at shutdown.
    last: Duration,
}

impl Export {
    /// Starts the export task. `endpoint` is the name of the collector in log messages.
    pub(super) fn start(
        exporter: SpanExporter,
        client: Arc<CollectorClient>,
        endpoint: String,
        timing: Timing,
    ) -> (SpanSender, Self) {
        let (queue, spans) = mpsc::channel(QUEUE);
        let counts = Arc::<SpanCounts>::default();
        let end = CancellationToken::new();
        let worker = Worker {
            exporter,
            client,
            endpoint,
            timing,
            spans,
            batch: Vec::new(),
            counts: Arc::clone(&counts),
            end: end.clone(),
            is_failing: false,
            is_incomplete: false,
        };
        let sender = SpanSender {
            queue,
            counts: Arc::clone(&counts),
        };
        let task = tokio::spawn(worker.run());
        let last = timing.last;
        let export = Self {
            task,
            end,
            counts,
            last,
        };
        (sender, export)
    }

    pub(super) const fn counts(&self) -> &Arc<SpanCounts> {
        &self.counts
    }

    /// Sends the remaining spans for at most `last`, and then stops the task.
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
                spans = unsent,
                "last trace spans not exported; check the trace collector"
            );
        }
    }
}

struct Worker {
    exporter: SpanExporter,
    client: Arc<CollectorClient>,
    endpoint: String,
    timing: Timing,
    spans: Receiver<SpanData>,
    /// Spans of the current request.
    batch: Vec<SpanData>,
    counts: Arc<SpanCounts>,
    end: CancellationToken,
    /// True from a reported failure until a request succeeds.
    is_failing: bool,
    /// True after the report about dropped spans, which is logged once.
    is_incomplete: bool,
}

impl Worker {
    async fn run(mut self) {
        while self.collect().await {
            self.deliver().await;
            self.batch.clear();
            self.report_full();
        }
    }

    /// Collects spans for a request. Returns `false` if the queue is closed and empty.
    async fn collect(&mut self) -> bool {
        let end = self.end.clone();
        tokio::select! {
            biased;
            _ = self.spans.recv_many(&mut self.batch, BATCH_MAX) => {}
            () = end.cancelled() => {
                self.spans.close();
                self.spans.recv_many(&mut self.batch, BATCH_MAX).await;
            }
        }
        if self.batch.is_empty() {
            return false;
        }
        if self.batch.len() < BATCH_MAX {
            // Returns immediately at the end.
            let _ = timeout(self.timing.collect, end.cancelled()).await;
            while self.batch.len() < BATCH_MAX
                && let Ok(span) = self.spans.try_recv()
            {
                self.batch.push(span);
            }
        }
        true
    }

    /// Sends the batch until the collector accepts or rejects it. During the shutdown, sends the batch at
    /// most once more.
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
                return SpanCounts::add(&self.counts.rejected, self.batch.len());
            }
            if self.end.is_cancelled() {
                return SpanCounts::add(&self.counts.unsent, self.batch.len());
            }
            // The end interrupts the back-off, and the batch is sent a last time.
            let _ = timeout(backoff, self.end.cancelled()).await;
            backoff = BACKOFF_MAX.min(backoff * 2);
        }
    }

    async fn send(&self) -> Result<Rejection, SendFailure> {
        let exported = self.exporter.export(self.batch.clone()).await;
        match (self.client.take_result(), exported) {
            (Some(result), _) => result,
            (None, Ok(())) => Ok(Rejection::default()),
            // The request was not sent.
            (None, Err(error)) => Err(SendFailure {
                message: error.to_string(),
                is_transient: false,
            }),
        }
    }

    fn accepted(&mut self, rejection: &Rejection) {
        let sent = u64::try_from(self.batch.len()).unwrap_or_default();
        let rejected = rejection.spans.min(sent);
        self.counts.rejected.fetch_add(rejected, Ordering::Relaxed);
        self.counts.exported.fetch_add(sent - rejected, Ordering::Relaxed);
        if rejected > 0 && !std::mem::replace(&mut self.is_incomplete, true) {
            tracing::warn!(
                endpoint = self.endpoint,
                rejected,
                error = rejection.message,
                "trace collector rejected spans, traces are incomplete; check the limits of the collector"
            );
        }
        if std::mem::take(&mut self.is_failing) {
            let dropped = self.counts.queue_full.load(Ordering::Relaxed);
            tracing::info!(endpoint = self.endpoint, dropped, "traces exported again");
        }
    }

    /// Logs the first of several consecutive failures.
    fn report_failure(&mut self, failure: &SendFailure) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(
                endpoint = self.endpoint,
                error = failure.message,
                "cannot export traces, no lease is affected; check --otlp-endpoint and the collector"
            );
        }
    }

    /// Logs once that spans were dropped because the queue was full.
    fn report_full(&mut self) {
        let dropped = self.counts.queue_full.load(Ordering::Relaxed);
        if dropped > 0 && !std::mem::replace(&mut self.is_incomplete, true) {
            tracing::warn!(
                endpoint = self.endpoint,
                dropped,
                "traces are incomplete, the collector is too slow; check the load of the collector"
            );
        }
    }
}
