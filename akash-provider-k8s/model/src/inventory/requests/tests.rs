use super::*;
use serde_json::{Value, json};

fn requests(spec: &Value, status: &Value) -> Requests {
    pod_requests(&serde_json::from_value(json!({"spec": spec, "status": status})).unwrap())
}

fn container(name: &str, cpu: &str, memory: &str) -> Value {
    json!({"name": name, "resources": {"requests": {"cpu": cpu, "memory": memory}}})
}

fn sidecar(name: &str, cpu: &str, memory: &str) -> Value {
    let mut container = container(name, cpu, memory);
    container["restartPolicy"] = json!("Always");
    container
}

fn counted(spec: &Value) -> (i64, i64) {
    let requests = requests(spec, &json!({}));
    (requests.cpu, requests.memory)
}

#[test]
fn containers_are_summed_without_rounding_each() {
    let spec =
        json!({"containers": [container("a", "100m", "1Mi"), container("b", "1", "1Ki"), {"name": "c"}]});
    assert_eq!(counted(&spec), (1_100, (1 << 20) + (1 << 10)));
}

#[test]
fn start_of_a_pod_counts_if_it_requests_more() {
    let start = |init: Value| {
        let spec = json!({"containers": [container("a", "200m", "200")], "initContainers": init});
        counted(&spec)
    };
    assert_eq!(start(json!([container("i", "100m", "100")])), (200, 200));
    assert_eq!(
        start(json!([container("i", "300m", "100")])),
        (300, 200),
        "each resource separately"
    );
    let two = json!([container("i", "300m", "100"), container("j", "100m", "900")]);
    assert_eq!(start(two), (300, 900), "sequential, never summed");
}

#[test]
fn sidecar_counts_with_later_containers() {
    let spec = |init: Value| json!({"containers": [container("a", "200m", "0")], "initContainers": init});
    let count = |init: Value| counted(&spec(init)).0;
    assert_eq!(
        count(json!([sidecar("s", "100m", "0")])),
        300,
        "with the containers"
    );
    let before = json!([sidecar("s", "100m", "0"), container("i", "500m", "0")]);
    assert_eq!(count(before), 600, "with a later init container");
    let after = json!([container("i", "500m", "0"), sidecar("s", "100m", "0")]);
    assert_eq!(count(after), 500, "not with a finished init container");
    let both = json!([
        sidecar("s", "100m", "0"),
        sidecar("t", "300m", "0"),
        container("i", "50m", "0")
    ]);
    assert_eq!(count(both), 600);
}

#[test]
fn overhead_of_a_runtime_class_is_added() {
    let spec = json!({
        "containers": [container("a", "200m", "100")],
        "initContainers": [container("i", "500m", "50")],
        "overhead": {"cpu": "250m", "memory": "120"},
    });
    assert_eq!(counted(&spec), (750, 220));
}

#[test]
fn pod_level_requests_replace_container_requests() {
    let spec = json!({
        "containers": [container("a", "200m", "100")],
        "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "7Gi"}},
        "overhead": {"cpu": "100m"},
    });
    assert_eq!(
        counted(&spec),
        (1_100, 100),
        "only named resources, with overhead"
    );
    let less = json!({"containers": [container("a", "2", "0")], "resources": {"requests": {"cpu": "1"}}});
    assert_eq!(counted(&less).0, 1_000, "also if lower");
}

#[test]
fn memory_backed_volume_counts_once_per_pod() {
    let mount = json!([{"name": "shm", "mountPath": "/dev/shm"}]);
    let spec = json!({
        "containers": [
            {"name": "a", "volumeMounts": mount.clone()},
            {"name": "b", "volumeMounts": mount},
        ],
        "volumes": [
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
            {"name": "open", "emptyDir": {"medium": "Memory"}},
            {"name": "disk", "emptyDir": {"sizeLimit": "5Gi"}},
        ],
    });
    assert_eq!(counted(&spec), (0, 1 << 30));
}

#[test]
fn gpus_and_local_storage_are_counted() {
    let requests = requests(
        &json!({"containers": [
            {"name": "a", "resources": {"requests": {"nvidia.com/gpu": "2", "ephemeral-storage": "1Ki"}}},
            {"name": "b", "resources": {"requests": {"amd.com/gpu": "1", "ephemeral-storage": "1Ki"}}},
        ]}),
        &json!({}),
    );
    assert_eq!(requests.gpus, [2, 1]);
    assert_eq!(requests.ephemeral, 2048);
}

#[test]
fn resized_pod_counts_the_larger_of_old_and_new() {
    let spec = json!({"containers": [container("a", "2", "100")]});
    let status = |conditions: Value| {
        json!({
            "conditions": conditions,
            "containerStatuses": [{
                "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "resources": {"requests": {"cpu": "1", "memory": "300"}},
                "allocatedResources": {"cpu": "1500m", "memory": "300"},
            }],
        })
    };
    let count = |conditions: Value| requests(&spec, &status(conditions));
    assert_eq!((count(json!([])).cpu, count(json!([])).memory), (2_000, 300));
    let pending = |reason: &str| json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
    assert_eq!(count(pending("Deferred")).cpu, 2_000);
    assert_eq!(
        count(pending("Infeasible")).cpu,
        1_500,
        "an infeasible resize is not counted"
    );
}

#[test]
fn a_pod_without_anything_takes_nothing() {
    assert_eq!(counted(&json!({"containers": []})), (0, 0));
    assert_eq!(pod_requests(&Pod::default()), Requests::default());
}
