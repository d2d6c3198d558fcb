//! Benchmark of the inventory operator on a real API server: CPU time per change of a pod.
//!
//! Another process writes the changes, so that the CPU time of this process includes only the operator with its HTTP, TLS
//! and JSON.

use crate::{Failed, LOAD, NODES, PODS, print};
use akash_provider_k8s::write_client::WriteClient;
use akash_provider_operators::inventory::{InventoryOperator, InventoryOperatorOptions};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Maximum time until the operator has listed all objects.
const PATIENCE: Duration = Duration::from_secs(120);
/// Delay for the operator to process all changes.
const SETTLE: Duration = Duration::from_secs(2);
/// Number of pods that are changed concurrently.
const WRITERS: usize = 32;
/// One of every `ENDS` pods changes its phase to `Succeeded` and back to `Running`.
const ENDS: usize = 4;

pub(crate) async fn measure(client: &Client, file: &Path) -> Result<(), Failed> {
    let operator = InventoryOperator::start(
        &WriteClient::without_election(client.clone()),
        InventoryOperatorOptions::default(),
    );
    timeout(PATIENCE, operator.ready()).await?;
    let report = operator.reports().borrow().clone().ok_or("nothing is shown")?;
    let nodes = report.metrics().nodes.len();
    if nodes != NODES {
        return Err(format!("unexpected count: {nodes} nodes").into());
    }
    drop(report);
    // By then the operator has written its labels.
    sleep(SETTLE * 5).await;
    let before = cpu()?;
    let program = std::env::current_exe()?;
    let mut changing = Command::new(program);
    changing.arg("--kubeconfig").arg(file).arg("--change");
    let changed = tokio::task::spawn_blocking(move || changing.status()).await??;
    if !changed.success() {
        return Err(format!("the changing process failed: {changed}").into());
    }
    sleep(SETTLE).await;
    let (used, events) = (cpu()? - before, PODS + PODS / ENDS);
    print(
        "inventory_operator_pod_event_us",
        used.as_secs_f64() * 1e6 / events as f64,
        "us",
    );
    Ok(())
}

/// Changes every pod. Most changes do not affect the capacity.
pub(crate) async fn change(client: &Client) -> Result<(), Failed> {
    let address = format!("10.{}.0.1", std::process::id() % 250);
    let others = json!({"conditions": [{"type": "Ready", "status": "True"}], "podIP": address});
    let is_ending = |number: &usize| number.is_multiple_of(ENDS);
    let first = (0..PODS).map(|number| {
        let ends = json!({"phase": "Succeeded"});
        (number, if is_ending(&number) { ends } else { others.clone() })
    });
    written(client, first).await?;
    let back = json!({"phase": "Running"});
    written(
        client,
        (0..PODS).filter(is_ending).map(|number| (number, back.clone())),
    )
    .await
}

async fn written(client: &Client, changes: impl Iterator<Item = (usize, Value)>) -> Result<(), Failed> {
    let writes = changes.map(|(number, status)| async move {
        let pods: Api<Pod> = Api::namespaced(client.clone(), &LOAD.space_of(number));
        let change = Patch::Merge(json!({"status": status}));
        pods.patch_status(&format!("web-{number}"), &PatchParams::default(), &change)
            .await?;
        Ok::<_, Failed>(())
    });
    stream::iter(writes).buffer_unordered(WRITERS).try_collect().await
}

fn cpu() -> Result<Duration, Failed> {
    /// Clock tick of the kernel on all current Linux platforms.
    const TICK: Duration = Duration::from_millis(10);
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // After the name, which may contain any characters.
    let (_, fields) = text.rsplit_once(')').ok_or("no times")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).map_or(Ok(0), |field| field.parse::<u32>());
    Ok(TICK * (ticks(11)? + ticks(12)?))
}
