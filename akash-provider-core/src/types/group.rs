//! A placement group: requested resources and placement requirements.

pub use super::attribute::Attribute;
use super::price::{Dec, DecCoin};
use super::resources::{EndpointKind, ResourceUnit, null_as_empty};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Auditor signatures that the attributes of the provider must have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct SignedBy {
    /// Auditors that must all have signed the attributes.
    #[serde(default, deserialize_with = "null_as_empty", serialize_with = "empty_as_null")]
    pub all_of: Vec<String>,
    /// At least one of these auditors must have signed the attributes.
    #[serde(default, deserialize_with = "null_as_empty", serialize_with = "empty_as_null")]
    pub any_of: Vec<String>,
}

impl SignedBy {
    /// Returns whether no audit is required.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all_of.is_empty() && self.any_of.is_empty()
    }
}

/// Placement requirements of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct PlacementRequirements {
    /// Required audits; empty for none.
    pub signed_by: SignedBy,
    /// Attributes that a provider must have.
    #[serde(default, deserialize_with = "null_as_empty", serialize_with = "empty_as_null")]
    pub attributes: Vec<Attribute>,
}

/// A group as the tenant created it on the chain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupSpec {
    /// Name of the group, equal to the name of the group in the manifest.
    pub name: String,
    /// Placement requirements.
    pub requirements: PlacementRequirements,
    /// Requested resource units.
    pub resources: Vec<ResourceUnit>,
}

impl GroupSpec {
    /// Creates a group without placement requirements.
    #[must_use]
    pub fn new(name: impl Into<String>, resources: Vec<ResourceUnit>) -> Self {
        Self {
            name: name.into(),
            requirements: PlacementRequirements::default(),
            resources,
        }
    }

    /// Returns the maximum price of the whole group per block: Σ unit price × count. Returns `None` without
    /// units, for different denominations, and on overflow.
    #[must_use]
    pub fn max_price(&self) -> Option<DecCoin> {
        let denom = &self.resources.first()?.price.denom;
        let mut sum = Dec::ZERO;
        for unit in &self.resources {
            if unit.price.denom != *denom {
                return None;
            }
            sum = sum.checked_add(unit.price.amount.checked_mul_int(i128::from(unit.count))?)?;
        }
        Some(DecCoin::new(denom, sum))
    }

    /// Returns the number of leased IPs of the group. Endpoints with the same sequence number share one IP.
    #[must_use]
    pub fn leased_ips(&self) -> u32 {
        distinct_leased_ips(&self.resources)
    }

    /// Returns the number of random-port endpoints of the group, not multiplied by replicas.
    #[must_use]
    pub fn external_ports(&self) -> u32 {
        let of_unit = |u: &ResourceUnit| {
            u.resources
                .endpoints
                .iter()
                .filter(|e| e.kind == EndpointKind::RandomPort)
                .count()
        };
        u32::try_from(self.resources.iter().map(of_unit).sum::<usize>()).unwrap_or(u32::MAX)
    }
}

/// Returns the number of distinct leased IPs in `units`. Endpoints with the same sequence number share a
/// leased IP.
#[must_use]
pub fn distinct_leased_ips(units: &[ResourceUnit]) -> u32 {
    let leased = units
        .iter()
        .flat_map(|u| &u.resources.endpoints)
        .filter(|e| e.kind == EndpointKind::LeasedIp)
        .map(|e| e.sequence_number);
    u32::try_from(leased.collect::<BTreeSet<_>>().len()).unwrap_or(u32::MAX)
}

fn empty_as_null<S: serde::Serializer, T: Serialize>(
    list: &Vec<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if list.is_empty() {
        serializer.serialize_none()
    } else {
        list.serialize(serializer)
    }
}
