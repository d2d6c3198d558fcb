//! Newest accepted specification of a workload, with its version number.

use crate::cluster::WorkloadSpec;
use crate::engine::effect::Call;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Newest accepted specification of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct DesiredSpec {
    pub(super) deployment: Arc<WorkloadSpec>,
    /// Hostnames to purge with the next deploy.
    pub(super) purge: Vec<String>,
    pub(super) generation: u64,
}

impl DesiredSpec {
    /// Creates the specification that replaces `before`, with the next generation.
    pub(super) fn replacing(
        before: Option<Self>,
        deployment: Arc<WorkloadSpec>,
        mut purge: Vec<String>,
    ) -> Self {
        let generation = before.as_ref().map_or(1, |d| d.generation + 1);
        // Hostnames of a version that was never deployed still need a purge, unless the new version declares them.
        if let Some(old) = before {
            purge.extend(old.purge);
        }
        if !purge.is_empty() {
            let wanted = deployment.names();
            purge.retain(|name| !wanted.contains(name.as_str()));
        }
        // Sorted for determinism.
        purge.sort();
        purge.dedup();
        Self {
            deployment,
            purge,
            generation,
        }
    }

    pub(super) fn deploy(&mut self, epoch: u64) -> Call {
        // Cloned only if the epoch changed, because the specification is shared with the status and the ledgers.
        if self.deployment.epoch != epoch {
            Arc::make_mut(&mut self.deployment).epoch = epoch;
        }
        Call::Deploy {
            deployment: Arc::clone(&self.deployment),
            purge_hostnames: self.purge.clone(),
        }
    }
}
