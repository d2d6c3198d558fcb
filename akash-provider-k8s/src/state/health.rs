//! Whether a lease's workload is as its manifest wants it: a pure function of its objects.

use super::nodes::Nodes;
use super::{Kind, LeaseView, outage};
use crate::crd::ManifestService;
use akash_provider_core::cluster::Health;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, StatefulSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// What the two kinds of workload have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replicas {
    /// Version of the specification.
    pub generation: i64,
    /// Version the controller acted on.
    pub observed: i64,
    /// Replicas that the specification wants.
    pub wanted: u32,
    /// Replicas that are there, ready or not.
    pub there: u32,
    /// Of the newest version.
    pub updated: u32,
    /// Ready ones, of whatever version.
    pub ready: u32,
    /// Ready for as long as it takes to count.
    pub available: u32,
    /// A change of what runs is being carried out, replica by replica, and has not come to a standstill.
    pub updating: bool,
}

impl Replicas {
    /// Replicas of a Deployment, by its status.
    #[must_use]
    pub fn of_deployment(deployment: &Deployment) -> Self {
        let status = deployment.status.clone().unwrap_or_default();
        Self {
            generation: deployment.metadata.generation.unwrap_or(0),
            observed: status.observed_generation.unwrap_or(0),
            wanted: wanted(deployment.spec.as_ref().and_then(|s| s.replicas)),
            there: count(status.replicas),
            updated: count(status.updated_replicas),
            ready: count(status.ready_replicas),
            available: count(status.available_replicas),
            updating: is_changed(&deployment.metadata) && is_progressing(&status),
        }
    }

    /// Of a StatefulSet. Its current replicas are those of the older version, so that they say nothing of
    /// what serves.
    #[must_use]
    pub fn of_stateful_set(set: &StatefulSet) -> Self {
        let status = set.status.clone().unwrap_or_default();
        Self {
            generation: set.metadata.generation.unwrap_or(0),
            observed: status.observed_generation.unwrap_or(0),
            wanted: wanted(set.spec.as_ref().and_then(|s| s.replicas)),
            there: count(Some(status.replicas)),
            updated: count(status.updated_replicas),
            ready: count(status.ready_replicas),
            available: count(status.available_replicas),
            // Nothing says when it stands still, so that some replica must serve meanwhile.
            updating: is_changed(&set.metadata)
                && status.available_replicas > Some(0)
                && status.update_revision.is_some()
                && status.current_revision != status.update_revision,
        }
    }

    /// True where so many replicas serve as there should be. An update takes one replica at a time away, by our own
    /// order, and the version that was served before goes on until the controller has seen the new one.
    fn serve(&self, wanted: u32) -> bool {
        let one_away = u32::from(self.updating);
        let is_told = self.observed >= self.generation || self.generation > 1;
        is_told && self.available.saturating_add(one_away) >= wanted
    }
}

/// True for an object that was changed since it was made: what starts for the first time has nothing that serves.
fn is_changed(meta: &ObjectMeta) -> bool {
    meta.generation.is_some_and(|generation| generation > 1)
}

/// True while a Deployment replaces replicas; its controller says when that is done, and when it takes too long.
fn is_progressing(status: &DeploymentStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions
        .find(|condition| condition.type_ == "Progressing")
        .is_some_and(|condition| {
            condition.status == "True" && condition.reason.as_deref() != Some("NewReplicaSetAvailable")
        })
}

fn count(replicas: Option<i32>) -> u32 {
    replicas.map_or(0, |n| u32::try_from(n).unwrap_or(0))
}

/// Kubernetes runs one replica where nothing is said.
fn wanted(replicas: Option<i32>) -> u32 {
    count(Some(replicas.unwrap_or(1)))
}

/// The replicas of a service; `None` where there is no workload of that name.
#[must_use]
pub fn replicas(view: &LeaseView, service: &str) -> Option<Replicas> {
    let deployment = || view.deployments.get(service).map(|d| Replicas::of_deployment(d));
    let set = || {
        view.stateful_sets
            .get(service)
            .map(|s| Replicas::of_stateful_set(s))
    };
    let wanted = view.wanted().unwrap_or_default();
    if wanted.iter().any(|s| s.name == service && is_persistent(s)) {
        set().or_else(deployment)
    } else {
        deployment().or_else(set)
    }
}

/// True for a service that runs as a StatefulSet.
fn is_persistent(service: &ManifestService) -> bool {
    let volumes = service.resources.storage.iter().flatten();
    let mut attributes = volumes.flat_map(|v| v.attributes.iter().flatten());
    attributes.any(|a| a.key == "persistent" && a.value == "true")
}

/// Health of a lease, with the reason for replicas that it lacks. It is unknown without a manifest, and while an object
/// that decides it cannot be read, or the node of a failing container has not been read.
pub(super) fn health(view: &LeaseView, nodes: &Nodes) -> Health {
    let Some(wanted) = view.wanted() else {
        return Health::Unknown;
    };
    if view.unreadable.keys().any(|(kind, _)| kind.decides_health()) {
        return Health::Unknown;
    }
    let mut lacking = None;
    for ManifestService { name, count, .. } in wanted {
        let replicas = replicas(view, name);
        if replicas.is_some_and(|r| r.serve(*count)) {
            continue;
        }
        match outage::explain(view, nodes, name, *count, replicas) {
            // One failing service is enough, whatever interrupts another.
            Health::Bad => return Health::Bad,
            health => lacking = Some(lacking.map_or(health, |before: Health| before.min(health))),
        }
    }
    lacking.unwrap_or(Health::Good)
}

/// A write of ours that the watches may not have seen yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) generation: i64,
}

impl Write {
    /// True once the watches saw it or something later.
    pub(super) fn is_seen(&self, view: &LeaseView) -> bool {
        view.metadata(self.kind, &self.name).is_some_and(|meta| {
            let same = meta.uid.as_deref() == Some(self.uid.as_str());
            same && meta.generation.unwrap_or(0) >= self.generation
        })
    }
}

#[cfg(test)]
mod tests;
