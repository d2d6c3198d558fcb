//! The backend while no API server responds.

use akash_provider_core::cluster::{Cluster, ClusterChange, HostnameDeclaration, WorkloadSpec};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::manifest::{Group, Service, ServiceExpose};
use akash_provider_core::types::{Address, Cpu, DeploymentId, Gpu, Memory, Resources, Storage};
use akash_provider_k8s::cluster::KubeCluster;
use akash_provider_k8s::settings::KubeSettings;
use akash_provider_k8s::write_client::WriteClient;
use futures::StreamExt;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum time within which a tenant gets a response.
const LIMIT: Duration = Duration::from_secs(5);

fn deployment() -> WorkloadSpec {
    let owner = Address::from_bytes(&[1; 20]).unwrap();
    let lease = DeploymentId::new(owner, 1)
        .group(1)
        .order(1)
        .bid(Address::from_bytes(&[9; 20]).unwrap());
    let volume = Storage::new("default", 64 << 20, Vec::new());
    let resources = Resources {
        id: 1,
        cpu: Cpu::new(100, Vec::new()),
        memory: Memory::new(64 << 20, Vec::new()),
        storage: vec![volume],
        gpu: Gpu::default(),
        endpoints: Vec::new(),
    };
    let expose = ServiceExpose {
        global: true,
        ..ServiceExpose::new(80)
    };
    let service = Service {
        expose: vec![expose],
        ..Service::new("web", "nginx:1.27", resources)
    };
    WorkloadSpec::new(lease, Arc::new(Group::new("dc", vec![service])))
}

fn settings() -> KubeSettings {
    KubeSettings::new(Address::from_bytes(&[9; 20]).unwrap())
}

/// Returns a client of a server that accepts connections and never responds.
fn silent() -> Client {
    let service = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, std::io::Error>>()
    });
    Client::new(service, "default")
}

fn refusing() -> Client {
    let service = tower::service_fn(|_: Request<Body>| async {
        Err::<Response<Body>, _>(std::io::Error::from(std::io::ErrorKind::ConnectionRefused))
    });
    Client::new(service, "default")
}

async fn fails_in_time<T>(what: &str, call: impl Future<Output = Result<T, Error>>) {
    let start = Instant::now();
    let error = call
        .await
        .err()
        .unwrap_or_else(|| unreachable!("{what} succeeds without an API server"));
    let took = start.elapsed();
    assert!(took < LIMIT, "{what} took {took:?}");
    assert!(
        matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable),
        "{what}: {error}"
    );
    assert!(error.is_transient(), "{what}: {error}");
}

#[tokio::test(start_paused = true)]
async fn calls_fail_within_seconds_without_an_api_server() {
    for client in [silent(), refusing()] {
        let cluster = KubeCluster::connect(WriteClient::without_election(client), settings()).unwrap();
        let deployment = deployment();
        let lease = &deployment.lease;
        fails_in_time("record", cluster.record(&deployment)).await;
        fails_in_time("deploy", cluster.deploy(&deployment)).await;
        fails_in_time("teardown", cluster.teardown_lease(lease)).await;
        fails_in_time("deployments", cluster.deployments()).await;
        fails_in_time("group", cluster.manifest_group(lease)).await;
        fails_in_time("status", cluster.lease_status(lease)).await;
        fails_in_time("version", cluster.version()).await;
        fails_in_time("harden", cluster.harden(lease)).await;
        fails_in_time("findings", cluster.findings()).await;
        let hosts = cluster.hostnames().unwrap();
        let name = HostnameDeclaration::new("a.example", "web", 80);
        fails_in_time("declare", hosts.declare_hostname(lease, &name)).await;
        fails_in_time("purge", hosts.purge_declared_hostname(lease, "a.example")).await;
        fails_in_time("purge all", hosts.purge_declared_hostnames(lease)).await;
        fails_in_time("hostnames", hosts.all_hostnames()).await;
        let change = cluster.changes().next().await;
        assert!(matches!(change, Some(Ok(ClusterChange::Lost))), "{change:?}");
    }
}

#[tokio::test]
async fn invalid_settings_are_refused() {
    let mut settings = settings();
    settings.manifest_namespace.clear();
    let error = KubeCluster::connect(WriteClient::without_election(refusing()), settings)
        .err()
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
