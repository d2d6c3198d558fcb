//! Pods that use resources of a node.

use super::requests::{Requests, pod_requests};
use akash_provider_core::inventory::NodeName;
use akash_provider_kube_kernel::labels;
use k8s_openapi::api::core::v1::Pod;

/// Input for the capacity count: fields of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFacts {
    /// UID; a new pod can have the name of an old pod.
    pub(crate) uid: Box<str>,
    pub(crate) node: NodeName,
    /// Service of the lease; `None` unless the labels and the namespace of the pod belong to the same lease.
    pub(crate) service: Option<Box<str>>,
    /// The pod is being deleted.
    pub(crate) going: bool,
    pub(crate) requests: Requests,
}

impl PodFacts {
    /// Decodes a pod; returns `None` for a pod without a node or in a final phase. A pod that is being
    /// deleted uses capacity until its deletion.
    #[must_use]
    pub fn from_object(pod: &Pod) -> Option<Self> {
        let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) {
            return None;
        }
        let node = pod
            .spec
            .as_ref()?
            .node_name
            .as_deref()
            .filter(|n| !n.is_empty())?;
        Some(Self {
            uid: pod.metadata.uid.as_deref().unwrap_or_default().into(),
            node: node.into(),
            service: service(pod).map(Into::into),
            going: pod.metadata.deletion_timestamp.is_some(),
            requests: pod_requests(pod),
        })
    }
}

fn service(pod: &Pod) -> Option<&str> {
    let labels = pod.metadata.labels.as_ref()?;
    let is = |key: &str, value: &str| labels.get(key).is_some_and(|v| v == value);
    let namespace = pod.metadata.namespace.as_deref()?;
    // Any client may set labels, so the namespace label must contain the namespace of the pod.
    let of_lease = is(labels::MANAGED, "true") && is(labels::NAMESPACE, namespace);
    of_lease.then(|| labels.get(labels::SERVICE).map(String::as_str))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn facts(change: impl FnOnce(&mut Value)) -> Option<PodFacts> {
        let mut pod = json!({
            "metadata": {"name": "web-0", "namespace": "ns", "uid": "u1", "labels": {
                "akash.network": "true", "akash.network/namespace": "ns", "akash.network/manifest-service": "web",
            }},
            "spec": {"nodeName": "n1", "containers": [
                {"name": "web", "resources": {"requests": {"cpu": "1"}}},
            ]},
            "status": {"phase": "Running"},
        });
        change(&mut pod);
        PodFacts::from_object(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn only_bound_and_unfinished_pods_count() {
        let counts = |change: &dyn Fn(&mut Value)| facts(change).is_some();
        let phase = |phase: &'static str| counts(&move |p| p["status"]["phase"] = json!(phase));
        assert!(phase("Running") && phase("Pending") && phase("Unknown"));
        assert!(!phase("Succeeded") && !phase("Failed"));
        assert!(!counts(&|p| p["spec"]["nodeName"] = json!("")));
        assert!(!counts(&|p| p["spec"]["nodeName"] = json!(null)));
        let going = facts(|p| p["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")).unwrap();
        assert!(going.going, "the pod counts until its deletion");
        assert_eq!(going.requests.cpu, 1_000);
    }

    #[test]
    fn pod_belongs_to_a_lease_only_with_all_three_labels() {
        let service = |change: &dyn Fn(&mut Value)| facts(change).unwrap().service;
        assert_eq!(service(&|_| ()).as_deref(), Some("web"));
        for (key, value) in [
            ("akash.network", json!("false")),
            ("akash.network/namespace", json!("another")),
            ("akash.network/manifest-service", json!(null)),
        ] {
            let changed = |p: &mut Value| {
                p["metadata"]["labels"][key] = value.clone();
                if value.is_null() {
                    p["metadata"]["labels"] =
                        json!({"akash.network": "true", "akash.network/namespace": "ns"});
                }
            };
            assert_eq!(service(&changed), None, "{key}");
        }
    }
}
