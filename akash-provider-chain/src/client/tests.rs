//! Complete client against a simulated node that decodes real transactions.

use super::*;
use crate::method::Method;
use crate::private_key::PrivateKey;
use crate::proto::cosmos::auth::v1beta1::{BaseAccount, QueryAccountRequest, QueryAccountResponse};
use crate::proto::cosmos::base::abci::v1beta1::GasInfo;
use crate::proto::cosmos::base::node::v1beta1::{ConfigRequest, ConfigResponse};
use crate::proto::cosmos::tx::v1beta1::{GetTxRequest, SimulateRequest, SimulateResponse};
use crate::testing::chain::{answer, rfc3339};
use crate::testing::{Node as Server, Reply};
use crate::tx::Nonces;
use crate::tx::TxSigner;
use crate::tx::api::{Simulation, Submission};
use crate::tx::fake::{CHAIN, Node};
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::types::TxError;
use data_encoding::{BASE64, HEXLOWER};
use futures::StreamExt;
use prost::{Message, Name};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone)]
struct CountingNode {
    node: Arc<Mutex<Node>>,
    calls: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl CountingNode {
    fn new(key: &PrivateKey) -> Self {
        Self {
            node: Arc::new(Mutex::new(Node::new(key.public()))),
            calls: Arc::default(),
        }
    }

    fn calls(&self, what: &str) -> u32 {
        self.calls.lock().unwrap().get(what).copied().unwrap_or_default()
    }

    fn reply(&self, method: &str, params: &Value) -> Reply {
        let what = params["path"].as_str().unwrap_or(method);
        *self.calls.lock().unwrap().entry(what.to_owned()).or_default() += 1;
        let mut node = self.node.lock().unwrap();
        let info = node.sync_info();
        match method {
            "status" => Reply::Result(json!({
                "node_info": {"network": CHAIN},
                "sync_info": {
                    "latest_block_height": info.height.to_string(),
                    "latest_block_time": rfc3339(info.time),
                    "catching_up": false,
                },
            })),
            "header" => Reply::Result(json!({
                "header": {"chain_id": CHAIN, "height": params["height"], "time": rfc3339(info.time)},
            })),
            "broadcast_tx_sync" => {
                let bytes = BASE64.decode(params["tx"].as_str().unwrap().as_bytes()).unwrap();
                match node.broadcast(&bytes) {
                    Submission::Refused { code, log } => Reply::Result(
                        json!({"code": code.number, "codespace": code.space, "log": log, "hash": ""}),
                    ),
                    _ => Reply::Result(json!({"code": 0, "codespace": "", "log": "", "hash": ""})),
                }
            }
            "abci_query" => {
                let data = HEXLOWER
                    .decode(params["data"].as_str().unwrap().as_bytes())
                    .unwrap();
                abci(&node, what, &data)
            }
            other => Reply::Error(-32601, format!("no method {other}")),
        }
    }

    fn block(&self, server: &Server) {
        let mut node = self.node.lock().unwrap();
        node.end_block(Duration::from_secs(6));
        let info = node.sync_info();
        let txs: Vec<String> = node.landed.iter().map(|(tx, _)| BASE64.encode(tx)).collect();
        let results = node.landed.iter().map(|(_, included)| {
            let (space, code) = included
                .failure
                .as_ref()
                .map_or(("", 0), |code| (code.space.as_str(), code.number));
            let gas = included.gas_used.to_string();
            json!({"code": code, "codespace": space, "log": included.log, "gas_used": gas, "events": []})
        });
        let results: Vec<Value> = results.collect();
        let header =
            json!({"chain_id": CHAIN, "height": info.height.to_string(), "time": rfc3339(info.time)});
        let value = json!({
            "block": {"header": header, "data": {"txs": txs}},
            "result_finalize_block": {"events": [], "tx_results": results},
        });
        let data = json!({"type": "tendermint/event/NewBlock", "value": value});
        server.push(json!({"jsonrpc": "2.0", "id": 1, "result": {"data": data}}).to_string());
    }
}

fn abci(node: &Node, path: &str, data: &[u8]) -> Reply {
    let info = node.sync_info();
    let found = |bytes: Vec<u8>| {
        let (value, height) = (BASE64.encode(&bytes), info.height.to_string());
        Reply::Result(json!({"response": {"code": 0, "log": "", "value": value, "height": height}}))
    };
    let refused = |space: &str, code: u32, log: &str| {
        let height = info.height.to_string();
        Reply::Result(json!({"response": {"code": code, "codespace": space, "log": log, "height": height}}))
    };
    match path {
        QueryAccountRequest::PATH => {
            let account = node.account();
            let base = BaseAccount {
                address: account.address.to_string(),
                pub_key: None,
                account_number: account.number,
                sequence: account.sequence,
            };
            let account = Some(prost_types::Any {
                type_url: BaseAccount::type_url(),
                value: base.encode_to_vec(),
            });
            found(QueryAccountResponse { account }.encode_to_vec())
        }
        ConfigRequest::PATH => {
            let config = ConfigResponse {
                minimum_gas_price: "0.002500000000000000uakt".to_owned(),
                ..ConfigResponse::default()
            };
            found(config.encode_to_vec())
        }
        SimulateRequest::PATH => {
            let request = SimulateRequest::decode(data).unwrap();
            match node.simulate(&request.tx_bytes) {
                Simulation::Gas { used } => {
                    let gas_info = Some(GasInfo {
                        gas_wanted: used,
                        gas_used: used,
                    });
                    let answer = SimulateResponse {
                        gas_info,
                        ..SimulateResponse::default()
                    };
                    found(answer.encode_to_vec())
                }
                Simulation::Refused { log } | Simulation::Unpaid { log, .. } => refused("sdk", 6, &log),
            }
        }
        path => match node.chain.market(|market| answer(market, path, data)) {
            Some(bytes) => found(bytes),
            None => refused("sdk", 22, "it is not found: key not found"),
        },
    }
}

fn key() -> PrivateKey {
    PrivateKey::from_bytes(&[7; 32]).unwrap()
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < TIMEOUT, "timeout: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

struct FollowingClient {
    scene: CountingNode,
    server: Server,
    client: AkashClient,
    _events: BoxStream<'static, Result<ChainEvent, Error>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl FollowingClient {
    async fn start() -> Self {
        Self::start_with(&LeadershipGate::new(true)).await
    }

    async fn start_with(gate: &LeadershipGate) -> Self {
        let key = key();
        let us = key.address().clone();
        let scene = CountingNode::new(&key);
        let serving = scene.clone();
        let server = Server::start(move |method, params| serving.reply(method, params)).await;
        let settings = ClientSettings {
            signer: Some(TxSigner::new(key, gate.clone())),
            ..ClientSettings::new(vec![server.url.clone()], CHAIN)
        };
        let stop = CancellationToken::new();
        let (client, task) = AkashClient::start(settings, stop.clone()).unwrap();
        let task = tokio::spawn(task);
        let mut events = client.subscribe(&us);
        let first = events.next().await.unwrap().unwrap();
        assert!(matches!(first, ChainEvent::Resync(_)), "{first:?}");
        let subscribed = || server.pushes.subscribed.load(Ordering::Relaxed) > 0;
        until("a subscription", subscribed).await;
        Self {
            scene,
            server,
            client,
            _events: events,
            stop,
            task,
        }
    }
}

#[tokio::test]
async fn closed_gate_prevents_transactions() {
    let gate = LeadershipGate::new(false);
    let world = FollowingClient::start_with(&gate).await;
    let bid = {
        let node = world.scene.node.lock().unwrap();
        node.bid(&node.order(1))
    };
    let client = world.client.clone();
    let refused = client.broadcast_msgs(vec![bid.clone()]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    assert_eq!(world.scene.calls("broadcast_tx_sync"), 0);
    gate.set(true);
    let sending = tokio::spawn(async move { client.broadcast_msgs(vec![bid]).await });
    until("the transaction is sent", || {
        world.scene.calls("broadcast_tx_sync") == 1
    })
    .await;
    sending.abort();
    world.stop.cancel();
    world.task.await.unwrap();
}

#[tokio::test]
async fn observed_blocks_complete_transactions_without_queries() {
    let FollowingClient {
        scene,
        server,
        client,
        _events,
        stop,
        task,
    } = FollowingClient::start().await;

    let bids: Vec<Msg> = {
        let node = scene.node.lock().unwrap();
        (1..=8).map(|dseq| node.bid(&node.order(dseq))).collect()
    };
    let sending = bids.iter().map(|bid| {
        let (client, bid) = (client.clone(), bid.clone());
        tokio::spawn(async move { client.broadcast_msgs(vec![bid]).await })
    });
    let sending: Vec<_> = sending.collect();
    until("all bids are sent", || {
        scene.node.lock().unwrap().waiting() == bids.len()
    })
    .await;
    let busy = || {
        client
            .status()
            .writer
            .is_some_and(|writer| writer.in_flight == bids.len())
    };
    until("the status reports all bids", busy).await;
    scene.block(&server);
    let height = scene.node.lock().unwrap().sync_info().height;
    for call in sending {
        let outcome = call.await.unwrap().unwrap();
        assert_eq!(outcome, TxOutcome::Committed { height });
    }
    assert_eq!(scene.calls(GetTxRequest::PATH), 0, "no transaction was queried");

    let writer = client.status().writer.unwrap();
    assert_eq!(
        (writer.waiting, writer.in_flight, writer.nonces),
        (0, 0, Nonces::Unordered)
    );
    assert_eq!(writer.gas_price.unwrap().to_string(), "0.025uakt");
    assert_eq!((writer.problem, writer.is_stopped), (None, false));
    assert_eq!(client.status().reader.follower.height, height);

    stop.cancel();
    task.await.unwrap();
    assert!(client.status().writer.unwrap().is_stopped);
    let error = client.broadcast_msgs(vec![bids[0].clone()]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stopped);
}

#[tokio::test]
async fn observed_block_reports_a_failed_transaction() {
    let FollowingClient {
        scene,
        server,
        client,
        _events,
        stop,
        task,
    } = FollowingClient::start().await;
    let (bid, deployment) = {
        let node = scene.node.lock().unwrap();
        let order = node.order(1);
        (node.bid(&order), order.deployment().clone())
    };
    let sending = {
        let (client, bid) = (client.clone(), bid.clone());
        tokio::spawn(async move { client.broadcast_msgs(vec![bid]).await })
    };
    until("the bid is sent", || scene.node.lock().unwrap().waiting() == 1).await;
    // The tenant closes the order before the next block.
    scene.node.lock().unwrap().close_by_tenant(&deployment);
    scene.block(&server);
    let outcome = sending.await.unwrap().unwrap();
    let closed = matches!(
        &outcome,
        TxOutcome::Rejected {
            error: TxError::OrderNotOpen,
            ..
        }
    );
    assert!(closed, "{outcome:?}");
    assert_eq!(scene.calls(GetTxRequest::PATH), 0);
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn client_without_a_key_can_only_read() {
    let scene = CountingNode::new(&key());
    let serving = scene.clone();
    let server = Server::start(move |method, params| serving.reply(method, params)).await;
    let settings = ClientSettings::new(vec![server.url.clone()], CHAIN);
    let stop = CancellationToken::new();
    let (client, task) = AkashClient::start(settings, stop.clone()).unwrap();
    let us = key().address().clone();
    assert!(client.provider(&us).await.unwrap().is_some());
    let bid = {
        let node = scene.node.lock().unwrap();
        node.bid(&node.order(1))
    };
    let error = client.broadcast_msgs(vec![bid]).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Denied, false));
    assert!(error.to_string().contains("key"), "{error}");
    assert_eq!(client.status().writer, None);
    stop.cancel();
    task.await;
    let none: Vec<String> = Vec::new();
    assert!(AkashClient::start(ClientSettings::new(none, CHAIN), stop).is_err());
}
