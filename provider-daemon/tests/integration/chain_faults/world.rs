//! A development network with tenants and the account of a provider.

use akash_provider_chain::private_key::PrivateKey;
use akash_provider_chain::tx::TxSigner;
use akash_provider_chain::{AkashClient, ClientSettings};
use akash_provider_core::chain::MemoryChain;
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::market::{MarketConfig, TenantMsg};
use akash_provider_core::types::{
    Address, BidId, BlockTime, Coin, Cpu, Dec, DecCoin, DeploymentId, GroupSpec, Height, Memory, Msg,
    OrderId, PlacementRequirements, ProviderRecord, ResourceUnit, Resources, Storage,
};
use akash_provider_devnet::{Devnet, DevnetConfig};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

pub(crate) const CHAIN: &str = "faulty";
/// Maximum wait for a condition.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn key() -> PrivateKey {
    PrivateKey::from_bytes(&[7; 32]).unwrap()
}

pub(crate) fn us() -> Address {
    key().address().clone()
}

fn tenant() -> Address {
    Address::from_bytes(&[1; 20]).unwrap()
}

fn coin(amount: u128, denom: &str) -> Coin {
    Coin::new(denom, amount)
}

pub(crate) fn price() -> DecCoin {
    DecCoin::new(&"uact".into(), Dec::from_int(10))
}

/// A chain with a registered provider.
pub(crate) fn chain() -> MemoryChain {
    let chain = MemoryChain::new(MarketConfig::new(CHAIN, BlockTime(1_700_000_000_000)));
    chain.set_queue_limit(1_000_000);
    chain.market(|market| {
        market.fund(&tenant(), &coin(u128::from(u64::MAX), "uact"));
        for denom in ["uact", "uakt"] {
            market.fund(&us(), &coin(u128::from(u64::MAX), denom));
        }
        let record = ProviderRecord {
            owner: us(),
            host_uri: "https://provider.example:8443".to_owned(),
            attributes: Vec::new(),
            info: Default::default(),
        };
        market.execute(&Msg::CreateProvider(record)).unwrap();
    });
    chain.advance(Duration::from_secs(1));
    chain
}

pub(crate) async fn devnet(chain: &MemoryChain, block_time: Option<Duration>) -> Devnet {
    let mut config = DevnetConfig::new(chain.clone());
    config.block_time = block_time;
    Devnet::start(config).await.unwrap()
}

/// Returns the `host:port` part of a URL.
pub(crate) fn authority(url: &str) -> String {
    url.split_once("://").unwrap().1.to_owned()
}

pub(crate) fn order(chain: &MemoryChain, dseq: u64) -> OrderId {
    let id = DeploymentId::new(tenant(), dseq);
    let unit = ResourceUnit {
        resources: Resources {
            id: 1,
            cpu: Cpu {
                units: 100,
                ..Cpu::default()
            },
            memory: Memory {
                bytes: 1 << 27,
                ..Memory::default()
            },
            storage: vec![Storage {
                name: "default".to_owned(),
                bytes: 1 << 27,
                ..Storage::default()
            }],
            ..Resources::default()
        },
        count: 1,
        price: DecCoin::new(&"uact".into(), Dec::from_int(100)),
    };
    let group = GroupSpec {
        name: "web".to_owned(),
        requirements: PlacementRequirements::default(),
        resources: vec![unit],
    };
    let create = TenantMsg::CreateDeployment {
        id: id.clone(),
        groups: vec![group],
        hash: [1; 32],
        deposit: coin(5_000_000, "uact"),
        reclamation_min_window: None,
    };
    chain.tenant(create).unwrap();
    id.group(1).order(1)
}

pub(crate) fn bid_id(order: &OrderId) -> BidId {
    order.clone().bid(us())
}

/// Returns a bid. The number of volumes depends on the deployment number, so that some bids have no gas
/// estimate.
pub(crate) fn bid(order: &OrderId) -> Msg {
    let volumes = 1 + order.deployment().dseq / 4 % 16;
    let volume = |at| Storage {
        name: format!("volume-{at}"),
        bytes: 1 << 20,
        ..Storage::default()
    };
    let resources = Resources {
        id: 1,
        storage: (0..volumes).map(volume).collect(),
        ..Resources::default()
    };
    Msg::CreateBid {
        id: bid_id(order),
        price: price(),
        deposit: coin(500_000, "uact"),
        resources_offer: vec![ResourceUnit {
            resources,
            count: 1,
            price: DecCoin::new(&"uact".into(), Dec::from_int(0)),
        }],
        reclamation_window: None,
    }
}

/// Client settings with timeouts for a block time of 0.2 s.
pub(crate) fn impatient(nodes: Vec<String>) -> ClientSettings {
    let mut settings = ClientSettings::new(nodes, CHAIN);
    settings.signer = Some(TxSigner::new(key(), LeadershipGate::new(true)));
    settings.limits.response_time = Duration::from_millis(1500);
    settings.limits.connect_time = Duration::from_millis(500);
    settings.limits.health_age = Duration::from_millis(500);
    settings.limits.attempts = 4;
    let follower = &mut settings.follower;
    follower.ping_interval = Duration::from_millis(200);
    follower.read_deadline = Duration::from_millis(1000);
    follower.poll_interval = Duration::from_millis(100);
    follower.poll_for = Duration::from_secs(1);
    follower.silence = Duration::from_secs(2);
    follower.outage = Duration::from_secs(5);
    follower.gap_max = 500;
    follower.resync_pause = Duration::from_secs(1);
    follower.parallel = 8;
    follower.wait_min = Duration::from_millis(20);
    follower.wait_max = Duration::from_millis(300);
    settings.planner.poll = Duration::from_millis(300);
    settings.planner.followed_poll = Duration::from_secs(2);
    settings
}

pub(crate) fn start(settings: ClientSettings, stop: &CancellationToken) -> AkashClient {
    let (client, task) = AkashClient::start(settings, stop.clone()).unwrap();
    tokio::spawn(task);
    client
}

pub(crate) fn height(chain: &MemoryChain) -> Height {
    chain.market(|market| market.height())
}

pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(
            began.elapsed() < PATIENCE,
            "{what}: condition not reached in time"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
