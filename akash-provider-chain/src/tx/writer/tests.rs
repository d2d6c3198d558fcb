//! Transaction writer with a simulated node, on a paused clock.

use super::*;
use crate::gas::{CeilingScope, MemoryExpenses, Minute};
use crate::private_key::PrivateKey;
use crate::tx::api::{Code, Simulation, Submission};
use crate::tx::fake::{CHAIN, Node};
use crate::tx::object_state::{ObjectState, object_state};
use akash_provider_core::chain::Account as ChainAccount;
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::market::Market;
use akash_provider_core::types::{Address, Coin, DecCoin, TxError};
use futures::FutureExt;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};
use tokio::task::JoinHandle;

#[derive(Debug)]
struct Api {
    node: Mutex<Node>,
    is_unreachable: std::sync::atomic::AtomicBool,
    /// Number of transactions that the full mempool of the node still refuses.
    refusals: std::sync::atomic::AtomicU32,
    /// Delay of each response of the node.
    late: Duration,
}

impl Api {
    async fn node(&self) -> Result<MutexGuard<'_, Node>, Error> {
        tokio::time::sleep(self.late).await;
        if self.is_unreachable.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Unavailable, "node", "no response"));
        }
        Ok(self.node.lock().unwrap())
    }
}

#[async_trait]
impl TxApi for Api {
    async fn sync_info(&self) -> Result<SyncInfo, Error> {
        Ok(self.node().await?.sync_info())
    }
    async fn account(&self, _address: &Address) -> Result<Option<ChainAccount>, Error> {
        Ok(Some(self.node().await?.account()))
    }
    async fn balance(&self, address: &Address, denom: &str) -> Result<Coin, Error> {
        Ok(self.node().await?.chain.market(|m| m.balance(address, denom)))
    }
    async fn min_gas_prices(&self) -> Result<Vec<DecCoin>, Error> {
        Ok(self.node().await?.prices())
    }
    async fn simulate(&self, tx: Vec<u8>) -> Result<Simulation, Error> {
        Ok(self.node().await?.simulate(&tx))
    }
    async fn broadcast(&self, tx: Vec<u8>) -> Result<Submission, Error> {
        let mut node = self.node().await?;
        if self.refusals.load(Ordering::Relaxed) == 0 {
            return Ok(node.broadcast(&tx));
        }
        self.refusals.fetch_sub(1, Ordering::Relaxed);
        let (space, log) = ("sdk".to_owned(), "mempool is full".to_owned());
        let code = Code { space, number: 20 };
        Ok(Submission::Refused { code, log })
    }
    async fn find(&self, hash: &TxHash) -> Result<Option<IncludedTx>, Error> {
        Ok(self.node().await?.find(hash, 0))
    }
    async fn object_state(&self, msg: &Msg) -> Result<ObjectState, Error> {
        let chain = self.node().await?.chain.clone();
        object_state(&chain, msg).await
    }
}

fn key() -> PrivateKey {
    PrivateKey::from_bytes(&[7; 32]).unwrap()
}

fn signer(gate: &LeadershipGate) -> TxSigner {
    TxSigner::new(key(), gate.clone())
}

/// Starts a node that completes a block every two seconds.
fn node(late: Duration, stop: &CancellationToken) -> Arc<Api> {
    let api = Arc::new(Api {
        node: Mutex::new(Node::new(key().public())),
        is_unreachable: false.into(),
        refusals: 0.into(),
        late,
    });
    let (blocks, until) = (api.clone(), stop.clone());
    tokio::spawn(async move {
        while !until.is_cancelled() {
            tokio::time::sleep(Duration::from_secs(2)).await;
            blocks.node.lock().unwrap().end_block(Duration::from_secs(2));
        }
    });
    api
}

fn started() -> (TxWriter, Arc<Api>, CancellationToken, JoinHandle<()>) {
    started_with(&LeadershipGate::new(true))
}

fn started_with(gate: &LeadershipGate) -> (TxWriter, Arc<Api>, CancellationToken, JoinHandle<()>) {
    let stop = CancellationToken::new();
    let api = node(Duration::ZERO, &stop);
    let (config, expenses) = (PlannerConfig::new(CHAIN), Arc::new(MemoryExpenses::default()));
    let (writer, task) = TxWriter::new(api.clone(), signer(gate), config, expenses, stop.clone());
    (writer, api, stop, tokio::spawn(task))
}

fn bid(api: &Api, dseq: u64) -> Msg {
    let node = api.node.lock().unwrap();
    node.bid(&node.order(dseq))
}

#[tokio::test(start_paused = true)]
async fn calls_return_the_height_of_inclusion() {
    let (writer, api, stop, running) = started();
    let bids: Vec<Msg> = (1..=20).map(|d| bid(&api, d)).collect();
    assert_eq!(writer.receipt_of(&bids[0]), None);
    let calls = bids.iter().map(|b| writer.broadcast_msgs(vec![b.clone()]));
    for outcome in futures::future::join_all(calls).await {
        assert!(matches!(outcome, Ok(TxOutcome::Committed { .. })), "{outcome:?}");
    }
    assert_eq!(api.node.lock().unwrap().executed.len(), 20);
    // A transaction with a bid contains no other message.
    let hashes: BTreeSet<String> = bids
        .iter()
        .map(|bid| writer.receipt_of(bid).unwrap().hash)
        .collect();
    assert_eq!(hashes.len(), 20);
    let error = writer.broadcast_msgs(vec![]).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Invalid, false));
    stop.cancel();
    running.await.unwrap();
    let error = writer.broadcast_msgs(vec![bid(&api, 99)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stopped);
    let counted = writer.statistics();
    let bids = |outcome| counted.messages.get(&("MsgCreateBid", outcome)).copied();
    assert_eq!(bids(MessageOutcome::Committed), Some(20));
    assert_eq!(bids(MessageOutcome::NotSent), Some(1));
    assert_eq!((counted.submissions, counted.included), (20, 20));
    assert_eq!(counted.outcome_times.total(), 20);
    let node = api.node.lock().unwrap();
    assert_eq!(counted.fees.len(), 1);
    assert_eq!(u128::from(counted.fees[&Denom::from("uakt")]), node.fees);
    assert!(node.fees > 0);
}

#[tokio::test(start_paused = true)]
async fn a_receipt_has_the_hash_and_the_fee_of_the_transaction_of_the_last_call() {
    let gate = LeadershipGate::new(true);
    let (writer, api, stop, running) = started_with(&gate);
    let bid = bid(&api, 1);
    let outcome = writer.broadcast_msgs(vec![bid.clone()]).await;
    assert!(matches!(outcome, Ok(TxOutcome::Committed { .. })), "{outcome:?}");
    let receipt = writer.receipt_of(&bid).unwrap();
    let (included, fees) = {
        let node = api.node.lock().unwrap();
        (node.included(), node.fees)
    };
    assert_eq!(included.len(), 1);
    assert_eq!(receipt.hash, included[0].0.to_string());
    assert_eq!((receipt.fee.amount, &*receipt.fee.denom), (fees, "uakt"));
    // Another leader may exist, so no transaction is sent.
    gate.set(false);
    let unsent = writer.broadcast_msgs(vec![bid.clone()]).await;
    assert_eq!(unsent.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(writer.receipt_of(&bid), None);
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn closed_gate_prevents_signing_of_waiting_calls() {
    let stop = CancellationToken::new();
    // The account query and the simulation take one second each.
    let api = node(Duration::from_secs(1), &stop);
    let (config, expenses) = (PlannerConfig::new(CHAIN), Arc::new(MemoryExpenses::default()));
    let gate = LeadershipGate::new(true);
    let (writer, task) = TxWriter::new(api.clone(), signer(&gate), config, expenses, stop.clone());
    let running = tokio::spawn(task);
    let mut sent = 0;
    // The first call waits for the account, the second one for its simulation.
    for (dseq, shuts_after, is_sent) in [(1, 500, false), (2, 500, false), (3, 60_000, true), (4, 0, false)] {
        let until = Instant::now() + Duration::from_millis(shuts_after);
        gate.set_until(1, until);
        let bid = bid(&api, dseq);
        let outcome = writer.broadcast_msgs(vec![bid]).await;
        match outcome {
            Ok(TxOutcome::Committed { .. }) => assert!(is_sent, "{dseq}"),
            Err(error) => assert_eq!(
                (error.kind(), is_sent),
                (ErrorKind::Unavailable, false),
                "{error}"
            ),
            other => panic!("{other:?}"),
        }
        sent += usize::from(is_sent);
        assert_eq!(api.node.lock().unwrap().executed.len(), sent, "{dseq}");
    }
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn bid_without_sufficient_balance_fails_without_cost() {
    // First without the deposit, then without the fee. The simulated node does not check the fee, so a closed order
    // is the reason there.
    let cases = [
        ("uact", 499_999, TxError::InsufficientFunds),
        ("uakt", 1, TxError::FeeUnpaid),
    ];
    for (lacking, left, lack) in cases {
        let (writer, api, stop, running) = started();
        let bid = bid(&api, 1);
        {
            let node = api.node.lock().unwrap();
            let Msg::CreateBid { id, .. } = &bid else {
                unreachable!()
            };
            let account = |m: &mut Market| m.account_mut(key().address()).coins.insert(lacking.into(), left);
            node.chain.market(account);
            if lacking == "uakt" {
                node.close_by_tenant(id.deployment());
            }
        }
        let outcome = writer.broadcast_msgs(vec![bid]).await.unwrap();
        let TxOutcome::Rejected { error, code, .. } = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!((error, &*code), (lack, "simulation"), "{lacking}");
        assert!(api.node.lock().unwrap().included().is_empty(), "{lacking}");
        let counted = writer.statistics();
        assert_eq!(counted.refusals, [("simulation".to_owned(), 1)].into());
        assert_eq!((counted.submissions, counted.fees.len()), (0, 0));
        stop.cancel();
        running.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn submissions_that_a_full_mempool_refuses_are_counted_and_repeated() {
    let (writer, api, stop, running) = started();
    api.refusals.store(2, Ordering::Relaxed);
    let outcome = writer.broadcast_msgs(vec![bid(&api, 1)]).await;
    assert!(matches!(outcome, Ok(TxOutcome::Committed { .. })), "{outcome:?}");
    let counted = writer.statistics();
    assert_eq!(counted.refused_submissions, [("sdk/20".to_owned(), 2)].into());
    assert_eq!(
        (counted.mempool_full, counted.submissions, counted.included),
        (2, 3, 1)
    );
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dropped_call_is_not_sent() {
    let (writer, api, stop, running) = started();
    api.is_unreachable.store(true, Ordering::Relaxed);
    let call = writer.broadcast_msgs(vec![bid(&api, 1)]);
    assert!(timeout(Duration::from_secs(5), call).await.is_err());
    api.is_unreachable.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(api.node.lock().unwrap().executed.is_empty());
    let counted = writer.statistics().messages;
    assert_eq!(counted, [(("MsgCreateBid", MessageOutcome::Abandoned), 1)].into());
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn observed_block_completes_a_call_without_a_query() {
    let (writer, api, stop, running) = started();
    let call = {
        let (writer, bid) = (writer.clone(), bid(&api, 1));
        tokio::spawn(async move { writer.broadcast_msgs(vec![bid]).await })
    };
    let moment = || tokio::time::sleep(Duration::from_millis(10));
    while api.node.lock().unwrap().waiting() == 0 {
        moment().await;
    }
    api.is_unreachable.store(true, Ordering::Relaxed);
    while api.node.lock().unwrap().included().is_empty() {
        moment().await;
    }
    let seen = {
        let node = api.node.lock().unwrap();
        ObservedBlock {
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

#[tokio::test(start_paused = true)]
async fn completed_transactions_are_removed_with_a_slow_node() {
    const CALLS: u64 = 1_200;
    const UNDER_WAY: usize = 64;
    let stop = CancellationToken::new();
    let api = node(Duration::from_millis(1_500), &stop);
    let mut task = Task::new(
        api.clone(),
        signer(&LeadershipGate::new(true)),
        PlannerConfig::new(CHAIN),
        Arc::new(MemoryExpenses::default()),
    );
    let (inbox, mut commands) = mpsc::channel(INBOX);
    let mut answers = FuturesUnordered::new();
    let (mut calls, mut committed, mut most_hashes) = (0, 0, 0);
    while committed < CALLS {
        // A provider always has transactions in flight, so the writer is never idle.
        while calls < CALLS && answers.len() < UNDER_WAY {
            let (reply, answer) = oneshot::channel();
            let msgs = vec![bid(&api, calls + 1)];
            inbox.send(Command::Submit(calls, msgs, reply)).await.unwrap();
            answers.push(answer);
            calls += 1;
        }
        assert!(task.turn(&mut commands, &stop).await);
        let (waiting, in_flight) = task.planner.load();
        assert!(
            waiting + in_flight <= UNDER_WAY,
            "{waiting} transactions queued, {in_flight} in flight"
        );
        assert!(task.replies.len() <= UNDER_WAY, "{} replies", task.replies.len());
        // One call per transaction in flight, plus the queries of block, account and prices.
        assert!(
            task.calls.len() <= in_flight + 3 + UNDER_WAY,
            "{} calls",
            task.calls.len()
        );
        most_hashes = most_hashes.max(task.hashes.len());
        while let Some(Some(answer)) = answers.next().now_or_never() {
            let outcome = answer.unwrap();
            assert!(matches!(outcome, Ok(TxOutcome::Committed { .. })), "{outcome:?}");
            committed += 1;
        }
    }
    assert!(
        most_hashes > UNDER_WAY && most_hashes <= HASHES_MIN.max(4 * UNDER_WAY),
        "{most_hashes} hashes"
    );
    stop.cancel();
}

/// Store that always fails.
#[derive(Debug)]
struct NoDisk;

impl ExpenseStore for NoDisk {
    fn load(&self) -> Result<Vec<Minute>, Error> {
        Err(Error::new(ErrorKind::Unavailable, "load", "no disk"))
    }
    fn store(&self, _minutes: Vec<Minute>) -> Result<(), Error> {
        Err(Error::new(ErrorKind::Unavailable, "store", "no disk"))
    }
}

/// Creates a writer and places bids for 30 seconds. Returns the number of bids in blocks, and the `problem`
/// of the writer.
async fn bids(
    api: &Arc<Api>,
    expenses: Arc<dyn ExpenseStore>,
    dseqs: std::ops::Range<u64>,
) -> (usize, Option<String>) {
    let stop = CancellationToken::new();
    let mut config = PlannerConfig::new(CHAIN);
    // The fee of a bid is 3,750. Three quarters of the ceiling are available for bids: four bids.
    config
        .gas
        .ceilings
        .change(CeilingScope::Hour, |most| most.fee = 20_000);
    let (writer, task) = TxWriter::new(
        api.clone(),
        signer(&LeadershipGate::new(true)),
        config,
        expenses,
        stop.clone(),
    );
    let running = tokio::spawn(task);
    let bids: Vec<Msg> = dseqs.map(|d| bid(api, d)).collect();
    let calls = bids.into_iter().map(|bid| {
        let writer = writer.clone();
        tokio::spawn(async move { writer.broadcast_msgs(vec![bid]).await })
    });
    let calls: Vec<_> = calls.collect();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let landed = calls.iter().filter(|call| call.is_finished()).count();
    let problem = writer.status().problem;
    stop.cancel();
    running.await.unwrap();
    (landed, problem)
}

#[tokio::test(start_paused = true)]
async fn hourly_ceiling_survives_a_restart() {
    let stop = CancellationToken::new();
    let api = node(Duration::ZERO, &stop);
    let expenses = Arc::new(MemoryExpenses::default());
    assert_eq!(bids(&api, expenses.clone(), 1..4).await, (3, None));
    let (landed, problem) = bids(&api, expenses.clone(), 4..7).await;
    let problem = problem.unwrap();
    assert_eq!(landed, 1, "{problem}");
    assert!(problem.contains("15000 for an hour (bid)"), "{problem}");
    // One hour later, the full ceiling is available.
    let old = expenses.load().unwrap().into_iter();
    let old = old.map(|minute| Minute {
        at: minute.at - 60,
        ..minute
    });
    expenses.store(old.collect()).unwrap();
    assert_eq!(bids(&api, expenses, 7..11).await, (4, None));
    // A failing store does not prevent transactions.
    assert_eq!(bids(&api, Arc::new(NoDisk), 11..14).await, (3, None));
    stop.cancel();
}
