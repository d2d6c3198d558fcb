//! Writes a large cluster directly to an API server: no kubelet, no scheduler, no controller has a part in it.

use crate::{Failed, NODES, PODS, PODS_PER_LEASE, manifest, namespace, node, pod, space_of};
use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Instant;

/// Objects that are written at a time.
const WRITERS: usize = 16;

pub(crate) async fn fill(client: &Client) -> Result<(), Failed> {
    let began = Instant::now();
    let spaces: BTreeSet<String> = (0..PODS).map(space_of).collect();
    let spaces: Vec<_> = spaces.into_iter().collect();
    each(spaces.len(), |n| make_space(client, &spaces[n])).await?;
    each(PODS / 2 / PODS_PER_LEASE, |n| make_lease(client, n)).await?;
    each(NODES, |n| make_node(client, n)).await?;
    each(PODS, |n| make_pod(client, n)).await?;
    let namespaces = spaces.len();
    eprintln!(
        "{NODES} nodes and {PODS} pods in {namespaces} namespaces made in {:?}",
        began.elapsed()
    );
    Ok(())
}

async fn each<F>(count: usize, make: impl Fn(usize) -> F) -> Result<(), Failed>
where
    F: Future<Output = Result<(), Failed>>,
{
    stream::iter((0..count).map(make))
        .buffer_unordered(WRITERS)
        .try_collect()
        .await
}

/// Without its account, which a controller would make, no pod is let in.
async fn make_space(client: &Client, name: &str) -> Result<(), Failed> {
    let params = PostParams::default();
    let space: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    Api::all(client.clone()).create(&params, &space).await?;
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "default"}}))?;
    Api::namespaced(client.clone(), name)
        .create(&params, &account)
        .await?;
    Ok(())
}

async fn make_lease(client: &Client, number: usize) -> Result<(), Failed> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("akash.network", "v2beta2", "Manifest"));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "lease", &resource);
    let object: DynamicObject = serde_json::from_value(manifest(number))?;
    if object.metadata.name != Some(namespace(number)) {
        return Err("a record of another lease".into());
    }
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}

/// Admission closes every node until a controller has seen it.
async fn make_node(client: &Client, number: usize) -> Result<(), Failed> {
    let node: Node = serde_json::from_value(written(node(number)))?;
    let api: Api<Node> = Api::all(client.clone());
    let made = api.create(&PostParams::default(), &node).await?;
    let open = json!({"spec": {"taints": null}});
    let name = made.metadata.name.ok_or("a node without a name")?;
    api.patch(&name, &PatchParams::default(), &Patch::Merge(&open))
        .await?;
    Ok(())
}

async fn make_pod(client: &Client, number: usize) -> Result<(), Failed> {
    let pod: Pod = serde_json::from_value(written(pod(number, "250m")))?;
    let api: Api<Pod> = Api::namespaced(client.clone(), &space_of(number));
    api.create(&PostParams::default(), &pod).await?;
    Ok(())
}

/// The API server itself says who is who and who wrote what.
fn written(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("uid");
        metadata.remove("managedFields");
    }
    object
}
