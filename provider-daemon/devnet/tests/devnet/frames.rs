//! Comparison of websocket frames and other JSON-RPC responses with the recorded ones.

use super::calls::{call, get};
use super::recordings::{read, shape};
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

const TIMEOUT: Duration = Duration::from_secs(30);
const KINDS: [&str; 4] = ["NewBlock", "NewBlockHeader", "NewBlockEvents", "Tx"];

/// Websocket with a subscription to every kind of event.
pub(crate) struct Frames {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl Frames {
    pub(crate) async fn open(rpc: &str) -> Self {
        let url = format!("{}/websocket", rpc.replace("http", "ws"));
        let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        for kind in KINDS {
            let params = json!({"query": format!("tm.event='{kind}'")});
            let call = json!({"jsonrpc": "2.0", "id": kind, "method": "subscribe", "params": params});
            socket.send(Message::text(call.to_string())).await.unwrap();
        }
        let mut frames = Self { socket };
        for kind in KINDS {
            let answer = frames.next().await;
            assert_eq!(answer, json!({"jsonrpc": "2.0", "id": kind, "result": {}}));
        }
        frames
    }

    async fn next(&mut self) -> Value {
        loop {
            let message = tokio::time::timeout(TIMEOUT, self.socket.next()).await;
            let message = message.expect("a frame in time").unwrap().unwrap();
            if let Message::Text(text) = message {
                return serde_json::from_str(text.as_str()).unwrap();
            }
        }
    }

    /// Waits for a block with `txs` transactions. Returns its websocket frames by kind.
    pub(crate) async fn block(&mut self, txs: usize) -> BTreeMap<String, Vec<Value>> {
        let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for _ in 0..KINDS.len() - 1 + txs {
            let frame = self.next().await;
            let kind = frame["id"].as_str().unwrap().to_owned();
            found.entry(kind).or_default().push(frame["result"].clone());
        }
        found
    }
}

/// Removes the used gas, because the development network only estimates gas.
pub(crate) fn without_gas(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.remove("gas_used");
            for field in fields.values_mut() {
                *field = without_gas(field.take());
            }
        }
        Value::Array(items) => {
            for item in items {
                *item = without_gas(item.take());
            }
        }
        _ => {}
    }
    value
}

fn take(value: &mut Value, path: &str) -> Value {
    value.pointer_mut(path).map(Value::take).unwrap_or_default()
}

/// Compares the frames with the recorded frames of the transaction `name`. Returns the differences.
pub(crate) fn compare_frames(folder: &Path, name: &str, ours: &BTreeMap<String, Vec<Value>>) -> Vec<String> {
    let mut differences = Vec::new();
    for kind in KINDS {
        let path = folder.join(format!("ws/{kind}-{name}.json"));
        if !path.is_file() {
            continue;
        }
        let mut theirs = read(&path)["result"].clone();
        let mut ours = ours[kind].last().unwrap().clone();
        let what = |part: &str| format!("{kind} frame of {name}, {part}");
        if kind == "Tx" {
            differ(
                &mut differences,
                &what("whole"),
                &without_gas(ours),
                &without_gas(theirs),
            );
            continue;
        }
        // Events of the block itself (rewards, minting) differ.
        for path in [
            "/events",
            "/data/value/result_finalize_block/events",
            "/data/value/events",
        ] {
            let (ours, theirs) = (take(&mut ours, path), take(&mut theirs, path));
            let kinds = (json_type(&ours), json_type(&theirs));
            differ(&mut differences, &what(path), &json!(kinds.0), &json!(kinds.1));
        }
        let results = "/data/value/result_finalize_block/tx_results";
        let (ours_txs, theirs_txs) = (take(&mut ours, results), take(&mut theirs, results));
        differ(
            &mut differences,
            &what("results"),
            &without_gas(ours_txs),
            &without_gas(theirs_txs),
        );
        differ(&mut differences, &what("shape"), &shape(&ours), &shape(&theirs));
    }
    differences
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
        _ => "other",
    }
}

fn differ(differences: &mut Vec<String>, what: &str, ours: &Value, theirs: &Value) {
    if ours != theirs {
        differences.push(format!("{what}\n   here:  {ours}\n   there: {theirs}"));
    }
}

/// Compares a block and its results with the recordings. Returns the differences.
pub(crate) async fn compare_block(folder: &Path, rpc: &str, name: &str, height: u64) -> Vec<String> {
    let mut differences = Vec::new();
    let block = folder.join(format!("rpc/block-{name}.json"));
    if block.is_file() {
        let theirs = read(&block)["result"].clone();
        let ours = call(rpc, "block", json!({"height": height.to_string()})).await["result"].clone();
        let data = "/block/data";
        differ(
            &mut differences,
            &format!("block of {name}, transactions"),
            &ours.pointer(data).unwrap().clone(),
            &theirs.pointer(data).unwrap().clone(),
        );
        differ(
            &mut differences,
            &format!("block of {name}"),
            &shape(&ours),
            &shape(&theirs),
        );
    }
    let results = folder.join(format!("rpc/block_results-{name}.json"));
    if results.is_file() {
        let mut theirs = read(&results)["result"].clone();
        let mut ours =
            call(rpc, "block_results", json!({"height": height.to_string()})).await["result"].clone();
        for value in [&mut ours, &mut theirs] {
            drop(take(value, "/finalize_block_events"));
        }
        let logs = |value: &mut Value| {
            for result in value["txs_results"].as_array_mut().unwrap() {
                let log = result["log"].as_str().unwrap();
                // A panic appends its stack, and the used gas is a model.
                let log = log
                    .split("\nstack:")
                    .next()
                    .unwrap()
                    .split("gasUsed")
                    .next()
                    .unwrap()
                    .to_owned();
                result["log"] = log.into();
            }
        };
        logs(&mut ours);
        logs(&mut theirs);
        let path = "/txs_results";
        differ(
            &mut differences,
            &format!("results of {name}"),
            &without_gas(take(&mut ours, path)),
            &without_gas(take(&mut theirs, path)),
        );
        differ(
            &mut differences,
            &format!("shape of the results of {name}"),
            &shape(&ours),
            &shape(&theirs),
        );
    }
    differences
}

/// Compares the JSON-RPC responses after the last block with the recorded responses. Returns the differences.
pub(crate) async fn compare_rest(folder: &Path, rpc: &str) -> Vec<String> {
    let mut differences = Vec::new();
    for (name, path) in [
        ("status", "/status"),
        ("abci_info", "/abci_info"),
        ("akash", "/akash"),
        ("net_info", "/net_info"),
        ("validators", "/validators"),
        ("consensus_params", "/consensus_params"),
        ("header-506", "/header?height=506"),
        ("health", "/health"),
        ("unconfirmed_txs", "/unconfirmed_txs"),
        ("err-block_results-zero", "/block_results?height=0"),
        ("err-block_results-future", "/block_results?height=99999999"),
        (
            "err-tx-not-found",
            "/tx?hash=0x0000000000000000000000000000000000000000000000000000000000000000",
        ),
    ] {
        let (mut theirs, (_, mut ours)) = (
            read(&folder.join(format!("rpc/{name}.json"))),
            get(rpc, path).await,
        );
        for value in [&mut ours, &mut theirs] {
            drop(take(value, "/id"));
            // Names of the node and its peers differ.
            drop(take(value, "/result/node_info/channels"));
            drop(take(value, "/result/listeners"));
        }
        differ(&mut differences, name, &shape(&ours), &shape(&theirs));
        let code = |value: &Value| value.pointer("/error/code").cloned().unwrap_or_default();
        differ(
            &mut differences,
            &format!("code of {name}"),
            &code(&ours),
            &code(&theirs),
        );
    }
    let search = "/tx_search?query=%22akash.market.v1.EventLeaseCreated.id%20EXISTS%20AND%20tx.height%3C862%22&order_by=%22asc%22";
    let (_, ours) = get(rpc, search).await;
    let theirs = read(&folder.join("rpc/tx_search-EventLeaseCreated.json"));
    differ(
        &mut differences,
        "tx_search",
        &without_gas(ours["result"].clone()),
        &without_gas(theirs["result"].clone()),
    );
    differences
}
