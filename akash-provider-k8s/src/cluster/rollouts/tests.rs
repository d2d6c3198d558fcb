use super::*;
use serde_json::{Value, json};
use std::sync::Arc;

fn set(generation: i64, observed: i64, revision: &str) -> StatefulSet {
    let set = json!({
        "metadata": {
            "name": "db", "namespace": "ns", "uid": "set", "generation": generation,
            "annotations": {labels::APPLIED_HASH: "x"},
        },
        "status": {"replicas": 1, "observedGeneration": observed, "updateRevision": revision},
    });
    serde_json::from_value(set).unwrap()
}

fn pod(revision: &str, ready: &str) -> Value {
    json!({
        "metadata": {
            "name": "db-0", "namespace": "ns", "uid": "p", "resourceVersion": "7",
            "labels": {REVISION: revision},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "set"}],
        },
        "status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": ready}]},
    })
}

fn view(set: StatefulSet, pod: Value) -> LeaseView {
    let namespace = json!({"metadata": {"name": "ns"}});
    LeaseView {
        namespace: Some(Arc::new(serde_json::from_value(namespace).unwrap())),
        stateful_sets: [("db".to_owned(), Arc::new(set))].into(),
        pods: [("db-0".to_owned(), Arc::new(serde_json::from_value(pod).unwrap()))].into(),
        ..LeaseView::default()
    }
}

fn names(view: &LeaseView) -> Vec<String> {
    let pods = stuck_services(view).into_iter().flat_map(|(_, pods)| pods);
    pods.filter_map(|pod| pod.metadata.name).collect()
}

#[test]
fn an_unready_pod_of_an_old_revision_blocks_the_update() {
    assert_eq!(names(&view(set(2, 2, "new"), pod("old", "False"))), ["db-0"]);
    let mut silent = pod("old", "False");
    silent["status"] = json!({"phase": "Pending"});
    assert_eq!(
        names(&view(set(2, 2, "new"), silent)),
        ["db-0"],
        "a pod without a condition is not ready"
    );
}

#[test]
fn other_pods_do_not_block_the_update() {
    let mut theirs = set(2, 2, "new");
    theirs.metadata.annotations = None;
    let mut foreign = pod("old", "False");
    foreign["metadata"]["ownerReferences"][0]["uid"] = json!("another");
    let mut going = pod("old", "False");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut unmarked = pod("old", "False");
    unmarked["metadata"]["labels"] = json!({});
    let mut ended = set(2, 2, "new");
    ended.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    for (why, set, pod) in [
        (
            "a ready pod waits for its replacement",
            set(2, 2, "new"),
            pod("old", "True"),
        ),
        (
            "the pod has the new revision",
            set(2, 2, "new"),
            pod("new", "False"),
        ),
        (
            "the controller has not observed the update",
            set(3, 2, "new"),
            pod("old", "False"),
        ),
        (
            "the controller has reported no status",
            set(1, 1, ""),
            pod("old", "False"),
        ),
        ("another provider created the set", theirs, pod("old", "False")),
        ("the pod belongs to another set", set(2, 2, "new"), foreign),
        ("the pod is being deleted", set(2, 2, "new"), going),
        ("the pod has no revision label", set(2, 2, "new"), unmarked),
        ("the set is being deleted", ended, pod("old", "False")),
    ] {
        assert_eq!(names(&view(set, pod)), [""; 0], "{why}");
    }
    let mut last = view(set(2, 2, "new"), pod("old", "False"));
    let mut namespace = last.namespace.as_deref().unwrap().clone();
    namespace.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    last.namespace = Some(Arc::new(namespace));
    assert_eq!(names(&last), [""; 0], "the lease is being deleted");
}
