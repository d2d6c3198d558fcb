//! Conversions of resources and group specifications.

use super::money::{dec_coin, wire_dec_coin};
use super::{Malformed, excerpt, required};
use crate::proto::akash::base::attributes::v1 as attributes;
use crate::proto::akash::base::resources::v1beta4 as wire;
use crate::proto::akash::deployment::v1beta4 as deployment;
use akash_provider_core::types::{
    Attribute, Cpu, Endpoint, EndpointKind, Gpu, GroupSpec, Memory, PlacementRequirements, ResourceUnit,
    Resources, SignedBy, Storage,
};

pub(super) fn from_attributes(list: Vec<attributes::Attribute>) -> Vec<Attribute> {
    list.into_iter().map(|a| Attribute::new(a.key, a.value)).collect()
}

pub(super) fn wire_attributes(list: &[Attribute]) -> Vec<attributes::Attribute> {
    let wire = |a: &Attribute| attributes::Attribute {
        key: a.key.clone(),
        value: a.value.clone(),
    };
    list.iter().map(wire).collect()
}

/// Parses a resource amount, which is encoded as decimal digits.
fn value(part: &str, value: Option<wire::ResourceValue>) -> Result<u64, Malformed> {
    let digits = value.map(|v| v.val).unwrap_or_default();
    // An amount of 0 may be omitted.
    if digits.is_empty() {
        return Ok(0);
    }
    let text = std::str::from_utf8(&digits).ok();
    let number = text.filter(|t| t.bytes().all(|b| b.is_ascii_digit()));
    number.and_then(|t| t.parse().ok()).ok_or_else(|| {
        let text = excerpt(&String::from_utf8_lossy(&digits));
        Malformed::new(part, format!("`{text}` is not a resource amount"))
    })
}

fn wire_value(number: u64) -> Option<wire::ResourceValue> {
    let val = number.to_string().into_bytes();
    Some(wire::ResourceValue { val })
}

fn endpoint(endpoint: wire::Endpoint) -> Result<Endpoint, Malformed> {
    let kind = u32::try_from(endpoint.kind).map_err(|e| e.to_string());
    let kind = kind.and_then(EndpointKind::try_from);
    Ok(Endpoint::new(
        kind.map_err(|why| Malformed::new("endpoints.kind", why))?,
        endpoint.sequence_number,
    ))
}

pub(super) fn from_resources(resources: Option<wire::Resources>) -> Result<Resources, Malformed> {
    let wire = required("resources", resources)?;
    let (cpu, memory) = (wire.cpu.unwrap_or_default(), wire.memory.unwrap_or_default());
    let gpu = wire.gpu.unwrap_or_default();
    let volume = |s: wire::Storage| {
        Ok(Storage {
            name: s.name,
            bytes: value("storage.quantity", s.quantity)?,
            attributes: from_attributes(s.attributes),
        })
    };
    Ok(Resources {
        id: wire.id,
        cpu: Cpu::new(value("cpu.units", cpu.units)?, from_attributes(cpu.attributes)),
        memory: Memory::new(
            value("memory.quantity", memory.quantity)?,
            from_attributes(memory.attributes),
        ),
        storage: wire.storage.into_iter().map(volume).collect::<Result<_, _>>()?,
        gpu: Gpu::new(value("gpu.units", gpu.units)?, from_attributes(gpu.attributes)),
        endpoints: wire
            .endpoints
            .into_iter()
            .map(endpoint)
            .collect::<Result<_, _>>()?,
    })
}

pub(super) fn wire_resources(resources: &Resources) -> wire::Resources {
    let volume = |s: &Storage| wire::Storage {
        name: s.name.clone(),
        quantity: wire_value(s.bytes),
        attributes: wire_attributes(&s.attributes),
    };
    let endpoint = |e: &Endpoint| wire::Endpoint {
        kind: i32::try_from(u32::from(e.kind)).unwrap_or_default(),
        sequence_number: e.sequence_number,
    };
    wire::Resources {
        id: resources.id,
        cpu: Some(wire::Cpu {
            units: wire_value(resources.cpu.units),
            attributes: wire_attributes(&resources.cpu.attributes),
        }),
        memory: Some(wire::Memory {
            quantity: wire_value(resources.memory.bytes),
            attributes: wire_attributes(&resources.memory.attributes),
        }),
        storage: resources.storage.iter().map(volume).collect(),
        gpu: Some(wire::Gpu {
            units: wire_value(resources.gpu.units),
            attributes: wire_attributes(&resources.gpu.attributes),
        }),
        endpoints: resources.endpoints.iter().map(endpoint).collect(),
    }
}

/// Converts the specification of a group.
///
/// # Errors
/// Returns an error if a field is missing or invalid.
pub fn group_spec(spec: Option<deployment::GroupSpec>) -> Result<GroupSpec, Malformed> {
    let spec = required("spec", spec)?;
    let requirements = spec.requirements.unwrap_or_default();
    let signed_by = requirements.signed_by.unwrap_or_default();
    let unit = |unit: deployment::ResourceUnit| {
        Ok(ResourceUnit {
            resources: from_resources(unit.resource)?,
            count: unit.count,
            price: dec_coin("price", unit.price)?,
        })
    };
    let resources = spec.resources.into_iter().map(unit);
    Ok(GroupSpec {
        name: spec.name,
        requirements: PlacementRequirements {
            signed_by: SignedBy {
                all_of: signed_by.all_of,
                any_of: signed_by.any_of,
            },
            attributes: from_attributes(requirements.attributes),
        },
        resources: resources
            .collect::<Result<_, _>>()
            .map_err(|e: Malformed| e.within("spec"))?,
    })
}

/// Encodes the specification of a group.
#[must_use]
pub fn wire_group_spec(spec: &GroupSpec) -> deployment::GroupSpec {
    let signed_by = &spec.requirements.signed_by;
    let unit = |unit: &ResourceUnit| deployment::ResourceUnit {
        resource: Some(wire_resources(&unit.resources)),
        count: unit.count,
        price: Some(wire_dec_coin(&unit.price)),
    };
    deployment::GroupSpec {
        name: spec.name.clone(),
        requirements: Some(attributes::PlacementRequirements {
            signed_by: Some(attributes::SignedBy {
                all_of: signed_by.all_of.clone(),
                any_of: signed_by.any_of.clone(),
            }),
            attributes: wire_attributes(&spec.requirements.attributes),
        }),
        resources: spec.resources.iter().map(unit).collect(),
    }
}
