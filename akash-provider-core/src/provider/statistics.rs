//! Counts of a running provider, as plain data.

use crate::engine::counts::EngineCounts;
use crate::statistics::DurationCounts;
use crate::types::{Dec, Denom};
use std::collections::BTreeMap;
use std::time::Duration;

/// Bucket bounds for durations that the Go provider also measures. Each bound is twice the previous bound,
/// from 150 ms to 76.8 s.
pub const GO_BOUNDS: [Duration; 10] = [
    Duration::from_millis(150),
    Duration::from_millis(300),
    Duration::from_millis(600),
    Duration::from_millis(1_200),
    Duration::from_millis(2_400),
    Duration::from_millis(4_800),
    Duration::from_millis(9_600),
    Duration::from_millis(19_200),
    Duration::from_millis(38_400),
    Duration::from_millis(76_800),
];

/// Bucket bounds for the duration of engine steps that reserve capacity: 10 µs to 1 s. A step usually takes
/// microseconds.
pub const RESERVATION_BOUNDS: [Duration; 6] = [
    Duration::from_micros(10),
    Duration::from_micros(100),
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
];

/// Bucket bounds for the delay from the block time to the processing of the block, from 1 s to 1 h. A block
/// is published about one block interval after its block time.
pub const BLOCK_LAG_BOUNDS: [Duration; 9] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(8),
    Duration::from_secs(12),
    Duration::from_secs(20),
    Duration::from_secs(60),
    Duration::from_secs(300),
    Duration::from_secs(900),
    Duration::from_secs(3_600),
];

/// Earnings of a lease since its creation, in the denomination of its price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseEarnings {
    /// Earnings at the last settlement on the chain, plus the price of each later block. Blocks are not
    /// counted if the escrow account cannot pay for them.
    pub accrued: Dec,
    /// Part of `accrued` that was withdrawn; `None` if the chain returned no earnings.
    pub withdrawn: Option<Dec>,
}

/// Statistics of a provider since its start. Keys of type `&str` are constant names in `snake_case`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ProviderStatistics {
    /// Number of received orders by source: `event`, `snapshot`, or `bid` if the provider adopted its own bid
    /// on the order.
    pub orders: BTreeMap<&'static str, u64>,
    /// Number of finished orders by outcome: `won`, `declined`, the names of
    /// [`BidOutcome`](crate::types::BidOutcome), or `no_bid` for an order that ended before a bid.
    pub order_outcomes: BTreeMap<&'static str, u64>,
    /// Number of orders with the outcome `no_bid`, by the event on the chain: `lost` or `order_closed`.
    pub no_bid_outcomes: BTreeMap<&'static str, u64>,
    /// Number of evaluated orders by result: `accept`, `decline`, `fail`.
    pub evaluations: BTreeMap<&'static str, u64>,
    /// Number of reservations by action (`open`, `close`) and result (`success`, `fail`).
    pub reservations: BTreeMap<(&'static str, &'static str), u64>,
    /// Number of orders that did not fit the free capacity. Orders that lacked external ports or leased IPs
    /// are not included.
    pub insufficient_capacity: u64,
    /// Number of bid transactions by action (`open`, `close`) and result (`success`, `fail`, `unknown`).
    pub bids: BTreeMap<(&'static str, &'static str), u64>,
    /// Number of orders by bid action (`open`, `close`) and result (`success`, `fail`). The result is `fail`
    /// if the order finished without a successful transaction.
    pub bid_results: BTreeMap<(&'static str, &'static str), u64>,
    /// Number of bids, by the number of blocks between the order and the bid. A bid after more than 1000 blocks counts
    /// under the key 1000.
    pub bid_blocks: BTreeMap<u64, u64>,
    /// Time between the order and the bid.
    pub bid_delay: DurationCounts,
    /// Durations of price calculations, with the bounds [`GO_BOUNDS`].
    pub pricing: DurationCounts,
    /// Durations of engine steps that reserve capacity, with the bounds [`GO_BOUNDS`].
    pub reserving: DurationCounts,
    /// Durations of engine steps that reserve capacity, with the bounds [`RESERVATION_BOUNDS`].
    pub reserving_fine: DurationCounts,
    /// Number of port calls, by the name of the call and its result (`success`, `fail`, `unknown`,
    /// `in_progress`).
    pub calls: BTreeMap<(&'static str, &'static str), u64>,
    /// Durations of port calls, by the name of the call.
    pub call_durations: BTreeMap<&'static str, DurationCounts>,
    /// Number of submitted manifests by result: `accepted`, or the kind of the refusal.
    pub manifests: BTreeMap<&'static str, u64>,
    /// Number of health changes of workloads, by new health.
    pub health: BTreeMap<&'static str, u64>,
    /// Number of leases that this provider closed, by close reason.
    pub lease_ends: BTreeMap<&'static str, u64>,
    /// Number of closed leases that no longer have a workload in the cluster.
    pub closed_leases: u64,
    /// Numbers of started and stopped health monitors of workloads.
    ///
    /// If a lease is closed, two stopped monitors are counted, as in the Go provider.
    pub monitors: (u64, u64),
    /// Number of won leases, and number of adopted leases.
    pub leases: (u64, u64),
    /// Withdrawals by result: `success`, `fail`.
    pub withdrawals: BTreeMap<&'static str, u64>,
    /// Durations of scans. A duration starts with the first call and ends when the result is applied. The key
    /// is `full`, or `cluster` for a scan of only the cluster.
    pub scan_durations: BTreeMap<&'static str, DurationCounts>,
    /// Deposits of the bids that this process created, by denomination.
    pub deposits_locked: BTreeMap<Denom, u128>,
    /// Part of `deposits_locked` that the chain returned, because the bid or its lease ended.
    pub deposits_returned: BTreeMap<Denom, u128>,
    /// Counts of the engine, as of the last status request.
    pub engine: EngineCounts,
    /// Number of differences that scans found between the chain, the cluster and the state of the provider.
    pub findings: u64,
    /// Processed blocks.
    pub blocks: u64,
    /// Number of chain snapshots processed after a start or a gap in the events.
    pub resyncs: u64,
    /// Time since the newest block; `None` before the first block.
    pub block_age: Option<Duration>,
    /// Delay from the block time to the processing of the block's events. The bounds are
    /// [`BLOCK_LAG_BOUNDS`].
    pub block_lag: DurationCounts,
    /// Status requests of handles.
    pub status_requests: u64,
    /// Number of facts (events of `Topic::Facts`) that did not reach the bus: the queue was full, or the bus
    /// refused or dropped the fact.
    pub unpublished: u64,
    /// Amount that all active leases together pay per block.
    pub price_per_block: BTreeMap<Denom, Dec>,
    /// Revenue since the start of this process: each processed block adds the prices of all leases.
    pub accrued: BTreeMap<Denom, Dec>,
    /// Part of `accrued` that was withdrawn.
    pub withdrawn: BTreeMap<Denom, Dec>,
}
