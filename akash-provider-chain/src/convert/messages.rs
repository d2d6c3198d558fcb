//! Conversions of the messages that a provider sends.

use super::ids::{address, bid_id, lease_id, wire_bid, wire_lease};
use super::money::{coin, dec_coin, duration, wire_coin, wire_dec_coin, wire_duration};
use super::records::{close_reason, offers, provider_info, wire_info};
use super::resources::{from_attributes, wire_attributes, wire_resources};
use super::{Malformed, excerpt, required};
use crate::proto::akash::base::deposit::v1::{Deposit, Source};
use crate::proto::akash::{cert::v1 as cert, market::v1beta5 as mkt, provider::v1beta4 as prov};
use akash_provider_core::types::{CloseReason, Msg, ProviderRecord, ResourceUnit};
use prost::{Message, Name};
use prost_types::Any;

pub(super) fn pack<M: Message + Name>(message: &M) -> Any {
    Any {
        type_url: M::type_url(),
        value: message.encode_to_vec(),
    }
}

fn wire_reason(reason: CloseReason) -> i32 {
    i32::try_from(reason.code()).unwrap_or_default()
}

/// Converts one resource unit of a bid to a resource offer in protobuf.
#[must_use]
pub fn wire_offer(unit: &ResourceUnit) -> mkt::ResourceOffer {
    mkt::ResourceOffer {
        resources: Some(wire_resources(&unit.resources)),
        count: unit.count,
        prices: None,
    }
}

/// Encodes a message for a transaction.
#[must_use]
pub fn to_any(msg: &Msg) -> Any {
    match msg {
        Msg::CreateBid {
            id,
            price,
            deposit,
            resources_offer,
            reclamation_window,
        } => pack(&mkt::MsgCreateBid {
            id: Some(wire_bid(id)),
            price: Some(wire_dec_coin(price)),
            deposit: Some(Deposit {
                amount: Some(wire_coin(deposit)),
                // Deposits use the balance of the provider, never a grant of another account.
                sources: vec![Source::Balance.into()],
            }),
            resources_offer: resources_offer.iter().map(wire_offer).collect(),
            reclamation_window: reclamation_window.map(wire_duration),
        }),
        Msg::CloseBid { id, reason } => pack(&mkt::MsgCloseBid {
            id: Some(wire_bid(id)),
            reason: wire_reason(*reason),
        }),
        Msg::StartReclaim { id, reason } => pack(&mkt::MsgLeaseStartReclaim {
            id: Some(wire_lease(id)),
            reason: wire_reason(*reason),
        }),
        Msg::WithdrawLease { id } => pack(&mkt::MsgWithdrawLease {
            id: Some(wire_lease(id)),
        }),
        Msg::CreateProvider(record) => pack(&prov::MsgCreateProvider {
            owner: record.owner.to_string(),
            host_uri: record.host_uri.clone(),
            attributes: wire_attributes(&record.attributes),
            info: Some(wire_info(&record.info)),
        }),
        Msg::UpdateProvider(record) => pack(&prov::MsgUpdateProvider {
            owner: record.owner.to_string(),
            host_uri: record.host_uri.clone(),
            attributes: wire_attributes(&record.attributes),
            info: Some(wire_info(&record.info)),
        }),
        Msg::CreateCertificate { owner, cert, pubkey } => pack(&cert::MsgCreateCertificate {
            owner: owner.to_string(),
            cert: cert.clone(),
            pubkey: pubkey.clone(),
        }),
        Msg::RevokeCertificate { owner, serial } => pack(&cert::MsgRevokeCertificate {
            id: Some(cert::Id {
                owner: owner.to_string(),
                serial: serial.clone(),
            }),
        }),
    }
}

pub(super) fn unpack<M: Message + Default>(any: &Any) -> Result<M, Malformed> {
    M::decode(&*any.value).map_err(|e| Malformed::new(any.type_url.clone(), e.to_string()))
}

fn reason(number: i32) -> Result<CloseReason, Malformed> {
    required("reason", close_reason(number))
}

/// Decodes a message of a transaction. Returns `None` for a message that providers do not send.
///
/// # Errors
/// Returns an error if a field is missing or invalid.
pub fn from_any(any: &Any) -> Result<Option<Msg>, Malformed> {
    let name = any.type_url.as_str();
    let msg = if name == mkt::MsgCreateBid::type_url() {
        create_bid(unpack(any)?)?
    } else if name == mkt::MsgCloseBid::type_url() {
        let msg: mkt::MsgCloseBid = unpack(any)?;
        Msg::CloseBid {
            id: bid_id(msg.id)?,
            reason: reason(msg.reason)?,
        }
    } else if name == mkt::MsgLeaseStartReclaim::type_url() {
        let msg: mkt::MsgLeaseStartReclaim = unpack(any)?;
        Msg::StartReclaim {
            id: lease_id(msg.id)?,
            reason: reason(msg.reason)?,
        }
    } else if name == mkt::MsgWithdrawLease::type_url() {
        let msg: mkt::MsgWithdrawLease = unpack(any)?;
        Msg::WithdrawLease {
            id: lease_id(msg.id)?,
        }
    } else if name == prov::MsgCreateProvider::type_url() {
        let msg: prov::MsgCreateProvider = unpack(any)?;
        Msg::CreateProvider(ProviderRecord {
            owner: address("owner", &msg.owner)?,
            host_uri: msg.host_uri,
            attributes: from_attributes(msg.attributes),
            info: provider_info(msg.info),
        })
    } else if name == prov::MsgUpdateProvider::type_url() {
        let msg: prov::MsgUpdateProvider = unpack(any)?;
        Msg::UpdateProvider(ProviderRecord {
            owner: address("owner", &msg.owner)?,
            host_uri: msg.host_uri,
            attributes: from_attributes(msg.attributes),
            info: provider_info(msg.info),
        })
    } else if name == cert::MsgCreateCertificate::type_url() {
        let msg: cert::MsgCreateCertificate = unpack(any)?;
        Msg::CreateCertificate {
            owner: address("owner", &msg.owner)?,
            cert: msg.cert,
            pubkey: msg.pubkey,
        }
    } else if name == cert::MsgRevokeCertificate::type_url() {
        let msg: cert::MsgRevokeCertificate = unpack(any)?;
        let id = required("id", msg.id)?;
        if id.serial.is_empty() || !id.serial.bytes().all(|b| b.is_ascii_digit()) {
            let why = format!("`{}` is not decimal", excerpt(&id.serial));
            return Err(Malformed::new("id.serial", why));
        }
        Msg::RevokeCertificate {
            owner: address("id.owner", &id.owner)?,
            serial: id.serial,
        }
    } else {
        return Ok(None);
    };
    Ok(Some(msg))
}

fn create_bid(msg: mkt::MsgCreateBid) -> Result<Msg, Malformed> {
    let price = dec_coin("price", msg.price)?;
    let deposit = required("deposit", msg.deposit)?;
    Ok(Msg::CreateBid {
        id: bid_id(msg.id)?,
        deposit: coin("deposit.amount", deposit.amount)?,
        resources_offer: offers(msg.resources_offer, &price.denom)?,
        reclamation_window: duration("reclamation_window", msg.reclamation_window)?,
        price,
    })
}
