//! A lease on a real node. The lease is deleted at the end of its test.

use crate::test_cluster::{TestCluster, block_on};
use akash_provider_core::cluster::{
    Cluster, ClusterChange, ExecIo, ExecRequest, Health, LogLine, Teardown, WorkloadSpec,
};
use akash_provider_core::error::Error;
use akash_provider_core::manifest::{Group, Service, ServiceExpose};
use akash_provider_core::types::{Address, Cpu, DeploymentId, Gpu, LeaseId, Memory, Resources, Storage};
use akash_provider_k8s::cluster::KubeCluster;
use akash_provider_k8s::settings::KubeSettings;
use akash_provider_k8s::write_client::WriteClient;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use std::hash::BuildHasher;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use testbed::Tier;
use tokio::time::timeout;

pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(60);
const IMAGE: &str = "localhost/busybox:1";
const BARE: &str = "localhost/bare:1";

/// A tenant with one lease.
pub(crate) struct Tenant {
    pub(crate) cluster: Arc<KubeCluster>,
    pub(crate) lease: LeaseId,
}

/// Runs a test on the cluster of this tier, in parallel with other tests. Does nothing without a running
/// cluster.
pub(crate) fn on_node(test: impl AsyncFnOnce(&TestCluster)) {
    let Some(place) = TestCluster::find(Tier::Node) else {
        return;
    };
    let _shared = place.shared();
    block_on(test(&place));
}

/// Runs a test with a lease. The service `web` of the lease runs `script`. Deletes the lease afterwards.
pub(crate) fn run(script: &str, test: impl for<'a> FnOnce(&'a Tenant) -> BoxFuture<'a, ()>) {
    on_node(async |place| {
        let tenant = Tenant::with(&place.kubeconfig, |_| {}).await;
        let story = async {
            tenant.deploy(script, 1).await;
            test(&tenant).await;
        };
        let outcome = AssertUnwindSafe(story).catch_unwind().await;
        tenant.remove().await;
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    });
}

/// Returns a client with all rights.
pub(crate) async fn client(kubeconfig: &Path) -> Client {
    let config = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(config, &options).await.unwrap();
    Client::try_from(config).unwrap()
}

pub(crate) async fn put(client: &Client, object: &Value) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let name = text(&object["metadata"]["name"]);
    let params = PatchParams::apply("node-tier").force();
    api.patch(&name, &params, &Patch::Apply(object)).await.unwrap();
}

impl Tenant {
    /// Creates a tenant with a separate provider. `change` adjusts the settings of the provider.
    pub(crate) async fn with(path: &Path, change: impl FnOnce(&mut KubeSettings)) -> Self {
        let client = client(path).await;
        for kind in ["manifests", "providerhosts", "providerleasedips"] {
            let file = format!("{}/../deploy/crds/{kind}.yaml", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(file).unwrap();
            let document: Value = serde_saphyr::from_str(&text).unwrap();
            put(&client, &document).await;
        }
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lease-state"}});
        put(&client, &namespace).await;
        let number = std::collections::hash_map::RandomState::new().hash_one(std::time::SystemTime::now());
        let mut bytes = [7; 20];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        let mut settings = KubeSettings::new(Address::from_bytes(&bytes).unwrap());
        settings.manifest_namespace = "lease-state".to_owned();
        settings.chain_id = "node-tier".to_owned();
        settings.public_hostname = "provider.localhost".to_owned();
        change(&mut settings);
        let provider = settings.provider.clone();
        let cluster = KubeCluster::connect(WriteClient::without_election(client), settings).unwrap();
        let ready = timeout(WAIT_LIMIT, cluster.state().ready()).await;
        ready.unwrap_or_else(|_| panic!("not ready: {:?}", cluster.state().watches()));
        let owner = Address::from_bytes(&[1; 20]).unwrap();
        let lease = DeploymentId::new(owner, 1).group(1).order(1).bid(provider);
        Self { cluster, lease }
    }

    /// Deploys `web` with `script`, and waits until the lease is healthy.
    pub(crate) async fn deploy(&self, script: &str, replicas: u32) {
        self.deploy_as(&deployment(&self.lease, script, replicas)).await;
    }

    /// Deploys an image with a single program, which sleeps.
    pub(crate) async fn deploy_bare(&self) {
        let mut bare = deployment(&self.lease, "", 1);
        for service in &mut Arc::make_mut(&mut bare.group).services {
            service.image = BARE.to_owned();
            (service.command, service.args) = (None, None);
        }
        self.deploy_as(&bare).await;
    }

    /// Deploys `deployment` and waits until the lease is healthy.
    pub(crate) async fn deploy_as(&self, deployment: &WorkloadSpec) {
        self.cluster.deploy(deployment).await.unwrap();
        let mut changes = self.cluster.changes();
        let good = async {
            while let Some(change) = changes.next().await {
                let health = match change.unwrap() {
                    ClusterChange::Snapshot { health } => health.get(&self.lease).copied(),
                    ClusterChange::Health { lease, health } if lease == self.lease => Some(health),
                    _ => None,
                };
                if health == Some(Health::Good) {
                    return;
                }
            }
        };
        let met = timeout(WAIT_LIMIT, good).await;
        assert!(
            met.is_ok(),
            "not healthy: {:?}",
            self.cluster.state().lease_status(&self.lease)
        );
    }

    pub(crate) async fn remove(&self) {
        let gone = async {
            loop {
                match self.cluster.teardown_lease(&self.lease).await {
                    Ok(Teardown::Done) => return,
                    Ok(Teardown::InProgress) => {}
                    Err(e) => println!("teardown: {e}"),
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(WAIT_LIMIT, gone).await.unwrap();
    }

    /// Runs a command in the lease. Returns exit code, stdout and stderr.
    pub(crate) async fn exec(
        &self,
        command: &[&str],
        stdin: Option<Vec<u8>>,
        tty: bool,
        sizes: BoxStream<'static, (u16, u16)>,
    ) -> (Result<i32, Error>, Vec<u8>, Vec<u8>) {
        let (stdout, stderr) = (Sink::default(), Sink::default());
        let io = ExecIo {
            stdin: stdin.map(|bytes| Box::new(std::io::Cursor::new(bytes)) as _),
            stdout: Box::new(stdout.clone()),
            stderr: Box::new(stderr.clone()),
            resize: sizes,
        };
        let mut request = ExecRequest::default();
        request.service = "web".to_owned();
        request.command = command.iter().map(|&s| s.to_owned()).collect();
        request.tty = tty;
        let shell = self.cluster.shell().unwrap();
        let code = timeout(WAIT_LIMIT, shell.exec(&self.lease, request, io))
            .await
            .unwrap();
        (code, stdout.take(), stderr.take())
    }

    /// Runs a shell script in a ready replica, without input or terminal. Returns exit code, stdout and
    /// stderr.
    pub(crate) async fn sh(&self, script: &str) -> (i32, String, String) {
        let deadline = Instant::now() + WAIT_LIMIT;
        loop {
            let none = futures::stream::pending().boxed();
            let (code, stdout, stderr) = self.exec(&["sh", "-c", script], None, false, none).await;
            let text = |bytes| String::from_utf8(bytes).unwrap();
            match code {
                Err(error) if error.is_transient() && Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                code => return (code.unwrap(), text(stdout), text(stderr)),
            }
        }
    }
}

/// A buffer that collects written bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl tokio::io::AsyncWrite for Sink {
    fn poll_write(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        std::task::Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_shutdown(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}

pub(crate) async fn next(lines: &mut BoxStream<'static, Result<LogLine, Error>>) -> LogLine {
    let next = timeout(WAIT_LIMIT, lines.next()).await;
    next.expect("no line in time")
        .expect("the stream ended")
        .expect("the stream failed")
}

pub(crate) fn deployment(lease: &LeaseId, script: &str, replicas: u32) -> WorkloadSpec {
    let resources = Resources {
        id: 1,
        cpu: Cpu::new(50, Vec::new()),
        memory: Memory::new(64 << 20, Vec::new()),
        storage: vec![Storage::new("default", 64 << 20, Vec::new())],
        gpu: Gpu::default(),
        endpoints: Vec::new(),
    };
    let expose = ServiceExpose {
        external_port: 9000,
        global: true,
        ..ServiceExpose::new(9000)
    };
    let service = Service {
        command: Some(vec!["sh".to_owned(), "-c".to_owned()]),
        args: Some(vec![script.to_owned()]),
        count: replicas,
        expose: vec![expose],
        ..Service::new("web", IMAGE, resources)
    };
    WorkloadSpec {
        epoch: 1,
        ..WorkloadSpec::new(lease.clone(), Arc::new(Group::new("dc", vec![service])))
    }
}
