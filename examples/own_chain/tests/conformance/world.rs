//! Ledger in a temporary folder, with a tenant and two providers.

use akash_provider_core::chain::ChainTx;
use akash_provider_core::chain::conformance::{Driver, deployment_of};
use akash_provider_core::market::{TenantMsg, network_params};
use akash_provider_core::types::{
    Address, BidId, BlockTime, Coin, Dec, DecCoin, DeploymentId, Msg, OrderId, ProviderRecord, TxOutcome,
};
use async_trait::async_trait;
use example_own_chain::{Genesis, OwnChain};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) const BLOCK: Duration = Duration::from_secs(6);

/// Temporary folder. Dropping this value removes the folder.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("ledger-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.0.join("ledger.jsonl")
    }

    pub(crate) fn open(&self) -> OwnChain {
        OwnChain::open(&self.ledger(), &genesis()).unwrap()
    }

    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(self.ledger()).unwrap()
    }

    pub(crate) fn write(&self, text: &str) {
        std::fs::write(self.ledger(), text).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn account(number: u8) -> Address {
    Address::from_bytes(&[number; 20]).unwrap()
}

fn uact(amount: u128) -> Coin {
    Coin::new("uact", amount)
}

pub(crate) fn genesis() -> Genesis {
    Genesis {
        chain_id: "own".to_owned(),
        time: BlockTime(1_700_000_000_000),
        params: network_params(),
        money: (1..4).map(|n| (account(n), uact(1_000_000_000))).collect(),
    }
}

pub(crate) fn record(owner: Address) -> ProviderRecord {
    ProviderRecord {
        owner,
        host_uri: "https://provider.example:8443".to_owned(),
        info: Default::default(),
        attributes: Vec::new(),
    }
}

/// Driver of the chain conformance suite, with a tenant and two providers. Completes a block per message.
pub(crate) struct Accounts {
    pub(crate) chain: OwnChain,
    dseq: AtomicU64,
}

impl Accounts {
    /// Registers both providers on a new chain. `dseq` is the first deployment number.
    pub(crate) async fn new(chain: OwnChain, dseq: u64) -> Self {
        let dseq = AtomicU64::new(dseq);
        let accounts = Self { chain, dseq };
        for owner in [accounts.provider(), accounts.competitor()] {
            accounts.send(Msg::CreateProvider(record(owner))).await;
        }
        accounts
    }

    pub(crate) async fn send(&self, msg: Msg) -> TxOutcome {
        let (outcome, block) = tokio::join!(self.chain.broadcast_msgs(vec![msg]), self.chain.block(BLOCK));
        block.unwrap();
        outcome.unwrap()
    }

    async fn tenant(&self, msg: TenantMsg) {
        let (height, block) = tokio::join!(self.chain.tenant(msg), self.chain.block(BLOCK));
        assert!(block.unwrap() >= height.unwrap());
    }

    pub(crate) async fn bid(&self, order: &OrderId, provider: Address) -> (BidId, TxOutcome) {
        let id = order.clone().bid(provider);
        let bid = Msg::CreateBid {
            id: id.clone(),
            price: self.price(),
            deposit: uact(500_000),
            resources_offer: Vec::new(),
            reclamation_window: None,
        };
        (id, self.send(bid).await)
    }
}

#[async_trait]
impl Driver for Accounts {
    fn provider(&self) -> Address {
        account(2)
    }

    fn competitor(&self) -> Address {
        account(3)
    }

    fn price(&self) -> DecCoin {
        DecCoin::new(&"uact".into(), Dec::from_int(40))
    }

    fn no_order(&self) -> OrderId {
        order(u64::MAX, 1)
    }

    async fn create_deployment(&self, groups: u32) -> Vec<OrderId> {
        let dseq = self.dseq.fetch_add(1, Ordering::Relaxed);
        let id = order(dseq, 1).deployment().clone();
        self.tenant(deployment_of(&id, groups, &self.price())).await;
        (1..=groups).map(|gseq| order(dseq, gseq)).collect()
    }

    async fn close_deployment(&self, id: &DeploymentId) {
        self.tenant(TenantMsg::CloseDeployment { id: id.clone() }).await;
    }

    async fn competing_bid(&self, order: &OrderId) {
        let (_, outcome) = self.bid(order, self.competitor()).await;
        assert!(matches!(outcome, TxOutcome::Committed { .. }), "{outcome:?}");
    }

    async fn create_lease(&self, bid: &BidId) {
        self.tenant(TenantMsg::CreateLease { bid: bid.clone() }).await;
    }

    async fn close_lease(&self, id: &BidId) {
        self.tenant(TenantMsg::CloseLease { id: id.clone() }).await;
    }

    async fn next_block(&self) {
        self.chain.block(BLOCK).await.unwrap();
    }
}

fn order(dseq: u64, gseq: u32) -> OrderId {
    let deployment = DeploymentId::new(account(1), dseq);
    let group = deployment.group(gseq);
    group.order(1)
}
