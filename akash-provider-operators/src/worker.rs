//! Writer of an operator: does the work of the index, a few names at a time, while the provider is the leader.

use super::operator_state::{OperatorIndex, OperatorState, WorkItem, WriterStep};
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::error::Error;
use akash_provider_kube_kernel::task;
use futures::stream::{FuturesUnordered, StreamExt};
use std::time::Duration;
use tokio::time::{Instant, interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Maximum number of names that the operator processes concurrently.
const AT_ONCE: usize = 8;

/// Writer of the Kubernetes objects of an operator.
pub(super) trait ObjectWriter: Clone + Send + Sync + 'static {
    /// Index that computes the work for each name.
    type Index: OperatorIndex;

    /// Returns the state shared with the watches and the status.
    fn state(&self) -> &OperatorState<Self::Index>;

    /// Writes and deletes the objects of one name.
    fn carry_out(
        &self,
        name: &str,
        work: &<Self::Index as OperatorIndex>::Work,
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

#[derive(Debug, Clone, Copy)]
pub(super) struct WorkerTiming {
    /// Interval at which data about deleted names is removed from memory.
    pub(super) prune: Duration,
    /// Maximum wait for running work when the operator stops.
    pub(super) grace: Duration,
}

/// Tasks of a running operator. On drop, the tasks are stopped at once.
#[derive(Debug, Default)]
pub(super) struct OperatorTasks {
    stopping: CancellationToken,
    /// Token that is cancelled after the writer has stopped.
    stopped: CancellationToken,
    tasks: Vec<AbortOnDropHandle<()>>,
}

impl OperatorTasks {
    /// Starts the writer, which works only while the provider leads (`gate` is open).
    pub(super) fn start(writer: impl ObjectWriter, pace: WorkerTiming, gate: LeadershipGate) -> Self {
        let mut running = Self::default();
        // Cancelled on every end of the task, so that `stop` always returns.
        let ended = running.stopped.clone().drop_guard();
        let leading = lead(gate, running.stopping.clone(), move |until| {
            run(writer.clone(), pace, until)
        });
        running.spawn(async move {
            let _ended = ended;
            leading.await;
        });
        running
    }

    /// Starts a task that runs only while the provider leads (`gate` is open).
    pub(super) fn lead<W: Future<Output = ()> + Send + 'static>(
        &mut self,
        gate: LeadershipGate,
        work: impl Fn(CancellationToken) -> W + Send + 'static,
    ) {
        let leading = lead(gate, self.stopping.clone(), work);
        self.spawn(leading);
    }

    /// Starts a task that runs regardless of leadership.
    pub(super) fn spawn(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.add([task::spawn("work of an operator", work)]);
    }

    /// Adds tasks that are stopped when this value is dropped.
    pub(super) fn add(&mut self, tasks: impl IntoIterator<Item = AbortOnDropHandle<()>>) {
        self.tasks.extend(tasks);
    }

    /// Starts no more work, and waits up to the grace period for the running work.
    pub(super) async fn stop(&self) {
        self.stopping.cancel();
        self.stopped.cancelled().await;
    }
}

/// Runs `work` whenever `gate` is open, until the operator stops.
async fn lead<W: Future<Output = ()>>(
    gate: LeadershipGate,
    until: CancellationToken,
    work: impl Fn(CancellationToken) -> W,
) {
    while !until.is_cancelled() {
        tokio::select! {
            () = until.cancelled() => return,
            () = gate.opened() => {}
        }
        // On a lost lease the work is cancelled; the next leader reconciles all names.
        gate.during(work(until.clone())).await;
    }
}

/// Writes objects until the operator stops. Finishes running writes.
async fn run(writer: impl ObjectWriter, pace: WorkerTiming, until: CancellationToken) {
    let state = writer.state();
    // The previous leadership may have ended during a write.
    state.inner().queue.restart();
    let mut jobs = FuturesUnordered::new();
    // An interval of zero panics.
    let mut pruning = interval(pace.prune.max(Duration::from_secs(1)));
    loop {
        let mut due = None;
        while jobs.len() < AT_ONCE {
            match state.next(Instant::now()) {
                WriterStep::WorkItem(turn) => jobs.push(work(&writer, turn)),
                // Other users of the lock and of this thread run first.
                WriterStep::More => tokio::task::yield_now().await,
                WriterStep::Nothing(then) => {
                    due = then;
                    break;
                }
            }
            if until.is_cancelled() {
                break;
            }
        }
        let later = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = until.cancelled() => break,
            Some(()) = jobs.next(), if !jobs.is_empty() => {}
            () = state.wake.notified(), if jobs.len() < AT_ONCE => {}
            () = later => {}
            _ = pruning.tick() => state.prune(),
        }
    }
    let rest = async { while jobs.next().await.is_some() {} };
    if timeout(pace.grace, rest).await.is_err() {
        tracing::warn!(
            "operator stopped before its writes were complete; the next start completes the writes"
        );
    }
}

async fn work<W: ObjectWriter>(writer: &W, turn: WorkItem<<W::Index as OperatorIndex>::Work>) {
    let begun = Instant::now();
    let outcome = writer.carry_out(&turn.name, &turn.work).await;
    writer.state().durations.record(begun.elapsed());
    writer.state().finish(&turn, outcome, Instant::now());
}
