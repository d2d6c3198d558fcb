//! Engine without tasks, clock or waiting: inputs go in, effects come out.
//!
//! ```text
//!   inputs ──► Engine::step ──► effects ──► results from the market and a map ──► inputs …
//! ```
//! This example is a complete environment for the engine. All decisions are in the engine, which is the one that
//! the provider runs. The example also builds for a browser.

use akash_provider_core::cluster::{ClusterChange, Health, Teardown, WorkloadSpec};
use akash_provider_core::engine::{
    Call, Completion, Effect, EffectId, Engine, Input, Request, RequestId, Response, Status, Workloads,
};
use akash_provider_core::inventory::{InventoryUpdate, NodeInventory};
use akash_provider_core::market::{Market, Rejection, TenantMsg};
use akash_provider_core::pricing::Scale;
use akash_provider_core::types::{
    Address, Agreement, BidState, ChainEvent, Event, LeaseId, Mono, Msg, Now, Observed, TxOutcome,
};
use akash_provider_core::{ErrorKind, Failure};
use example_embedded::{BLOCK, Failed, PROVIDER, cluster, config, market, prices};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Engine of a provider, with a market and a cluster in memory. The caller advances the time block by block.
#[derive(Debug)]
pub struct ManualProvider {
    engine: Engine,
    market: Market,
    prices: Scale,
    provider: Address,
    workloads: BTreeMap<LeaseId, WorkloadSpec>,
    inputs: VecDeque<Input>,
    mono: Mono,
    requests: u64,
    replies: BTreeMap<RequestId, Response>,
    facts: Vec<Arc<Event>>,
}

impl ManualProvider {
    /// Creates a provider with a market, a cluster and its capacity.
    ///
    /// # Errors
    /// This function never fails with the constants of the embedded example.
    pub fn new() -> Result<Self, Failed> {
        let mut hand = Self {
            engine: Engine::new(config()?)?,
            market: market()?,
            prices: prices()?,
            provider: PROVIDER.parse()?,
            workloads: BTreeMap::new(),
            inputs: VecDeque::new(),
            mono: Mono(0),
            requests: 0,
            replies: BTreeMap::new(),
            facts: Vec::new(),
        };
        let snapshot = hand.market.snapshot(&hand.provider);
        let health = BTreeMap::new();
        hand.inputs.extend([
            Input::Chain(ChainEvent::Resync(Arc::new(snapshot))),
            Input::Cluster(ClusterChange::Snapshot { health }),
            Input::Inventory(InventoryUpdate {
                inventory: Arc::new(NodeInventory::new(&cluster())),
                placements: Vec::new(),
                leased_ips: None,
            }),
        ]);
        hand.settle();
        Ok(hand)
    }

    /// Returns the market.
    #[must_use]
    pub const fn market(&self) -> &Market {
        &self.market
    }

    /// Returns the deployed workload of each lease.
    #[must_use]
    pub const fn workloads(&self) -> &BTreeMap<LeaseId, WorkloadSpec> {
        &self.workloads
    }

    /// Returns the events that the engine has published.
    #[must_use]
    pub fn facts(&self) -> &[Arc<Event>] {
        &self.facts
    }

    /// Returns the status of the engine.
    #[must_use]
    pub fn status(&self) -> Status {
        self.engine.status(self.now())
    }

    /// Executes a message of a tenant.
    ///
    /// # Errors
    /// The market refuses the message.
    pub fn tenant(&mut self, msg: TenantMsg) -> Result<(), Rejection> {
        let events = self.market.tenant(msg)?;
        self.inputs.extend(events.into_iter().map(Input::Chain));
        self.settle();
        Ok(())
    }

    /// Sends a request to the engine. Returns the response, or `None` without an immediate response.
    pub fn request(&mut self, request: Request) -> Option<Response> {
        let id = RequestId(self.requests);
        self.requests += 1;
        self.inputs.push_back(Input::Request(id, request));
        self.settle();
        self.replies.remove(&id)
    }

    /// Completes a block, advances all clocks, and handles passed deadlines.
    pub fn block(&mut self) {
        let block = self.market.end_block(BLOCK);
        self.inputs.push_back(Input::Chain(block));
        self.settle();
        let until = self.mono.plus(BLOCK);
        while let Some(due) = self.engine.next_deadline().filter(|due| *due <= until) {
            // A deadline that stays in the past must not stop the clock.
            self.mono = due.max(Mono(self.mono.0 + 1));
            let effects = self.engine.handle_timeout(self.now());
            self.execute(effects);
            self.settle();
        }
        self.mono = self.mono.max(until);
    }

    fn now(&self) -> Now {
        Now {
            mono: self.mono,
            block_time: self.market.time(),
        }
    }

    /// Executes effects and passes the results to the engine, until no effect remains.
    fn settle(&mut self) {
        while let Some(input) = self.inputs.pop_front() {
            let effects = self.engine.step(self.now(), input);
            self.execute(effects);
        }
    }

    fn execute(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Call(id, call) => self.complete(id, call),
                Effect::Publish(fact) => self.facts.push(fact),
                Effect::Reply(id, response) => drop(self.replies.insert(id, response)),
            }
        }
    }

    /// Executes a call at once and passes its result to the engine.
    fn complete(&mut self, id: EffectId, call: Call) {
        let market = &self.market;
        let completion = match call {
            Call::FetchOrder(order) => Completion::Order(Ok(market.order(&order).cloned())),
            Call::CountBids(order) => {
                let counts = market.bids_of(&order).filter(|b| b.state != BidState::Lost);
                Completion::BidCount(Ok(u32::try_from(counts.count()).unwrap_or(u32::MAX)))
            }
            Call::FetchBalances(denoms) => {
                let balance = |denom| market.balance(&self.provider, denom);
                Completion::Balances(Ok(denoms.iter().map(|denom| balance(denom)).collect()))
            }
            Call::FetchProvider => Completion::Provider(Ok(market.provider(&self.provider).cloned())),
            Call::FetchAudit(auditor) => {
                Completion::Audit(Ok(market.auditor_attributes(&auditor, &self.provider)))
            }
            Call::FetchBid(bid) => Completion::Bid(Ok(self.observed(market.bid(&bid).cloned()))),
            Call::FetchLease(lease) => Completion::Lease(Ok(self.observed(market.lease(&lease)))),
            Call::FetchDeployment(id) => Completion::Deployment(Ok(market.deployment(&id))),
            Call::FetchSnapshot => Completion::Snapshot(Ok(Arc::new(market.snapshot(&self.provider)))),
            Call::CalculatePrice(request) => Completion::Price(self.prices.price(&request).map_err(no_price)),
            Call::Broadcast(msg) => Completion::Tx(Ok(self.broadcast(&msg))),
            // A map is as durable as the example.
            Call::Record(_) => Completion::Cluster(Ok(())),
            Call::Deploy { deployment, .. } => {
                let (lease, health) = (deployment.lease.clone(), Health::Good);
                self.workloads
                    .insert(lease.clone(), WorkloadSpec::clone(&deployment));
                let change = ClusterChange::Health { lease, health };
                self.inputs.push_back(Input::Cluster(change));
                Completion::Cluster(Ok(()))
            }
            Call::Teardown(lease) => {
                self.workloads.remove(&lease);
                Completion::Teardown(Ok(Teardown::Done))
            }
            Call::ListWorkloads => Completion::Workloads(Ok(Workloads {
                listing: self.workloads.values().cloned().collect::<Vec<_>>().into(),
                hostnames: None,
                ips: None,
            })),
        };
        self.inputs.push_back(Input::Completed(id, completion));
    }

    fn observed<T>(&self, value: Option<T>) -> Observed<T> {
        Observed {
            value,
            height: self.market.height(),
            agreement: Agreement::Single,
        }
    }

    fn broadcast(&mut self, msg: &Msg) -> TxOutcome {
        match self.market.execute(msg) {
            Ok(events) => {
                self.inputs.extend(events.into_iter().map(Input::Chain));
                // Transactions are part of the block after the newest complete one.
                let height = self.market.height() + 1;
                TxOutcome::Committed { height }
            }
            Err(Rejection { error, code, log }) => TxOutcome::Rejected { error, code, log },
        }
    }
}

fn no_price(error: akash_provider_core::pricing::PriceError) -> Failure {
    Failure {
        kind: ErrorKind::Invalid,
        transient: false,
        message: error.to_string(),
    }
}
