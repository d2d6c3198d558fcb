//! A tenant. Each of its operations blocks until it is done.

use crate::fixture::{MarketFixture, eventually, wait_limit};
use akash_provider_core::cluster::{ExecIo, ExecRequest, Health, LogOptions};
use akash_provider_core::engine::{LeasePhase, Refusal};
use akash_provider_core::manifest::{self, Manifest, Proto};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::sdl::{self, Sdl};
use akash_provider_core::types::{BidState, Coin, DeploymentId, LeaseId};
use akash_provider_service::trial;
use data_encoding::HEXLOWER;
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

/// SDL with two services. The first is a web server with the response `GREETING`, on port 80 and on a node
/// port.
pub(crate) const WEB: &str = r#"
version: "2.0"
services:
  web:
    image: localhost/busybox:1
    command: [sh, -c]
    args:
      - >-
        trap 'exit 0' TERM; mkdir -p /www; echo GREETING > /www/index.html; echo said GREETING;
        httpd -f -p 80 -h /www & httpd -f -p 8080 -h /www & wait
    expose:
      - port: 80
        to: [{ global: true }]
      - port: 8080
        to: [{ global: true }]
profiles:
  compute:
    small:
      resources:
        cpu: { units: 50m }
        memory: { size: 32Mi }
        storage: { size: 64Mi }
  placement:
    anywhere:
      pricing:
        small: { denom: uact, amount: 1000 }
deployment:
  web:
    anywhere: { profile: small, count: 1 }
"#;

pub(crate) fn web(greeting: &str) -> String {
    WEB.replace("GREETING", greeting)
}

/// Tenant with a deployment that has one group.
pub(crate) struct Tenant<'a> {
    fixture: &'a MarketFixture,
    id: DeploymentId,
    sdl: Sdl,
}

pub(crate) struct TenantLease<'a> {
    pub(crate) fixture: &'a MarketFixture,
    pub(crate) id: DeploymentId,
    pub(crate) lease: LeaseId,
    pub(crate) manifest: Manifest,
    /// Service address of the first service; empty until it runs.
    pub(crate) address: String,
}

impl<'a> Tenant<'a> {
    pub(crate) fn new(fixture: &'a MarketFixture, number: u32, text: &str) -> Self {
        Self {
            fixture,
            id: DeploymentId::new(trial::tenant(number).unwrap(), 1),
            sdl: sdl::parse(text).unwrap(),
        }
    }

    /// Creates a deployment, and a lease from its first bid.
    pub(crate) async fn lease(self) -> TenantLease<'a> {
        let deposit = Coin::new("uact", 50_000_000);
        let chain = &self.fixture.world.chain;
        chain.market(|market| market.fund(&self.id.owner, &deposit));
        let order = TenantMsg::CreateDeployment {
            id: self.id.clone(),
            groups: self.sdl.groups.clone(),
            hash: self.sdl.hash,
            deposit,
            reclamation_min_window: None,
        };
        chain.tenant(order).unwrap();
        let bid = || {
            chain.market(|market| {
                let mine = |bid: &&akash_provider_core::types::Bid| {
                    *bid.id.deployment() == self.id && bid.state == BidState::Open
                };
                market.bids().find(mine).map(|bid| bid.id.clone())
            })
        };
        eventually("a bid", || async { bid().is_some() }).await;
        let lease = bid().unwrap();
        chain
            .tenant(TenantMsg::CreateLease { bid: lease.clone() })
            .unwrap();
        let is_received = || async {
            self.fixture
                .world
                .status()
                .leases
                .iter()
                .any(|l| l.lease == lease)
        };
        eventually("the provider has received the lease", is_received).await;
        TenantLease {
            fixture: self.fixture,
            id: self.id,
            lease,
            manifest: self.sdl.manifest,
            address: String::new(),
        }
    }

    /// Creates a lease, sends the manifest and waits until all services run.
    pub(crate) async fn run(self) -> TenantLease<'a> {
        let mut leased = self.lease().await;
        leased.send().await.unwrap();
        leased.runs().await;
        let first = &leased.manifest.groups[0].services[0].name;
        leased.address = leased.cluster_ip(first);
        leased
    }
}

impl TenantLease<'_> {
    /// Submits the manifest.
    pub(crate) async fn send(&self) -> Result<(), Refusal> {
        let manifest = Arc::new(self.manifest.clone());
        let hash = manifest::hash(&manifest);
        let handle = &self.fixture.world.handle;
        handle.submit_manifest(&self.id, manifest, hash).await
    }

    pub(crate) fn update_chain(&self) {
        let update = TenantMsg::UpdateDeployment {
            id: self.id.clone(),
            hash: manifest::hash(&self.manifest),
        };
        self.fixture.world.chain.tenant(update).unwrap();
    }

    /// Changes the manifest on the chain and at the provider. Waits until the new version of the workload
    /// runs.
    pub(crate) async fn update(&mut self, change: impl FnOnce(&mut Manifest)) {
        change(&mut self.manifest);
        self.update_chain();
        self.send().await.unwrap();
        self.runs().await;
    }

    /// Waits until the provider and Kubernetes report that the newest manifest runs.
    pub(crate) async fn runs(&self) {
        eventually("all pods run", || self.is_running()).await;
        let ns = self.lease.namespace();
        // After an outage of the API server the kubelet waits up to a minute before it connects again.
        let limit = format!("--timeout={}s", wait_limit().as_secs());
        for kind in ["deployments", "statefulsets"] {
            let names = self
                .fixture
                .kubectl(&["get", kind, "--namespace", &ns, "--output", "name"]);
            for name in names.lines() {
                let args = ["rollout", "status", name, "--namespace", &ns, &limit];
                self.fixture.kubectl(&args);
            }
        }
    }

    async fn is_running(&self) -> bool {
        let status = self.fixture.world.status();
        let hash = HEXLOWER.encode(&manifest::hash(&self.manifest));
        let deployment = status.deployments.iter().find(|d| d.deployment == self.id);
        let lease = status.leases.iter().find(|l| l.lease == self.lease);
        let is_accepted = deployment.is_some_and(|d| d.manifest.as_ref() == Some(&hash))
            && lease.is_some_and(|l| l.phase == LeasePhase::Running && l.health == Health::Good);
        if !is_accepted {
            return false;
        }
        let cluster = &self.fixture.world.cluster;
        let status = cluster.lease_status(&self.lease).await;
        status.is_ok_and(|status| {
            let count = |name: &str| {
                let services = self.manifest.groups.iter().flat_map(|g| &g.services);
                services.filter(|s| s.name == name).map(|s| s.count).sum::<u32>()
            };
            let full = |(name, s): (&String, &akash_provider_core::cluster::ServiceStatus)| {
                s.total == count(name) && s.available >= s.total
            };
            status.services.iter().all(full)
        })
    }

    pub(crate) fn health(&self) -> Option<Health> {
        let status = self.fixture.world.status();
        let lease = status.leases.iter().find(|l| l.lease == self.lease);
        lease.map(|l| l.health)
    }

    pub(crate) fn unhealthy(&self) -> Duration {
        let status = self.fixture.world.status();
        let lease = status.leases.iter().find(|l| l.lease == self.lease);
        Duration::from_millis(lease.unwrap().known_unhealthy_ms)
    }

    pub(crate) fn close(&self) {
        let close = TenantMsg::CloseDeployment { id: self.id.clone() };
        self.fixture.world.chain.tenant(close).unwrap();
    }

    /// Waits until no object of the lease is left.
    pub(crate) async fn gone(&self) {
        let forgotten = || async {
            let status = self.fixture.world.status();
            !status.leases.iter().any(|l| l.lease == self.lease)
        };
        eventually("the lease is removed", forgotten).await;
        assert_eq!(self.namespaces(), "", "the namespace is left");
        assert_eq!(self.records(), "", "the record is left");
    }

    /// Returns the namespace of the lease, or an empty text if it does not exist.
    pub(crate) fn namespaces(&self) -> String {
        self.named("namespaces", "default")
    }

    /// Returns the Manifest record of the lease, or an empty text if it does not exist.
    pub(crate) fn records(&self) -> String {
        self.named("manifests.akash.network", "lease")
    }

    fn named(&self, kind: &str, namespace: &str) -> String {
        let name = self.lease.namespace();
        let args = ["get", kind, &name, "--namespace", namespace];
        let found = self
            .fixture
            .kubectl(&[&args[..], &["--ignore-not-found", "--output", "name"]].concat());
        found.trim().to_owned()
    }

    pub(crate) fn cluster_ip(&self, service: &str) -> String {
        let ns = self.lease.namespace();
        let path = "jsonpath={.spec.clusterIP}";
        let args = ["get", "service", service, "--namespace", &ns, "--output", path];
        self.fixture.kubectl(&args)
    }

    pub(crate) async fn node_port(&self, service: &str, port: u16, proto: Proto) -> u16 {
        let cluster = &self.fixture.world.cluster;
        let ports = cluster.forwarded_port_status(&self.lease).await.unwrap();
        let found = ports[service].iter().find(|p| p.port == port && p.proto == proto);
        let found = found.unwrap_or_else(|| panic!("{service} {port} {proto:?}: {ports:?}"));
        found.external_port
    }

    pub(crate) async fn logs(&self, service: &str) -> Vec<String> {
        let mut options = LogOptions::default();
        options.services = vec![service.to_owned()];
        let lines = self
            .fixture
            .world
            .cluster
            .lease_logs(&self.lease, options)
            .await
            .unwrap();
        let lines: Vec<_> = timeout(wait_limit(), lines.collect()).await.unwrap();
        lines.into_iter().map(|line| line.unwrap().message).collect()
    }

    pub(crate) async fn sh(&self, service: &str, script: &str) -> (i32, String) {
        let mut request = ExecRequest::default();
        request.service = service.to_owned();
        request.command = ["sh", "-c", script].map(str::to_owned).to_vec();
        let (output, theirs) = tokio::io::duplex(1 << 16);
        let (errors, also_theirs) = tokio::io::duplex(1 << 16);
        let io = ExecIo {
            stdin: None,
            stdout: Box::new(theirs),
            stderr: Box::new(also_theirs),
            resize: futures::stream::pending().boxed(),
        };
        let shell = self.fixture.world.cluster.shell().unwrap();
        let read = async {
            let mut text = String::new();
            let mut both = output.chain(errors);
            both.read_to_string(&mut text).await.unwrap();
            text
        };
        let both = async { tokio::join!(shell.exec(&self.lease, request, io), read) };
        let (code, text) = timeout(wait_limit(), both).await.unwrap();
        (code.unwrap(), text)
    }
}
