//! Tenant and competing provider of the conformance suite. Both send signed transactions to the development network.

use super::client::reader;
use akash_provider_chain::convert::{tenant_to_any, to_any};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::chain::conformance::{Driver, deployment_of};
use akash_provider_core::chain::{ChainQuery, MemoryChain};
use akash_provider_core::market::{MarketConfig, TenantMsg};
use akash_provider_core::types::{
    Address, BidId, BlockTime, Coin, Dec, DecCoin, DeploymentId, Msg, OrderId, ProviderRecord,
};
use akash_provider_devnet::wallet::{Wallet, allowance};
use akash_provider_devnet::{Devnet, DevnetConfig};
use async_trait::async_trait;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) const CHAIN_ID: &str = "devnet";
/// Block interval: short, but long enough for a slow machine.
const BLOCK_TIME: Duration = Duration::from_millis(150);

pub(crate) fn key(number: u8) -> PrivateKey {
    PrivateKey::from_bytes(&[number; 32]).unwrap()
}

pub(crate) fn now() -> BlockTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    BlockTime(i64::try_from(since.as_millis()).unwrap())
}

/// Creates a chain with a tenant (key 1) and two registered providers (keys 2 and 3).
pub(crate) fn chain() -> MemoryChain {
    let chain = MemoryChain::new(MarketConfig::new(CHAIN_ID, now()));
    chain.market(|market| {
        for number in 1..=3 {
            for coin in allowance() {
                market.fund(key(number).address(), &coin);
            }
        }
        for number in 2..=3 {
            let record = ProviderRecord {
                owner: key(number).address().clone(),
                host_uri: "https://provider.example:8443".to_owned(),
                attributes: Vec::new(),
                info: akash_provider_core::types::ProviderInfo::default(),
            };
            market.execute(&Msg::CreateProvider(record)).unwrap();
        }
    });
    chain
}

pub(crate) async fn devnet(block_time: Option<Duration>) -> Devnet {
    let mut config = DevnetConfig::new(chain());
    config.block_time = block_time;
    Devnet::start(config).await.unwrap()
}

/// Driver of the conformance suite for a development network with automatic blocks.
pub(crate) struct WireDriver {
    pub(crate) devnet: Devnet,
    reader: akash_provider_chain::Reader,
    tenant: Wallet,
    competitor: Wallet,
    dseq: AtomicU64,
}

impl WireDriver {
    pub(crate) async fn new() -> Self {
        let devnet = devnet(Some(BLOCK_TIME)).await;
        let reader = reader(&devnet.rpc_url(), CHAIN_ID);
        let wallet = |number| Wallet::new(Arc::new(reader.clone()), key(number));
        Self {
            tenant: wallet(1),
            competitor: wallet(3),
            devnet,
            reader,
            dseq: AtomicU64::new(1),
        }
    }

    async fn tenant(&self, msg: &TenantMsg) {
        self.tenant.send(vec![tenant_to_any(msg).unwrap()]).await.unwrap();
    }
}

#[async_trait]
impl Driver for WireDriver {
    fn provider(&self) -> Address {
        key(2).address().clone()
    }

    fn competitor(&self) -> Address {
        key(3).address().clone()
    }

    fn price(&self) -> DecCoin {
        DecCoin::new(&"uact".into(), Dec::from_int(40))
    }

    fn no_order(&self) -> OrderId {
        let deployment = DeploymentId::new(key(1).address().clone(), 4_000_000_000);
        let group = deployment.group(1);
        group.order(1)
    }

    async fn create_deployment(&self, groups: u32) -> Vec<OrderId> {
        let id = DeploymentId::new(
            key(1).address().clone(),
            self.dseq.fetch_add(1, Ordering::Relaxed),
        );
        self.tenant(&create(&id, groups)).await;
        (1..=groups).map(|gseq| order(&id, gseq)).collect()
    }

    async fn close_deployment(&self, id: &DeploymentId) {
        self.tenant(&TenantMsg::CloseDeployment { id: id.clone() }).await;
    }

    async fn competing_bid(&self, order: &OrderId) {
        let id = order.clone().bid(self.competitor());
        self.competitor.send(vec![to_any(&bid(&id))]).await.unwrap();
    }

    async fn create_lease(&self, bid: &BidId) {
        self.tenant(&TenantMsg::CreateLease { bid: bid.clone() }).await;
    }

    async fn close_lease(&self, id: &BidId) {
        self.tenant(&TenantMsg::CloseLease { id: id.clone() }).await;
    }

    async fn next_block(&self) {
        let before = self.reader.sync_info().await.unwrap().height;
        while ChainQuery::sync_info(&self.reader).await.unwrap().height <= before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub(crate) fn order(deployment: &DeploymentId, gseq: u32) -> OrderId {
    deployment.clone().group(gseq).order(1)
}

/// Returns a deployment with this number of groups, without required attributes.
pub(crate) fn create(id: &DeploymentId, groups: u32) -> TenantMsg {
    deployment_of(id, groups, &DecCoin::new(&"uact".into(), Dec::from_int(40)))
}

pub(crate) fn bid(id: &BidId) -> Msg {
    Msg::CreateBid {
        id: id.clone(),
        price: DecCoin::new(&"uact".into(), Dec::from_int(40)),
        deposit: uact(500_000),
        resources_offer: Vec::new(),
        reclamation_window: None,
    }
}

pub(crate) fn uact(amount: u128) -> Coin {
    Coin::new("uact", amount)
}
