//! Selection of the pods of a service, as pure functions.

use crate::state::{LeaseView, pod_service};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

/// Pod of a service, with the fields that log readers and commands use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Replica {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) service: String,
    /// Name of the container that runs the service; `None` if the pod has no containers.
    pub(super) container: Option<String>,
}

/// Returns the replicas of `services`, sorted by name. If `services` is empty, returns the replicas of all
/// services.
pub(super) fn replicas(view: &LeaseView, services: &[String]) -> Vec<Replica> {
    let pods = view.pods.iter();
    pods.filter_map(|(name, pod)| {
        let service = pod_service(pod)?;
        let wanted = services.is_empty() || services.iter().any(|s| s == service);
        wanted.then(|| Replica {
            name: name.clone(),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            service: service.to_owned(),
            container: container(pod, service),
        })
    })
    .collect()
}

/// Returns the name of the container with the name of the service, otherwise the name of the first container.
fn container(pod: &Pod, service: &str) -> Option<String> {
    let containers = pod.spec.as_ref().map_or(&[][..], |s| &s.containers);
    let own = containers.iter().find(|c| c.name == service);
    own.or_else(|| containers.first()).map(|c| c.name.clone())
}

fn status_of<'a>(pod: &'a Pod, container: Option<&str>) -> Option<&'a ContainerStatus> {
    let mut all = pod.status.as_ref()?.container_statuses.iter().flatten();
    all.find(|c| container.is_none_or(|name| c.name == name))
}

/// Returns true if the container started at least once, so that it has logs.
pub(super) fn has_started(pod: &Pod, container: Option<&str>) -> bool {
    let Some(status) = status_of(pod, container) else {
        return false;
    };
    let state = status.state.as_ref();
    // A container that waits for a restart still has the log of its last run.
    status.restart_count > 0 || state.is_some_and(|s| s.running.is_some() || s.terminated.is_some())
}

pub(super) fn is_running(pod: &Pod, container: Option<&str>) -> bool {
    let state = status_of(pod, container).and_then(|c| c.state.as_ref());
    state.is_some_and(|s| s.running.is_some())
}

/// Returns true if the pod has ended and starts no more containers.
pub(super) fn is_done(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|s| s.phase.as_deref())
        .unwrap_or_default()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|c| c.type_ == "Ready" && c.status == "True")
}

/// Reason why a service cannot run a command. The texts equal the texts of the Go provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreachable {
    #[error("no such service exists with that name")]
    NoService,
    #[error("service with that name is not running")]
    NotRunning,
    #[error("service with that name is not running: the service has completed")]
    Completed,
    #[error("service with that name is not running: the service has failed")]
    Failed,
    #[error("service with that name is not running: the service is not ready")]
    NotReady,
    #[error("pod index out of range: valid range is [0, {0}]")]
    OutOfRange(usize),
}

/// Returns the replica with index `number` in the order of names. Replicas that are being deleted are not
/// counted.
pub(super) fn pick(view: &LeaseView, service: &str, number: u32) -> Result<Replica, Unreachable> {
    if !crate::state::has_service(view, service) {
        return Err(Unreachable::NoService);
    }
    let staying = |replica: &Replica| {
        let pod = view.pods.get(&replica.name);
        pod.is_some_and(|p| p.metadata.deletion_timestamp.is_none())
    };
    let all = replicas(view, &[service.to_owned()]);
    let staying: Vec<_> = all.into_iter().filter(staying).collect();
    let Some(last) = staying.len().checked_sub(1) else {
        return Err(Unreachable::NotRunning);
    };
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    let Some(replica) = staying.into_iter().nth(number) else {
        return Err(Unreachable::OutOfRange(last));
    };
    let Some(pod) = view.pods.get(&replica.name) else {
        return Err(Unreachable::NotRunning);
    };
    match phase(pod) {
        "Succeeded" => Err(Unreachable::Completed),
        "Failed" => Err(Unreachable::Failed),
        _ if !is_ready(pod) => Err(Unreachable::NotReady),
        _ => Ok(replica),
    }
}

#[cfg(test)]
mod tests;
