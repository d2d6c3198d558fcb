//! Two daemons and everything that they share: chain, API server, Redis and the links to them.

use super::crowd::Tenant;
use super::record::Watch;
use super::room::{Room, To};
use super::{LEASE, NAMES};
use crate::http::token;
use crate::stage::{PRICES, Running, Stage};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::types::Coin;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use testbed::{Redis, Testbed, free_port};

const BLOCK: Duration = Duration::from_millis(500);
const NODE_PORT: u16 = 26657;
const API_PORT: u16 = 6443;
const REDIS_PORT: u16 = 6379;
const GATEWAY_PORT: u16 = 8443;
const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy");

/// Redis server for the bus, and with `HA_STORE=redis` also for the election.
struct Server {
    _redis: Redis,
    port: u16,
    is_store: bool,
}

impl Server {
    /// Starts the server. Without Redis on this machine, prints a line and returns `None`.
    fn start(stage: &Stage) -> Option<Self> {
        let port = free_port().unwrap();
        let store = std::env::var("HA_STORE").unwrap_or_else(|_| "kubernetes".to_owned());
        assert!(
            ["kubernetes", "redis"].contains(&store.as_str()),
            "HA_STORE={store}"
        );
        let is_store = store == "redis";
        let redis = stage.redis(port, &[]);
        assert!(
            redis.is_some() || !is_store,
            "HA_STORE is redis, but this machine has no Redis server"
        );
        let redis = redis?;
        Some(Self {
            _redis: redis,
            port,
            is_store,
        })
    }
}

/// Two daemons with a common chain, cluster, bus and network.
pub(crate) struct World<'a> {
    cluster: &'a Testbed,
    pub(super) stage: Stage,
    pub(super) room: Room,
    faketime: Option<PathBuf>,
    server: Option<Server>,
    /// Kubernetes tokens, one for each daemon, so that the audit log distinguishes the daemons.
    pub(super) tokens: [String; 2],
    lease: Duration,
    starts: u32,
    pub(super) clocks: [i64; 2],
    /// Further flags of both daemons.
    pub(super) flags: Vec<String>,
}

impl<'a> World<'a> {
    /// Starts the chain and the network, and also a bus if `has_bus` is true. `lease` is the election lease
    /// duration.
    pub(crate) fn new(cluster: &'a Testbed, lease: Duration, has_bus: bool) -> Self {
        let mut stage = Stage::new("ha-campaign", true);
        stage.start_node(Some(BLOCK));
        let room = Room::new();
        let faketime = testbed::faketime();
        if let Err(error) = &faketime {
            println!("skipped: instances with different clocks: {error}");
        }
        let server = has_bus.then(|| Server::start(&stage)).flatten();
        let mut world = Self {
            cluster,
            stage,
            room,
            faketime: faketime.ok(),
            server,
            tokens: [String::new(), String::new()],
            lease,
            starts: 0,
            clocks: [0; 2],
            flags: Vec::new(),
        };
        world.give_rights();
        let api = world.api_server();
        let node: SocketAddr = world.stage.url().trim_start_matches("http://").parse().unwrap();
        for who in 0..NAMES.len() {
            world.room.lead(who, NODE_PORT, To::Chain, node);
            world.room.lead(who, API_PORT, To::Cluster, api);
            if let Some(server) = &world.server {
                let target = SocketAddr::from(([127, 0, 0, 1], server.port));
                world.room.lead(who, REDIS_PORT, To::Bus, target);
            }
        }
        world.take_certificates();
        world
    }

    fn apply(&self, verb: &str, more: &[&str]) {
        let rights = format!("{DEPLOY}/rbac");
        let words = [verb, "--filename", &rights];
        self.cluster.kubectl(&[&words[..], more].concat()).unwrap();
    }

    /// Creates the provider's ServiceAccount, and a kubeconfig for each daemon. The kubeconfigs contain
    /// different tokens.
    fn give_rights(&mut self) {
        self.apply("apply", &[]);
        let words = [
            "create",
            "token",
            "akash-provider",
            "--namespace=lease",
            "--duration=8h",
        ];
        self.tokens = [0, 1].map(|_| self.cluster.kubectl(&words).unwrap().trim().to_owned());
        let mut config = self.config();
        let api = self.api_server();
        for (who, name) in NAMES.iter().enumerate() {
            let cluster = &mut config["clusters"][0]["cluster"];
            cluster["server"] = format!("https://{}", Room::here(who, API_PORT)).into();
            cluster["tls-server-name"] = api.ip().to_string().into();
            config["users"][0]["user"] = json!({"token": self.tokens[who]});
            std::fs::write(self.stage.path(&format!("kubeconfig-{name}")), config.to_string()).unwrap();
        }
        let lease = [
            "delete",
            "leases.coordination.k8s.io",
            LEASE,
            "--namespace=lease",
            "--ignore-not-found",
        ];
        self.cluster.kubectl(&lease).unwrap();
    }

    fn config(&self) -> Value {
        let config = self
            .cluster
            .kubectl(&["config", "view", "--raw", "--output=json"])
            .unwrap();
        serde_json::from_str(&config).unwrap()
    }

    fn api_server(&self) -> SocketAddr {
        let config = self.config();
        let server = config["clusters"][0]["cluster"]["server"].as_str().unwrap();
        server.strip_prefix("https://").unwrap().parse().unwrap()
    }

    /// Publishes a certificate on the chain, and copies it to both homes.
    fn take_certificates(&self) {
        for words in [
            &["generate", "server", "localhost"][..],
            &["publish", "server", "--yes"],
        ] {
            let (code, out, err) = self.stage.ran(&[&["tx", "cert"], words].concat());
            assert_eq!(code, 0, "{out}{err}");
        }
        for name in NAMES {
            let home = self.stage.path(&format!("home-{name}"));
            std::fs::create_dir_all(&home).unwrap();
            for file in std::fs::read_dir(self.stage.path(""))
                .unwrap()
                .map(Result::unwrap)
            {
                if file.path().extension().is_some_and(|ends| ends == "pem") {
                    std::fs::copy(file.path(), home.join(file.file_name())).unwrap();
                }
            }
        }
    }

    /// Starts the daemon `who` with a clock that is `clock` seconds fast.
    pub(crate) fn start(&mut self, who: usize, clock: i64) -> Running {
        self.starts += 1;
        let name = NAMES[who];
        let mut before = self.room.inside(who);
        let clock = if self.faketime.is_some() { clock } else { 0 };
        self.clocks[who] = clock;
        if let Some(library) = &self.faketime {
            before.extend([
                "env".to_owned(),
                format!("LD_PRELOAD={}", library.display()),
                format!("FAKETIME={clock:+}s"),
                "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
                "DONT_FAKE_MONOTONIC=1".to_owned(),
            ]);
        }
        let mut flags = vec![
            format!("--home={}", self.stage.path(&format!("home-{name}")).display()),
            format!("--node=http://{}", Room::here(who, NODE_PORT)),
            format!(
                "--kubeconfig={}",
                self.stage.path(&format!("kubeconfig-{name}")).display()
            ),
            format!("--ha-identity={name}"),
            format!("--ha-address={}", Room::there(who, GATEWAY_PORT)),
            format!("--gateway-listen-address={}", Room::there(who, GATEWAY_PORT)),
            format!("--ha-lease={}s", self.lease.as_secs()),
        ];
        if self.server.is_some() {
            flags.push(format!("--bus=redis://{}", Room::here(who, REDIS_PORT)));
        }
        if self.is_on_redis() {
            flags.extend(["--ha=redis".to_owned(), format!("--ha-name={LEASE}")]);
        } else {
            flags.push("--ha=kubernetes".to_owned());
        }
        flags.extend(self.flags.iter().cloned());
        let flags = flags.iter().map(String::as_str);
        let fixed = [
            "run",
            "--cluster-k8s",
            "-o=json",
            "--deployment-ingress-static-hosts",
            "--deployment-ingress-domain=ingress.localhost",
        ];
        let words: Vec<&str> = fixed.into_iter().chain(PRICES).chain(flags).collect();
        let before: Vec<&str> = before.iter().map(String::as_str).collect();
        let command = self.stage.command_after(&before, &words);
        self.stage.started(&format!("{name}-{}", self.starts), command)
    }

    /// Returns the targets of the daemons' writes.
    pub(super) fn written_to(&self) -> Vec<To> {
        let bus = self.server.as_ref().map(|_| To::Bus);
        [To::Chain, To::Cluster].into_iter().chain(bus).collect()
    }

    pub(super) fn is_on_redis(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.is_store)
    }

    pub(super) fn watch(&self) -> Watch {
        match &self.server {
            Some(server) if server.is_store => Watch::of_redis(server.port, LEASE),
            _ => Watch::start(self.cluster, LEASE),
        }
    }

    pub(super) fn facts(&self) -> Option<Running> {
        let bus = format!("--bus=redis://127.0.0.1:{}", self.server.as_ref()?.port);
        let words = ["bus", "tail", "akash.provider.facts", "--output=json", &bus];
        Some(self.stage.running("facts", &words))
    }

    pub(crate) fn tenant(&self) -> Tenant {
        let key = PrivateKey::from_bytes(&[7; 32]).unwrap();
        self.stage.chain.market(|market| {
            let coin = Coin::new("uact", u128::from(u64::MAX));
            market.fund(key.address(), &coin);
            market.set_pubkey(key.address(), key.public().as_bytes().to_vec());
        });
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/web.yaml");
        let (code, manifest, err) = self.stage.ran(&["sdl", "manifest", sample]);
        assert_eq!(code, 0, "{err}");
        let file = self.stage.path("manifest.json");
        std::fs::write(&file, manifest).unwrap();
        Tenant {
            chain: self.stage.chain.clone(),
            token: token(&key),
            key,
            manifest: file.display().to_string(),
            gateways: [0, 1].map(|who| format!("https://{}", Room::there(who, GATEWAY_PORT))),
            before: self.room.at_the_site(),
        }
    }

    /// Returns the deployments with workloads in the cluster.
    pub(crate) fn deployed(&self) -> BTreeSet<u64> {
        let of = |kind: &str, line: &str| {
            let words = [
                "get",
                kind,
                "--all-namespaces",
                "--selector=akash.network=true",
                "--output",
                line,
            ];
            self.cluster.kubectl(&words).unwrap()
        };
        let dseq = "jsonpath={range .items[*]}{.metadata.name} {.metadata.labels.akash\\.network/lease\\.id\\.dseq}{\"\\n\"}{end}";
        let spaces = of("namespaces", dseq);
        let services = of(
            "deployments.apps",
            "jsonpath={range .items[*]}{.metadata.namespace}{\"\\n\"}{end}",
        );
        let with_services: BTreeSet<&str> = services.lines().collect();
        let named = spaces.lines().filter_map(|line| line.split_once(' '));
        named
            .filter(|(name, _)| with_services.contains(name))
            .filter_map(|(_, dseq)| dseq.parse().ok())
            .collect()
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        // Delete what an earlier failed test left.
        let leases = [
            "delete",
            "namespaces",
            "--selector=akash.network=true",
            "--wait=false",
        ];
        drop(self.cluster.kubectl(&leases));
        for records in ["manifests.akash.network", "providerhosts.akash.network"] {
            drop(
                self.cluster
                    .kubectl(&["delete", records, "--namespace=lease", "--all"]),
            );
        }
        self.apply("delete", &["--ignore-not-found", "--wait=false"]);
    }
}
