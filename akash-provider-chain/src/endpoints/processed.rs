//! Last processed block. Responses with a lower height are refused, so a processed block that turns out to be
//! false must be dropped.

use super::{Endpoints, LAG_MAX};
use crate::checkpoint::{Checkpoint, now};
use crate::endpoint::NodeEndpoint;
use crate::fault::{Fault, NodeError};
use crate::lock::lock;
use akash_provider_core::chain::SyncInfo;
use akash_provider_core::types::Height;
use std::time::Duration;
use tokio::time::Instant;

/// A warning is logged after this time without a node at the processed height.
const UNREACHED_FOR: Duration = Duration::from_secs(300);

/// Last processed block, and whether the nodes contradict this block.
#[derive(Debug, Default)]
pub(super) struct Processed {
    pub(super) block: Option<Checkpoint>,
    /// Time at which the block was processed.
    pub(super) since: Option<Instant>,
    /// Start of the current period in which a node contradicts `block`, and no node confirms `block`.
    contradicted: Option<Instant>,
    /// Start of the current period in which no reachable node has reached the processed height.
    unreached: Option<Instant>,
    is_reported: bool,
}

impl Endpoints {
    /// Sets the processed block. Responses below its height are refused from now on.
    pub fn raise_floor(&self, block: Checkpoint) {
        let mut processed = lock(&self.shared.processed);
        if processed.block.is_none_or(|old| old.height < block.height) {
            // The evidence stays unchanged: further false blocks must not delay the review.
            processed.block = Some(block);
            processed.since = Some(Instant::now());
        }
    }

    /// Returns the height of the processed block, or 0 before the first block.
    #[must_use]
    pub fn floor(&self) -> Height {
        self.processed().map_or(0, |block| block.height)
    }

    /// Returns the processed block after five minutes without a reachable node at its height. Otherwise
    /// returns `None`.
    #[must_use]
    pub fn unreached(&self) -> Option<Checkpoint> {
        let processed = lock(&self.shared.processed);
        processed.block.filter(|_| processed.is_reported)
    }

    pub(super) fn processed(&self) -> Option<Checkpoint> {
        lock(&self.shared.processed).block
    }

    /// Checks that the newest block of a node is plausible. If this block is more than [`LAG_MAX`] above the
    /// processed block, the function checks an older header of the node.
    pub(super) async fn check_tip(
        &self,
        endpoint: &NodeEndpoint,
        info: &SyncInfo,
        is_new: bool,
    ) -> Result<(), NodeError> {
        let tip = Checkpoint {
            height: info.height,
            time: info.time,
        };
        let processed = self.processed();
        let checked = tip.check(processed, now());
        checked.map_err(|fault| endpoint.error("status", fault))?;
        let must_prove = processed.map_or(is_new, |block| tip.height > block.height.saturating_add(LAG_MAX));
        if !must_prove {
            return Ok(());
        }
        let below = tip.height.saturating_sub(LAG_MAX).max(1);
        match endpoint.header(below).await {
            Ok((_, time)) if time <= tip.time => Ok(()),
            // The node was just started from a snapshot.
            Err(error) if matches!(error.fault, Fault::Pruned(_)) => Ok(()),
            Err(error) if !is_denial(&error.fault) => Err(error),
            _ => {
                let why = format!("node reports height {} but has no block {below}", tip.height);
                Err(endpoint.error("header", Fault::Untrusted(why)))
            }
        }
    }

    /// Returns an error if a response has an implausible height: below the processed height, or far above the
    /// last reported height of the endpoint.
    pub(super) fn check_height(&self, at: usize, height: Option<Height>) -> Result<(), NodeError> {
        let Some(height) = height else {
            return Ok(());
        };
        let floor = self.floor();
        if height < floor {
            return Err(self.error_at(at, "height", Fault::Behind { height, floor }));
        }
        let member = self.shared.members.get(at);
        if member.is_some_and(|m| height > lock(&m.health).max_height()) {
            let why = format!("response for height {height} is above the newest block of the node");
            return Err(self.error_at(at, "height", Fault::Untrusted(why)));
        }
        Ok(())
    }

    /// Checks the height of a pushed block. If the height is more than [`LAG_MAX`] above the newest reported
    /// height, queries a node to confirm the height.
    pub(crate) async fn check_pushed(&self, height: Height) -> Result<(), NodeError> {
        // Not compared with the last pushed block: a node can push any number of false next heights.
        if height <= self.newest().saturating_add(LAG_MAX) {
            return Ok(());
        }
        let info = self.sync_info().await?;
        if height <= info.height.saturating_add(LAG_MAX) {
            return Ok(());
        }
        // The status may be from another node than the pushed height.
        self.request_checks().await;
        let why = format!(
            "pushed height {height} is above height {} of the status",
            info.height
        );
        Err(NodeError {
            endpoint: self.chain_id().into(),
            method: "subscribe".into(),
            fault: Fault::Untrusted(why),
        })
    }

    /// Starts health checks of all nodes after a block with an implausible height.
    pub(crate) async fn request_checks(&self) {
        (0..self.shared.members.len()).for_each(|at| self.request_check(at));
        self.refresh_if_due(super::Capability::Queries).await;
    }

    /// Compares the processed block with the newest blocks of the nodes.
    ///
    /// - Logs a warning after five minutes without a node at the processed height.
    /// - Drops the processed block if no node has this block, while a node reports a lower block with a later
    ///   time. The contradiction must last for [`EndpointLimits::contradiction`](crate::EndpointLimits::contradiction).
    pub(super) fn review_processed(&self) {
        let tips: Vec<Checkpoint> = self.shared.members.iter().filter_map(reported_tip).collect();
        let mut processed = lock(&self.shared.processed);
        let Some(block) = processed.block.filter(|_| !tips.is_empty()) else {
            return;
        };
        let is_reached = |tip: &Checkpoint| {
            tip.height.saturating_add(LAG_MAX) >= block.height && !block.is_contradicted_by(*tip)
        };
        if tips.iter().any(is_reached) {
            processed.contradicted = None;
            processed.unreached = None;
            processed.is_reported = false;
            return;
        }
        let (now, limit) = (Instant::now(), self.shared.limits.contradiction);
        let unreached = *processed.unreached.get_or_insert(now);
        if !tips.iter().any(|tip| block.is_contradicted_by(*tip)) {
            processed.contradicted = None;
        } else if now.duration_since(*processed.contradicted.get_or_insert(now)) >= limit {
            *processed = Processed::default();
            let height = block.height;
            tracing::warn!(
                height,
                "last processed block discarded: no chain node has this height, and a lower block has a later time; check the nodes of --node"
            );
            return;
        }
        if now.duration_since(unreached) >= UNREACHED_FOR && !processed.is_reported {
            processed.is_reported = true;
            let height = block.height;
            tracing::warn!(
                height,
                "for 5 minutes, no chain node has reached the height of the last processed block: if the nodes are correct, stop the provider and run `provider-daemon state reset-height`"
            );
        }
    }
}

/// Returns the newest block that a reachable endpoint has reported, or `None` before the first health check.
/// An endpoint with the fault [`Fault::Behind`] counts as reachable.
fn reported_tip(member: &super::Member) -> Option<Checkpoint> {
    let health = lock(&member.health);
    let is_reachable = matches!(health.fault, None | Some(Fault::Behind { .. }));
    (is_reachable && health.checked.is_some()).then_some(health.tip)
}

/// Returns true if the fault means that the node responded, but did not return the requested block.
const fn is_denial(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::HeightUnavailable(_)
            | Fault::NotFound { .. }
            | Fault::Refused { .. }
            | Fault::WrongHeight { .. }
            | Fault::Malformed(_)
            | Fault::Untrusted(_)
            | Fault::Ahead { .. }
    )
}
