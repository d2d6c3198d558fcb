//! The one writer of an operator: does what its index says is to be done, a few names at a time, while its provider
//! leads.

use super::board::{Board, Index, Next, Turn};
use crate::cluster::LeadershipGate;
use crate::task;
use akash_provider_core::error::Error;
use futures::stream::{FuturesUnordered, StreamExt};
use std::time::Duration;
use tokio::time::{Instant, interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Names that are worked at at once.
const AT_ONCE: usize = 8;

/// Who knows how to write.
pub(super) trait Writes: Clone + Send + Sync + 'static {
    /// Whose work it is.
    type Index: Index;

    /// What there is to do.
    fn board(&self) -> &Board<Self::Index>;

    /// Does what is to be done about one name.
    fn carry_out(
        &self,
        name: &str,
        work: &<Self::Index as Index>::Work,
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

/// How it keeps time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// How often is forgotten what is of names that are gone.
    pub(super) prune: Duration,
    /// Longest wait at the end for what is under way.
    pub(super) grace: Duration,
}

/// An operator at work. Dropping it ends it at once.
#[derive(Debug)]
pub(super) struct Running {
    stopping: CancellationToken,
    /// Done once the writer has stopped.
    stopped: CancellationToken,
    tasks: Vec<AbortOnDropHandle<()>>,
}

impl Running {
    /// Begins to work whenever the gate is open.
    pub(super) fn start(writer: impl Writes, pace: Pace, gate: LeadershipGate) -> Self {
        let mut running = Self {
            stopping: CancellationToken::new(),
            stopped: CancellationToken::new(),
            tasks: Vec::new(),
        };
        // Cancelled however this task ends, so that nobody waits in vain.
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

    /// Does something beside the writer whenever the gate is open.
    pub(super) fn lead<W: Future<Output = ()> + Send + 'static>(
        &mut self,
        gate: LeadershipGate,
        work: impl Fn(CancellationToken) -> W + Send + 'static,
    ) {
        let leading = lead(gate, self.stopping.clone(), work);
        self.spawn(leading);
    }

    /// Does something beside the writer, whoever leads.
    pub(super) fn spawn(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.keep([task::kept("work of an operator", work)]);
    }

    /// These end with it.
    pub(super) fn keep(&mut self, tasks: impl IntoIterator<Item = AbortOnDropHandle<()>>) {
        self.tasks.extend(tasks);
    }

    /// Begins nothing more, and waits for what the writer has under way, at most for its grace.
    pub(super) async fn stop(&self) {
        self.stopping.cancel();
        self.stopped.cancelled().await;
    }
}

/// Does something whenever the gate is open, until the end.
async fn lead<W: Future<Output = ()>>(
    gate: LeadershipGate,
    until: CancellationToken,
    work: impl Fn(CancellationToken) -> W,
) {
    while !until.is_cancelled() {
        tokio::select! {
            () = until.cancelled() => return,
            () = gate.begins() => {}
        }
        // Deposed, it stops where it is; whoever leads next looks at everything.
        gate.during(work(until.clone())).await;
    }
}

/// Works until the end, and finishes what it began.
async fn run(writer: impl Writes, pace: Pace, until: CancellationToken) {
    let board = writer.board();
    // The term before may have ended in the middle of something.
    board.inner().queue.restart();
    let mut jobs = FuturesUnordered::new();
    // An interval of zero panics.
    let mut pruning = interval(pace.prune.max(Duration::from_secs(1)));
    loop {
        let mut due = None;
        while jobs.len() < AT_ONCE {
            match board.next(Instant::now()) {
                Next::Turn(turn) => jobs.push(work(&writer, turn)),
                // Whoever waits for the same lock, or for this thread, comes in between.
                Next::More => tokio::task::yield_now().await,
                Next::Nothing(then) => {
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
            () = board.news.notified(), if jobs.len() < AT_ONCE => {}
            () = later => {}
            _ = pruning.tick() => board.prune(),
        }
    }
    let rest = async { while jobs.next().await.is_some() {} };
    if timeout(pace.grace, rest).await.is_err() {
        tracing::warn!("some objects were still being written at the end; the next start looks at them");
    }
}

async fn work<W: Writes>(writer: &W, turn: Turn<<W::Index as Index>::Work>) {
    let outcome = writer.carry_out(&turn.name, &turn.work).await;
    writer.board().finish(&turn, outcome, Instant::now());
}
