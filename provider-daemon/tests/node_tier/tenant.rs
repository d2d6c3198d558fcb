//! A tenant who does one thing at a time.

use crate::corner::{Corner, eventually, patience};
use akash_provider_core::cluster::{ExecIo, ExecRequest, Health, LogOptions};
use akash_provider_core::engine::{LeasePhase, Refusal};
use akash_provider_core::manifest::{self, Manifest, Proto};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::sdl::{self, Sdl};
use akash_provider_core::types::{BidState, Coin, DeploymentId, LeaseId};
use data_encoding::HEXLOWER;
use futures::StreamExt;
use provider_daemon::dev::names;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

/// A web server that says `GREETING` on port 80 and a port of the node, and something that only runs.
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

/// The web server with a greeting.
pub(crate) fn web(greeting: &str) -> String {
    WEB.replace("GREETING", greeting)
}

/// A tenant with one deployment of one group.
pub(crate) struct Tenant<'a> {
    corner: &'a Corner,
    id: DeploymentId,
    sdl: Sdl,
}

/// A lease and what its tenant knows of it.
pub(crate) struct Leased<'a> {
    pub(crate) corner: &'a Corner,
    pub(crate) id: DeploymentId,
    pub(crate) lease: LeaseId,
    pub(crate) manifest: Manifest,
    /// Of the Service of its first service, once it runs.
    pub(crate) address: String,
}

impl<'a> Tenant<'a> {
    pub(crate) fn new(corner: &'a Corner, number: u32, text: &str) -> Self {
        Self {
            corner,
            id: DeploymentId {
                owner: names::tenant(number).unwrap(),
                dseq: 1,
            },
            sdl: sdl::parse(text).unwrap(),
        }
    }

    /// Orders and takes the bid.
    pub(crate) async fn lease(self) -> Leased<'a> {
        let deposit = Coin {
            denom: "uact".into(),
            amount: 50_000_000,
        };
        let chain = &self.corner.world.chain;
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
        let known = || async { self.corner.world.status().leases.iter().any(|l| l.lease == lease) };
        eventually("the provider knows the lease", known).await;
        Leased {
            corner: self.corner,
            id: self.id,
            lease,
            manifest: self.sdl.manifest,
            address: String::new(),
        }
    }

    /// Orders, takes the bid, sends the manifest and waits until everything runs.
    pub(crate) async fn run(self) -> Leased<'a> {
        let mut leased = self.lease().await;
        leased.send().await.unwrap();
        leased.runs().await;
        let first = &leased.manifest.groups[0].services[0].name;
        leased.address = leased.cluster_ip(first);
        leased
    }
}

impl Leased<'_> {
    /// Hands the manifest in.
    pub(crate) async fn send(&self) -> Result<(), Refusal> {
        let manifest = Arc::new(self.manifest.clone());
        let hash = manifest::hash(&manifest);
        let handle = &self.corner.world.handle;
        handle.submit_manifest(&self.id, manifest, hash).await
    }

    /// Puts the hash of a changed manifest on the chain.
    pub(crate) fn tell_chain(&self) {
        let update = TenantMsg::UpdateDeployment {
            id: self.id.clone(),
            hash: manifest::hash(&self.manifest),
        };
        self.corner.world.chain.tenant(update).unwrap();
    }

    /// Changes the manifest, on the chain and at the provider, and waits until it runs.
    pub(crate) async fn update(&mut self, change: impl FnOnce(&mut Manifest)) {
        change(&mut self.manifest);
        self.tell_chain();
        self.send().await.unwrap();
        self.runs().await;
    }

    /// Waits until the newest manifest runs, in the eyes of the provider and of Kubernetes.
    pub(crate) async fn runs(&self) {
        eventually("everything runs", || self.is_running()).await;
        let ns = self.lease.namespace();
        for kind in ["deployments", "statefulsets"] {
            let names = self
                .corner
                .kubectl(&["get", kind, "--namespace", &ns, "--output", "name"]);
            for name in names.lines() {
                let args = ["rollout", "status", name, "--namespace", &ns, "--timeout", "60s"];
                self.corner.kubectl(&args);
            }
        }
    }

    async fn is_running(&self) -> bool {
        let status = self.corner.world.status();
        let hash = HEXLOWER.encode(&manifest::hash(&self.manifest));
        let deployment = status.deployments.iter().find(|d| d.deployment == self.id);
        let lease = status.leases.iter().find(|l| l.lease == self.lease);
        let known = deployment.is_some_and(|d| d.manifest.as_ref() == Some(&hash))
            && lease.is_some_and(|l| l.phase == LeasePhase::Running && l.health == Health::Good);
        if !known {
            return false;
        }
        let cluster = &self.corner.world.cluster;
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

    /// How healthy the provider thinks that it is.
    pub(crate) fn health(&self) -> Option<Health> {
        let status = self.corner.world.status();
        let lease = status.leases.iter().find(|l| l.lease == self.lease);
        lease.map(|l| l.health)
    }

    /// Unhealthy time that counts against it.
    pub(crate) fn unhealthy(&self) -> Duration {
        let status = self.corner.world.status();
        let lease = status.leases.iter().find(|l| l.lease == self.lease);
        Duration::from_millis(lease.unwrap().known_unhealthy_ms)
    }

    /// Tells the chain that the deployment is over.
    pub(crate) fn close(&self) {
        let close = TenantMsg::CloseDeployment { id: self.id.clone() };
        self.corner.world.chain.tenant(close).unwrap();
    }

    /// Waits until nothing is left of it.
    pub(crate) async fn gone(&self) {
        let forgotten = || async {
            let status = self.corner.world.status();
            !status.leases.iter().any(|l| l.lease == self.lease)
        };
        eventually("the lease is gone", forgotten).await;
        assert_eq!(self.namespaces(), "", "the namespace is gone");
        assert_eq!(self.records(), "", "the record is gone");
    }

    /// The namespace of the lease, if there is one.
    pub(crate) fn namespaces(&self) -> String {
        self.named("namespaces", "default")
    }

    /// The record of the lease, if there is one.
    pub(crate) fn records(&self) -> String {
        self.named("manifests.akash.network", "lease")
    }

    fn named(&self, kind: &str, namespace: &str) -> String {
        let name = self.lease.namespace();
        let args = ["get", kind, &name, "--namespace", namespace];
        let found = self
            .corner
            .kubectl(&[&args[..], &["--ignore-not-found", "--output", "name"]].concat());
        found.trim().to_owned()
    }

    /// The address of the Service of a service of it.
    pub(crate) fn cluster_ip(&self, service: &str) -> String {
        let ns = self.lease.namespace();
        let path = "jsonpath={.spec.clusterIP}";
        let args = ["get", "service", service, "--namespace", &ns, "--output", path];
        self.corner.kubectl(&args)
    }

    /// The port of the node that leads to a port of a service.
    pub(crate) async fn node_port(&self, service: &str, port: u16, proto: Proto) -> u16 {
        let cluster = &self.corner.world.cluster;
        let ports = cluster.forwarded_port_status(&self.lease).await.unwrap();
        let found = ports[service].iter().find(|p| p.port == port && p.proto == proto);
        let found = found.unwrap_or_else(|| panic!("{service} {port} {proto:?}: {ports:?}"));
        found.external_port
    }

    /// The lines a service wrote.
    pub(crate) async fn logs(&self, service: &str) -> Vec<String> {
        let options = LogOptions {
            services: vec![service.to_owned()],
            ..LogOptions::default()
        };
        let lines = self
            .corner
            .world
            .cluster
            .lease_logs(&self.lease, options)
            .await
            .unwrap();
        let lines: Vec<_> = timeout(patience(), lines.collect()).await.unwrap();
        lines.into_iter().map(|line| line.unwrap().message).collect()
    }

    /// Runs a shell script in a service; its exit code and all that it wrote.
    pub(crate) async fn sh(&self, service: &str, script: &str) -> (i32, String) {
        let request = ExecRequest {
            service: service.to_owned(),
            replica: 0,
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            tty: false,
        };
        let (output, theirs) = tokio::io::duplex(1 << 16);
        let (errors, also_theirs) = tokio::io::duplex(1 << 16);
        let io = ExecIo {
            stdin: None,
            stdout: Box::new(theirs),
            stderr: Box::new(also_theirs),
            resize: futures::stream::pending().boxed(),
        };
        let shell = self.corner.world.cluster.shell().unwrap();
        let read = async {
            let mut text = String::new();
            let mut both = output.chain(errors);
            both.read_to_string(&mut text).await.unwrap();
            text
        };
        let both = async { tokio::join!(shell.exec(&self.lease, request, io), read) };
        let (code, text) = timeout(patience(), both).await.unwrap();
        (code.unwrap(), text)
    }
}
