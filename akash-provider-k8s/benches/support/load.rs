//! Objects of a large cluster, written directly to an API server, without kubelets, scheduler or controllers.

use crate::Failed;
use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Instant;

pub(crate) const PROVIDER: &str = "akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0";
const OWNER: &str = "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh";
/// Number of concurrent writes.
const WRITERS: usize = 32;

/// Size of the cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) nodes: usize,
    pub(crate) pods: usize,
    /// Number of pods of each lease. Only half of all pods belong to leases.
    pub(crate) pods_per_lease: usize,
}

impl Load {
    pub(crate) const fn leases(&self) -> usize {
        self.pods / 2 / self.pods_per_lease
    }

    /// Writes the namespaces, leases, nodes and pods. `dressed` can change a node before the write.
    pub(crate) async fn fill(
        &self,
        client: &Client,
        dressed: impl Fn(usize, Value) -> Value,
    ) -> Result<(), Failed> {
        let began = Instant::now();
        let spaces: BTreeSet<String> = (0..self.pods).map(|pod| self.space_of(pod)).collect();
        let spaces: Vec<_> = spaces.into_iter().collect();
        each(spaces.len(), |n| make_space(client, &spaces[n])).await?;
        each(self.leases(), |n| self.make_lease(client, n)).await?;
        each(self.nodes, |n| make_node(client, dressed(n, node(n)))).await?;
        each(self.pods, |n| self.make_pod(client, n)).await?;
        eprintln!(
            "{} nodes and {} pods in {} namespaces made in {:?}",
            self.nodes,
            self.pods,
            spaces.len(),
            began.elapsed()
        );
        Ok(())
    }

    pub(crate) fn pod(&self, number: usize, cpu: &str) -> Value {
        let environment: Vec<_> = (0..20)
            .map(|n| json!({"name": format!("VARIABLE_{n}"), "value": "value"}))
            .collect();
        let namespace = self.space_of(number);
        json!({
            "metadata": {
                "name": format!("web-{number}"), "namespace": namespace, "uid": format!("uid-{number}"),
                "labels": {
                    "akash.network": "true", "akash.network/namespace": namespace,
                    "akash.network/manifest-service": "web",
                },
                "managedFields": managed(),
            },
            "spec": {"nodeName": node_name(number % self.nodes), "containers": [{
                "name": "web", "image": "registry.example.com/image:1", "env": environment,
                "resources": {"requests": {"cpu": cpu, "memory": "512Mi", "ephemeral-storage": "1Gi"}},
            }]},
            "status": {"phase": "Running"},
        })
    }

    pub(crate) fn manifest(&self, lease: usize) -> Value {
        json!({
            "apiVersion": "akash.network/v2beta2", "kind": "Manifest",
            "metadata": {"name": namespace(lease), "namespace": "lease", "labels": {"akash.network": "true"}},
            "spec": {
                "lease_id": {
                    "owner": OWNER, "dseq": (lease + 1).to_string(), "gseq": 1, "oseq": 1, "provider": PROVIDER,
                },
                "group": {"name": "g", "services": [{
                    "name": "web", "image": "i", "count": self.pods_per_lease,
                    "resources": {"id": 1, "cpu": {"units": 250}, "gpu": {"units": 0}, "memory": {"size": "1"}},
                }]},
            },
        })
    }

    pub(crate) fn space_of(&self, pod: usize) -> String {
        if pod.is_multiple_of(2) {
            namespace(pod / 2 / self.pods_per_lease)
        } else {
            format!("team-{}", pod % 100)
        }
    }

    async fn make_lease(&self, client: &Client, number: usize) -> Result<(), Failed> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("akash.network", "v2beta2", "Manifest"));
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "lease", &resource);
        let object: DynamicObject = serde_json::from_value(self.manifest(number))?;
        if object.metadata.name != Some(namespace(number)) {
            return Err("record of another lease".into());
        }
        api.create(&PostParams::default(), &object).await?;
        Ok(())
    }

    async fn make_pod(&self, client: &Client, number: usize) -> Result<(), Failed> {
        let pod: Pod = serde_json::from_value(written(self.pod(number, "250m")))?;
        let api: Api<Pod> = Api::namespaced(client.clone(), &self.space_of(number));
        api.create(&PostParams::default(), &pod).await?;
        Ok(())
    }
}

/// Runs `make` for each number below `count`, at most [`WRITERS`] of them concurrently.
pub(crate) async fn each<F>(count: usize, make: impl Fn(usize) -> F) -> Result<(), Failed>
where
    F: Future<Output = Result<(), Failed>>,
{
    stream::iter((0..count).map(make))
        .buffer_unordered(WRITERS)
        .try_collect()
        .await
}

/// Creates a namespace with the default ServiceAccount that pods need.
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

/// Creates a node without the taint that the API server adds to new nodes.
async fn make_node(client: &Client, object: Value) -> Result<(), Failed> {
    let node: Node = serde_json::from_value(written(object))?;
    let api: Api<Node> = Api::all(client.clone());
    let made = api.create(&PostParams::default(), &node).await?;
    let open = json!({"spec": {"taints": null}});
    let name = made.metadata.name.ok_or("node without a name")?;
    api.patch(&name, &PatchParams::default(), &Patch::Merge(&open))
        .await?;
    Ok(())
}

/// Removes metadata that the API server assigns.
fn written(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("uid");
        metadata.remove("managedFields");
    }
    object
}

/// Returns a realistic node: many labels, fifty images, and GPUs in every tenth node.
pub(crate) fn node(number: usize) -> Value {
    let mut labels = json!({
        "akash.network": "true", "kubernetes.io/hostname": node_name(number),
        "akash.network/capabilities.storage.class.beta3": "1",
    });
    for n in 0..30 {
        labels[format!("feature.node.kubernetes.io/cpu-cpuid.FEATURE{n}")] = json!("true");
    }
    let mut amounts = json!({"cpu": "32", "memory": "128Gi", "ephemeral-storage": "1Ti", "pods": "110"});
    if number.is_multiple_of(10) {
        labels["akash.network/capabilities.gpu.vendor.nvidia.model.a100"] = json!("8");
        labels["akash.network/capabilities.gpu.vendor.nvidia.model.a100.ram.80Gi"] = json!("8");
        amounts["nvidia.com/gpu"] = json!("8");
    }
    let images: Vec<_> = (0..50)
        .map(|n| json!({"names": [format!("registry.example.com/team/image-{n}@sha256:{n:064}")], "sizeBytes": n}))
        .collect();
    json!({
        "metadata": {"name": node_name(number), "labels": labels, "managedFields": managed()},
        "status": {
            "allocatable": amounts, "capacity": amounts, "images": images,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    })
}

/// Returns two kilobytes of managed fields, as real objects have.
fn managed() -> Value {
    let fields: serde_json::Map<_, _> = (0..60)
        .map(|n| (format!("f:field-of-an-object-{n}"), json!({})))
        .collect();
    json!([{"manager": "kubelet", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}])
}

pub(crate) fn node_name(number: usize) -> String {
    format!("node-{number:05}.example.com")
}

pub(crate) fn namespace(lease: usize) -> String {
    let id = format!("{OWNER}/{}/1/1/{PROVIDER}", lease + 1);
    let id: Result<akash_provider_core::types::LeaseId, _> = id.parse();
    id.map(|id| id.namespace()).unwrap_or_default()
}
