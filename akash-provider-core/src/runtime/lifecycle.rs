//! Lifecycle of a provider.
//!
//! ```text
//! init ──cluster and capacity known──► running ──first signal──► shutdown ──idle, or grace over──► done
//!   └──────────first signal, or the cluster is not ready in time───▲          second signal ─────────▲
//! ```

use crate::engine::Lifecycle;
use tokio::sync::watch;

/// Progress of a provider. The handles of the provider read this value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ProviderProgress {
    pub(crate) lifecycle: Lifecycle,
    /// Whether the loop runs and responds.
    pub(crate) begun: bool,
    /// Whether the first snapshot of the chain was received.
    pub(crate) chain_known: bool,
}

/// Sender of the progress, owned by the provider. Dropping the sender ends the lifecycle.
#[derive(Debug)]
pub(crate) struct ProgressSender(watch::Sender<ProviderProgress>);

impl ProgressSender {
    pub(crate) fn new() -> (Self, watch::Receiver<ProviderProgress>) {
        let (sender, receiver) = watch::channel(ProviderProgress::default());
        (Self(sender), receiver)
    }

    pub(crate) fn lifecycle(&self) -> Lifecycle {
        self.0.borrow().lifecycle
    }

    /// Enters the phase `lifecycle` if this phase is later than the current phase.
    pub(crate) fn enter(&self, lifecycle: Lifecycle) {
        let moved = self.0.send_if_modified(|progress| {
            let forward = progress.lifecycle < lifecycle;
            if forward {
                progress.lifecycle = lifecycle;
            }
            forward
        });
        if moved {
            tracing::info!(%lifecycle, "lifecycle phase of the provider changed");
        }
    }

    pub(crate) fn begin(&self) {
        // Notifies watchers only of a change.
        self.0
            .send_if_modified(|progress| !std::mem::replace(&mut progress.begun, true));
    }

    pub(crate) fn chain_is_known(&self) {
        self.0
            .send_if_modified(|progress| !std::mem::replace(&mut progress.chain_known, true));
    }
}

impl Drop for ProgressSender {
    fn drop(&mut self) {
        self.enter(Lifecycle::Done);
    }
}
