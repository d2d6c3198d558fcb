//! Polling of the newest height, used while no websocket is open.

use crate::endpoints::Endpoints;
use crate::fault::NodeError;
use akash_provider_core::types::Height;
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior};

/// Source of blocks that polls nodes for the newest height.
#[derive(Debug)]
pub(super) struct Poll {
    interval: Interval,
}

impl Poll {
    pub(super) fn new(every: Duration) -> Self {
        let mut interval = tokio::time::interval(every);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { interval }
    }

    /// Waits for the next polling time and returns the newest height. Cancel safe.
    pub(super) async fn next(&mut self, endpoints: &Endpoints) -> Result<Height, NodeError> {
        self.interval.tick().await;
        Ok(endpoints.sync_info().await?.height)
    }
}
