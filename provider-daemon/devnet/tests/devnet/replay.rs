//! Replays the recorded transactions of a live chain, byte for byte, on a development network with the same
//! genesis. Each transaction must end with the same code, text and events, and every recorded query must
//! return the same values.

use super::calls::{broadcast, call};
use super::frames::{Frames, compare_block, compare_frames, compare_rest};
use super::recordings::{
    Comparison, Recorded, comparison, genesis, name_of, read, recorded, recorded_queries, shape, signed,
    split_page, unrecorded,
};
use akash_provider_chain::method::Method;
use akash_provider_chain::proto::akash::market::v1beta5::QueryOrdersRequest;
use akash_provider_core::types::{Address, BlockTime};
use akash_provider_devnet::{Devnet, DevnetConfig};
use data_encoding::{BASE64, HEXLOWER};
use prost::Message;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Sets the sequence of each account to that of its next recorded transaction. Skips the accounts in `busy`,
/// which also sent other transactions.
fn catch_up(devnet: &Devnet, coming: &[Recorded], busy: &[Address]) {
    let mut next: BTreeMap<Address, u64> = BTreeMap::new();
    for (address, sequence) in coming.iter().filter_map(|tx| signed(&tx.bytes)) {
        next.entry(address).or_insert(sequence);
    }
    devnet.chain().market(|market| {
        for (address, sequence) in next.iter().filter(|(address, _)| !busy.contains(address)) {
            market.account_mut(address).sequence = *sequence;
        }
    });
}

struct Replay {
    folder: PathBuf,
    devnet: Devnet,
    frames: Frames,
    rpc: String,
    /// Differences between recorded and returned data.
    differences: Vec<String>,
    compared: BTreeMap<&'static str, usize>,
    recorded_queries: BTreeMap<u64, Vec<PathBuf>>,
    /// Key of the next page, from the last paged response.
    next_page: Vec<u8>,
}

impl Replay {
    /// Creates blocks until the next block has this height. Before each block, applies the recorded changes
    /// that have no transaction. After the block, repeats the recorded queries.
    async fn go_before(&mut self, height: u64) {
        loop {
            let next = self.devnet.chain().market(|m| m.height()) + 1;
            unrecorded(self.devnet.chain(), next);
            if next >= height {
                return;
            }
            self.devnet.chain().advance(Duration::from_secs(1));
            self.hear().await;
            self.queries(next).await;
        }
    }

    /// Repeats the recorded queries of this height. Adds each response that differs from the recording to
    /// `differences`.
    async fn queries(&mut self, height: u64) {
        let mut found = self.recorded_queries.remove(&height).unwrap_or_default();
        found.sort();
        for path in found {
            let recorded = read(&path);
            let theirs = &recorded["abci_query_response"]["result"]["response"];
            let data = self.request(&recorded);
            let params = json!({
                "path": recorded["path"],
                "data": HEXLOWER.encode(&data),
                "height": height.to_string(),
                "prove": false,
            });
            let ours = call(&self.rpc, "abci_query", params).await["result"]["response"].clone();
            let name = name_of(&path);
            let (ours, theirs) = if name.contains("-open-page") {
                (self.without_key(&ours), split_page(theirs).0)
            } else {
                (ours, theirs.clone())
            };
            match comparison(&name) {
                Comparison::Whole => {
                    self.differ(&format!("query {name} at {height}"), &ours, &theirs);
                    *self.compared.entry("queries").or_default() += 1;
                }
                Comparison::Shape => {
                    self.differ(&format!("shape of {name}"), &shape(&ours), &shape(&theirs));
                    self.differ(&format!("code of {name}"), &ours["code"], &theirs["code"]);
                    *self.compared.entry("shapes of queries").or_default() += 1;
                }
            }
        }
    }

    /// Receives the websocket frames of the newest block, by kind.
    async fn hear(&mut self) -> BTreeMap<String, Vec<Value>> {
        let block = call(&self.rpc, "block", json!({})).await;
        let txs = block["result"]["block"]["data"]["txs"].as_array().unwrap().len();
        self.frames.block(txs).await
    }

    /// Returns the bytes of a recorded request, with `next_page` as the page key, because page keys differ
    /// between nodes.
    fn request(&self, recorded: &Value) -> Vec<u8> {
        let text = recorded["request_b64"].as_str().unwrap();
        let data = BASE64.decode(text.as_bytes()).unwrap();
        if recorded["path"] != QueryOrdersRequest::PATH {
            return data;
        }
        let mut request = QueryOrdersRequest::decode(&*data).unwrap();
        if let Some(page) = request.pagination.as_mut().filter(|p| !p.key.is_empty()) {
            page.key.clone_from(&self.next_page);
        }
        request.encode_to_vec()
    }

    /// Stores the key of the next page in `self`. Returns the response with a placeholder for the key.
    fn without_key(&mut self, response: &Value) -> Value {
        let (value, key) = split_page(response);
        self.next_page = key;
        value
    }

    /// Creates a block at this time, or one second after the previous block.
    fn block(&self, time: Option<BlockTime>) {
        let now = self.devnet.chain().market(|m| m.time());
        let wanted = time.map_or(1000, |t| t.0 - now.0).max(1);
        self.devnet
            .chain()
            .advance(Duration::from_millis(u64::try_from(wanted).unwrap()));
    }

    fn differ(&mut self, what: &str, ours: &Value, theirs: &Value) {
        if ours != theirs {
            self.differences
                .push(format!("{what}\n   here:  {ours}\n   there: {theirs}"));
        }
    }

    /// Sends a recorded transaction and creates its block.
    async fn transaction(&mut self, tx: &Recorded, coming: &[Recorded]) {
        self.go_before(tx.height).await;
        let name = &tx.name;
        let checked = broadcast(&self.rpc, &tx.bytes).await;
        assert_eq!(checked["result"]["code"], 0, "{name}: {checked}");
        let busy: Vec<Address> = signed(&tx.bytes)
            .map(|(address, _)| address)
            .into_iter()
            .collect();
        catch_up(&self.devnet, coming, &busy);
        self.block(tx.time);
        let frames = self.hear().await;
        self.differences
            .extend(compare_frames(&self.folder, name, &frames));
        let block = compare_block(&self.folder, &self.rpc, name, tx.height).await;
        self.differences.extend(block);
        catch_up(&self.devnet, coming, &[]);
        let hash = BASE64.encode(
            &HEXLOWER
                .decode(tx.answer["hash"].as_str().unwrap().to_lowercase().as_bytes())
                .unwrap(),
        );
        let ours = call(&self.rpc, "tx", json!({"hash": hash, "prove": false})).await["result"].clone();
        assert_eq!(ours["height"], tx.answer["height"], "{name}: {ours}");
        let (mut ours, mut theirs) = (ours["tx_result"].clone(), tx.answer["tx_result"].clone());
        for result in [&mut ours, &mut theirs] {
            // The gas of a message is a model, and a panic appends its stack.
            result["gas_used"] = Value::Null;
            let log = result["log"].as_str().unwrap();
            let log = log.split("\nstack:").next().unwrap();
            let log = log.split("gasUsed").next().unwrap().to_owned();
            result["log"] = log.into();
        }
        for key in ["code", "codespace", "log", "data", "gas_wanted", "info"] {
            self.differ(&format!("{name} {key}"), &ours[key], &theirs[key]);
        }
        let events = |result: &Value| -> Vec<String> {
            let events = result["events"].as_array().unwrap().iter();
            events.map(ToString::to_string).collect()
        };
        let (ours, theirs) = (events(&ours), events(&theirs));
        if ours != theirs {
            self.differences.push(format!(
                "{name} events\n   here:  {}\n   there: {}",
                ours.join("\n          "),
                theirs.join("\n          ")
            ));
        }
        *self.compared.entry("transactions").or_default() += 1;
        self.queries(tx.height).await;
    }
}

#[tokio::test]
async fn recorded_transactions_end_as_in_the_network() {
    let folder = testbed::recordings::folder("chain");
    let devnet = Devnet::start(DevnetConfig::new(genesis(&folder))).await.unwrap();
    let mut replay = Replay {
        frames: Frames::open(&devnet.rpc_url()).await,
        folder: folder.clone(),
        rpc: devnet.rpc_url(),
        devnet,
        differences: Vec::new(),
        compared: BTreeMap::new(),
        recorded_queries: recorded_queries(&folder),
        next_page: Vec::new(),
    };
    let all = recorded(&folder);
    for (index, tx) in all.iter().enumerate() {
        replay.transaction(tx, &all[index + 1..]).await;
    }
    let rest = compare_rest(&folder, &replay.rpc).await;
    replay.differences.extend(rest);
    assert!(
        replay.differences.is_empty(),
        "{} differences:\n{}",
        replay.differences.len(),
        replay.differences.join("\n")
    );
    println!("{:?}", replay.compared);
    replay.devnet.stop().await;
}
