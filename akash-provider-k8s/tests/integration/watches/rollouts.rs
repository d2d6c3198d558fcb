//! Updates that wait because a pod of an older revision does not become ready.

use super::{ms, one_lease, until};
use crate::watches::objects::{lease, pod, settings};
use crate::watches::server::{Reply, Request, Server};
use akash_provider_k8s::cluster::{KubeCluster, LeadershipGate};
use akash_provider_k8s::labels;
use akash_provider_k8s::write_client::WriteClient;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

fn set(generation: i64, observed: i64, revision: &str) -> Value {
    let home = lease(1).namespace();
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {
            "name": "web", "namespace": home, "uid": "set", "generation": generation, "resourceVersion": "3",
            "labels": labels::service_selector(&home, "web"), "annotations": {labels::APPLIED_HASH: "x"},
        },
        "spec": {"replicas": 1, "selector": {}, "template": {}, "serviceName": ""},
        "status": {"replicas": 1, "observedGeneration": observed, "updateRevision": revision},
    })
}

fn stuck() -> Value {
    let mut pod = pod(1, "web-0", "7");
    pod["metadata"]["labels"]["controller-revision-hash"] = json!("old");
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "set"}]);
    pod["status"] = json!({"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]});
    pod
}

/// Starts a server with a StatefulSet that waits for an old pod. Direct reads return `live`. While `broken`
/// is set, deletes of the pod fail.
async fn server(live: Value, broken: &Arc<AtomicBool>) -> Server {
    let broken = Arc::clone(broken);
    Server::start(
        move |request: &Request, _| match (request.method.as_str(), request.resource.as_str()) {
            ("DELETE", "web-0") if broken.load(Ordering::Relaxed) => {
                Some(Reply::status(500, "InternalError"))
            }
            ("DELETE", "web-0") => Some(Reply::Json(200, Vec::new(), stuck())),
            ("GET", "web") => Some(Reply::Json(200, Vec::new(), live.clone())),
            ("GET", "pods") if !request.is_watch() => Some(Reply::list("10", vec![stuck()])),
            ("GET", "statefulsets") if !request.is_watch() => Some(Reply::list("10", vec![set(2, 2, "new")])),
            _ => one_lease(request),
        },
    )
    .await
}

fn follow(server: &Server, leading: &LeadershipGate) -> AbortOnDropHandle<()> {
    let cluster = KubeCluster::connect(WriteClient::without_election(server.client()), settings()).unwrap();
    let leading = leading.clone();
    AbortOnDropHandle::new(tokio::spawn(
        async move { cluster.follow_rollouts(&leading).await },
    ))
}

fn deletes(server: &Server) -> Vec<Request> {
    let mut calls = server.calls("web-0", false);
    calls.retain(|call| call.method == "DELETE");
    calls
}

#[tokio::test]
async fn only_the_observed_pod_is_deleted() {
    let server = server(set(2, 2, "new"), &Arc::default()).await;
    let _following = follow(&server, &LeadershipGate::new(true));
    until("the pod is deleted", || !deletes(&server).is_empty()).await;
    let body: Value = serde_json::from_str(&deletes(&server)[0].body).unwrap();
    let pod = stuck();
    assert_eq!(body["preconditions"]["uid"], pod["metadata"]["uid"]);
    assert_eq!(body["preconditions"]["resourceVersion"], "7");
    assert_eq!(
        body.get("gracePeriodSeconds"),
        None,
        "the grace period is unchanged"
    );
}

#[tokio::test]
async fn pod_is_not_deleted_if_cached_set_is_outdated() {
    for (why, live) in [
        ("the controller has not seen the newest one yet", set(3, 2, "new")),
        ("the pod is of the newest revision", set(3, 3, "old")),
    ] {
        let server = server(live, &Arc::default()).await;
        let _following = follow(&server, &LeadershipGate::new(true));
        until("the set is read", || !server.calls("web", false).is_empty()).await;
        sleep(ms(200)).await;
        assert!(deletes(&server).is_empty(), "{why}");
    }
}

#[tokio::test]
async fn standby_deletes_no_pod_until_it_leads() {
    let server = server(set(2, 2, "new"), &Arc::default()).await;
    let leading = LeadershipGate::new(false);
    let _following = follow(&server, &leading);
    until("everything is listed", || !server.calls("pods", true).is_empty()).await;
    sleep(ms(300)).await;
    assert!(deletes(&server).is_empty());
    leading.set(true);
    until("the pod is deleted", || !deletes(&server).is_empty()).await;
}

/// Without further events, only the back-off starts another attempt.
#[tokio::test]
async fn failed_delete_is_retried_after_back_off() {
    let broken = Arc::new(AtomicBool::new(true));
    let server = server(set(2, 2, "new"), &broken).await;
    let _following = follow(&server, &LeadershipGate::new(true));
    until("a delete is attempted", || !deletes(&server).is_empty()).await;
    until("everything is watched", || server.count() >= 20).await;
    sleep(ms(500)).await;
    let tried = deletes(&server).len();
    assert_eq!(tried, 1, "other events do not shorten the back-off");
    broken.store(false, Ordering::Relaxed);
    let again = async {
        while deletes(&server).len() == tried {
            sleep(ms(50)).await;
        }
    };
    assert!(timeout(ms(20_000), again).await.is_ok(), "no second attempt");
}
