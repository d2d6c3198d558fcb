//! Benchmark of the adoption of a thousand leases that another provider deployed.

use crate::lease::{deployment, settings};
use crate::{Bench, Failed, pick, print};
use akash_provider_core::cluster::Cluster;
use akash_provider_k8s::cluster::KubeCluster;
use akash_provider_k8s::inventory::{CapacityOptions, KubeInventory};
use akash_provider_k8s::labels::{CHAIN_ID, EXTRA, ISOLATION};
use akash_provider_k8s::settings::{Isolation, KubeSettings};
use akash_provider_k8s::write_client::WriteClient;
use akash_provider_kube_model::crd::{Manifest, convert};
use akash_provider_kube_model::objects::{PriorState, render};
use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::NamespaceResourceScope;
use kube::api::PostParams;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

const LEASES: u64 = pick(4, 1_000);
const THEIR_MANAGER: &str = "provider-services";
/// Number of concurrent tasks that create objects.
const MAKERS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) async fn measure(bench: &Bench) -> Result<(), Failed> {
    let settings = settings(2)?;
    let began = Instant::now();
    stream::iter(0..LEASES)
        .map(|dseq| make(&bench.server.admin, &settings, dseq))
        .buffer_unordered(MAKERS)
        .try_collect::<Vec<()>>()
        .await?;
    eprintln!("setup: created {LEASES} leases within {:?}", began.elapsed());
    // Meanwhile the controllers create ReplicaSets and pods.
    sleep(Duration::from_secs(pick(1, 20))).await;

    let client = bench.provider.client()?;
    let before = bench.provider.calls().await?;
    let began = Instant::now();
    let cluster = KubeCluster::connect(WriteClient::without_election(client.clone()), settings.clone())?;
    let _inventory = KubeInventory::start(&client, &settings, &CapacityOptions::default());
    timeout(PATIENCE, cluster.state().ready()).await?;
    let synced = began.elapsed();
    let found = cluster.deployments().await?.deployments;
    let listed = began.elapsed();
    let of_chain = found.len();
    stream::iter(&found)
        .map(|deployment| cluster.deploy(deployment))
        .buffer_unordered(MAKERS)
        .try_collect::<Vec<()>>()
        .await?;
    let ready = began.elapsed();
    if of_chain as u64 != LEASES {
        return Err(format!("adopted {of_chain} of {LEASES} leases").into());
    }
    let calls = bench.provider.since(before).await?;
    eprintln!(
        "caches filled after {synced:?}, leases listed after {listed:?}, every lease deployed unchanged after {ready:?}; API calls: {calls:?}"
    );
    print("k8s_adopt_1000_ready_ms", ready.as_secs_f64() * 1e3, "ms");
    print("k8s_adopt_1000_writes", calls.writes, "writes");
    Ok(())
}

/// Creates the objects of a lease as the Go provider writes them.
async fn make(client: &Client, settings: &KubeSettings, dseq: u64) -> Result<(), Failed> {
    let deployment = deployment(settings, 10_000 + dseq)?;
    let mut manifest = convert::to_manifest(&deployment, settings)?;
    strip(&mut manifest.metadata.annotations);
    let params = PostParams {
        field_manager: Some(THEIR_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let records: Api<Manifest> = Api::namespaced(client.clone(), &settings.manifest_namespace);
    let made = records.create(&params, &manifest).await?;
    let prior = PriorState {
        manifest_version: made.metadata.resource_version.unwrap_or_default(),
        isolation: Isolation::Legacy,
        unchanged: BTreeMap::new(),
    };
    let mut objects = render(&deployment, settings, &prior)?;
    strip(&mut objects.namespace.metadata.annotations);
    Api::all(client.clone())
        .create(&params, &objects.namespace)
        .await?;
    let namespace = deployment.lease.namespace();
    create(client, &namespace, &params, &objects.policies).await?;
    create(client, &namespace, &params, &objects.deployments).await?;
    create(client, &namespace, &params, &objects.services).await
}

fn strip(annotations: &mut Option<BTreeMap<String, String>>) {
    if let Some(annotations) = annotations {
        annotations.retain(|key, _| ![CHAIN_ID, EXTRA, ISOLATION].contains(&key.as_str()));
    }
}

async fn create<K>(client: &Client, namespace: &str, params: &PostParams, objects: &[K]) -> Result<(), Failed>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    for object in objects {
        api.create(params, object).await?;
    }
    Ok(())
}
