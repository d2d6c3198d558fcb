//! Tests of the HTTP and gRPC ports, with a cluster that never responds and with one that returns fixed
//! lists.

use super::*;
use crate::operators::process::{Process, router};
use akash_provider_k8s::write_client::WriteClient;
use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use serde_json::json;
use tower::ServiceExt;

type Asked = Request<kube::client::Body>;
type Answered = Result<Response<kube::client::Body>, std::io::Error>;

/// Returns a client that never gets a response.
pub(super) fn silent() -> Client {
    let silent = tower::service_fn(|_: Asked| std::future::pending::<Answered>());
    Client::new(silent, "default")
}

/// Returns a client for a cluster with only these nodes, and without watch events.
pub(super) fn of_nodes(nodes: Vec<Value>) -> Client {
    of_objects(nodes, Vec::new())
}

pub(super) fn of_objects(nodes: Vec<Value>, pods: Vec<Value>) -> Client {
    let served = tower::service_fn(move |asked: Asked| {
        let (path, query) = (
            asked.uri().path().to_owned(),
            asked.uri().query().unwrap_or_default().to_owned(),
        );
        let items = if path.ends_with("/nodes") {
            nodes.clone()
        } else if path.ends_with("/pods") {
            pods.clone()
        } else {
            Vec::new()
        };
        async move {
            if query.contains("watch=") {
                std::future::pending::<()>().await;
            }
            if asked.method() != http::Method::GET || path.contains("ceph.rook.io") {
                let none = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "no"});
                let answer = Response::builder()
                    .status(404)
                    .body(none.to_string().into_bytes().into());
                return Ok(answer.unwrap());
            }
            let list = json!({"metadata": {"resourceVersion": "1"}, "items": items});
            Answered::Ok(Response::new(list.to_string().into_bytes().into()))
        }
    });
    Client::new(served, "default")
}

pub(super) fn recorded_node() -> Value {
    let gpu = "akash.network/capabilities.gpu.vendor.nvidia.model.a100";
    json!({
        "metadata": {"name": "node1", "uid": "u1", "resourceVersion": "1", "labels": {
            "akash.network": "true", gpu: "2", format!("{gpu}.ram.80Gi"): "2", format!("{gpu}.interface.pcie"): "2",
            "nvidia.com/gpu.present": "true", "feature.node.kubernetes.io/cpu-model.vendor_id": "AMD",
        }},
        "status": {
            "capacity": {"cpu": "2", "memory": "25276510208", "ephemeral-storage": "270553174016", "nvidia.com/gpu": "2"},
            "allocatable": {"cpu": "2", "memory": "25171652608", "ephemeral-storage": "243497856212", "nvidia.com/gpu": "2"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

pub(super) fn process(client: &Client, rules: Rules) -> Arc<InventoryProcess> {
    let mut options = InventoryOperatorOptions::default();
    options.rules = rules;
    Arc::new(InventoryProcess {
        operator: InventoryOperator::start(&WriteClient::without_election(client.clone()), options),
        list: Arc::new(List::new(
            list::GpuListSource::Nowhere,
            None,
            Duration::from_secs(1),
        )),
        rules: Mutex::default(),
        source: None,
        grpc: Mutex::new(None),
        patience: Duration::from_millis(300),
    })
}

pub(super) async fn ask(router: &Router, path: &str) -> (u16, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let answer = router.clone().oneshot(request).await.unwrap();
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

pub(super) async fn counted(process: &InventoryProcess) -> Arc<ClusterReport> {
    let mut reports = process.operator.reports();
    let report = timeout(Duration::from_secs(60), reports.wait_for(Option::is_some));
    report.await.unwrap().unwrap().clone().unwrap()
}

#[tokio::test]
async fn inventory_operator_serves_and_is_not_ready_without_its_cluster() {
    let process = process(&silent(), Rules::default());
    let router = router(&Arc::new(Process::<InventoryProcess>::new(
        Arc::clone(&process),
        None,
    )));
    for (path, text) in [("/health", "OK"), ("/metrics/health", ""), ("/metrics/ready", "")] {
        assert_eq!(ask(&router, path).await, (200, text.to_owned()), "{path}");
    }
    let (code, words) = ask(&router, "/readyz").await;
    assert_eq!(code, 503);
    assert!(
        words.contains("initial list of nodes pending")
            && words.contains("first count of the cluster pending"),
        "{words}"
    );
    let begun = std::time::Instant::now();
    assert_eq!(ask(&router, "/v1/inventory").await, (500, String::new()));
    assert!(
        begun.elapsed() >= process.patience,
        "the request waits for the count"
    );
    let (code, status) = ask(&router, "/status").await;
    assert!(code == 200 && status.contains("\"is_ready\":false"), "{status}");
    assert!(ask(&router, "/version").await.1.contains("provider-services"));
}

#[tokio::test(start_paused = true)]
async fn cluster_is_served_in_the_format_of_the_go_operator() {
    let process = process(&of_nodes(vec![recorded_node()]), Rules::default());
    counted(&process).await;
    let router = router(&Arc::new(Process::<InventoryProcess>::new(
        Arc::clone(&process),
        None,
    )));
    let (code, text) = ask(&router, "/v1/inventory").await;
    assert_eq!(code, 200);
    assert!(
        text.starts_with(r#"{"nodes":[{"#) && !text.contains('\n'),
        "{text}"
    );
    let (_, pretty) = ask(&router, "/v1/inventory?pretty").await;
    assert!(pretty.starts_with("{\n  \"nodes\": ["), "{pretty}");
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value, serde_json::from_str::<Value>(&pretty).unwrap());
    assert_eq!(value["nodes"][0]["resources"]["memory"]["info"], Value::Null);
    assert_eq!(ask(&router, "/readyz").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn changed_rules_apply_and_invalid_rules_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    std::fs::write(&path, "version: v1").unwrap();
    let source = config::RulesSource::File(path.clone());
    let (mut text, rules) = first_rules("--config", Some(&source)).unwrap();
    let process = process(&of_nodes(vec![recorded_node()]), rules);
    assert_eq!(counted(&process).await.metrics().nodes.len(), 1);
    let mut look = |content: Option<&str>| {
        match content {
            Some(content) => std::fs::write(&path, content).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        look_at_rules(&process, &source, &mut text);
        let report = process.operator.reports().borrow().clone().unwrap();
        (report.metrics().nodes.len(), process.page().rules.error)
    };
    assert_eq!(look(Some("version: v1\nexclude: {nodes: [node1]}")), (0, None));
    let (nodes, error) = look(Some("version: v1\nexclude: {node: [x]}"));
    assert!(
        nodes == 0 && error.as_ref().is_some_and(|why| why.contains("line 2")),
        "{error:?}"
    );
    let (nodes, error) = look(None);
    assert!(
        nodes == 0 && error.is_some(),
        "a deleted file is not an empty file"
    );
    assert_eq!(
        look(Some("version: v1\nexclude: {nodes: [node1]}")),
        (0, None),
        "the error is cleared"
    );
    assert_eq!(look(Some("version: v1")), (1, None));
    assert!(
        first_rules(
            "--config",
            Some(&config::RulesSource::Inline("--config", "version: x".to_owned()))
        )
        .is_err(),
        "invalid rules fail the start"
    );
}
