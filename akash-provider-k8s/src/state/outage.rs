//! Reason for missing replicas: either the tenant's containers fail, or the cluster prevents them from running.
//!
//! The evidence is in the pods. A failure belongs to the tenant only if the kubelet started the container, or
//! refused to start it because of the tenant's settings. In addition, the kubelet of the pod's node must send
//! [heartbeats](super::nodes), and the pod must not be terminating.

use super::nodes::Nodes;
use super::replica_counts::Replicas;
use super::{LeaseView, pod_service};
use akash_provider_core::cluster::{Health, Outage};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStateWaiting, ContainerStatus, Pod, PodStatus};

/// Values of `state.waiting.reason` for problems with the tenant's image, command or settings.
const FAILING: [&str; 6] = [
    "CrashLoopBackOff",
    "InvalidImageName",
    "CreateContainerError",
    "RunContainerError",
    "StartError",
    "ContainerCannotRun",
];

/// Waiting reasons after a failed image pull.
const PULL: [&str; 2] = ["ErrImagePull", "ImagePullBackOff"];

/// Texts in registry errors that show a wrong or forbidden image reference. Errors for rate limits and
/// missing responses do not contain these texts.
const WRONG_REFERENCE: [&str; 8] = [
    "not found",
    "notfound",
    "manifest unknown",
    "denied",
    "unauthorized",
    "authorization failed",
    "invalid reference",
    "no match for platform",
];

/// Termination reasons that a container gets if its node was restarted. The kubelet did not observe the end
/// of the container.
const UNWATCHED: [&str; 2] = ["ContainerStatusUnknown", "Unknown"];

/// Returns the health of a service with fewer available replicas than the `count` in the manifest.
pub(super) fn explain(
    view: &LeaseView,
    nodes: &Nodes,
    service: &str,
    count: u32,
    replicas: Option<Replicas>,
) -> Health {
    let Some(replicas) = replicas else {
        return Health::Out(Outage::Missing);
    };
    let pods = view.pods.values();
    let pods = pods.filter(|pod| pod_service(pod) == Some(service));
    let found: Vec<Health> = pods.filter_map(|pod| on_node(pod, nodes)).collect();
    if found.contains(&Health::Bad) {
        return Health::Bad;
    }
    if replicas.wanted < count {
        return Health::Out(Outage::ScaledDown);
    }
    if is_refused(view, service) {
        return Health::Out(Outage::Refused);
    }
    let starts = replicas.observed < replicas.generation || replicas.there == 0;
    let otherwise = if starts {
        Outage::Starting
    } else {
        Outage::Unexplained
    };
    found.into_iter().min().unwrap_or(Health::Out(otherwise))
}

/// Returns true if the API server refuses to create the pods of a Deployment.
fn is_refused(view: &LeaseView, service: &str) -> bool {
    let status = view.deployments.get(service).and_then(|d| d.status.as_ref());
    let mut conditions = status.into_iter().flat_map(|s| s.conditions.iter().flatten());
    conditions.any(|c| c.type_ == "ReplicaFailure" && c.status == "True")
}

/// Returns the nodes on which containers of a lease fail.
pub(super) fn failing_nodes(view: &LeaseView) -> impl Iterator<Item = &str> {
    let failing = view.pods.values().filter(|pod| of_pod(pod) == Some(Health::Bad));
    failing.filter_map(|pod| node_of(pod))
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Returns the health of a pod, as [`of_pod`]. The health is [`Health::Bad`] only on a ready node that sends
/// heartbeats.
fn on_node(pod: &Pod, nodes: &Nodes) -> Option<Health> {
    let health = of_pod(pod)?;
    if health != Health::Bad {
        return Some(health);
    }
    Some(match node_of(pod).and_then(|node| nodes.get(node)) {
        Some(true) => Health::Bad,
        Some(false) => Health::Out(Outage::NodeAway),
        None => Health::Unknown,
    })
}

/// Returns the health that results from a problem of the pod, or `None` if the pod has no problem.
fn of_pod(pod: &Pod) -> Option<Health> {
    let status = pod.status.as_ref()?;
    let is = |type_: &str, wanted: &str| has_condition(status, type_, wanted);
    let is_removed = is("DisruptionTarget", "True") || pod.metadata.deletion_timestamp.is_some();
    let phase = status.phase.as_deref();
    // Pods are always restarted, so only the cluster fails a pod.
    if is_removed || phase == Some("Failed") {
        return Some(Health::Out(Outage::Evicted));
    }
    if phase == Some("Unknown") {
        return Some(Health::Out(Outage::NodeAway));
    }
    if is("PodScheduled", "False") {
        return Some(Health::Out(Outage::Unschedulable));
    }
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    let reason = containers.iter().filter_map(of_container).min();
    if reason.is_some() {
        return reason;
    }
    // The control plane marks the pods of a silent node as not ready, and leaves their container states unchanged.
    let all_ready = !containers.is_empty() && containers.iter().all(|c| c.ready);
    (all_ready && !is("Ready", "True")).then_some(Health::Out(Outage::NodeAway))
}

fn has_condition(status: &PodStatus, type_: &str, wanted: &str) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|c| c.type_ == type_ && c.status == wanted)
}

fn of_container(container: &ContainerStatus) -> Option<Health> {
    match container.state.as_ref()? {
        ContainerState {
            waiting: Some(waiting),
            ..
        } => Some(of_waiting(waiting)),
        ContainerState {
            terminated: Some(ended),
            ..
        } => {
            let reason = ended.reason.as_deref().unwrap_or_default();
            let unwatched = UNWATCHED.contains(&reason);
            Some(if unwatched {
                Health::Out(Outage::NodeAway)
            } else {
                Health::Bad
            })
        }
        _ => None,
    }
}

fn of_waiting(waiting: &ContainerStateWaiting) -> Health {
    let reason = waiting.reason.as_deref().unwrap_or_default();
    if FAILING.contains(&reason) {
        return Health::Bad;
    }
    if !PULL.contains(&reason) {
        return Health::Out(Outage::Starting);
    }
    let message = waiting.message.as_deref().unwrap_or_default().to_lowercase();
    if WRONG_REFERENCE.iter().any(|part| message.contains(part)) {
        Health::Bad
    } else {
        Health::Out(Outage::ImagePull)
    }
}

#[cfg(test)]
mod tests;
