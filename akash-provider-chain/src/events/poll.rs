//! Blocks as a node is asked for them: its newest height, again and again. The fallback where no websocket can
//! be had.

use crate::endpoints::Endpoints;
use crate::fault::NodeError;
use akash_provider_core::types::Height;
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior};

/// Asks for the newest height at an interval.
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

    /// The newest height. Safe to be dropped at any moment.
    pub(super) async fn next(&mut self, endpoints: &Endpoints) -> Result<Height, NodeError> {
        self.interval.tick().await;
        Ok(endpoints.sync_info().await?.height)
    }
}
