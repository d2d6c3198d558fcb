//! Signals of the operating system.

use crate::printer::Printer;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Time after the first signal during which further signals are ignored. The terminal and the supervisor may
/// each send a signal for the same stop.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Cancels `shutdown` at the first signal, and `abort` at a later signal.
///
/// # Errors
/// Returns an error if signal handlers cannot be installed.
pub fn on_signals(
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
                None => ("shutting down; a second signal aborts", &shutdown),
                Some(at) if Instant::now().duration_since(at) < AGAIN_AFTER => continue,
                Some(_) => ("aborting", &abort),
            };
            if first.is_none() {
                crate::supervise::stopping();
            }
            first.get_or_insert_with(Instant::now);
            // Cancelled before the message is printed, so that the message is true.
            token.cancel();
            printer.note(text);
        }
    })
}
