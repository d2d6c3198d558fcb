//! Remedies for resources that the inventory does not offer. The texts of the reasons are in the modules beside this one.

/// Prefix of the label that each GPU model needs.
const GPU_LABEL: &str = "akash.network/capabilities.gpu.vendor.";
const SEE_DOCS: &str = "see docs/kubernetes.md for the labels of nodes and storage classes";

/// Returns the remedy for a reason in the list of resources that are not offered.
#[must_use]
pub fn remedy(reason: &str) -> String {
    let name = reason.split('`').nth(1).unwrap_or("NAME");
    if reason.starts_with("storage class") {
        return of_class(name, reason);
    }
    if reason.starts_with("node ") {
        return of_node(name, reason);
    }
    if reason.starts_with("Manifest") {
        return format!(
            "run `kubectl get manifests.akash.network --all-namespaces --field-selector metadata.name={name} --output yaml` \
             and correct the record, or delete it if its lease is closed"
        );
    }
    if reason.contains("cannot be read") {
        return "run `kubectl apply --filename deploy/rbac`".to_owned();
    }
    if reason.starts_with("and ") {
        return "apply the other remedies, then run the command again".to_owned();
    }
    SEE_DOCS.to_owned()
}

fn of_class(name: &str, reason: &str) -> String {
    if let Some((_, label)) = reason.split_once("missing label ") {
        return format!("run `kubectl label storageclass {name} {label}` to offer it to tenants");
    }
    if let Some((_, label)) = reason.split_once("no node has the label ") {
        return format!("run `kubectl label node NODE {label}=1` for each node that mounts the class");
    }
    if reason.ends_with("unknown size") {
        return format!(
            "set --storage-class {name}=SIZE, or use a driver that reports CSIStorageCapacity objects"
        );
    }
    SEE_DOCS.to_owned()
}

fn of_node(name: &str, reason: &str) -> String {
    if let Some((_, label)) = reason.split_once("missing label ") {
        return format!("run `kubectl label node {name} {label}` to offer it to tenants");
    }
    if let Some(why) = reason.split_once(" accepts no new pods: ").map(|(_, why)| why) {
        return of_closed_node(name, why);
    }
    if reason.contains("GPUs are unhealthy") {
        return format!("check the device plugin and the drivers on node {name}");
    }
    if let Some(label) = gpu_label(reason) {
        return format!(
            "run the inventory operator (--with-operators inventory), or run `kubectl label node {name} {label}=COUNT`"
        );
    }
    if let Some(key) = reason
        .split_once("label ")
        .and_then(|(_, rest)| rest.split_once(": invalid"))
    {
        return format!("run `kubectl label --overwrite node {name} {}=COUNT`", key.0);
    }
    SEE_DOCS.to_owned()
}

/// Returns the label that GPUs without a model need.
fn gpu_label(reason: &str) -> Option<String> {
    if let Some((_, rest)) = reason.split_once("pods are bound by label ") {
        return rest.split(',').next().map(str::to_owned);
    }
    let is_unknown = reason.contains("GPUs of unknown model") || reason.contains("GPUs have no model label");
    let vendor = ["nvidia", "amd"]
        .into_iter()
        .find(|vendor| reason.contains(*vendor));
    is_unknown.then(|| format!("{GPU_LABEL}{}.model.MODEL", vendor.unwrap_or("VENDOR")))
}

fn of_closed_node(name: &str, why: &str) -> String {
    if why == "cordoned" {
        return format!("run `kubectl uncordon {name}`");
    }
    if let Some((key, effect)) = why
        .strip_prefix("taint ")
        .and_then(|taint| taint.rsplit_once(':'))
    {
        return format!("run `kubectl taint node {name} {key}:{effect}-`");
    }
    if why.starts_with("pod limit") {
        return format!("raise maxPods of the kubelet on node {name}, or move pods to another node");
    }
    format!("run `kubectl describe node {name}` and restart its kubelet")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::{LeaseFacts, NodeFacts};
    use crate::settings::Settings;
    use serde_json::{Value, json};

    /// Returns the reasons of a changed node, as in the list of the inventory.
    fn reasons(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut node = json!({
            "metadata": {"name": "n1", "labels": {"akash.network": "true"}},
            "spec": {},
            "status": {
                "allocatable": {"nvidia.com/gpu": "2", "pods": "110"},
                "capacity": {"nvidia.com/gpu": "2"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        change(&mut node);
        let facts = NodeFacts::from_object(&serde_json::from_value(node).unwrap()).unwrap();
        let closed = facts.closed_now(0);
        let closed = closed.map(|why| format!("node `n1` accepts no new pods: {why}"));
        let notes = facts.notes.iter().map(|note| format!("node `n1`: {note}"));
        closed.into_iter().chain(notes).collect()
    }

    /// Label of the model of the GPUs of the test.
    const A100: &str = "akash.network/capabilities.gpu.vendor.nvidia.model.a100";

    fn labelled(node: &mut Value) {
        node["metadata"]["labels"][A100] = json!("2");
    }

    #[test]
    fn labelled_node_has_no_reason() {
        assert_eq!(reasons(labelled), Vec::<String>::new());
    }

    #[test]
    fn each_reason_of_a_node_has_a_remedy_with_its_name() {
        let with_model = |change: fn(&mut Value)| {
            reasons(|node| {
                labelled(node);
                change(node);
            })
        };
        for (reasons, wanted) in [
            (
                reasons(|_| {}),
                "`kubectl label node n1 akash.network/capabilities.gpu.vendor.nvidia.model.MODEL=COUNT`",
            ),
            (
                reasons(|node| {
                    node["metadata"]["labels"]["nvidia.com/gpu.product"] = json!("NVIDIA-A100-SXM4-80GB");
                }),
                "`kubectl label node n1 akash.network/capabilities.gpu.vendor.nvidia.model.a100=COUNT`",
            ),
            (
                with_model(|node| node["metadata"]["labels"][A100] = json!("1")),
                "nvidia.model.MODEL=COUNT`",
            ),
            (
                with_model(|node| node["status"]["allocatable"]["nvidia.com/gpu"] = json!("1")),
                "drivers on node n1",
            ),
            (
                with_model(|node| node["spec"]["unschedulable"] = json!(true)),
                "`kubectl uncordon n1`",
            ),
            (
                with_model(|node| {
                    node["spec"]["taints"] = json!([{"key": "a/b", "effect": "NoSchedule"}]);
                }),
                "`kubectl taint node n1 a/b:NoSchedule-`",
            ),
            (
                with_model(|node| node["status"]["allocatable"]["pods"] = json!("0")),
                "maxPods of the kubelet on node n1",
            ),
            (
                with_model(|node| node["status"]["conditions"] = json!([])),
                "`kubectl describe node n1`",
            ),
        ] {
            assert_eq!(reasons.len(), 1, "{reasons:?}");
            assert!(
                remedy(&reasons[0]).contains(wanted),
                "{}: {}",
                reasons[0],
                remedy(&reasons[0])
            );
        }
        let missing = remedy("node `n1`: missing label akash.network=true");
        assert!(
            missing.contains("`kubectl label node n1 akash.network=true`"),
            "{missing}"
        );
    }

    #[test]
    fn classes_records_and_kinds_have_remedies() {
        for (reason, wanted) in [
            (
                "storage class `fast`: missing label akash.network=true",
                "`kubectl label storageclass fast akash.network=true`",
            ),
            (
                "storage class `beta3`: no node has the label akash.network/capabilities.storage.class.beta3",
                "akash.network/capabilities.storage.class.beta3=1",
            ),
            (
                "storage class `nfs` of nfs.csi: unknown size",
                "--storage-class nfs=SIZE",
            ),
            ("storageclasses cannot be read: forbidden", "deploy/rbac"),
            ("and 7 more", "run the command again"),
        ] {
            assert!(remedy(reason).contains(wanted), "{reason}: {}", remedy(reason));
        }
        let provider = "akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0";
        let record = json!({
            "apiVersion": "akash.network/v2beta2", "kind": "Manifest", "metadata": {"name": "bad"},
            "spec": {"lease_id": {"provider": provider}},
        });
        let settings = Settings::new(provider.parse().unwrap());
        let reason =
            LeaseFacts::from_object(&serde_json::from_value(record).unwrap(), &settings).unwrap_err();
        assert!(remedy(&reason).contains("metadata.name=bad"), "{reason}");
    }
}
