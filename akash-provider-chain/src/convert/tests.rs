//! Conversions compared with recorded requests and responses: rebuilt requests have the same bytes, and converted
//! responses have the recorded values.

use super::*;
use crate::method::Method;
use crate::proto::{akash, cosmos};
use akash::{audit, cert, deployment as dep, discovery, escrow, market as mkt, provider as prov};
use akash_provider_core::chain::{BidFilter, LeaseFilter, OrderFilter, PageRequest};
use akash_provider_core::types::{Address, BidState, DeploymentId, LeaseState, OrderState};
use cosmos::base::{
    node::v1beta1 as node, query::v1beta1::PageRequest as WirePage, tendermint::v1beta1 as tm,
};
use cosmos::{auth::v1beta1 as auth, bank::v1beta1 as bank, tx::v1beta1 as tx};
use prost::Message;
use serde_json::Value;
use testbed::recordings::{self, files, json};

const NOT_QUERIED: [&str; 2] = ["/akash.oracle.v2.", "/akash.bme.v1."];

struct Recording {
    name: String,
    path: String,
    request: Vec<u8>,
    response: Option<Vec<u8>>,
}

fn recordings() -> Vec<Recording> {
    let folder = recordings::folder("chain/grpc");
    let base64 = |v: &Value| {
        v.as_str()
            .map(|t| data_encoding::BASE64.decode(t.as_bytes()).unwrap())
    };
    let mut all = Vec::new();
    for state in files(&folder, "").into_iter().filter(|p| p.is_dir()) {
        for file in files(&state, ".json") {
            let recorded = json(&file);
            all.push(Recording {
                name: file.display().to_string(),
                path: recorded["path"].as_str().unwrap().to_owned(),
                request: base64(&recorded["request_b64"]).unwrap(),
                response: base64(&recorded["response_b64"]),
            });
        }
    }
    assert!(all.len() > 300, "{} recordings", all.len());
    all
}

fn page(wire: Option<WirePage>) -> PageRequest {
    let wire = wire.unwrap_or_default();
    PageRequest {
        key: (!wire.key.is_empty()).then_some(wire.key),
        limit: u32::try_from(wire.limit).unwrap(),
    }
}

fn deployment_of(owner: &str, dseq: u64) -> Option<DeploymentId> {
    let owner = owner.parse::<Address>().ok()?;
    (dseq != 0).then_some(DeploymentId::new(owner, dseq))
}

#[expect(clippy::too_many_lines, reason = "a table with one arm per request")]
/// Decodes an encoded request and encodes the result. Returns `None` if `akash_provider_core` cannot express
/// the request.
fn rebuild_request(path: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    fn of<M: Message + Default>(bytes: &[u8]) -> M {
        M::decode(bytes).unwrap()
    }
    match path {
        mkt::v1beta5::QueryOrderRequest::PATH => {
            let wire: mkt::v1beta5::QueryOrderRequest = of(bytes);
            Some(order_request(&ids::order_id(wire.id).unwrap()).encode_to_vec())
        }
        mkt::v1beta5::QueryBidRequest::PATH => {
            let wire: mkt::v1beta5::QueryBidRequest = of(bytes);
            Some(bid_request(&ids::bid_id(wire.id).unwrap()).encode_to_vec())
        }
        mkt::v1beta5::QueryLeaseRequest::PATH => {
            let wire: mkt::v1beta5::QueryLeaseRequest = of(bytes);
            Some(lease_request(&ids::lease_id(wire.id).unwrap()).encode_to_vec())
        }
        dep::v1beta4::QueryGroupRequest::PATH => {
            let wire: dep::v1beta4::QueryGroupRequest = of(bytes);
            Some(group_request(&ids::group_id(wire.id).unwrap()).encode_to_vec())
        }
        dep::v1beta4::QueryDeploymentRequest::PATH => {
            let wire: dep::v1beta4::QueryDeploymentRequest = of(bytes);
            Some(deployment_request(&ids::deployment_id(wire.id).unwrap()).encode_to_vec())
        }
        mkt::v1beta5::QueryOrdersRequest::PATH => {
            let wire: mkt::v1beta5::QueryOrdersRequest = of(bytes);
            let filters = wire.filters.unwrap_or_default();
            let state = match filters.state.as_str() {
                "" => None,
                "open" => Some(OrderState::Open),
                _ => return None,
            };
            let deployment = deployment_of(&filters.owner, filters.dseq);
            let filter = OrderFilter { state, deployment };
            Some(orders_request(&filter, page(wire.pagination)).encode_to_vec())
        }
        mkt::v1beta5::QueryBidsRequest::PATH => {
            let wire: mkt::v1beta5::QueryBidsRequest = of(bytes);
            let filters = wire.filters.unwrap_or_default();
            let order = filters.owner.parse().ok().map(|owner| {
                DeploymentId::new(owner, filters.dseq)
                    .group(filters.gseq)
                    .order(filters.oseq)
            });
            let filter = BidFilter {
                order,
                provider: filters.provider.parse().ok(),
                state: (filters.state == "open").then_some(BidState::Open),
            };
            Some(bids_request(&filter, page(wire.pagination)).encode_to_vec())
        }
        mkt::v1beta5::QueryLeasesRequest::PATH => {
            let wire: mkt::v1beta5::QueryLeasesRequest = of(bytes);
            let filters = wire.filters.unwrap_or_default();
            let state = match filters.state.as_str() {
                "" => None,
                "active" => Some(LeaseState::Active),
                _ => return None,
            };
            let filter = LeaseFilter {
                provider: filters.provider.parse().ok(),
                deployment: deployment_of(&filters.owner, filters.dseq),
                state,
            };
            Some(leases_request(&filter, page(wire.pagination)).encode_to_vec())
        }
        audit::v1::QueryProviderAuditorRequest::PATH => {
            let wire: audit::v1::QueryProviderAuditorRequest = of(bytes);
            let (auditor, owner) = (wire.auditor.parse().unwrap(), wire.owner.parse().unwrap());
            Some(auditor_request(&auditor, &owner).encode_to_vec())
        }
        bank::QueryBalanceRequest::PATH => {
            let wire: bank::QueryBalanceRequest = of(bytes);
            Some(balance_request(&wire.address.parse().unwrap(), &wire.denom).encode_to_vec())
        }
        _ => None,
    }
}

#[test]
fn rebuilt_requests_have_the_recorded_bytes() {
    let recordings = recordings();
    let mut built = 0;
    for Recording {
        name, path, request, ..
    } in recordings
    {
        if let Some(bytes) = rebuild_request(&path, &request) {
            assert_eq!(bytes, request, "{name}");
            built += 1;
        }
    }
    assert!(built > 150, "{built} rebuilt requests");
    println!("{built} rebuilt requests");
}

/// Checks that a recorded request does not change when it is decoded and encoded again. With `exact`, checks
/// the recorded response in the same way.
///
/// Returns the decoded response, or `None` if no response was recorded.
fn decode_recording<M: Method + Default>(recording: &Recording, exact: bool) -> Option<M::Response> {
    let name = &recording.name;
    let request = M::decode(&*recording.request).unwrap();
    assert_eq!(request.encode_to_vec(), recording.request, "{name}: the request");
    let bytes = recording.response.as_deref()?;
    let response = M::Response::decode(bytes).unwrap();
    if exact {
        assert_eq!(response.encode_to_vec(), bytes, "{name}: the response");
    }
    Some(response)
}

fn market(recording: &Recording) -> bool {
    let name = &recording.name;
    match recording.path.as_str() {
        mkt::v1beta5::QueryOrderRequest::PATH => {
            if let Some(answer) = decode_recording::<mkt::v1beta5::QueryOrderRequest>(recording, true) {
                order(answer.order.unwrap()).unwrap_or_else(|e| panic!("{name}: {e}"));
            }
        }
        mkt::v1beta5::QueryOrdersRequest::PATH => {
            for wire in decode_recording::<mkt::v1beta5::QueryOrdersRequest>(recording, true)
                .unwrap_or_default()
                .orders
            {
                let (created, units) = (wire.created_at, wire.spec.as_ref().unwrap().resources.len());
                let order = order(wire).unwrap_or_else(|e| panic!("{name}: {e}"));
                assert_eq!(i64::try_from(order.created_at).unwrap(), created);
                assert_eq!(order.spec.resources.len(), units);
                let wire = wire_group_spec(&order.spec);
                assert_eq!(resources::group_spec(Some(wire)).unwrap(), *order.spec, "{name}");
            }
        }
        mkt::v1beta5::QueryBidRequest::PATH => {
            if let Some(answer) = decode_recording::<mkt::v1beta5::QueryBidRequest>(recording, true) {
                bid(answer.bid.unwrap()).unwrap_or_else(|e| panic!("{name}: {e}"));
            }
        }
        mkt::v1beta5::QueryBidsRequest::PATH => {
            for answer in decode_recording::<mkt::v1beta5::QueryBidsRequest>(recording, true)
                .unwrap_or_default()
                .bids
            {
                bid(answer.bid.unwrap()).unwrap_or_else(|e| panic!("{name}: {e}"));
            }
        }
        mkt::v1beta5::QueryLeaseRequest::PATH => {
            if let Some(answer) = decode_recording::<mkt::v1beta5::QueryLeaseRequest>(recording, true) {
                let record = lease_record(answer).unwrap_or_else(|e| panic!("{name}: {e}"));
                assert!(record.payment.is_some(), "{name}");
            }
        }
        mkt::v1beta5::QueryLeasesRequest::PATH => {
            let answer =
                decode_recording::<mkt::v1beta5::QueryLeasesRequest>(recording, true).unwrap_or_default();
            for answer in answer.leases {
                lease_record(answer).unwrap_or_else(|e| panic!("{name}: {e}"));
            }
        }
        mkt::v1beta5::QueryParamsRequest::PATH => {
            let answer = decode_recording::<mkt::v1beta5::QueryParamsRequest>(recording, true).unwrap();
            let params = market_params(answer.params.unwrap()).unwrap();
            assert_eq!(params.order_max_bids, 20, "{name}");
            assert!(
                params.bid_min_deposits.iter().all(|c| c.amount == 500_000),
                "{name}"
            );
        }
        _ => return false,
    }
    true
}

#[expect(clippy::too_many_lines, reason = "a table with one arm per request")]
fn accounts(recording: &Recording) -> bool {
    let name = &recording.name;
    match recording.path.as_str() {
        dep::v1beta4::QueryDeploymentRequest::PATH => {
            if let Some(answer) = decode_recording::<dep::v1beta4::QueryDeploymentRequest>(recording, true) {
                let (_, groups, money) = deployment(answer).unwrap_or_else(|e| panic!("{name}: {e}"));
                assert!(!groups.is_empty() && !money.funds.is_empty(), "{name}");
            }
        }
        dep::v1beta4::QueryGroupRequest::PATH => {
            let answer = decode_recording::<dep::v1beta4::QueryGroupRequest>(recording, true).unwrap();
            group(answer.group.unwrap()).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        prov::v1beta4::QueryProviderRequest::PATH => {
            if let Some(answer) = decode_recording::<prov::v1beta4::QueryProviderRequest>(recording, true) {
                provider(answer.provider.unwrap()).unwrap_or_else(|e| panic!("{name}: {e}"));
            }
        }
        prov::v1beta4::QueryProvidersRequest::PATH => {
            drop(decode_recording::<prov::v1beta4::QueryProvidersRequest>(
                recording, true,
            ));
        }
        audit::v1::QueryProviderAuditorRequest::PATH => {
            drop(decode_recording::<audit::v1::QueryProviderAuditorRequest>(
                recording, true,
            ));
        }
        audit::v1::QueryProviderAttributesRequest::PATH => {
            let answer =
                decode_recording::<audit::v1::QueryProviderAttributesRequest>(recording, true).unwrap();
            assert!(
                answer
                    .providers
                    .into_iter()
                    .map(audited)
                    .all(|a| !a.attributes.is_empty()),
                "{name}"
            );
        }
        cert::v1::QueryCertificatesRequest::PATH => {
            let answer = decode_recording::<cert::v1::QueryCertificatesRequest>(recording, true).unwrap();
            for wire in answer.certificates {
                let certificate = certificate(wire);
                assert!(
                    certificate.cert.starts_with(b"-----BEGIN CERTIFICATE-----"),
                    "{name}"
                );
                assert!(certificate.serial.bytes().all(|b| b.is_ascii_digit()), "{name}");
            }
        }
        auth::QueryAccountRequest::PATH => {
            if let Some(answer) = decode_recording::<auth::QueryAccountRequest>(recording, true) {
                let account = account(answer.account).unwrap_or_else(|e| panic!("{name}: {e}"));
                assert_eq!(account.pubkey.is_none(), name.contains("no-pubkey"), "{name}");
            }
        }
        bank::QueryBalanceRequest::PATH => {
            let denom = bank::QueryBalanceRequest::decode(&*recording.request)
                .unwrap()
                .denom;
            let answer = decode_recording::<bank::QueryBalanceRequest>(recording, true).unwrap();
            coin_balance(answer.balance, &denom).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        bank::QueryAllBalancesRequest::PATH => {
            drop(decode_recording::<bank::QueryAllBalancesRequest>(recording, true))
        }
        dep::v1beta4::QueryParamsRequest::PATH => {
            drop(decode_recording::<dep::v1beta4::QueryParamsRequest>(
                recording, true,
            ));
        }
        escrow::v1::QueryAccountsRequest::PATH => {
            drop(decode_recording::<escrow::v1::QueryAccountsRequest>(
                recording, true,
            ));
        }
        escrow::v1::QueryPaymentsRequest::PATH => {
            drop(decode_recording::<escrow::v1::QueryPaymentsRequest>(
                recording, true,
            ));
        }
        _ => return false,
    }
    true
}

fn nodes(recording: &Recording) -> bool {
    match recording.path.as_str() {
        discovery::v1::GetInfoRequest::PATH => {
            let answer = decode_recording::<discovery::v1::GetInfoRequest>(recording, true).unwrap();
            assert_eq!(answer.info.unwrap().chain_id, "local");
        }
        node::ConfigRequest::PATH => drop(decode_recording::<node::ConfigRequest>(recording, true)),
        node::StatusRequest::PATH => drop(decode_recording::<node::StatusRequest>(recording, true)),
        tm::GetSyncingRequest::PATH => drop(decode_recording::<tm::GetSyncingRequest>(recording, true)),
        tm::GetNodeInfoRequest::PATH => {
            // The type omits the list of libraries.
            let answer = decode_recording::<tm::GetNodeInfoRequest>(recording, false).unwrap();
            assert_eq!(answer.default_node_info.unwrap().network, "local");
        }
        tx::SimulateRequest::PATH => {
            if let Some(answer) = decode_recording::<tx::SimulateRequest>(recording, true) {
                assert!(answer.gas_info.unwrap().gas_used > 50_000);
            }
        }
        tx::BroadcastTxRequest::PATH => drop(decode_recording::<tx::BroadcastTxRequest>(recording, true)),
        tx::GetTxRequest::PATH => drop(decode_recording::<tx::GetTxRequest>(recording, true)),
        _ => return false,
    }
    true
}

#[test]
fn recorded_responses_convert_without_loss() {
    let recordings = recordings();
    for recording in &recordings {
        let is_converted = market(recording) || accounts(recording) || nodes(recording);
        let foreign = NOT_QUERIED
            .iter()
            .any(|module| recording.path.starts_with(module));
        assert!(is_converted != foreign, "{}: {}", recording.name, recording.path);
    }
    println!("{} recordings decoded and encoded", recordings.len());
}

#[test]
fn recorded_transactions_keep_their_bytes() {
    let mut messages = 0;
    for file in files(&recordings::folder("chain/tx"), ".tx.b64") {
        let name = file.display();
        let text = std::fs::read_to_string(&file).unwrap();
        let bytes = data_encoding::BASE64.decode(text.trim().as_bytes()).unwrap();
        let Ok(raw) = tx::TxRaw::decode(&*bytes) else {
            assert!(text.len() < 100, "{name}: only garbage fails to decode");
            continue;
        };
        assert_eq!(raw.encode_to_vec(), bytes, "{name}");
        let body = tx::TxBody::decode(&*raw.body_bytes).unwrap();
        assert_eq!(body.encode_to_vec(), raw.body_bytes, "{name}: body");
        let auth = tx::AuthInfo::decode(&*raw.auth_info_bytes).unwrap();
        assert_eq!(
            auth.encode_to_vec(),
            raw.auth_info_bytes,
            "{name}: signers and fee"
        );
        for any in body.messages {
            messages += usize::from(same_message(&any, &file.display().to_string()));
        }
    }
    assert!(messages > 40, "{messages} messages of providers");
    println!("{messages} messages of providers decoded and encoded");
}

/// Decodes a message and encodes the result. Asserts that the bytes are unchanged, except the `sources` of a
/// deposit.
///
/// Returns false for a message that cannot be compared: a type that providers do not send, or an invalid
/// close reason.
fn same_message(any: &prost_types::Any, name: &str) -> bool {
    let refused = |e: &Malformed| name.contains("err-") && e.part == "reason";
    let msg = match from_any(any) {
        Ok(Some(msg)) => msg,
        Ok(None) => return false,
        Err(e) if refused(&e) => return false,
        Err(e) => panic!("{name}: {e}"),
    };
    let mut written = to_any(&msg);
    assert_eq!(written.type_url, any.type_url, "{name}");
    assert_eq!(any.type_url.rsplit('.').next(), Some(msg.name()), "{name}");
    if any.type_url.ends_with("MsgCreateBid") {
        let recorded = mkt::v1beta5::MsgCreateBid::decode(&*any.value).unwrap();
        let mut ours = mkt::v1beta5::MsgCreateBid::decode(&*written.value).unwrap();
        ours.deposit.as_mut().unwrap().sources = recorded.deposit.unwrap().sources;
        written.value = ours.encode_to_vec();
    }
    assert_eq!(written.value, any.value, "{name}");
    true
}

#[test]
fn invalid_fields_are_refused_by_name() {
    let id = mkt::v1::BidId {
        owner: "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla".to_owned(),
        dseq: 1,
        gseq: 1,
        oseq: 1,
        provider: "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".to_owned(),
        bseq: 0,
    };
    let price = cosmos::base::v1beta1::DecCoin {
        denom: "uact".to_owned(),
        amount: "40000000000000000000".to_owned(),
    };
    let good = mkt::v1beta5::Bid {
        id: Some(id.clone()),
        state: 1,
        price: Some(price.clone()),
        created_at: 7,
        ..mkt::v1beta5::Bid::default()
    };
    assert_eq!(bid(good.clone()).unwrap().price.to_string(), "40uact");
    let bad = |change: &dyn Fn(&mut mkt::v1beta5::Bid)| {
        let mut wire = good.clone();
        change(&mut wire);
        bid(wire).unwrap_err().to_string()
    };
    assert!(bad(&|b| b.created_at = -1).starts_with("created_at: -1"));
    assert!(bad(&|b| b.state = 9).starts_with("state: unknown state 9"));
    assert!(bad(&|b| b.id = None).starts_with("id: is missing"));
    assert!(bad(&|b| b.id.as_mut().unwrap().bseq = 1).starts_with("id.bseq"));
    assert!(bad(&|b| b.id.as_mut().unwrap().provider = "x".to_owned()).starts_with("id.provider"));
    for amount in ["", "4.5", "1e3", "99999999999999999999999999999999999999999"] {
        let refused = bad(&|b| b.price.as_mut().unwrap().amount = amount.to_owned());
        assert!(refused.starts_with("price.amount"), "{refused}");
    }
    let window = prost_types::Duration {
        seconds: -5,
        nanos: 0,
    };
    assert!(bad(&|b| b.reclamation_window = Some(window)).starts_with("reclamation_window"));
}

#[test]
fn reclamation_has_a_reason() {
    let reason = akash_provider_core::types::CloseReason::Decommission;
    let mut wire = mkt::v1::Lease {
        id: Some(mkt::v1::LeaseId {
            owner: "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla".to_owned(),
            dseq: 1,
            gseq: 1,
            oseq: 1,
            provider: "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".to_owned(),
            bseq: 0,
        }),
        state: mkt::v1::lease::State::Reclaiming.into(),
        price: Some(cosmos::base::v1beta1::DecCoin {
            denom: "uact".to_owned(),
            amount: "1".to_owned(),
        }),
        reclamation: Some(mkt::v1::Reclamation {
            deadline: 1_700_000_000,
            reason: i32::try_from(reason.code()).unwrap(),
            ..mkt::v1::Reclamation::default()
        }),
        ..mkt::v1::Lease::default()
    };
    let terms = lease(wire.clone()).unwrap().reclamation.unwrap();
    assert_eq!(terms.reason, Some(reason));
    wire.reclamation.as_mut().unwrap().reason = 0;
    assert_eq!(
        lease(wire).unwrap().reclamation.unwrap().reason,
        None,
        "not started yet"
    );
}
