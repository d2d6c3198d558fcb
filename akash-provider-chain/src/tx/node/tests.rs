//! [`TxApi`] over simulated nodes with recorded responses.

use super::*;
use crate::endpoints::Endpoints;
use crate::limits::EndpointLimits;
use crate::testing::{Node, Reply};
use akash_provider_core::types::Dec;
use serde_json::Value;
use std::path::Path;
use testbed::recordings;

fn reply(recorded: &Value) -> Reply {
    match recorded.get("error") {
        Some(error) => Reply::Error(
            error["code"].as_i64().unwrap(),
            error["data"].as_str().unwrap().to_owned(),
        ),
        None => Reply::Result(recorded["result"].clone()),
    }
}

/// Returns a node and its reader. The node responds to transactions with the recording `sent`, and to queries
/// with the recording `asked`.
async fn reader(folder: &Path, sent: &str, asked: &str) -> (Node, Reader) {
    let json = |name: &str| recordings::json(&folder.join(name));
    let (status, akash) = (reply(&json("rpc/status.json")), reply(&json("rpc/akash.json")));
    let sent = reply(&json(&format!("tx/{sent}.broadcast_tx_sync.json")));
    let asked = reply(&json(&format!("grpc/{asked}.json"))["abci_query_response"]);
    let answers = move |method: &str, _: &Value| match method {
        "status" => status.clone(),
        "akash" => akash.clone(),
        "broadcast_tx_sync" => sent.clone(),
        "abci_query" => asked.clone(),
        other => Reply::Error(-32601, format!("no method {other}")),
    };
    let node = Node::start(answers).await;
    let endpoints = Endpoints::new(&[&node.url], "local", EndpointLimits::default()).unwrap();
    (node, Reader::new(endpoints))
}

#[tokio::test]
async fn recorded_responses_to_transactions_are_classified() {
    let folder = recordings::folder("chain");
    let cases = [
        ("unordered-ok", None),
        ("err-seq-too-high", Some(("sdk", 32))),
        ("err-fee-low", Some(("sdk", 13))),
        ("err-unordered-expired", Some(("sdk", 42))),
        ("err-close-bid-reason-0", Some(("market", 33))),
        ("err-garbage", Some(("sdk", 2))),
    ];
    for (name, code) in cases {
        let (_node, reader) = reader(&folder, name, "misc/tx-Simulate-ok").await;
        match (reader.broadcast(vec![1]).await.unwrap(), code) {
            (Submission::Accepted, None) => {}
            (Submission::Refused { code, log }, Some((space, number))) => {
                assert_eq!(code, Code::new(space, number), "{name}");
                assert!(!log.is_empty(), "{name}");
            }
            (other, _) => panic!("{name}: {other:?}"),
        }
    }
    for name in [
        "err-tx-in-cache",
        "err-unordered-replay",
        "err-tx-replay-after-inclusion",
    ] {
        let (_node, reader) = reader(&folder, name, "misc/tx-Simulate-ok").await;
        assert_eq!(
            reader.broadcast(vec![1]).await.unwrap(),
            Submission::Known,
            "{name}"
        );
    }
}

#[tokio::test]
async fn recorded_responses_to_queries_are_parsed() {
    let folder = recordings::folder("chain");
    let asked = async |name: &str| reader(&folder, "unordered-ok", name).await;
    let (_node, ok) = asked("misc/tx-Simulate-ok").await;
    assert_eq!(
        ok.simulate(vec![1]).await.unwrap(),
        Simulation::Gas { used: 102_196 }
    );
    let (_node, bad) = asked("misc/tx-Simulate-bad-sequence").await;
    let refused = bad.simulate(vec![1]).await.unwrap();
    assert!(
        matches!(&refused, Simulation::Refused { log } if log.contains("sequence")),
        "{refused:?}"
    );
    let (_node, config) = asked("open-bids/node-Config").await;
    let prices = config.min_gas_prices().await.unwrap();
    assert_eq!(
        prices,
        [DecCoin::new(&"uakt".into(), "0.0025".parse::<Dec>().unwrap())]
    );
    let hash = TxHash([0; 32]);
    let (_node, absent) = asked("misc/tx-GetTx-notfound").await;
    assert_eq!(absent.find(&hash).await.unwrap(), None);
    let (_node, found) = asked("misc/tx-GetTx").await;
    let included = found.find(&hash).await.unwrap().unwrap();
    assert!(included.height > 0 && included.gas_used > 0, "{included:?}");
}

#[tokio::test]
async fn refusal_after_a_lost_response_is_inconclusive() {
    let status = |method: &str| match method {
        "status" => Some(serde_json::json!({
            "node_info": {"network": "local"},
            "sync_info": {"latest_block_height": "7", "latest_block_time": "2026-01-01T00:00:00Z", "catching_up": false},
        })),
        "akash" => Some(crate::testing::chain::discovery()),
        _ => None,
    };
    let silences = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(1));
    let left = std::sync::Arc::clone(&silences);
    let answer = move |method: &str, _: &Value| match (status(method), method) {
        (Some(status), _) => Reply::Result(status),
        (None, "broadcast_tx_sync") if left.load(Ordering::Relaxed) > 0 => {
            left.fetch_sub(1, Ordering::Relaxed);
            Reply::Cut(b"{".to_vec())
        }
        (None, "broadcast_tx_sync") => {
            let answer =
                serde_json::json!({"code": 18, "codespace": "sdk", "log": "ttl exceeds 10m0s", "hash": ""});
            Reply::Result(answer)
        }
        (None, other) => Reply::Error(-32601, format!("no method {other}")),
    };
    let node = Node::start(answer.clone()).await;
    let reader =
        |urls: &[&String]| Reader::new(Endpoints::new(urls, "local", EndpointLimits::default()).unwrap());
    // The first response is lost, so the refusal of the second attempt is inconclusive.
    let uncertain = reader(&[&node.url]).broadcast(vec![1]).await.unwrap_err();
    assert_eq!(uncertain.kind(), ErrorKind::Unavailable, "{uncertain}");
    assert!(
        uncertain.to_string().contains("may have been sent"),
        "{uncertain}"
    );
    assert_eq!(silences.load(Ordering::Relaxed), 0);
    let alone = reader(&[&node.url]).broadcast(vec![1]).await.unwrap();
    assert!(matches!(alone, Submission::Refused { .. }), "{alone:?}");
    // A node without a connection has not received the transaction.
    let gone = {
        let node = Node::start(answer).await;
        node.url.clone()
    };
    let certain = reader(&[&gone, &node.url]).broadcast(vec![1]).await.unwrap();
    assert!(matches!(certain, Submission::Refused { .. }), "{certain:?}");
    let may_have_arrived = AtomicBool::new(true);
    let refused = || submission(18, "sdk".into(), "no".into());
    assert!(check(&may_have_arrived, refused()).is_err());
    assert!(check(&AtomicBool::new(false), refused()).is_ok());
    assert!(
        check(
            &may_have_arrived,
            submission(19, "sdk".into(), "tx already in mempool".into())
        )
        .is_ok()
    );
}

#[tokio::test]
async fn second_node_is_queried_if_the_gas_is_too_high() {
    use crate::proto::cosmos::base::abci::v1beta1::GasInfo;
    let node = async |used: u64| {
        let answer = SimulateResponse {
            gas_info: Some(GasInfo {
                gas_wanted: 0,
                gas_used: used,
            }),
            ..SimulateResponse::default()
        };
        let value = BASE64.encode(&answer.encode_to_vec());
        Node::start(move |method, _| match method {
            "status" => Reply::Result(serde_json::json!({
                "node_info": {"network": "local"},
                "sync_info": {"latest_block_height": "7", "latest_block_time": "2026-01-01T00:00:00Z", "catching_up": false},
            })),
            "akash" => Reply::Result(crate::testing::chain::discovery()),
            _ => Reply::Result(serde_json::json!({"response": {"code": 0, "value": value, "height": "7"}})),
        })
        .await
    };
    let (liar, honest) = (node(50_000_000_000).await, node(125_000).await);
    let reader =
        |urls: &[&String]| Reader::new(Endpoints::new(urls, "local", EndpointLimits::default()).unwrap());
    // Independent of the order of the two nodes.
    for urls in [[&liar.url, &honest.url], [&honest.url, &liar.url]] {
        for _ in 0..3 {
            let reader = reader(&urls);
            let simulated = reader.simulate_below(vec![1], 1_250_000).await.unwrap();
            assert_eq!(simulated, Simulation::Gas { used: 125_000 });
        }
    }
    let alone = reader(&[&liar.url])
        .simulate_below(vec![1], 1_250_000)
        .await
        .unwrap();
    assert_eq!(alone, Simulation::Gas { used: 50_000_000_000 });
    // Below the limit, the second node is not queried.
    let calls = || honest.calls.load(Ordering::Relaxed);
    let both = reader(&[&honest.url, &liar.url]);
    both.simulate(vec![1]).await.unwrap();
    let before = calls() + liar.calls.load(Ordering::Relaxed);
    both.simulate_below(vec![1], u64::MAX).await.unwrap();
    assert_eq!(calls() + liar.calls.load(Ordering::Relaxed), before + 1);
}

fn check(may_have_arrived: &AtomicBool, answer: Submission) -> Result<Submission, Error> {
    check_conclusive(answer, may_have_arrived)
}
