//! Daemon on a development network: an order becomes a running lease, which survives a restart.

#![expect(clippy::unwrap_used, reason = "a failing test panics")]

use akash_provider_core::chain::MemoryChain;
use akash_provider_core::cluster::MemoryCluster;
use akash_provider_core::inventory::node_inventory::{NodeInventory, StaticInventorySource};
use akash_provider_core::market::{MarketConfig, TenantMsg};
use akash_provider_core::provider::ProviderHandle;
use akash_provider_core::sdl;
use akash_provider_core::types::{Address, BlockTime, DeploymentId, Msg, ProviderRecord};
use akash_provider_core::{RestartState, engine::Status};
use akash_provider_devnet::wallet::allowance;
use akash_provider_devnet::{Devnet, DevnetConfig};
use example_own_daemon::{ClusterBackend, DaemonError, DaemonSettings, run};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const TIMEOUT: Duration = Duration::from_secs(60);
/// Private key of the provider, as 64 hexadecimal digits.
const KEY: &str = "0202020202020202020202020202020202020202020202020202020202020202";

fn provider() -> Address {
    let key = akash_provider_chain::private_key::PrivateKey::from_bytes(&[2; 32]).unwrap();
    key.address().clone()
}

fn chain() -> MemoryChain {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = BlockTime(i64::try_from(since.as_millis()).unwrap());
    let chain = MemoryChain::new(MarketConfig::new("devnet", now));
    chain.market(|market| {
        for account in [provider(), example_embedded::TENANT.parse().unwrap()] {
            for coin in allowance() {
                market.fund(&account, &coin);
            }
        }
        let record = ProviderRecord {
            owner: provider(),
            host_uri: "https://provider.example:8443".to_owned(),
            info: Default::default(),
            attributes: Vec::new(),
        };
        market.execute(&Msg::CreateProvider(record)).unwrap();
    });
    chain
}

fn write_settings(folder: &Path, node: &str) -> DaemonSettings {
    let account = provider();
    let text = format!(
        "nodes = [\"{node}\"]\nkey = \"key\"\nstate = \"state.json\"\n\
         [prices]\ncpu = \"0.01\"\nmemory = \"0.01\"\nstorage = \"0.001\"\n\
         [provider]\nprovider = \"{account}\"\nchain_id = \"devnet\"\nquery_timeout = \"20s\"\n"
    );
    let file = folder.join("daemon.toml");
    std::fs::write(&file, text).unwrap();
    std::fs::write(folder.join("key"), KEY).unwrap();
    DaemonSettings::read(&file).unwrap()
}

struct Daemon {
    handle: ProviderHandle,
    stop: CancellationToken,
    running: JoinHandle<Result<(), DaemonError>>,
}

impl Daemon {
    async fn start(settings: &DaemonSettings, cluster: &MemoryCluster) -> Self {
        let nodes = NodeInventory::new(&example_embedded::cluster());
        let backend = ClusterBackend {
            cluster: Arc::new(cluster.clone()),
            inventory: Arc::new(StaticInventorySource::new(nodes)),
        };
        let (sender, started) = tokio::sync::oneshot::channel();
        let stop = CancellationToken::new();
        let running = run(settings.clone(), backend, stop.clone(), |handle| {
            drop(sender.send(handle))
        });
        let running = tokio::spawn(running);
        let handle = started.await.unwrap();
        tokio::time::timeout(TIMEOUT, handle.wait_ready())
            .await
            .unwrap()
            .unwrap();
        Self {
            handle,
            stop,
            running,
        }
    }

    async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(TIMEOUT, self.running)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Status) -> bool) {
        let seen = async {
            while !is_so(&*self.handle.status().await) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let seen = tokio::time::timeout(TIMEOUT, seen).await;
        assert!(seen.is_ok(), "{what}: {:?}", self.handle.status().await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn order_becomes_a_lease_that_outlives_the_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let chain = chain();
    let mut devnet = DevnetConfig::new(chain.clone());
    devnet.block_time = Some(Duration::from_millis(200));
    let devnet = Devnet::start(devnet).await.unwrap();
    let settings = write_settings(folder.path(), &devnet.rpc_url());
    let cluster = MemoryCluster::default();
    let daemon = Daemon::start(&settings, &cluster).await;

    let tenant = sdl::parse(example_embedded::SDL).unwrap();
    let id = DeploymentId::new(example_embedded::TENANT.parse().unwrap(), 1);
    let create = TenantMsg::CreateDeployment {
        id: id.clone(),
        groups: tenant.groups.clone(),
        hash: tenant.hash,
        deposit: "5000000uact".parse().unwrap(),
        reclamation_min_window: None,
    };
    chain.tenant(create).unwrap();
    let group = id.clone().group(1);
    let bid = group.order(1).bid(provider());
    daemon
        .until("it bids", |_| chain.market(|market| market.bid(&bid).is_some()))
        .await;
    chain.tenant(TenantMsg::CreateLease { bid: bid.clone() }).unwrap();
    daemon
        .until("the lease", |status| !status.leases.is_empty())
        .await;
    let manifest = Arc::new(tenant.manifest.clone());
    daemon
        .handle
        .submit_manifest(&id, manifest, tenant.hash)
        .await
        .unwrap();
    daemon
        .until("it runs", |_| cluster.contents().running.contains_key(&bid))
        .await;
    daemon.stop().await;
    assert!(
        cluster.contents().running.contains_key(&bid),
        "a stop removes no workload"
    );

    // The stored state is there at the next start.
    let tripped = RestartState::unknown();
    std::fs::write(&settings.state, tripped.to_json()).unwrap();
    let daemon = Daemon::start(&settings, &cluster).await;
    daemon
        .until("the lease after the restart", |status| status.leases.len() == 1)
        .await;
    assert!(daemon.handle.status().await.breaker.tripped);
    daemon.handle.release_breaker().await.unwrap();
    daemon.stop().await;
    assert_eq!(
        example_own_daemon::read(&settings.state).unwrap(),
        RestartState::default()
    );
    devnet.stop().await;
}

#[test]
fn error_of_a_setting_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    write_settings(folder.path(), "http://127.0.0.1:1");
    let file = folder.path().join("daemon.toml");
    let text = std::fs::read_to_string(&file).unwrap().replace("20s", "soon");
    std::fs::write(&file, text).unwrap();
    let message = DaemonSettings::read(&file).unwrap_err().to_string();
    assert!(
        message.contains("daemon.toml: section provider: setting query_timeout: invalid duration `soon`"),
        "{message}"
    );
}
