//! The driver acts as the tenant and makes blocks while a client is checked.

use crate::chain::MemoryChain;
use crate::conformance::Outage;
use crate::market::{MarketConfig, TenantMsg};
use crate::types::{
    Address, BidId, BlockTime, Coin, DecCoin, DeploymentId, GroupSpec, Msg, OrderId, ProviderRecord,
    ResourceUnit, Resources,
};
use async_trait::async_trait;
use futures::FutureExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Acts as the tenant and as a competing provider, and makes or awaits blocks.
///
/// When a method returns, the newest block contains the effect of the method, or the next block will contain
/// this effect. A method panics when the chain refuses the action.
#[async_trait]
pub trait Driver: Send + Sync {
    /// Returns the registered provider of the client under test.
    fn provider(&self) -> Address;
    /// Returns a second registered provider.
    fn competitor(&self) -> Address;
    /// Returns the price for all bids of the suite. The driver's orders must allow this price.
    fn price(&self) -> DecCoin;
    /// Returns the id of an order that never exists.
    fn no_order(&self) -> OrderId;
    /// Creates a deployment with `groups` groups that require no attributes. Returns the order id of each
    /// group.
    async fn create_deployment(&self, groups: u32) -> Vec<OrderId>;
    /// Closes a deployment.
    async fn close_deployment(&self, id: &DeploymentId);
    /// Places a bid of the competing provider on an order.
    async fn competing_bid(&self, order: &OrderId);
    /// Accepts a bid as the tenant.
    async fn create_lease(&self, bid: &BidId);
    /// Closes a lease as the tenant.
    async fn close_lease(&self, id: &BidId);
    /// Completes a block.
    async fn next_block(&self);
}

/// Returns the message that creates a deployment for [`Driver::create_deployment`].
///
/// Each group has one unit, no required attributes, and a maximum price of `price` per block.
#[must_use]
pub fn deployment_of(id: &DeploymentId, groups: u32, price: &DecCoin) -> TenantMsg {
    let unit = ResourceUnit {
        resources: Resources {
            id: 1,
            ..Resources::default()
        },
        count: 1,
        price: price.clone(),
    };
    let group = |n| GroupSpec::new(format!("group-{n}"), vec![unit.clone()]);
    TenantMsg::CreateDeployment {
        id: id.clone(),
        groups: (0..groups).map(group).collect(),
        hash: [1; 32],
        deposit: uact(5_000_000),
        reclamation_min_window: None,
    }
}

/// Drives a [`MemoryChain`].
#[derive(Debug)]
pub struct MemoryDriver {
    chain: MemoryChain,
    dseq: AtomicU64,
}

impl Default for MemoryDriver {
    fn default() -> Self {
        Self::new()
    }
}

const BLOCK_TIME: Duration = Duration::from_secs(6);

fn account(number: u8) -> Address {
    Address::from_bytes(&[number; 20]).expect("20 bytes are an address")
}

fn uact(amount: u128) -> Coin {
    Coin::new("uact", amount)
}

impl MemoryDriver {
    /// Creates a chain with a tenant and two registered providers.
    #[must_use]
    pub fn new() -> Self {
        let chain = MemoryChain::new(MarketConfig::new("suite", BlockTime(1_700_000_000_000)));
        let driver = Self {
            chain,
            dseq: AtomicU64::new(1),
        };
        driver.chain.market(|market| {
            market.fund(&account(1), &uact(1_000_000_000));
            for owner in [driver.provider(), driver.competitor()] {
                market.fund(&owner, &uact(1_000_000_000));
                let record = ProviderRecord {
                    owner,
                    host_uri: "https://provider.example:8443".to_owned(),
                    info: Default::default(),
                    attributes: Vec::new(),
                };
                let created = market.execute(&Msg::CreateProvider(record));
                created.expect("a new provider can register");
            }
        });
        driver
    }

    /// Returns the chain, for the suite or for fault injection.
    #[must_use]
    pub fn client(&self) -> MemoryChain {
        self.chain.clone()
    }

    /// Returns functions that start and end an outage of the node: queries fail and events are lost.
    #[must_use]
    pub fn outage(&self) -> Outage<'static> {
        let (lost, back) = (self.client(), self.client());
        Outage {
            start: Box::new(move || {
                lost.fail_queries(crate::chain::QueryOutage::UntilRestored);
                lost.interrupt_events();
                async {}.boxed()
            }),
            end: Box::new(move || {
                back.restore_queries();
                back.restore_events();
                async {}.boxed()
            }),
        }
    }

    fn tenant(&self, msg: TenantMsg) {
        self.chain
            .tenant(msg)
            .expect("the chain accepts the message of the tenant");
    }
}

#[async_trait]
impl Driver for MemoryDriver {
    fn provider(&self) -> Address {
        account(2)
    }

    fn competitor(&self) -> Address {
        account(3)
    }

    fn price(&self) -> DecCoin {
        DecCoin::new(&"uact".into(), crate::types::Dec::from_int(40))
    }

    fn no_order(&self) -> OrderId {
        let group = DeploymentId::new(account(1), u64::MAX).group(1);
        group.order(1)
    }

    async fn create_deployment(&self, groups: u32) -> Vec<OrderId> {
        let id = DeploymentId::new(account(1), self.dseq.fetch_add(1, Ordering::Relaxed));
        self.tenant(deployment_of(&id, groups, &self.price()));
        let order = |gseq| id.clone().group(gseq).order(1);
        (1..=groups).map(order).collect()
    }

    async fn close_deployment(&self, id: &DeploymentId) {
        self.tenant(TenantMsg::CloseDeployment { id: id.clone() });
        self.next_block().await;
    }

    async fn competing_bid(&self, order: &OrderId) {
        let id = super::bid_id(order, &self.competitor());
        let bid = super::create_bid(&id, self);
        let outcome = super::send(
            &self.chain,
            self,
            vec![bid],
            &super::rule("the competing provider bids"),
        )
        .await;
        let landed = matches!(outcome, crate::types::TxOutcome::Committed { .. });
        assert!(landed, "the competing provider bids: {outcome:?}");
    }

    async fn create_lease(&self, bid: &BidId) {
        self.tenant(TenantMsg::CreateLease { bid: bid.clone() });
    }

    async fn close_lease(&self, id: &BidId) {
        self.tenant(TenantMsg::CloseLease { id: id.clone() });
    }

    async fn next_block(&self) {
        self.chain.advance(BLOCK_TIME);
        tokio::task::yield_now().await;
    }
}
