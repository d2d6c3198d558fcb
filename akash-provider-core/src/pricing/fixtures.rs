//! Price requests for the tests.

use super::{PRICE_PRECISION, PriceRequest};
use crate::types::price::Dec;
use crate::types::{
    Cpu, DecCoin, Endpoint, EndpointKind, GroupSpec, Memory, ResourceUnit, Resources, Storage,
};
use std::sync::Arc;

/// Base unit of the acceptance cases: 11 millicores, 10000 B memory, 4096 B ephemeral storage, at most 23
/// uact.
pub(super) fn base_unit() -> ResourceUnit {
    let resources = Resources {
        id: 1,
        cpu: Cpu::new(11, Vec::new()),
        memory: Memory::new(10_000, Vec::new()),
        storage: vec![Storage::new("default", 4096, Vec::new())],
        ..Resources::default()
    };
    ResourceUnit::new(resources, 1, DecCoin::new(&"uact".into(), Dec::from_int(23)))
}

pub(super) fn request(units: Vec<ResourceUnit>) -> PriceRequest {
    let group = GroupSpec::new("westcoast", units);
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
    Endpoint::new(EndpointKind::LeasedIp, sequence_number)
}

pub(super) fn dec(text: &str) -> Dec {
    text.parse().unwrap()
}
