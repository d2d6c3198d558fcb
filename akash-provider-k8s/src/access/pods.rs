//! The pods of a service: pure functions.

use crate::state::{LeaseView, pod_service};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

/// A replica as log readers and commands need to know it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Replica {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) service: String,
    /// Container of the service.
    pub(super) container: Option<String>,
}

/// Replicas of some services (all where none is named), sorted by name.
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

/// The service's own container is called as the service; others are injected by the cluster.
fn container(pod: &Pod, service: &str) -> Option<String> {
    let containers = pod.spec.as_ref().map_or(&[][..], |s| &s.containers);
    let own = containers.iter().find(|c| c.name == service);
    own.or_else(|| containers.first()).map(|c| c.name.clone())
}

/// Status of a container of a pod.
fn status_of<'a>(pod: &'a Pod, container: Option<&str>) -> Option<&'a ContainerStatus> {
    let mut all = pod.status.as_ref()?.container_statuses.iter().flatten();
    all.find(|c| container.is_none_or(|name| c.name == name))
}

/// True when a container began at least once, so that there are logs.
pub(super) fn has_begun(pod: &Pod, container: Option<&str>) -> bool {
    let Some(status) = status_of(pod, container) else {
        return false;
    };
    let state = status.state.as_ref();
    // It may wait for its next start: the log of the one before is there.
    status.restart_count > 0 || state.is_some_and(|s| s.running.is_some() || s.terminated.is_some())
}

/// True when a container runs now.
pub(super) fn is_running(pod: &Pod, container: Option<&str>) -> bool {
    let state = status_of(pod, container).and_then(|c| c.state.as_ref());
    state.is_some_and(|s| s.running.is_some())
}

/// True when no container of a pod will begin any more.
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

/// Why no command can run in a service.
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

/// The replica of a number, counted by name over those that are not going.
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
