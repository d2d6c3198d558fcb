//! What a machine may look at while it makes a step: settings, time and permissions. Read-only.

use super::input::Leadership;
use crate::config::Config;
use crate::types::{Height, Now};

/// Context of one step.
#[derive(Debug, Clone, Copy)]
pub struct Cx<'a> {
    /// Settings.
    pub config: &'a Config,
    /// Both clocks.
    pub now: Now,
    /// Height up to which the chain is processed.
    pub height: Height,
    /// Leader or standby.
    pub leadership: Leadership,
    /// Closing is allowed: we lead, and transactions of an earlier leader have expired.
    pub may_close: bool,
    /// It is known what the cluster runs.
    pub cluster_known: bool,
    /// Nothing new is to be started.
    pub stopping: bool,
}

impl Cx<'_> {
    /// True when writes may be started.
    #[must_use]
    pub const fn may_write(&self) -> bool {
        matches!(self.leadership, Leadership::Leader { .. }) && !self.stopping
    }

    /// True for a standby.
    #[must_use]
    pub const fn is_standby(&self) -> bool {
        matches!(self.leadership, Leadership::Standby)
    }

    /// Epoch to stamp on applies.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        match self.leadership {
            Leadership::Leader { epoch } => epoch,
            Leadership::Standby => 0,
        }
    }
}
