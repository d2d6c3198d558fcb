//! Capacity for a cluster without a real node.

use serde_json::json;
use testbed::{Component, Testbed};

/// Node with enough capacity for all orders, deleted on drop.
pub(crate) struct LargeNode<'a>(&'a Testbed);

impl<'a> LargeNode<'a> {
    pub(crate) fn new(cluster: &'a Testbed) -> Self {
        let node = Self(cluster);
        // Without controllers a namespace of an earlier test would never end.
        let left = [
            "delete",
            "namespaces",
            "--selector=akash.network=true",
            "--timeout=60s",
        ];
        cluster.kubectl(&left).unwrap();
        // The controllers would treat a node without a kubelet as lost.
        cluster.pause(Component::ControllerManager).unwrap();
        let labels = json!({"akash.network": "true"});
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "ha-campaign", "labels": labels}});
        cluster
            .kubectl_input(&["create", "--filename", "-"], &object.to_string())
            .unwrap();
        let room = json!({"cpu": "4000", "memory": "8Ti", "ephemeral-storage": "40Ti", "pods": "8000"});
        let now = "2026-01-01T00:00:00Z";
        let status = json!({"status": {"capacity": room, "allocatable": room, "conditions": [{
            "type": "Ready", "status": "True", "reason": "Test", "message": "",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }]}});
        let words = [
            "patch",
            "node",
            "ha-campaign",
            "--subresource=status",
            "--type=merge",
            "--patch",
        ];
        cluster
            .kubectl(&[&words[..], &[&status.to_string()]].concat())
            .unwrap();
        // The API server adds a taint to each new node. The paused controllers would remove it.
        let words = ["patch", "node", "ha-campaign", "--type=merge", "--patch"];
        cluster
            .kubectl(&[&words[..], &[r#"{"spec": {"taints": null}}"#]].concat())
            .unwrap();
        node
    }
}

impl Drop for LargeNode<'_> {
    fn drop(&mut self) {
        drop(self.0.resume(Component::ControllerManager));
        let words = [
            "delete",
            "node",
            "ha-campaign",
            "--ignore-not-found",
            "--wait=false",
        ];
        drop(self.0.kubectl(&words));
    }
}
