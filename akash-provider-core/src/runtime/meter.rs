//! Counts the inputs, effects and completions that pass the loop. Observes only, and never waits.

mod deposits;
mod earnings;
mod monitors;
mod orders;
mod revenue;
mod scans;
#[cfg(test)]
mod tests;

use super::LostFacts;
use crate::cluster::Teardown;
use crate::engine::counts::EngineCounts;
use crate::engine::{Call, Completion, Effect, Input, Request, RequestId, Response, Status};
use crate::provider::statistics::{BLOCK_LAG_BOUNDS, GO_BOUNDS, LeaseEarnings, ProviderStatistics};
use crate::statistics::{CALL_BOUNDS, DurationHistogram};
use crate::types::{BlockTime, ChainEvent, Event, Height, LeaseId, Msg, TxOutcome};
use deposits::Deposits;
use earnings::Earnings;
use monitors::Monitors;
use orders::OrderCounts;
use revenue::Revenue;
use rustc_hash::{FxHashMap, FxHashSet};
use scans::ScanTimes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

type KeyCounts<K> = BTreeMap<K, u64>;

fn add<K: Ord>(counts: &mut KeyCounts<K>, key: K) {
    *counts.entry(key).or_default() += 1;
}

#[derive(Debug)]
pub(super) struct Moment {
    at: Instant,
    step: Duration,
    height: Height,
    is_snapshot: bool,
}

/// Counters shared by the loop and the handles.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    counts: Arc<Mutex<MeterCounts>>,
    /// Set after the bus was started.
    lost: Arc<OnceLock<LostFacts>>,
}

#[derive(Debug)]
struct MeterCounts {
    orders: OrderCounts,
    revenue: Revenue,
    earnings: Earnings,
    pricing: DurationHistogram,
    bids: KeyCounts<(&'static str, &'static str)>,
    calls: KeyCounts<(&'static str, &'static str)>,
    call_durations: BTreeMap<&'static str, DurationHistogram>,
    manifests: KeyCounts<&'static str>,
    /// Pending requests with a manifest.
    submissions: FxHashSet<RequestId>,
    health: KeyCounts<&'static str>,
    lease_ends: KeyCounts<&'static str>,
    closed_leases: u64,
    monitors: Monitors,
    leases: (u64, u64),
    withdrawals: KeyCounts<&'static str>,
    /// Blocks of withdrawals that the engine has not reported yet.
    paid_at: FxHashMap<LeaseId, Height>,
    scans: ScanTimes,
    deposits: Deposits,
    engine: EngineCounts,
    findings: u64,
    blocks: u64,
    resyncs: u64,
    status_requests: u64,
    height: Height,
    block_at: Option<Instant>,
    block_lag: DurationHistogram,
}

impl Default for MeterCounts {
    fn default() -> Self {
        Self {
            orders: OrderCounts::new(),
            revenue: Revenue::default(),
            earnings: Earnings::default(),
            pricing: DurationHistogram::new(&GO_BOUNDS),
            bids: KeyCounts::new(),
            calls: KeyCounts::new(),
            call_durations: BTreeMap::new(),
            manifests: KeyCounts::new(),
            submissions: FxHashSet::default(),
            health: KeyCounts::new(),
            lease_ends: KeyCounts::new(),
            closed_leases: 0,
            monitors: Monitors::default(),
            leases: (0, 0),
            withdrawals: KeyCounts::new(),
            paid_at: FxHashMap::default(),
            scans: ScanTimes::new(),
            deposits: Deposits::default(),
            engine: EngineCounts::default(),
            findings: 0,
            blocks: 0,
            resyncs: 0,
            status_requests: 0,
            height: 0,
            block_at: None,
            block_lag: DurationHistogram::new(&BLOCK_LAG_BOUNDS),
        }
    }
}

/// Returns true if the engine reads orders from a snapshot when it processes this input.
pub(super) const fn is_snapshot(input: &Input) -> bool {
    matches!(
        input,
        Input::Chain(ChainEvent::Resync(_))
            | Input::Completed(_, Completion::Snapshot(_) | Completion::Workloads(_))
    )
}

impl Meter {
    fn lock(&self) -> MutexGuard<'_, MeterCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count_lost_facts(&self, lost: LostFacts) {
        // A provider has one bus.
        drop(self.lost.set(lost));
    }

    /// Counts an input before the engine processes it.
    pub(super) fn input(&self, input: &Input) {
        let mut counts = self.lock();
        match input {
            Input::Chain(ChainEvent::Block { height, time }) => counts.block(*height, *time),
            Input::Chain(ChainEvent::Resync(snapshot)) => {
                counts.resyncs += 1;
                counts.reach(snapshot.height);
                counts.earnings.read(snapshot);
            }
            Input::Completed(_, Completion::Snapshot(Ok(snapshot))) => counts.earnings.read(snapshot),
            // The lease earns nothing from here on. The event of the engine follows after the teardown.
            Input::Chain(ChainEvent::LeaseClosed { id, .. }) => {
                let height = counts.height;
                counts.revenue.lease_closed(id, height);
                // The events of a block precede the `Block` event.
                counts.earnings.lease_closed(id, height + 1);
            }
            Input::Chain(ChainEvent::OrderClosed { id }) => counts.orders.closed(id, "order_closed"),
            Input::Chain(ChainEvent::LeaseCreated { id, .. }) => counts.orders.closed(&id.order, "lost"),
            Input::Request(id, Request::SubmitManifest { .. }) => {
                counts.submissions.insert(*id);
            }
            _ => {}
        }
    }

    pub(super) fn effects(&self, effects: &[Effect], is_snapshot: bool, begun: Instant) {
        // A step without effects may have ended a scan.
        if effects.is_empty() && !is_snapshot {
            return;
        }
        let mut counts = self.lock();
        counts.scans.step_ended(is_snapshot);
        let moment = Moment {
            at: begun,
            step: begun.elapsed(),
            height: counts.height,
            is_snapshot,
        };
        for effect in effects {
            counts.orders.effect(effect, &moment);
            match effect {
                Effect::Publish(event) => counts.event(event),
                Effect::Reply(id, response) => counts.replied(*id, response),
                Effect::Call(_, call) => counts.scans.started(call),
            }
        }
    }

    pub(super) fn completed(&self, call: &Call, completion: &Completion, duration: Duration) {
        self.lock().completed(call, completion, duration);
    }

    pub(super) fn status_requested(&self) {
        self.lock().status_requests += 1;
    }

    pub(super) fn engine_counted(&self, engine: EngineCounts) {
        self.lock().engine = engine;
    }

    /// Counts the reservations of the orders in `status`. Orders that are missing in `status` ended without a
    /// bid.
    pub(super) fn settle(&self, status: &Status) {
        self.lock().orders.settle(status);
    }

    pub(crate) fn earnings(&self, lease: &LeaseId) -> Option<LeaseEarnings> {
        let counts = self.lock();
        counts.earnings.of(lease, counts.height)
    }

    pub(crate) fn statistics(&self) -> ProviderStatistics {
        let counts = self.lock();
        let MeterCounts { orders, revenue, .. } = &*counts;
        let durations = counts.call_durations.iter();
        ProviderStatistics {
            orders: orders.sources.clone(),
            order_outcomes: orders.outcomes.clone(),
            no_bid_outcomes: orders.no_bid_outcomes.clone(),
            evaluations: orders.evaluations.clone(),
            reservations: orders.reservations.clone(),
            insufficient_capacity: orders.insufficient_capacity,
            bids: counts.bids.clone(),
            bid_results: orders.bid_results.clone(),
            bid_blocks: orders.bid_blocks.clone(),
            bid_delay: orders.bid_delay.values(),
            pricing: counts.pricing.values(),
            reserving: orders.reserving.values(),
            reserving_fine: orders.reserving_fine.values(),
            calls: counts.calls.clone(),
            call_durations: durations.map(|(name, times)| (*name, times.values())).collect(),
            manifests: counts.manifests.clone(),
            health: counts.health.clone(),
            lease_ends: counts.lease_ends.clone(),
            closed_leases: counts.closed_leases,
            monitors: counts.monitors.counts,
            leases: counts.leases,
            withdrawals: counts.withdrawals.clone(),
            scan_durations: counts.scans.values(),
            deposits_locked: counts.deposits.locked().clone(),
            deposits_returned: counts.deposits.returned().clone(),
            engine: counts.engine.clone(),
            findings: counts.findings,
            blocks: counts.blocks,
            resyncs: counts.resyncs,
            block_age: counts.block_at.map(|at| at.elapsed()),
            block_lag: counts.block_lag.values(),
            status_requests: counts.status_requests,
            unpublished: self.lost.get().map_or(0, LostFacts::count),
            price_per_block: revenue.rates.clone(),
            accrued: revenue.accrued.clone(),
            withdrawn: revenue.withdrawn.clone(),
        }
    }
}

impl MeterCounts {
    fn block(&mut self, height: Height, time: BlockTime) {
        self.block_at = Some(Instant::now());
        if height > self.height {
            self.blocks += 1;
            self.block_lag.record(lag(time));
            self.reach(height);
        }
    }

    fn reach(&mut self, height: Height) {
        // Leases of the first snapshot are added after it, so the first height adds no revenue.
        self.revenue.blocks_passed(height.saturating_sub(self.height));
        self.height = self.height.max(height);
    }

    fn event(&mut self, event: &Event) {
        let height = self.height;
        match event {
            Event::LeaseWon { lease, price } => {
                self.leases.0 += 1;
                self.revenue.lease_added(lease, price, height);
                self.earnings.lease_won(lease, price, height + 1);
            }
            Event::LeaseAdopted { lease, price } => {
                self.leases.1 += 1;
                self.revenue.lease_added(lease, price, height);
                self.earnings.lease_adopted(lease);
            }
            Event::LeaseClosed { lease, .. } => {
                self.closed_leases += 1;
                self.paid_at.remove(lease);
                self.deposits.returned_for(lease);
                self.monitors.closed(lease);
                add(&mut self.orders.reservations, ("close", "success"));
                self.revenue.lease_closed(lease, height);
                self.earnings.lease_removed(lease);
            }
            Event::BidEnded { bid, .. } => self.deposits.returned_for(bid),
            Event::LeaseEnding { reason, .. } => add(&mut self.lease_ends, reason.name()),
            Event::Deployed { lease, .. } => self.monitors.deployed(lease),
            Event::HealthChanged { health, .. } => add(&mut self.health, health.name()),
            Event::Withdrawn { lease } => {
                add(&mut self.withdrawals, "success");
                self.revenue.withdrawn(lease, height);
                // Without the block of the transaction, the height of the event is the best estimate.
                let height = self.paid_at.remove(lease).unwrap_or(height);
                self.earnings.withdrawn(lease, height);
            }
            Event::WithdrawFailed { .. } => add(&mut self.withdrawals, "fail"),
            Event::DriftFound { findings } => {
                self.findings += u64::try_from(findings.len()).unwrap_or(u64::MAX);
            }
            _ => {}
        }
    }

    fn replied(&mut self, id: RequestId, response: &Response) {
        if self.submissions.remove(&id) {
            let result = response
                .as_ref()
                .map_or_else(|refusal| refusal.kind.name(), |_| "accepted");
            add(&mut self.manifests, result);
        }
    }

    fn completed(&mut self, call: &Call, completion: &Completion, duration: Duration) {
        let (name, result) = (call.name(), result_name(completion));
        add(&mut self.calls, (name, result));
        self.call_durations
            .entry(name)
            .or_insert_with(|| DurationHistogram::new(&CALL_BOUNDS))
            .record(duration);
        self.scans.completed(call);
        if let Completion::Workloads(Ok(workloads)) = completion {
            self.monitors.listed(workloads);
        }
        if let Completion::Deployment(Ok(Some(record))) = completion {
            self.earnings.limit(record);
        }
        match call {
            Call::CalculatePrice(_) => self.pricing.record(duration),
            Call::Broadcast(Msg::CreateBid { id, deposit, .. }) => {
                add(&mut self.bids, ("open", result));
                self.orders.bid_sent(&id.order, "open", result == "success");
                if result == "success" {
                    self.deposits.locked_for(id, deposit);
                }
            }
            Call::Broadcast(Msg::WithdrawLease { id }) => {
                if let Completion::Tx(Ok(TxOutcome::Committed { height, .. })) = completion {
                    self.paid_at.insert(id.clone(), *height);
                }
            }
            Call::Broadcast(Msg::CloseBid { id, .. }) if self.orders.take_closing(&id.order) => {
                add(&mut self.bids, ("close", result));
                self.orders.bid_sent(&id.order, "close", result == "success");
            }
            _ => {}
        }
    }
}

/// Returns the age of a block, from the time in its header; zero if the local clock is behind.
fn lag(time: BlockTime) -> Duration {
    let time = Duration::from_millis(u64::try_from(time.0).unwrap_or_default());
    SystemTime::now()
        .duration_since(UNIX_EPOCH + time)
        .unwrap_or_default()
}

const fn result_name(completion: &Completion) -> &'static str {
    let is_ok = match completion {
        Completion::Order(result) => result.is_ok(),
        Completion::BidCount(result) => result.is_ok(),
        Completion::Provider(result) => result.is_ok(),
        Completion::Balances(result) => result.is_ok(),
        Completion::Audit(result) => result.is_ok(),
        Completion::Bid(result) => result.is_ok(),
        Completion::Lease(result) => result.is_ok(),
        Completion::Deployment(result) => result.is_ok(),
        Completion::Snapshot(result) => result.is_ok(),
        Completion::Price(result) => result.is_ok(),
        Completion::Tx(Ok(TxOutcome::Unknown { .. })) => return "unknown",
        Completion::Tx(result) => matches!(result, Ok(TxOutcome::Committed { .. })),
        Completion::Cluster(result) => result.is_ok(),
        Completion::Teardown(Ok(Teardown::InProgress)) => return "in_progress",
        Completion::Teardown(result) => result.is_ok(),
        Completion::Workloads(result) => result.is_ok(),
    };
    if is_ok { "success" } else { "fail" }
}
