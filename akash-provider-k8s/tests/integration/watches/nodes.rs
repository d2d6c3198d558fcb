//! Failing containers on nodes with and without heartbeats.

use super::objects::{lease, manifest, namespace, pod};
use super::server::{Reply, Request, Server};
use super::{UNEXPLAINED, deployment, started, until, watch_config};
use akash_provider_core::cluster::{Health, Outage};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns a replica on a node. Its container crashes, or runs without being ready.
fn replica(crashes: bool) -> Value {
    let mut pod = pod(1, "web-0", "1");
    pod["spec"]["nodeName"] = json!("n1");
    pod["status"]["conditions"][0]["status"] = json!("False");
    pod["status"]["containerStatuses"][0]["ready"] = json!(false);
    if crashes {
        pod["status"]["containerStatuses"][0]["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    }
    pod
}

fn node(ready: &str) -> Reply {
    let conditions = json!([{"type": "Ready", "status": ready}]);
    Reply::Json(
        200,
        Vec::new(),
        json!({"metadata": {"name": "n1"}, "status": {"conditions": conditions}}),
    )
}

fn heartbeat(renewed: Timestamp) -> Reply {
    let renewed = renewed.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let spec = json!({"leaseDurationSeconds": 4, "renewTime": renewed});
    Reply::Json(200, Vec::new(), json!({"metadata": {"name": "n1"}, "spec": spec}))
}

async fn serve(crashes: bool, of_node: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) -> Server {
    Server::start(move |request, _| match request.resource.as_str() {
        _ if request.is_watch() => None,
        "namespaces" => Some(Reply::list("10", vec![namespace(1, "1")])),
        "manifests" => Some(Reply::list("10", vec![manifest(1, 1)])),
        "deployments" => Some(Reply::list("10", vec![deployment(1, 0, "1")])),
        "pods" => Some(Reply::list("10", vec![replica(crashes)])),
        "n1" => of_node(request),
        _ => None,
    })
    .await
}

#[tokio::test]
async fn failing_container_counts_until_node_stops_reporting() {
    const CASES: [Health; 5] = [
        Health::Bad,
        Health::Out(Outage::NodeAway),
        Health::Bad,
        Health::Unknown,
        Health::Out(Outage::NodeAway),
    ];
    let case = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&case);
    let old = Timestamp::now();
    let server = serve(true, move |request| {
        let is_node = request.path.ends_with("/nodes/n1");
        match now.load(Ordering::Relaxed) {
            3 => Some(Reply::status(500, "InternalError")),
            4 if is_node => Some(node("Unknown")),
            _ if is_node => Some(node("True")),
            1 => Some(heartbeat(old)),
            _ => Some(heartbeat(Timestamp::now())),
        }
    })
    .await;
    let state = started(&server, watch_config());
    for (number, wanted) in CASES.into_iter().enumerate() {
        case.store(number, Ordering::Relaxed);
        until(&format!("case {number}: {wanted}"), || {
            state.health(&lease(1)) == wanted
        })
        .await;
    }
}

#[tokio::test]
async fn readiness_decides_without_heartbeats_and_nodes_without_failures_are_not_read() {
    for (code, reason) in [(404, "NotFound"), (403, "Forbidden")] {
        let server = serve(true, move |request| {
            let is_node = request.path.ends_with("/nodes/n1");
            Some(if is_node {
                node("True")
            } else {
                Reply::status(code, reason)
            })
        })
        .await;
        let state = started(&server, watch_config());
        until(reason, || state.health(&lease(1)) == Health::Bad).await;
    }
    let server = serve(false, |_| None).await;
    let state = started(&server, watch_config());
    until("no failure", || state.health(&lease(1)) == UNEXPLAINED).await;
    assert!(server.calls("n1", false).is_empty());
}
