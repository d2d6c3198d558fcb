//! Benchmark of the inventory operator with five thousand nodes and fifty thousand pods.

use crate::load::{Load, each, node_name};
use crate::program::MeasuredProcess;
use crate::{Bench, Failed, MeasuredOperator, percentile, pick, print};
use akash_provider_chain::proto::akash::inventory::v1::{Cluster, Node as Shown};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tonic::Streaming;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

const LOAD: Load = Load {
    nodes: pick(20, 5_000),
    pods: pick(80, 50_000),
    pods_per_lease: pick(4, 40),
};
/// Number of pod changes for the CPU measurement.
const EVENTS: usize = pick(40, 10_000);
/// Number of nodes changed one after the other.
const CHANGES: usize = pick(3, 60);
const WAIT_LIMIT: Duration = Duration::from_secs(120);
/// Time in which the operator processes all pending events.
const SETTLE: Duration = Duration::from_secs(2);
const LIST: &str = r#"{
    "10de": {"name": "nvidia", "devices": {
        "20b5": {"name": "a100", "interface": "PCIe", "memory_size": "80Gi"},
        "2684": {"name": "rtx4090", "interface": "PCIe", "memory_size": "24Gi"}}},
    "1002": {"name": "amd", "devices": {"740f": {"name": "mi210", "interface": "PCIe", "memory_size": "64Gi"}}}
}"#;

pub(crate) async fn measure(bench: &Bench) -> Result<(MeasuredOperator<'_>, MeasuredProcess), Failed> {
    let admin = &bench.server.admin;
    LOAD.fill(admin, with_devices).await?;
    let list = bench.args.scratch.join("gpus.json");
    std::fs::write(&list, LIST)?;
    let list = list.display().to_string();
    let flags = [
        "--gpu-list",
        &list,
        "--provider-configs-url",
        "",
        "--grpc-port",
        "0",
    ];
    let operator = bench.operator("inventory", "akash-services", &flags).await?;
    // The first operator writes the labels of all nodes.
    let first = operator.start(&["--web-refresh-interval", "1s"]).await?;
    let took = first.until("/status", is_labelled).await?;
    print("inventory_labels_5000_s", took.as_secs_f64(), "s");
    first.stop().await?;

    let before = operator.account.calls().await?;
    let program = operator.start(&[]).await?;
    let mut stream = subscribe(&program).await?;
    let cluster = next(&mut stream).await?;
    let took = program.began.elapsed();
    if cluster.nodes.len() != LOAD.nodes {
        return Err(format!("{} nodes are reported", cluster.nodes.len()).into());
    }
    let calls = operator.account.since(before).await?;
    eprintln!("the operator reported all nodes {took:?} after its start; API calls: {calls:?}");
    print("inventory_5000_start_ms", took.as_secs_f64() * 1e3, "ms");
    print("inventory_5000_start_writes", calls.writes, "writes");
    eprintln!(
        "memory of the inventory operator after its start: {:?}",
        program.memory()?
    );

    changes(admin, &mut stream).await?;
    let subscribed = events(admin, &program, 0).await?;
    print("inventory_subscribed_pod_event_us", subscribed, "us");
    drop(stream);
    let alone = events(admin, &program, EVENTS).await?;
    print("inventory_pod_event_us", alone, "us");
    let memory = program.memory()?;
    eprintln!("memory of the inventory operator at the end: {memory:?}");
    print("inventory_operator_rss_mib", memory.peak, "MiB");
    Ok((operator, program))
}

/// Adds GPUs to three of ten nodes, with different labels: NVIDIA PCI ID, NVIDIA product, and AMD PCI ID.
fn with_devices(number: usize, mut node: Value) -> Value {
    let (label, value, resource) = match number % 10 {
        1 => (
            "feature.node.kubernetes.io/pci-0302_10de_20b5.present",
            "true",
            "nvidia.com/gpu",
        ),
        2 => (
            "nvidia.com/gpu.product",
            "NVIDIA-GeForce-RTX-4090",
            "nvidia.com/gpu",
        ),
        3 => (
            "feature.node.kubernetes.io/pci-0302_1002_740f.present",
            "true",
            "amd.com/gpu",
        ),
        _ => return node,
    };
    node["metadata"]["labels"][label] = json!(value);
    for amounts in ["capacity", "allocatable"] {
        node["status"][amounts][resource] = json!("4");
    }
    node
}

fn is_labelled(status: &Value) -> bool {
    let nodes = status["nodes"].as_object();
    status["is_ready"] == true
        && nodes.is_some_and(|nodes| {
            nodes.len() == LOAD.nodes && nodes.values().all(|node| node["is_written"] == true)
        })
}

async fn subscribe(program: &MeasuredProcess) -> Result<Streaming<Cluster>, Failed> {
    let url = program.grpc.clone().ok_or("the operator has no gRPC endpoint")?;
    let channel = Endpoint::from_shared(url)?.connect().await?;
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await?;
    let path = "/akash.inventory.v1.ClusterRPC/StreamCluster".parse()?;
    let codec = ProstCodec::<(), Cluster>::default();
    let answer = client
        .server_streaming(tonic::Request::new(()), path, codec)
        .await?;
    Ok(answer.into_inner())
}

async fn next(stream: &mut Streaming<Cluster>) -> Result<Cluster, Failed> {
    let cluster = timeout(WAIT_LIMIT, stream.message()).await??;
    Ok(cluster.ok_or("the stream ended")?)
}

/// Measures the time from a change of a node until the gRPC stream reports the change.
async fn changes(admin: &Client, stream: &mut Streaming<Cluster>) -> Result<(), Failed> {
    let nodes: Api<Node> = Api::all(admin.clone());
    let mut took = Vec::new();
    for number in 0..CHANGES {
        let name = node_name(number * 71 % LOAD.nodes);
        let change = json!({"status": {"allocatable": {"cpu": "31"}}});
        let began = Instant::now();
        nodes
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(&change))
            .await?;
        loop {
            let cluster = next(stream).await?;
            if cluster
                .nodes
                .iter()
                .any(|node| node.name == name && cpus(node) == Some("31"))
            {
                break;
            }
        }
        took.push(began.elapsed().as_secs_f64() * 1e3);
        // The next change must not be merged with this one.
        sleep(Duration::from_millis(200)).await;
    }
    print("inventory_stream_ms", percentile(&mut took, 50), "ms");
    print("inventory_stream_p99_ms", percentile(&mut took, 99), "ms");
    Ok(())
}

fn cpus(node: &Shown) -> Option<&str> {
    let cpu = node.resources.as_ref()?.cpu.as_ref()?;
    let quantity = cpu.quantity.as_ref()?.allocatable.as_ref()?;
    quantity.string.as_deref()
}

/// Measures the operator's CPU time per pod change, in microseconds. Every fourth pod ends, and the others
/// change without effect on capacity.
async fn events(admin: &Client, program: &MeasuredProcess, first: usize) -> Result<f64, Failed> {
    sleep(SETTLE).await;
    let (before, began) = (program.cpu()?, Instant::now());
    each(EVENTS, |number| change(admin, first + number)).await?;
    let written = began.elapsed();
    sleep(SETTLE).await;
    let used = program.cpu()? - before;
    eprintln!("{EVENTS} pods changed within {written:?}; the operator used {used:?} of CPU time");
    Ok(used.as_secs_f64() * 1e6 / EVENTS as f64)
}

async fn change(admin: &Client, number: usize) -> Result<(), Failed> {
    let pods: Api<Pod> = Api::namespaced(admin.clone(), &LOAD.space_of(number));
    let status = if number.is_multiple_of(4) {
        json!({"phase": "Succeeded"})
    } else {
        json!({"conditions": [{"type": "Ready", "status": "True"}], "podIP": "10.0.0.1"})
    };
    let change = Patch::Merge(json!({"status": status}));
    pods.patch_status(&format!("web-{number}"), &PatchParams::default(), &change)
        .await?;
    Ok(())
}
