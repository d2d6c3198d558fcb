//! A placement group: what is asked for, and where it may run.

use super::price::{Dec, DecCoin};
use super::resources::{EndpointKind, ResourceUnit, null_as_empty};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A key and a value; keys of requirements may end in a wildcard.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attribute {
    /// Key, a path with `/` between its parts; left out of the JSON when empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// Compared byte by byte.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
}

impl Attribute {
    /// An attribute of this key and value; neither is checked.
    #[must_use]
    pub fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            value: value.into(),
        }
    }
}

/// Auditors who must have signed the provider's attributes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct SignedBy {
    /// Every one of these.
    #[serde(default, deserialize_with = "null_as_empty", serialize_with = "empty_as_null")]
    pub all_of: Vec<String>,
    /// And at least one of these.
    #[serde(default, deserialize_with = "null_as_empty", serialize_with = "empty_as_null")]
    pub any_of: Vec<String>,
}

impl SignedBy {
    /// True when nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all_of.is_empty() && self.any_of.is_empty()
    }
}

/// Where a group may be placed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct PlacementRequirements {
    /// Auditors who must have signed for the provider; empty when no audit is asked for.
    pub signed_by: SignedBy,
    /// Attributes a provider must have.
    #[serde(default, deserialize_with = "null_as_empty", serialize_with = "empty_as_null")]
    pub attributes: Vec<Attribute>,
}

/// A group as the tenant put it on the chain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupSpec {
    /// Name; the manifest's group of the same name belongs to it.
    pub name: String,
    /// Where it may run.
    pub requirements: PlacementRequirements,
    /// What it asks for.
    pub resources: Vec<ResourceUnit>,
}

impl GroupSpec {
    /// The most the tenant pays for the whole group per block: Σ unit price × count.
    /// `None` when the group has no units, mixes denominations or the sum is beyond what a price can be.
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

    /// Leased IPs the group needs: distinct sequence numbers among its leased-IP endpoints.
    #[must_use]
    pub fn leased_ips(&self) -> u32 {
        distinct_leased_ips(&self.resources)
    }

    /// External ports the group needs: random-port endpoints, counted once per unit whatever its count.
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

/// Distinct sequence numbers among the leased-IP endpoints of some units.
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
