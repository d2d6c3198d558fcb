//! Read-only context for the step of a machine: configuration, time and permissions.

use super::input::Leadership;
use crate::bidding::Decline;
use crate::config::Config;
use crate::types::{BlockTime, Coin, Height, Now};
use std::time::Duration;

/// Context of one step.
#[derive(Debug, Clone, Copy)]
pub struct Cx<'a> {
    /// Configuration of this provider, the same for every step.
    pub config: &'a Config,
    /// Time of the step, on the monotonic clock and in block time.
    pub now: Now,
    /// Height up to which the chain is processed.
    pub height: Height,
    /// Average time of a block. Equals the configured value until enough blocks were observed.
    pub block_time: Duration,
    /// True if events of the block at `height + 1` were already received.
    pub within_block: bool,
    /// Counter of changes to the provider record, the audits and the market parameters. After a change, the
    /// engine decides again whether to bid on an order.
    pub provider_version: u32,
    /// First configured bid deposit that the chain accepts and the account can pay. `None` if no deposit
    /// meets both conditions.
    pub deposit: Option<&'a Coin>,
    /// Leadership of this instance, with its epoch.
    pub leadership: Leadership,
    /// True if this instance leads, and the transactions of an earlier leader have expired.
    pub may_close: bool,
    /// True after the workloads in the cluster were listed for the first time.
    pub cluster_known: bool,
    /// True during shutdown: no new work may start.
    pub stopping: bool,
    /// True while bidding is paused by [`Input::HoldBids`](super::Input::HoldBids).
    pub bids_held: bool,
    /// Reason why the reservation of the order is insufficient for a bid, or `None` if the reservation is
    /// sufficient.
    pub displaced: Option<&'a Decline>,
}

impl Cx<'_> {
    /// Returns true if this instance may start new writes to the chain and the cluster.
    #[must_use]
    pub const fn may_write(&self) -> bool {
        matches!(self.leadership, Leadership::Leader { .. }) && !self.stopping
    }

    /// Returns true if this instance may send bids.
    #[must_use]
    pub const fn may_bid(&self) -> bool {
        self.may_write() && !self.bids_held
    }

    /// Returns true if the chain state is newer than a query result of this height.
    #[must_use]
    pub const fn is_past(&self, height: Height) -> bool {
        height < self.height || (self.within_block && height == self.height)
    }

    /// Returns the manifest deadline of a lease that is created at the current block time. Returns `None`
    /// without a manifest timeout.
    pub(super) fn manifest_due(&self) -> Option<BlockTime> {
        self.config.manifest_timeout.map(|t| self.now.block_time.plus(t))
    }

    /// Returns true if this instance is a standby.
    #[must_use]
    pub const fn is_standby(&self) -> bool {
        matches!(self.leadership, Leadership::Standby)
    }

    /// Returns the leadership epoch to write into applied objects, or 0 for a standby.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        match self.leadership {
            Leadership::Leader { epoch } => epoch,
            Leadership::Standby => 0,
        }
    }
}
