//! Removes unused fields from objects before they are cached.

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodSpec,
    PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Removes the managed fields and the annotation of kubectl.
pub(super) fn metadata(meta: &mut ObjectMeta) {
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove(LAST_APPLIED);
    }
}

/// Reduces a pod to its identity, the names of its containers, its node and its status.
pub(super) fn pod(pod: &mut Pod) {
    metadata(&mut pod.metadata);
    pod.spec = pod.spec.take().map(spec);
    pod.status = pod.status.take().map(status);
}

fn spec(whole: PodSpec) -> PodSpec {
    let container = |whole: Container| Container {
        name: whole.name,
        ..Container::default()
    };
    PodSpec {
        containers: whole.containers.into_iter().map(container).collect(),
        node_name: whole.node_name,
        ..PodSpec::default()
    }
}

fn status(whole: PodStatus) -> PodStatus {
    let condition = |whole: PodCondition| PodCondition {
        type_: whole.type_,
        status: whole.status,
        ..PodCondition::default()
    };
    let container = |whole: ContainerStatus| ContainerStatus {
        name: whole.name,
        ready: whole.ready,
        restart_count: whole.restart_count,
        state: whole.state,
        last_state: whole.last_state.map(last_state),
        ..ContainerStatus::default()
    };
    let conditions = whole.conditions.unwrap_or_default();
    let containers = whole.container_statuses.unwrap_or_default();
    PodStatus {
        phase: whole.phase,
        conditions: Some(conditions.into_iter().map(condition).collect()),
        container_statuses: Some(containers.into_iter().map(container).collect()),
        ..PodStatus::default()
    }
}

/// Returns how and when a container terminated, without the termination message of up to 4 KiB.
fn last_state(whole: ContainerState) -> ContainerState {
    let terminated = |whole: ContainerStateTerminated| ContainerStateTerminated {
        reason: whole.reason,
        exit_code: whole.exit_code,
        finished_at: whole.finished_at,
        ..ContainerStateTerminated::default()
    };
    ContainerState {
        terminated: whole.terminated.map(terminated),
        ..ContainerState::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn trimmed_pod_has_only_the_read_fields() {
        let mut whole: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": "web-0", "namespace": "ns", "uid": "u", "labels": {"a": "b"},
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"},
                "managedFields": [{"manager": "kubelet"}],
            },
            "spec": {
                "nodeName": "n1", "serviceAccountName": "x", "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [{"name": "web", "image": "i", "env": [{"name": "SECRET", "value": "s"}]}],
            },
            "status": {
                "phase": "Running", "podIP": "10.0.0.1",
                "conditions": [{"type": "Ready", "status": "True", "message": "m"}],
                "containerStatuses": [{
                    "name": "web", "ready": true, "restartCount": 3, "image": "i", "imageID": "d",
                    "state": {"running": {}},
                    "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "m"}},
                }],
            },
        }))
        .unwrap();
        pod(&mut whole);
        let trimmed = serde_json::to_value(whole).unwrap();
        assert_eq!(
            trimmed,
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": "web-0", "namespace": "ns", "uid": "u", "labels": {"a": "b"},
                    "annotations": {"kept": "yes"},
                },
                "spec": {"nodeName": "n1", "containers": [{"name": "web"}]},
                "status": {
                    "phase": "Running",
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "containerStatuses": [{
                        "name": "web", "ready": true, "restartCount": 3, "image": "", "imageID": "",
                        "state": {"running": {}},
                        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                    }],
                },
            })
        );
    }
}
