//! Benchmark of the hostname operator with ten thousand hostnames that are already in the desired state, and
//! of changes of single hostnames.

use crate::lease::{deployment, settings};
use crate::load::each;
use crate::program::{MeasuredProcess, is_in_step};
use crate::{Bench, Failed, MeasuredOperator, RECORDS, percentile, pick, print};
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::labels;
use akash_provider_kube_model::crd::convert::to_manifest;
use futures::StreamExt;
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::json;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

/// Number of leases. Each lease has `NAMES` hostnames.
pub(crate) const LEASES: usize = pick(3, 1_000);
const NAMES: usize = pick(2, 10);
/// Number of hostname records changed one after the other.
const CHANGES: usize = pick(3, 300);
/// External port that each change writes into a hostname record.
const OTHER: i32 = 9_000;
const WAIT_LIMIT: Duration = Duration::from_secs(60);
const STATUS: &str = "/status?limit=1";

pub(crate) async fn measure(bench: &Bench) -> Result<(MeasuredOperator<'_>, MeasuredProcess), Failed> {
    let admin = &bench.server.admin;
    make_leases(admin).await?;
    each(LEASES * NAMES, |number| declare(bench, number)).await?;
    let operator = bench.operator("hostname", RECORDS, &[]).await?;
    let first = operator.start(&[]).await?;
    let took = first.until(STATUS, is_in_step).await?;
    print("hostnames_10000_made_s", took.as_secs_f64(), "s");
    first.stop().await?;

    let before = operator.account.calls().await?;
    let program = operator.start(&[]).await?;
    let took = program.until(STATUS, is_in_step).await?;
    let calls = operator.account.since(before).await?;
    eprintln!(
        "{} hostnames: the operator had no pending work {took:?} after its start; API calls: {calls:?}",
        LEASES * NAMES
    );
    print("hostnames_10000_start_ms", took.as_secs_f64() * 1e3, "ms");
    print("hostnames_10000_start_writes", calls.writes, "writes");
    let memory = program.memory()?;
    eprintln!("memory of the hostname operator: {memory:?}");
    print("hostname_operator_rss_mib", memory.peak, "MiB");
    changes(&operator, admin).await?;
    Ok((operator, program))
}

/// Measures the time from a change of a hostname record until a watch reports the changed route.
async fn changes(operator: &MeasuredOperator<'_>, admin: &Client) -> Result<(), Failed> {
    let mut seen = watch(admin.clone());
    let records: Api<DynamicObject> = Api::namespaced_with(
        admin.clone(),
        RECORDS,
        &ApiResource::from_gvk(&GroupVersionKind::gvk("akash.network", "v2beta2", "ProviderHost")),
    );
    // Wait until the watch has listed all routes.
    let params = PatchParams::default();
    let change = Patch::Merge(json!({"spec": {"external_port": OTHER}}));
    let move_to = async |number: usize| -> Result<Duration, Failed> {
        let name = hostname(number);
        let began = Instant::now();
        records.patch(&name, &params, &change).await?;
        let watching = async {
            while seen.recv().await.ok_or("the watch ended")? != name {}
            Ok::<_, Failed>(())
        };
        timeout(WAIT_LIMIT, watching).await??;
        Ok(began.elapsed())
    };
    let mut move_to = move_to;
    // Establish the connections.
    move_to(0).await?;
    let before = operator.account.calls().await?;
    let mut took = Vec::new();
    for number in 0..CHANGES {
        took.push(move_to((1 + number * 31) % (LEASES * NAMES)).await?.as_secs_f64() * 1e3);
    }
    let calls = operator.account.since(before).await?;
    eprintln!("{CHANGES} changed hostname records caused these API calls of the operator: {calls:?}");
    print("hostname_change_writes", calls.writes / CHANGES as f64, "writes");
    print("hostname_change_reads", calls.reads / CHANGES as f64, "reads");
    print("hostname_change_ms", percentile(&mut took, 50), "ms");
    print("hostname_change_p99_ms", percentile(&mut took, 99), "ms");
    Ok(())
}

/// Watches the routes. If a route has the port [`OTHER`], sends the hostname of the route.
fn watch(client: Client) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(64);
    tokio::spawn(async move {
        let all: Api<Ingress> = Api::all(client);
        let mut all = watcher(all, watcher::Config::default()).applied_objects().boxed();
        while let Some(found) = all.next().await {
            let Ok(found) = found else { continue };
            if port(&found) == Some(OTHER)
                && let Some(name) = found.metadata.name
                && sender.send(name).await.is_err()
            {
                return;
            }
        }
    });
    receiver
}

fn port(ingress: &Ingress) -> Option<i32> {
    let rule = ingress.spec.as_ref()?.rules.as_ref()?.first()?;
    let path = rule.http.as_ref()?.paths.first()?;
    path.backend.service.as_ref()?.port.as_ref()?.number
}

pub(crate) fn lease(number: usize) -> Result<LeaseId, Failed> {
    Ok(deployment(&settings(1)?, number as u64 + 1)?.lease)
}

fn hostname(number: usize) -> String {
    format!("name-{number}.example.com")
}

pub(crate) async fn make_leases(admin: &Client) -> Result<(), Failed> {
    each(LEASES, |number| make_lease(admin, number)).await
}

async fn make_lease(admin: &Client, number: usize) -> Result<(), Failed> {
    let settings = settings(1)?;
    let deployment = deployment(&settings, number as u64 + 1)?;
    let namespace = deployment.lease.namespace();
    let mut all = labels::lease(&deployment.lease);
    all.extend(labels::selector(&namespace));
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": all},
    });
    crate::counted::put(admin, &object).await?;
    let manifest = serde_json::to_value(to_manifest(&deployment, &settings)?)?;
    crate::counted::put(admin, &manifest).await
}

async fn declare(bench: &Bench, number: usize) -> Result<(), Failed> {
    let lease = lease(number / NAMES)?;
    let group = &lease.order.group;
    let name = hostname(number);
    let host = json!({
        "apiVersion": "akash.network/v2beta2", "kind": "ProviderHost",
        "metadata": {"name": name, "namespace": RECORDS},
        "spec": {
            "owner": group.deployment.owner, "provider": lease.provider, "hostname": name,
            "dseq": group.deployment.dseq, "gseq": group.gseq, "oseq": lease.order.oseq,
            "service_name": "web", "external_port": 80,
        },
    });
    bench.server.put(&host).await
}
