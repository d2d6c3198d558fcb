//! Responses of the simulated node to queries for records of the market.

use super::account;
use crate::convert::{bid_id, deployment_id, group_id, lease_id, order_id, responses};
use crate::method::Method;
use crate::proto::akash::cert::v1 as cert;
use crate::proto::akash::{deployment::v1beta4 as dep, market::v1beta5 as mkt, provider::v1beta4 as prov};
use crate::proto::cosmos::auth::v1beta1 as auth;
use crate::proto::cosmos::base::query::v1beta1::{PageRequest, PageResponse};
use akash_provider_core::chain::Certificate;
use akash_provider_core::market::Market;
use akash_provider_core::types::BidId;
use prost::Message;

/// Returns a page of records, sorted by id. The page key is the id of the last record, so that changes do not
/// shift the next page.
fn page<T, W>(
    found: impl Iterator<Item = T>,
    id: impl Fn(&T) -> BidId,
    wire: impl Fn(&T) -> W,
    request: Option<PageRequest>,
) -> (Vec<W>, Option<PageResponse>) {
    let request = request.unwrap_or_default();
    let after: Option<BidId> = String::from_utf8(request.key).unwrap().parse().ok();
    let limit = if request.limit == 0 {
        100
    } else {
        usize::try_from(request.limit).unwrap()
    };
    let rest: Vec<T> = found
        .filter(|t| after.as_ref().is_none_or(|a| id(t) > *a))
        .collect();
    let last = rest.get(limit - 1).filter(|_| rest.len() > limit);
    let next_key = last.map(|t| id(t).to_string().into_bytes()).unwrap_or_default();
    let items = rest.iter().take(limit).map(wire).collect();
    (items, Some(PageResponse { next_key, total: 0 }))
}

fn is_like(filter: &str, value: &str) -> bool {
    filter.is_empty() || filter == value
}

fn state_name(state: impl serde::Serialize) -> String {
    serde_json::to_value(state).unwrap().as_str().unwrap().to_owned()
}

/// Responds to a query. Returns `None` if the record does not exist.
pub(crate) fn answer(market: &Market, path: &str, data: &[u8]) -> Option<Vec<u8>> {
    match path {
        mkt::QueryOrdersRequest::PATH => {
            let request = mkt::QueryOrdersRequest::decode(data).unwrap();
            let filters = request.filters.unwrap_or_default();
            let wanted = market
                .orders()
                .filter(|o| is_like(&filters.state, &state_name(o.state)));
            let id = |o: &&akash_provider_core::types::Order| o.id.clone().bid(account(0));
            let (orders, pagination) = page(wanted, id, |o| responses::order(o), request.pagination);
            Some(mkt::QueryOrdersResponse { orders, pagination }.encode_to_vec())
        }
        mkt::QueryBidsRequest::PATH => {
            let request = mkt::QueryBidsRequest::decode(data).unwrap();
            let filters = request.filters.unwrap_or_default();
            let wanted = market.bids().filter(|b| {
                is_like(&filters.state, &state_name(b.state))
                    && is_like(&filters.provider, b.id.provider.as_str())
                    && is_like(&filters.owner, b.id.owner().as_str())
                    && (filters.dseq == 0 || filters.dseq == b.id.deployment().dseq)
                    && (filters.gseq == 0 || filters.gseq == b.id.order.group.gseq)
            });
            let (bids, pagination) = page(
                wanted,
                |b| b.id.clone(),
                |b| responses::bid(b),
                request.pagination,
            );
            Some(mkt::QueryBidsResponse { bids, pagination }.encode_to_vec())
        }
        mkt::QueryLeasesRequest::PATH => {
            let request = mkt::QueryLeasesRequest::decode(data).unwrap();
            let filters = request.filters.unwrap_or_default();
            let wanted = market.leases().filter(|l| {
                let id = &l.lease.id;
                is_like(&filters.state, &state_name(l.lease.state))
                    && is_like(&filters.provider, id.provider.as_str())
                    && is_like(&filters.owner, id.owner().as_str())
                    && (filters.dseq == 0 || filters.dseq == id.deployment().dseq)
            });
            let (leases, pagination) = page(
                wanted,
                |l| l.lease.id.clone(),
                responses::lease_record,
                request.pagination,
            );
            Some(mkt::QueryLeasesResponse { leases, pagination }.encode_to_vec())
        }
        mkt::QueryParamsRequest::PATH => {
            let params = Some(responses::market_params(market.params()));
            Some(mkt::QueryParamsResponse { params }.encode_to_vec())
        }
        cert::QueryCertificatesRequest::PATH => {
            let certificate = Certificate {
                cert: b"PEM".to_vec(),
                pubkey: b"KEY".to_vec(),
                serial: "7".to_owned(),
                valid: true,
            };
            let answer = cert::QueryCertificatesResponse {
                certificates: vec![responses::certificate(&certificate)],
                pagination: None,
            };
            Some(answer.encode_to_vec())
        }
        auth::QueryAccountRequest::PATH => Some(account_answer(7, 0)),
        _ => one(market, path, data),
    }
}

pub(crate) fn account_answer(account_number: u64, sequence: u64) -> Vec<u8> {
    let account = auth::BaseAccount {
        address: account(2).to_string(),
        account_number,
        sequence,
        ..auth::BaseAccount::default()
    };
    let account = prost_types::Any {
        type_url: "/cosmos.auth.v1beta1.BaseAccount".to_owned(),
        value: account.encode_to_vec(),
    };
    auth::QueryAccountResponse {
        account: Some(account),
    }
    .encode_to_vec()
}

fn one(market: &Market, path: &str, data: &[u8]) -> Option<Vec<u8>> {
    match path {
        mkt::QueryBidRequest::PATH => {
            let id = bid_id(mkt::QueryBidRequest::decode(data).unwrap().id).unwrap();
            market.bid(&id).map(|b| responses::bid(b).encode_to_vec())
        }
        mkt::QueryLeaseRequest::PATH => {
            let id = lease_id(mkt::QueryLeaseRequest::decode(data).unwrap().id).unwrap();
            market
                .lease(&id)
                .map(|l| responses::lease_record(&l).encode_to_vec())
        }
        mkt::QueryOrderRequest::PATH => {
            let id = order_id(mkt::QueryOrderRequest::decode(data).unwrap().id).unwrap();
            let order = Some(responses::order(market.order(&id)?));
            Some(mkt::QueryOrderResponse { order }.encode_to_vec())
        }
        dep::QueryDeploymentRequest::PATH => {
            let id = deployment_id(dep::QueryDeploymentRequest::decode(data).unwrap().id).unwrap();
            Some(responses::deployment(&market.deployment(&id)?).encode_to_vec())
        }
        dep::QueryGroupRequest::PATH => {
            let id = group_id(dep::QueryGroupRequest::decode(data).unwrap().id).unwrap();
            let group = Some(responses::group(market.group(&id)?));
            Some(dep::QueryGroupResponse { group }.encode_to_vec())
        }
        prov::QueryProviderRequest::PATH => {
            let owner = prov::QueryProviderRequest::decode(data).unwrap().owner;
            let found = market.provider(&owner.parse().unwrap())?;
            let provider = Some(responses::provider(found));
            Some(prov::QueryProviderResponse { provider }.encode_to_vec())
        }
        other => panic!("no response for {other}"),
    }
}
