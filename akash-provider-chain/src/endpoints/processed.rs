//! The block that was processed last. Responses from before it are refused, so a false one is dropped.

use super::{Endpoints, LAG_MAX};
use crate::checkpoint::{Checkpoint, now};
use crate::endpoint::Endpoint;
use crate::fault::{Fault, NodeError};
use crate::lock::lock;
use akash_provider_core::chain::SyncInfo;
use akash_provider_core::types::Height;
use std::time::Duration;
use tokio::time::Instant;

/// A processed height that no node reaches for this time is reported.
const UNREACHED_FOR: Duration = Duration::from_secs(300);

/// The newest block that was processed, and what nodes say against it.
#[derive(Debug, Default)]
pub(super) struct Processed {
    pub(super) block: Option<Checkpoint>,
    /// When it was processed.
    pub(super) since: Option<Instant>,
    /// Since when nodes contradict it and none has it.
    contradicted: Option<Instant>,
    /// Since when no reachable node has it.
    unreached: Option<Instant>,
    is_reported: bool,
}

impl Endpoints {
    /// Refuses responses from before this block from now on.
    pub fn raise_floor(&self, block: Checkpoint) {
        let mut processed = lock(&self.shared.processed);
        if processed.block.is_none_or(|old| old.height < block.height) {
            // A review ends what nodes contradict: false blocks must not put it off.
            processed.block = Some(block);
            processed.since = Some(Instant::now());
        }
    }

    /// The height that has been processed; 0 before the first, and after a false one was dropped.
    #[must_use]
    pub fn floor(&self) -> Height {
        self.processed().map_or(0, |block| block.height)
    }

    /// The processed block, where no node has reached it for five minutes.
    #[must_use]
    pub fn unreached(&self) -> Option<Checkpoint> {
        let processed = lock(&self.shared.processed);
        processed.block.filter(|_| processed.is_reported)
    }

    pub(super) fn processed(&self) -> Option<Checkpoint> {
        lock(&self.shared.processed).block
    }

    /// Checks the block that a node names as its newest. More than [`LAG_MAX`] above the processed block, the node must
    /// also serve a header. Nodes behind a load balancer lag, so the header is [`LAG_MAX`] lower.
    pub(super) async fn vet(
        &self,
        endpoint: &Endpoint,
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
            // It was started from a state a moment ago.
            Err(error) if matches!(error.fault, Fault::Pruned(_)) => Ok(()),
            Err(error) if !is_denial(&error.fault) => Err(error),
            _ => {
                let why = format!("it names height {} and has no block {below}", tip.height);
                Err(endpoint.error("header", Fault::Untrusted(why)))
            }
        }
    }

    /// Refuses responses from before the processed block, and from heights that the node cannot have reached.
    pub(super) fn check_height(&self, at: usize, height: Option<Height>) -> Result<(), NodeError> {
        let Some(height) = height else {
            return Ok(());
        };
        let floor = self.floor();
        if height < floor {
            return Err(self.error_at(at, "height", Fault::Behind { height, floor }));
        }
        let member = self.shared.members.get(at);
        if member.is_some_and(|m| height > lock(&m.health).ceiling()) {
            let why = format!("a response from height {height}, which its newest block does not allow");
            return Err(self.error_at(at, "height", Fault::Untrusted(why)));
        }
        Ok(())
    }

    /// Reads the status of all nodes again soon: a block below the processed one was received.
    pub(crate) async fn reconsider(&self) {
        (0..self.shared.members.len()).for_each(|at| self.doubt(at));
        self.refresh_if_due(super::Need::Queries).await;
    }

    /// Compares the processed block with what the nodes named last. Drops it where they contradict it.
    pub(super) fn review_processed(&self) {
        let tips: Vec<Checkpoint> = self.shared.members.iter().filter_map(named).collect();
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
                "processed height is false, dropped: no node has it, and a lower block is later; check the nodes of --node"
            );
            return;
        }
        if now.duration_since(unreached) >= UNREACHED_FOR && !processed.is_reported {
            processed.is_reported = true;
            let height = block.height;
            tracing::warn!(
                height,
                "no node reaches the processed height: if the nodes are right, stop the provider and run `provider-daemon state reset-height`"
            );
        }
    }
}

/// Returns the newest block of a member whose last status was received.
fn named(member: &super::Member) -> Option<Checkpoint> {
    let health = lock(&member.health);
    let is_reachable = matches!(health.fault, None | Some(Fault::Behind { .. }));
    (is_reachable && health.checked.is_some()).then_some(health.tip)
}

/// Returns true where the node responds and denies the block.
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
