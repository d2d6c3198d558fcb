//! What an engine was told and has asked for: enough to say whether it may do what it does.

use crate::calls::SHORT;
use crate::capacity::Sales;
use crate::ids::OURS;
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

/// A rule was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) rule: &'static str,
    pub(crate) what: String,
}

pub(crate) type Checked = Result<(), Broken>;

/// Breaks `rule` unless it holds.
pub(crate) fn ensure(rule: &'static str, holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds {
        return Ok(());
    }
    Err(Broken { rule, what: what() })
}

/// Unhealthy time as told.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unwell {
    since: Option<Mono>,
    before: Duration,
}

impl Unwell {
    fn told(&mut self, now: Mono, health: Health) {
        match health {
            Health::Bad => drop(self.since.get_or_insert(now)),
            Health::Unknown | Health::Out(_) => {
                self.before = self.time(now);
                self.since = None;
            }
            Health::Good => *self = Self::default(),
        }
    }

    /// What was not there yet could not run.
    fn deployed(&mut self, now: Mono) {
        self.before = Duration::ZERO;
        self.since = self.since.map(|_| now);
    }

    pub(crate) fn time(&self, now: Mono) -> Duration {
        self.before + self.since.map(|s| now.since(s)).unwrap_or_default()
    }
}

/// What one engine knows, from its first to its last step.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) leadership: Leadership,
    pub(crate) stopping: bool,
    pub(crate) mono: Mono,
    pub(crate) height: Height,
    pub(crate) block_time: BlockTime,
    /// Orders it knows to have a bid of ours.
    pub(crate) bids: BTreeSet<OrderId>,
    /// What our bids promise, as far as it knows. An event says that there is a bid, and no more: that is for the
    /// scan which follows. One from before a crash may land, and show only when the bid is read.
    pub(crate) offers: BTreeMap<OrderId, Vec<ResourceUnit>>,
    /// Deposits that the chain refused for lack of money, by order and denomination, until the account was read to
    /// have as much.
    pub(crate) unpaid: BTreeMap<(OrderId, Denom), u128>,
    /// The last reading of the account.
    pub(crate) balances: Option<Vec<Coin>>,
    /// Deposits of bids that the last reading may lack: the chain had not shown them when the reading started.
    pub(crate) unread: BTreeMap<BidId, Coin>,
    /// The same for the reading in flight.
    in_reading: Option<BTreeMap<BidId, Coin>>,
    /// Until when bids of unknown fate can land.
    pub(crate) unsure: BTreeMap<OrderId, BlockTime>,
    /// Bids that the chain has shown.
    pub(crate) shown: BTreeSet<BidId>,
    /// Leases it has heard of.
    pub(crate) leases: BTreeSet<LeaseId>,
    /// Bids it knows to be lost.
    pub(crate) lost: BTreeSet<BidId>,
    /// Leases of which it knows that the cluster has the manifest.
    pub(crate) recorded: BTreeSet<LeaseId>,
    /// Leases with anything in the cluster when it was listed last, and those that a look in a wrong place hid.
    pub(crate) there: BTreeSet<LeaseId>,
    pub(crate) hidden: BTreeSet<LeaseId>,
    /// The last list lacked something.
    pub(crate) short_list: bool,
    /// The operator has said that ends may go on.
    pub(crate) released: bool,
    /// Leases the operator ended.
    pub(crate) ended: BTreeSet<LeaseId>,
    pub(crate) unwell: BTreeMap<LeaseId, Unwell>,
    /// Leases it has deployed.
    pub(crate) deployed: BTreeSet<LeaseId>,
    /// Leases whose last deploy succeeded.
    pub(crate) whole: BTreeSet<LeaseId>,
    /// Calls under way.
    pub(crate) calls: BTreeMap<EffectId, Call>,
    /// Requests without an answer.
    pub(crate) requests: BTreeSet<RequestId>,
    /// What it holds of the capacity it was told of.
    pub(crate) sales: Sales,
    /// Inputs that came a second time, which it counts as unexpected.
    pub(crate) repeated: u64,
}

impl Told {
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
            shown: BTreeSet::new(),
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
            sales: Sales::default(),
            repeated: 0,
        }
    }

    /// Takes note of an input. `leases` are those that may be in the engine's hands.
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
            // No history holds bids back: the tests of the engine do.
            Input::HoldBids(_) | Input::Kept(_) | Input::PricesChanged => {}
            Input::Shutdown => self.stopping = true,
            unknown => panic!("an oracle that overlooks {unknown:?} allows too much"),
        }
    }

    /// Takes note of a call it makes.
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

    /// Deposits of bids that were sent and not shown. A lost bid has its deposit back, or fails.
    fn in_flight(&self) -> BTreeMap<BidId, Coin> {
        let bids = self.calls.values().filter_map(|call| match call {
            Call::Broadcast(Msg::CreateBid { id, deposit, .. }) => Some((id.clone(), deposit.clone())),
            _ => None,
        });
        bids.filter(|(id, _)| !self.shown.contains(id) && !self.lost.contains(id))
            .collect()
    }

    fn event(&mut self, event: &ChainEvent) {
        match event {
            ChainEvent::Resync(snapshot) if snapshot.height >= self.height => {
                self.height = snapshot.height;
                self.block_time = self.block_time.max(snapshot.time);
                self.bids.extend(snapshot.bids.iter().map(|b| b.id.order.clone()));
                self.shown.extend(snapshot.bids.iter().map(|b| b.id.clone()));
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
            // Before the first snapshot an event says nothing; the snapshot contains it.
            ChainEvent::BidCreated { id, .. } | ChainEvent::BidClosed { id }
                if id.provider == *OURS && self.height > 0 =>
            {
                self.bids.insert(id.order.clone());
                self.shown.insert(id.clone());
            }
            ChainEvent::LeaseCreated { id, .. } if id.provider == *OURS => {
                self.leases.insert(id.clone());
            }
            ChainEvent::LeaseCreated { id, .. } => {
                let provider = OURS.clone();
                let order = id.order.clone();
                self.lost.insert(BidId { order, provider });
            }
            _ => {}
        }
    }

    fn change(&mut self, change: &ClusterChange, leases: &[LeaseId]) {
        let now = self.mono;
        match change {
            ClusterChange::Health { lease, health } => {
                self.unwell.entry(lease.clone()).or_default().told(now, *health);
            }
            ClusterChange::Snapshot { health } => {
                for lease in leases {
                    let missing = Health::Out(Outage::Missing);
                    let health = health.get(lease).copied().unwrap_or(missing);
                    self.unwell.entry(lease.clone()).or_default().told(now, health);
                }
            }
            ClusterChange::Lost => {
                for unwell in self.unwell.values_mut() {
                    unwell.told(now, Health::Unknown);
                }
            }
            unknown => panic!("an oracle that overlooks {unknown:?} allows too much"),
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
            self.short_list = workloads.listing.place == SHORT;
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
            // It can no longer land. That another instance's may is not this one's to know.
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
            // A list that comes while a scan still waits for the chain's half counts with that half.
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

/// What is remembered over all engines of a history.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    /// Payouts that landed, by engine and block.
    pub(crate) withdrawals: BTreeSet<(u64, DeploymentId, Height)>,
    /// Manifests under way, and the newest version that was accepted.
    pub(crate) submitted: BTreeMap<RequestId, (DeploymentId, u64)>,
    pub(crate) accepted: BTreeMap<DeploymentId, u64>,
}

impl Memory {
    pub(crate) fn answered(&mut self, request: RequestId, response: &Response) {
        if let (Some((id, version)), Ok(_)) = (self.submitted.remove(&request), response) {
            let accepted = self.accepted.entry(id).or_default();
            *accepted = version.max(*accepted);
        }
    }
}
