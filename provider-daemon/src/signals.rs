//! Signals of the operating system.

use crate::dev::Printer;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The first signal drains, the second aborts; a terminal that goes away counts as one.
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
        for (token, text) in [(shutdown, "draining; once more aborts"), (abort, "aborting")] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            printer.note(text);
            token.cancel();
        }
    })
}
