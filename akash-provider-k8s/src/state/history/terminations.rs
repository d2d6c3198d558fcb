//! Events of containers that terminated with an error: the kubelet reports the reason and the exit code only in the
//! status of the pod.

use super::super::shared::{CacheShared, EVERYWHERE};
use super::super::status::{pod_service, terminated};
use super::super::view::LeaseView;
use super::{EventHistory, StoredEvent};
use akash_provider_core::cluster::{EventObject, LeaseEvent, Severity};
use akash_provider_core::types::time::BlockTime;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use std::sync::Arc;
use tokio::sync::broadcast::error::RecvError;

/// Adds failed container terminations to the history each time a lease changes.
pub(in crate::state) fn follow(
    history: Arc<EventHistory>,
    shared: Arc<CacheShared>,
) -> impl Future<Output = ()> + Send {
    let mut touched = shared.touched.subscribe();
    async move {
        loop {
            match touched.recv().await {
                Ok(home) if &*home != EVERYWHERE => history.add_terminations(&shared, Some(&home)),
                Ok(_) | Err(RecvError::Lagged(_)) => history.add_terminations(&shared, None),
                Err(RecvError::Closed) => return,
            }
        }
    }
}

impl EventHistory {
    /// Adds the failed container terminations in the namespace `home` to the history. With `None`, all lease
    /// namespaces are read.
    fn add_terminations(&self, shared: &CacheShared, home: Option<&str>) {
        let found: Vec<StoredEvent> = {
            let index = shared.index();
            let all = index.leases.iter();
            match home {
                Some(home) => index
                    .leases
                    .get(home)
                    .map_or_else(Vec::new, |entry| terminations(&entry.view)),
                None => all.flat_map(|(_, entry)| terminations(&entry.view)).collect(),
            }
        };
        for stored in found {
            self.record(&stored.namespace, stored.uid, stored.version, stored.event, true);
        }
    }
}

/// Returns the newest failed termination of each container. Ignores pods that are being deleted.
pub(super) fn terminations(view: &LeaseView) -> Vec<StoredEvent> {
    let stays = |pod: &&Arc<Pod>| pod.metadata.deletion_timestamp.is_none();
    let of_pod = |pod: &Arc<Pod>| -> Vec<StoredEvent> {
        let containers = pod
            .status
            .iter()
            .flat_map(|s| s.container_statuses.iter().flatten());
        containers
            .filter_map(|container| termination(pod, container))
            .collect()
    };
    view.pods.values().filter(stays).flat_map(of_pod).collect()
}

fn termination(pod: &Pod, container: &ContainerStatus) -> Option<StoredEvent> {
    let ended = terminated(container).filter(|ended| ended.exit_code != 0)?;
    let finished = ended.finished_at.as_ref()?.0;
    let reason = ended.reason.clone().unwrap_or_default();
    let message = format!(
        "Container {} terminated: {reason}, exit code {}",
        container.name, ended.exit_code
    );
    let namespace = pod.metadata.namespace.clone()?;
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let event = LeaseEvent {
        time: BlockTime(finished.as_millisecond()),
        service: pod_service(pod).unwrap_or_default().to_owned(),
        severity: Severity::Warning,
        reason,
        message,
        object: EventObject {
            kind: "Pod".to_owned(),
            namespace: namespace.clone(),
            name: pod.metadata.name.clone()?,
        },
        reporting_controller: "kubelet".to_owned(),
        reporting_instance: node.unwrap_or_default(),
    };
    Some(StoredEvent {
        namespace,
        // A later termination of the container replaces this one, as a repeated event does.
        uid: format!("{}/{}", pod.metadata.uid.as_deref()?, container.name),
        version: finished.to_string(),
        event,
    })
}
