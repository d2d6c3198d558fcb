//! A model of one engine's inputs and calls, used to decide whether a call is allowed.

use crate::calls::INCOMPLETE;
use crate::capacity::Reservations;
use crate::ids::PROVIDER;
use akash_provider_core::cluster::{ClusterChange, Health, Outage};
use akash_provider_core::engine::{
    Call, Completion, EffectId, Input, Leadership, Request, RequestId, Response, Workloads,
};
use akash_provider_core::types::{
    Agreement, BidId, BlockTime, ChainEvent, Coin, Denom, DeploymentId, Height, LeaseId, Mono, Msg, Observed,
    OrderId, ResourceUnit, TxError, TxOutcome,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: &'static str,
    pub(crate) what: String,
}

pub(crate) type Checked = Result<(), Violation>;

pub(crate) fn ensure(rule: &'static str, holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds {
        return Ok(());
    }
    Err(Violation { rule, what: what() })
}

/// Total time for which a lease was reported as unhealthy.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct UnhealthyTime {
    since: Option<Mono>,
    before: Duration,
}

impl UnhealthyTime {
    fn update(&mut self, now: Mono, health: Health) {
        match health {
            Health::Bad => drop(self.since.get_or_insert(now)),
            Health::Unknown | Health::Out(_) => {
                self.before = self.time(now);
                self.since = None;
            }
            Health::Good => *self = Self::default(),
        }
    }

    /// Restarts the measurement of unhealthy time after a deploy.
    fn deployed(&mut self, now: Mono) {
        self.before = Duration::ZERO;
        self.since = self.since.map(|_| now);
    }

    pub(crate) fn time(&self, now: Mono) -> Duration {
        self.before + self.since.map(|s| now.since(s)).unwrap_or_default()
    }
}

/// Inputs and calls of one engine, from its start to its end.
#[derive(Debug, Clone)]
pub(crate) struct EngineModel {
    pub(crate) leadership: Leadership,
    pub(crate) stopping: bool,
    pub(crate) mono: Mono,
    pub(crate) height: Height,
    pub(crate) block_time: BlockTime,
    /// Orders for which a bid of the provider was reported to the engine.
    pub(crate) bids: BTreeSet<OrderId>,
    /// Resources that the provider offers in each bid, from sent bids, snapshots and bid queries.
    pub(crate) offers: BTreeMap<OrderId, Vec<ResourceUnit>>,
    /// Deposits that the account could not pay, by order and denomination. An entry is removed when a balance
    /// query returns a sufficient balance.
    pub(crate) unpaid: BTreeMap<(OrderId, Denom), u128>,
    /// Result of the last account query.
    pub(crate) balances: Option<Vec<Coin>>,
    /// Bid deposits that are possibly not deducted in the last queried balance.
    pub(crate) unread: BTreeMap<BidId, Coin>,
    /// Bid deposits that are possibly not deducted in the result of the pending balance query.
    in_reading: Option<BTreeMap<BidId, Coin>>,
    /// Expiry of each bid transaction with an unknown outcome, as a block time.
    pub(crate) unsure: BTreeMap<OrderId, BlockTime>,
    /// Bids that the chain reported to the engine.
    pub(crate) visible: BTreeSet<BidId>,
    /// Leases reported to the engine.
    pub(crate) leases: BTreeSet<LeaseId>,
    /// Bids that were reported to the engine as lost.
    pub(crate) lost: BTreeSet<BidId>,
    /// Leases with a recorded manifest. The engine has received the result of the `Record` call.
    pub(crate) recorded: BTreeSet<LeaseId>,
    /// Leases with any object in the last cluster list.
    pub(crate) there: BTreeSet<LeaseId>,
    /// Leases that were missing in the last cluster list. The engine had read a wrong namespace or cluster.
    pub(crate) hidden: BTreeSet<LeaseId>,
    /// Whether the last list of the workloads in the cluster was incomplete.
    pub(crate) short_list: bool,
    /// Whether the operator released the circuit breaker.
    pub(crate) released: bool,
    /// Leases that the operator closed by a command.
    pub(crate) ended: BTreeSet<LeaseId>,
    pub(crate) unwell: BTreeMap<LeaseId, UnhealthyTime>,
    /// Leases that the engine deployed.
    pub(crate) deployed: BTreeSet<LeaseId>,
    /// Leases with a successful last deploy.
    pub(crate) whole: BTreeSet<LeaseId>,
    /// Pending calls of the engine.
    pub(crate) calls: BTreeMap<EffectId, Call>,
    /// Requests to the engine that have no reply yet.
    pub(crate) requests: BTreeSet<RequestId>,
    /// Reservations and capacity of the engine at the last check.
    pub(crate) sales: Reservations,
    /// Number of inputs that were delivered twice.
    pub(crate) repeated: u64,
}

impl EngineModel {
    pub(crate) fn new() -> Self {
        Self {
            leadership: Leadership::Leader { epoch: 0 },
            stopping: false,
            mono: Mono(0),
            height: 0,
            block_time: BlockTime(0),
            bids: BTreeSet::new(),
            offers: BTreeMap::new(),
            unpaid: BTreeMap::new(),
            balances: None,
            unread: BTreeMap::new(),
            in_reading: None,
            unsure: BTreeMap::new(),
            visible: BTreeSet::new(),
            leases: BTreeSet::new(),
            lost: BTreeSet::new(),
            recorded: BTreeSet::new(),
            there: BTreeSet::new(),
            hidden: BTreeSet::new(),
            short_list: false,
            released: false,
            ended: BTreeSet::new(),
            unwell: BTreeMap::new(),
            deployed: BTreeSet::new(),
            whole: BTreeSet::new(),
            calls: BTreeMap::new(),
            requests: BTreeSet::new(),
            sales: Reservations::default(),
            repeated: 0,
        }
    }

    /// Records an input of the engine. `leases` contains the active leases if the input is from the cluster.
    pub(crate) fn input(&mut self, input: &Input, leases: &[LeaseId]) {
        match input {
            Input::Chain(event) => self.event(event),
            Input::Cluster(change) => self.change(change, leases),
            Input::Inventory(_) => {}
            Input::Completed(id, completion) => self.completed(*id, completion),
            Input::Request(id, request) => {
                self.requests.insert(*id);
                match request {
                    Request::EndLease { lease, .. } => drop(self.ended.insert(lease.clone())),
                    Request::ReleaseBreaker => self.released = true,
                    _ => {}
                }
            }
            Input::Leadership(leadership) => self.leadership = *leadership,
            // The simulation never holds bids back. The engine tests cover this.
            Input::HoldBids(_) | Input::Kept(_) | Input::PricesChanged => {}
            Input::Shutdown => self.stopping = true,
            unknown => panic!("the oracle does not handle {unknown:?}"),
        }
    }

    pub(crate) fn called(&mut self, id: EffectId, call: &Call) {
        match call {
            Call::Broadcast(Msg::CreateBid {
                id,
                deposit,
                resources_offer,
                ..
            }) => {
                self.offers.insert(id.order.clone(), resources_offer.clone());
                self.unsure.remove(&id.order);
                for unread in self.in_reading.iter_mut().chain([&mut self.unread]) {
                    unread.insert(id.clone(), deposit.clone());
                }
            }
            Call::FetchBalances(_) => self.in_reading = Some(self.in_flight()),
            _ => {}
        }
        self.calls.insert(id, call.clone());
    }

    /// Returns the deposits of bids in flight, except for bids that the chain has already reported.
    fn in_flight(&self) -> BTreeMap<BidId, Coin> {
        let bids = self.calls.values().filter_map(|call| match call {
            Call::Broadcast(Msg::CreateBid { id, deposit, .. }) => Some((id.clone(), deposit.clone())),
            _ => None,
        });
        bids.filter(|(id, _)| !self.visible.contains(id) && !self.lost.contains(id))
            .collect()
    }

    fn event(&mut self, event: &ChainEvent) {
        match event {
            ChainEvent::Resync(snapshot) if snapshot.height >= self.height => {
                self.height = snapshot.height;
                self.block_time = self.block_time.max(snapshot.time);
                self.bids.extend(snapshot.bids.iter().map(|b| b.id.order.clone()));
                self.visible.extend(snapshot.bids.iter().map(|b| b.id.clone()));
                let bids = snapshot.bids.iter();
                self.offers
                    .extend(bids.map(|b| (b.id.order.clone(), b.resources_offer.clone())));
                let leases = snapshot.leases.iter();
                self.leases.extend(leases.map(|r| r.lease.id.clone()));
            }
            ChainEvent::Block { height, time } => {
                self.height = self.height.max(*height);
                self.block_time = self.block_time.max(*time);
            }
            // Events before the first snapshot are ignored, because the snapshot contains their effects.
            ChainEvent::BidCreated { id, .. } | ChainEvent::BidClosed { id }
                if id.provider == *PROVIDER && self.height > 0 =>
            {
                self.bids.insert(id.order.clone());
                self.visible.insert(id.clone());
            }
            ChainEvent::LeaseCreated { id, .. } if id.provider == *PROVIDER => {
                self.leases.insert(id.clone());
            }
            ChainEvent::LeaseCreated { id, .. } => {
                let provider = PROVIDER.clone();
                let order = id.order.clone();
                self.lost.insert(order.bid(provider));
            }
            _ => {}
        }
    }

    fn change(&mut self, change: &ClusterChange, leases: &[LeaseId]) {
        let now = self.mono;
        match change {
            ClusterChange::Health { lease, health } => {
                self.unwell.entry(lease.clone()).or_default().update(now, *health);
            }
            ClusterChange::Snapshot { health } => {
                for lease in leases {
                    let missing = Health::Out(Outage::Missing);
                    let health = health.get(lease).copied().unwrap_or(missing);
                    self.unwell.entry(lease.clone()).or_default().update(now, health);
                }
            }
            ClusterChange::Lost => {
                for unwell in self.unwell.values_mut() {
                    unwell.update(now, Health::Unknown);
                }
            }
            unknown => panic!("the oracle does not handle {unknown:?}"),
        }
    }

    fn money(&mut self, call: &Call, completion: &Completion) {
        match (call, completion) {
            (
                Call::Broadcast(Msg::CreateBid { id, deposit, .. }),
                Completion::Tx(Ok(TxOutcome::Rejected {
                    error: TxError::InsufficientFunds,
                    ..
                })),
            ) => {
                self.unpaid
                    .insert((id.order.clone(), deposit.denom.clone()), deposit.amount);
            }
            (Call::FetchBalances(_), Completion::Balances(Ok(coins))) => {
                let amount = |denom: &Denom| coins.iter().find(|c| c.denom == *denom).map_or(0, |c| c.amount);
                self.unpaid.retain(|(_, denom), deposit| amount(denom) < *deposit);
                self.balances = Some(coins.clone());
                self.unread = self.in_reading.take().unwrap_or_default();
            }
            _ => {}
        }
    }

    fn completed(&mut self, id: EffectId, completion: &Completion) {
        let Some(call) = self.calls.remove(&id) else {
            self.repeated += 1;
            return;
        };
        if let Completion::Workloads(Ok(workloads)) = completion {
            self.short_list = workloads.listing.place == INCOMPLETE;
        }
        self.money(&call, completion);
        match (call, completion) {
            (Call::Broadcast(Msg::CreateBid { id, .. }), Completion::Tx(Ok(TxOutcome::Committed { .. }))) => {
                self.bids.insert(id.order);
            }
            (
                Call::Broadcast(Msg::CreateBid { id, .. }),
                Completion::Tx(Ok(TxOutcome::Unknown { expires })),
            ) => {
                self.unsure.insert(id.order, *expires);
            }
            (Call::FetchBid(id), Completion::Bid(Ok(Observed { value: Some(bid), .. }))) => {
                self.offers.insert(id.order, bid.resources_offer.clone());
            }
            // The bid can no longer land. A bid of another instance may, without this instance knowing.
            (
                Call::FetchBid(id),
                Completion::Bid(Ok(Observed {
                    value: None,
                    height,
                    agreement: Agreement::Confirmed,
                })),
            ) if *height >= self.height
                && self.unsure.get(&id.order).is_some_and(|t| *t < self.block_time) =>
            {
                self.offers.remove(&id.order);
            }
            (Call::Record(deployment), Completion::Cluster(Ok(()))) => {
                self.recorded.insert(deployment.lease.clone());
            }
            (Call::Deploy { deployment, .. }, Completion::Cluster(Err(_))) => {
                self.whole.remove(&deployment.lease);
            }
            (Call::Deploy { deployment, .. }, Completion::Cluster(Ok(()))) => {
                self.whole.insert(deployment.lease.clone());
                if self.deployed.insert(deployment.lease.clone())
                    && let Some(unwell) = self.unwell.get_mut(&deployment.lease)
                {
                    unwell.deployed(self.mono);
                }
            }
            // A list that arrives while a scan waits for its chain data counts together with that data.
            (_, Completion::Workloads(Ok(Workloads { listing, .. })))
                if !self.calls.values().any(|c| matches!(c, Call::FetchSnapshot)) =>
            {
                self.recorded
                    .extend(listing.deployments.iter().map(|d| d.lease.clone()));
            }
            _ => {}
        }
    }
}

/// State that all engines of a history share.
#[derive(Debug, Clone, Default)]
pub(crate) struct HistoryRecord {
    /// Executed withdrawals: engine, deployment and height of the block.
    pub(crate) withdrawals: BTreeSet<(u64, DeploymentId, Height)>,
    /// Deployment and manifest version of each pending submission.
    pub(crate) submitted: BTreeMap<RequestId, (DeploymentId, u64)>,
    /// Newest accepted manifest version of each deployment.
    pub(crate) accepted: BTreeMap<DeploymentId, u64>,
}

impl HistoryRecord {
    pub(crate) fn note_response(&mut self, request: RequestId, response: &Response) {
        if let (Some((id, version)), Ok(_)) = (self.submitted.remove(&request), response) {
            let accepted = self.accepted.entry(id).or_default();
            *accepted = version.max(*accepted);
        }
    }
}
