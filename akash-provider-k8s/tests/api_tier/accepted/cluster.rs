//! A real API server, and namespaces for dry runs.

use crate::test_cluster::TestCluster;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Event, Namespace, Pod, ResourceQuota};
use k8s_openapi::api::node::v1::{Overhead, RuntimeClass};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::core::ApiResource;
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testbed::{ClusterLock, Tier};

const MANAGER: &str = "akash-provider";

/// A cluster, locked so that no other test can disturb it.
pub(crate) struct Cluster {
    client: Client,
    _whole: Option<ClusterLock>,
}

/// A namespace for dry runs.
pub(crate) struct Trial {
    client: Client,
    pub(crate) namespace: String,
}

static TRIALS: AtomicUsize = AtomicUsize::new(0);

impl Cluster {
    /// Connects to the cluster. Without a running cluster, prints a line and returns `None`.
    pub(crate) async fn from_env() -> Option<Self> {
        let cluster = TestCluster::find(Tier::Api)?;
        let file = Kubeconfig::read_from(&cluster.kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
            .await
            .unwrap();
        Some(Self {
            client: Client::try_from(config).unwrap(),
            _whole: cluster.shared(),
        })
    }

    /// Installs custom resource definitions. Waits until the API server serves the resources.
    pub(crate) async fn install(&self, definitions: Vec<CustomResourceDefinition>) {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for definition in definitions {
            let name = definition.name_any();
            let params = PatchParams::apply(MANAGER).force();
            api.patch(&name, &params, &Patch::Apply(&definition))
                .await
                .unwrap();
            let established = kube::runtime::conditions::is_crd_established();
            let served = kube::runtime::wait::await_condition(api.clone(), &name, established);
            tokio::time::timeout(Duration::from_secs(30), served)
                .await
                .unwrap()
                .unwrap();
        }
    }

    /// Creates a runtime class with this overhead per pod.
    pub(crate) async fn runtime_class(&self, cpu: &str, memory: &str) -> String {
        let name = format!("trial-{}", std::process::id());
        let overhead = [("cpu", cpu), ("memory", memory)];
        let overhead = overhead.map(|(key, amount)| (key.to_owned(), Quantity(amount.to_owned())));
        let class = RuntimeClass {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                ..ObjectMeta::default()
            },
            handler: "runc".to_owned(),
            overhead: Some(Overhead {
                pod_fixed: Some(overhead.into()),
            }),
            ..RuntimeClass::default()
        };
        let api: Api<RuntimeClass> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &class).await.unwrap();
        name
    }

    pub(crate) async fn remove_runtime_class(&self, name: &str) {
        let api: Api<RuntimeClass> = Api::all(self.client.clone());
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Copies the rendered namespace under another name, without the provider's label, so that no provider
    /// treats the copy as a lease.
    pub(crate) async fn trial(&self, rendered: &Namespace) -> Trial {
        let number = TRIALS.fetch_add(1, Ordering::Relaxed);
        let name = format!("trial-{}-{number}", std::process::id());
        let mut labels = rendered.labels().clone();
        labels.remove(akash_provider_k8s::labels::MANAGED);
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some(labels),
                annotations: rendered.metadata.annotations.clone(),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let api: Api<Namespace> = Api::all(self.client.clone());
        let params = PatchParams::apply(MANAGER);
        let stored = api
            .patch(&name, &params, &Patch::Apply(&namespace))
            .await
            .unwrap();
        subset(&name, &namespace, &stored);
        Trial {
            client: self.client.clone(),
            namespace: name,
        }
    }
}

impl Trial {
    /// Applies objects as a dry run. Asserts that the response contains all sent fields.
    pub(crate) async fn all<K>(&self, case: &str, objects: &[K])
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        for object in objects {
            let mut object = object.clone();
            object.meta_mut().namespace = Some(self.namespace.clone());
            let params = PatchParams::apply(MANAGER).dry_run();
            let name = format!("{case}: {} {}", K::kind(&()), object.name_any());
            let patch = api
                .patch(&object.name_any(), &params, &Patch::Apply(&object))
                .await;
            let stored = patch.unwrap_or_else(|error| panic!("{name}: {error}"));
            subset(&name, &object, &stored);
        }
    }

    /// Creates an object as a dry run. Returns an error with the reason if the API server refuses the object.
    pub(crate) async fn created<K>(&self, case: &str, object: &K) -> Result<(), String>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut object = object.clone();
        object.meta_mut().namespace = Some(self.namespace.clone());
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let outcome = api.create(&params, &object).await;
        outcome.map(drop).map_err(|error| format!("{case}: {error}"))
    }

    pub(crate) async fn value(&self, kind: &str, value: &Value) -> Value {
        let resource = ApiResource {
            group: "akash.network".to_owned(),
            version: "v2beta2".to_owned(),
            api_version: "akash.network/v2beta2".to_owned(),
            kind: kind.to_owned(),
            plural: format!("{}s", kind.to_lowercase()),
        };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        let mut object: DynamicObject = serde_json::from_value(value.clone()).unwrap();
        object.metadata.namespace = Some(self.namespace.clone());
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        serde_json::to_value(api.create(&params, &object).await.unwrap()).unwrap()
    }

    /// Applies an object, not as a dry run.
    pub(crate) async fn apply<K>(&self, object: &K)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut object = object.clone();
        object.meta_mut().namespace = Some(self.namespace.clone());
        object.meta_mut().labels = None;
        let params = PatchParams::apply(MANAGER);
        api.patch(&object.name_any(), &params, &Patch::Apply(&object))
            .await
            .unwrap();
    }

    /// Waits until the API server enforces the quota.
    pub(crate) async fn quota_counts(&self) {
        let api: Api<ResourceQuota> = Api::namespaced(self.client.clone(), &self.namespace);
        self.until("enforcement of the quota", async || {
            let quotas = api.list(&ListParams::default()).await.unwrap();
            let counted = quotas
                .items
                .iter()
                .filter_map(|quota| quota.status.as_ref()?.used.as_ref());
            counted.count() == 1
        })
        .await;
    }

    /// Binds the current pods to a missing node, so that they terminate slowly.
    pub(crate) async fn pods_end_slowly(&self) {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        for pod in api.list(&ListParams::default()).await.unwrap().items {
            if pod.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let name = pod.name_any();
            let binding = serde_json::json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "nowhere"},
            });
            let params = PostParams::default();
            let bound: Value = api
                .create_subresource("binding", &name, &params, &binding)
                .await
                .unwrap();
            assert_eq!(bound["status"], "Success", "{bound}");
        }
    }

    /// Marks each pod as ready, until the namespace has exactly `count` pods of this version and `ending`
    /// terminating pods.
    pub(crate) async fn pods_of(&self, version: &str, count: usize, ending: usize) {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        self.until("the pods of the version", async || {
            let pods = api.list(&ListParams::default()).await.unwrap().items;
            let wanted = |pod: &&Pod| {
                let label = akash_provider_k8s::labels::MANIFEST_VERSION;
                pod.labels().get(label).map(String::as_str) == Some(version)
            };
            for pod in &pods {
                let ready = serde_json::json!({ "type": "Ready", "status": "True" });
                let status = serde_json::json!({ "status": { "phase": "Running", "conditions": [ready] } });
                let patch = Patch::Merge(status);
                match api
                    .patch_status(&pod.name_any(), &PatchParams::default(), &patch)
                    .await
                {
                    Ok(_) => {}
                    Err(kube::Error::Api(error)) if error.code == 404 => {}
                    Err(error) => panic!("{error}"),
                }
            }
            let end = pods
                .iter()
                .filter(|pod| pod.metadata.deletion_timestamp.is_some());
            pods.len() == count + ending
                && end.count() == ending
                && pods.iter().filter(wanted).count() == count
        })
        .await;
    }

    /// Waits for a Kubernetes event that contains this text.
    pub(crate) async fn event(&self, words: &str) {
        let api: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        self.until(words, async || {
            let events = api.list(&ListParams::default()).await.unwrap().items;
            let mut messages = events.iter().filter_map(|event| event.message.as_deref());
            messages.any(|message| message.contains(words))
        })
        .await;
    }

    async fn until(&self, what: &str, mut done: impl AsyncFnMut() -> bool) {
        for _ in 0..300 {
            if done().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{what}: not within 30 seconds in {}", self.namespace);
    }

    /// Deletes the namespace.
    pub(crate) async fn end(self) {
        let api: Api<Namespace> = Api::all(self.client);
        api.delete(&self.namespace, &DeleteParams::default())
            .await
            .unwrap();
    }
}

fn subset(name: &str, sent: &impl Serialize, stored: &impl Serialize) {
    let (sent, stored) = (
        serde_json::to_value(sent).unwrap(),
        serde_json::to_value(stored).unwrap(),
    );
    if let Some(pointer) = missing(&sent, &stored) {
        let at = |value: &Value| value.pointer(&pointer).map(ToString::to_string);
        panic!(
            "{name}: {pointer} was sent as {:?} and stored as {:?}",
            at(&sent),
            at(&stored)
        );
    }
}

/// Returns the path of the first value in `sent` that `stored` lacks.
pub(crate) fn missing(sent: &Value, stored: &Value) -> Option<String> {
    match (sent, stored) {
        (Value::Object(sent), Value::Object(stored)) => sent.iter().find_map(|(key, value)| {
            let key_text = key.replace('~', "~0").replace('/', "~1");
            let at = format!("/{key_text}");
            stored.get(key).map_or_else(
                || Some(at.clone()),
                |stored| missing(value, stored).map(|rest| format!("{at}{rest}")),
            )
        }),
        (Value::Array(sent), Value::Array(stored)) if sent.len() == stored.len() => {
            let mut pairs = sent.iter().zip(stored).enumerate();
            pairs.find_map(|(n, (sent, stored))| missing(sent, stored).map(|rest| format!("/{n}{rest}")))
        }
        _ => (sent != stored).then(String::new),
    }
}
