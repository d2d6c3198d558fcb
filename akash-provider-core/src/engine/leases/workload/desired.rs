//! What is to run of a lease, and since which of its manifests.

use crate::cluster::WorkloadSpec;
use crate::engine::effect::Call;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The newest manifest that was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Desired {
    pub(super) deployment: Arc<WorkloadSpec>,
    /// Hostnames to take away when it is deployed.
    pub(super) purge: Vec<String>,
    pub(super) generation: u64,
}

impl Desired {
    /// Follows what was wanted before.
    pub(super) fn after(before: Option<Self>, deployment: Arc<WorkloadSpec>, mut purge: Vec<String>) -> Self {
        let generation = before.as_ref().map_or(1, |d| d.generation + 1);
        // Names an undeployed version gave up are still to be purged, unless they are wanted again.
        if let Some(old) = before {
            purge.extend(old.purge);
        }
        if !purge.is_empty() {
            let wanted = deployment.names();
            purge.retain(|name| !wanted.contains(name.as_str()));
        }
        // Sorted, so that the same names make the same call.
        purge.sort();
        purge.dedup();
        Self {
            deployment,
            purge,
            generation,
        }
    }

    /// The call that deploys it, in this epoch.
    pub(super) fn deploy(&mut self, epoch: u64) -> Call {
        // Copied only where the epoch is another one, because the status and the ledgers share it.
        if self.deployment.epoch != epoch {
            Arc::make_mut(&mut self.deployment).epoch = epoch;
        }
        Call::Deploy {
            deployment: Arc::clone(&self.deployment),
            purge_hostnames: self.purge.clone(),
        }
    }
}
