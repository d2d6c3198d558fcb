//! Where a provider is in its life.
//!
//! ```text
//! init ──cluster and capacity known──► running ──first signal──► shutdown ──idle, or grace over──► done
//!   └──────────first signal, or the cluster is not ready in time───▲          second signal ─────────▲
//! ```

use crate::engine::Lifecycle;
use tokio::sync::watch;

/// How far the provider's life has come, as its handles see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    pub(crate) lifecycle: Lifecycle,
    /// Its loop has begun, and answers.
    pub(crate) begun: bool,
    /// The first picture of the chain was taken.
    pub(crate) chain_known: bool,
}

/// The provider's end. Dropping it, for whatever reason, is the end of the life.
#[derive(Debug)]
pub(crate) struct Stage(watch::Sender<Progress>);

impl Stage {
    pub(crate) fn new() -> (Self, watch::Receiver<Progress>) {
        let (sender, receiver) = watch::channel(Progress::default());
        (Self(sender), receiver)
    }

    pub(crate) fn lifecycle(&self) -> Lifecycle {
        self.0.borrow().lifecycle
    }

    /// Moves forward; a step back is none.
    pub(crate) fn enter(&self, lifecycle: Lifecycle) {
        let moved = self.0.send_if_modified(|progress| {
            let forward = progress.lifecycle < lifecycle;
            if forward {
                progress.lifecycle = lifecycle;
            }
            forward
        });
        if moved {
            tracing::info!(%lifecycle, "lifecycle");
        }
    }

    pub(crate) fn begin(&self) {
        // Only a change wakes those who watch.
        self.0
            .send_if_modified(|progress| !std::mem::replace(&mut progress.begun, true));
    }

    pub(crate) fn chain_is_known(&self) {
        self.0
            .send_if_modified(|progress| !std::mem::replace(&mut progress.chain_known, true));
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.enter(Lifecycle::Done);
    }
}
