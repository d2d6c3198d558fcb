//! Endpoints that are healthy, faulty, slow, lagging, stopped, or of another chain.

mod agreed;
mod clock;

use super::*;
use crate::checkpoint::Checkpoint;
use crate::proto::akash::market::v1beta5::QueryParamsRequest;
use crate::reader::Reader;
use crate::testing::chain::{Chain, NodeBehavior, account};
use crate::testing::{Node, Reply};
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{Agreement, LeaseState};
use serde_json::json;
use std::time::Duration;

pub(crate) fn quick() -> EndpointLimits {
    EndpointLimits {
        response_bytes: 1 << 20,
        response_time: Duration::from_secs(2),
        connect_time: Duration::from_secs(1),
        health_age: Duration::from_millis(300),
        attempts: 3,
        ..EndpointLimits::default()
    }
}

fn behavior() -> Arc<Mutex<NodeBehavior>> {
    Arc::default()
}

async fn params(endpoints: &Endpoints) -> Result<u32, NodeError> {
    let (answer, _) = endpoints.query(&QueryParamsRequest {}, None).await?;
    Ok(answer.params.unwrap().order_max_bids)
}

#[test]
fn invalid_addresses_are_refused() {
    for good in [
        "http://h:26657",
        "https://h/rpc",
        "tcp://h:26657",
        "grpc://h:9090",
        "http://u:p@h:1",
    ] {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let made = runtime.block_on(async { Endpoints::new(&[good], "local", EndpointLimits::default()) });
        let status = made.unwrap().status();
        assert!(!status[0].address.contains("u:p"), "{good}");
    }
    for bad in ["", "h:26657", "ftp://h", "http://", "://", "http://[::1"] {
        let error = Endpoints::new(&[bad], "local", EndpointLimits::default()).unwrap_err();
        assert!(error.to_string().contains("http://host:26657"), "{error}");
    }
    let none: [&str; 0] = [];
    assert!(Endpoints::new(&none, "local", EndpointLimits::default()).is_err());
    let secret = Endpoints::new(&["ftp://user:secret@h"], "local", EndpointLimits::default()).unwrap_err();
    assert!(!secret.to_string().contains("secret"), "{secret}");
}

type IsRight = fn(&Fault) -> bool;
type Change = fn(&mut NodeBehavior);

#[tokio::test]
async fn credentials_of_addresses_are_never_displayed() {
    let dead = "127.0.0.1:1";
    let addresses = [
        format!("http://USER:SECRET@{dead}/rpc?token=SECRET#SECRET"),
        format!("http://{dead}/rpc?token=SECRET2"),
        format!("grpc://USER:SECRET@{dead}?key=SECRET"),
        format!("tcp://USER:SECRET@{dead}"),
    ];
    let limits = EndpointLimits {
        attempts: 1,
        ..quick()
    };
    let endpoints = Endpoints::new(&addresses, "local", limits).unwrap();
    let error = params(&endpoints).await.unwrap_err();
    let settings = crate::ClientSettings::new(addresses.to_vec(), "local");
    let reader = crate::Reader::new(endpoints.clone());
    let output = format!(
        "{error} {error:?} {endpoints:?} {:?} {settings:?} {:?} {}",
        endpoints.status(),
        reader.status(),
        error.clone().into_port("params"),
    );
    assert!(!output.contains("SECRET") && !output.contains("USER"), "{output}");
    assert!(output.contains("http://127.0.0.1:1/rpc?…"), "{output}");
    // Names are unique although the credentials are omitted.
    let names: std::collections::BTreeSet<_> = endpoints.status().into_iter().map(|s| s.address).collect();
    assert_eq!(names.len(), addresses.len(), "{names:?}");
    for bad in [
        "http://USER:SEC?RET@:99999",
        "http//SECRET?token=SECRET",
        "USER:SECRET@host",
        "ftp://USER:SECRET@host?SECRET",
        "http://USER:SECRET@",
        "http://host:99999?token=a@SECRET",
    ] {
        let error = Endpoints::new(&[bad], "local", quick()).unwrap_err();
        let output = format!("{error} {error:?}");
        let is_leaked = ["SECRET", "USER", "RET"]
            .iter()
            .any(|secret| output.contains(secret));
        assert!(!is_leaked, "{bad}: {output}");
    }
}

fn nonsense() -> Vec<(&'static str, Reply, IsRight)> {
    let raw = |text: &str| Reply::Raw(200, text.as_bytes().to_vec());
    let status = |height: &str| {
        json!({"jsonrpc": "2.0", "id": 1, "result": {"node_info": {"network": "local"},
            "sync_info": {"latest_block_height": height, "latest_block_time": "2026-01-01T00:00:00Z", "catching_up": false}}})
        .to_string()
    };
    let double = status("5").replace(
        "\"catching_up\":false",
        "\"catching_up\":false,\"catching_up\":true",
    );
    vec![
        ("cut", Reply::Cut(b"{\"jsonrpc\":".to_vec()), |f| {
            matches!(f, Fault::Unreachable(_) | Fault::NotConnected(_))
        }),
        (
            "huge",
            Reply::Raw(200, vec![b' '; (1 << 20) + 1]),
            |f| matches!(f, Fault::TooLarge { limit } if *limit == 1 << 20),
        ),
        ("html", raw("<html>502</html>"), |f| {
            matches!(f, Fault::Malformed(_))
        }),
        ("html with status", Reply::Raw(502, b"<html>".to_vec()), |f| {
            matches!(f, Fault::Http { status: 502, .. })
        }),
        ("empty", raw(""), |f| matches!(f, Fault::Malformed(_))),
        (
            "not UTF-8",
            Reply::Raw(200, b"{\"result\":\"\xff\xfe\"}".to_vec()),
            |f| matches!(f, Fault::Malformed(_)),
        ),
        ("negative height", raw(&status("-5")), |f| {
            matches!(f, Fault::Malformed(_))
        }),
        (
            "height beyond numbers",
            raw(&status("99999999999999999999")),
            |f| matches!(f, Fault::Malformed(_)),
        ),
        ("duplicate keys", raw(&double), |f| {
            matches!(f, Fault::Malformed(_))
        }),
        ("duplicate frame", raw("{\"result\":{},\"result\":{}}"), |f| {
            matches!(f, Fault::Malformed(_))
        }),
        ("deep", raw(&"[".repeat(100_000)), |f| {
            matches!(f, Fault::Malformed(_))
        }),
        ("error", Reply::Error(-32000, "no".to_owned()), |f| {
            matches!(f, Fault::Refused { code: -32000, .. })
        }),
        ("silence", Reply::Hang, |f| matches!(f, Fault::Timeout(_))),
    ]
}

#[tokio::test]
async fn invalid_response_is_reported_and_another_endpoint_is_used() {
    let chain = Chain::new();
    for (case, reply, is_right) in nonsense() {
        let bad = Node::start(move |_, _| reply.clone()).await;
        let alone = Endpoints::new(&[&bad.url], "local", quick()).unwrap();
        let error = params(&alone).await.unwrap_err();
        assert!(is_right(&error.fault), "{case}: {error}");
        let text = error.to_string();
        assert!(
            text.contains(&bad.url) && text.contains("status"),
            "{case}: {text}"
        );
        assert!(text.len() < 2000, "{case}: {} bytes", text.len());
        let good = chain.node(behavior()).await;
        let both = Endpoints::new(&[&bad.url, &good.url], "local", quick()).unwrap();
        assert_eq!(params(&both).await.unwrap(), 20, "{case}");
    }
}

#[tokio::test]
async fn response_at_the_size_limit_is_accepted() {
    let answer =
        json!({"jsonrpc": "2.0", "id": 1, "result": {"height": "1", "txs_results": null}}).to_string();
    let padded = |size: usize| format!("{answer}{}", " ".repeat(size - answer.len())).into_bytes();
    for (size, fits) in [(1 << 20, true), ((1 << 20) + 1, false)] {
        let body = padded(size);
        let node = Node::start(move |_, _| Reply::Raw(200, body.clone())).await;
        let endpoint = NodeEndpoint::new(&node.url, quick(), &crate::Roots::System).unwrap();
        let results = endpoint
            .call::<crate::rpc::types::BlockResults>("block_results", json!({}))
            .await;
        assert_eq!(results.is_ok(), fits, "{size}");
    }
}

#[tokio::test]
async fn nodes_of_other_chains_or_behind_are_not_used() {
    let chain = Chain::new();
    for _ in 0..20 {
        chain.end_block();
    }
    let (ours, odd) = (behavior(), behavior());
    let (good, bad) = (chain.node(ours).await, chain.node(Arc::clone(&odd)).await);
    let set = |change: fn(&mut NodeBehavior)| change(&mut odd.lock().unwrap());
    let cases: [(&str, Change, IsRight); 3] = [
        (
            "chain",
            |h| h.chain_id = Some("other".to_owned()),
            |f| matches!(f, Fault::OtherChain { .. }),
        ),
        (
            "catching up",
            |h| h.catching_up = true,
            |f| matches!(f, Fault::CatchingUp { .. }),
        ),
        ("behind", |h| h.lag = 10, |f| matches!(f, Fault::Behind { .. })),
    ];
    for (case, change, is_right) in cases {
        let name = case.replace("chain", "other_chain").replace(' ', "_");
        set(|h| *h = NodeBehavior::default());
        set(change);
        let endpoints = Endpoints::new(&[&bad.url, &good.url], "local", quick()).unwrap();
        params(&endpoints).await.unwrap();
        let status = endpoints.status();
        assert!(
            status[0].fault.as_ref().is_some_and(is_right),
            "{case}: {status:?}"
        );
        let counted = endpoints.statistics();
        assert_eq!(counted[0].errors, [(&*name, 1)].into(), "{case}");
        assert!(
            counted[1].errors.is_empty() && counted[1].responses.total() >= 2,
            "{counted:?}"
        );
        assert!(
            status[1].serves_queries && !status[0].serves_queries,
            "{case}: {status:?}"
        );
        assert_eq!(
            status[1].versions.as_ref().unwrap().chosen.as_deref(),
            Some("v1beta4")
        );
    }
}

#[tokio::test]
async fn responses_below_the_processed_height_are_refused() {
    let chain = Chain::new();
    let node = chain.node(behavior()).await;
    let endpoints = Endpoints::new(&[&node.url], "local", quick()).unwrap();
    params(&endpoints).await.unwrap();
    let time = chain.lock().market.time();
    let height = chain.height() + 1;
    endpoints.raise_floor(Checkpoint { height, time });
    let error = params(&endpoints).await.unwrap_err();
    assert!(matches!(error.fault, Fault::Behind { .. }), "{error}");
    chain.end_block();
    params(&endpoints).await.unwrap();
}

#[tokio::test]
async fn recovered_endpoint_is_not_selected_again_at_once() {
    let chain = Chain::new();
    let first = chain.node(behavior()).await;
    let address = first.address();
    let second = chain.node(behavior()).await;
    let endpoints = Endpoints::new(&[&first.url, &second.url], "local", quick()).unwrap();
    for _ in 0..20 {
        params(&endpoints).await.unwrap();
    }
    let used = endpoints.status().iter().position(|s| s.serves_queries).unwrap();
    let (dead, alive) = if used == 0 {
        (first, second)
    } else {
        (second, first)
    };
    let dead_address = dead.address();
    drop(dead);
    params(&endpoints).await.unwrap();
    let status = endpoints.status();
    assert!(status[1 - used].serves_queries, "{status:?}");
    assert_eq!(endpoints.switches().0, 1, "{:?}", endpoints.switches());
    // The endpoint returns, but is not selected.
    let again = chain.clone();
    let h = behavior();
    let _back = Node::start_at(Some(dead_address), move |m, p| again.reply(&h, m, p)).await;
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        params(&endpoints).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let status = endpoints.status();
    assert!(
        status[used].fault.is_none(),
        "the endpoint is healthy again: {status:?}"
    );
    assert!(status[1 - used].serves_queries, "{status:?}");
    drop((alive, address));
}

#[tokio::test]
async fn further_false_blocks_do_not_delay_the_drop_of_a_false_height() {
    let chain = Chain::new();
    let node = chain.node(behavior()).await;
    let limits = EndpointLimits {
        health_age: Duration::from_millis(10),
        contradiction: Duration::from_millis(200),
        ..quick()
    };
    let endpoints = Endpoints::new(&[&node.url], "local", limits).unwrap();
    params(&endpoints).await.unwrap();
    let (first, time) = (chain.height() + 20, chain.lock().market.time());
    chain.end_block();
    endpoints.raise_floor(Checkpoint { height: first, time });
    let queries = async {
        loop {
            drop(params(&endpoints).await);
        }
    };
    let dropped = async {
        for height in first.. {
            if endpoints.floor() == 0 {
                return;
            }
            endpoints.raise_floor(Checkpoint { height, time });
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = dropped => {}
        () = queries => {}
        () = tokio::time::sleep(Duration::from_secs(10)) => panic!("{:?}", endpoints.status()),
    }
}

#[tokio::test]
async fn outage_ends_quickly_without_a_burst_of_requests() {
    let chain = Chain::new();
    let node = chain.node(behavior()).await;
    let (address, url) = (node.address(), node.url.clone());
    let endpoints = Endpoints::new(&[&url], "local", quick()).unwrap();
    params(&endpoints).await.unwrap();
    drop(node);
    let many = || futures::future::join_all((0..200).map(|_| params(&endpoints)));
    assert!(many().await.iter().all(Result::is_err));
    let again = chain.clone();
    let h = behavior();
    let back = Node::start_at(Some(address), move |m, p| again.reply(&h, m, p)).await;
    let began = std::time::Instant::now();
    while params(&endpoints).await.is_err() {
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "the endpoint is used again soon"
        );
    }
    assert!(many().await.iter().all(Result::is_ok));
    let calls = back.calls.load(std::sync::atomic::Ordering::Relaxed);
    assert!(calls < 30, "200 identical queries made {calls} calls");
}

#[tokio::test]
async fn record_is_confirmed_by_a_second_node() {
    let chain = Chain::new();
    let order = chain.order(1, 1).remove(0);
    let bid = chain.bid(&order, 2);
    assert!(chain.tenant(TenantMsg::CreateLease { bid: bid.clone() }));
    chain.end_block();
    let (one, two) = (behavior(), behavior());
    let (first, second) = (chain.node(one).await, chain.node(Arc::clone(&two)).await);
    let reader = |urls: &[&String]| Reader::new(Endpoints::new(urls, "local", quick()).unwrap());
    let single = reader(&[&first.url]).lease(&bid).await.unwrap();
    assert_eq!(
        (single.agreement, single.height),
        (Agreement::Single, chain.height())
    );
    assert_eq!(single.value.unwrap().lease.state, LeaseState::Active);
    let both = reader(&[&first.url, &second.url]);
    assert_eq!(both.lease(&bid).await.unwrap().agreement, Agreement::Confirmed);
    // The second node is two blocks behind. Both are compared at its height.
    assert!(chain.tenant(TenantMsg::CloseLease { id: bid.clone() }));
    chain.end_block();
    chain.end_block();
    chain.end_block();
    two.lock().unwrap().lag = 2;
    let read = both.lease(&bid).await.unwrap();
    assert_eq!(read.agreement, Agreement::Confirmed);
    assert_eq!(read.value.unwrap().lease.state, LeaseState::Closed);
    // The second node does not have the close yet. The result has its height.
    two.lock().unwrap().lag = 3;
    let read = both.lease(&bid).await.unwrap();
    assert_eq!(
        (read.agreement, read.height),
        (Agreement::Confirmed, chain.height() - 3)
    );
    assert_eq!(read.value.unwrap().lease.state, LeaseState::Active);
    drop(second);
    let read = both.lease(&bid).await.unwrap();
    assert_eq!(read.agreement, Agreement::Unreachable);
    assert_eq!(read.value.unwrap().lease.state, LeaseState::Closed);
}

#[tokio::test]
async fn record_is_disputed_if_a_second_node_differs() {
    let (one, other) = (Chain::new(), Chain::new());
    let mut ids = Vec::new();
    for chain in [&one, &other] {
        let order = chain.order(1, 1).remove(0);
        ids.push(chain.bid(&order, 2));
        assert!(chain.tenant(TenantMsg::CreateLease { bid: ids[0].clone() }));
        chain.end_block();
    }
    assert!(one.tenant(TenantMsg::CloseLease { id: ids[0].clone() }));
    one.end_block();
    other.end_block();
    let (first, second) = (one.node(behavior()).await, other.node(behavior()).await);
    let endpoints = Endpoints::new(&[&first.url, &second.url], "local", quick()).unwrap();
    let read = Reader::new(endpoints).lease(&ids[0]).await.unwrap();
    assert_eq!(read.agreement, Agreement::Disputed);
}

#[tokio::test]
async fn missing_record_is_none_and_unsupported_version_is_an_error() {
    let chain = Chain::new();
    let node = chain.node(behavior()).await;
    let reader = Reader::new(Endpoints::new(&[&node.url], "local", quick()).unwrap());
    let unknown = account(9);
    assert_eq!(reader.provider(&unknown).await.unwrap(), None);
    assert_eq!(
        reader.provider(&account(2)).await.unwrap().unwrap().owner,
        account(2)
    );
    assert_eq!(
        reader
            .auditor_attributes("no address", &account(2))
            .await
            .unwrap(),
        None
    );
    assert_eq!(reader.block_time(chain.height() + 1000).await.unwrap(), None);
    let future = Node::start(|method, _| match method {
        "status" => Reply::Result(json!({"node_info": {"network": "local"}, "sync_info": {
            "latest_block_height": "5", "latest_block_time": "2026-01-01T00:00:00Z", "catching_up": false}})),
        "akash" => Reply::Result(json!({"supported_versions": [{"api_version": "v9", "modules": [{"module": "market", "version": "v9"}]}]})),
        _ => Reply::Error(-1, "no".to_owned()),
    })
    .await;
    let endpoints = Endpoints::new(&[&future.url], "local", quick()).unwrap();
    let error = params(&endpoints).await.unwrap_err();
    assert!(error.to_string().contains("v9 (market/v9)"), "{error}");
}
