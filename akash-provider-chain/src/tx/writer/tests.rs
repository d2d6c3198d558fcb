//! The writer as a port, over a node in memory, on a clock that stands still unless everybody waits.

use super::*;
use crate::tx::api::{Simulation, Submission};
use crate::tx::fake::{CHAIN, Node};
use crate::tx::standing::{Standing, standing};
use akash_provider_core::chain::Account as ChainAccount;
use akash_provider_core::types::{Address, DecCoin};
use std::sync::{Mutex, MutexGuard};
use tokio::task::JoinHandle;

#[derive(Debug)]
struct Api {
    node: Mutex<Node>,
    deaf: std::sync::atomic::AtomicBool,
}

impl Api {
    fn node(&self) -> Result<MutexGuard<'_, Node>, Error> {
        if self.deaf.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Unavailable, "node", "no answer"));
        }
        Ok(self.node.lock().unwrap())
    }
}

#[async_trait]
impl TxApi for Api {
    async fn sync_info(&self) -> Result<SyncInfo, Error> {
        Ok(self.node()?.sync_info())
    }
    async fn account(&self, _address: &Address) -> Result<Option<ChainAccount>, Error> {
        Ok(Some(self.node()?.account()))
    }
    async fn min_gas_prices(&self) -> Result<Vec<DecCoin>, Error> {
        Ok(self.node()?.prices())
    }
    async fn simulate(&self, tx: Vec<u8>) -> Result<Simulation, Error> {
        Ok(self.node()?.simulate(&tx))
    }
    async fn broadcast(&self, tx: Vec<u8>) -> Result<Submission, Error> {
        Ok(self.node()?.broadcast(&tx))
    }
    async fn find(&self, hash: &TxHash) -> Result<Option<Included>, Error> {
        Ok(self.node()?.find(hash, 0))
    }
    async fn standing(&self, msg: &Msg) -> Result<Standing, Error> {
        let chain = self.node()?.chain.clone();
        standing(&chain, msg).await
    }
}

/// A writer, its node, and a block every two seconds.
fn started() -> (TxWriter, Arc<Api>, CancellationToken, JoinHandle<()>) {
    let key = PrivateKey::from_bytes(&[7; 32]).unwrap();
    let node = Mutex::new(Node::new(key.public()));
    let api = Arc::new(Api {
        node,
        deaf: false.into(),
    });
    let stop = CancellationToken::new();
    let (writer, task) = TxWriter::new(api.clone(), key, PlannerConfig::new(CHAIN), stop.clone());
    let running = tokio::spawn(task);
    let (blocks, until) = (api.clone(), stop.clone());
    tokio::spawn(async move {
        while !until.is_cancelled() {
            tokio::time::sleep(Duration::from_secs(2)).await;
            blocks.node.lock().unwrap().end_block(Duration::from_secs(2));
        }
    });
    (writer, api, stop, running)
}

fn bid(api: &Api, dseq: u64) -> Msg {
    let node = api.node.lock().unwrap();
    node.bid(&node.order(dseq))
}

#[tokio::test(start_paused = true)]
async fn calls_are_answered_with_the_height_they_landed_at() {
    let (writer, api, stop, running) = started();
    let bids: Vec<Msg> = (1..=20).map(|d| bid(&api, d)).collect();
    let calls = bids.into_iter().map(|b| writer.broadcast_msgs(vec![b]));
    for outcome in futures::future::join_all(calls).await {
        assert!(matches!(outcome, Ok(TxOutcome::Committed { .. })), "{outcome:?}");
    }
    assert_eq!(api.node.lock().unwrap().executed.len(), 20);
    let error = writer.broadcast_msgs(vec![]).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Invalid, false));
    stop.cancel();
    running.await.unwrap();
    let error = writer.broadcast_msgs(vec![bid(&api, 99)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_goes_away_leaves_nothing_to_send() {
    let (writer, api, stop, running) = started();
    api.deaf.store(true, Ordering::Relaxed);
    let call = writer.broadcast_msgs(vec![bid(&api, 1)]);
    assert!(timeout(Duration::from_secs(5), call).await.is_err());
    api.deaf.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(api.node.lock().unwrap().executed.is_empty());
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_block_that_is_observed_answers_without_a_question() {
    let (writer, api, stop, running) = started();
    let call = {
        let (writer, bid) = (writer.clone(), bid(&api, 1));
        tokio::spawn(async move { writer.broadcast_msgs(vec![bid]).await })
    };
    let moment = || tokio::time::sleep(Duration::from_millis(10));
    while api.node.lock().unwrap().waiting() == 0 {
        moment().await;
    }
    api.deaf.store(true, Ordering::Relaxed);
    while api.node.lock().unwrap().included().is_empty() {
        moment().await;
    }
    let seen = {
        let node = api.node.lock().unwrap();
        SeenBlock {
            block: node.sync_info(),
            is_newest: true,
            included: Some(node.included()),
        }
    };
    writer.observe_block(seen);
    let outcome = call.await.unwrap();
    assert!(matches!(outcome, Ok(TxOutcome::Committed { .. })), "{outcome:?}");
    stop.cancel();
    running.await.unwrap();
}
