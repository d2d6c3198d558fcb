//! Role and permissions of this instance: leadership, permission to close, shutdown and held bids.

use super::input::Leadership;
use super::phase::Lifecycle;
use crate::types::Mono;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Role and permissions of this instance.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Role {
    lifecycle: Lifecycle,
    leadership: Leadership,
    closes_from: Mono,
    bids_held: Option<Arc<str>>,
}

impl Role {
    /// Creates the role of a leader. The first [`Leadership`] input sets the actual role.
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

    /// Returns true if this instance leads and the transactions of the previous leader have expired.
    pub(super) fn may_close(&self, now: Mono) -> bool {
        !self.is_standby() && now >= self.closes_from
    }

    /// Returns the reason why no bids are sent, or `None` if bidding is allowed.
    pub(super) fn bids_held(&self) -> Option<&str> {
        self.bids_held.as_deref()
    }

    /// After the first `Resync`, marks the provider as running.
    pub(super) fn run(&mut self) {
        // A shutdown before the first `Resync` remains in effect.
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

    /// Changes the leadership, and returns true on a takeover. `grace` is the time until the transactions of
    /// the previous leader have expired.
    pub(super) fn set_leadership(&mut self, leadership: Leadership, now: Mono, grace: Duration) -> bool {
        // A new epoch counts as a takeover: another instance may have led between the two epochs.
        let takes_over = leadership != self.leadership && leadership != Leadership::Standby;
        self.leadership = leadership;
        if takes_over {
            self.closes_from = now.plus(grace);
        }
        takes_over
    }
}
