//! Orders for the tests of bidding and pricing.

use crate::types::price::Dec;
use crate::types::{Cpu, DecCoin, GroupSpec, Memory, Order, OrderState, ResourceUnit, Resources, Storage};
use std::sync::Arc;

/// Returns a small unit with one replica, for at most 1000 uact.
pub(crate) fn unit(id: u32) -> ResourceUnit {
    let resources = Resources {
        id,
        cpu: Cpu::new(500, Vec::new()),
        memory: Memory::new(512 << 20, Vec::new()),
        storage: vec![Storage::new("default", 1 << 30, Vec::new())],
        ..Resources::default()
    };
    ResourceUnit::new(resources, 1, DecCoin::new(&"uact".into(), Dec::from_int(1000)))
}

pub(crate) fn group() -> GroupSpec {
    GroupSpec::new("westcoast", vec![unit(1)])
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
