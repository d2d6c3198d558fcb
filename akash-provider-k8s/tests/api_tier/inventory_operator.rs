//! The inventory operator with only the rights of `deploy/operators/inventory.yaml`. Nodes have no namespace,
//! so each test has exclusive access to the cluster.

#[path = "inventory_operator/ceph.rs"]
mod ceph;
#[path = "inventory_operator/discovery.rs"]
mod discovery;
#[path = "inventory_operator/terms.rs"]
mod terms;

use crate::world::{World, put, run_alone};
use akash_provider_core::inventory::{InventorySource, Metrics};
use akash_provider_k8s::inventory::{CapacityOptions, KubeInventory};
use akash_provider_k8s::labels::Labels;
use akash_provider_k8s::write_client::WriteClient;
use akash_provider_operators::inventory::database::Database;
use akash_provider_operators::inventory::rules::{Pattern, Rules};
use akash_provider_operators::inventory::wanted::OfferState;
use akash_provider_operators::inventory::{InventoryOperator, InventoryOperatorOptions};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use testbed::Testbed;
use tokio_util::task::AbortOnDropHandle;

/// Prefix of the names of all cluster-wide objects.
const START: &str = "op-inv-";
const GPU: &str = "akash.network/capabilities.gpu.vendor.";
const CLASS: &str = "akash.network/capabilities.storage.class.";
/// Node without kubelet heartbeats.
const AWAY: &str = "op-inv-away";
const LIST: &str =
    r#"{"10de": {"devices": {"20b5": {"name": "a100", "interface": "PCIe", "memory_size": "80Gi"}}}}"#;

/// Creates the ServiceAccount of the operator with only the documented rights.
async fn account(world: &World, testbed: &Testbed) -> Client {
    let own = &world.settings.manifest_namespace;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/operators/inventory.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.replace("namespace: akash-services", &format!("namespace: {own}"));
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    for document in documents {
        put(&world.admin, &document, "api-tier").await;
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(world.admin.clone(), own);
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: Some(3_600),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let name = "akash-operator-inventory";
    let given = accounts
        .create_token_request(name, &PostParams::default(), &request)
        .await
        .unwrap();
    let kubeconfig = Kubeconfig::read_from(testbed.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    config.auth_info = kube::config::AuthInfo {
        token: Some(given.status.unwrap().token.into()),
        ..kube::config::AuthInfo::default()
    };
    Client::try_from(config).unwrap()
}

/// Deletes the cluster-wide objects of these tests, including objects that an interrupted test created.
async fn clear(world: &World) {
    let now = DeleteParams::default().grace_period(0);
    let all = ListParams::default();
    let nodes: Api<Node> = Api::all(world.admin.clone());
    for node in nodes.list(&all).await.unwrap() {
        let _ = nodes.delete(node.metadata.name.as_deref().unwrap(), &now).await;
    }
    // Pods of an interrupted test, bound to a node of the same name.
    let pods: Api<Pod> = Api::all(world.admin.clone());
    for pod in pods.list(&all).await.unwrap() {
        let on = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        if on.is_some_and(|node| node.starts_with(START)) {
            let space = pod.metadata.namespace.as_deref().unwrap();
            let pods: Api<Pod> = Api::namespaced(world.admin.clone(), space);
            let _ = pods.delete(pod.metadata.name.as_deref().unwrap(), &now).await;
        }
    }
    let classes: Api<StorageClass> = Api::all(world.admin.clone());
    for class in classes.list(&all).await.unwrap() {
        let name = class.metadata.name.unwrap();
        if name.starts_with(START) {
            let _ = classes.delete(&name, &now).await;
        }
    }
    let bindings: Api<ClusterRoleBinding> = Api::all(world.admin.clone());
    let _ = bindings.delete("provider-daemon-operator-inventory", &now).await;
    let roles: Api<ClusterRole> = Api::all(world.admin.clone());
    let _ = roles.delete("provider-daemon-operator-inventory", &now).await;
}

async fn node(world: &World, name: &str, labels: Value, capacity: Value) {
    let body = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
    put(&world.admin, &body, "api-tier").await;
    let status = json!({"capacity": capacity, "allocatable": capacity, "conditions": [ready()]});
    patch(world, name, true, json!({"status": status})).await;
}

fn ready() -> Value {
    let now = k8s_openapi::jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    json!({
        "type": "Ready", "status": "True", "reason": "Test", "message": "",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    })
}

/// Marks all nodes except one as ready every 3 s. Nodes without heartbeats count as lost.
fn kubelets(world: &World) -> AbortOnDropHandle<()> {
    let nodes: Api<Node> = Api::all(world.admin.clone());
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            let all = nodes.list_metadata(&ListParams::default()).await.unwrap();
            for node in all.items.into_iter().filter_map(|node| node.metadata.name) {
                let change = Patch::Merge(json!({"status": {"conditions": [ready()]}}));
                if node != AWAY {
                    let _ = nodes.patch_status(&node, &PatchParams::default(), &change).await;
                }
            }
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
    }))
}

async fn patch(world: &World, name: &str, is_status: bool, change: Value) {
    let nodes: Api<Node> = Api::all(world.admin.clone());
    let (params, change) = (PatchParams::default(), Patch::Merge(change));
    if is_status {
        nodes.patch_status(name, &params, &change).await.unwrap();
    } else {
        nodes.patch(name, &params, &change).await.unwrap();
    }
}

async fn labels(world: &World, name: &str) -> Labels {
    let nodes: Api<Node> = Api::all(world.admin.clone());
    nodes.get(name).await.unwrap().metadata.labels.unwrap_or_default()
}

async fn class(world: &World, name: &str, offered: &str) {
    let body = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "rancher.io/local-path",
        "metadata": {"name": name, "labels": {"akash.network": offered}},
    });
    put(&world.admin, &body, "api-tier").await;
}

/// Creates a pod in the manifest namespace, with the labels of a lease. The lease has no Manifest.
async fn pod(world: &World, name: &str, node: &str, cpu: &str) {
    let namespace = &world.settings.manifest_namespace;
    let accounts: Api<ServiceAccount> = Api::namespaced(world.admin.clone(), namespace);
    let there = || async { accounts.get_opt("default").await.unwrap().is_some() };
    world.until("the namespace has its account", there).await;
    let body = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {
            "akash.network": "true", "akash.network/namespace": namespace, "akash.network/manifest-service": "web",
        }},
        "spec": {"nodeName": node, "tolerations": [{"operator": "Exists"}], "containers": [
            {"name": "web", "image": "localhost/none:1", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}},
        ]},
    });
    put(&world.admin, &body, "api-tier").await;
}

fn rules() -> Rules {
    let mut rules = Rules::new(["op-inv-beta2", "op-inv-none"].map(str::to_owned)).unwrap();
    rules.exclude(Pattern::new("^op-inv-master").unwrap()).unwrap();
    let slow = Pattern::new("slow$").unwrap();
    rules.exclude_classes(slow, ["op-inv-beta2".to_owned()]).unwrap();
    rules
}

fn options() -> InventoryOperatorOptions {
    let mut options = InventoryOperatorOptions::default();
    options.rules = rules();
    options.retry_delay = Duration::from_millis(200);
    options
}

fn start(client: &Client) -> InventoryOperator {
    let operator = InventoryOperator::start(&WriteClient::without_election(client.clone()), options());
    operator.set_list(Database::read(LIST.as_bytes()).unwrap());
    operator
}

/// Waits until every node has the labels that the operator sets.
async fn settled(world: &World, operator: &InventoryOperator, nodes: usize) {
    let are_written = || async {
        let now = operator.status();
        now.is_ready && now.nodes.len() == nodes && now.nodes.values().all(|node| node.is_written)
    };
    world.until("every node has its labels", are_written).await;
}

/// Waits until the reported capacity satisfies the condition, and returns this capacity.
async fn counted(world: &World, is_it: impl Fn(&Metrics) -> bool) -> Metrics {
    let count = KubeInventory::start(&world.client, &world.settings, &CapacityOptions::default());
    let mut updates = count.watch();
    let found = async {
        loop {
            let metrics = updates.next().await.unwrap().unwrap().inventory.metrics();
            if is_it(&metrics) {
                return metrics;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(40), found)
        .await
        .unwrap()
}

/// Creates objects of all kinds, and returns the number of nodes.
async fn furnish(world: &World) -> usize {
    let usual = json!({"cpu": "8", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "110"});
    let with = |gpus: &str| {
        let mut capacity = usual.clone();
        capacity["nvidia.com/gpu"] = json!(gpus);
        capacity
    };
    let stale = json!({
        "akash.network": "true", format!("{CLASS}op-inv-beta2"): "1", format!("{GPU}nvidia.model.t4"): "3",
        "akash.network/team": "blue", "example.com/rack": "7",
    });
    class(world, "op-inv-beta2", "true").await;
    class(world, "op-inv-other", "true").await;
    node(
        world,
        "op-inv-plain",
        json!({"example.com/rack": "7"}),
        usual.clone(),
    )
    .await;
    node(world, "op-inv-slow", json!({}), usual.clone()).await;
    node(world, "op-inv-master-1", stale.clone(), usual.clone()).await;
    node(world, "op-inv-cordoned", stale.clone(), usual.clone()).await;
    patch(
        world,
        "op-inv-cordoned",
        false,
        json!({"spec": {"unschedulable": true}}),
    )
    .await;
    // A wrong device counter, and a device on the PCI bus.
    let lies = json!({
        format!("{GPU}nvidia.model.a100"): "99", format!("{GPU}nvidia.model.h100"): "8",
        "feature.node.kubernetes.io/pci-0302_10de_20b5.present": "true",
    });
    node(world, "op-inv-gpu", lies.clone(), with("2")).await;
    node(world, AWAY, lies, with("2")).await;
    let product = json!({"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090"});
    node(world, "op-inv-absurd", product, with("1000000")).await;
    7
}

#[test]
fn operator_reports_same_capacity_as_provider() {
    run_alone("op-inv-shown", |world, testbed| {
        async move {
            clear(world).await;
            let nodes = furnish(world).await;
            let _kubelets = kubelets(world);
            pod(world, "web", "op-inv-plain", "1500m").await;
            let operator = start(&account(world, &testbed).await);
            settled(world, &operator, nodes).await;
            // Nodes, usage and storage are equal, because pods of unknown leases do not belong to this
            // provider.
            let is_labelled = |metrics: &Metrics| {
                let gpu = metrics.nodes.iter().find(|node| node.name == "op-inv-gpu");
                let plain = metrics.nodes.iter().find(|node| node.name == "op-inv-plain");
                metrics.nodes.len() == 5
                    && gpu.is_some_and(|node| node.gpu.allocatable == 2 && !node.storage_classes.is_empty())
                    && plain
                        .is_some_and(|node| node.cpu.available == 6_500 && !node.storage_classes.is_empty())
            };
            let by_provider = counted(world, is_labelled).await;
            let mut report = operator.reports();
            let same = report.wait_for(|report| {
                let Some(report) = report else { return false };
                report.metrics().nodes == by_provider.nodes && is_labelled(report.metrics())
            });
            let same = tokio::time::timeout(Duration::from_secs(40), same).await.is_ok();
            assert!(same, "{by_provider:?}\n{:?}", operator.reports().borrow());
            let report = operator.reports().borrow().clone().unwrap();
            let beta2 = &report.metrics().storage["op-inv-beta2"];
            assert_eq!(beta2, &by_provider.storage["op-inv-beta2"]);
            assert_eq!(report.metrics().storage.len(), 1, "only selected classes");
            let ignored = operator.status().ignored.join("\n");
            for expected in [
                "node `op-inv-master-1` is excluded by `exclude.nodes`",
                "node `op-inv-cordoned`: missing label akash.network=true",
                "storage class `op-inv-none` of `cluster_storage` does not exist in the cluster",
                "storage class `op-inv-other` has the label of the network but is not in `cluster_storage`",
            ] {
                assert!(ignored.contains(expected), "{expected} is not in:\n{ignored}");
            }
            clear(world).await;
        }
        .boxed()
    });
}

/// Asserts the labels of the nodes that [`furnish`] creates. Labels of other clients must be unchanged.
async fn are_labelled(world: &World) {
    let beta2 = format!("{CLASS}op-inv-beta2");
    let plain = labels(world, "op-inv-plain").await;
    assert_eq!(
        (plain["akash.network"].as_str(), plain[&beta2].as_str()),
        ("true", "1")
    );
    assert_eq!(plain["example.com/rack"], "7");
    assert!(
        !labels(world, "op-inv-slow").await.contains_key(&beta2),
        "excluded by a rule"
    );
    for away in ["op-inv-master-1", "op-inv-cordoned"] {
        let left = labels(world, away).await;
        assert!(
            !left.contains_key("akash.network") && !left.contains_key(&beta2),
            "{away} {left:?}"
        );
        assert!(!left.contains_key(&format!("{GPU}nvidia.model.t4")));
        assert_eq!(left["akash.network/team"], "blue");
    }
    let gpu = labels(world, "op-inv-gpu").await;
    for (key, value) in [
        ("a100", Some("2")),
        ("a100.ram.80Gi", Some("2")),
        ("a100.interface.pcie", Some("2")),
        ("h100", None),
    ] {
        let key = format!("{GPU}nvidia.model.{key}");
        assert_eq!(gpu.get(&key).map(String::as_str), value, "{key}");
    }
}

#[test]
fn operator_labels_nodes_and_retains_foreign_labels() {
    run_alone("op-inv-labels", |world, testbed| {
        async move {
            clear(world).await;
            let nodes = furnish(world).await;
            let _kubelets = kubelets(world);
            let client = account(world, &testbed).await;
            let operator = start(&client);
            settled(world, &operator, nodes).await;
            are_labelled(world).await;
            let absurd = operator.status().nodes["op-inv-absurd"].notes.join("\n");
            assert!(
                absurd.contains("1000000 nvidia GPUs exceed the limit of a node"),
                "{absurd}"
            );
            let beta2 = format!("{CLASS}op-inv-beta2");
            // An unavailable node retains its labels. The labels of a deleted class are removed from all
            // nodes. A removed label is restored.
            let is_away = || async { operator.status().nodes[AWAY].standing == OfferState::Unready };
            let before = labels(world, AWAY).await;
            let mut lost = ready();
            lost["status"] = json!("Unknown");
            let lost = json!({"status": {"conditions": [lost]}});
            patch(world, AWAY, true, lost).await;
            world
                .until("the node without heartbeats is unready", is_away)
                .await;
            let classes: Api<StorageClass> = Api::all(world.admin.clone());
            classes
                .delete("op-inv-beta2", &DeleteParams::default())
                .await
                .unwrap();
            let is_gone = || async { !labels(world, "op-inv-plain").await.contains_key(&beta2) };
            world.until("the label of the class is removed", is_gone).await;
            patch(
                world,
                "op-inv-plain",
                false,
                json!({"metadata": {"labels": {"akash.network": null}}}),
            )
            .await;
            let is_back = || async { labels(world, "op-inv-plain").await.contains_key("akash.network") };
            world.until("the label is restored", is_back).await;
            assert!(before.contains_key(&beta2));
            assert_eq!(
                labels(world, AWAY).await,
                before,
                "the unavailable node is not written"
            );
            settled(world, &operator, nodes).await;
            operator.stop().await;
            // A restart writes nothing.
            let operator = start(&client);
            settled(world, &operator, nodes).await;
            assert_eq!(operator.status().counts.written, 0);
            assert_eq!(operator.status().counts.failed, 0);
            clear(world).await;
        }
        .boxed()
    });
}

#[test]
fn operator_without_write_access_reports_capacity_and_missing_right() {
    run_alone("op-inv-right", |world, testbed| {
        async move {
            clear(world).await;
            let usual = json!({"cpu": "8", "memory": "16Gi", "pods": "110"});
            node(world, "op-inv-one", json!({"akash.network": "true"}), usual.clone()).await;
            node(world, "op-inv-two", json!({}), usual).await;
            let _kubelets = kubelets(world);
            let client = account(world, &testbed).await;
            let roles: Api<ClusterRole> = Api::all(world.admin.clone());
            let reading = json!({"rules": [
                {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]},
                {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": ["list", "watch"]},
            ]});
            let params = PatchParams::default();
            roles.patch("provider-daemon-operator-inventory", &params, &Patch::Merge(reading)).await.unwrap();
            let operator = start(&client);
            let is_reported = || async {
                let now = operator.status();
                let two = now.nodes.get("op-inv-two");
                now.is_ready && two.is_some_and(|two| two.error.as_ref().is_some_and(|e| e.contains("deploy/operators")))
            };
            world.until("the missing right is reported", is_reported).await;
            let report = operator.reports().borrow().clone().unwrap();
            let names: Vec<_> = report.metrics().nodes.iter().map(|node| node.name.as_str()).collect();
            assert_eq!(names, ["op-inv-one"], "a labelled node is still offered");
            // A new right takes effect without a restart.
            let rights = account(world, &testbed).await;
            drop(rights);
            settled(world, &operator, 2).await;
            clear(world).await;
        }
        .boxed()
    });
}
