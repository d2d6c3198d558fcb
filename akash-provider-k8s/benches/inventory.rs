//! Benchmark of counting the capacity of a large cluster. Prints one JSON object per line, `{"name", "value", "unit"}`.
//!
//! Without arguments, the benchmark creates the objects of 5,000 nodes and 10,000 pods in memory and decodes
//! them page by page. With `--kubeconfig FILE`, the benchmark follows a real API server. It measures the time
//! to the first update and the peak memory, and then the time from a watch event to its update and the time
//! of a complete snapshot. `--fill` first writes the same objects to that cluster. The cluster must be
//! disposable, and its controllers must be paused: otherwise the controllers mark nodes without a kubelet as
//! lost. With `--operator`, the benchmark runs the inventory operator instead and measures its CPU time for a
//! change of a pod.

#[path = "support/load.rs"]
mod load;
#[path = "inventory/operated.rs"]
mod operated;
#[path = "inventory/real.rs"]
mod real;

use akash_provider_core::inventory::Inventory;
use akash_provider_k8s::inventory::{
    FactChange, InventoryKind, LeaseFacts, NamespacedName, NodeFacts, ObjectFacts, PodFacts, StorageOptions,
    Tally,
};
use akash_provider_k8s::settings::KubeSettings;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::core::{DynamicObject, ObjectList};
use load::{Load, PROVIDER, namespace, node};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

const NODES: usize = if cfg!(debug_assertions) { 250 } else { 5_000 };
const PODS: usize = if cfg!(debug_assertions) { 500 } else { 10_000 };
const LOAD: Load = Load {
    nodes: NODES,
    pods: PODS,
    pods_per_lease: 4,
};
/// Number of objects per page, as in the inventory source.
const PAGE: usize = 250;
const SAMPLES: usize = if cfg!(debug_assertions) { 20 } else { 500 };

type Failed = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip_while(|a| a != "--kubeconfig").skip(1);
    match arguments.next() {
        Some(file) => {
            let has_flag = |flag: &str| std::env::args().any(|a| a == flag);
            // The same runtime as the program.
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            let options = real::BenchOptions {
                fill: has_flag("--fill"),
                operator: has_flag("--operator"),
                change: has_flag("--change"),
            };
            runtime.block_on(real::measure(Path::new(&file), options))
        }
        None => made_here(),
    }
}

fn made_here() -> Result<(), Failed> {
    let mut tally = Tally::new(StorageOptions::default());
    let began = Instant::now();
    load(&mut tally)?;
    let first = tally.snapshot();
    print(
        "inventory_load_5000_ms",
        began.elapsed().as_secs_f64() * 1e3,
        "ms",
    );
    let nodes = first.inventory.metrics().nodes.len();
    let leases = first.placements.len();
    if (nodes, leases) != (NODES, LOAD.leases()) {
        return Err(format!("unexpected counts: {nodes} nodes, {leases} leases").into());
    }
    print("inventory_rss_mib", peak_mib()?, "MiB");
    print("inventory_update_us", update_us(&mut tally)?, "us");
    print("inventory_snapshot_5000_ms", rebuild_ms(&mut tally)?, "ms");
    Ok(())
}

/// Returns the median time from a pod event to the complete inventory update, in microseconds.
fn update_us(tally: &mut Tally) -> Result<f64, Failed> {
    let mut samples = Vec::with_capacity(SAMPLES);
    for sample in 0..SAMPLES {
        let number = (sample * 7_919) % PODS;
        let event = serde_json::to_vec(&LOAD.pod(number, if sample % 4 < 2 { "350m" } else { "250m" }))?;
        let began = Instant::now();
        let object: Pod = serde_json::from_slice(&event)?;
        let facts = PodFacts::from_object(&object).ok_or("pod without resources")?;
        tally.apply(FactChange::Set(pod_key(number), ObjectFacts::Pod(facts)));
        black_box(tally.snapshot());
        samples.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(samples))
}

/// Returns the median time to build a snapshot from scratch, in milliseconds.
fn rebuild_ms(tally: &mut Tally) -> Result<f64, Failed> {
    let mut samples = Vec::new();
    for sample in 0..40 {
        let extra = node_change(&serde_json::from_value(node(NODES))?)?;
        let change = match extra {
            FactChange::Set(key, _) if sample % 2 == 1 => FactChange::Gone(InventoryKind::Node, key, None),
            there => there,
        };
        let began = Instant::now();
        tally.apply(change);
        black_box(tally.snapshot());
        samples.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(samples))
}

fn load(tally: &mut Tally) -> Result<(), Failed> {
    let settings = KubeSettings::new(PROVIDER.parse()?);
    for first in (0..NODES).step_by(PAGE) {
        for object in page::<Node>("NodeList", (first..first + PAGE).map(node))? {
            tally.apply(node_change(&object)?);
        }
    }
    for lease in 0..LOAD.leases() {
        let object: DynamicObject = serde_json::from_value(LOAD.manifest(lease))?;
        let facts = LeaseFacts::from_object(&object, &settings)?.ok_or("lease of another provider")?;
        tally.apply(FactChange::Set(
            NamespacedName::new("", &namespace(lease)),
            ObjectFacts::Lease(facts),
        ));
    }
    for first in (0..PODS).step_by(PAGE) {
        let objects = page::<Pod>("PodList", (first..first + PAGE).map(|n| LOAD.pod(n, "250m")))?;
        for (number, object) in (first..).zip(objects) {
            let facts = PodFacts::from_object(&object).ok_or("pod without resources")?;
            tally.apply(FactChange::Set(pod_key(number), ObjectFacts::Pod(facts)));
        }
    }
    Ok(())
}

/// Encodes a list response as text and decodes the text.
fn page<T>(kind: &str, objects: impl Iterator<Item = Value>) -> Result<Vec<T>, Failed>
where
    T: DeserializeOwned + Clone + Debug,
{
    let list = json!({
        "apiVersion": "v1", "kind": kind, "metadata": {"resourceVersion": "1"},
        "items": objects.collect::<Vec<_>>(),
    });
    let text = serde_json::to_vec(&list)?;
    drop(list);
    let list: ObjectList<T> = serde_json::from_slice(&text)?;
    Ok(list.items)
}

fn node_change(node: &Node) -> Result<FactChange, Failed> {
    let facts = NodeFacts::from_object(node).ok_or("node without a name")?;
    let name = node.metadata.name.as_deref().unwrap_or_default();
    Ok(FactChange::Set(
        NamespacedName::new("", name),
        ObjectFacts::Node(facts),
    ))
}

fn pod_key(pod: usize) -> NamespacedName {
    NamespacedName::new(&LOAD.space_of(pod), &format!("web-{pod}"))
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn peak_mib() -> Result<f64, Failed> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib: f64 = line.ok_or("no VmHWM")?.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}

fn print(name: &str, value: f64, unit: &str) {
    println!("{}", json!({"name": name, "value": value, "unit": unit}));
}
