use super::*;
use crate::inventory::storage::{StorageInputs, StorageOptions, pools};
use crate::inventory::{CephClusterFacts, ClassFacts, LeaseFacts, NodeFacts};
use crate::settings::KubeSettings;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const A100: &str = "akash.network/capabilities.gpu.vendor.nvidia.model.a100";

/// Changes a node. Returns the resources of the node that are not offered.
fn of_node(change: impl FnOnce(&mut Value)) -> Vec<IgnoredResource> {
    let mut node = json!({
        "metadata": {"name": "n1", "labels": {"akash.network": "true", A100: "2"}},
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
    let closed = closed.map(|reason| reason.resource("n1"));
    let notes = facts.notes.iter().map(|problem| problem.resource("n1"));
    closed.into_iter().chain(notes).collect()
}

fn entry(change: impl FnOnce(&mut Value)) -> IgnoredResource {
    let mut entries = of_node(change);
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries.remove(0)
}

fn labels(pairs: &[(&str, &str)]) -> Value {
    let mut labels = json!({"akash.network": "true"});
    for (key, value) in pairs {
        labels[*key] = json!(value);
    }
    labels
}

fn check(entry: &IgnoredResource, kind: IgnoredKind, reason: &str, help: &str) {
    assert_eq!(entry.kind(), kind, "{entry:?}");
    assert!(entry.reason().contains(reason), "{reason}: {entry:?}");
    assert!(entry.help().contains(help), "{help}: {entry:?}");
}

#[test]
fn labelled_node_has_no_reason() {
    assert_eq!(of_node(|_| {}), []);
}

#[test]
fn each_reason_of_a_closed_node_has_its_remedy() {
    let unlabelled = entry(|node| node["metadata"]["labels"] = json!({A100: "2"}));
    check(
        &unlabelled,
        IgnoredKind::Node,
        "node `n1`: missing label akash.network=true",
        "`kubectl label node n1 akash.network=true`",
    );
    let closed = |change: fn(&mut Value), reason, help| {
        check(&entry(change), IgnoredKind::ClosedNode, reason, help);
    };
    closed(
        |node| node["spec"]["unschedulable"] = json!(true),
        "node `n1` accepts no new pods: cordoned",
        "`kubectl uncordon n1`",
    );
    closed(
        |node| node["spec"]["taints"] = json!([{"key": "a/b", "effect": "NoSchedule"}]),
        "accepts no new pods: taint a/b:NoSchedule",
        "`kubectl taint node n1 a/b:NoSchedule-`",
    );
    closed(
        |node| node["status"]["allocatable"]["pods"] = json!("0"),
        "pod limit reached (0)",
        "maxPods of the kubelet on node n1",
    );
    for (conditions, reason) in [
        (json!([]), "no Ready condition"),
        (json!([{"type": "Ready", "status": "Unknown"}]), "unreachable"),
        (
            json!([{"type": "Ready", "status": "False", "reason": "X"}]),
            "not ready (X)",
        ),
    ] {
        let entry = entry(|node| node["status"]["conditions"] = conditions);
        check(
            &entry,
            IgnoredKind::ClosedNode,
            reason,
            "`kubectl describe node n1`",
        );
    }
}

#[test]
fn each_problem_of_gpus_has_its_remedy() {
    let gpu = |labels: Value, reason: &str, help: &str| {
        let entry = entry(|node| node["metadata"]["labels"] = labels);
        check(&entry, IgnoredKind::Gpu, reason, help);
    };
    let nvidia = |rest: &str| format!("akash.network/capabilities.gpu.vendor.nvidia.model.{rest}");
    gpu(
        labels(&[]),
        "node `n1`: 2 nvidia GPUs of unknown model",
        &format!("`kubectl label node n1 {}`", nvidia("MODEL=COUNT")),
    );
    gpu(
        labels(&[("feature.node.kubernetes.io/pci-0302_10de.present", "true")]),
        "pci-0302_10de.present has no device ID",
        "set `deviceLabelFields: [class, vendor, device]` of the source `pci` of Node Feature Discovery and run the \
         inventory operator",
    );
    gpu(
        labels(&[("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB")]),
        "known only by label nvidia.com/gpu.product",
        &format!("`kubectl label node n1 {}`", nvidia("a100=COUNT")),
    );
    gpu(
        labels(&[(A100, "1")]),
        "1 of 2 nvidia GPUs have no model label",
        "nvidia.model.MODEL=COUNT",
    );
    let attributes = [
        "a100.ram.80Gi",
        "a100.ram.40Gi",
        "a100.interface.sxm",
        "a100.interface.pcie",
    ]
    .map(nvidia);
    let mut pairs: Vec<_> = attributes.iter().map(|label| (label.as_str(), "1")).collect();
    pairs.push((A100, "2"));
    gpu(
        labels(&pairs),
        "nvidia GPUs `a100`: no label combines memory size and interface",
        &nvidia("a100.ram.SIZE.interface.INTERFACE=COUNT"),
    );
    let kinds: Vec<_> = (0..=vendor::KINDS)
        .map(|kind| nvidia(&format!("m{kind}")))
        .collect();
    let pairs: Vec<_> = kinds.iter().map(|label| (label.as_str(), "1")).collect();
    gpu(
        labels(&pairs),
        "more than 8 kinds of nvidia GPUs",
        "of at most 8 kinds on node n1",
    );
    let unhealthy = entry(|node| node["status"]["allocatable"]["nvidia.com/gpu"] = json!("1"));
    check(
        &unhealthy,
        IgnoredKind::Gpu,
        "1 of 2 nvidia GPUs are unhealthy",
        "drivers on node n1",
    );
    let invalid = of_node(|node| node["metadata"]["labels"][A100] = json!("many"));
    let help = format!("`kubectl label --overwrite node n1 {A100}=COUNT`");
    check(
        &invalid[0],
        IgnoredKind::Gpu,
        "invalid number of devices `many`",
        &help,
    );
}

/// Returns the ignored resource for a storage class `fast` of unknown size.
fn of_class(class: Value, clusters: &[CephClusterFacts]) -> IgnoredResource {
    let facts = ClassFacts::from_object(&serde_json::from_value(class).unwrap());
    let classes = BTreeMap::from([("fast".into(), facts)]);
    let (_, notes) = pools(StorageInputs {
        classes: &classes,
        volumes: &mut std::iter::empty(),
        capacities: &mut std::iter::empty(),
        clusters,
        pools: &[],
        ours: &|_| false,
        disks: &|_| (0, 0),
        options: &StorageOptions::default(),
    });
    assert_eq!(notes.len(), 1);
    notes[0].resource()
}

#[test]
fn each_problem_of_a_storage_class_has_its_remedy() {
    let class = |provisioner: &str, labels: Value| {
        json!({
            "metadata": {"name": "fast", "labels": labels},
            "provisioner": provisioner, "parameters": {"clusterID": "rook", "pool": "p"},
        })
    };
    let labelled = |provisioner: &str| class(provisioner, json!({"akash.network": "true"}));
    let storage = |entry: &IgnoredResource, reason: &str, help: &str| {
        check(entry, IgnoredKind::StorageClass, reason, help);
    };
    storage(
        &of_class(class("nfs", json!({})), &[]),
        "storage class `fast`: missing label akash.network=true",
        "`kubectl label storageclass fast akash.network=true`",
    );
    storage(
        &of_class(labelled("nfs"), &[]),
        "`fast` of nfs: unknown size",
        "--storage-class fast=SIZE",
    );
    let ceph = "rook.rbd.csi.ceph.com";
    storage(
        &of_class(labelled(ceph), &[]),
        "`fast` of rook.rbd.csi.ceph.com: no CephCluster in namespace `rook`",
        "parameter clusterID",
    );
    let cluster = json!({
        "apiVersion": "ceph.rook.io/v1", "kind": "CephCluster", "metadata": {"name": "disks", "namespace": "rook"},
    });
    let cluster = CephClusterFacts::from_object(&serde_json::from_value(cluster).unwrap());
    storage(
        &of_class(labelled(ceph), &[cluster]),
        "CephCluster `disks` reports no size",
        "`kubectl --namespace rook describe cephcluster disks`",
    );
    storage(
        &IgnoredClass::new("beta3", ClassProblem::Unmounted).resource(),
        "storage class `beta3`: no node has the label akash.network/capabilities.storage.class.beta3",
        "`kubectl label node NODE akash.network/capabilities.storage.class.beta3=1`",
    );
}

#[test]
fn records_and_kinds_have_remedies() {
    let kind = unreadable_kind(InventoryKind::Class, "forbidden");
    check(
        &kind,
        IgnoredKind::ObjectKind,
        "storageclasses cannot be read: forbidden",
        "deploy/rbac",
    );
    check(
        &omitted(7),
        IgnoredKind::Other,
        "and 7 more",
        "run the command again",
    );
    let provider = "akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0";
    let record = json!({
        "apiVersion": "akash.network/v2beta2", "kind": "Manifest", "metadata": {"name": "bad"},
        "spec": {"lease_id": {"provider": provider}},
    });
    let settings = KubeSettings::new(provider.parse().unwrap());
    let reason = LeaseFacts::from_object(&serde_json::from_value(record).unwrap(), &settings).unwrap_err();
    let record = invalid_record("bad", &reason);
    check(
        &record,
        IgnoredKind::Record,
        "Manifest `bad`: invalid spec",
        "metadata.name=bad",
    );
}
