//! A minimal provider: bids once on every order and records all events and outcomes.

use crate::chain_faults::world::{bid, bid_id, us};
use akash_provider_chain::AkashClient;
use akash_provider_core::chain::{ChainEvents, ChainQuery, ChainTx};
use akash_provider_core::types::{ChainEvent, Height, Msg, OrderId, OrderState, TxOutcome};
use futures::StreamExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) msg: Msg,
    pub(crate) outcome: Result<TxOutcome, String>,
}

/// All received events and all sent transactions.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Blocks in event order. Each `Resync` starts a new run.
    pub(crate) runs: Vec<Run>,
    pub(crate) calls: Vec<Call>,
    /// Orders for which this provider has sent or is sending a bid.
    pub(crate) seen: BTreeSet<OrderId>,
    pub(crate) under_way: usize,
    pub(crate) errors: u32,
}

/// Events between two `Resync` events.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) from: Height,
    pub(crate) blocks: Vec<(Height, Vec<ChainEvent>)>,
    /// Events of the incomplete last block.
    pub(crate) open: Vec<ChainEvent>,
}

#[derive(Debug, Clone)]
pub(crate) struct Bidder {
    pub(crate) client: AkashClient,
    record: Arc<Mutex<Record>>,
}

impl Bidder {
    pub(crate) fn new(client: AkashClient) -> Self {
        Self {
            client,
            record: Arc::default(),
        }
    }

    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap()
    }

    /// The highest received height.
    pub(crate) fn last_height(&self) -> Height {
        let record = self.record();
        let last = record.runs.last();
        last.map_or(0, |run| run.blocks.last().map_or(run.from, |(height, _)| *height))
    }

    /// Receives events and places bids until the stream ends.
    pub(crate) async fn run(self) {
        let mut events = self.client.subscribe(&us());
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.event(event),
                Err(_) => self.record().errors += 1,
            }
        }
    }

    fn event(&self, event: ChainEvent) {
        let mut orders = Vec::new();
        {
            let mut record = self.record();
            match event {
                ChainEvent::Resync(snapshot) => {
                    let run = Run {
                        from: snapshot.height,
                        ..Run::default()
                    };
                    record.runs.push(run);
                    let ours: BTreeSet<_> = snapshot.bids.iter().map(|bid| bid.id.order.clone()).collect();
                    let open = snapshot
                        .orders
                        .iter()
                        .filter(|order| order.state == OrderState::Open);
                    orders.extend(open.map(|order| order.id.clone()).filter(|id| !ours.contains(id)));
                }
                ChainEvent::Block { height, .. } => {
                    let run = record.runs.last_mut().unwrap();
                    let facts = std::mem::take(&mut run.open);
                    run.blocks.push((height, facts));
                }
                fact => {
                    if let ChainEvent::OrderCreated { id } = &fact {
                        orders.push(id.clone());
                    }
                    record.runs.last_mut().unwrap().open.push(fact);
                }
            }
            orders.retain(|order| record.seen.insert(order.clone()));
        }
        for order in orders {
            let this = self.clone();
            tokio::spawn(async move { this.bid(order).await });
        }
    }

    /// Sends a bid until the chain accepts it or the order is closed.
    async fn bid(&self, order: OrderId) {
        let msg = bid(&order);
        loop {
            match self.send(msg.clone()).await {
                // The bid was not sent, or can never land. Send it again unless the order is closed.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    let state = self.client.order(&order).await.ok().flatten().map(|o| o.state);
                    if matches!(state, Some(OrderState::Closed | OrderState::Active)) {
                        return;
                    }
                }
                Ok(TxOutcome::Unknown { expires }) => {
                    // The bid may land until its expiry. Query the object meanwhile.
                    loop {
                        tokio::time::sleep(Duration::from_millis(200)).await;
                        if self
                            .client
                            .bid(&bid_id(&order))
                            .await
                            .is_ok_and(|bid| bid.value.is_some())
                        {
                            return;
                        }
                        let now = self.client.sync_info().await;
                        if now.is_ok_and(|info| info.time > expires.plus(Duration::from_secs(5))) {
                            break;
                        }
                    }
                }
                Ok(TxOutcome::Committed { .. } | TxOutcome::Rejected { .. }) => return,
            }
        }
    }

    /// Sends a transaction and records its outcome.
    pub(crate) async fn send(&self, msg: Msg) -> Result<TxOutcome, String> {
        self.record().under_way += 1;
        let outcome = self.client.broadcast_msgs(vec![msg.clone()]).await;
        let outcome = outcome.map_err(|error| error.to_string());
        let mut record = self.record();
        record.under_way -= 1;
        record.calls.push(Call {
            msg,
            outcome: outcome.clone(),
        });
        outcome
    }

    /// Returns the number of sent transactions with each outcome.
    pub(crate) fn tally(&self) -> BTreeMap<&'static str, usize> {
        let mut tally = BTreeMap::new();
        for call in &self.record().calls {
            let name = match &call.outcome {
                Ok(TxOutcome::Committed { .. }) => "committed",
                Ok(TxOutcome::Rejected { .. }) => "rejected",
                Ok(TxOutcome::Unknown { .. }) => "unknown",
                Err(_) => "not sent",
            };
            *tally.entry(name).or_default() += 1;
        }
        tally
    }
}
