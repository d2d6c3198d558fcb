//! Status of the engine as plain data, for status pages and metrics.

use super::phase::{LeasePhase, Lifecycle, OrderPhase};
use crate::cluster::Health;
use crate::inventory::Metrics;
use crate::types::{
    Address, BidId, BlockTime, CloseReason, DecCoin, DeclineCode, DeploymentId, Height, LeaseId, OrderId,
};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Snapshot of the engine's state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Status {
    /// Life-cycle phase of the provider.
    pub lifecycle: Lifecycle,
    /// True if this instance leads and may send writes.
    pub leader: bool,
    /// Reason why no bids are sent, or `None` if bidding is allowed.
    pub bids_held: Option<String>,
    /// Height of the newest processed block.
    pub height: Height,
    /// Block time of the newest processed block.
    pub block_time: BlockTime,
    /// Average interval between blocks, in milliseconds. Before enough blocks were observed, this is the
    /// configured interval.
    pub average_block_ms: u64,
    /// True after the first `Resync` was processed.
    pub chain_known: bool,
    /// False if the chain state is known and contains no record of this provider. The provider then bids on
    /// no order.
    pub registered: bool,
    /// Account balance and required deposit, if the account cannot pay the deposit of a bid.
    pub deposit_missing: Option<String>,
    /// True after the first inventory update.
    pub inventory_known: bool,
    /// True after the workloads in the cluster were listed for the first time.
    pub cluster_known: bool,
    /// Orders in progress, with their phases.
    pub orders: Vec<OrderStatus>,
    /// Numbers of declined orders by reason, since the start.
    pub declines: BTreeMap<DeclineCode, u64>,
    /// Most recent declines with their reasons, newest last.
    pub recent_declines: Vec<DeclineStatus>,
    /// Leases of this provider, including leases that are being closed.
    pub leases: Vec<LeaseInfo>,
    /// Deployments with leases of this provider, with their manifests and escrow accounts.
    pub deployments: Vec<DeploymentStatus>,
    /// Free capacity and reservations.
    pub inventory: InventoryStatus,
    /// Claimed hostnames and the leases that hold them.
    pub hostnames: BTreeMap<String, LeaseId>,
    /// State of the circuit breaker. The breaker limits the number of leases that this provider closes.
    pub breaker: BreakerStatus,
    /// Differences found by the last full scan.
    pub last_scan_findings: Vec<String>,
    /// Number of calls without a completion yet.
    pub calls_in_flight: u64,
    /// Number of inputs that no machine expected, since the start.
    pub unexpected_inputs: u64,
}

/// Fields of a [`Status`] that change with every block and every call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Pulse {
    /// Height of the newest processed block.
    pub height: Height,
    /// Block time of the newest processed block.
    pub block_time: BlockTime,
    /// Average interval between blocks, in milliseconds.
    pub average_block_ms: u64,
    /// Number of calls without a completion yet.
    pub calls_in_flight: u64,
    /// Number of inputs that no machine expected, since the start.
    pub unexpected_inputs: u64,
}

impl Status {
    /// Returns the fields that change with every block and every call.
    #[must_use]
    pub const fn pulse(&self) -> Pulse {
        Pulse {
            height: self.height,
            block_time: self.block_time,
            average_block_ms: self.average_block_ms,
            calls_in_flight: self.calls_in_flight,
            unexpected_inputs: self.unexpected_inputs,
        }
    }

    /// Replaces the fields that change with every block and every call.
    pub const fn set_pulse(&mut self, pulse: Pulse) {
        self.height = pulse.height;
        self.block_time = pulse.block_time;
        self.average_block_ms = pulse.average_block_ms;
        self.calls_in_flight = pulse.calls_in_flight;
        self.unexpected_inputs = pulse.unexpected_inputs;
    }

    /// Returns true if the status changes with time alone, because the unhealthy time of a lease is being counted.
    #[must_use]
    pub fn is_time_dependent(&self) -> bool {
        self.leases.iter().any(|lease| lease.health.is_counted())
    }
}

/// An order in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OrderStatus {
    /// Id of the order.
    pub order: OrderId,
    /// Phase of the order.
    pub phase: OrderPhase,
    /// Price of the bid, or `None` before the price is calculated.
    pub price: Option<DecCoin>,
}

/// A declined order with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeclineStatus {
    /// Id of the order.
    pub order: OrderId,
    /// Reason code. [`Status::declines`] uses the same codes as keys.
    pub reason: DeclineCode,
    /// Reason as a sentence, for users.
    pub message: String,
}

/// A lease with the state of its workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LeaseInfo {
    /// Id of the lease.
    pub lease: LeaseId,
    /// Price per block for the whole group.
    pub price: DecCoin,
    /// Phase of the workload.
    pub phase: LeasePhase,
    /// Health last reported by the backend. `unknown` if the cluster cannot be watched. Unhealthy time is counted only
    /// while the health is `bad`.
    pub health: Health,
    /// Unhealthy time counted until now, in milliseconds.
    pub known_unhealthy_ms: u64,
    /// Unhealthy time after which the lease is closed, in milliseconds, or `None` without a limit.
    pub unhealthy_limit_ms: Option<u64>,
    /// Number of the last deployed version, starting at 1. Before the first deploy, the value is `None`,
    /// serialized as 0.
    #[serde(serialize_with = "or_zero")]
    pub generation: Option<u64>,
    /// Last error of the backend for this workload.
    pub last_error: Option<String>,
    /// Close reason, if this provider is closing the lease.
    pub ending: Option<CloseReason>,
    /// Reason why the close of the lease or the teardown of its workload waits, as text for users.
    pub waiting_for: Option<String>,
    /// Problem with the workload's record in the cluster. While the problem exists, a missing manifest does
    /// not close the lease.
    pub record_problem: Option<String>,
    /// Error of the last payout, or `None` if the last payout succeeded.
    pub payout_error: Option<String>,
}

/// Serializes a missing generation as 0.
fn or_zero<S: Serializer>(generation: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(generation.unwrap_or(0))
}

/// A deployment for which the engine manages a manifest or an escrow account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeploymentStatus {
    /// Id of the deployment.
    pub deployment: DeploymentId,
    /// Hash of the accepted manifest, in lower-case hexadecimal.
    pub manifest: Option<String>,
    /// Block time at which a lease without a manifest is closed.
    pub manifest_deadline: Option<BlockTime>,
    /// Number of submitted manifests that wait for a response.
    pub waiting_requests: u32,
}

/// Free capacity and reservations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct InventoryStatus {
    /// Reservations of leases. A reservation is released after the teardown of the workload.
    pub active: Vec<ReservationStatus>,
    /// Reservations of open bids and of orders in progress.
    pub pending: Vec<ReservationStatus>,
    /// Capacity left after all reservations.
    pub available: Metrics,
    /// Number of unreserved external ports.
    pub external_ports_free: u32,
    /// Number of external ports reserved by leases.
    pub external_ports_active: u32,
    /// Number of external ports reserved by open bids and orders in progress.
    pub external_ports_pending: u32,
    /// Number of endpoints of all kinds that leases use. Replicas share the endpoints of a resource unit.
    pub endpoints_active: u32,
    /// Number of endpoints that open bids and orders in progress reserve. All kinds of endpoints are counted.
    pub endpoints_pending: u32,
    /// Leased IP addresses, or `None` without a pool.
    pub leased_ips: Option<LeasedIpStatus>,
}

/// Numbers of addresses in the pool of leased IPs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct LeasedIpStatus {
    /// Number of addresses in the pool.
    pub total: u32,
    /// Number of addresses in use or reserved.
    pub allocated: u32,
    /// Number of free addresses.
    pub available: u32,
}

/// Resources of one reservation: the sum over all replicas, with overcommit applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReservationStatus {
    /// Order of the reservation.
    pub order: OrderId,
    /// CPU, in millicores.
    pub cpu: u64,
    /// Number of GPU devices.
    pub gpu: u64,
    /// Memory, in bytes.
    pub memory: u64,
    /// Ephemeral storage, in bytes.
    pub storage_ephemeral: u64,
    /// Bytes of persistent storage and of memory-backed volumes, by storage class.
    pub storage: BTreeMap<String, u64>,
}

/// A close or teardown that the circuit breaker is holding back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HeldClose {
    /// Id of the lease.
    pub lease: LeaseId,
    /// Block time at which the breaker first held the close, in milliseconds since the Unix epoch.
    pub since: BlockTime,
    /// True if the lease is already closed on the chain.
    pub is_over: bool,
    /// Reason for the hold. If the operator can end the hold, the reason contains the command.
    pub because: String,
}

/// State of the circuit breaker. The breaker limits the number of leases that this provider closes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct BreakerStatus {
    /// True if the breaker has tripped for all owners and waits for a release.
    pub tripped: bool,
    /// Owners for which the breaker has tripped individually.
    pub held_owners: Vec<Address>,
    /// Number of closes and teardowns that the breaker granted within
    /// [`Config::breaker_window`](crate::Config::breaker_window). For each owner, at most half of `allowed`
    /// is counted.
    pub recent: u32,
    /// Maximum number of closes within [`Config::breaker_window`](crate::Config::breaker_window).
    pub allowed: u32,
    /// Leases for which the breaker holds the close or the teardown.
    pub waiting: Vec<BidId>,
    /// Closes and teardowns that the breaker holds, each with the reason and the start time.
    pub held: Vec<HeldClose>,
    /// Location that contains no workload records, although the provider has leases. `None` if no records are
    /// missing.
    pub records_missing: Option<String>,
    /// Reason why the breaker holds all closes. `None` if the breaker holds no close, or only the closes of
    /// certain owners.
    pub shut_because: Option<String>,
}
