//! Signals of the operating system.

use crate::dev::Printer;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A signal that follows the first sooner is the same: a terminal and a supervisor may both send it.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The first signal drains, and one that comes a second later or more aborts; a terminal that goes away counts as one.
///
/// # Errors
/// When signals cannot be heard.
pub(crate) fn on_signals(
    printer: Arc<Printer>,
    shutdown: CancellationToken,
    abort: CancellationToken,
) -> anyhow::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        let mut first = None;
        while !abort.is_cancelled() {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            let (text, token) = match first {
                None => ("draining; once more, after a second, aborts", &shutdown),
                Some(at) if Instant::now().duration_since(at) < AGAIN_AFTER => continue,
                Some(_) => ("aborting", &abort),
            };
            if first.is_none() {
                crate::supervise::stopping();
            }
            first.get_or_insert_with(Instant::now);
            // Before it is told: whoever reads the line finds that it drains.
            token.cancel();
            printer.note(text);
        }
    })
}
