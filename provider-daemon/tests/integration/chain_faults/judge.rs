//! Final checks: the received events and the outcomes must match the market and every block of the chain.

use crate::chain_faults::bidder::Bidder;
use crate::chain_faults::world::us;
use crate::landed::LandedTx;
use akash_provider_core::chain::{ChainEvents, MemoryChain};
use akash_provider_core::types::{ChainEvent, Height, TxOutcome};
use futures::StreamExt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Events of every block, read from the chain.
#[derive(Debug, Clone, Default)]
pub(crate) struct Oracle {
    blocks: Arc<Mutex<BTreeMap<Height, Vec<ChainEvent>>>>,
}

impl Oracle {
    /// Subscribes to the events of the chain from now on.
    pub(crate) fn for_chain(chain: &MemoryChain) -> Self {
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

/// Asserts that the bidder received every block once, in order, with the chain's events. Returns the number
/// of blocks.
pub(crate) fn blocks(name: &str, bidder: &Bidder, oracle: &Oracle) -> usize {
    let sorted = |facts: &[ChainEvent]| {
        let mut texts: Vec<String> = facts.iter().map(|fact| format!("{fact:?}")).collect();
        texts.sort();
        texts
    };
    let record = bidder.record();
    let (mut last, mut judged) = (0, 0);
    for run in &record.runs {
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

/// Asserts that all recorded transaction outcomes agree with the blocks, and that no bid landed twice.
pub(crate) fn transactions(name: &str, bidder: &Bidder, landed: &[LandedTx]) {
    let record = bidder.record();
    let mut calls: BTreeMap<String, Vec<&Result<TxOutcome, String>>> = BTreeMap::new();
    for call in &record.calls {
        calls
            .entry(format!("{:?}", call.msg))
            .or_default()
            .push(&call.outcome);
    }
    for (msg, outcomes) in &calls {
        let of = |tx: &&LandedTx| tx.msgs.iter().any(|m| format!("{m:?}") == *msg);
        let all: Vec<&LandedTx> = landed.iter().filter(of).collect();
        let done: Vec<Height> = all.iter().filter(|tx| tx.code == 0).map(|tx| tx.height).collect();
        let is_bid = msg.starts_with("CreateBid");
        let reported = outcomes.iter().filter_map(|outcome| match outcome {
            Ok(TxOutcome::Committed { height }) => Some(*height),
            _ => None,
        });
        let reported: Vec<Height> = reported.collect();
        let unknown = outcomes
            .iter()
            .any(|o| matches!(o, Ok(TxOutcome::Unknown { .. })));
        if unknown {
            assert!(
                reported.len() <= done.len(),
                "{name}: {msg}: reported outcome {reported:?}, outcome in the block {done:?}"
            );
        } else if is_bid {
            assert_eq!(reported, done, "{name}: {msg}: reported and landed; {outcomes:?}");
        } else {
            assert_eq!(
                reported.len(),
                done.len(),
                "{name}: {msg}: reported outcome {reported:?}, outcome in the block {done:?}"
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
