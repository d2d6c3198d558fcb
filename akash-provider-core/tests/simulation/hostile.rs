//! Records that make no sense, or as much of it as the limits allow, among good ones: nobody else's record stops ours.

use crate::ids::{self, OURS, RIVAL, STRANGER, Shape};
use crate::invariants::Deed;
use crate::money::coin;
use crate::oracle::{Checked, ensure};
use crate::world::World;
use akash_provider_core::bidding::UNITS_MAX;
use akash_provider_core::engine::Call;
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{
    Attribute, BidId, BlockTime, ChainEvent, CloseReason, Dec, DecCoin, DeploymentId, Endpoint, EndpointKind,
    GroupId, GroupSpec, Msg, Order, OrderId, OrderState, Storage,
};
use std::sync::Arc;
use std::time::Duration;

/// Orders without sense in a history.
const FORGED_MAX: usize = 4;
/// Deployments of the stranger.
const STRANGERS_MAX: u64 = 2;
/// Ways in which an order makes no sense.
const WAYS: usize = 18;

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

/// A group without sense.
fn nonsense(way: usize) -> GroupSpec {
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
            let port = Endpoint {
                kind: EndpointKind::RandomPort,
                sequence_number: u32::MAX,
            };
            unit.resources.endpoints = vec![port; 3_000];
        }
    }
    spec
}

/// A group as large as the limits allow.
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
    /// Somebody does something without sense.
    pub(crate) fn hostility(&mut self) {
        match self.spice.below(20) {
            0..6 => self.forge(),
            6..9 => self.unreadable_order(),
            9..16 => self.senseless_events(),
            16..18 => self.sign_nonsense(),
            18 => self.rival_bids_nonsense(),
            _ => self.large_wish(),
        }
    }

    fn strange_id(&mut self) -> OrderId {
        let deployment = DeploymentId {
            owner: STRANGER.clone(),
            dseq: u64::MAX - self.spice.below(1_000_000),
        };
        let gseq = [0, 1, u32::MAX][self.spice.index(3)];
        let oseq = [0, 1, u32::MAX][self.spice.index(3)];
        OrderId {
            group: GroupId { deployment, gseq },
            oseq,
        }
    }

    /// An order that no chain should have let in, in snapshots and by itself.
    fn forge(&mut self) {
        if self.chain.forged.len() >= FORGED_MAX {
            return;
        }
        let id = self.strange_id();
        let spec = Arc::new(nonsense(self.spice.index(WAYS)));
        let order = Order {
            id: id.clone(),
            state: OrderState::Open,
            spec,
            created_at: [0, 1, u64::MAX][self.spice.index(3)],
            reclamation_min_window: [None, Some(Duration::MAX)][self.spice.index(2)],
        };
        self.chain.forge(order);
    }

    /// An order that is announced, and whose record cannot be read.
    fn unreadable_order(&mut self) {
        let id = self.strange_id();
        self.chain.unreadable.insert(id.clone());
        self.chain.happened(vec![ChainEvent::OrderCreated { id }]);
    }

    /// Facts about what nobody knows.
    fn senseless_events(&mut self) {
        let order = self.strange_id();
        let (group, deployment) = (order.group.clone(), order.group.deployment.clone());
        let id = BidId {
            order: order.clone(),
            provider: RIVAL.clone(),
        };
        let price = DecCoin::new(&"".into(), Dec::from_scaled(i128::MIN));
        let reason = CloseReason::Other(u32::MAX);
        let event = match self.spice.below(10) {
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
                auditor: STRANGER.clone(),
                owner: OURS.clone(),
            },
            _ => ChainEvent::LeaseReclaimStarted {
                id,
                reason,
                deadline: BlockTime(i64::MIN),
            },
        };
        self.chain.happened(vec![event]);
    }

    /// Somebody signs anything of us.
    fn sign_nonsense(&mut self) {
        let attribute = |n: usize| Attribute::new("*/".repeat(n), "\u{0}".repeat(n));
        let msg = TenantMsg::SignProvider {
            auditor: STRANGER.clone(),
            owner: OURS.clone(),
            attributes: (0..40).map(attribute).collect(),
        };
        drop(self.chain.tenant(msg));
    }

    fn rival_bids_nonsense(&mut self) {
        let snapshot = self.chain.market.snapshot(&RIVAL);
        let Some(order) = self.spice.pick(&snapshot.orders) else {
            return;
        };
        let msg = Msg::CreateBid {
            id: BidId {
                order: order.id.clone(),
                provider: RIVAL.clone(),
            },
            price: DecCoin::new(&"uact".into(), Dec::from_scaled(1)),
            deposit: self.config.bid_deposit.clone(),
            resources_offer: order.spec.resources.clone(),
            reclamation_window: Some(Duration::from_secs(3600)),
        };
        drop(self.chain.rival(&msg));
    }

    /// The stranger asks for as much as can be asked for, and never sends a manifest.
    fn large_wish(&mut self) {
        if self.strangers >= STRANGERS_MAX {
            return;
        }
        self.strangers += 1;
        let id = self.stranger(self.strangers);
        let msg = TenantMsg::CreateDeployment {
            id,
            groups: vec![large(self.spice.percent(3))],
            hash: [0; 32],
            deposit: coin("uact", 500_000),
            reclamation_min_window: None,
        };
        self.chain.tenant(msg).unwrap();
    }

    fn stranger(&self, dseq: u64) -> DeploymentId {
        DeploymentId {
            owner: STRANGER.clone(),
            dseq,
        }
    }

    pub(crate) fn close_strangers(&mut self) {
        for dseq in 1..=self.strangers {
            let id = self.stranger(dseq);
            drop(self.chain.tenant(TenantMsg::CloseDeployment { id }));
        }
    }
}

impl Deed<'_> {
    /// What makes no sense is left alone.
    pub(crate) fn nonsense_is_not_bid_for(&self) -> Checked {
        let Call::Broadcast(Msg::CreateBid { id, .. }) = self.call else {
            return Ok(());
        };
        let is_real = self.market.order(&id.order).is_some();
        ensure("nonsense_is_not_bid_for", is_real, || id.to_string())
    }
}
