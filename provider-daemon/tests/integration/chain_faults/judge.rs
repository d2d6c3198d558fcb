//! What must hold when all is over, held against the market and against every block of the network.

use crate::chain_faults::bidder::Bidder;
use crate::chain_faults::world::us;
use crate::landed::Landed;
use akash_provider_core::chain::{ChainEvents, MemoryChain};
use akash_provider_core::types::{ChainEvent, Height, TxOutcome};
use futures::StreamExt;
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
