//! Objects of one test in a shared cluster: nodes, namespaces and classes with unique names.

use crate::test_cluster::{TestCluster, block_on};
use akash_provider_core::error::Error;
use akash_provider_core::inventory::{InventorySource, InventoryUpdate, NodeMetrics};
use akash_provider_core::types::{Address, DeploymentId, LeaseId};
use akash_provider_k8s::inventory::{CapacityOptions, KubeInventory};
use akash_provider_k8s::settings::KubeSettings;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;
use testbed::Tier;

pub(crate) const GIB: u64 = 1 << 30;
const WAIT_LIMIT: Duration = Duration::from_secs(40);
const MANAGER: &str = "api-tier";

pub(crate) struct Fixture {
    client: Client,
    settings: KubeSettings,
    /// Objects that the test created, in order.
    made: Mutex<Vec<(ApiResource, Option<String>, String)>>,
    suffix: String,
}

/// Runs a test with its own objects, and always deletes them afterwards.
pub(crate) fn run(name: &str, test: impl for<'a> FnOnce(&'a Fixture) -> BoxFuture<'a, ()>) {
    let Some(cluster) = TestCluster::find(Tier::Api) else {
        return;
    };
    let _shared = cluster.shared();
    block_on(async {
        let fixture = Fixture::open(&cluster.kubeconfig, name).await;
        let outcome = AssertUnwindSafe(test(&fixture)).catch_unwind().await;
        fixture.close().await;
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    });
}

fn resource(version: &str, kind: &str) -> ApiResource {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let gvk = GroupVersionKind::gvk(group, version, kind);
    match kind {
        "CSIStorageCapacity" => ApiResource::from_gvk_with_plural(&gvk, "csistoragecapacities"),
        _ => ApiResource::from_gvk(&gvk),
    }
}

impl Fixture {
    async fn open(path: &Path, name: &str) -> Self {
        let kubeconfig = Kubeconfig::read_from(path).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let client = Client::try_from(config.unwrap()).unwrap();
        let number = RandomState::new().hash_one(std::time::SystemTime::now());
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        let mut settings = KubeSettings::new(Address::from_bytes(&bytes).unwrap());
        settings.manifest_namespace = format!("inv-{name}-{:08x}", number as u32);
        let fixture = Self {
            client,
            suffix: format!("{name}-{:08x}", number as u32),
            settings,
            made: Mutex::default(),
        };
        fixture.define().await;
        let namespace = &fixture.settings.manifest_namespace;
        fixture
            .put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
            .await;
        fixture
    }

    /// Installs the Akash record definitions. Never removes them, because other tests use them.
    async fn define(&self) {
        for kind in ["manifests", "providerhosts", "providerleasedips"] {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../deploy/crds/{kind}.yaml"));
            let text = std::fs::read_to_string(file).unwrap();
            for object in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
                self.apply(&object).await;
            }
        }
        let api = self.api(&resource("akash.network/v2beta2", "Manifest"), Some("default"));
        let served = async {
            while api.list(&kube::api::ListParams::default()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(WAIT_LIMIT, served).await.unwrap();
    }

    /// Deletes the created objects in reverse order.
    async fn close(&self) {
        let made = std::mem::take(&mut *self.made.lock().unwrap());
        for (resource, namespace, name) in made.into_iter().rev() {
            let now = DeleteParams::default().grace_period(0);
            let _ = self
                .api(&resource, namespace.as_deref())
                .delete(&name, &now)
                .await;
        }
    }

    fn api(&self, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        }
    }

    async fn apply(&self, object: &Value) -> (ApiResource, Option<String>, String) {
        let text = |at: &str| object.pointer(at).and_then(Value::as_str).map(ToOwned::to_owned);
        let resource = resource(&text("/apiVersion").unwrap(), &text("/kind").unwrap());
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name").unwrap());
        let api = self.api(&resource, namespace.as_deref());
        let params = PatchParams::apply(MANAGER).force();
        // The service account of a namespace is created a moment later.
        let mut tries = 0;
        while let Err(error) = api.patch(&name, &params, &Patch::Apply(object)).await {
            tries += 1;
            assert!(tries < 100, "{name}: {error}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        (resource, namespace, name)
    }

    async fn put(&self, object: Value) {
        let made = self.apply(&object).await;
        self.made.lock().unwrap().push(made);
    }

    async fn status(&self, version: &str, kind: &str, namespace: Option<&str>, name: &str, status: Value) {
        let api = self.api(&resource(version, kind), namespace);
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Returns a name that is unique to this test.
    pub(crate) fn named(&self, name: &str) -> String {
        format!("{name}-{}", self.suffix)
    }

    pub(crate) async fn node(&self, name: &str, allocatable: Value) {
        self.labelled_node(name, allocatable, json!({})).await;
    }

    pub(crate) async fn labelled_node(&self, name: &str, allocatable: Value, mut labels: Value) {
        labels["akash.network"] = json!("true");
        let named = self.named(name);
        self.put(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": named, "labels": labels},
        }))
        .await;
        self.capacity(name, allocatable.clone(), allocatable).await;
        self.ready(name, "True").await;
    }

    pub(crate) async fn capacity(&self, name: &str, capacity: Value, allocatable: Value) {
        let status = json!({"capacity": capacity, "allocatable": allocatable});
        self.status("v1", "Node", None, &self.named(name), status).await;
    }

    pub(crate) async fn ready(&self, name: &str, status: &str) {
        let now = "2026-01-01T00:00:00Z";
        let status = json!({"conditions": [{
            "type": "Ready", "status": status, "reason": "Test", "message": "",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }]});
        self.status("v1", "Node", None, &self.named(name), status).await;
    }

    pub(crate) async fn space(&self, name: &str) {
        let named = self.named(name);
        self.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": named}}))
            .await;
    }

    pub(crate) async fn pod(&self, space: &str, name: &str, node: &str, cpu: &str, labels: &Value) {
        self.pod_in(&self.named(space), name, node, cpu, labels).await;
    }

    pub(crate) async fn pod_in(&self, namespace: &str, name: &str, node: &str, cpu: &str, labels: &Value) {
        self.put(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {
                "nodeName": self.named(node),
                "tolerations": [{"operator": "Exists"}],
                "containers": [
                    {"name": "main", "image": "localhost/none:1", "resources": {"requests": {"cpu": cpu}}},
                ],
            },
        }))
        .await;
    }

    pub(crate) async fn phase(&self, space: &str, name: &str, phase: &str) {
        let status = json!({"phase": phase});
        self.status("v1", "Pod", Some(&self.named(space)), name, status)
            .await;
    }

    /// Deletes a pod with a grace period. Without a kubelet, the pod stays in the terminating state.
    pub(crate) async fn delete_slowly(&self, space: &str, name: &str) {
        let api = self.api(&resource("v1", "Pod"), Some(&self.named(space)));
        api.delete(name, &DeleteParams::default().grace_period(300))
            .await
            .unwrap();
    }

    pub(crate) async fn delete_now(&self, space: &str, name: &str) {
        let api = self.api(&resource("v1", "Pod"), Some(&self.named(space)));
        api.delete(name, &DeleteParams::default().grace_period(0))
            .await
            .unwrap();
    }

    /// Creates the Manifest and the namespace of a lease. Its only service `web` has the resource unit
    /// `unit`.
    pub(crate) async fn lease(&self, unit: u32) -> (LeaseId, String) {
        let owner = Address::from_bytes(&[1; 20]).unwrap();
        let group = DeploymentId::new(owner, 1).group(1);
        let lease = group.order(1).bid(self.settings.provider.clone());
        let space = lease.namespace();
        self.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}))
            .await;
        self.put(json!({
            "apiVersion": "akash.network/v2beta2", "kind": "Manifest",
            "metadata": {
                "name": space, "namespace": self.settings.manifest_namespace,
                "labels": {"akash.network": "true"},
            },
            "spec": {
                "lease_id": {
                    "owner": lease.owner().to_string(), "dseq": "1", "gseq": 1, "oseq": 1,
                    "provider": lease.provider.to_string(),
                },
                "group": {"name": "group", "services": [{
                    "name": "web", "image": "localhost/none:1", "count": 1,
                    "resources": {
                        "id": unit, "cpu": {"units": 1000}, "gpu": {"units": 0}, "memory": {"size": "1"},
                    },
                }]},
            },
        }))
        .await;
        (lease, space)
    }

    pub(crate) fn labels(&self, space: &str, service: &str) -> Value {
        json!({
            "akash.network": "true", "akash.network/namespace": space,
            "akash.network/manifest-service": service,
        })
    }

    pub(crate) async fn delete_record(&self, space: &str) {
        let manifests = resource("akash.network/v2beta2", "Manifest");
        let api = self.api(&manifests, Some(&self.settings.manifest_namespace));
        api.delete(space, &DeleteParams::default()).await.unwrap();
    }

    pub(crate) async fn class(&self, name: &str, provisioner: &str, offered: bool) {
        self.put(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": provisioner,
            "metadata": {"name": self.named(name), "labels": {"akash.network": offered.to_string()}},
        }))
        .await;
    }

    pub(crate) async fn free_storage(&self, class: &str, size: &str) {
        self.put(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
            "metadata": {"name": self.named("free"), "namespace": self.settings.manifest_namespace},
            "storageClassName": self.named(class), "capacity": size, "nodeTopology": {},
        }))
        .await;
    }

    pub(crate) async fn volume(&self, class: &str, size: &str) {
        self.put(json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": self.named("volume")},
            "spec": {
                "storageClassName": self.named(class), "capacity": {"storage": size},
                "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": "example.com", "volumeHandle": "x"},
            },
        }))
        .await;
    }

    pub(crate) fn follow(&self) -> Capacity {
        self.follow_with(&self.client)
    }

    pub(crate) fn follow_unavailable(&self) -> Capacity {
        let nobody = Config::new("http://127.0.0.1:1".parse().unwrap());
        self.follow_with(&Client::try_from(nobody).unwrap())
    }

    fn follow_with(&self, client: &Client) -> Capacity {
        let source = KubeInventory::start(client, &self.settings, &CapacityOptions::default());
        Capacity {
            updates: source.watch(),
            _source: source,
            suffix: self.suffix.clone(),
            last: None,
        }
    }
}

/// Capacity that the provider reports.
pub(crate) struct Capacity {
    updates: BoxStream<'static, Result<InventoryUpdate, Error>>,
    _source: KubeInventory,
    suffix: String,
    last: Option<InventoryUpdate>,
}

impl Capacity {
    pub(crate) const fn update(&self) -> Option<&InventoryUpdate> {
        self.last.as_ref()
    }

    pub(crate) fn node(&self, name: &str) -> Option<NodeMetrics> {
        let name = format!("{name}-{}", self.suffix);
        let nodes = self.update()?.inventory.metrics().nodes;
        nodes.into_iter().find(|n| n.name == name)
    }

    /// Returns the number of replicas of a lease, by resource unit and node.
    pub(crate) fn places(&self, lease: &LeaseId) -> Vec<(u32, String, u32)> {
        let placements = self.update().map_or(&[][..], |u| &u.placements);
        let ours = placements.iter().filter(|p| p.lease == *lease);
        let places = ours.flat_map(|p| &p.places);
        places.map(|p| (p.unit, p.node.to_string(), p.replicas)).collect()
    }

    /// Waits for the first inventory update. Returns the error if the source sends an error first.
    pub(crate) async fn first(&mut self) -> Result<(), String> {
        let update = tokio::time::timeout(WAIT_LIMIT, self.updates.next()).await;
        update.unwrap().unwrap().map(drop).map_err(|e| e.to_string())
    }

    pub(crate) async fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !is_so(self) {
                if let Ok(update) = self.updates.next().await.unwrap() {
                    self.last = Some(update);
                }
            }
        };
        let in_time = tokio::time::timeout(WAIT_LIMIT, waiting).await;
        let waiting = self.last.as_ref();
        let waiting = waiting.map(|u| {
            (
                u.inventory.metrics().nodes,
                u.inventory.explain(&[]).ignored,
                &u.placements,
            )
        });
        assert!(
            in_time.is_ok(),
            "condition not reached in time: {what}; {waiting:?}"
        );
    }
}
