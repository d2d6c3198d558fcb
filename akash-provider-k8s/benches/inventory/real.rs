//! Benchmark of counting the capacity on a real API server.

use crate::load::PROVIDER;
use crate::{Failed, LOAD, NODES, PODS, SAMPLES, median, operated, peak_mib, print};
use akash_provider_core::inventory::{Inventory, InventorySource};
use akash_provider_k8s::inventory::{
    CapacityOptions, FactChange, InventoryKind, KubeInventory, LeaseFacts, NamespacedName, NodeFacts,
    ObjectFacts, PodFacts, StorageOptions, Tally,
};
use akash_provider_k8s::settings::KubeSettings;
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use http::Request;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{DynamicObject, ObjectList, WatchEvent};
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::fmt::Debug;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Maximum duration of each wait in this benchmark.
const PATIENCE: Duration = Duration::from_secs(120);
/// Number of objects per page, as in the inventory source.
const PAGE: usize = 250;

pub(crate) struct BenchOptions {
    /// Whether to write the objects of the large cluster to the API server first.
    pub(crate) fill: bool,
    /// Whether to measure the inventory operator. Otherwise, the inventory of a provider is measured.
    pub(crate) operator: bool,
    /// Whether this process only changes pods, while another process measures.
    pub(crate) change: bool,
}

pub(crate) async fn measure(file: &Path, options: BenchOptions) -> Result<(), Failed> {
    let filled = options.fill;
    let kubeconfig = Kubeconfig::read_from(file)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    if options.change {
        return operated::change(&client).await;
    }
    if filled {
        LOAD.fill(&client, |_, node| node).await?;
    }
    if options.operator {
        return operated::measure(&client, file).await;
    }
    followed(&client, filled).await?;
    if filled {
        counted(&client).await?;
    }
    Ok(())
}

/// Starts the inventory source, and measures the peak memory and the time until the first update.
async fn followed(client: &Client, filled: bool) -> Result<(), Failed> {
    let settings = KubeSettings::new(PROVIDER.parse()?);
    let began = Instant::now();
    let source = KubeInventory::start(client, &settings, &CapacityOptions::default());
    let mut updates = source.watch();
    let first = async {
        loop {
            match updates.next().await {
                Some(Ok(update)) => return Ok(update),
                Some(Err(error)) => eprintln!("{error}"),
                None => return Err("the source ended"),
            }
        }
    };
    let update = timeout(PATIENCE, first).await??;
    let took = began.elapsed();
    let (nodes, leases) = (update.inventory.metrics().nodes.len(), update.placements.len());
    eprintln!("the first inventory update has {nodes} nodes and the pods of {leases} leases");
    if filled && (nodes, leases) != (NODES, LOAD.leases()) {
        return Err("the counts differ from the written objects".into());
    }
    print("inventory_first_update_ms", took.as_secs_f64() * 1e3, "ms");
    print("inventory_rss_mib", peak_mib()?, "MiB");
    Ok(())
}

/// Lists all objects and counts the capacity. Then measures the time of an update and of a complete snapshot.
async fn counted(client: &Client) -> Result<(), Failed> {
    let settings = KubeSettings::new(PROVIDER.parse()?);
    let mut tally = Tally::new(StorageOptions::default());
    pages::<Node>(client, "/api/v1/nodes", |node| {
        tally.apply(FactChange::Set(
            NamespacedName::new("", name(&node)),
            node_fact(&node)?,
        ));
        Ok(())
    })
    .await?;
    let records = "/apis/akash.network/v2beta2/namespaces/lease/manifests";
    pages::<DynamicObject>(client, records, |object| {
        let facts = LeaseFacts::from_object(&object, &settings)?.ok_or("lease of another provider")?;
        tally.apply(FactChange::Set(
            NamespacedName::new("", name(&object)),
            ObjectFacts::Lease(facts),
        ));
        Ok(())
    })
    .await?;
    let version = pages::<Pod>(client, "/api/v1/pods", |pod| {
        tally.apply(pod_change(&pod));
        Ok(())
    })
    .await?;
    let first = tally.snapshot();
    let nodes = first.inventory.metrics().nodes.len();
    if nodes != NODES {
        return Err(format!("unexpected count: {nodes} nodes").into());
    }
    let update = updates_us(client, &mut tally, &version).await?;
    print("inventory_update_us", update, "us");
    print("inventory_snapshot_5000_ms", crate::rebuild_ms(&mut tally)?, "ms");
    Ok(())
}

fn name<K: Resource>(object: &K) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

fn node_fact(object: &Node) -> Result<ObjectFacts, Failed> {
    let facts = NodeFacts::from_object(object).ok_or("node without a name")?;
    Ok(ObjectFacts::Node(facts))
}

fn pod_change(pod: &Pod) -> FactChange {
    let meta = &pod.metadata;
    let key = NamespacedName::new(meta.namespace.as_deref().unwrap_or_default(), name(pod));
    match PodFacts::from_object(pod) {
        Some(facts) => FactChange::Set(key, ObjectFacts::Pod(facts)),
        None => FactChange::Gone(InventoryKind::Pod, key, meta.uid.as_deref().map(Into::into)),
    }
}

/// Reads a list page by page and returns the resource version of the list.
async fn pages<T>(
    client: &Client,
    path: &str,
    mut take: impl FnMut(T) -> Result<(), Failed>,
) -> Result<String, Failed>
where
    T: DeserializeOwned + Clone + Debug,
{
    let mut token = String::new();
    loop {
        let request = Request::get(format!("{path}?limit={PAGE}&continue={token}")).body(Vec::new())?;
        let list: ObjectList<T> = client.request(request).await?;
        list.items.into_iter().try_for_each(&mut take)?;
        match list.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => token = next,
            None => return Ok(list.metadata.resource_version.unwrap_or_default()),
        }
    }
}

/// Returns the median time to update the whole inventory after the watch event of a finished pod, in
/// microseconds.
async fn updates_us(client: &Client, tally: &mut Tally, version: &str) -> Result<f64, Failed> {
    let path = format!("/api/v1/pods?watch=true&resourceVersion={version}");
    let request = Request::get(path).body(Vec::new())?;
    let lines = client.request_stream(request).await?;
    let mut lines = Box::pin(lines.lines());
    let mut samples = Vec::with_capacity(SAMPLES);
    for sample in 0..SAMPLES {
        let number = (sample * 7_919) % PODS;
        end(client, number).await?;
        let line = timeout(PATIENCE, lines.try_next())
            .await??
            .ok_or("the watch ended")?;
        let began = Instant::now();
        let event: WatchEvent<Pod> = serde_json::from_str(&line)?;
        let (WatchEvent::Modified(pod) | WatchEvent::Added(pod)) = event else {
            return Err(format!("unexpected event: {line}").into());
        };
        tally.apply(pod_change(&pod));
        black_box(tally.snapshot());
        samples.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(samples))
}

async fn end(client: &Client, number: usize) -> Result<(), Failed> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &LOAD.space_of(number));
    let ended = json!({"status": {"phase": "Succeeded"}});
    api.patch_status(
        &format!("web-{number}"),
        &PatchParams::default(),
        &Patch::Merge(&ended),
    )
    .await?;
    Ok(())
}
