//! Blocks, in the JSON format of a node.
//!
//! Hashes depend on the contents of a block and form a chain. The hashes are not Merkle roots as on the Akash network,
//! and the signature of the single validator is a placeholder. Clients that trust a node do not verify them.

use super::deliver::TxResult;
use super::event::DevnetEvent;
use akash_provider_chain::signer::TxHash;
use akash_provider_core::types::{BlockTime, Height};
use bytes::Bytes;
use data_encoding::{BASE64, HEXLOWER, HEXUPPER};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::time::{Duration, UNIX_EPOCH};

pub(super) type Hash = [u8; 32];

#[derive(Debug, Clone)]
pub(super) struct IncludedTx {
    pub(super) bytes: Bytes,
    pub(super) hash: TxHash,
    pub(super) result: TxResult,
}

#[derive(Debug, Clone)]
pub(super) struct DevnetBlock {
    pub(super) chain_id: String,
    pub(super) height: Height,
    pub(super) time: BlockTime,
    pub(super) txs: Vec<IncludedTx>,
    pub(super) hash: Hash,
    pub(super) last_hash: Hash,
    data_hash: Hash,
    /// Hash of the state before this block.
    last_app_hash: Hash,
    pub(super) app_hash: Hash,
    last_results_hash: Hash,
    results_hash: Hash,
}

/// Returns the single validator as JSON, with a placeholder key.
pub(super) fn validator() -> Value {
    let key = hash_of(&[b"validator"]);
    json!({
        "address": validator_address(),
        "pub_key": {"type": "tendermint/PubKeyEd25519", "value": BASE64.encode(&key)},
        "voting_power": "5000000",
    })
}

pub(super) fn node_id() -> String {
    let hash = hash_of(&[b"node"]);
    HEXLOWER.encode(hash.get(..20).unwrap_or_default())
}

fn validator_address() -> String {
    let key = hash_of(&[b"validator"]);
    HEXUPPER.encode(key.get(..20).unwrap_or_default())
}

fn hash_of(parts: &[&[u8]]) -> Hash {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

fn hex(hash: &Hash) -> String {
    HEXUPPER.encode(hash)
}

pub(super) fn rfc3339(time: BlockTime) -> String {
    let since = Duration::from_millis(u64::try_from(time.0).unwrap_or(0));
    humantime::format_rfc3339_nanos(UNIX_EPOCH + since).to_string()
}

/// Encodes bytes as base64. Without bytes, returns null, as CometBFT nodes do.
fn base64(bytes: &[u8]) -> Value {
    if bytes.is_empty() {
        return Value::Null;
    }
    BASE64.encode(bytes).into()
}

impl DevnetBlock {
    /// Creates the block after `last`. If `last` is `None`, creates the first block.
    pub(super) fn new(
        chain_id: &str,
        height: Height,
        time: BlockTime,
        txs: Vec<IncludedTx>,
        last: Option<&Self>,
    ) -> Self {
        let nothing = hash_of(&[]);
        let of_txs = |part: fn(&IncludedTx) -> Vec<u8>| {
            let parts: Vec<Vec<u8>> = txs.iter().map(part).collect();
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            hash_of(&parts)
        };
        let data_hash = of_txs(|tx| tx.hash.0.to_vec());
        let results_hash = of_txs(|tx| {
            let result = &tx.result;
            format!("{}/{}/{}", result.code, result.gas_wanted, result.gas_used).into_bytes()
        });
        let last_hash = last.map_or(nothing, |b| b.hash);
        let last_app_hash = last.map_or(nothing, |b| b.app_hash);
        let number = height.to_be_bytes();
        let app_hash = hash_of(&[b"app", &last_app_hash, &data_hash, &results_hash, &number]);
        let hash = hash_of(&[
            chain_id.as_bytes(),
            &number,
            &time.0.to_be_bytes(),
            &last_hash,
            &data_hash,
            &last_app_hash,
        ]);
        Self {
            chain_id: chain_id.to_owned(),
            height,
            time,
            hash,
            last_hash,
            data_hash,
            last_app_hash,
            app_hash,
            last_results_hash: last.map_or(nothing, |b| b.results_hash),
            results_hash,
            txs,
        }
    }

    /// Returns the header as JSON. As on the Akash network, `app_hash` and `last_results_hash` belong to the
    /// previous block.
    pub(super) fn header(&self) -> Value {
        let validators = hex(&hash_of(&[b"validators"]));
        json!({
            "version": {"block": "11"},
            "chain_id": self.chain_id,
            "height": self.height.to_string(),
            "time": rfc3339(self.time),
            "last_block_id": block_id(&self.last_hash),
            "last_commit_hash": hex(&hash_of(&[b"commit", &self.last_hash])),
            "data_hash": hex(&self.data_hash),
            "validators_hash": validators,
            "next_validators_hash": validators,
            "consensus_hash": hex(&hash_of(&[b"consensus"])),
            "app_hash": hex(&self.last_app_hash),
            "last_results_hash": hex(&self.last_results_hash),
            "evidence_hash": hex(&hash_of(&[])),
            "proposer_address": validator_address(),
        })
    }

    pub(super) fn id(&self) -> Value {
        block_id(&self.hash)
    }

    /// Returns the block as JSON: header, transactions in base64, and commit of the previous block.
    pub(super) fn block(&self) -> Value {
        let txs: Vec<String> = self.txs.iter().map(|tx| BASE64.encode(&tx.bytes)).collect();
        json!({
            "header": self.header(),
            "data": {"txs": txs},
            "evidence": {"evidence": []},
            "last_commit": self.last_commit(),
        })
    }

    fn last_commit(&self) -> Value {
        commit(
            self.height.saturating_sub(1),
            &self.last_hash,
            &self.chain_id,
            self.time,
        )
    }

    pub(super) fn commit(&self) -> Value {
        commit(self.height, &self.hash, &self.chain_id, self.time)
    }

    /// Returns the events of the block that belong to no transaction.
    pub(super) fn events(&self) -> Vec<DevnetEvent> {
        let zero = || "0.000000000000000000".to_owned();
        vec![DevnetEvent::new(
            "mint",
            vec![
                ("bonded_ratio", zero()),
                ("inflation", zero()),
                ("annual_provisions", zero()),
                ("amount", "0".to_owned()),
                ("mode", "BeginBlock".to_owned()),
            ],
        )]
    }

    pub(super) fn results(&self) -> Vec<Value> {
        self.txs.iter().map(|tx| tx.result.json()).collect()
    }

    /// Returns the result of the JSON-RPC method `block_results`, with null for empty lists.
    pub(super) fn block_results(&self) -> Value {
        let results = self.results();
        let events: Vec<Value> = self.events().iter().map(DevnetEvent::json).collect();
        json!({
            "height": self.height.to_string(),
            "txs_results": if results.is_empty() { Value::Null } else { results.into() },
            "finalize_block_events": events,
            "validator_updates": null,
            "consensus_param_updates": consensus_updates(),
            "app_hash": BASE64.encode(&self.app_hash),
        })
    }

    pub(super) fn new_block(&self) -> Value {
        let events: Vec<Value> = self.events().iter().map(DevnetEvent::json).collect();
        let mut results = json!({
            "events": events,
            "validator_updates": [],
            "consensus_param_updates": consensus_updates(),
            "app_hash": BASE64.encode(&self.app_hash),
        });
        // A node leaves the field out for a block without transactions.
        if !self.txs.is_empty() {
            results["tx_results"] = self.results().into();
        }
        json!({"block": self.block(), "block_id": self.id(), "result_finalize_block": results})
    }

    /// Returns a transaction in the format of the JSON-RPC methods `tx` and `tx_search`.
    pub(super) fn tx(&self, index: usize) -> Option<Value> {
        let tx = self.txs.get(index)?;
        Some(json!({
            "hash": tx.hash.to_string(),
            "height": self.height.to_string(),
            "index": index,
            "tx_result": tx.result.json(),
            "tx": BASE64.encode(&tx.bytes),
        }))
    }

    /// Returns the value of a `Tx` event, without zero fields.
    pub(super) fn tx_event(&self, index: usize) -> Option<Value> {
        let tx = self.txs.get(index)?;
        let mut whole = tx.result.json();
        if let Value::Object(fields) = &mut whole {
            let is_empty = |v: &Value| v.is_null() || *v == json!("") || *v == json!(0) || *v == json!("0");
            fields.retain(|_, value| !is_empty(value));
        }
        let mut result = json!({
            "height": self.height.to_string(),
            "tx": BASE64.encode(&tx.bytes),
            "result": whole,
        });
        if index > 0 {
            result["index"] = index.into();
        }
        Some(json!({"TxResult": result}))
    }
}

impl TxResult {
    /// Encodes the result as JSON, in the format of `block_results`.
    pub(super) fn json(&self) -> Value {
        let events: Vec<Value> = self.events.iter().map(DevnetEvent::json).collect();
        json!({
            "code": self.code,
            "data": base64(&self.data),
            "log": self.log,
            "info": "",
            "gas_wanted": self.gas_wanted.to_string(),
            "gas_used": self.gas_used.to_string(),
            "events": events,
            "codespace": self.codespace,
        })
    }
}

fn block_id(hash: &Hash) -> Value {
    json!({"hash": hex(hash), "parts": {"total": 1, "hash": hex(&hash_of(&[b"parts", hash]))}})
}

fn commit(height: Height, hash: &Hash, chain_id: &str, time: BlockTime) -> Value {
    let half = hash_of(&[b"signature", chain_id.as_bytes(), hash]);
    // A signature of the network has 64 bytes, the length of two hashes.
    let signature: Vec<u8> = half.iter().chain(&half).copied().collect();
    json!({
        "height": height.to_string(),
        "round": 0,
        "block_id": block_id(hash),
        "signatures": [{
            "block_id_flag": 2,
            "validator_address": validator_address(),
            "timestamp": rfc3339(time),
            "signature": BASE64.encode(&signature),
        }],
    })
}

fn consensus_updates() -> Value {
    json!({
        "block": {"max_bytes": "22020096", "max_gas": "-1"},
        "evidence": {
            "max_age_num_blocks": "100000",
            "max_age_duration": "172800000000000",
            "max_bytes": "1048576",
        },
        "validator": {"pub_key_types": ["ed25519"]},
        "version": {},
        "abci": {},
    })
}
