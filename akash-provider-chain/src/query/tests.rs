//! Queries over both protocols, with simulated nodes and with recordings.

mod hostile;

use crate::endpoints::Endpoints;
use crate::fault::Fault;
use crate::limits::EndpointLimits;
use crate::proto::akash::market::v1beta5 as mkt;
use crate::reader::Reader;
use crate::testing::chain::{Chain, account};
use crate::testing::grpc::{GrpcNode, GrpcReply};
use crate::testing::{Node, Reply};
use akash_provider_core::chain::{BidFilter, ChainQuery, LeaseFilter, OrderFilter, PageRequest};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{Address, Agreement, BidId, LeaseState, OrderState};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use testbed::recordings::{self, files, json};

fn limits() -> EndpointLimits {
    EndpointLimits {
        response_time: Duration::from_secs(5),
        attempts: 2,
        ..EndpointLimits::default()
    }
}

fn reader(urls: &[&String]) -> Reader {
    Reader::new(Endpoints::new(urls, "local", limits()).unwrap())
}

/// Creates a market with all types of records. Returns the chain and the id of a lease.
fn busy_market() -> (Chain, BidId) {
    let chain = Chain::new();
    let mut won = None;
    for dseq in 1..=7 {
        for order in chain.order(dseq, 2) {
            let bid = chain.bid(&order, 2);
            chain.bid(&order, 3);
            if dseq == 3 && order.group.gseq == 1 {
                won = Some(bid);
            }
        }
        chain.end_block();
    }
    let won = won.unwrap();
    assert!(chain.tenant(TenantMsg::CreateLease { bid: won.clone() }));
    chain.end_block();
    (chain, won)
}

#[tokio::test]
async fn both_protocols_return_the_records_of_the_market() {
    let (chain, won) = busy_market();
    let rpc = chain.node(Arc::default()).await;
    let grpc = GrpcNode::for_chain(&chain).await;
    for url in [&rpc.url, &grpc.url] {
        listings(&reader(&[url]), &won).await;
        records(&reader(&[url]), &chain, &won).await;
    }
    // gRPC and JSON-RPC of one host are one node, which cannot confirm its own response.
    let both = reader(&[&grpc.url, &rpc.url]);
    let snapshot = both.snapshot(&account(2)).await.unwrap();
    let market = chain.snapshot(2);
    assert_eq!(snapshot.block_times, market.block_times);
    assert_eq!(snapshot, market);
    assert_eq!(both.lease(&won).await.unwrap().agreement, Agreement::Single);
}

async fn listings(reader: &Reader, won: &BidId) {
    let us = account(2);
    let open = OrderFilter {
        state: Some(OrderState::Open),
        deployment: None,
    };
    let page = PageRequest { key: None, limit: 4 };
    let first = reader.orders(&open, page).await.unwrap();
    assert_eq!(first.items.len(), 4);
    let page = PageRequest {
        key: first.next,
        limit: 100,
    };
    assert_eq!(reader.orders(&open, page).await.unwrap().items.len(), 9);
    let ours = BidFilter {
        provider: Some(us.clone()),
        ..BidFilter::default()
    };
    assert_eq!(
        reader
            .bids(&ours, PageRequest::default())
            .await
            .unwrap()
            .items
            .len(),
        14
    );
    let live = LeaseFilter {
        provider: Some(us.clone()),
        deployment: Some(won.deployment().clone()),
        state: Some(LeaseState::Active),
    };
    let leases = reader.leases(&live, PageRequest::default()).await.unwrap().items;
    assert_eq!(leases.len(), 1);
    assert_eq!(leases[0].lease.id, *won);
}

async fn records(reader: &Reader, chain: &Chain, won: &BidId) {
    let market = chain.lock().market.clone();
    assert_eq!(reader.lease(won).await.unwrap().value, market.lease(won));
    assert_eq!(reader.bid(won).await.unwrap().value.as_ref(), market.bid(won));
    assert_eq!(
        reader.order(&won.order).await.unwrap().as_ref(),
        market.order(&won.order)
    );
    let group = &won.order.group;
    assert_eq!(reader.group(group).await.unwrap().as_ref(), market.group(group));
    let deployment = reader.deployment(won.deployment()).await.unwrap();
    assert_eq!(deployment, market.deployment(won.deployment()));
    assert_eq!(reader.params().await.unwrap(), *market.params());
    let unknown = won.order.clone().bid(account(9));
    let missing = reader.bid(&unknown).await.unwrap();
    assert_eq!((missing.value, missing.agreement), (None, Agreement::Single));
    assert_eq!(reader.provider(&account(9)).await.unwrap(), None);
    let info = reader.sync_info().await.unwrap();
    assert_eq!((info.height, info.chain_id.as_str()), (market.height(), "local"));
}

#[tokio::test]
async fn both_protocols_support_pinned_heights() {
    let (chain, won) = busy_market();
    let before = chain.height() - 1;
    let rpc = chain.node(Arc::default()).await;
    let grpc = GrpcNode::for_chain(&chain).await;
    for url in [&rpc.url, &grpc.url] {
        let reader = reader(&[url]);
        let request = crate::convert::lease_request(&won);
        let missing = reader.get(&request, Some(before)).await.unwrap_err();
        assert!(missing.is_not_found(), "{url}: {missing}");
        assert!(reader.get(&request, Some(before + 1)).await.is_ok());
        let later = reader.get(&request, Some(before + 2)).await.unwrap_err();
        assert!(
            matches!(later.fault, Fault::HeightUnavailable(_)),
            "{url}: {later}"
        );
    }
}

type IsRight = fn(&Fault) -> bool;

#[tokio::test]
async fn invalid_grpc_response_is_reported() {
    let limits = EndpointLimits {
        response_bytes: 1 << 16,
        response_time: Duration::from_secs(1),
        attempts: 1,
        ..EndpointLimits::default()
    };
    let ask = |url: String| async move {
        let endpoint = crate::endpoint::NodeEndpoint::new(&url, limits, &crate::Roots::System).unwrap();
        let path = <mkt::QueryParamsRequest as crate::method::Method>::PATH;
        let answer = endpoint.query(path, bytes::Bytes::new(), None).await;
        answer.map(|a| a.bytes.len()).map_err(|e| e.fault)
    };
    for (size, fits) in [(1 << 16, true), ((1 << 16) + 1, false)] {
        let node = GrpcNode::start(move |_, _, _| GrpcReply::Bytes(vec![0; size], 5)).await;
        let answer = ask(node.url.clone()).await;
        match fits {
            true => assert_eq!(answer, Ok(size)),
            false => assert_eq!(answer, Err(Fault::TooLarge { limit: 1 << 16 })),
        }
    }
    let cases: [(u32, &str, IsRight); 5] = [
        (5, "not found", |f| matches!(f, Fault::NotFound { .. })),
        (3, "invalid state value", |f| {
            matches!(f, Fault::Refused { code: 3, .. })
        }),
        (14, "no connection", |f| matches!(f, Fault::Unreachable(_))),
        (
            5,
            "codespace sdk code 38: failed to load state at height 5",
            |f| matches!(f, Fault::Pruned(_)),
        ),
        (2, "account sequence mismatch", |f| {
            matches!(f, Fault::Refused { code: 2, .. })
        }),
    ];
    for (code, text, is_right) in cases {
        let node = GrpcNode::start(move |_, _, _| GrpcReply::Status(code, text.to_owned())).await;
        let fault = ask(node.url.clone()).await.unwrap_err();
        assert!(is_right(&fault), "{text}: {fault:?}");
    }
    let html = Node::start(|_, _| Reply::Raw(200, b"<html>".to_vec())).await;
    let fault = ask(html.url.replace("http://", "grpc://")).await.unwrap_err();
    assert!(
        matches!(
            fault,
            Fault::Unreachable(_) | Fault::NotConnected(_) | Fault::Timeout(_)
        ),
        "{fault:?}"
    );
}

#[tokio::test]
async fn failed_grpc_endpoint_is_replaced() {
    let (chain, won) = busy_market();
    let grpc = GrpcNode::for_chain(&chain).await;
    let rpc = chain.node(Arc::default()).await;
    let reader = reader(&[&grpc.url, &rpc.url]);
    let request = crate::convert::lease_request(&won);
    reader.get(&request, None).await.unwrap();
    drop(grpc);
    reader.get(&request, None).await.unwrap();
    reader.get(&request, None).await.unwrap();
    let status = reader.endpoints().status();
    assert!(
        status[1].serves_queries && status[1].fault.is_none(),
        "{status:?}"
    );
}

#[tokio::test]
async fn endless_list_is_refused() {
    let loops = |page: mkt::QueryOrdersRequest| mkt::QueryOrdersResponse {
        orders: Vec::new(),
        pagination: Some(crate::proto::cosmos::base::query::v1beta1::PageResponse {
            next_key: b"same".to_vec(),
            total: page.pagination.map_or(0, |p| p.limit),
        }),
    };
    let chain = Chain::new();
    let behavior = Arc::default();
    let node = Node::start(move |method, params| {
        use crate::method::Method;
        use prost::Message;
        if params["path"] == mkt::QueryOrdersRequest::PATH {
            let data = data_encoding::HEXLOWER
                .decode(params["data"].as_str().unwrap().as_bytes())
                .unwrap();
            let answer = loops(mkt::QueryOrdersRequest::decode(&*data).unwrap()).encode_to_vec();
            let value = data_encoding::BASE64.encode(&answer);
            return Reply::Result(
                json!({"response": {"code": 0, "value": value, "height": params["height"]}}),
            );
        }
        chain.reply(&behavior, method, params)
    })
    .await;
    let error = reader(&[&node.url]).take_snapshot(&account(2)).await.unwrap_err();
    assert!(error.to_string().contains("repeats a page key"), "{error}");
}

/// Returns the recorded responses of one chain state, by path and request.
fn recorded(state: &str) -> HashMap<(String, Vec<u8>), Value> {
    let folder = recordings::folder("chain/grpc").join(state);
    let entry = |path: PathBuf| {
        let recorded = json(&path);
        let request = recorded["request_b64"].as_str().unwrap();
        let request = data_encoding::BASE64.decode(request.as_bytes()).unwrap();
        ((recorded["path"].as_str().unwrap().to_owned(), request), recorded)
    };
    files(&folder, ".json").into_iter().map(entry).collect()
}

fn node_itself(method: &str) -> Option<Reply> {
    let folder = recordings::folder("chain/rpc");
    let file = match method {
        "status" => "status.json",
        "akash" => "akash.json",
        "header" => "header-506.json",
        _ => return None,
    };
    Some(Reply::Result(json(&folder.join(file))["result"].clone()))
}

#[tokio::test]
async fn both_protocols_return_the_recorded_records() {
    for state in [
        "active-lease",
        "reclaiming",
        "overdrawn-2-closed",
        "lease-closed-by-owner",
    ] {
        let answers = recorded(state);
        let (by_rpc, by_grpc) = (answers.clone(), answers);
        let rpc = Node::start(move |method, params| {
            if let Some(reply) = node_itself(method) {
                return reply;
            }
            let data = data_encoding::HEXLOWER
                .decode(params["data"].as_str().unwrap().as_bytes())
                .unwrap();
            let key = (params["path"].as_str().unwrap().to_owned(), data);
            let answer = by_rpc
                .get(&key)
                .unwrap_or_else(|| panic!("not recorded: {}", key.0));
            Reply::Result(answer["abci_query_response"]["result"].clone())
        })
        .await;
        let tip = crate::testing::chain::Chain::new();
        let grpc = GrpcNode::start(move |path, data, _| {
            if let Some(itself) = crate::testing::grpc::node_reply(&tip, path, data) {
                return itself;
            }
            let answer = &by_grpc[&(path.to_owned(), data.to_vec())];
            match answer["response_b64"].as_str() {
                Some(bytes) => GrpcReply::Bytes(data_encoding::BASE64.decode(bytes.as_bytes()).unwrap(), 506),
                None => GrpcReply::Status(5, answer["error"]["details"].as_str().unwrap().to_owned()),
            }
        })
        .await;
        let mut read = Vec::new();
        for url in [&rpc.url, &grpc.url] {
            read.push(everything(&reader(&[url]), state).await);
        }
        assert_eq!(
            read[0], read[1],
            "{state}: both protocols return the same records"
        );
    }
}

fn lease_id(path: &std::path::Path) -> BidId {
    let id = &json(path)["request_json"]["id"];
    let text = |key: &str| id[key].as_str().unwrap().to_owned();
    let id = format!(
        "{}/{}/{}/{}/{}",
        text("owner"),
        text("dseq"),
        id["gseq"],
        id["oseq"],
        text("provider")
    );
    id.parse().unwrap()
}

async fn everything(reader: &Reader, state: &str) -> String {
    let folder = recordings::folder("chain/grpc").join(state);
    let id = lease_id(&folder.join("market-Lease.json"));
    let observed = reader.lease(&id).await.unwrap();
    let record = observed.value.unwrap();
    let expected = match state {
        "active-lease" => LeaseState::Active,
        "reclaiming" => LeaseState::Reclaiming,
        "overdrawn-2-closed" => LeaseState::InsufficientFunds,
        _ => LeaseState::Closed,
    };
    assert_eq!(record.lease.state, expected, "{state}");
    let us: Address = id.provider.clone();
    let bid = reader.bid(&id).await.unwrap().value;
    let provider = reader.provider(&us).await.unwrap();
    let group = reader.group(&id.order.group).await.unwrap();
    let params = reader.params().await.unwrap();
    let account = reader.account(&us).await.unwrap().unwrap();
    assert_eq!(account.pubkey.as_ref().map(Vec::len), Some(33));
    let balance = reader.balance(&us, "uakt").await.unwrap();
    assert!(balance.amount > 0);
    let unknown = lease_id(&folder.join("market-Lease-notfound.json"));
    assert_eq!(reader.lease(&unknown).await.unwrap().value, None, "{state}");
    format!("{record:?} {bid:?} {provider:?} {group:?} {params:?} {account:?} {balance:?}")
}
