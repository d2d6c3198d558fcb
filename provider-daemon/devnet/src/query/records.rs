//! Queries of the Akash modules: market, deployment, provider, audit, cert, escrow.

use super::{At, ListPosition, QueryCall, QueryError, matches_filter, page, wanted_states};
use akash_provider_chain::convert::{self, responses};
use akash_provider_chain::proto::akash::base::attributes::v1::Attribute as WireAttribute;
use akash_provider_chain::proto::akash::{
    audit::v1 as audit, cert::v1 as cert, deployment::v1beta4 as dep, escrow, market::v1beta5 as mkt,
    provider::v1beta4 as prov,
};
use akash_provider_core::chain::Certificate;
use akash_provider_core::market::{MIN_DEPLOYMENT_DEPOSIT, Market};
use akash_provider_core::types::{
    Address, Attribute, Bid, BidState, DeploymentRecord, LeaseRecord, LeaseState, Order, OrderState,
    ProviderRecord,
};
use data_encoding::HEXLOWER;

const ORDER_STATES: [(&str, OrderState); 3] = [
    ("open", OrderState::Open),
    ("active", OrderState::Active),
    ("closed", OrderState::Closed),
];
const BID_STATES: [(&str, BidState); 4] = [
    ("open", BidState::Open),
    ("active", BidState::Active),
    ("lost", BidState::Lost),
    ("closed", BidState::Closed),
];
const LEASE_STATES: [(&str, LeaseState); 4] = [
    ("active", LeaseState::Active),
    ("insufficient_funds", LeaseState::InsufficientFunds),
    ("closed", LeaseState::Closed),
    ("reclaiming", LeaseState::Reclaiming),
];

/// Executes a query if a module in this file has the path.
pub(super) fn execute(state: At<'_>, call: &mut QueryCall<'_>) {
    market(state, call);
    deployment(state, call);
    accounts_and_certificates(state, call);
    money(&state.market, call);
}

fn market(state: At<'_>, call: &mut QueryCall<'_>) {
    let market = &*state.market;
    call.handle::<mkt::QueryOrdersRequest>(|request| orders(market, request));
    call.handle::<mkt::QueryBidsRequest>(|request| bids(market, request));
    call.handle::<mkt::QueryLeasesRequest>(|request| leases(market, request));
    call.handle::<mkt::QueryOrderRequest>(|request| {
        let order = market.order(&convert::order_id(request.id)?);
        let order = order.ok_or_else(|| not_found("market", 15, "invalid order: order not found"))?;
        let order = Some(responses::order(order));
        Ok(mkt::QueryOrderResponse { order })
    });
    call.handle::<mkt::QueryBidRequest>(|request| {
        let bid = market.bid(&convert::bid_id(request.id)?);
        let bid = bid.ok_or_else(|| not_found("market", 18, "invalid bid: bid not found"))?;
        Ok(wire_bid(market, bid))
    });
    call.handle::<mkt::QueryLeaseRequest>(|request| {
        let lease = market.lease(&convert::lease_id(request.id)?);
        let lease = lease.ok_or_else(|| not_found("market", 20, "invalid lease: lease not found"))?;
        Ok(wire_lease(market, &lease))
    });
    call.handle::<mkt::QueryParamsRequest>(|_| {
        let mut params = responses::market_params(market.params());
        // The deprecated single field has the amount in the staking token.
        let uakt = params.bid_min_deposits.iter().find(|c| c.denom == "uakt");
        params.bid_min_deposit = uakt.cloned().or(params.bid_min_deposit);
        Ok(mkt::QueryParamsResponse { params: Some(params) })
    });
}

fn not_found(module: &str, code: u32, text: &str) -> QueryError {
    QueryError::not_found(module, code, text)
}

fn wire_bid(market: &Market, bid: &Bid) -> mkt::QueryBidResponse {
    let deposit = market.bid_deposit(&bid.id);
    deposit.map_or_else(
        || responses::bid(bid),
        |deposit| responses::bid_with_deposit(bid, &deposit),
    )
}

fn wire_lease(market: &Market, lease: &LeaseRecord) -> mkt::QueryLeaseResponse {
    let details = market.lease_details(&lease.lease.id);
    details.map_or_else(
        || responses::lease_record(lease),
        |details| responses::lease_with_details(lease, &details),
    )
}

fn place<S: PartialEq, I: Clone>(states: &[(&str, S)], state: &S, id: &I) -> ListPosition<I> {
    let state = states.iter().position(|(_, s)| s == state);
    ListPosition(state.unwrap_or(0), id.clone())
}

fn orders(market: &Market, request: mkt::QueryOrdersRequest) -> Result<mkt::QueryOrdersResponse, QueryError> {
    let filters = request.filters.unwrap_or_default();
    let states = wanted_states(&filters.state, &ORDER_STATES)?;
    let wanted = |o: &&Order| {
        let group = &o.id.group;
        matches_filter(&filters.owner.as_str(), &group.deployment.owner.as_str())
            && matches_filter(&filters.dseq, &group.deployment.dseq)
            && matches_filter(&filters.gseq, &group.gseq)
            && matches_filter(&filters.oseq, &o.id.oseq)
    };
    let listed = states.iter().flat_map(|state| {
        let of_state = market.orders().filter(move |o| o.state == *state);
        of_state.filter(wanted)
    });
    let key = |o: &&Order| place(&ORDER_STATES, &o.state, &o.id);
    let (orders, pagination) = page(listed, key, |o| responses::order(o), request.pagination)?;
    Ok(mkt::QueryOrdersResponse { orders, pagination })
}

fn bids(market: &Market, request: mkt::QueryBidsRequest) -> Result<mkt::QueryBidsResponse, QueryError> {
    let filters = request.filters.unwrap_or_default();
    let states = wanted_states(&filters.state, &BID_STATES)?;
    let wanted = |b: &&Bid| {
        let order = &b.id.order;
        matches_filter(&filters.owner.as_str(), &order.group.deployment.owner.as_str())
            && matches_filter(&filters.dseq, &order.group.deployment.dseq)
            && matches_filter(&filters.gseq, &order.group.gseq)
            && matches_filter(&filters.oseq, &order.oseq)
            && matches_filter(&filters.provider.as_str(), &b.id.provider.as_str())
            && filters.bseq == 0
    };
    // Unlike orders, bids are sorted by id whatever their state is.
    let listed = market.bids().filter(|b| states.contains(&b.state)).filter(wanted);
    let key = |b: &&Bid| ListPosition(0, b.id.clone());
    let (bids, pagination) = page(listed, key, |b| wire_bid(market, b), request.pagination)?;
    Ok(mkt::QueryBidsResponse { bids, pagination })
}

fn leases(market: &Market, request: mkt::QueryLeasesRequest) -> Result<mkt::QueryLeasesResponse, QueryError> {
    let filters = request.filters.unwrap_or_default();
    let states = wanted_states(&filters.state, &LEASE_STATES)?;
    let wanted = |l: &LeaseRecord| {
        let order = &l.lease.id.order;
        matches_filter(&filters.owner.as_str(), &order.group.deployment.owner.as_str())
            && matches_filter(&filters.dseq, &order.group.deployment.dseq)
            && matches_filter(&filters.gseq, &order.group.gseq)
            && matches_filter(&filters.oseq, &order.oseq)
            && matches_filter(&filters.provider.as_str(), &l.lease.id.provider.as_str())
            && filters.bseq == 0
    };
    let listed = market
        .leases()
        .filter(|l| states.contains(&l.lease.state))
        .filter(wanted);
    let key = |l: &LeaseRecord| ListPosition(0, l.lease.id.clone());
    let (leases, pagination) = page(listed, key, |l| wire_lease(market, l), request.pagination)?;
    Ok(mkt::QueryLeasesResponse { leases, pagination })
}

fn wire_deployment(market: &Market, record: &DeploymentRecord) -> dep::QueryDeploymentResponse {
    match market.escrow_details(&record.deployment.id) {
        Some(details) => responses::deployment_with_details(record, details),
        None => responses::deployment(record),
    }
}

fn deployment(state: At<'_>, call: &mut QueryCall<'_>) {
    let market = &*state.market;
    call.handle::<dep::QueryDeploymentRequest>(|request| {
        let record = market.deployment(&convert::deployment_id(request.id)?);
        let record = record.ok_or_else(|| not_found("deployment", 4, "Deployment not found"))?;
        Ok(wire_deployment(market, &record))
    });
    call.handle::<dep::QueryDeploymentsRequest>(|request| deployments(market, request));
    call.handle::<dep::QueryGroupRequest>(|request| {
        let id = convert::group_id(request.id)?;
        let group = market.group(&id);
        let group = group.ok_or_else(|| not_found("deployment", 14, "Group not found"))?;
        let created = market.deployment(&id.deployment).map(|d| d.deployment.created_at);
        let mut group = responses::group(group);
        group.created_at = i64::try_from(created.unwrap_or(0)).unwrap_or(i64::MAX);
        Ok(dep::QueryGroupResponse { group: Some(group) })
    });
    call.handle::<dep::QueryParamsRequest>(|_| {
        let coin = |denom: &str| akash_provider_chain::proto::cosmos::base::v1beta1::Coin {
            denom: denom.to_owned(),
            amount: MIN_DEPLOYMENT_DEPOSIT.to_string(),
        };
        let min_deposits = vec![coin("uakt"), coin("uact")];
        Ok(dep::QueryParamsResponse {
            params: Some(dep::Params { min_deposits }),
        })
    });
}

fn deployments(
    market: &Market,
    request: dep::QueryDeploymentsRequest,
) -> Result<dep::QueryDeploymentsResponse, QueryError> {
    let filters = request.filters.unwrap_or_default();
    let states = wanted_states(&filters.state, &[("active", true), ("closed", false)])?;
    let wanted = |d: &DeploymentRecord| {
        let id = &d.deployment.id;
        matches_filter(&filters.owner.as_str(), &id.owner.as_str()) && matches_filter(&filters.dseq, &id.dseq)
    };
    let listed = states.iter().flat_map(|active| {
        let of_state = market
            .deployments()
            .filter(move |d| d.deployment.active == *active);
        of_state.filter(wanted)
    });
    let key = |d: &DeploymentRecord| ListPosition(usize::from(!d.deployment.active), d.deployment.id.clone());
    let wire = |d: &DeploymentRecord| wire_deployment(market, d);
    let (deployments, pagination) = page(listed, key, wire, request.pagination)?;
    Ok(dep::QueryDeploymentsResponse {
        deployments,
        pagination,
    })
}

fn wire_audit(owner: &Address, auditor: &str, attributes: &[Attribute]) -> audit::AuditedProvider {
    let wire = |a: &Attribute| WireAttribute {
        key: a.key.clone(),
        value: a.value.clone(),
    };
    audit::AuditedProvider {
        owner: owner.to_string(),
        auditor: auditor.to_owned(),
        attributes: attributes.iter().map(wire).collect(),
    }
}

fn accounts_and_certificates(state: At<'_>, call: &mut QueryCall<'_>) {
    let market = &*state.market;
    let unknown = |module, code| not_found(module, code, "invalid provider: address not found");
    call.handle::<prov::QueryProviderRequest>(|request| {
        let owner = convert::address("owner", &request.owner)?;
        let provider = market.provider(&owner).ok_or_else(|| unknown("provider", 3))?;
        let provider = Some(responses::provider(provider));
        Ok(prov::QueryProviderResponse { provider })
    });
    call.handle::<prov::QueryProvidersRequest>(|request| {
        // Sorted by the bytes of the address, which differs from the order of the texts.
        let mut all: Vec<&ProviderRecord> = market.providers().collect();
        all.sort_by_cached_key(|p| p.owner.to_bytes());
        let wire = |p: &&ProviderRecord| responses::provider(p);
        let (providers, pagination) = page(
            all.into_iter(),
            |p| HEXLOWER.encode(&p.owner.to_bytes()),
            wire,
            request.pagination,
        )?;
        Ok(prov::QueryProvidersResponse {
            providers,
            pagination,
        })
    });
    call.handle::<audit::QueryProviderAuditorRequest>(|request| {
        let owner = convert::address("owner", &request.owner)?;
        let signed = market.auditor_attributes(&request.auditor, &owner);
        let signed = signed.ok_or_else(|| unknown("audit", 1))?;
        Ok(audit::QueryProvidersResponse {
            providers: vec![wire_audit(&owner, &signed.auditor, &signed.attributes)],
            pagination: None,
        })
    });
    audits(market, call);
    call.handle::<cert::QueryCertificatesRequest>(|request| certificates(market, request));
}

fn audits(market: &Market, call: &mut QueryCall<'_>) {
    let list = |wanted: &dyn Fn(&Address, &str) -> bool| {
        let all = market
            .all_audits()
            .filter(|(owner, auditor, _)| wanted(owner, auditor));
        all.map(|(owner, auditor, attributes)| wire_audit(owner, auditor, attributes))
            .collect::<Vec<_>>()
    };
    let found = |providers: Vec<audit::AuditedProvider>| {
        if providers.is_empty() {
            return Err(not_found("audit", 1, "invalid provider: address not found"));
        }
        Ok(audit::QueryProvidersResponse {
            providers,
            pagination: None,
        })
    };
    call.handle::<audit::QueryProviderAttributesRequest>(|request| {
        found(list(&|owner, _| owner.as_str() == request.owner))
    });
    call.handle::<audit::QueryAuditorAttributesRequest>(|request| {
        found(list(&|_, auditor| auditor == request.auditor))
    });
    call.handle::<audit::QueryAllProvidersAttributesRequest>(|request| {
        let key = |a: &audit::AuditedProvider| format!("{}/{}", a.owner, a.auditor);
        let all = list(&|_, _| true).into_iter();
        let (providers, pagination) = page(all, key, Clone::clone, request.pagination)?;
        Ok(audit::QueryProvidersResponse {
            providers,
            pagination,
        })
    });
}

fn certificates(
    market: &Market,
    request: cert::QueryCertificatesRequest,
) -> Result<cert::QueryCertificatesResponse, QueryError> {
    let filter = request.filter.unwrap_or_default();
    let states = wanted_states(&filter.state, &[("valid", true), ("revoked", false)])?;
    if filter.owner.is_empty() {
        let text = "a filter without an owner is not supported by this node";
        return Err(QueryError::status(tonic::Code::InvalidArgument, text));
    }
    let owner = convert::address("filter.owner", &filter.owner)?;
    let wanted = market
        .certificates(&owner)
        .iter()
        .filter(|c| states.contains(&c.valid) && matches_filter(&filter.serial.as_str(), &c.serial.as_str()));
    // Longer decimals are larger numbers.
    let mut wanted: Vec<_> = wanted.collect();
    wanted.sort_by_key(|c| (c.serial.len(), &c.serial));
    let certificates = wanted.into_iter().map(|c| Certificate {
        serial: c.serial.clone(),
        valid: c.valid,
        cert: c.cert.clone(),
        pubkey: c.pubkey.clone(),
    });
    let (certificates, pagination) = page(
        certificates,
        |c| ListPosition(c.serial.len(), c.serial.clone()),
        responses::certificate,
        request.pagination,
    )?;
    Ok(cert::QueryCertificatesResponse {
        certificates,
        pagination,
    })
}

/// Executes queries about the escrow accounts and payments of deployments, not of bids.
fn money(market: &Market, call: &mut QueryCall<'_>) {
    use escrow::types::v1::State;
    let named = |state: i32| State::try_from(state).map_or("", |s| s.as_str_name());
    call.handle::<escrow::v1::QueryAccountsRequest>(|request| {
        let accounts = market.deployments().filter_map(|d| {
            let account = wire_deployment(market, &d).escrow_account?;
            Some((d.deployment.id, account))
        });
        let wanted = accounts.filter(|(_, a)| {
            let state = a.state.as_ref().map_or("", |s| named(s.state));
            matches_filter(&request.state.as_str(), &state) && matches_key(&request.xid, a.id.as_ref(), None)
        });
        let (accounts, pagination) = page(
            wanted,
            |(id, _)| ListPosition(0, id.clone()),
            |(_, account)| account.clone(),
            request.pagination,
        )?;
        Ok(escrow::v1::QueryAccountsResponse { accounts, pagination })
    });
    call.handle::<escrow::v1::QueryPaymentsRequest>(|request| {
        let payments = market.leases().filter_map(|l| {
            let payment = wire_lease(market, &l).escrow_payment?;
            Some((l.lease.id, payment))
        });
        let wanted = payments.filter(|(_, p)| {
            let state = p.state.as_ref().map_or("", |s| named(s.state));
            let id = p.id.as_ref();
            let aid = id.and_then(|id| id.aid.as_ref());
            matches_filter(&request.state.as_str(), &state)
                && matches_key(&request.xid, aid, id.map(|id| id.xid.as_str()))
        });
        let (payments, pagination) = page(
            wanted,
            |(id, _)| ListPosition(0, id.clone()),
            |(_, payment)| payment.clone(),
            request.pagination,
        )?;
        Ok(escrow::v1::QueryPaymentsResponse { payments, pagination })
    });
}

/// Returns true if `xid` is empty, or consists of the first parts of the key
/// `deployment/owner/dseq[/gseq/oseq/provider]`.
fn matches_key(xid: &str, account: Option<&escrow::id::v1::Account>, payment: Option<&str>) -> bool {
    let Some(account) = account else { return false };
    let mut whole = format!("deployment/{}", account.xid);
    if let Some(payment) = payment {
        whole = format!("{whole}/{payment}");
    }
    let rest = whole.strip_prefix(xid);
    rest.is_some_and(|rest| xid.is_empty() || rest.is_empty() || rest.starts_with('/'))
}
