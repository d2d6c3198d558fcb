//! The backend while no API server responds.

use akash_provider_core::cluster::{Cluster, ClusterChange, HostnameDeclaration, WorkloadSpec};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::manifest::{Group, HttpOptions, Proto, Service, ServiceExpose};
use akash_provider_core::types::{
    Address, Cpu, DeploymentId, Gpu, GroupId, LeaseId, Memory, OrderId, Resources, Storage,
};
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
    let group = GroupId {
        deployment: DeploymentId { owner, dseq: 1 },
        gseq: 1,
    };
    let lease = LeaseId {
        order: OrderId { group, oseq: 1 },
        provider: Address::from_bytes(&[9; 20]).unwrap(),
    };
    let volume = Storage {
        name: "default".to_owned(),
        bytes: 64 << 20,
        attributes: Vec::new(),
    };
    let resources = Resources {
        id: 1,
        cpu: Cpu {
            units: 100,
            attributes: Vec::new(),
        },
        memory: Memory {
            bytes: 64 << 20,
            attributes: Vec::new(),
        },
        storage: vec![volume],
        gpu: Gpu::default(),
        endpoints: Vec::new(),
    };
    let expose = ServiceExpose {
        port: 80,
        external_port: 0,
        proto: Proto::Tcp,
        service: String::new(),
        global: true,
        hosts: None,
        http_options: HttpOptions::default(),
        ip: String::new(),
        endpoint_sequence_number: 0,
    };
    let service = Service {
        name: "web".to_owned(),
        image: "nginx:1.27".to_owned(),
        command: None,
        args: None,
        env: None,
        resources,
        count: 1,
        expose: vec![expose],
        params: None,
        credentials: None,
    };
    WorkloadSpec {
        lease,
        group: Arc::new(Group {
            name: "dc".to_owned(),
            services: vec![service],
        }),
        params: Arc::default(),
        hostnames: Vec::new(),
        ips: Vec::new(),
        epoch: 0,
    }
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
        let name = HostnameDeclaration {
            hostname: "a.example".to_owned(),
            service: "web".to_owned(),
            external_port: 80,
        };
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
