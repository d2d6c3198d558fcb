//! The inventory operator on a real API server: what one change of a pod costs it.
//!
//! Another process makes the changes, so that the CPU of this one is the operator's alone: the client of HTTP, TLS and JSON
//! with it.

use crate::{Failed, LOAD, NODES, PODS, print};
use akash_provider_k8s::operators::inventory::{InventoryOperator, Options};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How long a large API server may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// After the last change everything was told by then.
const SETTLE: Duration = Duration::from_secs(2);
/// Changes that are written at a time.
const WRITERS: usize = 32;
/// Of so many pods one ends, and is there again.
const ENDS: usize = 4;

pub(crate) async fn measure(client: &Client, file: &Path) -> Result<(), Failed> {
    let operator = InventoryOperator::start(client, Options::default());
    timeout(PATIENCE, operator.ready()).await?;
    let shown = operator.shown().borrow().clone().ok_or("nothing is shown")?;
    let nodes = shown.metrics().nodes.len();
    if nodes != NODES {
        return Err(format!("{nodes} nodes are shown").into());
    }
    drop(shown);
    // Its own labels are written by then.
    sleep(SETTLE * 5).await;
    let before = cpu()?;
    let program = std::env::current_exe()?;
    let mut changing = Command::new(program);
    changing.arg("--kubeconfig").arg(file).arg("--change");
    let changed = tokio::task::spawn_blocking(move || changing.status()).await??;
    if !changed.success() {
        return Err(format!("the changes ended with {changed}").into());
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

/// Changes every pod: most say something of themselves that does not count, the others end, and are there again.
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

/// The CPU of this process so far.
fn cpu() -> Result<Duration, Failed> {
    /// What the kernel counts in, wherever Linux runs today.
    const TICK: Duration = Duration::from_millis(10);
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // Behind the name, which may hold anything.
    let (_, fields) = text.rsplit_once(')').ok_or("no times")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).map_or(Ok(0), |field| field.parse::<u32>());
    Ok(TICK * (ticks(11)? + ticks(12)?))
}
