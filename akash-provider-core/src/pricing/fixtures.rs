//! Price requests for the tests.

use super::{PRICE_PRECISION, PriceRequest};
use crate::types::price::Dec;
use crate::types::{
    Cpu, DecCoin, Endpoint, EndpointKind, GroupSpec, Memory, PlacementRequirements, ResourceUnit, Resources,
    Storage,
};
use std::sync::Arc;

/// Base unit of the acceptance cases: 11 millicores, 10000 B memory, 4096 B ephemeral storage, at most 23
/// uact.
pub(super) fn base_unit() -> ResourceUnit {
    let resources = Resources {
        id: 1,
        cpu: Cpu {
            units: 11,
            attributes: Vec::new(),
        },
        memory: Memory {
            bytes: 10_000,
            attributes: Vec::new(),
        },
        storage: vec![Storage {
            name: "default".to_owned(),
            bytes: 4096,
            attributes: Vec::new(),
        }],
        ..Resources::default()
    };
    ResourceUnit {
        resources,
        count: 1,
        price: DecCoin::new(&"uact".into(), Dec::from_int(23)),
    }
}

pub(super) fn request(units: Vec<ResourceUnit>) -> PriceRequest {
    let group = GroupSpec {
        name: "westcoast".to_owned(),
        requirements: PlacementRequirements::default(),
        resources: units,
    };
    PriceRequest {
        owner: "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla".parse().unwrap(),
        group: Arc::new(group),
        allocated: None,
        precision: PRICE_PRECISION,
        utilization: None,
        height: None,
    }
}

pub(super) fn request_with(change: impl FnOnce(&mut ResourceUnit)) -> PriceRequest {
    let mut unit = base_unit();
    change(&mut unit);
    request(vec![unit])
}

pub(super) fn leased_ip(sequence_number: u32) -> Endpoint {
    Endpoint {
        kind: EndpointKind::LeasedIp,
        sequence_number,
    }
}

pub(super) fn dec(text: &str) -> Dec {
    text.parse().unwrap()
}
