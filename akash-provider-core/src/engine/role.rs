//! What this instance may do: whether it leads, since when it may close, whether it stops, whether bids are held back.

use super::input::Leadership;
use super::phase::Lifecycle;
use crate::types::Mono;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// What this instance may do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Role {
    lifecycle: Lifecycle,
    leadership: Leadership,
    closes_from: Mono,
    bids_held: Option<Arc<str>>,
}

impl Role {
    /// Leads until it is told otherwise.
    pub(super) const fn new() -> Self {
        Self {
            lifecycle: Lifecycle::Init,
            leadership: Leadership::Leader { epoch: 0 },
            closes_from: Mono(0),
            bids_held: None,
        }
    }

    pub(super) const fn lifecycle(&self) -> Lifecycle {
        self.lifecycle
    }

    pub(super) const fn is_stopping(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Shutdown)
    }

    pub(super) const fn leadership(&self) -> Leadership {
        self.leadership
    }

    pub(super) const fn is_standby(&self) -> bool {
        matches!(self.leadership, Leadership::Standby)
    }

    /// It leads, and the transactions of a leader before it have expired.
    pub(super) fn may_close(&self, now: Mono) -> bool {
        !self.is_standby() && now >= self.closes_from
    }

    /// Why no bid is sent, where that is so.
    pub(super) fn bids_held(&self) -> Option<&str> {
        self.bids_held.as_deref()
    }

    /// The chain is known: it runs.
    pub(super) fn run(&mut self) {
        // A stop that came first stays.
        if self.lifecycle == Lifecycle::Init {
            self.lifecycle = Lifecycle::Running;
        }
    }

    pub(super) const fn stop(&mut self) {
        self.lifecycle = Lifecycle::Shutdown;
    }

    pub(super) fn hold_bids(&mut self, why: Option<Arc<str>>) {
        self.bids_held = why;
    }

    /// Leadership changes; true where it is taken over. `grace` is how long transactions of the leader before may
    /// still land.
    pub(super) fn lead(&mut self, leadership: Leadership, now: Mono, grace: Duration) -> bool {
        // Whoever has another epoch than before may have been followed and preceded by another leader.
        let takes_over = leadership != self.leadership && leadership != Leadership::Standby;
        self.leadership = leadership;
        if takes_over {
            self.closes_from = now.plus(grace);
        }
        takes_over
    }
}
