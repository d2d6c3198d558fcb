//! What a machine may look at while it makes a step: settings, time and permissions. Read-only.

use super::input::Leadership;
use crate::bidding::Decline;
use crate::config::Config;
use crate::types::{BlockTime, Coin, Height, Now};
use std::time::Duration;

/// Context of one step.
#[derive(Debug, Clone, Copy)]
pub struct Cx<'a> {
    /// Settings of this provider, the same for every step.
    pub config: &'a Config,
    /// Both clocks at the moment of the step.
    pub now: Now,
    /// Height up to which the chain is processed.
    pub height: Height,
    /// How long a block takes: as measured, or as set while too few were seen.
    pub block_time: Duration,
    /// Facts of the block after that were told.
    pub within_block: bool,
    /// Counts the changes of what the chain says of us, so that a judgement knows whether it is still good.
    pub facts: u32,
    /// Deposit of a bid: one that the chain takes and the account can pay, as far as is known; `None` where it can pay
    /// none.
    pub deposit: Option<&'a Coin>,
    /// Whether this instance leads, and in which epoch.
    pub leadership: Leadership,
    /// Closing is allowed: we lead, and transactions of an earlier leader have expired.
    pub may_close: bool,
    /// It is known what the cluster runs.
    pub cluster_known: bool,
    /// Nothing new is to be started.
    pub stopping: bool,
    /// Bids are held back.
    pub bids_held: bool,
    /// Why what the order has reserved is no longer good for a bid.
    pub displaced: Option<&'a Decline>,
}

impl Cx<'_> {
    /// True when writes may be started.
    #[must_use]
    pub const fn may_write(&self) -> bool {
        matches!(self.leadership, Leadership::Leader { .. }) && !self.stopping
    }

    /// True when bids may be sent.
    #[must_use]
    pub const fn may_bid(&self) -> bool {
        self.may_write() && !self.bids_held
    }

    /// A reading of this height shows less than what was processed.
    #[must_use]
    pub const fn is_past(&self, height: Height) -> bool {
        height < self.height || (self.within_block && height == self.height)
    }

    /// When the time of a lease for its manifest is over that starts with the newest block; `None` without limit.
    #[must_use]
    pub(super) fn manifest_due(&self) -> Option<BlockTime> {
        self.config.manifest_timeout.map(|t| self.now.block_time.plus(t))
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
