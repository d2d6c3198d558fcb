//! Health of a lease, a pure function of its objects and its Manifest.

use super::nodes::Nodes;
use super::replica_counts::Replicas;
use super::{CachedKind, LeaseView, outage};
use akash_provider_core::cluster::Health;
use akash_provider_kube_model::crd::ManifestService;

/// Returns the replica counts of a service, or `None` without a workload.
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

/// Returns true for a service that runs as a StatefulSet.
fn is_persistent(service: &ManifestService) -> bool {
    let volumes = service.resources.storage.iter().flatten();
    let mut attributes = volumes.flat_map(|v| v.attributes.iter().flatten());
    attributes.any(|a| a.key == "persistent" && a.value == "true")
}

/// Returns the health of a lease. Health is unknown if the Manifest is missing, if an object that affects
/// health is invalid, or if the node of a failing container has not been read.
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
            // One failing service decides, regardless of outages of the others.
            Health::Bad => return Health::Bad,
            health => lacking = Some(lacking.map_or(health, |before: Health| before.min(health))),
        }
    }
    lacking.unwrap_or(Health::Good)
}

/// Change of a workload by this process. The watches have possibly not observed the change yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WorkloadWrite {
    pub(super) kind: CachedKind,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) generation: i64,
}

impl WorkloadWrite {
    /// Returns true after the watches observed this write or a later write.
    pub(super) fn is_seen(&self, view: &LeaseView) -> bool {
        view.metadata(self.kind, &self.name).is_some_and(|meta| {
            let same = meta.uid.as_deref() == Some(self.uid.as_str());
            same && meta.generation.unwrap_or(0) >= self.generation
        })
    }
}

#[cfg(test)]
mod tests;
