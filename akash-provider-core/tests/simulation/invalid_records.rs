//! Invalid and oversized records among valid ones. The records of third parties must not stop the provider.

use crate::ids::{self, COMPETITOR, PROVIDER, Shape, THIRD_PARTY};
use crate::invariants::CallCheck;
use crate::money::coin;
use crate::oracle::{Checked, ensure};
use crate::world::World;
use akash_provider_core::bidding::UNITS_MAX;
use akash_provider_core::engine::Call;
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{
    Attribute, BlockTime, ChainEvent, CloseReason, Dec, DecCoin, DeploymentId, Endpoint, EndpointKind,
    GroupSpec, Msg, Order, OrderId, OrderState, Storage,
};
use std::sync::Arc;
use std::time::Duration;

const INVALID_ORDERS_MAX: usize = 4;
const THIRD_PARTY_DEPLOYMENTS_MAX: u64 = 2;
/// Number of kinds of invalid orders.
const INVALID_GROUPS: usize = 18;

fn sane() -> GroupSpec {
    ids::spec(
        0,
        Shape {
            cpu: 100,
            price: 400,
            ..Shape::default()
        },
    )
}

fn invalid_group(way: usize) -> GroupSpec {
    let mut spec = sane();
    let unit = &mut spec.resources[0];
    match way {
        0 => spec.resources.clear(),
        1 => unit.count = 0,
        2 => unit.resources.cpu.units = 0,
        3 => (unit.resources.cpu.units, unit.count) = (u64::MAX, u32::MAX),
        4 => unit.resources.memory.bytes = u64::MAX,
        5 => unit.resources.storage[0].bytes = u64::MAX,
        6 => unit.price.amount = Dec::from_int(-1),
        7 => unit.price.amount = Dec::from_scaled(i128::MAX),
        8 => spec.resources.push(spec.resources[0].clone()),
        9 => unit.resources.id = 0,
        10 => spec.name.clear(),
        11 => unit.resources.cpu.attributes = vec![Attribute::new("*bad", "x".repeat(20_000))],
        12 => spec.resources = vec![spec.resources[0].clone(); UNITS_MAX + 1],
        13 => spec.requirements.signed_by.any_of = (0..2_000).map(|n| format!("auditor {n}")).collect(),
        14 => {
            unit.resources.gpu.units = u64::MAX;
            unit.resources.gpu.attributes = vec![Attribute::new("vendor//model/", "")];
        }
        15 => unit.resources.storage = vec![Storage::default(); 64],
        16 => {
            let mut other = unit.clone();
            other.resources.id = 2;
            other.price = DecCoin::new(&"".into(), Dec::from_int(1));
            spec.resources.push(other);
        }
        _ => {
            let port = Endpoint::new(EndpointKind::RandomPort, u32::MAX);
            unit.resources.endpoints = vec![port; 3_000];
        }
    }
    spec
}

/// Returns a group at the size limits.
fn large(in_many_units: bool) -> GroupSpec {
    let mut spec = sane();
    let unit = &mut spec.resources[0];
    unit.resources.cpu.units = 10;
    unit.resources.memory.bytes = 1 << 20;
    unit.resources.storage[0].bytes = 5 << 20;
    unit.price = ids::uact(10_000_000);
    if in_many_units {
        let unit = unit.clone();
        let numbered = (1..).take(UNITS_MAX).map(|id| {
            let mut unit = unit.clone();
            unit.resources.id = id;
            unit
        });
        spec.resources = numbered.collect();
    } else {
        unit.count = 1_900_000;
    }
    spec
}

impl World {
    pub(crate) fn add_invalid_record(&mut self) {
        match self.feature_random.below(20) {
            0..6 => self.add_invalid_order(),
            6..9 => self.unreadable_order(),
            9..16 => self.send_unknown_events(),
            16..18 => self.sign_invalid_attributes(),
            18 => self.place_invalid_bid(),
            _ => self.order_large_group(),
        }
    }

    fn third_party_order(&mut self) -> OrderId {
        let deployment = DeploymentId::new(
            THIRD_PARTY.clone(),
            u64::MAX - self.feature_random.below(1_000_000),
        );
        let gseq = [0, 1, u32::MAX][self.feature_random.index(3)];
        let oseq = [0, 1, u32::MAX][self.feature_random.index(3)];
        deployment.group(gseq).order(oseq)
    }

    /// Adds an order that a real chain would reject. Snapshots and events contain this order.
    fn add_invalid_order(&mut self) {
        if self.chain.invalid_orders.len() >= INVALID_ORDERS_MAX {
            return;
        }
        let id = self.third_party_order();
        let spec = Arc::new(invalid_group(self.feature_random.index(INVALID_GROUPS)));
        let order = Order {
            id: id.clone(),
            state: OrderState::Open,
            spec,
            created_at: [0, 1, u64::MAX][self.feature_random.index(3)],
            reclamation_min_window: [None, Some(Duration::MAX)][self.feature_random.index(2)],
        };
        self.chain.add_invalid_order(order);
    }

    fn unreadable_order(&mut self) {
        let id = self.third_party_order();
        self.chain.unreadable.insert(id.clone());
        self.chain.push_events(vec![ChainEvent::OrderCreated { id }]);
    }

    /// Sends one random event about an object that does not exist, with extreme values.
    fn send_unknown_events(&mut self) {
        let order = self.third_party_order();
        let (group, deployment) = (order.group.clone(), order.group.deployment.clone());
        let id = order.clone().bid(COMPETITOR.clone());
        let price = DecCoin::new(&"".into(), Dec::from_scaled(i128::MIN));
        let reason = CloseReason::Other(u32::MAX);
        let event = match self.feature_random.below(10) {
            0 => ChainEvent::LeaseCreated { id, price },
            1 => ChainEvent::LeaseClosed { id, reason },
            2 => ChainEvent::BidClosed { id },
            3 => ChainEvent::OrderClosed { id: order },
            4 => ChainEvent::GroupPaused { id: group },
            5 => ChainEvent::GroupStarted { id: group },
            6 => ChainEvent::DeploymentClosed { id: deployment },
            7 => ChainEvent::DeploymentUpdated {
                id: deployment,
                hash: [0xff; 32],
            },
            8 => ChainEvent::AuditChanged {
                auditor: THIRD_PARTY.clone(),
                owner: PROVIDER.clone(),
            },
            _ => ChainEvent::LeaseReclaimStarted {
                id,
                reason,
                deadline: BlockTime(i64::MIN),
            },
        };
        self.chain.push_events(vec![event]);
    }

    fn sign_invalid_attributes(&mut self) {
        let attribute = |n: usize| Attribute::new("*/".repeat(n), "\u{0}".repeat(n));
        let msg = TenantMsg::SignProvider {
            auditor: THIRD_PARTY.clone(),
            owner: PROVIDER.clone(),
            attributes: (0..40).map(attribute).collect(),
        };
        drop(self.chain.tenant(msg));
    }

    fn place_invalid_bid(&mut self) {
        let snapshot = self.chain.market.snapshot(&COMPETITOR);
        let Some(order) = self.feature_random.pick(&snapshot.orders) else {
            return;
        };
        let msg = Msg::CreateBid {
            id: order.id.clone().bid(COMPETITOR.clone()),
            price: DecCoin::new(&"uact".into(), Dec::from_scaled(1)),
            deposit: self.config.bid_deposit.clone(),
            resources_offer: order.spec.resources.clone(),
            reclamation_window: Some(Duration::from_secs(3600)),
        };
        drop(self.chain.competitor(&msg));
    }

    /// Creates a deployment of `THIRD_PARTY`. Its group has the largest possible size.
    fn order_large_group(&mut self) {
        if self.third_party_deployments >= THIRD_PARTY_DEPLOYMENTS_MAX {
            return;
        }
        self.third_party_deployments += 1;
        let id = self.third_party_deployment(self.third_party_deployments);
        let msg = TenantMsg::CreateDeployment {
            id,
            groups: vec![large(self.feature_random.percent(3))],
            hash: [0; 32],
            deposit: coin("uact", 500_000),
            reclamation_min_window: None,
        };
        self.chain.tenant(msg).unwrap();
    }

    fn third_party_deployment(&self, dseq: u64) -> DeploymentId {
        DeploymentId::new(THIRD_PARTY.clone(), dseq)
    }

    pub(crate) fn close_third_party_deployments(&mut self) {
        for dseq in 1..=self.third_party_deployments {
            let id = self.third_party_deployment(dseq);
            drop(self.chain.tenant(TenantMsg::CloseDeployment { id }));
        }
    }
}

impl CallCheck<'_> {
    /// Checks that the provider bids only on orders that exist in the market.
    pub(crate) fn nonsense_is_not_bid_for(&self) -> Checked {
        let Call::Broadcast(Msg::CreateBid { id, .. }) = self.call else {
            return Ok(());
        };
        let is_real = self.market.order(&id.order).is_some();
        ensure("nonsense_is_not_bid_for", is_real, || id.to_string())
    }
}
