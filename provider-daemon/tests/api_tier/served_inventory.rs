//! Inventory served by `operator inventory`, compared with the capacity that a provider counts in the same
//! cluster.

use crate::{CreatedObjects, PATIENCE, make};
use akash_provider_core::inventory::{InventorySource, Metrics, NodeMetrics, Pair};
use akash_provider_core::types::{Address, DeploymentId, LeaseId};
use akash_provider_k8s::inventory::{CapacityOptions, KubeInventory};
use akash_provider_k8s::settings::KubeSettings;
use futures::StreamExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Testbed, Tier};

const NODE: &str = "served-one";
const CLASS: &str = "served-beta2";
const GPU: &str = "akash.network/capabilities.gpu.vendor.nvidia.model.a100";
const GIB: u64 = 1 << 30;

struct OperatorProcess(Child, String);

impl Drop for OperatorProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl OperatorProcess {
    fn new(cluster: &Testbed) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_provider-daemon"))
            .args([
                "operator",
                "inventory",
                "--rest-address=127.0.0.1",
                "--rest-port=0",
            ])
            .args(["--grpc-port=0", "--provider-configs-url=", "--election=off"])
            .arg(format!("--config={{version: v1, cluster_storage: [{CLASS}]}}"))
            .arg("--kubeconfig")
            .arg(cluster.kubeconfig())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.find_map(|line| line.ok().filter(|line| line.contains("http://")));
        let line = line.unwrap();
        let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap();
        Self(child, address.to_owned())
    }

    /// Returns the operator's inventory, or `Null` before the first one.
    fn cluster(&self) -> Value {
        let mut stream = TcpStream::connect(&self.1).unwrap();
        let asked = "GET /v1/inventory HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(asked.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
        // The body is complete, or in one chunk with its own length.
        let start = body.find('{').unwrap_or(body.len());
        let mut read = serde_json::Deserializer::from_str(&body[start..]).into_iter();
        read.next().and_then(Result::ok).unwrap_or_default()
    }
}

/// Parses a quantity of the served inventory. Numbers with the suffix `m` are not scaled. Other numbers are
/// multiplied by `whole`.
fn served(quantity: &Value, whole: u64) -> Pair {
    let number = |key: &str| {
        let text = quantity[key].as_str().unwrap();
        match text.strip_suffix('m') {
            Some(milli) => milli.parse::<u64>().unwrap(),
            None => text.parse::<u64>().unwrap() * whole,
        }
    };
    Pair {
        allocatable: number("allocatable"),
        available: number("allocatable") - number("allocated"),
    }
}

fn node(cluster: &Value) -> Option<&Value> {
    cluster["nodes"]
        .as_array()?
        .iter()
        .find(|node| node["name"] == NODE)
}

/// Returns true if operator and provider report equal resources of the node, except `cpu`, `memory` and
/// `disk` of the provider's own leases.
fn agree(cluster: &Value, counted: &NodeMetrics, [cpu, memory, disk]: [u64; 3]) -> bool {
    let Some(node) = node(cluster) else {
        return false;
    };
    let of = |what: &str, whole: u64| served(&node["resources"][what]["quantity"], whole);
    let less = |pair: Pair, own: u64| Pair {
        available: pair.available - own,
        ..pair
    };
    let disks = served(&node["resources"]["ephemeral_storage"], 1);
    let devices = node["resources"]["gpu"]["info"].as_array().map_or(0, Vec::len);
    let named = counted.gpus.iter().map(|gpu| gpu.count as usize).sum::<usize>();
    of("cpu", 1_000) == less(counted.cpu, cpu)
        && of("memory", 1) == less(counted.memory, memory)
        && of("gpu", 1) == counted.gpu
        && disks == less(counted.storage_ephemeral, disk)
        && devices == named
        && node["capabilities"]["storage_classes"] == json!(counted.storage_classes)
}

fn lease(provider: &Address) -> LeaseId {
    let owner = Address::from_bytes(&[9; 20]).unwrap();
    let deployment = DeploymentId::new(owner, 77);
    deployment.group(1).order(1).bid(provider.clone())
}

fn pod(namespace: &str, name: &str, labels: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"nodeName": NODE, "tolerations": [{"operator": "Exists"}], "containers": [{
            "name": "web", "image": "localhost/none:1",
            "resources": {"requests": {"cpu": "1500m", "memory": "1Gi", "ephemeral-storage": "2Gi"}},
        }]},
    })
}

fn class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "rancher.io/local-path",
        "metadata": {"name": CLASS, "labels": {"akash.network": "true"}},
    })
}

/// Marks the node as ready. Adds two GPUs, and the label with the GPU model.
fn ready(cluster: &Testbed) {
    let room = json!({
        "cpu": "8", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "50", "nvidia.com/gpu": "2",
    });
    let now = "2026-01-01T00:00:00Z";
    let status = json!({"status": {"capacity": room, "allocatable": room, "conditions": [{
        "type": "Ready", "status": "True", "reason": "Test", "message": "",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    }]}});
    let patch = status.to_string();
    let args = [
        "patch",
        "node",
        NODE,
        "--subresource=status",
        "--type=merge",
        "--patch",
        &patch,
    ];
    cluster.kubectl(&args).unwrap();
}

fn record(lease: &LeaseId, settings: &KubeSettings) -> Value {
    let parts = json!({
        "owner": lease.owner().to_string(), "dseq": "77", "gseq": 1, "oseq": 1, "provider": lease.provider.to_string(),
    });
    let resources = json!({"id": 1, "cpu": {"units": 1000}, "gpu": {"units": 0}, "memory": {"size": "1"}});
    let service = json!({"name": "web", "image": "localhost/none:1", "count": 1, "resources": resources});
    json!({
        "apiVersion": "akash.network/v2beta2", "kind": "Manifest",
        "metadata": {
            "name": lease.namespace(), "namespace": settings.manifest_namespace, "labels": {"akash.network": "true"},
        },
        "spec": {"lease_id": parts, "group": {"name": "group", "services": [service]}},
    })
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Waits until the namespace of each pod has a default ServiceAccount, and then creates the pods.
fn pods<'a>(cluster: &'a Testbed, pods: &[Value]) -> CreatedObjects<'a> {
    for pod in pods {
        let space = format!("--namespace={}", pod["metadata"]["namespace"].as_str().unwrap());
        let started = Instant::now();
        while cluster
            .kubectl(&["get", "serviceaccount", "default", &space])
            .is_err()
        {
            assert!(started.elapsed() < PATIENCE, "{space} has no account");
            sleep(Duration::from_millis(100));
        }
    }
    make(cluster, pods, "--field-manager=api-tier")
}

/// Waits until the inventories of operator and provider meet a condition.
async fn until(
    what: &str,
    cluster: &Testbed,
    operator: &OperatorProcess,
    inventory: &KubeInventory,
    is_it: impl Fn(&Value, &Metrics) -> bool,
) {
    let mut updates = inventory.watch();
    let mut metrics = Metrics::default();
    let started = Instant::now();
    loop {
        if let Ok(Some(update)) = tokio::time::timeout(Duration::from_millis(300), updates.next()).await {
            metrics = update.unwrap().inventory.metrics();
        }
        // Renew the heartbeat as a kubelet would. Otherwise the cluster treats the node as lost.
        ready(cluster);
        let served = operator.cluster();
        if is_it(&served, &metrics) {
            return;
        }
        assert!(
            started.elapsed() < PATIENCE,
            "{what}: the operator serves {served}, the provider counts {metrics:?}"
        );
    }
}

async fn compare(cluster: &Testbed, operator: &OperatorProcess) {
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let client = Client::try_from(config.unwrap()).unwrap();
    let settings = KubeSettings::new(Address::from_bytes(&[8; 20]).unwrap());
    let inventory = KubeInventory::start(&client, &settings, &CapacityOptions::default());
    let counted = |metrics: &Metrics| metrics.nodes.iter().find(|node| node.name == NODE).cloned();
    let same = |cluster: &Value, metrics: &Metrics, own: [u64; 3]| {
        counted(metrics).is_some_and(|counted| agree(cluster, &counted, own))
    };
    let of_class = |cluster: &Value| {
        let all = cluster["storage"].as_array()?.iter();
        let mut of = all.filter(|storage| storage["info"]["class"] == CLASS);
        Some(served(&of.next()?["quantity"], 1))
    };
    // Foreign pods count as usage on both sides, as do the disks of a storage class.
    let foreign_pod = pods(cluster, &[pod("default", "served-foreign", json!({}))]);
    until(
        "a foreign pod is use",
        cluster,
        operator,
        &inventory,
        |cluster, metrics| {
            let used = counted(metrics).is_some_and(|node| {
                node.cpu.available == 6_500 && node.gpu.allocatable == 2 && node.storage_classes == [CLASS]
            });
            let storage = metrics.storage.get(CLASS);
            let has_room = storage.is_some_and(|pair| pair.available == 98 * GIB);
            used && has_room && of_class(cluster).as_ref() == storage && same(cluster, metrics, [0; 3])
        },
    )
    .await;
    // The provider counts its own leases by their reservations and ignores their pods.
    let own = lease(&settings.provider);
    let space = own.namespace();
    let labels = json!({
        "akash.network": "true", "akash.network/namespace": space, "akash.network/manifest-service": "web",
    });
    let home = make(cluster, &[namespace(&space)], "--field-manager=api-tier");
    let record = make(cluster, &[record(&own, &settings)], "--field-manager=api-tier");
    let lease = pods(cluster, &[pod(&space, "served-own", labels)]);
    until(
        "the operator alone counts a lease's pod",
        cluster,
        operator,
        &inventory,
        |cluster, metrics| {
            let of_stranger = counted(metrics).is_some_and(|node| node.cpu.available == 6_500);
            of_stranger && same(cluster, metrics, [1_500, GIB, 2 * GIB])
        },
    )
    .await;
    drop((lease, record, home, foreign_pod));
}

#[test]
fn served_inventory_equals_count_of_provider_except_own_leases() {
    let Some((cluster, _alone)) = Testbed::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    let labels =
        json!({GPU: "2", format!("{GPU}.ram.80Gi"): "2", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"});
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": labels}});
    let _made = make(&cluster, &[object, class()], "--field-manager=api-tier");
    ready(&cluster);
    let operator = OperatorProcess::new(&cluster);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(compare(&cluster, &operator));
}
