use super::super::health::health as health_on;
use super::super::samples::{deployment, lease, manifest, of};
use super::*;
use serde_json::{Value, json};
use std::sync::Arc;

/// Returns a lease with these pods, and with one service that lacks its only replica.
fn view(pods: &[Value]) -> LeaseView {
    let lease = lease(1);
    let mut view = LeaseView {
        manifest: Some(Arc::new(manifest(&lease, &[("web", 1)]))),
        ..LeaseView::default()
    };
    let object = deployment(&lease, "web", (1, 1, 1, 0));
    view.deployments.insert("web".to_owned(), Arc::new(object));
    for (number, pod) in pods.iter().enumerate() {
        let mut pod: Pod = of(pod.clone());
        super::super::trim::pod(&mut pod);
        view.pods.insert(number.to_string(), Arc::new(pod));
    }
    view
}

fn health(view: &LeaseView) -> Health {
    health_on(view, &Nodes::from([("n1".to_owned(), true)]))
}

/// Returns a pod with one container in the state `state`. `change` edits the pod.
fn pod(state: Value, change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = json!({
        "metadata": {"name": "web-0", "labels": {"akash.network/manifest-service": "web"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "web"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}],
            "containerStatuses": [{
                "name": "web", "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": state,
            }],
        },
    });
    change(&mut pod);
    pod
}

fn plain(state: Value) -> Value {
    pod(state, |_| {})
}

fn waiting(reason: &str, message: &str) -> Value {
    plain(json!({"waiting": {"reason": reason, "message": message}}))
}

fn crashing(change: impl FnOnce(&mut Value)) -> Value {
    pod(json!({"waiting": {"reason": "CrashLoopBackOff"}}), change)
}

fn condition(type_: &'static str, status: &'static str) -> impl FnOnce(&mut Value) {
    move |pod| {
        let all = pod["status"]["conditions"].as_array_mut().unwrap();
        all.retain(|c| c["type"] != type_);
        all.push(json!({"type": type_, "status": status, "reason": "R", "message": "m"}));
    }
}

/// Returns a pod that was ready at the last heartbeat of its kubelet.
fn silent() -> Value {
    pod(json!({"running": {}}), |pod| {
        pod["status"]["containerStatuses"][0]["ready"] = json!(true);
    })
}

fn unscheduled() -> Value {
    pod(Value::Null, |pod| {
        pod["status"] = json!({
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
        });
    })
}

fn ended(reason: &str, code: i32) -> Value {
    plain(json!({"terminated": {"reason": reason, "exitCode": code}}))
}

#[test]
fn only_failing_containers_of_the_tenant_count() {
    let missing_tag = "rpc error: code = NotFound desc = docker.io/library/nginx:nope: not found";
    let private = "pull access denied, repository does not exist or may require authorization";
    for (what, pod) in [
        ("crash loop", crashing(|_| {})),
        ("exit with an error", ended("Error", 1)),
        ("out of its own memory", ended("OOMKilled", 137)),
        ("start fails", waiting("RunContainerError", "exec: no such file")),
        ("invalid image", waiting("InvalidImageName", "")),
        ("no such tag", waiting("ErrImagePull", missing_tag)),
        ("no such tag, later", waiting("ImagePullBackOff", missing_tag)),
        ("not permitted", waiting("ErrImagePull", private)),
    ] {
        assert_eq!(health(&view(&[pod])), Health::Bad, "{what}");
    }
}

#[test]
fn outages_around_the_containers_do_not_count() {
    let no_network = "dial tcp: lookup registry-1.docker.io: no such host";
    for (what, pod, outage) in [
        (
            "registry away",
            waiting("ErrImagePull", no_network),
            Outage::ImagePull,
        ),
        (
            "unexplained pull",
            waiting("ImagePullBackOff", "Back-off"),
            Outage::ImagePull,
        ),
        (
            "volume not attached",
            waiting("ContainerCreating", ""),
            Outage::Starting,
        ),
        (
            "secret missing",
            waiting("CreateContainerConfigError", ""),
            Outage::Starting,
        ),
        (
            "runs, not ready",
            plain(json!({"running": {}})),
            Outage::Unexplained,
        ),
        ("node silent", silent(), Outage::NodeAway),
        (
            "node restarted",
            ended("ContainerStatusUnknown", 137),
            Outage::NodeAway,
        ),
        (
            "node lost",
            crashing(|p| p["status"]["phase"] = json!("Unknown")),
            Outage::NodeAway,
        ),
        (
            "evicted",
            crashing(condition("DisruptionTarget", "True")),
            Outage::Evicted,
        ),
        (
            "evicted, not deleted",
            crashing(|p| p["status"]["phase"] = json!("Failed")),
            Outage::Evicted,
        ),
        (
            "drained",
            crashing(|p| p["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")),
            Outage::Evicted,
        ),
        ("cordoned or full", unscheduled(), Outage::Unschedulable),
    ] {
        assert_eq!(health(&view(&[pod])), Health::Out(outage), "{what}");
    }
}

#[test]
fn a_failing_container_counts_only_while_the_kubelet_of_its_node_reports() {
    let failing = view(&[crashing(|_| {})]);
    for (nodes, wanted) in [
        (vec![("n1", true)], Health::Bad),
        (vec![("n1", false)], Health::Out(Outage::NodeAway)),
        (vec![("n2", true)], Health::Unknown),
        (vec![], Health::Unknown),
    ] {
        let nodes = nodes
            .into_iter()
            .map(|(name, reports)| (name.to_owned(), reports));
        assert_eq!(health_on(&failing, &nodes.collect()), wanted);
    }
    assert_eq!(failing_nodes(&failing).collect::<Vec<_>>(), ["n1"]);
    // A failing container on another node counts in addition.
    let both = view(&[
        crashing(|_| {}),
        crashing(|pod| pod["spec"]["nodeName"] = json!("n2")),
    ]);
    let nodes = Nodes::from([("n1".to_owned(), false), ("n2".to_owned(), true)]);
    assert_eq!(health_on(&both, &nodes), Health::Bad);
    assert_eq!(
        failing_nodes(&view(&[silent(), unscheduled()])).count(),
        0,
        "no node is read for these"
    );
}

#[test]
fn an_interrupted_workload_is_explained_without_pods() {
    let none = view(&[]);
    assert_eq!(health(&none), Health::Out(Outage::Unexplained));
    let mut missing = view(&[]);
    missing.deployments.clear();
    assert_eq!(health(&missing), Health::Out(Outage::Missing));
    let lease = lease(1);
    let mut scaled = view(&[]);
    let to_zero = deployment(&lease, "web", (2, 2, 0, 0));
    scaled.deployments.insert("web".to_owned(), Arc::new(to_zero));
    assert_eq!(health(&scaled), Health::Out(Outage::ScaledDown));
    let mut refused = view(&[]);
    let mut object = deployment(&lease, "web", (1, 1, 1, 0));
    let condition = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"});
    object.status.as_mut().unwrap().conditions = Some(vec![serde_json::from_value(condition).unwrap()]);
    refused.deployments.insert("web".to_owned(), Arc::new(object));
    assert_eq!(health(&refused), Health::Out(Outage::Refused));
}

#[test]
fn one_failing_container_of_the_tenant_counts_beside_an_outage() {
    let both = view(&[unscheduled(), crashing(|_| {})]);
    assert_eq!(health(&both), Health::Bad);
    let outages = view(&[unscheduled(), silent()]);
    assert_eq!(
        health(&outages),
        Health::Out(Outage::NodeAway),
        "the most specific"
    );
}
