//! A real API server, and trials on it.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::core::ApiResource;
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const MANAGER: &str = "akash-provider";

/// The cluster of `AKASH_TEST_KUBECONFIG`.
pub(crate) struct Cluster {
    client: Client,
}

/// A namespace in which objects are tried.
pub(crate) struct Trial {
    client: Client,
    pub(crate) namespace: String,
}

static TRIALS: AtomicUsize = AtomicUsize::new(0);

impl Cluster {
    /// `None`, and a line that says so, where there is none.
    pub(crate) async fn from_env() -> Option<Self> {
        let Some(path) = std::env::var_os("AKASH_TEST_KUBECONFIG") else {
            println!("skipped: AKASH_TEST_KUBECONFIG names no cluster");
            return None;
        };
        let file = Kubeconfig::read_from(path).unwrap();
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
            .await
            .unwrap();
        Some(Self {
            client: Client::try_from(config).unwrap(),
        })
    }

    /// Installs definitions and waits until they are served.
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

    /// A namespace as rendered, under a name of its own and without our label, so that nobody takes it for a lease.
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
    /// Applies objects as a trial; each is stored as it was sent.
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

    /// Creates an object as a trial.
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

    /// Creates one of our kinds from JSON as a trial; the answer as it would be stored.
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

    /// Removes the namespace.
    pub(crate) async fn end(self) {
        let api: Api<Namespace> = Api::all(self.client);
        api.delete(&self.namespace, &kube::api::DeleteParams::default())
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

/// The first place where `stored` does not have what `sent` has.
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
