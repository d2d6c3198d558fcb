//! Fixture: a network, providers with gateways, and a tenant's home folder. The tenant commands run the real
//! program.

use crate::environment::without_settings;
use akash_provider_chain::cert::{CertUsage, OwnCertificate};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::Config;
use akash_provider_core::bus::LocalBus;
use akash_provider_core::chain::MemoryChain;
use akash_provider_core::cluster::{Facets, MemoryCluster};
use akash_provider_core::inventory::node_inventory::{MemoryInventorySource, NodeInventory};
use akash_provider_core::inventory::spec::{ClusterSpec, NodeSpec};
use akash_provider_core::inventory::{InventoryUpdate, LeasedIpUsage};
use akash_provider_core::market::{MarketConfig, TenantMsg};
use akash_provider_core::pricing::scale::{Scale, ScaleConfig};
use akash_provider_core::provider::{Provider, ProviderHandle};
use akash_provider_core::sdl::{self, Sdl};
use akash_provider_core::types::{
    Address, BidId, BlockTime, Coin, DeploymentId, LeaseId, Msg, ProviderRecord as Record,
};
use akash_provider_devnet::{Devnet, DevnetConfig};
use akash_provider_gateway::auth::memory::InMemory;
use akash_provider_gateway::{Gateway, GatewayBackends, GatewaySettings};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const WORDS: &str =
    "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";
/// Address of the account with the mnemonic `WORDS`.
pub(crate) const TENANT: &str = "akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0";
const PATIENCE: Duration = Duration::from_secs(120);
const BLOCK: Duration = Duration::from_millis(200);

#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: condition not reached in time");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[derive(Debug)]
pub(crate) struct RunOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl RunOutput {
    #[track_caller]
    pub(crate) fn good(self) -> String {
        assert_eq!(self.code, Some(0), "{}\n{}", self.out, self.err);
        self.out
    }

    /// Asserts exit code 1, and an error with all `words`. Returns stdout.
    #[track_caller]
    pub(crate) fn failed(self, words: &[&str]) -> String {
        assert_eq!(self.code, Some(1), "{}\n{}", self.out, self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        for word in words {
            assert!(self.err.contains(word), "`{word}` is not in: {}", self.err);
        }
        self.out
    }
}

/// Chain with a tenant, and the tenant's home folder.
pub(crate) struct Stage {
    pub(crate) chain: MemoryChain,
    pub(crate) runtime: Runtime,
    devnet: Option<Devnet>,
    folder: PathBuf,
}

pub(crate) struct RunningProvider {
    pub(crate) address: Address,
    pub(crate) cluster: MemoryCluster,
    pub(crate) url: String,
    pub(crate) own: OwnCertificate,
    handle: ProviderHandle,
    stop_gateway: CancellationToken,
    stop: CancellationToken,
    gateway: Option<JoinHandle<()>>,
}

fn coin() -> Coin {
    Coin::new("uact", 1_000_000_000_000)
}

/// Creates and publishes a provider certificate, which became valid one minute ago.
pub(crate) fn certificate(chain: &MemoryChain, account: &Address) -> OwnCertificate {
    let domains = vec!["localhost".to_owned()];
    let now = UNIX_EPOCH.elapsed().unwrap() - Duration::from_secs(60);
    let own = OwnCertificate::make(account, &CertUsage::Server { domains }, now).unwrap();
    chain.market(|market| market.execute(&own.publish()).unwrap());
    own
}

impl Stage {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tenant-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("words"), WORDS).unwrap();
        let now = i64::try_from(UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
        let chain = MemoryChain::new(MarketConfig::new("devnet", BlockTime(now)));
        let tenant: Address = TENANT.parse().unwrap();
        let gas = Coin {
            denom: "uakt".into(),
            ..coin()
        };
        chain.market(|market| {
            market.fund(&tenant, &coin());
            market.fund(&tenant, &gas);
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let mut config = DevnetConfig::new(chain.clone());
        config.block_time = Some(BLOCK);
        let devnet = Some(runtime.block_on(Devnet::start(config)).unwrap());
        let stage = Self {
            chain,
            runtime,
            devnet,
            folder,
        };
        stage.register_key();
        stage
    }

    /// Publishes a certificate. This first transaction of the tenant also stores the public key of the tenant
    /// on the chain.
    fn register_key(&self) {
        let made = self.ran(&["tx", "cert", "generate", "client"]);
        made.good();
        let published = self.ran(&["tx", "cert", "publish", "client", "--yes"]);
        published.good();
    }

    /// Waits until the node serves two further blocks.
    pub(crate) fn settle(&self) {
        let height = || self.chain.market(|market| market.height());
        let before = height();
        until("two blocks", || height() >= before + 2);
    }

    pub(crate) fn register(&self, address: &Address, url: &str) {
        let record = Record {
            owner: address.clone(),
            host_uri: url.to_owned(),
            attributes: Vec::new(),
            info: Default::default(),
        };
        self.chain.market(|market| {
            market.fund(address, &coin());
            let is_there = market.provider(address).is_some();
            let msg = if is_there {
                Msg::UpdateProvider(record)
            } else {
                Msg::CreateProvider(record)
            };
            market.execute(&msg).unwrap();
        });
    }

    /// Starts a bidding provider with its gateway.
    pub(crate) fn provider(&self, seed: u8) -> RunningProvider {
        self.provider_with(seed, |_| {})
    }

    /// Starts a provider as [`Self::provider`] does, with gateway settings changed by `change`.
    pub(crate) fn provider_with(
        &self,
        seed: u8,
        change: impl FnOnce(&mut GatewaySettings),
    ) -> RunningProvider {
        let address = PrivateKey::from_bytes(&[seed; 32]).unwrap().address().clone();
        self.register(&address, "https://localhost:1");
        let own = certificate(&self.chain, &address);
        let cluster = MemoryCluster::new(Facets::default());
        let mut settings = GatewaySettings::at("127.0.0.1:0".parse().unwrap());
        change(&mut settings);
        let started = self.start(&address, &cluster, &own, settings);
        let (url, handle, stop_gateway, stop, gateway) = self.runtime.block_on(started);
        self.register(&address, &url);
        RunningProvider {
            address,
            cluster,
            url,
            own,
            handle,
            stop_gateway,
            stop,
            gateway: Some(gateway),
        }
    }

    async fn start(
        &self,
        address: &Address,
        cluster: &MemoryCluster,
        own: &OwnCertificate,
        settings: GatewaySettings,
    ) -> (
        String,
        ProviderHandle,
        CancellationToken,
        CancellationToken,
        JoinHandle<()>,
    ) {
        let mut config = Config::new(address.clone(), "devnet");
        config.static_hosts_domain = Some("ingress.localhost".to_owned());
        let source = MemoryInventorySource::new();
        source.push(hardware());
        let (provider, handle) = Provider::builder()
            .config(config)
            .chain(Arc::new(self.chain.clone()))
            .cluster(Arc::new(cluster.clone()))
            .inventory(Arc::new(source))
            .pricing(Arc::new(prices()))
            .bus(Arc::new(LocalBus::new()))
            .build()
            .unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(provider.run(stop.clone()));
        handle.wait_ready().await.unwrap();
        let ports = GatewayBackends {
            handle: handle.clone(),
            cluster: Arc::new(cluster.clone()),
            chain: Arc::new(self.chain.clone()),
            memory: Arc::new(InMemory::default()),
        };
        let gateway = Gateway::bind(address.clone(), ports, own, settings)
            .await
            .unwrap();
        let url = format!("https://{}", gateway.address().unwrap());
        let stop_gateway = CancellationToken::new();
        let serving = tokio::spawn(gateway.serve(stop_gateway.clone()));
        (url, handle, stop_gateway, stop, serving)
    }

    /// Creates a deployment with one lease per group at these providers, without a manifest.
    pub(crate) fn lease(&self, dseq: u64, sdl: &str, providers: &[&RunningProvider]) -> Vec<LeaseId> {
        self.lease_of(dseq, read(sdl), providers)
    }

    /// Creates leases as [`Self::lease`] does. The manifest and the groups of `sdl` may contradict each
    /// other.
    pub(crate) fn lease_of(&self, dseq: u64, sdl: Sdl, providers: &[&RunningProvider]) -> Vec<LeaseId> {
        let id = DeploymentId::new(TENANT.parse().unwrap(), dseq);
        let deposit = Coin {
            amount: 5_000_000,
            ..coin()
        };
        self.chain
            .tenant(TenantMsg::CreateDeployment {
                id: id.clone(),
                groups: sdl.groups,
                hash: sdl.hash,
                deposit,
                reclamation_min_window: None,
            })
            .unwrap();
        let bid = |gseq: u32, provider: &RunningProvider| -> Option<BidId> {
            self.chain.market(|market| {
                let is_meant = |bid: &BidId| {
                    let group = &bid.order.group;
                    group.deployment == id && group.gseq == gseq && bid.provider == provider.address
                };
                market.bids().map(|bid| bid.id.clone()).find(is_meant)
            })
        };
        let mut leases = Vec::new();
        for (gseq, provider) in (1..).zip(providers) {
            until("a bid", || {
                let status = self.runtime.block_on(provider.handle.status());
                let declined = &status.recent_declines;
                let ours = declined.iter().find(|d| *d.order.deployment() == id);
                assert!(ours.is_none(), "{ours:?}");
                bid(gseq, provider).is_some()
            });
            let bid = bid(gseq, provider).unwrap();
            self.chain
                .tenant(TenantMsg::CreateLease { bid: bid.clone() })
                .unwrap();
            until("the lease at its provider", || {
                self.runtime.block_on(provider.handle.has_lease(&bid)).unwrap()
            });
            leases.push(bid);
        }
        self.settle();
        leases
    }

    /// URL of the chain's node.
    pub(crate) fn node(&self) -> String {
        self.devnet.as_ref().unwrap().rpc_url().to_string()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.folder.join(name), text).unwrap();
        self.path(name)
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_provider-daemon"));
        without_settings(&mut command);
        command
            .args(words)
            .env("AKASH_HOME", &self.folder)
            .env("AKASH_NODE", self.devnet.as_ref().unwrap().rpc_url())
            .env("AKASH_CHAIN_ID", "devnet")
            .env("AKASH_KEY_FILE", self.folder.join("words"))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn ran(&self, words: &[&str]) -> RunOutput {
        ran(&mut self.command(words))
    }
}

pub(crate) fn ran(command: &mut Command) -> RunOutput {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    RunOutput {
        code: output.status.code(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

pub(crate) fn sample(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("samples")
        .join(name)
        .display()
        .to_string()
}

pub(crate) fn read(path: &str) -> Sdl {
    sdl::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn hardware() -> InventoryUpdate {
    const GIB: i64 = 1 << 30;
    let node = NodeSpec::new("node1", 16_000, 64 * GIB, 500 * GIB);
    InventoryUpdate {
        inventory: Arc::new(NodeInventory::new(&ClusterSpec::from_nodes([node]))),
        placements: Vec::new(),
        leased_ips: Some(LeasedIpUsage {
            total: 8,
            ..LeasedIpUsage::default()
        }),
    }
}

/// Returns prices that are much lower than the tenants' maximum prices.
fn prices() -> Scale {
    let mut config = ScaleConfig::default();
    config.cpu = "0.001".parse().unwrap();
    config.memory = "0.0002".parse().unwrap();
    config.storage = [("ephemeral".to_owned(), "0.00001".parse().unwrap())].into();
    Scale::new(config).unwrap()
}

impl RunningProvider {
    /// Waits until the in-memory cluster runs the lease.
    pub(crate) fn runs(&self, lease: &LeaseId) {
        until("the workload", || {
            self.cluster.contents().running.contains_key(lease)
        });
    }

    /// Starts the gateway at another address, and registers the address.
    pub(crate) fn start_gateway(&mut self, stage: &Stage) {
        let ports = GatewayBackends {
            handle: self.handle.clone(),
            cluster: Arc::new(self.cluster.clone()),
            chain: Arc::new(stage.chain.clone()),
            memory: Arc::new(InMemory::default()),
        };
        let settings = GatewaySettings::at("127.0.0.1:0".parse().unwrap());
        let binding = Gateway::bind(self.address.clone(), ports, &self.own, settings);
        let gateway = stage.runtime.block_on(binding).unwrap();
        self.url = format!("https://{}", gateway.address().unwrap());
        self.stop_gateway = CancellationToken::new();
        let serving = gateway.serve(self.stop_gateway.clone());
        self.gateway = Some(stage.runtime.spawn(serving));
        stage.register(&self.address, &self.url);
    }

    pub(crate) fn stop_gateway(&mut self, stage: &Stage) {
        self.stop_gateway.cancel();
        if let Some(gateway) = self.gateway.take() {
            stage.runtime.block_on(gateway).unwrap();
        }
    }
}

impl Drop for RunningProvider {
    fn drop(&mut self) {
        self.stop_gateway.cancel();
        self.stop.cancel();
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(devnet) = self.devnet.take() {
            self.runtime.block_on(devnet.stop());
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
