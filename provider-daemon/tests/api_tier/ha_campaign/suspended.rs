//! A leader that is suspended between two writes of one deployment, while the next leader deploys a later
//! version.

use super::audit::Audit;
use super::crowd::{Tenant, bids, send};
use super::{LargeNode, World, leads};
use crate::stage::until;
use akash_provider_core::market::TenantMsg;
use akash_provider_core::sdl::{self, Sdl};
use akash_provider_core::types::{Coin, DeploymentId};
use nix::sys::signal::Signal;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Testbed, Tier};

const LEASE: Duration = Duration::from_secs(4);
/// Number of services. A deployment with many services is probably still in progress when the signal suspends
/// the leader.
const SERVICES: usize = 24;
/// Maximum number of deployments until one is interrupted.
const ATTEMPTS: u64 = 10;
/// Time in which a resumed process would send an old write.
const SETTLED: Duration = Duration::from_secs(3);

/// Returns an SDL. Its services have `version` in their environment.
fn sdl_text(version: u32) -> String {
    let (mut services, mut compute, mut prices, mut placed) = <(String, String, String, String)>::default();
    for number in 0..SERVICES {
        write!(
            services,
            "  s{number}:\n    image: nginx:1.27\n    env: [VERSION={version}]\n    \
             expose:\n      - port: 80\n        to: [{{ service: s0 }}]\n"
        )
        .unwrap();
        write!(
            compute,
            "    s{number}:\n      resources:\n        cpu: {{ units: 10m }}\n        \
             memory: {{ size: 16Mi }}\n        storage: {{ size: 32Mi }}\n"
        )
        .unwrap();
        writeln!(prices, "        s{number}: {{ denom: uact, amount: 100 }}").unwrap();
        writeln!(
            placed,
            "  s{number}:\n    anywhere: {{ profile: s{number}, count: 1 }}"
        )
        .unwrap();
    }
    services = services.replacen("to: [{ service: s0 }]", "to: [{ global: true }]", 1);
    format!(
        "version: \"2.0\"\nservices:\n{services}profiles:\n  compute:\n{compute}  placement:\n    anywhere:\n      \
         pricing:\n{prices}deployment:\n{placed}"
    )
}

/// Two daemons, a tenant, and the versions of one deployment.
struct SuspendedDeploy<'a> {
    world: World<'a>,
    cluster: &'a Testbed,
    tenant: Tenant,
}

impl SuspendedDeploy<'_> {
    /// Selects the manifest of a version for [`send`].
    fn choose(&mut self, version: u32) -> Sdl {
        let (text, stage) = (sdl_text(version), &self.world.stage);
        let file = stage.path(&format!("version-{version}.yaml"));
        std::fs::write(&file, &text).unwrap();
        let (code, manifest, err) = stage.ran(&["sdl", "manifest", file.to_str().unwrap()]);
        assert_eq!(code, 0, "{err}");
        let file = stage.path(&format!("version-{version}.json"));
        std::fs::write(&file, manifest).unwrap();
        self.tenant.manifest = file.display().to_string();
        sdl::parse(&text).unwrap()
    }

    /// Creates a deployment and a lease.
    fn order(&mut self, dseq: u64) -> DeploymentId {
        let (sdl, chain) = (self.choose(1), self.tenant.chain.clone());
        let id = DeploymentId::new(self.tenant.key.address().clone(), dseq);
        let created = chain.tenant(TenantMsg::CreateDeployment {
            id: id.clone(),
            groups: sdl.groups,
            hash: sdl.hash,
            deposit: Coin::new("uact", 5_000_000),
            reclamation_min_window: None,
        });
        created.unwrap();
        until("a bid", String::new, || !bids(&chain, &id).is_empty());
        let bid = bids(&chain, &id).remove(0).id;
        chain.tenant(TenantMsg::CreateLease { bid }).unwrap();
        id
    }

    /// Sends the manifest of the last [`Self::choose`] to the daemon `who`, until the daemon accepts the
    /// manifest.
    fn deploy(&self, who: usize, dseq: u64) {
        let mut refusal = String::new();
        let deadline = Instant::now() + Duration::from_secs(60);
        while let Err(error) = send(&self.tenant, who, dseq) {
            refusal = error;
            assert!(Instant::now() < deadline, "{refusal}");
            sleep(Duration::from_millis(200));
        }
        drop(refusal);
    }

    /// Returns the version of each Deployment of the lease.
    fn versions(&self, dseq: u64) -> Vec<String> {
        let selector = format!("--selector=akash.network/lease.id.dseq={dseq}");
        let spaces = ["get", "namespaces", &selector, "--output=name"];
        let space = self.cluster.kubectl(&spaces).unwrap();
        let Some(space) = space.trim().strip_prefix("namespace/") else {
            return Vec::new();
        };
        let each = "{range .items[*]}{.spec.template.spec.containers[0].env[?(@.name==\"VERSION\")].value}{\"\\n\"}{end}";
        let output = format!("--output=jsonpath={each}");
        let words = ["get", "deployments.apps", "--namespace", space, &output];
        let text = self.cluster.kubectl(&words).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

/// Waits until the audit log contains a write of a Deployment after the position `from`.
fn first_write(cluster: &Testbed, from: u64) {
    let mut log = File::open(cluster.audit_log()).unwrap();
    log.seek(SeekFrom::Start(from)).unwrap();
    let (mut text, deadline) = (String::new(), Instant::now() + Duration::from_secs(60));
    while !text.contains("\"verb\":\"patch\"") || !text.contains("\"resource\":\"deployments\"") {
        assert!(Instant::now() < deadline, "no Deployment was written");
        sleep(Duration::from_micros(200));
        log.read_to_string(&mut text).unwrap();
    }
}

fn suspended_leader_overwrites_nothing(cluster: &Testbed, drift: &str) {
    let _node = LargeNode::new(cluster);
    let mut world = World::new(cluster, LEASE, false);
    // A call that is interrupted by the suspension must not end by its timeout.
    world.flags = vec![format!("--drift={drift}"), "--kube-call-timeout=60s".to_owned()];
    let old = world.start(0, 0);
    until("the first instance leads", || old.dump(), || leads(&old));
    let new = world.start(1, 0);
    until(
        "the second instance is a standby",
        || new.dump(),
        || new.output().contains("this instance is a standby"),
    );
    let tenant = world.tenant();
    let audit = Audit::start(cluster, &world.tokens);
    let mut stage = SuspendedDeploy {
        world,
        cluster,
        tenant,
    };
    let interrupted = (1..=ATTEMPTS).find_map(|dseq| {
        let id = stage.order(dseq);
        let from = std::fs::metadata(cluster.audit_log()).unwrap().len();
        stage.deploy(0, dseq);
        first_write(cluster, from);
        old.signal(Signal::SIGSTOP);
        let written = stage.versions(dseq).len();
        println!("suspended after {written} of {SERVICES} Deployments");
        if (1..SERVICES).contains(&written) {
            return Some(id);
        }
        old.signal(Signal::SIGCONT);
        until("the first instance leads again", || old.dump(), || leads(&old));
        stage
            .tenant
            .chain
            .tenant(TenantMsg::CloseDeployment { id })
            .unwrap();
        None
    });
    let id = interrupted.expect("no deployment was interrupted between two writes");
    let dump = || format!("{}\n---\n{}", old.dump(), new.dump());
    until("the second instance leads", dump, || leads(&new));
    let hash = stage.choose(2).hash;
    let update = TenantMsg::UpdateDeployment { id: id.clone(), hash };
    stage.tenant.chain.tenant(update).unwrap();
    stage.deploy(1, id.dseq);
    let expected = vec!["2".to_owned(); SERVICES];
    until("version 2 is deployed", dump, || {
        stage.versions(id.dseq) == expected
    });
    old.signal(Signal::SIGCONT);
    let resumed = Instant::now();
    until("the old leader lost the leadership", dump, || !leads(&old));
    sleep(SETTLED);
    assert_eq!(stage.versions(id.dseq), expected, "{}", dump());
    let mut late = audit.sent();
    late.retain(|sent| sent.by == 0 && sent.at >= resumed);
    for sent in &late {
        println!("the old leader wrote {:?} after it resumed", sent.at - resumed);
    }
    assert!(late.is_empty(), "writes of the old leader\n{}", dump());
}

#[test]
fn leader_suspended_during_a_deploy_does_not_overwrite_the_next_version() {
    let Some((cluster, _alone)) = Testbed::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    // With `heal`, the next leader could hide an old write. The campaign `ha` tests both.
    let is_campaign = std::env::var_os("HA_HAND_OVERS").is_some();
    let drifts = ["report", "heal"].into_iter().take(1 + usize::from(is_campaign));
    for drift in drifts {
        suspended_leader_overwrites_nothing(&cluster, drift);
    }
}
