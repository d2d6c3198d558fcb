//! Benchmark of first deploys, one after the other and fifty at once, and of the API calls of an idle
//! provider.

use crate::lease::{deployment, settings};
use crate::{Bench, Failed, median, pick, print};
use akash_provider_core::cluster::{Cluster, WorkloadSpec};
use akash_provider_k8s::cluster::KubeCluster;
use akash_provider_k8s::inventory::{CapacityOptions, KubeInventory};
use akash_provider_k8s::write_client::WriteClient;
use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment as Workload;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const ONE_BY_ONE: u64 = pick(3, 40);
const AT_ONCE: u64 = pick(3, 50);
/// Duration of the idle measurement.
const IDLE: Duration = Duration::from_secs(pick(1, 60));
/// Delay for the API server and its controllers to finish the work of earlier deploys.
const SETTLE: Duration = Duration::from_millis(pick(200, 5_000));

/// Time at which a separate watch first observed the Deployment object of each namespace.
type Seen = Arc<Mutex<HashMap<String, Instant>>>;

pub(crate) async fn measure(bench: &Bench) -> Result<(), Failed> {
    let settings = settings(1)?;
    let client = bench.provider.client()?;
    let cluster = KubeCluster::connect(WriteClient::without_election(client.clone()), settings.clone())?;
    cluster.state().ready().await;
    let _inventory = KubeInventory::start(&client, &settings, &CapacityOptions::default());
    let seen = watch(bench);
    // Warm-up of connections and caches.
    deploy(&cluster, deployment(&settings, 1_000)?, &seen).await?;
    sleep(SETTLE).await;

    print("k8s_write_p50_ms", one_write(bench).await?, "ms");
    let before = bench.provider.calls().await?;
    let mut took = Vec::new();
    for dseq in 0..ONE_BY_ONE {
        took.push(deploy(&cluster, deployment(&settings, 2_000 + dseq)?, &seen).await?);
    }
    let calls = bench.provider.since(before).await?;
    print("k8s_deploy_calls", calls.all() / ONE_BY_ONE as f64, "calls");
    print("k8s_deploy_p50_ms", median(took), "ms");

    let mut tasks = tokio::task::JoinSet::new();
    for dseq in 0..AT_ONCE {
        let (cluster, seen) = (Arc::clone(&cluster), Arc::clone(&seen));
        let deployment = deployment(&settings, 3_000 + dseq)?;
        tasks.spawn(async move { deploy(&cluster, deployment, &seen).await });
    }
    let mut took = Vec::new();
    while let Some(done) = tasks.join_next().await {
        took.push(done??);
    }
    print("k8s_deploy_50_p50_ms", median(took), "ms");

    sleep(SETTLE).await;
    let leases = cluster.deployments().await?.deployments.len();
    let before = bench.provider.calls().await?;
    sleep(IDLE).await;
    let calls = bench.provider.since(before).await?;
    let minutes = IDLE.as_secs_f64() / 60.0;
    print(
        "k8s_idle_calls_per_lease_min",
        calls.all() / leases as f64 / minutes,
        "calls",
    );
    eprintln!("an idle provider with {leases} leases made these API calls within {IDLE:?}: {calls:?}");
    Ok(())
}

/// Records and deploys a lease. Returns the number of milliseconds until a watch observes the Deployment
/// object.
async fn deploy(cluster: &KubeCluster, deployment: WorkloadSpec, seen: &Seen) -> Result<f64, Failed> {
    let namespace = deployment.lease.namespace();
    let began = Instant::now();
    cluster.record(&deployment).await?;
    cluster.deploy(&deployment).await?;
    loop {
        let at = seen.lock().map_err(|e| e.to_string())?.get(&namespace).copied();
        if let Some(at) = at {
            return Ok((at - began).as_secs_f64() * 1e3);
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// Returns the median time of one write, in milliseconds.
async fn one_write(bench: &Bench) -> Result<f64, Failed> {
    let api: Api<ConfigMap> = Api::namespaced(bench.server.admin.clone(), "lease");
    let params = PatchParams::apply("bench").force();
    let mut took = Vec::new();
    for number in 0..ONE_BY_ONE {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bench"}, "data": {"n": number.to_string()},
        });
        let began = Instant::now();
        api.patch("bench", &params, &Patch::Apply(&object)).await?;
        took.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(took))
}

fn watch(bench: &Bench) -> Seen {
    let seen = Seen::default();
    let (client, theirs) = (bench.server.admin.clone(), Arc::clone(&seen));
    tokio::spawn(async move {
        let workloads: Api<Workload> = Api::all(client);
        let config = watcher::Config::default().labels(akash_provider_k8s::labels::SELECTOR);
        let mut all = watcher(workloads, config).applied_objects().boxed();
        while let Some(found) = all.next().await {
            let Ok(found) = found else { continue };
            if let (Some(namespace), Ok(mut seen)) = (found.metadata.namespace, theirs.lock()) {
                seen.entry(namespace).or_insert_with(Instant::now);
            }
        }
    });
    seen
}
