//! JSON-RPC methods of the node with their parameters and results.

use super::block::{DevnetBlock, node_id, rfc3339, validator};
use super::event::DevnetEvent;
use super::filter::{Facts, Filter};
use super::node::{DevnetChain, DevnetNode, MempoolError};
use super::query::cosmos::{API_VERSIONS, COMET_VERSION, MODULES, VERSION};
use super::query::{Transport, execute};
use super::rpc_call::{JsonRpcCall, RpcFailure};
use super::rpc_params::Params;
use akash_provider_chain::signer::TxHash;
use akash_provider_core::types::Height;
use bytes::Bytes;
use data_encoding::{BASE64, HEXUPPER};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Default page size of `tx_search` and `unconfirmed_txs`.
const SEARCH_DEFAULT: u64 = 30;
const SEARCH_MAX: u64 = 100;
/// Maximum number of headers in a `blockchain` result.
const HEADERS_MAX: u64 = 20;
/// Maximum time that `broadcast_tx_commit` waits for the block. Akash nodes have the same default.
const COMMIT_TIME: Duration = Duration::from_secs(10);

/// Returns the parameter names of a method in order, or `None` for an unknown method.
pub(super) fn parameters(method: &str) -> Option<&'static [&'static str]> {
    Some(match method {
        "status" | "health" | "akash" | "abci_info" | "net_info" | "num_unconfirmed_txs" => &[],
        "block" | "header" | "commit" | "block_results" | "consensus_params" | "validators" => &["height"],
        "unconfirmed_txs" => &["limit"],
        "blockchain" => &["minHeight", "maxHeight"],
        "tx" => &["hash", "prove"],
        "tx_search" => &["query", "prove", "page", "per_page", "order_by"],
        "abci_query" => &["path", "data", "height", "prove"],
        "broadcast_tx_sync" | "broadcast_tx_async" | "broadcast_tx_commit" => &["tx"],
        _ => return None,
    })
}

/// Calls one of the methods that [`parameters`] lists. Only `broadcast_tx_commit` waits for a block.
pub(super) async fn call(node: &DevnetNode, method: &str, params: &Params) -> Result<Value, RpcFailure> {
    match method {
        "status" => Ok(status(&node.lock())),
        "health" => Ok(json!({})),
        "akash" => Ok(discovery(&node.lock())),
        "abci_info" => Ok(abci_info(&node.lock())),
        "net_info" => Ok(json!({"listening": true, "listeners": [], "n_peers": "0", "peers": []})),
        "unconfirmed_txs" => unconfirmed(&node.lock(), params),
        "num_unconfirmed_txs" => {
            let mut result = unconfirmed(&node.lock(), params)?;
            result["txs"] = Value::Null;
            Ok(result)
        }
        "block" => {
            let block = block_at(node, params)?;
            Ok(json!({"block_id": block.id(), "block": block.block()}))
        }
        "header" => Ok(json!({"header": block_at(node, params)?.header()})),
        "commit" => {
            let block = block_at(node, params)?;
            let signed = json!({"header": block.header(), "commit": block.commit()});
            Ok(json!({"signed_header": signed, "canonical": true}))
        }
        "block_results" => Ok(block_at(node, params)?.block_results()),
        "validators" => {
            let height = block_at(node, params)?.height.to_string();
            let mut validator = validator();
            validator["proposer_priority"] = "0".into();
            Ok(json!({"block_height": height, "validators": [validator], "count": "1", "total": "1"}))
        }
        "consensus_params" => {
            let block = block_at(node, params)?;
            Ok(consensus_params(&block))
        }
        "blockchain" => blockchain(&node.lock(), params),
        "tx" => find(&node.lock(), params),
        "tx_search" => search(&node.lock(), params),
        "abci_query" => abci_query(node, params),
        "broadcast_tx_sync" | "broadcast_tx_async" => broadcast(node, params, method == "broadcast_tx_async"),
        "broadcast_tx_commit" => commit(node, params).await,
        _ => Err(RpcFailure::no_method()),
    }
}

/// Executes one call from a request body or a websocket. Refuses an unknown method before the parameters are
/// parsed.
pub(super) async fn one(node: &DevnetNode, request: JsonRpcCall) -> Result<Value, RpcFailure> {
    let Some(names) = parameters(&request.method) else {
        return Err(RpcFailure::no_method());
    };
    let params = Params::from_json(request.params, names)?;
    call(node, &request.method, &params).await
}

fn hex(hash: &[u8]) -> String {
    HEXUPPER.encode(hash)
}

fn status(inner: &DevnetChain) -> Value {
    let (Some(newest), Some(oldest)) = (inner.newest(), inner.oldest()) else {
        return Value::Null;
    };
    json!({
        "node_info": {
            "protocol_version": {"p2p": "8", "block": "11", "app": "0"},
            "id": node_id(),
            "listen_addr": "tcp://127.0.0.1:0",
            "network": newest.chain_id,
            "version": COMET_VERSION,
            "channels": "",
            "moniker": "devnet",
            "other": {"tx_index": "on", "rpc_address": "tcp://127.0.0.1:0"},
        },
        "sync_info": {
            "latest_block_hash": hex(&newest.hash),
            "latest_app_hash": hex(&newest.app_hash),
            "latest_block_height": newest.height.to_string(),
            "latest_block_time": rfc3339(newest.time),
            "earliest_block_hash": hex(&oldest.hash),
            "earliest_app_hash": hex(&oldest.app_hash),
            "earliest_block_height": oldest.height.to_string(),
            "earliest_block_time": rfc3339(oldest.time),
            "catching_up": false,
        },
        "validator_info": validator(),
    })
}

fn discovery(inner: &DevnetChain) -> Value {
    let module = |(module, version): &(&str, &str)| json!({"module": module, "version": version});
    let modules: Vec<Value> = MODULES.iter().map(module).collect();
    let version = |api: &&str| json!({"api_version": api, "modules": modules, "features": null});
    let versions: Vec<Value> = API_VERSIONS.iter().map(version).collect();
    json!({
        "client_info": {"api_version": API_VERSIONS[1]},
        "supported_versions": versions,
        "chain_id": inner.rules().chain_id,
        "node_version": VERSION,
        "min_client_version": "",
    })
}

fn abci_info(inner: &DevnetChain) -> Value {
    let hash = inner.newest().map(|b| BASE64.encode(&b.app_hash));
    json!({"response": {
        "data": "akash",
        "version": VERSION,
        "last_block_height": inner.height().to_string(),
        "last_block_app_hash": hash,
    }})
}

fn unconfirmed(inner: &DevnetChain, params: &Params) -> Result<Value, RpcFailure> {
    let limit = params.number("limit")?.unwrap_or(SEARCH_DEFAULT).min(SEARCH_MAX);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let (total, bytes) = (
        inner.waiting().len(),
        inner.waiting().map(Bytes::len).sum::<usize>(),
    );
    let txs: Vec<String> = inner.waiting().take(limit).map(|tx| BASE64.encode(tx)).collect();
    Ok(json!({
        "n_txs": txs.len().to_string(),
        "total": total.to_string(),
        "total_bytes": bytes.to_string(),
        "txs": txs,
    }))
}

/// Returns the block at the requested height. Without this parameter, returns the newest block.
fn block_at(node: &DevnetNode, params: &Params) -> Result<Arc<DevnetBlock>, RpcFailure> {
    let inner = node.lock();
    let newest = inner.height();
    let requested = params.number("height")?.unwrap_or(newest);
    if requested == 0 {
        return Err(RpcFailure::internal("height must be greater than 0, but got 0"));
    }
    if requested > newest {
        let text = format!(
            "height {requested} must be less than or equal to the current blockchain height {newest}"
        );
        return Err(RpcFailure::internal(text));
    }
    let lowest = inner.oldest().map_or(0, |b| b.height);
    inner.block(requested).cloned().ok_or_else(|| {
        RpcFailure::internal(format!(
            "height {requested} is not available, lowest height is {lowest}"
        ))
    })
}

fn consensus_params(block: &DevnetBlock) -> Value {
    json!({
        "block_height": block.height.to_string(),
        "consensus_params": {
            "block": {"max_bytes": "22020096", "max_gas": "-1"},
            "evidence": {
                "max_age_num_blocks": "100000",
                "max_age_duration": "172800000000000",
                "max_bytes": "1048576",
            },
            "validator": {"pub_key_types": ["ed25519"]},
            "version": {"app": "0"},
            "abci": {"vote_extensions_enable_height": "0"},
        },
    })
}

fn blockchain(inner: &DevnetChain, params: &Params) -> Result<Value, RpcFailure> {
    let (newest, lowest) = (inner.height(), inner.oldest().map_or(0, |b| b.height));
    let last = params.number("maxHeight")?.filter(|h| *h > 0).unwrap_or(newest);
    let last = last.min(newest);
    let first = params.number("minHeight")?.unwrap_or(0).max(lowest);
    // Of a range that is too long, nodes return the newest headers.
    let first = first.max(last.saturating_sub(HEADERS_MAX - 1));
    if first > last {
        let text = format!("min height {first} can't be greater than max height {last}");
        return Err(RpcFailure::internal(text));
    }
    let blocks = (first..=last).rev().filter_map(|height| inner.block(height));
    let metas = blocks.map(|block| {
        let size: usize = block.txs.iter().map(|tx| tx.bytes.len()).sum();
        json!({
            "block_id": block.id(),
            "block_size": size.to_string(),
            "header": block.header(),
            "num_txs": block.txs.len().to_string(),
        })
    });
    let metas: Vec<Value> = metas.collect();
    Ok(json!({"last_height": newest.to_string(), "block_metas": metas}))
}

fn find(inner: &DevnetChain, params: &Params) -> Result<Value, RpcFailure> {
    let bytes = params.bytes("hash")?;
    let hash = <[u8; 32]>::try_from(bytes.as_slice()).ok();
    let found = hash.and_then(|hash| inner.find(&TxHash(hash)));
    let found = found.and_then(|(block, index)| block.tx(index));
    found.ok_or_else(|| RpcFailure::internal(format!("tx ({}) not found", hex(&bytes))))
}

pub(super) fn tx_facts(block: &DevnetBlock, index: usize) -> Facts {
    let mut facts = Facts::new();
    let Some(tx) = block.txs.get(index) else {
        return facts;
    };
    add_events(&mut facts, &tx.result.events);
    let own = [
        ("tm.event", "Tx".to_owned()),
        ("tx.hash", tx.hash.to_string()),
        ("tx.height", block.height.to_string()),
    ];
    for (key, value) in own {
        facts.entry(key.to_owned()).or_default().push(value);
    }
    facts
}

pub(super) fn block_facts(block: &DevnetBlock, kind: &str) -> Facts {
    let mut facts = Facts::new();
    if kind != "NewBlockHeader" {
        add_events(&mut facts, &block.events());
    }
    facts.insert("tm.event".to_owned(), vec![kind.to_owned()]);
    facts
}

fn add_events(facts: &mut Facts, events: &[DevnetEvent]) {
    for event in events {
        for (key, value) in &event.attributes {
            let key = format!("{}.{key}", event.kind);
            facts.entry(key).or_default().push(value.clone());
        }
    }
}

fn search(inner: &DevnetChain, params: &Params) -> Result<Value, RpcFailure> {
    let query = params.text("query")?.unwrap_or_default();
    let filter = Filter::parse(&query).map_err(RpcFailure::internal)?;
    let order = params.text("order_by")?.unwrap_or_default();
    let mut found: Vec<(&Arc<DevnetBlock>, usize)> = Vec::new();
    let mut look = |block| add_matches(&mut found, &filter, block);
    // The usual search names its height. A lookup of that block avoids a scan of up to a
    // hundred thousand blocks.
    match filter.only("tx.height").map(str::parse::<Height>) {
        Some(Ok(height)) => inner.block(height).into_iter().for_each(&mut look),
        // An invalid number matches no block.
        Some(Err(_)) => {}
        None => inner.blocks().for_each(&mut look),
    }
    match order.as_str() {
        "desc" => found.reverse(),
        "asc" | "" => {}
        _ => {
            let text = "expected order_by to be either `asc` or `desc` or empty";
            return Err(RpcFailure::internal(text));
        }
    }
    let per_page = params
        .number("per_page")?
        .unwrap_or(SEARCH_DEFAULT)
        .clamp(1, SEARCH_MAX);
    let total = found.len() as u64;
    // Nodes count an empty result as one page.
    let pages = total.div_ceil(per_page).max(1);
    let page = params.number("page")?.unwrap_or(1);
    if page == 0 || page > pages {
        let text = format!("page should be within [1, {pages}] range, given {page}");
        return Err(RpcFailure::internal(text));
    }
    let skipped = usize::try_from((page - 1) * per_page).unwrap_or(usize::MAX);
    let taken = usize::try_from(per_page).unwrap_or(usize::MAX);
    let page = found.iter().skip(skipped).take(taken);
    let txs: Vec<Value> = page.filter_map(|(block, index)| block.tx(*index)).collect();
    Ok(json!({"txs": txs, "total_count": total.to_string()}))
}

fn add_matches<'a>(
    found: &mut Vec<(&'a Arc<DevnetBlock>, usize)>,
    filter: &Filter,
    block: &'a Arc<DevnetBlock>,
) {
    for index in 0..block.txs.len() {
        if filter.matches(&tx_facts(block, index)) {
            found.push((block, index));
        }
    }
}

fn abci_query(node: &DevnetNode, params: &Params) -> Result<Value, RpcFailure> {
    let path = params.text("path")?.unwrap_or_default();
    let data = params.hex("data")?;
    let requested = params.number("height")?.unwrap_or(0);
    let (code, log, value, height) = match execute(node, Transport::Abci, &path, &data, requested) {
        Ok((bytes, height)) if bytes.is_empty() => (0, String::new(), Value::Null, height),
        Ok((bytes, height)) => (0, String::new(), BASE64.encode(&bytes).into(), height),
        Err((refused, height)) => {
            let (code, log) = refused.abci();
            (code, log, Value::Null, height)
        }
    };
    let codespace = if code == 0 { "" } else { "sdk" };
    Ok(json!({"response": {
        "code": code,
        "log": log,
        "info": "",
        "index": "0",
        "key": null,
        "value": value,
        "proofOps": null,
        "height": height.to_string(),
        "codespace": codespace,
    }}))
}

fn refused_before(error: MempoolError) -> Result<(u32, String, String), RpcFailure> {
    match error {
        MempoolError::Duplicate => Err(RpcFailure::internal("tx already exists in cache")),
        MempoolError::Full(waiting) => Err(RpcFailure::internal(format!(
            "mempool is full: number of txs {waiting} (max: {waiting})"
        ))),
        MempoolError::Refused(refusal) => Ok((refusal.code, refusal.space, refusal.log)),
    }
}

fn broadcast(node: &DevnetNode, params: &Params, is_async: bool) -> Result<Value, RpcFailure> {
    let bytes = Bytes::from(params.bytes("tx")?);
    let hash = TxHash::new(&bytes);
    let (code, space, log) = match node.take(bytes) {
        Ok(_) => (0, String::new(), String::new()),
        Err(error) => refused_before(error)?,
    };
    if is_async {
        // The async method does not report the result of the check.
        return Ok(json!({"code": 0, "data": "", "log": "", "codespace": "", "hash": hash.to_string()}));
    }
    Ok(json!({"code": code, "data": "", "log": log, "codespace": space, "hash": hash.to_string()}))
}

async fn commit(node: &DevnetNode, params: &Params) -> Result<Value, RpcFailure> {
    let bytes = Bytes::from(params.bytes("tx")?);
    let hash = TxHash::new(&bytes);
    // Subscribed before the broadcast: the block may follow at once, and would be missed.
    let mut blocks = node.subscribe();
    let checked = match node.take(bytes) {
        Ok(_) => (0, String::new(), String::new()),
        Err(error) => refused_before(error)?,
    };
    let (code, space, log) = checked;
    let check = json!({
        "code": code, "data": null, "log": log, "info": "", "gas_wanted": "0", "gas_used": "0",
        "events": [], "codespace": space,
    });
    if code != 0 {
        let result = super::deliver::TxResult::default().json();
        return Ok(json!({"check_tx": check, "tx_result": result, "hash": hash.to_string(), "height": "0"}));
    }
    let landed = async {
        // The index also contains blocks that the subscription lost.
        while blocks.recv().await.is_ok() {
            let inner = node.lock();
            if let Some((block, index)) = inner.find(&hash) {
                return block.txs.get(index).map(|tx| (block.height, tx.result.json()));
            }
        }
        None
    };
    let landed = tokio::time::timeout(COMMIT_TIME, landed).await.ok().flatten();
    let late = || RpcFailure::internal("timed out waiting for tx to be included in a block");
    let (height, result) = landed.ok_or_else(late)?;
    Ok(
        json!({"check_tx": check, "tx_result": result, "hash": hash.to_string(), "height": height.to_string()}),
    )
}
