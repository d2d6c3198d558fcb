//! Conversions of ids.

use super::{Malformed, required};
use crate::proto::akash::deployment::v1 as deployment;
use crate::proto::akash::market::v1 as market;
use akash_provider_core::types::{Address, BidId, DeploymentId, GroupId, OrderId};

/// Parses an account address. `part` is the path of the field that contains the address.
///
/// # Errors
/// Returns an error if the address is missing or invalid.
pub fn address(part: &str, text: &str) -> Result<Address, Malformed> {
    text.parse()
        .map_err(|error| Malformed::new(part, format!("{error}")))
}

/// Converts a protobuf message to the id of a deployment.
///
/// # Errors
/// Returns an error if a field is missing or invalid.
pub fn deployment_id(id: Option<deployment::DeploymentId>) -> Result<DeploymentId, Malformed> {
    let id = required("id", id)?;
    Ok(DeploymentId::new(address("id.owner", &id.owner)?, id.dseq))
}

/// Converts a protobuf message to the id of a group.
///
/// # Errors
/// Returns an error if a field is missing or invalid.
pub fn group_id(id: Option<deployment::GroupId>) -> Result<GroupId, Malformed> {
    let id = required("id", id)?;
    Ok(DeploymentId::new(address("id.owner", &id.owner)?, id.dseq).group(id.gseq))
}

/// Converts a protobuf message to the id of an order.
///
/// # Errors
/// Returns an error if a field is missing or invalid.
pub fn order_id(id: Option<market::OrderId>) -> Result<OrderId, Malformed> {
    let id = required("id", id)?;
    let group = DeploymentId::new(address("id.owner", &id.owner)?, id.dseq).group(id.gseq);
    Ok(group.order(id.oseq))
}

/// Converts a protobuf message to the id of a bid.
///
/// # Errors
/// Returns an error if a field is missing or invalid.
pub fn bid_id(id: Option<market::BidId>) -> Result<BidId, Malformed> {
    let id = required("id", id)?;
    // `BidId` has no field for `bseq`. This provider always places bids with 0.
    if id.bseq != 0 {
        return Err(Malformed::new("id.bseq", format!("{} is not 0", id.bseq)));
    }
    let order = market::OrderId {
        owner: id.owner,
        dseq: id.dseq,
        gseq: id.gseq,
        oseq: id.oseq,
    };
    Ok(order_id(Some(order))?.bid(address("id.provider", &id.provider)?))
}

/// Converts the id of a lease. A lease has the same id as its bid.
///
/// # Errors
/// Returns an error if a field is missing or invalid.
pub fn lease_id(id: Option<market::LeaseId>) -> Result<BidId, Malformed> {
    let id = required("id", id)?;
    bid_id(Some(market::BidId {
        owner: id.owner,
        dseq: id.dseq,
        gseq: id.gseq,
        oseq: id.oseq,
        provider: id.provider,
        bseq: id.bseq,
    }))
}

pub(super) fn wire_deployment(id: &DeploymentId) -> deployment::DeploymentId {
    deployment::DeploymentId {
        owner: id.owner.to_string(),
        dseq: id.dseq,
    }
}

pub(super) fn wire_group(id: &GroupId) -> deployment::GroupId {
    deployment::GroupId {
        owner: id.deployment.owner.to_string(),
        dseq: id.deployment.dseq,
        gseq: id.gseq,
    }
}

pub(super) fn wire_order(id: &OrderId) -> market::OrderId {
    market::OrderId {
        owner: id.owner().to_string(),
        dseq: id.deployment().dseq,
        gseq: id.group.gseq,
        oseq: id.oseq,
    }
}

pub(super) fn wire_bid(id: &BidId) -> market::BidId {
    market::BidId {
        owner: id.owner().to_string(),
        dseq: id.deployment().dseq,
        gseq: id.order.group.gseq,
        oseq: id.order.oseq,
        provider: id.provider.to_string(),
        bseq: 0,
    }
}

pub(super) fn wire_lease(id: &BidId) -> market::LeaseId {
    market::LeaseId {
        owner: id.owner().to_string(),
        dseq: id.deployment().dseq,
        gseq: id.order.group.gseq,
        oseq: id.order.oseq,
        provider: id.provider.to_string(),
        bseq: 0,
    }
}
