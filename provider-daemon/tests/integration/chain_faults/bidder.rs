//! The least a provider does: it bids on every order once, and writes down what it was told.

use crate::chain_faults::world::{bid, bid_id, us};
use akash_provider_chain::AkashClient;
use akash_provider_core::chain::{ChainEvents, ChainQuery, ChainTx};
use akash_provider_core::types::{ChainEvent, Height, Msg, OrderId, OrderState, TxOutcome};
use futures::StreamExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// A call and what it was answered.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) msg: Msg,
    pub(crate) outcome: Result<TxOutcome, String>,
}

/// Everything that was told and done.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// Blocks in the order they were told; a `Resync` begins a new run.
    pub(crate) runs: Vec<Run>,
    pub(crate) calls: Vec<Call>,
    /// Orders that are being bid on, or have been.
    pub(crate) known: BTreeSet<OrderId>,
    pub(crate) under_way: usize,
    pub(crate) errors: u32,
}

/// What came between two `Resync`.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) from: Height,
    pub(crate) blocks: Vec<(Height, Vec<ChainEvent>)>,
    /// Facts of a block that is not closed yet.
    pub(crate) open: Vec<ChainEvent>,
}

#[derive(Debug, Clone)]
pub(crate) struct Bidder {
    pub(crate) client: AkashClient,
    book: Arc<Mutex<Book>>,
}

impl Bidder {
    pub(crate) fn new(client: AkashClient) -> Self {
        Self {
            client,
            book: Arc::default(),
        }
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }

    /// The newest height that was told.
    pub(crate) fn told(&self) -> Height {
        let book = self.book();
        let last = book.runs.last();
        last.map_or(0, |run| run.blocks.last().map_or(run.from, |(height, _)| *height))
    }

    /// Listens and bids until the stream ends.
    pub(crate) async fn run(self) {
        let mut events = self.client.subscribe(&us());
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.event(event),
                Err(_) => self.book().errors += 1,
            }
        }
    }

    fn event(&self, event: ChainEvent) {
        let mut orders = Vec::new();
        {
            let mut book = self.book();
            match event {
                ChainEvent::Resync(snapshot) => {
                    let run = Run {
                        from: snapshot.height,
                        ..Run::default()
                    };
                    book.runs.push(run);
                    let ours: BTreeSet<_> = snapshot.bids.iter().map(|bid| bid.id.order.clone()).collect();
                    let open = snapshot
                        .orders
                        .iter()
                        .filter(|order| order.state == OrderState::Open);
                    orders.extend(open.map(|order| order.id.clone()).filter(|id| !ours.contains(id)));
                }
                ChainEvent::Block { height, .. } => {
                    let run = book.runs.last_mut().unwrap();
                    let facts = std::mem::take(&mut run.open);
                    run.blocks.push((height, facts));
                }
                fact => {
                    if let ChainEvent::OrderCreated { id } = &fact {
                        orders.push(id.clone());
                    }
                    book.runs.last_mut().unwrap().open.push(fact);
                }
            }
            orders.retain(|order| book.known.insert(order.clone()));
        }
        for order in orders {
            let this = self.clone();
            tokio::spawn(async move { this.bid(order).await });
        }
    }

    /// Bids until it is certain what became of it.
    async fn bid(&self, order: OrderId) {
        let msg = bid(&order);
        loop {
            match self.send(msg.clone()).await {
                // Certainly not sent, or certain never to land: again, unless nobody wants it any more.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    let state = self.client.order(&order).await.ok().flatten().map(|o| o.state);
                    if matches!(state, Some(OrderState::Closed | OrderState::Active)) {
                        return;
                    }
                }
                Ok(TxOutcome::Unknown { expires }) => {
                    // It may land until then; the object tells.
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

    /// Sends and writes down.
    pub(crate) async fn send(&self, msg: Msg) -> Result<TxOutcome, String> {
        self.book().under_way += 1;
        let outcome = self.client.broadcast_msgs(vec![msg.clone()]).await;
        let outcome = outcome.map_err(|error| error.to_string());
        let mut book = self.book();
        book.under_way -= 1;
        book.calls.push(Call {
            msg,
            outcome: outcome.clone(),
        });
        outcome
    }

    /// How the calls ended, by name.
    pub(crate) fn tally(&self) -> BTreeMap<&'static str, usize> {
        let mut tally = BTreeMap::new();
        for call in &self.book().calls {
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
