//! What the engine says of itself: plain data, cheap to make, for status pages, metrics and people.

use super::phase::{LeasePhase, Lifecycle, OrderPhase};
use crate::cluster::Health;
use crate::inventory::Metrics;
use crate::types::{
    Address, BidId, BlockTime, CloseReason, DecCoin, DeclineCode, DeploymentId, Height, LeaseId, OrderId,
};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// A plain snapshot of the engine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Status {
    /// Where the provider is in its life.
    pub lifecycle: Lifecycle,
    /// True when we may write.
    pub leader: bool,
    /// Why no bid is sent, where bids are held back.
    pub bids_held: Option<String>,
    /// Height up to which the chain is processed.
    pub height: Height,
    /// Time of that block.
    pub block_time: BlockTime,
    /// True once the first `Resync` was processed.
    pub chain_known: bool,
    /// False when the chain is known and has no record of this provider: it bids on nothing then.
    pub registered: bool,
    /// What the account has and what a bid takes, where it can pay no deposit: orders wait for it.
    pub deposit_missing: Option<String>,
    /// True once capacity is known.
    pub inventory_known: bool,
    /// True once the cluster's workloads are known.
    pub cluster_known: bool,
    /// Orders in hand, each with the step it has reached.
    pub orders: Vec<OrderStatus>,
    /// Counts of declined orders by reason, since the start.
    pub declines: BTreeMap<DeclineCode, u64>,
    /// The latest declines with their reasons, newest last.
    pub recent_declines: Vec<DeclineStatus>,
    /// Leases in hand, those that are ending included.
    pub leases: Vec<LeaseInfo>,
    /// Deployments whose manifests or money we look after.
    pub deployments: Vec<DeploymentStatus>,
    /// Capacity that is left, and who holds the rest.
    pub inventory: InventoryStatus,
    /// Hostnames claimed, with their holders.
    pub hostnames: BTreeMap<String, LeaseId>,
    /// Whether our own ends of leases go through, and which of them wait.
    pub breaker: BreakerStatus,
    /// Differences the last full scan found.
    pub last_scan_findings: Vec<String>,
    /// Calls whose completion has not come yet.
    pub calls_in_flight: u64,
    /// Inputs that no machine expected, since the start.
    pub unexpected_inputs: u64,
}

/// What of a [`Status`] changes with every block and every call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Pulse {
    /// Height up to which the chain is processed.
    pub height: Height,
    /// Time of that block.
    pub block_time: BlockTime,
    /// Calls whose completion has not come yet.
    pub calls_in_flight: u64,
    /// Inputs that no machine expected, since the start.
    pub unexpected_inputs: u64,
}

impl Status {
    /// The part of it that changes all the time.
    #[must_use]
    pub const fn pulse(&self) -> Pulse {
        Pulse {
            height: self.height,
            block_time: self.block_time,
            calls_in_flight: self.calls_in_flight,
            unexpected_inputs: self.unexpected_inputs,
        }
    }

    /// Puts a newer pulse in place of its own; everything else stays.
    pub const fn set_pulse(&mut self, pulse: Pulse) {
        self.height = pulse.height;
        self.block_time = pulse.block_time;
        self.calls_in_flight = pulse.calls_in_flight;
        self.unexpected_inputs = pulse.unexpected_inputs;
    }

    /// True while it would be another one a moment later: unhealthy time is counted.
    #[must_use]
    pub fn ages(&self) -> bool {
        self.leases.iter().any(|lease| lease.health.is_counted())
    }
}

/// An order in hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OrderStatus {
    /// Group and oseq of the order.
    pub order: OrderId,
    /// The step that the order has reached.
    pub phase: OrderPhase,
    /// Price bid, once there is one.
    pub price: Option<DecCoin>,
}

/// An order that got no bid, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeclineStatus {
    /// Group and oseq of the order.
    pub order: OrderId,
    /// The reason alone, the key of [`Status::declines`].
    pub reason: DeclineCode,
    /// The reason in a sentence, for people.
    pub message: String,
}

/// A lease in hand, with the state of its workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LeaseInfo {
    /// Order and provider of the lease.
    pub lease: LeaseId,
    /// Price per block for the whole group.
    pub price: DecCoin,
    /// Where its workload stands.
    pub phase: LeasePhase,
    /// Health that the backend reported last; unknown while the cluster cannot be watched. The clock of unhealthy
    /// time runs while it is `bad` and stands still otherwise.
    pub health: Health,
    /// Known unhealthy time so far, in milliseconds.
    pub known_unhealthy_ms: u64,
    /// Known unhealthy time that ends the lease, in milliseconds; `None` for no limit.
    pub unhealthy_limit_ms: Option<u64>,
    /// Version deployed last, from 1; `None` while none is, which is written as 0.
    #[serde(serialize_with = "or_zero")]
    pub generation: Option<u64>,
    /// Last error of the backend for it.
    pub last_error: Option<String>,
    /// We are ending it, for this reason.
    pub ending: Option<CloseReason>,
    /// Why ending or teardown waits (breaker, standby, evidence, deadline).
    pub waiting_for: Option<String>,
    /// What is wrong with its record in the cluster; while it is, nothing ends it for want of a manifest.
    pub record_problem: Option<String>,
    /// Why the last payout of the lease failed; `None` after a payout.
    pub payout_error: Option<String>,
}

/// A version as it is written.
fn or_zero<S: Serializer>(generation: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(generation.unwrap_or(0))
}

/// A deployment whose manifest or money we look after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeploymentStatus {
    /// Owner and dseq of the deployment.
    pub deployment: DeploymentId,
    /// Lower-case hex of the accepted manifest's hash.
    pub manifest: Option<String>,
    /// Block time at which a lease without manifest is given up.
    pub manifest_deadline: Option<BlockTime>,
    /// Requests with a manifest that have no answer yet.
    pub waiting_requests: u32,
}

/// What is left, and who has reserved the rest.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct InventoryStatus {
    /// Reservations of leases; one is held until its workload is gone.
    pub active: Vec<ReservationStatus>,
    /// Reservations of open bids and of orders being priced.
    pub pending: Vec<ReservationStatus>,
    /// What is left after all reservations.
    pub available: Metrics,
    /// External ports that no reservation holds.
    pub external_ports_free: u32,
    /// Leased IPs: pool size, taken, free; `None` without a pool.
    pub leased_ips: Option<LeasedIpStatus>,
}

/// The pool of leased IPs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct LeasedIpStatus {
    /// How many addresses the pool has.
    pub total: u32,
    /// In use or promised.
    pub allocated: u32,
    /// Addresses neither in use nor promised.
    pub available: u32,
}

/// One reservation, commit levels applied, summed over its replicas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReservationStatus {
    /// The order that it was made for.
    pub order: OrderId,
    /// Milli-CPU; 1000 is one core.
    pub cpu: u64,
    /// Whole GPU devices over all replicas.
    pub gpu: u64,
    /// Bytes of memory over all replicas.
    pub memory: u64,
    /// Bytes of volumes without a class.
    pub storage_ephemeral: u64,
    /// Bytes of the other volumes by class.
    pub storage: BTreeMap<String, u64>,
}

/// The end of a lease that the circuit breaker holds back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HeldEnd {
    /// Order and provider of the lease.
    pub lease: LeaseId,
    /// Block time at which the end was held back first, in milliseconds since the Unix epoch.
    pub since: BlockTime,
    /// True when the chain shows the lease as over, so that only its workload is left to remove.
    pub is_over: bool,
    /// Reason, and the command that releases it.
    pub because: String,
}

/// The circuit breaker: which of our own ends of leases are held back, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct BreakerStatus {
    /// Own closes and scan-found teardowns wait for a release.
    pub tripped: bool,
    /// Owners for whose leases alone they wait for a release.
    pub held_owners: Vec<Address>,
    /// Those within the window, of each owner at most half of `allowed`.
    pub recent: u32,
    /// How many are allowed within the window.
    pub allowed: u32,
    /// Leases whose end waits for it.
    pub waiting: Vec<BidId>,
    /// The same leases, each with the reason and the start of its wait.
    pub held: Vec<HeldEnd>,
    /// Where no record of any lease was found although there are leases; `None` when that is not so.
    pub records_missing: Option<String>,
    /// Why nothing passes; `None` when it is open, be it not for all owners. What each lease waits for is said there.
    pub shut_because: Option<String>,
}
