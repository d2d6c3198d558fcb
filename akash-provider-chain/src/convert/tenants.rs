//! Conversions of the messages that tenants and auditors send.

use super::ids::{address, bid_id, deployment_id, group_id, lease_id};
use super::ids::{wire_bid, wire_deployment, wire_group, wire_lease};
use super::messages::{pack, unpack};
use super::money::{coin, duration, wire_coin, wire_duration};
use super::resources::{from_attributes, group_spec, wire_attributes, wire_group_spec};
use super::{Malformed, excerpt, required};
use crate::proto::akash::base::deposit::v1::{Deposit, Source};
use crate::proto::akash::escrow::id::v1 as escrow_id;
use crate::proto::akash::{
    audit::v1 as audit, deployment::v1 as dep1, deployment::v1beta4 as dep, escrow::v1 as escrow,
    market::v1beta5 as mkt,
};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{Coin, DeploymentId, GroupSpec};
use prost::Name;
use prost_types::Any;

fn wire_deposit(amount: &Coin) -> Deposit {
    Deposit {
        amount: Some(wire_coin(amount)),
        sources: vec![Source::Balance.into()],
    }
}

/// Encodes a message of a tenant or an auditor. Returns `None` if the Akash network has no such message.
#[must_use]
pub fn tenant_to_any(msg: &TenantMsg) -> Option<Any> {
    Some(match msg {
        TenantMsg::CreateDeployment {
            id,
            groups,
            hash,
            deposit,
            reclamation_min_window,
        } => pack(&dep::MsgCreateDeployment {
            id: Some(wire_deployment(id)),
            groups: groups.iter().map(wire_group_spec).collect(),
            hash: hash.to_vec(),
            deposit: Some(wire_deposit(deposit)),
            reclamation: reclamation_min_window.map(|window| dep1::DeploymentReclamation {
                min_window: Some(wire_duration(window)),
            }),
        }),
        TenantMsg::UpdateDeployment { id, hash } => pack(&dep::MsgUpdateDeployment {
            id: Some(wire_deployment(id)),
            hash: hash.to_vec(),
        }),
        TenantMsg::CloseDeployment { id } => pack(&dep::MsgCloseDeployment {
            id: Some(wire_deployment(id)),
        }),
        TenantMsg::PauseGroup { id } => pack(&dep::MsgPauseGroup {
            id: Some(wire_group(id)),
        }),
        TenantMsg::StartGroup { id } => pack(&dep::MsgStartGroup {
            id: Some(wire_group(id)),
        }),
        TenantMsg::CloseGroup { id } => pack(&dep::MsgCloseGroup {
            id: Some(wire_group(id)),
        }),
        TenantMsg::CreateLease { bid } => pack(&mkt::MsgCreateLease {
            bid_id: Some(wire_bid(bid)),
        }),
        TenantMsg::CloseLease { id } => pack(&mkt::MsgCloseLease {
            id: Some(wire_lease(id)),
            reason: 0,
        }),
        TenantMsg::Deposit { deployment, coin } => pack(&escrow::MsgAccountDeposit {
            signer: deployment.owner.to_string(),
            id: Some(escrow_id::Account {
                scope: escrow_id::Scope::Deployment.into(),
                xid: deployment.to_string(),
            }),
            deposit: Some(wire_deposit(coin)),
        }),
        TenantMsg::SignProvider {
            auditor,
            owner,
            attributes,
        } => pack(&audit::MsgSignProviderAttributes {
            owner: owner.to_string(),
            auditor: auditor.to_string(),
            attributes: wire_attributes(attributes),
        }),
        // The network can delete single attributes only, not all attributes of an auditor.
        TenantMsg::UnsignProvider { .. } => return None,
    })
}

/// Decodes a message of a transaction. Returns `None` for a message that tenants and auditors do not send.
///
/// # Errors
/// Returns an error if a field is missing or invalid.
pub fn tenant_from_any(any: &Any) -> Result<Option<TenantMsg>, Malformed> {
    let name = any.type_url.as_str();
    let msg = if name == dep::MsgCreateDeployment::type_url() {
        create_deployment(unpack(any)?)?
    } else if name == dep::MsgUpdateDeployment::type_url() {
        let msg: dep::MsgUpdateDeployment = unpack(any)?;
        TenantMsg::UpdateDeployment {
            id: deployment_id(msg.id)?,
            hash: hash(msg.hash)?,
        }
    } else if name == dep::MsgCloseDeployment::type_url() {
        let msg: dep::MsgCloseDeployment = unpack(any)?;
        TenantMsg::CloseDeployment {
            id: deployment_id(msg.id)?,
        }
    } else if name == dep::MsgPauseGroup::type_url() {
        let msg: dep::MsgPauseGroup = unpack(any)?;
        TenantMsg::PauseGroup {
            id: group_id(msg.id)?,
        }
    } else if name == dep::MsgStartGroup::type_url() {
        let msg: dep::MsgStartGroup = unpack(any)?;
        TenantMsg::StartGroup {
            id: group_id(msg.id)?,
        }
    } else if name == dep::MsgCloseGroup::type_url() {
        let msg: dep::MsgCloseGroup = unpack(any)?;
        TenantMsg::CloseGroup {
            id: group_id(msg.id)?,
        }
    } else if name == mkt::MsgCreateLease::type_url() {
        let msg: mkt::MsgCreateLease = unpack(any)?;
        TenantMsg::CreateLease {
            bid: bid_id(msg.bid_id)?,
        }
    } else if name == mkt::MsgCloseLease::type_url() {
        let msg: mkt::MsgCloseLease = unpack(any)?;
        TenantMsg::CloseLease {
            id: lease_id(msg.id)?,
        }
    } else if name == escrow::MsgAccountDeposit::type_url() {
        deposit(unpack(any)?)?
    } else if name == audit::MsgSignProviderAttributes::type_url() {
        let msg: audit::MsgSignProviderAttributes = unpack(any)?;
        TenantMsg::SignProvider {
            auditor: address("auditor", &msg.auditor)?,
            owner: address("owner", &msg.owner)?,
            attributes: from_attributes(msg.attributes),
        }
    } else {
        return Ok(None);
    };
    Ok(Some(msg))
}

fn hash(bytes: Vec<u8>) -> Result<[u8; 32], Malformed> {
    let hash = <[u8; 32]>::try_from(bytes);
    hash.map_err(|h| Malformed::new("hash", format!("has {} bytes, not 32", h.len())))
}

fn create_deployment(msg: dep::MsgCreateDeployment) -> Result<TenantMsg, Malformed> {
    let groups = msg.groups.into_iter().map(|g| group_spec(Some(g)));
    let money = required("deposit", msg.deposit)?;
    let window = msg.reclamation.and_then(|r| r.min_window);
    Ok(TenantMsg::CreateDeployment {
        id: deployment_id(msg.id)?,
        groups: groups.collect::<Result<Vec<GroupSpec>, _>>()?,
        hash: hash(msg.hash)?,
        deposit: coin("deposit.amount", money.amount)?,
        reclamation_min_window: duration("reclamation.min_window", window)?,
    })
}

fn deposit(msg: escrow::MsgAccountDeposit) -> Result<TenantMsg, Malformed> {
    let id = required("id", msg.id)?;
    let deployment = id.xid.parse::<DeploymentId>().ok();
    let deployment = deployment.filter(|_| id.scope == i32::from(escrow_id::Scope::Deployment));
    let deployment = deployment.ok_or_else(|| {
        let why = format!("`{}` is not the escrow account of a deployment", excerpt(&id.xid));
        Malformed::new("id.xid", why)
    })?;
    // `TenantMsg::Deposit` has no field for a payer other than the owner.
    if deployment.owner.as_str() != msg.signer {
        return Err(Malformed::new("signer", "is not the owner of the deployment"));
    }
    let money = required("deposit", msg.deposit)?;
    Ok(TenantMsg::Deposit {
        deployment,
        coin: coin("deposit.amount", money.amount)?,
    })
}
