//! Conversions to the response messages of a node, for simulated nodes and tests.

use super::ids::{wire_bid, wire_deployment, wire_group, wire_lease, wire_order};
use super::money::{wire_coin, wire_dec_coin, wire_duration};
use super::records::wire_info;
use super::resources::{wire_attributes, wire_group_spec, wire_resources};
use crate::proto::akash::base::deposit::v1::Source;
use crate::proto::akash::{cert, deployment as dep, escrow, market as mkt, provider as prov};
use crate::proto::cosmos::base::v1beta1::DecCoin as WireDecCoin;
use akash_provider_core::chain::Certificate;
use akash_provider_core::market::{BidDeposit, EscrowDetails, LeaseDetails};
use akash_provider_core::types::{
    Address, Bid, BidState, CloseReason, Dec, DecCoin, Deployment, DeploymentRecord, EscrowAccount, Group,
    GroupState, Lease, LeaseRecord, LeaseState, MarketParams, Order, OrderState, Payment, ProviderRecord,
    ResourceUnit,
};

/// 10^18, the scale of a decimal.
const DEC_ONE: i128 = 1_000_000_000_000_000_000;

fn height(height: u64) -> i64 {
    i64::try_from(height).unwrap_or(i64::MAX)
}

/// Converts an order to its protobuf message.
#[must_use]
pub fn order(order: &Order) -> mkt::v1beta5::Order {
    use mkt::v1beta5::order::State;
    let state = match order.state {
        OrderState::Open => State::Open,
        OrderState::Active => State::Active,
        OrderState::Closed => State::Closed,
    };
    mkt::v1beta5::Order {
        id: Some(wire_order(&order.id)),
        state: state.into(),
        spec: Some(wire_group_spec(&order.spec)),
        created_at: height(order.created_at),
        reclamation: order
            .reclamation_min_window
            .map(|window| dep::v1::DeploymentReclamation {
                min_window: Some(wire_duration(window)),
            }),
    }
}

/// Converts a bid to the response of a bid query. The escrow account in the response is empty.
#[must_use]
pub fn bid(bid: &Bid) -> mkt::v1beta5::QueryBidResponse {
    use mkt::v1beta5::bid::State;
    let state = match bid.state {
        BidState::Open => State::Open,
        BidState::Active => State::Active,
        BidState::Lost => State::Lost,
        BidState::Closed => State::Closed,
    };
    let offer = |unit: &ResourceUnit| mkt::v1beta5::ResourceOffer {
        resources: Some(wire_resources(&unit.resources)),
        count: unit.count,
        prices: None,
    };
    let bid = mkt::v1beta5::Bid {
        id: Some(wire_bid(&bid.id)),
        state: state.into(),
        price: Some(wire_dec_coin(&bid.price)),
        created_at: height(bid.created_at),
        resources_offer: bid.resources_offer.iter().map(offer).collect(),
        reclamation_window: bid.reclamation_window.map(wire_duration),
    };
    mkt::v1beta5::QueryBidResponse {
        bid: Some(bid),
        escrow_account: Some(escrow::types::v1::Account::default()),
    }
}

/// Converts a lease to a protobuf message. The message does not contain the payment.
#[must_use]
pub fn lease(lease: &Lease) -> mkt::v1::Lease {
    use mkt::v1::lease::State;
    let state = match lease.state {
        LeaseState::Active => State::Active,
        LeaseState::Reclaiming => State::Reclaiming,
        LeaseState::InsufficientFunds => State::InsufficientFunds,
        LeaseState::Closed => State::Closed,
    };
    mkt::v1::Lease {
        id: Some(wire_lease(&lease.id)),
        state: state.into(),
        price: Some(wire_dec_coin(&lease.price)),
        created_at: height(lease.created_at),
        closed_on: height(lease.closed_on),
        reason: reason_code(lease.reason),
        reclamation: lease.reclamation.as_ref().map(|terms| mkt::v1::Reclamation {
            window: Some(wire_duration(terms.window)),
            // On the wire, 0 means no deadline.
            deadline: terms.deadline.map_or(0, |time| time.0 / 1000),
            reason: reason_code(terms.reason),
            ..mkt::v1::Reclamation::default()
        }),
    }
}

fn reason_code(reason: Option<CloseReason>) -> i32 {
    reason.map_or(0, |r| i32::try_from(r.code()).unwrap_or_default())
}

fn zero(denom: &str) -> WireDecCoin {
    WireDecCoin {
        denom: denom.to_owned(),
        amount: "0".to_owned(),
    }
}

fn depositor(owner: &Address, at: u64, coin: &DecCoin) -> escrow::types::v1::Depositor {
    escrow::types::v1::Depositor {
        owner: owner.to_string(),
        height: height(at),
        source: Source::Balance.into(),
        balance: Some(wire_dec_coin(coin)),
    }
}

/// Returns the response to a query for a bid: the bid, and the escrow account of the deposit.
#[must_use]
pub fn bid_with_deposit(record: &Bid, deposit: &BidDeposit) -> mkt::v1beta5::QueryBidResponse {
    use escrow::types::v1::{Account, AccountState, Balance, State};
    let (owner, denom) = (&record.id.provider, &deposit.coin.denom);
    let scaled = i128::try_from(deposit.coin.amount).unwrap_or(i128::MAX);
    let deposit_coin = DecCoin::new(denom, Dec::from_scaled(scaled.saturating_mul(DEC_ONE)));
    let (state, funds, deposits) = match deposit.returned_at {
        None => (
            State::Open,
            deposit_coin.amount,
            vec![depositor(owner, record.created_at, &deposit_coin)],
        ),
        Some(_) => (State::Closed, Dec::ZERO, Vec::new()),
    };
    let account = AccountState {
        owner: owner.to_string(),
        state: state.into(),
        transferred: vec![zero(denom)],
        settled_at: height(deposit.returned_at.unwrap_or(record.created_at)),
        funds: vec![Balance {
            denom: denom.to_string(),
            amount: funds.scaled().to_string(),
        }],
        deposits,
    };
    let id = escrow::id::v1::Account {
        scope: escrow::id::v1::Scope::Bid.into(),
        xid: record.id.to_string(),
    };
    mkt::v1beta5::QueryBidResponse {
        escrow_account: Some(Account {
            id: Some(id),
            state: Some(account),
        }),
        ..bid(record)
    }
}

/// Returns the response to a query for a lease. `details` contains the values that `LeaseRecord` lacks.
#[must_use]
pub fn lease_with_details(record: &LeaseRecord, details: &LeaseDetails) -> mkt::v1beta5::QueryLeaseResponse {
    let mut wire = lease_record(record);
    let terms = wire.lease.as_mut().and_then(|l| l.reclamation.as_mut());
    if let (Some(terms), Some((at, reason))) = (terms, details.reclaim) {
        terms.started_at = height(at);
        terms.reason = i32::try_from(reason.code()).unwrap_or_default();
    }
    if let Some(state) = wire.escrow_payment.as_mut().and_then(|p| p.state.as_mut()) {
        if let Some(unsettled) = &mut state.unsettled {
            unsettled.amount = details.unsettled.scaled().to_string();
        }
        if record.lease.state == LeaseState::InsufficientFunds {
            state.state = escrow::types::v1::State::Overdrawn.into();
        }
    }
    wire
}

/// Converts a deployment, its groups and its escrow account to the response of a query. `details` contains
/// values that the record lacks.
#[must_use]
pub fn deployment_with_details(
    record: &DeploymentRecord,
    details: &EscrowDetails,
) -> dep::v1beta4::QueryDeploymentResponse {
    use escrow::types::v1::State;
    let mut wire = deployment(record);
    let owner = &record.deployment.id.owner;
    for group in &mut wire.groups {
        group.created_at = height(record.deployment.created_at);
    }
    if let Some(state) = wire.escrow_account.as_mut().and_then(|a| a.state.as_mut()) {
        if details.is_overdrawn && !record.deployment.active {
            state.state = State::Overdrawn.into();
        }
        let transferred = details.transferred.iter();
        state.transferred = transferred
            .map(|(denom, amount)| wire_dec_coin(&DecCoin::new(denom, *amount)))
            .collect();
        let deposits = details.deposits.iter();
        state.deposits = deposits.map(|(at, coin)| depositor(owner, *at, coin)).collect();
    }
    wire
}

fn payment(record: &LeaseRecord, payment: &Payment) -> escrow::types::v1::Payment {
    use escrow::id::v1::{Account, Payment as PaymentId, Scope};
    let id = &record.lease.id;
    let account = Account {
        scope: Scope::Deployment.into(),
        xid: id.deployment().to_string(),
    };
    let payment_id = PaymentId {
        aid: Some(account),
        xid: format!("{}/{}/{}", id.order.group.gseq, id.order.oseq, id.provider),
    };
    let state = if record.lease.state.is_live() {
        escrow::types::v1::State::Open
    } else {
        escrow::types::v1::State::Closed
    };
    let state = escrow::types::v1::PaymentState {
        owner: id.provider.to_string(),
        state: state.into(),
        rate: Some(wire_dec_coin(&payment.rate)),
        balance: Some(wire_dec_coin(&payment.balance)),
        unsettled: Some(zero(&payment.rate.denom)),
        withdrawn: Some(wire_coin(&payment.withdrawn)),
    };
    escrow::types::v1::Payment {
        id: Some(payment_id),
        state: Some(state),
    }
}

/// Returns the response to a query for a lease: the lease, and the payment.
#[must_use]
pub fn lease_record(record: &LeaseRecord) -> mkt::v1beta5::QueryLeaseResponse {
    let paid = record.payment.as_ref().map(|p| payment(record, p));
    mkt::v1beta5::QueryLeaseResponse {
        lease: Some(lease(&record.lease)),
        // A node encodes a missing payment as an empty message.
        escrow_payment: Some(paid.unwrap_or_default()),
    }
}

/// Converts a group to its protobuf message, with a creation height of 0.
#[must_use]
pub fn group(group: &Group) -> dep::v1beta4::Group {
    use dep::v1beta4::group::State;
    let state = match group.state {
        GroupState::Open => State::Open,
        GroupState::Paused => State::Paused,
        GroupState::InsufficientFunds => State::InsufficientFunds,
        GroupState::Closed => State::Closed,
    };
    dep::v1beta4::Group {
        id: Some(wire_group(&group.id)),
        state: state.into(),
        group_spec: Some(wire_group_spec(&group.spec)),
        created_at: 0,
    }
}

fn escrow_account(deployment: &Deployment, money: &EscrowAccount) -> escrow::types::v1::Account {
    use escrow::types::v1::{AccountState, Balance, State};
    let id = escrow::id::v1::Account {
        scope: escrow::id::v1::Scope::Deployment.into(),
        xid: deployment.id.to_string(),
    };
    let funds = money.funds.iter().map(|(denom, amount)| Balance {
        denom: denom.to_string(),
        amount: amount.scaled().to_string(),
    });
    let state = if deployment.active {
        State::Open
    } else {
        State::Closed
    };
    let state = AccountState {
        owner: deployment.id.owner.to_string(),
        state: state.into(),
        settled_at: height(money.settled_at),
        funds: funds.collect(),
        ..AccountState::default()
    };
    escrow::types::v1::Account {
        id: Some(id),
        state: Some(state),
    }
}

/// Converts a deployment, its groups and its escrow account to the response of a query.
#[must_use]
pub fn deployment(record: &DeploymentRecord) -> dep::v1beta4::QueryDeploymentResponse {
    use dep::v1::deployment::State;
    let DeploymentRecord {
        deployment,
        groups,
        escrow,
        ..
    } = record;
    let state = if deployment.active {
        State::Active
    } else {
        State::Closed
    };
    let wire = dep::v1::Deployment {
        id: Some(wire_deployment(&deployment.id)),
        state: state.into(),
        hash: deployment.hash.to_vec(),
        created_at: height(deployment.created_at),
        reclamation: deployment
            .reclamation_min_window
            .map(|window| dep::v1::DeploymentReclamation {
                min_window: Some(wire_duration(window)),
            }),
    };
    dep::v1beta4::QueryDeploymentResponse {
        deployment: Some(wire),
        groups: groups.iter().map(group).collect(),
        escrow_account: Some(escrow_account(deployment, escrow)),
    }
}

/// Converts a provider to its protobuf message. The field `info` is set even if the provider has no contact
/// information.
#[must_use]
pub fn provider(provider: &ProviderRecord) -> prov::v1beta4::Provider {
    prov::v1beta4::Provider {
        owner: provider.owner.to_string(),
        host_uri: provider.host_uri.clone(),
        attributes: wire_attributes(&provider.attributes),
        info: Some(wire_info(&provider.info)),
    }
}

/// Converts the parameters of the market to a protobuf message.
#[must_use]
pub fn market_params(params: &MarketParams) -> mkt::v1beta5::Params {
    mkt::v1beta5::Params {
        bid_min_deposit: params.bid_min_deposits.first().map(wire_coin),
        order_max_bids: params.order_max_bids,
        bid_min_deposits: params.bid_min_deposits.iter().map(wire_coin).collect(),
        min_reclamation_window: Some(wire_duration(params.min_reclamation_window)),
        max_reclamation_window: Some(wire_duration(params.max_reclamation_window)),
    }
}

/// Converts a certificate to its form in a query response.
#[must_use]
pub fn certificate(certificate: &Certificate) -> cert::v1::CertificateResponse {
    let state = if certificate.valid {
        cert::v1::State::Valid
    } else {
        cert::v1::State::Revoked
    };
    let wire = cert::v1::Certificate {
        state: state.into(),
        cert: certificate.cert.clone(),
        pubkey: certificate.pubkey.clone(),
    };
    cert::v1::CertificateResponse {
        certificate: Some(wire),
        serial: certificate.serial.clone(),
    }
}
