//! Provider with a gateway, and its tenants.

use super::clients::{Client, Reply};
use crate::Screening;
use crate::auth::Clock;
use crate::auth::memory::{AuthStore, InMemory};
use crate::auth::token::{self, Algorithm};
use crate::{Gateway, GatewayBackends, GatewaySettings};
use akash_provider_chain::cert::{CertUsage, OwnCertificate};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::Config;
use akash_provider_core::bus::LocalBus;
use akash_provider_core::chain::{Inclusion, MemoryChain};
use akash_provider_core::cluster::{Cluster, Facets, MemoryCluster};
use akash_provider_core::inventory::node_inventory::{MemoryInventorySource, NodeInventory};
use akash_provider_core::inventory::spec::{ClusterSpec, NodeSpec, Quantity};
use akash_provider_core::inventory::{GpuSpec, InventoryUpdate};
use akash_provider_core::market::{MarketConfig, TenantMsg};
use akash_provider_core::pricing::scale::{Scale, ScaleConfig};
use akash_provider_core::provider::{Provider, ProviderHandle};
use akash_provider_core::sdl::{self, Sdl};
use akash_provider_core::types::{
    Address, Attribute, BlockTime, Coin, DeploymentId, LeaseId, Msg, OrderState, ProviderRecord as Record,
};
use serde_json::{Value, json};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(super) const PROVIDER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
/// Time of the gateway's clock at the start, in seconds of Unix time.
pub(super) const NOW: u64 = 1_795_257_230;
/// Maximum time of a wait, never reached in a successful test.
const TIMEOUT: Duration = Duration::from_secs(60);

/// SDL with a public service (port 80, with a hostname) and an internal service.
pub(super) const SDL: &str = r#"
version: "2.0"
services:
  db:
    image: db:1
    expose: [{port: 5432, to: [{service: web}]}]
  web:
    image: web:1
    expose: [{port: 80, accept: [web.example.com], to: [{global: true}]}]
profiles:
  compute:
    small: {resources: {cpu: {units: 0.1}, memory: {size: 16Mi}, storage: {size: 16Mi}}}
  placement:
    here: {pricing: {small: {denom: uact, amount: 50000}}}
deployment:
  db: {here: {profile: small, count: 1}}
  web: {here: {profile: small, count: 2}}
"#;

/// SDL without a hostname and with a leased IP.
pub(super) const WITH_IP: &str = r#"
version: "2.1"
endpoints: {ep: {kind: ip}, other: {kind: ip}}
services:
  web:
    image: web:1
    expose:
      - {port: 80, to: [{global: true, ip: ep}]}
      - {port: 81, to: [{global: true, ip: other}]}
profiles:
  compute:
    small: {resources: {cpu: {units: 0.1}, memory: {size: 16Mi}, storage: {size: 16Mi}}}
  placement:
    here: {pricing: {small: {denom: uact, amount: 50000}}}
deployment:
  web: {here: {profile: small, count: 1}}
"#;

pub(super) struct World {
    pub(super) chain: MemoryChain,
    pub(super) cluster: MemoryCluster,
    pub(super) handle: ProviderHandle,
    pub(super) address: SocketAddr,
    pub(super) tls: Arc<crate::tls::Tls>,
    pub(super) grpc: SocketAddr,
    pub(super) own: OwnCertificate,
    /// In-memory store of the gateway.
    pub(super) memory: Arc<InMemory>,
    clock: Arc<AtomicU64>,
    stop: CancellationToken,
    stop_provider: CancellationToken,
    serving: JoinHandle<()>,
    running: JoinHandle<()>,
}

pub(super) fn tenant(seed: u8) -> PrivateKey {
    PrivateKey::from_bytes(&[seed; 32]).unwrap()
}

fn coin() -> Coin {
    Coin::new("uact", 1_000_000_000_000)
}

pub(super) fn hardware() -> InventoryUpdate {
    const GIB: i64 = 1 << 30;
    let mut node = NodeSpec::new("node1", 16_000, 64 * GIB, 500 * GIB);
    node.storage_classes = ["beta2".to_owned()].into();
    node.gpus = vec![GpuSpec::new("nvidia", "a100", "80Gi", "pcie", 4)];
    let mut spec = ClusterSpec::from_nodes([node]);
    spec.storage.insert("beta2".to_owned(), Quantity::free(500 * GIB));
    InventoryUpdate {
        inventory: Arc::new(NodeInventory::new(&spec)),
        placements: Vec::new(),
        leased_ips: Some(akash_provider_core::inventory::LeasedIpUsage {
            total: 8,
            ..Default::default()
        }),
    }
}

fn prices() -> Scale {
    let storage = [
        ("ephemeral".to_owned(), "0.001".parse().unwrap()),
        ("beta2".to_owned(), "0.001".parse().unwrap()),
        ("ram".to_owned(), "0.001".parse().unwrap()),
    ];
    let mut config = ScaleConfig::default();
    config.cpu = "0.001".parse().unwrap();
    config.memory = "0.001".parse().unwrap();
    config.storage = storage.into();
    Scale::new(config).unwrap()
}

fn register(chain: &MemoryChain, provider: &Address, attributes: Vec<Attribute>) {
    let record = Record {
        owner: provider.clone(),
        host_uri: "https://localhost:8443".into(),
        attributes,
        info: akash_provider_core::types::ProviderInfo::default(),
    };
    chain.market(|market| {
        market.fund(provider, &coin());
        market.execute(&Msg::CreateProvider(record)).unwrap();
    });
}

/// Applies `configure` to default settings. Returns the settings, and an in-memory cluster for these
/// settings.
fn configured(provider: &Address, configure: impl FnOnce(&mut Config)) -> (Config, MemoryCluster) {
    let mut config = Config::new(provider.clone(), "local");
    config.static_hosts_domain = Some("ingress.localhost".to_owned());
    config.leased_ips = true;
    configure(&mut config);
    let mut facets = Facets::default();
    facets.hostnames = config.hostnames;
    facets.leased_ips = facets.leased_ips.filter(|_| config.leased_ips);
    (config, MemoryCluster::new(facets))
}

/// Returns a certificate of the provider. The certificate became valid a minute ago.
fn certificate_of(provider: &Address) -> OwnCertificate {
    let usage = CertUsage::Server {
        domains: vec!["localhost".to_owned()],
    };
    OwnCertificate::make(provider, &usage, Duration::from_secs(NOW - 60)).unwrap()
}

/// Returns the manifest of an SDL as JSON.
pub(super) fn manifest(sdl: &str) -> String {
    serde_json::to_string(&sdl::parse(sdl).unwrap().manifest).unwrap()
}

pub(super) async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting)
        .await
        .unwrap_or_else(|_| panic!("{what}: condition not reached within {TIMEOUT:?}"));
}

impl World {
    pub(super) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub(super) async fn with(change: impl FnOnce(&mut GatewaySettings)) -> Self {
        Self::with_attributes(Vec::new(), change).await
    }

    pub(super) async fn with_attributes(
        attributes: Vec<Attribute>,
        change: impl FnOnce(&mut GatewaySettings),
    ) -> Self {
        Self::with_all(attributes, hardware(), change).await
    }

    pub(super) async fn with_all(
        attributes: Vec<Attribute>,
        capacity: InventoryUpdate,
        change: impl FnOnce(&mut GatewaySettings),
    ) -> Self {
        Self::with_config(Some(attributes), capacity, |_| {}, change).await
    }

    /// Starts a provider. Without attributes, the provider is not registered. `configure` also decides
    /// whether the cluster supports hostnames and leased IPs.
    pub(super) async fn with_config(
        attributes: Option<Vec<Attribute>>,
        capacity: InventoryUpdate,
        configure: impl FnOnce(&mut Config),
        change: impl FnOnce(&mut GatewaySettings),
    ) -> Self {
        let provider: Address = PROVIDER.parse().unwrap();
        let chain = MemoryChain::new(MarketConfig::new("local", BlockTime(0)));
        chain.set_inclusion(Inclusion::Immediate {
            block_time: Duration::from_secs(1),
        });
        if let Some(attributes) = attributes {
            register(&chain, &provider, attributes);
        }
        let (config, cluster) = configured(&provider, configure);
        let source = MemoryInventorySource::new();
        source.push(capacity);
        let (provider_run, handle) = Provider::builder()
            .config(config.clone())
            .chain(Arc::new(chain.clone()))
            .cluster(Arc::new(cluster.clone()))
            .inventory(Arc::new(source))
            .pricing(Arc::new(prices()))
            .bus(Arc::new(LocalBus::new()))
            .build()
            .unwrap();
        let stop_provider = CancellationToken::new();
        let token = stop_provider.clone();
        let running = tokio::spawn(async move { provider_run.run(token).await.unwrap() });
        handle.wait_ready().await.unwrap();

        let clock = Arc::new(AtomicU64::new(NOW));
        let hand = Arc::clone(&clock);
        let mut settings = GatewaySettings::at("127.0.0.1:0".parse().unwrap());
        settings.clock = Clock::new(move || Duration::from_secs(hand.load(Ordering::SeqCst)));
        settings.public_hostname = "provider.localhost".to_owned();
        settings.limits.status_age = Duration::ZERO;
        settings.grpc_listen = Some("127.0.0.1:0".parse().unwrap());
        settings.screening = Some(Screening::new(config.clone(), Arc::new(prices())));
        change(&mut settings);
        let own = certificate_of(&provider);
        let memory = Arc::new(InMemory::default());
        let ports = GatewayBackends {
            handle: handle.clone(),
            cluster: Arc::new(cluster.clone()),
            chain: Arc::new(chain.clone()),
            memory: Arc::clone(&memory) as Arc<dyn AuthStore>,
        };
        let gateway = Gateway::bind(provider, ports, &own, settings).await.unwrap();
        let (address, tls) = (gateway.address().unwrap(), gateway.tls());
        let grpc = gateway.grpc_address().unwrap();
        let stop = CancellationToken::new();
        let serving = tokio::spawn(gateway.serve(stop.clone()));
        Self {
            chain,
            cluster,
            handle,
            address,
            tls,
            grpc,
            own,
            memory,
            clock,
            stop,
            stop_provider,
            serving,
            running,
        }
    }

    pub(super) fn set_time(&self, seconds: u64) {
        self.clock.store(seconds, Ordering::SeqCst);
    }

    /// Creates an account with money and a public key on the chain.
    pub(super) fn known_tenant(&self, seed: u8) -> PrivateKey {
        let key = tenant(seed);
        self.register(key.address(), key.public().as_bytes());
        key
    }

    pub(super) fn register(&self, account: &Address, key: &[u8]) {
        self.chain.market(|market| {
            market.fund(account, &coin());
            market.set_pubkey(account, key.to_vec());
        });
    }

    /// Creates and publishes a certificate of an account.
    pub(super) fn certificate(&self, key: &PrivateKey) -> OwnCertificate {
        let made = Duration::from_secs(NOW - 60) + Duration::from_nanos(u64::from(rand_like()));
        let own = OwnCertificate::make(key.address(), &CertUsage::Client, made).unwrap();
        self.publish(&own.publish());
        own
    }

    pub(super) fn publish(&self, msg: &Msg) {
        self.chain.market(|market| market.execute(msg).unwrap());
    }

    /// Creates a deployment with a lease at this provider, without a manifest.
    pub(super) async fn lease(&self, owner: &Address, dseq: u64, sdl: &Sdl) -> LeaseId {
        let id = DeploymentId::new(owner.clone(), dseq);
        let deposit = Coin {
            amount: 5_000_000,
            ..coin()
        };
        self.chain
            .tenant(TenantMsg::create_deployment(id.clone(), sdl, deposit))
            .unwrap();
        let bid = || {
            self.chain.market(|market| {
                let mut orders = market.orders().filter(|o| *o.id.deployment() == id);
                let open = orders.find(|o| o.state == OrderState::Open)?.id.clone();
                market.bids_of(&open).next().map(|b| b.id.clone())
            })
        };
        until("a bid", || async {
            let status = self.handle.status().await;
            let ours = status
                .recent_declines
                .iter()
                .find(|d| *d.order.deployment() == id);
            assert!(ours.is_none(), "{ours:?}");
            bid().is_some()
        })
        .await;
        let lease = bid().unwrap();
        self.chain
            .tenant(TenantMsg::CreateLease { bid: lease.clone() })
            .unwrap();
        until("the lease", || async {
            self.handle.has_lease(&lease).await.unwrap()
        })
        .await;
        lease
    }

    /// Creates a lease with a running workload.
    pub(super) async fn running(&self, owner: &Address, dseq: u64, text: &str) -> LeaseId {
        let sdl = sdl::parse(text).unwrap();
        let lease = self.lease(owner, dseq, &sdl).await;
        let manifest = Arc::new(sdl.manifest.clone());
        self.handle
            .submit_manifest(lease.deployment(), manifest, sdl.hash)
            .await
            .unwrap();
        self.runs(&lease).await;
        lease
    }

    pub(super) async fn runs(&self, lease: &LeaseId) {
        until("a running workload", || async {
            let status = self.cluster.lease_status(lease).await;
            let deployed = self.cluster.contents().running.get(lease).cloned();
            // Hostnames are declared after the workload.
            let declared = self.cluster.contents().hostnames;
            let named = |d: &akash_provider_core::cluster::WorkloadSpec| {
                d.hostnames
                    .iter()
                    .all(|h| declared.get(&h.hostname) == Some(lease))
            };
            status.is_ok_and(|s| s.services.values().all(|s| s.available == s.total))
                && deployed.is_some_and(|d| named(&d))
        })
        .await;
    }

    pub(super) fn client(&self) -> Client {
        Client::new(self.address)
    }

    /// Returns a client with a token for full access.
    pub(super) fn tenant_client(&self, key: &PrivateKey) -> Client {
        let token = token_for(key, &json!({ "access": "full" }));
        self.client().bearer(&token)
    }

    /// Sends one request with a token for full access.
    pub(super) async fn ask(&self, key: &PrivateKey, method: &str, path: &str, body: &str) -> Reply {
        self.tenant_client(key).send(method, path, body).await
    }

    pub(super) async fn put_manifest(&self, key: &PrivateKey, dseq: u64, sdl: &str) -> Reply {
        let path = format!("/deployment/{dseq}/manifest");
        self.ask(key, "PUT", &path, &manifest(sdl)).await
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.serving.await.unwrap();
        self.stop_provider.cancel();
        self.running.await.unwrap();
    }

    pub(super) fn stop_gateway(&self) {
        self.stop.cancel();
    }

    pub(super) async fn stop_provider(&self) {
        self.stop_provider.cancel();
        until("the provider's end", || async {
            self.handle.has_lease(&"akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/1/1/1/akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse().unwrap()).await.is_err()
        })
        .await;
    }
}

/// Returns a different serial number for each call.
fn rand_like() -> u32 {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::SeqCst)
}

/// Returns claims that are valid now.
pub(super) fn claims(issuer: &Address, leases: &Value) -> Value {
    json!({
        "iss": issuer.as_str(), "iat": NOW - 10, "nbf": NOW - 10, "exp": NOW + 900, "version": "v1",
        "leases": leases, "jti": "token-1",
    })
}

pub(super) fn token_for(key: &PrivateKey, leases: &Value) -> String {
    signed(key, &claims(key.address(), leases))
}

pub(super) fn signed_by_wallet(key: &PrivateKey, claims: &Value) -> String {
    token::encode(Algorithm::Es256kAdr36, key.address(), claims, |text| {
        key.sign(text)
    })
}

pub(super) fn signed(key: &PrivateKey, claims: &Value) -> String {
    token::encode(Algorithm::Es256k, key.address(), claims, |text| key.sign(text))
}
