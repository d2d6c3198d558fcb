//! Replica counts of a workload.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, StatefulSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Replica counts of a Deployment or a StatefulSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Replicas {
    /// Generation of the specification.
    pub generation: i64,
    /// Generation that the controller observed.
    pub observed: i64,
    /// Replicas in the specification.
    pub wanted: u32,
    /// Existing replicas, ready or not.
    pub there: u32,
    /// Replicas of the newest generation; 0 before the controller has observed this generation.
    pub updated: u32,
    /// Ready replicas of any generation.
    pub ready: u32,
    /// Replicas that have been ready for `minReadySeconds`.
    pub available: u32,
    /// A rolling update is running and has not stalled.
    pub updating: bool,
}

impl Replicas {
    /// Returns the replica counts of a Deployment.
    #[must_use]
    pub fn of_deployment(deployment: &Deployment) -> Self {
        let status = deployment.status.clone().unwrap_or_default();
        let generation = deployment.metadata.generation.unwrap_or(0);
        let observed = status.observed_generation.unwrap_or(0);
        Self {
            generation,
            observed,
            wanted: wanted(deployment.spec.as_ref().and_then(|s| s.replicas)),
            there: count(status.replicas),
            updated: updated(status.updated_replicas, observed >= generation),
            ready: count(status.ready_replicas),
            available: count(status.available_replicas),
            updating: is_changed(&deployment.metadata) && is_progressing(&status),
        }
    }

    /// Returns the replica counts of a StatefulSet. Ignores `currentReplicas`, which counts replicas of the
    /// older revision.
    #[must_use]
    pub fn of_stateful_set(set: &StatefulSet) -> Self {
        let status = set.status.clone().unwrap_or_default();
        let generation = set.metadata.generation.unwrap_or(0);
        let observed = status.observed_generation.unwrap_or(0);
        Self {
            generation,
            observed,
            wanted: wanted(set.spec.as_ref().and_then(|s| s.replicas)),
            there: count(Some(status.replicas)),
            updated: updated(status.updated_replicas, observed >= generation),
            ready: count(status.ready_replicas),
            available: count(status.available_replicas),
            // A StatefulSet reports no stall, so a replica must be available during the update.
            updating: is_changed(&set.metadata)
                && status.available_replicas > Some(0)
                && status.update_revision.is_some()
                && status.current_revision != status.update_revision,
        }
    }

    /// Returns true if enough replicas are available. During a rolling update, one replica may be
    /// unavailable. Returns false for a new workload until the controller has observed it.
    pub(super) fn serve(&self, wanted: u32) -> bool {
        let one_away = u32::from(self.updating);
        let is_observed = self.observed >= self.generation || self.generation > 1;
        is_observed && self.available.saturating_add(one_away) >= wanted
    }
}

/// Returns true for an object that was changed after its creation.
fn is_changed(meta: &ObjectMeta) -> bool {
    meta.generation.is_some_and(|generation| generation > 1)
}

/// Returns true while a Deployment replaces replicas. Returns false after the rollout is complete or has
/// stalled.
fn is_progressing(status: &DeploymentStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions
        .find(|condition| condition.type_ == "Progressing")
        .is_some_and(|condition| {
            condition.status == "True" && condition.reason.as_deref() != Some("NewReplicaSetAvailable")
        })
}

/// Returns the number of updated replicas, or 0 before the controller has observed the newest generation.
fn updated(replicas: Option<i32>, is_seen: bool) -> u32 {
    if is_seen { count(replicas) } else { 0 }
}

fn count(replicas: Option<i32>) -> u32 {
    replicas.map_or(0, |n| u32::try_from(n).unwrap_or(0))
}

/// Returns the number of requested replicas, by default one.
fn wanted(replicas: Option<i32>) -> u32 {
    count(Some(replicas.unwrap_or(1)))
}
