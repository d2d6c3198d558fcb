//! Conversions of the records in query responses.

use super::ids::{address, bid_id, deployment_id, group_id, lease_id, order_id};
use super::money::{coin, dec_coin, duration, scaled, timestamp, unix_seconds};
use super::resources::{from_attributes, from_resources, group_spec};
use super::{Malformed, height, required, unknown_state};
use crate::proto::akash::{audit, cert, deployment as dep, escrow, market as mkt, provider as prov};
use crate::proto::cosmos::base::v1beta1::Coin as WireCoin;
use crate::proto::tendermint::types::Header;
use crate::proto::{
    cosmos::auth::v1beta1 as auth, cosmos::crypto::secp256k1, cosmos::vesting::v1beta1 as vesting,
};
use akash_provider_core::chain::{Account, Certificate};
use akash_provider_core::types::{
    Address, AuditedAttributes, Bid, BidState, BlockTime, CloseReason, Coin, Dec, DecCoin, Denom, Deployment,
    EscrowAccount, Group, GroupState, Height, Lease, LeaseRecord, LeaseState, MarketParams, Order,
    OrderState, Payment, ProviderInfo, ProviderRecord, Reclamation, ResourceUnit,
};
use prost::{Message, Name};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Converts a protobuf message to an order.
///
/// # Errors
/// Returns an error if a field is missing or invalid.
pub fn order(order: mkt::v1beta5::Order) -> Result<Order, Malformed> {
    use mkt::v1beta5::order::State;
    let state = match order.state() {
        State::Open => OrderState::Open,
        State::Active => OrderState::Active,
        State::Closed => OrderState::Closed,
        State::Invalid => return Err(unknown_state(order.state)),
    };
    let window = order.reclamation.and_then(|r| r.min_window);
    Ok(Order {
        id: order_id(order.id)?,
        state,
        spec: Arc::new(group_spec(order.spec)?),
        created_at: height("created_at", order.created_at)?,
        reclamation_min_window: duration("reclamation.min_window", window)?,
    })
}

/// Converts a protobuf message to a bid. The units of the offer get a price of 0, because the message has no
/// price per unit.
///
/// # Errors
/// Returns an error if a field is missing or invalid.
pub fn bid(bid: mkt::v1beta5::Bid) -> Result<Bid, Malformed> {
    use mkt::v1beta5::bid::State;
    let state = match bid.state() {
        State::Open => BidState::Open,
        State::Active => BidState::Active,
        State::Lost => BidState::Lost,
        State::Closed => BidState::Closed,
        State::Invalid => return Err(unknown_state(bid.state)),
    };
    let price = dec_coin("price", bid.price)?;
    Ok(Bid {
        id: bid_id(bid.id)?,
        state,
        created_at: height("created_at", bid.created_at)?,
        resources_offer: offers(bid.resources_offer, &price.denom)?,
        reclamation_window: duration("reclamation_window", bid.reclamation_window)?,
        price,
    })
}

pub(super) fn offers(
    offers: Vec<mkt::v1beta5::ResourceOffer>,
    denom: &Denom,
) -> Result<Vec<ResourceUnit>, Malformed> {
    let unit = |offer: mkt::v1beta5::ResourceOffer| {
        let resources = from_resources(offer.resources)?;
        Ok(ResourceUnit {
            resources,
            count: offer.count,
            price: DecCoin::new(denom, Dec::ZERO),
        })
    };
    let units = offers.into_iter().map(unit);
    units
        .collect::<Result<_, _>>()
        .map_err(|e: Malformed| e.within("resources_offer"))
}

/// Converts the protobuf number of a close reason. Returns `None` for 0, which means no close reason.
pub(crate) fn close_reason(number: i32) -> Option<CloseReason> {
    let code = u32::try_from(number).ok().filter(|code| *code != 0)?;
    let reasons = [
        CloseReason::Owner,
        CloseReason::Unstable,
        CloseReason::Decommission,
        CloseReason::Unspecified,
        CloseReason::ManifestTimeout,
        CloseReason::InsufficientFunds,
    ];
    let named = reasons.into_iter().find(|reason| reason.code() == code);
    // An unknown reason of a newer chain is stored as a number. The lease is closed in any case.
    Some(named.unwrap_or(CloseReason::Other(code)))
}

/// Converts a protobuf message to a lease.
///
/// # Errors
/// Returns an error if a field is missing or invalid.
pub fn lease(lease: mkt::v1::Lease) -> Result<Lease, Malformed> {
    use mkt::v1::lease::State;
    let state = match lease.state() {
        State::Active => LeaseState::Active,
        State::InsufficientFunds => LeaseState::InsufficientFunds,
        State::Closed => LeaseState::Closed,
        State::Reclaiming => LeaseState::Reclaiming,
        State::Invalid => return Err(unknown_state(lease.state)),
    };
    let terms = |r: mkt::v1::Reclamation| {
        let window = duration("reclamation.window", r.window)?;
        Ok(Reclamation {
            window: window.unwrap_or_default(),
            // On the wire, 0 means no deadline.
            deadline: (r.deadline != 0).then(|| unix_seconds(r.deadline)),
            reason: close_reason(r.reason),
        })
    };
    Ok(Lease {
        id: lease_id(lease.id)?,
        state,
        price: dec_coin("price", lease.price)?,
        created_at: height("created_at", lease.created_at)?,
        closed_on: height("closed_on", lease.closed_on)?,
        reason: close_reason(lease.reason),
        reclamation: lease.reclamation.map(terms).transpose()?,
    })
}

fn payment(payment: escrow::types::v1::Payment) -> Result<Payment, Malformed> {
    let state = required("state", payment.state)?;
    Ok(Payment {
        rate: dec_coin("rate", state.rate)?,
        balance: dec_coin("balance", state.balance)?,
        withdrawn: coin("withdrawn", state.withdrawn)?,
    })
}

/// Converts a lease and its payment record.
///
/// # Errors
/// Returns an error if a field of the lease or of the payment is missing or invalid.
pub fn lease_record(response: mkt::v1beta5::QueryLeaseResponse) -> Result<LeaseRecord, Malformed> {
    // A node encodes a missing payment as an empty message.
    let paid = response
        .escrow_payment
        .filter(|p| p.id.as_ref().is_some_and(|id| !id.xid.is_empty()));
    Ok(LeaseRecord {
        lease: lease(required("lease", response.lease)?)?,
        payment: paid
            .map(payment)
            .transpose()
            .map_err(|e| e.within("escrow_payment"))?,
    })
}

/// Converts a protobuf message to a group.
///
/// # Errors
/// Returns an error if a field is missing or invalid.
pub fn group(group: dep::v1beta4::Group) -> Result<Group, Malformed> {
    use dep::v1beta4::group::State;
    let state = match group.state() {
        State::Open => GroupState::Open,
        State::Paused => GroupState::Paused,
        State::InsufficientFunds => GroupState::InsufficientFunds,
        State::Closed => GroupState::Closed,
        State::Invalid => return Err(unknown_state(group.state)),
    };
    Ok(Group {
        id: group_id(group.id)?,
        state,
        spec: Arc::new(group_spec(group.group_spec)?),
    })
}

fn escrow_account(account: escrow::types::v1::Account) -> Result<EscrowAccount, Malformed> {
    let state = required("state", account.state)?;
    let mut funds = BTreeMap::new();
    for balance in state.funds {
        let amount = scaled("funds.amount", &balance.amount)?;
        // The list may contain a denomination more than once.
        let sum: &mut Dec = funds.entry(balance.denom.into()).or_default();
        let added = sum.checked_add(amount);
        *sum = added.ok_or_else(|| Malformed::new("funds.amount", "the sum is too large"))?;
    }
    Ok(EscrowAccount {
        funds,
        settled_at: height("settled_at", state.settled_at)?,
    })
}

/// Converts a deployment, its groups (sorted by gseq), and its escrow account.
///
/// # Errors
/// Returns an error if a field is missing or invalid.
pub fn deployment(
    response: dep::v1beta4::QueryDeploymentResponse,
) -> Result<(Deployment, Vec<Group>, EscrowAccount), Malformed> {
    use dep::v1::deployment::State;
    let record = required("deployment", response.deployment)?;
    let active = match record.state() {
        State::Active => true,
        State::Closed => false,
        State::Invalid => return Err(unknown_state(record.state)),
    };
    let window = record.reclamation.and_then(|r| r.min_window);
    let hash = <[u8; 32]>::try_from(record.hash);
    let hash = hash.map_err(|h| Malformed::new("hash", format!("has {} bytes, not 32", h.len())))?;
    let groups = response.groups.into_iter().map(group);
    let mut groups: Vec<Group> = groups.collect::<Result<_, _>>()?;
    groups.sort_by_key(|g| g.id.gseq);
    let money = required("escrow_account", response.escrow_account)?;
    let deployment = Deployment {
        id: deployment_id(record.id)?,
        active,
        hash,
        created_at: height("created_at", record.created_at)?,
        reclamation_min_window: duration("reclamation.min_window", window)?,
    };
    let money = escrow_account(money).map_err(|e| e.within("escrow_account"))?;
    Ok((deployment, groups, money))
}

/// Converts a protobuf message to a provider.
///
/// # Errors
/// Returns an error if the owner is not a valid address.
pub fn provider(provider: prov::v1beta4::Provider) -> Result<ProviderRecord, Malformed> {
    Ok(ProviderRecord {
        owner: address("owner", &provider.owner)?,
        host_uri: provider.host_uri,
        attributes: from_attributes(provider.attributes),
        info: provider_info(provider.info),
    })
}

/// Converts the contact information of a provider. If the message is absent, all fields are empty.
pub(super) fn provider_info(info: Option<prov::v1beta4::Info>) -> ProviderInfo {
    let info = info.unwrap_or_default();
    ProviderInfo {
        email: info.email,
        website: info.website,
    }
}

/// Encodes the contact information of a provider, even if all fields are empty.
pub(super) fn wire_info(info: &ProviderInfo) -> prov::v1beta4::Info {
    prov::v1beta4::Info {
        email: info.email.clone(),
        website: info.website.clone(),
    }
}

/// Returns the provider attributes that an auditor has signed.
#[must_use]
pub fn audited(audited: audit::v1::AuditedProvider) -> AuditedAttributes {
    AuditedAttributes::new(audited.auditor, from_attributes(audited.attributes))
}

/// Returns the auditor, the provider, and the provider attributes signed by the auditor.
pub(crate) fn audited_by(wire: audit::v1::AuditedProvider) -> (String, String, AuditedAttributes) {
    let (auditor, owner) = (wire.auditor.clone(), wire.owner.clone());
    (auditor, owner, audited(wire))
}

/// Converts a protobuf message to the parameters of the market.
///
/// # Errors
/// Returns an error if an amount is invalid.
pub fn market_params(params: mkt::v1beta5::Params) -> Result<MarketParams, Malformed> {
    let mut deposits = params.bid_min_deposits;
    // An older form of the parameters has a single deposit instead of a list.
    if deposits.is_empty() {
        deposits.extend(params.bid_min_deposit);
    }
    let deposit = |c: WireCoin| coin("bid_min_deposits", Some(c));
    let longest = duration("max_reclamation_window", params.max_reclamation_window)?;
    Ok(MarketParams {
        bid_min_deposits: deposits.into_iter().map(deposit).collect::<Result<_, _>>()?,
        order_max_bids: params.order_max_bids,
        min_reclamation_window: duration("min_reclamation_window", params.min_reclamation_window)?
            .unwrap_or_default(),
        max_reclamation_window: longest.unwrap_or(Duration::ZERO),
    })
}

/// Converts a certificate. If the response contains no certificate, the result is an empty, invalid
/// certificate.
#[must_use]
pub fn certificate(response: cert::v1::CertificateResponse) -> Certificate {
    let certificate = response.certificate.unwrap_or_default();
    Certificate {
        serial: response.serial,
        valid: certificate.state() == cert::v1::State::Valid,
        cert: certificate.cert,
        pubkey: certificate.pubkey,
    }
}

/// Converts a chain account: a base account, a module account or a vesting account.
///
/// # Errors
/// Returns an error if the account type is unknown, or if a field is invalid.
pub fn account(account: Option<prost_types::Any>) -> Result<Account, Malformed> {
    let any = required("account", account)?;
    let undecodable = |e: prost::DecodeError| Malformed::new("account", e.to_string());
    let base = match any.type_url.as_str() {
        "/cosmos.auth.v1beta1.BaseAccount" => {
            Some(auth::BaseAccount::decode(&*any.value).map_err(undecodable)?)
        }
        "/cosmos.auth.v1beta1.ModuleAccount" => {
            let module = auth::ModuleAccount::decode(&*any.value).map_err(undecodable)?;
            module.base_account
        }
        // All vesting accounts have the base account in the same field.
        url if url.starts_with("/cosmos.vesting.") => {
            let vesting = vesting::VestingAccount::decode(&*any.value).map_err(undecodable)?;
            vesting.base_vesting_account.and_then(|b| b.base_account)
        }
        url => {
            let why = format!("unknown account type `{}`", super::excerpt(url));
            return Err(Malformed::new("account", why));
        }
    };
    let base = required("account.base_account", base)?;
    Ok(Account {
        address: address("account.address", &base.address)?,
        pubkey: base.pub_key.map(public_key).transpose()?.flatten(),
        number: base.account_number,
        sequence: base.sequence,
    })
}

/// Returns the bytes of a secp256k1 key, or `None` for other key types, such as multisig keys.
fn public_key(any: prost_types::Any) -> Result<Option<Vec<u8>>, Malformed> {
    if any.type_url != secp256k1::PubKey::type_url() {
        return Ok(None);
    }
    let key = secp256k1::PubKey::decode(&*any.value);
    let key = key
        .map_err(|e| Malformed::new("account.pub_key", e.to_string()))?
        .key;
    // Compressed form, the only one in accounts.
    if key.len() != 33 {
        return Err(Malformed::new(
            "account.pub_key",
            format!("has {} bytes, not 33", key.len()),
        ));
    }
    Ok(Some(key))
}

/// Converts a balance. If the balance is absent, the result is 0.
///
/// # Errors
/// Returns an error if the amount is invalid, or if the denomination differs from `denom`.
pub fn coin_balance(balance: Option<WireCoin>, denom: &str) -> Result<Coin, Malformed> {
    // Nodes omit a balance of 0, or encode an empty message.
    let Some(balance) = balance.filter(|b| !b.denom.is_empty() || !b.amount.is_empty()) else {
        return Ok(Coin::new(denom, 0));
    };
    if balance.denom != denom {
        let why = format!("is `{}`, expected `{denom}`", super::excerpt(&balance.denom));
        return Err(Malformed::new("balance.denom", why));
    }
    coin("balance", Some(balance))
}

/// Returns chain id, height and time of a block header.
///
/// # Errors
/// Returns an error if the height is negative or the time is missing.
pub fn block_header(header: Option<Header>) -> Result<(String, Height, BlockTime), Malformed> {
    let header = required("block.header", header)?;
    Ok((
        header.chain_id,
        height("block.header.height", header.height)?,
        timestamp("block.header.time", header.time)?,
    ))
}

pub(crate) fn event_address(part: &str, text: &str) -> Result<Address, Malformed> {
    address(part, text)
}
