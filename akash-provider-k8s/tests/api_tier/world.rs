//! Objects of one test in a shared cluster.
//!
//! Length: one fixture for all tests of the tier, in many short functions.

use crate::test_cluster::{self, TestCluster, block_on};
use akash_provider_core::cluster::{Cluster, Teardown, WorkloadSpec};
use akash_provider_core::manifest::{Credentials, Group, Permissions, Service, ServiceExpose, ServiceParams};
use akash_provider_core::types::{Address, Cpu, DeploymentId, Gpu, LeaseId, Memory, Resources, Storage};
use akash_provider_k8s::cluster::KubeCluster;
use akash_provider_k8s::labels;
use akash_provider_k8s::settings::KubeSettings;
use akash_provider_k8s::write_client::WriteClient;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use futures::stream::StreamExt;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;
use testbed::{Testbed, Tier};
use tokio::sync::OnceCell;

/// Maximum wait for a condition. With many tests, the namespace controller needs a minute.
const WAIT_LIMIT: Duration = Duration::from_secs(110);

/// Namespaces that all tests read: API server addresses in `default`, node heartbeats in `kube-node-lease`.
const SHARED: [&str; 2] = ["default", "kube-node-lease"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) path: String,
}

impl Call {
    /// Returns `true` for a watch, or for the list before a watch.
    fn is_of_watches(&self) -> bool {
        self.method == "GET" && (self.path.contains("watch=") || self.path.contains("resourceVersion"))
    }

    /// Returns `true` for a request about the rights of the ServiceAccount.
    fn is_review(&self) -> bool {
        self.path.contains("selfsubject") || self.path.contains("dryRun=All")
    }
}

/// Fixture of one test.
pub(crate) struct World {
    /// Client with all rights, only for setup and assertions.
    pub(crate) admin: Client,
    /// Client with the ServiceAccount of the provider. Its calls are recorded.
    pub(crate) client: Client,
    pub(crate) settings: KubeSettings,
    config: Config,
    calls: Arc<Mutex<Vec<Call>>>,
    fault: Arc<Mutex<Option<Fault>>>,
}

/// Runs a test with its own namespaces, and always deletes them afterwards.
pub(crate) fn run(name: &str, test: impl for<'a> FnOnce(&'a World) -> BoxFuture<'a, ()>) {
    let Some(place) = TestCluster::find(Tier::Api) else {
        return;
    };
    let _shared = place.shared();
    in_world(&place.kubeconfig, name, test);
}

/// Runs a test as [`run`] does, with exclusive access to the cluster. The test must restore any parts that it
/// breaks.
pub(crate) fn run_alone(name: &str, test: impl for<'a> FnOnce(&'a World, Arc<Testbed>) -> BoxFuture<'a, ()>) {
    if std::env::var_os(test_cluster::NAMED).is_some() {
        println!(
            "skipped: {} names a cluster that tests must not break",
            test_cluster::NAMED
        );
        return;
    }
    let Some((testbed, _alone)) = Testbed::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    let testbed = Arc::new(testbed);
    in_world(&testbed.kubeconfig(), name, |world| {
        test(world, Arc::clone(&testbed))
    });
}

fn in_world(config: &Path, name: &str, test: impl for<'a> FnOnce(&'a World) -> BoxFuture<'a, ()>) {
    static LOG: Once = Once::new();
    LOG.call_once(|| {
        if std::env::var_os("RUST_LOG").is_some() {
            tracing_subscriber::fmt()
                .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
                .init();
        }
    });
    block_on(async {
        let world = World::open(config, name).await;
        let outcome = AssertUnwindSafe(test(&world)).catch_unwind().await;
        world.close().await;
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    });
}

/// Kubeconfigs of the clusters with installed record kinds.
static KINDS: Mutex<BTreeMap<PathBuf, Arc<OnceCell<()>>>> = Mutex::new(BTreeMap::new());

/// Plural names of the record kinds.
const RECORDS: [&str; 3] = ["manifests", "providerhosts", "providerleasedips"];

pub(crate) async fn define(admin: &Client) {
    for kind in RECORDS {
        for document in documents(&format!("crds/{kind}.yaml")) {
            put(admin, &document, "api-tier").await;
        }
    }
}

/// Deletes the definitions of all record kinds, and thus all records.
pub(crate) async fn undefine(admin: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(admin.clone());
    let names = RECORDS.map(|kind| format!("{kind}.akash.network"));
    for name in &names {
        definitions.delete(name, &DeleteParams::default()).await.unwrap();
    }
    let deleted = async {
        for name in &names {
            while definitions.get_opt(name).await.unwrap().is_some() {
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
        }
    };
    let deleted = tokio::time::timeout(WAIT_LIMIT, deleted).await;
    deleted.expect("the definitions are not deleted");
}

/// Deletes a namespace and removes its finalizers. Returns `true` if the API server accepts the deletion.
async fn clear_away(namespaces: &Api<Namespace>, name: &str) -> bool {
    let finalizers = json!({"metadata": {"finalizers": null}});
    let _ = namespaces
        .patch(name, &PatchParams::default(), &Patch::Merge(&finalizers))
        .await;
    let deleted = namespaces.delete(name, &DeleteParams::default()).await;
    !deleted.is_err_and(|e| !matches!(&e, kube::Error::Api(s) if matches!(s.code, 404 | 409)))
}

fn unique() -> u64 {
    RandomState::new().hash_one(std::time::SystemTime::now())
}

async fn config(path: &Path) -> Config {
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap()
}

fn documents(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_saphyr::from_multiple(&text).unwrap()
}

/// Creates or updates an object of any kind.
pub(crate) async fn put(client: &Client, object: &Value, manager: &str) {
    let (version, kind) = (
        object["apiVersion"].as_str().unwrap(),
        object["kind"].as_str().unwrap(),
    );
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let name = object["metadata"]["name"].as_str().unwrap();
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let params = PatchParams::apply(manager).force();
    let applied = api.patch(name, &params, &Patch::Apply(object)).await;
    applied.unwrap_or_else(|e| panic!("{kind} {name}: {e}"));
}

impl World {
    async fn open(path: &Path, name: &str) -> Self {
        let config = config(path).await;
        let admin = Client::try_from(config.clone()).unwrap();
        // Once per process: the server validates a definition also if it is unchanged.
        let kinds = Arc::clone(KINDS.lock().unwrap().entry(path.to_owned()).or_default());
        kinds.get_or_init(|| define(&admin)).await;
        let number = unique();
        let namespace = format!("{name}-{:08x}", number as u32);
        let labelled = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        put(&admin, &labelled, "api-tier").await;
        let rights = rights(&namespace);
        join_all(rights.iter().map(|document| put(&admin, document, "api-tier"))).await;
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        let mut settings = KubeSettings::new(Address::from_bytes(&bytes).unwrap());
        settings.manifest_namespace.clone_from(&namespace);
        settings.chain_id = "api-tier".to_owned();
        settings.public_hostname = "provider.localhost".to_owned();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let fault = Arc::new(Mutex::new(None));
        let client = with_token(config.clone(), &admin, &namespace, "akash-provider").await;
        let client = counted(client, &calls, &fault);
        let world = Self {
            admin,
            client,
            settings,
            config,
            calls,
            fault,
        };
        // The API server serves a kind a moment after its definition.
        world
            .until("the kinds are served", || async { world.lists_manifests().await })
            .await;
        world
    }

    async fn lists_manifests(&self) -> bool {
        let api: Api<akash_provider_kube_model::crd::Manifest> =
            Api::namespaced(self.client.clone(), &self.settings.manifest_namespace);
        api.list(&ListParams::default()).await.is_ok()
    }

    async fn close(&self) {
        let namespaces: Api<Namespace> = Api::all(self.admin.clone());
        let provider = format!("{}={}", labels::LEASE_PROVIDER, self.settings.provider);
        let leases = namespaces
            .list(&ListParams::default().labels(&provider))
            .await
            .unwrap();
        let own = self.settings.manifest_namespace.clone();
        let names = leases
            .items
            .into_iter()
            .filter_map(|n| n.metadata.name)
            .chain([own.clone()]);
        join_all(names.map(async |name| {
            // A deleted admission policy stays in force for another moment.
            self.until("its namespaces end", || clear_away(&namespaces, &name))
                .await;
        }))
        .await;
        let role = format!("akash-provider-{own}");
        let bind = format!("akash-provider-rs-bind-{own}");
        let (bindings, roles): (Api<ClusterRoleBinding>, Api<ClusterRole>) =
            (Api::all(self.admin.clone()), Api::all(self.admin.clone()));
        let shared_bindings = SHARED.map(|shared| Api::<RoleBinding>::namespaced(self.admin.clone(), shared));
        let shared_roles = SHARED.map(|shared| Api::<Role>::namespaced(self.admin.clone(), shared));
        let policies = ["ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"]
            .map(|kind| Api::<DynamicObject>::all_with(self.admin.clone(), &resource(kind)));
        let now = DeleteParams::default();
        let _ = tokio::join!(
            join_all(policies.iter().map(|policies| policies.delete(&role, &now))),
            bindings.delete(&role, &now),
            roles.delete(&role, &now),
            bindings.delete(&bind, &now),
            roles.delete(&bind, &now),
            join_all(
                shared_bindings
                    .iter()
                    .map(|bindings| bindings.delete(&role, &now))
            ),
            join_all(shared_roles.iter().map(|roles| roles.delete(&role, &now))),
        );
    }

    pub(crate) async fn connect(&self) -> Arc<KubeCluster> {
        self.connect_with(self.settings.clone()).await
    }

    pub(crate) async fn connect_with(&self, settings: KubeSettings) -> Arc<KubeCluster> {
        let cluster =
            KubeCluster::connect(WriteClient::without_election(self.client.clone()), settings).unwrap();
        let ready = tokio::time::timeout(WAIT_LIMIT, cluster.state().ready()).await;
        ready.unwrap_or_else(|_| panic!("not ready: {:?}", cluster.state().watches()));
        self.until("events are watched", || async { cluster.state().sees_events() })
            .await;
        cluster
    }

    /// Returns a client with another ServiceAccount of the test. Its calls are recorded.
    pub(crate) async fn client_of(&self, account: &str) -> Client {
        let namespace = &self.settings.manifest_namespace;
        let config = with_token(self.config.clone(), &self.admin, namespace, account).await;
        counted(config, &self.calls, &self.fault)
    }

    /// Returns the recorded calls except those of watches, and clears all recorded calls.
    pub(crate) fn take_calls(&self) -> Vec<Call> {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap());
        let mut calls: Vec<_> = calls.into_iter().filter(|c| !c.is_of_watches()).collect();
        calls.retain(|call| !call.is_review());
        calls
    }

    /// Returns the recorded writes, and clears all recorded calls.
    pub(crate) fn take_writes(&self) -> Vec<Call> {
        let mut calls = self.take_calls();
        calls.retain(|call| call.method != "GET");
        calls
    }

    /// Injects a fault into the provider's connection. `None` restores the connection.
    pub(crate) fn break_line(&self, fault: Option<Fault>) {
        *self.fault.lock().unwrap() = fault;
    }

    pub(crate) async fn until<F>(&self, what: &str, mut is_so: impl FnMut() -> F)
    where
        F: Future<Output = bool>,
    {
        let so = async {
            while !is_so().await {
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
        };
        assert!(
            tokio::time::timeout(WAIT_LIMIT, so).await.is_ok(),
            "condition not reached in time: {what}"
        );
    }

    pub(crate) fn lease(&self, tenant: u8, dseq: u64) -> LeaseId {
        let owner = Address::from_bytes(&[tenant; 20]).unwrap();
        let group = DeploymentId::new(owner, dseq).group(1);
        group.order(1).bid(self.settings.provider.clone())
    }

    pub(crate) async fn remove(&self, cluster: &KubeCluster, lease: &LeaseId) {
        let gone = || async { cluster.teardown_lease(lease).await.unwrap() == Teardown::Done };
        self.until("the lease is torn down", gone).await;
    }

    pub(crate) async fn list(&self, kind: &str, namespace: &str) -> Vec<Value> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.admin.clone(), namespace, &resource(kind));
        let list = api.list(&ListParams::default()).await.unwrap();
        let json = |object: DynamicObject| {
            let mut object = serde_json::to_value(object).unwrap();
            // Items of a list have no kind.
            object["kind"] = json!(kind);
            object
        };
        list.items.into_iter().map(json).collect()
    }

    pub(crate) async fn names(&self, kind: &str, namespace: &str) -> Vec<String> {
        let objects = self.list(kind, namespace).await;
        objects
            .iter()
            .map(|o| o["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(crate) async fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let resource = resource(kind);
        let api: Api<DynamicObject> = if namespace.is_empty() {
            Api::all_with(self.admin.clone(), &resource)
        } else {
            Api::namespaced_with(self.admin.clone(), namespace, &resource)
        };
        let object = api.get_opt(name).await.unwrap()?;
        Some(serde_json::to_value(object).unwrap())
    }

    /// Changes an object as another field manager.
    pub(crate) async fn edit(&self, kind: &str, namespace: &str, name: &str, patch: Value) {
        let resource = resource(kind);
        let api: Api<DynamicObject> = if namespace.is_empty() {
            Api::all_with(self.admin.clone(), &resource)
        } else {
            Api::namespaced_with(self.admin.clone(), namespace, &resource)
        };
        let params = PatchParams {
            field_manager: Some("somebody".to_owned()),
            ..PatchParams::default()
        };
        api.patch(name, &params, &Patch::Merge(&patch)).await.unwrap();
    }

    pub(crate) async fn delete(&self, kind: &str, namespace: &str, name: &str) {
        let resource = resource(kind);
        let api: Api<DynamicObject> = if namespace.is_empty() {
            Api::all_with(self.admin.clone(), &resource)
        } else {
            Api::namespaced_with(self.admin.clone(), namespace, &resource)
        };
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Marks the pods of the provider's leases as running, as a kubelet would.
    pub(crate) fn fake_kubelet(&self) -> tokio::task::JoinHandle<()> {
        self.fake_kubelet_of(&self.settings.provider)
    }

    /// Marks the pods of `provider` as running, as [`Self::fake_kubelet`] does.
    pub(crate) fn fake_kubelet_of(&self, provider: &Address) -> tokio::task::JoinHandle<()> {
        let client = self.admin.clone();
        let provider = provider.to_string();
        tokio::spawn(async move {
            let config = watcher::Config::default().labels(labels::SELECTOR);
            let pods = watcher(Api::<Pod>::all(client.clone()), config)
                .default_backoff()
                .applied_objects();
            let mut pods = pods.boxed();
            while let Some(pod) = pods.next().await {
                let Ok(pod) = pod else { continue };
                if pod.status.as_ref().and_then(|s| s.phase.as_deref()) != Some("Running") {
                    run_pod(&client, &pod, &provider).await;
                }
            }
        })
    }
}

/// Marks a pod as running if its namespace belongs to `provider`.
async fn run_pod(client: &Client, pod: &Pod, provider: &str) {
    let (name, namespace) = (
        pod.metadata.name.clone().unwrap(),
        pod.metadata.namespace.clone().unwrap(),
    );
    let of_namespace = Api::<Namespace>::all(client.clone()).get_opt(&namespace).await;
    let labels = of_namespace
        .ok()
        .flatten()
        .and_then(|n| n.metadata.labels)
        .unwrap_or_default();
    if labels.get(labels::LEASE_PROVIDER).map(String::as_str) != Some(provider) {
        return;
    }
    let status = json!({"status": {
        "phase": "Running",
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "ContainersReady", "status": "True"},
        ],
    }});
    let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let _ = api
        .patch_status(&name, &PatchParams::default(), &Patch::Merge(&status))
        .await;
}

/// Deletes a cluster-wide object.
pub(crate) async fn remove(world: &World, kind: &str, name: &str) {
    world.delete(kind, "", name).await;
}

pub(crate) fn resource(kind: &str) -> ApiResource {
    let group = match kind {
        "ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding" => "admissionregistration.k8s.io",
        "Deployment" | "StatefulSet" | "ReplicaSet" => "apps",
        "NetworkPolicy" | "Ingress" => "networking.k8s.io",
        "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding" => "rbac.authorization.k8s.io",
        "Manifest" | "ProviderHost" | "ProviderLeasedIP" => "akash.network",
        _ => "",
    };
    let version = if group == "akash.network" { "v2beta2" } else { "v1" };
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// Returns the ServiceAccount and the roles in `deploy`, moved to a namespace.
pub(crate) fn rights(namespace: &str) -> Vec<Value> {
    let files = ["lease.yaml", "provider.yaml", "confined.yaml"];
    files.map(|file| rights_of(file, namespace)).concat()
}

/// Returns the roles in one file of `deploy/rbac`, with the namespace `namespace`.
pub(crate) fn rights_of(file: &str, namespace: &str) -> Vec<Value> {
    let mut rights = documents(&format!("rbac/{file}"));
    for document in &mut rights {
        own(document, namespace);
    }
    rights
}

/// Moves the ServiceAccount and its roles to the namespace of the test.
fn own(document: &mut Value, namespace: &str) {
    let kind = document["kind"].as_str().unwrap().to_owned();
    let is_of_cluster = kind.starts_with("Cluster") || kind.starts_with("Validating");
    let shipped = document["metadata"]["name"].as_str().unwrap();
    let name = format!("{shipped}-{namespace}");
    if kind == "ValidatingAdmissionPolicyBinding" {
        document["spec"]["policyName"] = json!(name);
    } else if kind == "ValidatingAdmissionPolicy" {
        let spec = document["spec"].to_string();
        let spec = spec.replace(":lease:", &format!(":{namespace}:"));
        let spec = spec.replace("'lease'", &format!("'{namespace}'"));
        document["spec"] = serde_json::from_str(&spec).unwrap();
    }
    // One role for all tests, because the provider binds itself to this name.
    if document["metadata"]["name"] == json!("akash-provider-rs-lease") {
        return;
    }
    let is_shared = SHARED
        .iter()
        .any(|shared| document["metadata"]["namespace"] == *shared);
    if is_of_cluster || is_shared {
        document["metadata"]["name"] = json!(name);
        if document.get("roleRef").is_some() {
            document["roleRef"]["name"] = json!(name);
        }
    } else {
        document["metadata"]["namespace"] = json!(namespace);
    }
    let subjects = document.get_mut("subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten() {
        subject["namespace"] = json!(namespace);
    }
}

/// Returns the client configuration of a ServiceAccount.
async fn with_token(mut config: Config, admin: &Client, namespace: &str, account: &str) -> Config {
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), namespace);
    let request = TokenRequest {
        spec: TokenRequestSpec::default(),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await;
    let token = answer.unwrap().status.unwrap().token;
    config.auth_info = kube::config::AuthInfo {
        token: Some(token.into()),
        ..kube::config::AuthInfo::default()
    };
    config
}

/// Returns a client that records its calls and injects faults.
fn counted(config: Config, calls: &Arc<Mutex<Vec<Call>>>, fault: &Arc<Mutex<Option<Fault>>>) -> Client {
    let (calls, fault) = (Arc::clone(calls), Arc::clone(fault));
    let layer = tower::layer::layer_fn(move |inner| FaultLayer {
        inner,
        calls: Arc::clone(&calls),
        fault: Arc::clone(&fault),
    });
    ClientBuilder::try_from(config)
        .unwrap()
        .with_layer(&layer)
        .build()
}

/// Fault of the connection to the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// After this number of writes, all writes fail before they reach the server.
    Lost(usize),
    /// After this number of writes, the server executes one more write, but its response is lost. All later
    /// writes fail before they reach the server.
    Unanswered(usize),
    /// Every request is lost.
    Cut,
    /// The next write never reaches the server and gets no response. Later calls succeed.
    Hangs,
}

/// Service layer that records calls and injects faults.
#[derive(Clone)]
struct FaultLayer<S> {
    inner: S,
    calls: Arc<Mutex<Vec<Call>>>,
    fault: Arc<Mutex<Option<Fault>>>,
}

impl<S, B> tower::Service<http::Request<B>> for FaultLayer<S>
where
    S: tower::Service<http::Request<B>>,
    S::Future: Send + 'static,
    S::Error: Into<tower::BoxError>,
    S::Response: Send,
{
    type Response = S::Response;
    type Error = tower::BoxError;
    type Future = BoxFuture<'static, Result<S::Response, tower::BoxError>>;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let call = Call {
            method: request.method().to_string(),
            path: request
                .uri()
                .path_and_query()
                .map(ToString::to_string)
                .unwrap_or_default(),
        };
        let is_write = call.method != "GET";
        self.calls.lock().unwrap().push(call);
        let (mut lost, mut unanswered) = (false, false);
        let mut waiting = self.fault.lock().unwrap();
        let hangs = is_write && waiting.take_if(|fault| matches!(fault, Fault::Hangs)).is_some();
        if let Some(fault) = &mut *waiting {
            match fault {
                Fault::Cut => lost = true,
                Fault::Hangs => {}
                _ if !is_write => {}
                Fault::Lost(0) => lost = true,
                Fault::Unanswered(0) => {
                    unanswered = true;
                    *fault = Fault::Lost(0);
                }
                Fault::Lost(passing) | Fault::Unanswered(passing) => *passing -= 1,
            }
        }
        drop(waiting);
        let broken = || tower::BoxError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        if hangs {
            return async move {
                std::future::pending::<()>().await;
                Err(broken())
            }
            .boxed();
        }
        if lost {
            return async move { Err(broken()) }.boxed();
        }
        let answer = self.inner.call(request);
        async move {
            let answer = answer.await.map_err(Into::into);
            if unanswered { Err(broken()) } else { answer }
        }
        .boxed()
    }
}

/// A service with HTTP on port 80 and a node port for port 9000.
pub(crate) fn service(name: &str) -> Service {
    Service {
        command: Some(vec!["sh".to_owned()]),
        env: Some(vec!["A=1".to_owned(), "B=2".to_owned()]),
        expose: vec![expose(80), expose(9000)],
        ..Service::new(name, "nginx:1.27", resources())
    }
}

pub(crate) fn with_login(mut service: Service, password: &str) -> Service {
    service.credentials = Some(Credentials {
        host: "registry.example".to_owned(),
        email: String::new(),
        username: "me".to_owned(),
        password: password.to_owned(),
    });
    service
}

/// Gives a service the right to read logs.
pub(crate) fn with_logs(mut service: Service) -> Service {
    service.params = Some(ServiceParams {
        permissions: Some(Permissions {
            read: Some(vec!["logs".to_owned()]),
        }),
        ..ServiceParams::default()
    });
    service
}

pub(crate) fn resources() -> Resources {
    let cpu = Cpu::new(100, Vec::new());
    let memory = Memory::new(64 << 20, Vec::new());
    let volume = Storage::new("default", 64 << 20, Vec::new());
    Resources {
        id: 1,
        cpu,
        memory,
        storage: vec![volume],
        gpu: Gpu::default(),
        endpoints: Vec::new(),
    }
}

pub(crate) fn expose(port: u16) -> ServiceExpose {
    ServiceExpose {
        global: true,
        ..ServiceExpose::new(port)
    }
}

pub(crate) fn deployment(lease: &LeaseId, services: Vec<Service>) -> WorkloadSpec {
    WorkloadSpec {
        epoch: 1,
        ..WorkloadSpec::new(lease.clone(), Arc::new(Group::new("dc", services)))
    }
}
