//! Protocol between the operator commands and a running provider: a Unix socket in the home directory.
//!
//! ```text
//! breaker, leases, capacity, reconcile, harden, end-lease, log-level ── one line of JSON ──▶ HOME/provider.sock ──▶ the provider
//! orders, order, summary
//!                                    ◀── one line of JSON ──
//! ```
//!
//! The file mode gives access to root and the system user of the provider only, and the credentials of each peer are
//! checked as well. The socket is not reachable over a network.

mod acts;
mod capacity;
mod serve;

pub(crate) use serve::{SocketHandler, serve};

use crate::history::{HistoryHealth, OrderFilter, OrderRecord, OrderRef, Summary};
use akash_provider_core::cluster::Health;
use akash_provider_core::inventory::Metrics;
use akash_provider_core::types::{Address, CloseReason, DecCoin, LeaseId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum size of a request in bytes.
const REQUEST_MAX: u64 = 4 * 1024;
/// Maximum size of a response in bytes, sufficient for several hundred thousand leases.
pub const RESPONSE_MAX: u64 = 64 * 1024 * 1024;
/// Maximum duration of a request. The longest request rewrites all pods of a lease.
pub const WORK_LIMIT: Duration = Duration::from_secs(120);

/// Returns the path of the socket.
#[must_use]
pub fn path(home: &Path) -> PathBuf {
    home.join("provider.sock")
}

/// Request of an operator command. The JSON field `ask` is the kind of request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlRequest {
    /// Returns the state of the circuit breaker.
    Breaker,
    /// Releases the circuit breaker, so that the provider closes the waiting leases.
    ReleaseBreaker {
        /// Tenant for which the circuit breaker is released; `None` for all leases.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<Address>,
    },
    /// Compares chain, cluster and provider state, and repairs the differences.
    Scan {
        /// True to report the differences without repairing them.
        dry_run: bool,
        /// True to confirm the deletions that wait for a confirmation.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        confirm: bool,
    },
    /// Returns the leases.
    Leases,
    /// Returns the free capacity, and the resources that are not offered.
    Capacity,
    /// Returns the status of the operators that are embedded in the provider.
    Operators,
    /// Applies the provider's isolation level to the pods of a lease.
    Harden {
        /// Market order and provider of the lease.
        lease: LeaseId,
    },
    /// Ends a lease.
    EndLease {
        /// Market order and provider of the lease.
        lease: LeaseId,
        /// Reason that the chain records.
        reason: CloseReason,
    },
    /// Returns or changes the log level.
    LogLevel {
        /// New level; `None` changes nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        level: Option<String>,
    },
    /// Returns recorded orders.
    Orders {
        /// Conditions for the orders.
        filter: OrderFilter,
    },
    /// Returns the records of one order or deployment.
    Order {
        /// Reference to the orders.
        order: OrderRef,
    },
    /// Returns the status of the order history.
    History,
    /// Returns a summary of the recorded orders.
    Summary {
        /// Start of the summarized period, in milliseconds since the Unix epoch.
        since: u64,
    },
}

/// Lease of the provider, with its state, price and earnings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseLine {
    /// Market order and provider of the lease.
    pub lease: LeaseId,
    /// Phase of the workload of the lease.
    pub phase: String,
    /// Last known health of the workload.
    pub health: Health,
    /// Total unhealthy time in milliseconds, reset when the workload becomes healthy or is deployed.
    #[serde(default)]
    pub known_unhealthy_ms: u64,
    /// Unhealthy time after which the provider closes the lease, in milliseconds.
    #[serde(default)]
    pub unhealthy_limit_ms: Option<u64>,
    /// Problem with the lease's Manifest object, such as invalid content.
    pub record_problem: Option<String>,
    /// Reason why the lease is not closed yet.
    pub waiting_for: Option<String>,
    /// Time at which the circuit breaker started to delay the close of the lease.
    #[serde(default)]
    pub held_since: Option<String>,
    /// Last error of a cluster operation on the workload of the lease.
    pub last_error: Option<String>,
    /// Error of the last withdrawal of earnings.
    #[serde(default)]
    pub payout_error: Option<String>,
    /// Price per block; `None` if only the workload remains to be deleted.
    #[serde(default)]
    pub price: Option<DecCoin>,
    /// Price of 30 days, from the average interval between recent blocks.
    #[serde(default)]
    pub price_30_days: Option<DecCoin>,
    /// Earnings since the creation of the lease; `None` if unknown. Blocks are not counted if the escrow
    /// account cannot pay for them.
    #[serde(default)]
    pub accrued: Option<DecCoin>,
    /// Withdrawn part of `accrued`; `None` if unknown.
    #[serde(default)]
    pub withdrawn: Option<DecCoin>,
}

/// Response to a request. The JSON field `answer` is the kind of response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Response {
    /// State of the circuit breaker; the response to `ControlRequest::Breaker`.
    Breaker {
        /// True if the circuit breaker tripped for all leases.
        tripped: bool,
        /// Owners (tenants) for whom the circuit breaker tripped individually.
        #[serde(default)]
        held_owners: Vec<String>,
        /// Number of closes within the window. For each owner, at most half of `allowed` is counted.
        recent: u32,
        /// Maximum number of closes within the window.
        allowed: u32,
        /// Leases that wait for the release of the circuit breaker.
        waiting: Vec<String>,
        /// Reason why the circuit breaker prevents all closes; `None` if some leases can be closed.
        shut_because: Option<String>,
    },
    /// The circuit breaker was released.
    Released {
        /// True if the circuit breaker prevented closes before the release.
        was_tripped: bool,
        /// Leases that waited for the release and are now closed.
        waited: Vec<String>,
    },
    /// Differences between chain, cluster and provider state.
    Scanned {
        /// One line per difference.
        findings: Vec<String>,
    },
    /// Leases of the provider.
    Leases {
        /// All leases, including leases that are being closed.
        leases: Vec<LeaseLine>,
    },
    /// Free capacity of the cluster.
    Capacity {
        /// True after the first inventory update.
        is_known: bool,
        /// Free capacity by node and storage class, and the resources that are not offered.
        capacity: Box<Metrics>,
    },
    /// Operators that are embedded in the provider.
    Operators {
        /// Status of each operator, by name.
        operators: BTreeMap<String, Value>,
    },
    /// The pods of the lease now have the provider's isolation level.
    Hardened,
    /// The close of the lease is being sent to the chain.
    Ending,
    /// Log level of the process.
    LogLevel {
        /// Level after the request.
        level: String,
        /// Level before the request.
        before: String,
    },
    /// Recorded orders.
    Orders {
        /// Records, newest first.
        orders: Vec<OrderRecord>,
        /// Status of the recording.
        #[serde(flatten)]
        health: HistoryHealth,
    },
    /// Summary of the recorded orders.
    Summary {
        /// Counts of the orders, and the changes of price or capacity that would have won the most orders.
        summary: Summary,
        /// Status of the recording.
        #[serde(flatten)]
        health: HistoryHealth,
    },
    /// Status of the order history.
    History {
        /// Status of the order history; `None` if the history is disabled.
        health: Option<HistoryHealth>,
    },
    /// The request failed.
    Refused {
        /// Reason for the refusal, as text for the caller.
        message: String,
    },
}
