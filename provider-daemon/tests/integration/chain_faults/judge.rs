//! What must hold when all is over, held against the market and against every block of the network.

use crate::chain_faults::bidder::Bidder;
use crate::chain_faults::world::{CHAIN, us};
use akash_provider_chain::Limits;
use akash_provider_chain::convert::from_any;
use akash_provider_chain::endpoints::Endpoints;
use akash_provider_chain::proto::cosmos::tx::v1beta1::{TxBody, TxRaw};
use akash_provider_core::chain::{ChainEvents, MemoryChain};
use akash_provider_core::types::{ChainEvent, Height, Msg, TxOutcome};
use data_encoding::BASE64;
use futures::StreamExt;
use prost::Message;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The facts of every block, from the chain itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Oracle {
    blocks: Arc<Mutex<BTreeMap<Height, Vec<ChainEvent>>>>,
}

impl Oracle {
    /// Listens to the chain from now on.
    pub(crate) fn of(chain: &MemoryChain) -> Self {
        let oracle = Self::default();
        let (mut events, blocks) = (chain.subscribe(&us()), Arc::clone(&oracle.blocks));
        tokio::spawn(async move {
            let mut facts = Vec::new();
            while let Some(event) = events.next().await {
                match event.unwrap() {
                    ChainEvent::Resync(_) => {}
                    ChainEvent::Block { height, .. } => {
                        blocks.lock().unwrap().insert(height, std::mem::take(&mut facts));
                    }
                    fact => facts.push(fact),
                }
            }
        });
        oracle
    }

    fn facts(&self, height: Height) -> Option<Vec<ChainEvent>> {
        self.blocks.lock().unwrap().get(&height).cloned()
    }
}

/// A transaction of ours in a block.
#[derive(Debug)]
pub(crate) struct Landed {
    pub(crate) height: Height,
    pub(crate) msgs: Vec<Msg>,
    pub(crate) code: i64,
}

/// Every transaction of a provider in every block, read from the node itself.
pub(crate) async fn landed(rpc_url: &str, last: Height) -> Vec<Landed> {
    let endpoints = Endpoints::new(&[rpc_url], CHAIN, Limits::default()).unwrap();
    let mut all = Vec::new();
    for height in 2..=last {
        let params = json!({"height": height.to_string()});
        let block: Value = endpoints.call("block", params.clone()).await.unwrap();
        let results: Value = endpoints.call("block_results", params).await.unwrap();
        let empty = Vec::new();
        let txs = block["block"]["data"]["txs"].as_array().unwrap_or(&empty);
        for (at, tx) in txs.iter().enumerate() {
            let raw = TxRaw::decode(&*BASE64.decode(tx.as_str().unwrap().as_bytes()).unwrap()).unwrap();
            let body = TxBody::decode(&*raw.body_bytes).unwrap();
            let msgs = body.messages.iter().filter_map(|any| from_any(any).unwrap());
            all.push(Landed {
                height,
                msgs: msgs.collect(),
                code: results["txs_results"][at]["code"].as_i64().unwrap(),
            });
        }
    }
    all
}

/// Every block once and in order, each with the facts that the chain itself tells.
pub(crate) fn blocks(name: &str, bidder: &Bidder, oracle: &Oracle) -> usize {
    let sorted = |facts: &[ChainEvent]| {
        let mut texts: Vec<String> = facts.iter().map(|fact| format!("{fact:?}")).collect();
        texts.sort();
        texts
    };
    let book = bidder.book();
    let (mut last, mut judged) = (0, 0);
    for run in &book.runs {
        assert!(
            run.from >= last,
            "{name}: a Resync at {} after block {last}",
            run.from
        );
        last = run.from;
        for (height, facts) in &run.blocks {
            assert_eq!(*height, last + 1, "{name}: every block once and in order");
            last = *height;
            let Some(happened) = oracle.facts(*height) else {
                continue;
            };
            assert_eq!(sorted(facts), sorted(&happened), "{name}: block {height}");
            judged += 1;
        }
    }
    judged
}

/// No transaction counted wrongly, and no two for one bid.
pub(crate) fn transactions(name: &str, bidder: &Bidder, landed: &[Landed]) {
    let book = bidder.book();
    let mut calls: BTreeMap<String, Vec<&Result<TxOutcome, String>>> = BTreeMap::new();
    for call in &book.calls {
        calls
            .entry(format!("{:?}", call.msg))
            .or_default()
            .push(&call.outcome);
    }
    for (msg, outcomes) in &calls {
        let of = |tx: &&Landed| tx.msgs.iter().any(|m| format!("{m:?}") == *msg);
        let all: Vec<&Landed> = landed.iter().filter(of).collect();
        let done: Vec<Height> = all.iter().filter(|tx| tx.code == 0).map(|tx| tx.height).collect();
        let is_bid = msg.starts_with("CreateBid");
        let told = outcomes.iter().filter_map(|outcome| match outcome {
            Ok(TxOutcome::Committed { height }) => Some(*height),
            _ => None,
        });
        let told: Vec<Height> = told.collect();
        let unknown = outcomes
            .iter()
            .any(|o| matches!(o, Ok(TxOutcome::Unknown { .. })));
        if unknown {
            assert!(
                told.len() <= done.len(),
                "{name}: {msg}: told {told:?}, done {done:?}"
            );
        } else if is_bid {
            assert_eq!(told, done, "{name}: {msg}: told, and done; {outcomes:?}");
        } else {
            assert_eq!(
                told.len(),
                done.len(),
                "{name}: {msg}: told {told:?}, done {done:?}"
            );
        }
        if is_bid {
            assert!(
                all.len() <= 1,
                "{name}: {} transactions for one bid: {all:?} {outcomes:?}",
                all.len()
            );
        }
    }
}
