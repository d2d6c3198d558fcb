//! Orders for the tests of bidding and pricing.

use crate::types::price::Dec;
use crate::types::{
    Cpu, DecCoin, GroupSpec, Memory, Order, OrderState, PlacementRequirements, ResourceUnit, Resources,
    Storage,
};
use std::sync::Arc;

/// Returns a small unit with one replica, for at most 1000 uact.
pub(crate) fn unit(id: u32) -> ResourceUnit {
    let resources = Resources {
        id,
        cpu: Cpu {
            units: 500,
            attributes: Vec::new(),
        },
        memory: Memory {
            bytes: 512 << 20,
            attributes: Vec::new(),
        },
        storage: vec![Storage {
            name: "default".to_owned(),
            bytes: 1 << 30,
            attributes: Vec::new(),
        }],
        ..Resources::default()
    };
    ResourceUnit {
        resources,
        count: 1,
        price: DecCoin::new(&"uact".into(), Dec::from_int(1000)),
    }
}

pub(crate) fn group() -> GroupSpec {
    GroupSpec {
        name: "westcoast".to_owned(),
        requirements: PlacementRequirements::default(),
        resources: vec![unit(1)],
    }
}

pub(crate) fn order(spec: GroupSpec) -> Order {
    Order {
        id: "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/1001/1/1"
            .parse()
            .unwrap(),
        state: OrderState::Open,
        spec: Arc::new(spec),
        created_at: 100,
        reclamation_min_window: None,
    }
}
