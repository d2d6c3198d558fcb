//! How an operator speaks to a provider that runs: a Unix socket in its home folder.
//!
//! ```text
//! breaker show|release, leases, reconcile, harden, end-lease ── one line of JSON ──▶ HOME/provider.sock ──▶ the provider
//!                                    ◀── one line of JSON ──
//! ```
//!
//! The socket is for the account that runs the provider, and for root: its mode says so, and whoever connects is
//! looked at once more. Nothing of it can be reached over a network.

mod ask;
mod serve;

pub use ask::{operators, run};
pub(crate) use serve::{Desk, serve};

use akash_provider_core::cluster::Health;
use akash_provider_core::types::{Address, CloseReason, LeaseId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest question in bytes; the longest there is names a lease.
const QUESTION_MAX: u64 = 4 * 1024;
/// Longest answer in bytes: a line for each of some hundred thousand leases.
const ANSWER_MAX: u64 = 64 * 1024 * 1024;
/// What is asked may take so long: the pods of a large lease are written anew.
const WORK_LIMIT: Duration = Duration::from_secs(120);

/// Where the socket of a home folder is.
fn path(home: &Path) -> PathBuf {
    home.join("provider.sock")
}

/// What an operator may ask: one line of JSON, which names the question in `ask`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
enum Question {
    /// How the circuit breaker is.
    Breaker,
    /// Release the circuit breaker, so that the closes that wait go on.
    ReleaseBreaker {
        /// For this owner alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<Address>,
    },
    /// Compare chain, cluster and ledger now, and mend what differs.
    Scan {
        /// Only tell what differs, and mend nothing.
        dry_run: bool,
        /// Confirm the deletions that operators hold.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        confirm: bool,
    },
    /// Which leases there are.
    Leases,
    /// How the operators in its process are.
    Operators,
    /// Give a lease the isolation of the settings.
    Harden {
        /// Order and provider of the lease.
        lease: LeaseId,
    },
    /// End a lease.
    EndLease {
        /// Order and provider of the lease.
        lease: LeaseId,
        /// Reason that the chain records.
        reason: CloseReason,
    },
}

/// How a lease is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LeaseLine {
    lease: LeaseId,
    /// Phase of its workload.
    phase: String,
    /// Known health of its workload.
    health: Health,
    /// Counted unhealthy time, in milliseconds.
    #[serde(default)]
    known_unhealthy_ms: u64,
    /// Unhealthy time that ends the lease, in milliseconds.
    #[serde(default)]
    unhealthy_limit_ms: Option<u64>,
    /// What is wrong with its record in the cluster.
    record_problem: Option<String>,
    /// Why its end does not go on.
    waiting_for: Option<String>,
    /// Since when the circuit breaker holds its end back.
    #[serde(default)]
    held_since: Option<String>,
    /// What the cluster said last against it.
    last_error: Option<String>,
    /// Why its last payout failed.
    #[serde(default)]
    payout_error: Option<String>,
}

/// What comes of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
enum Answer {
    /// How the circuit breaker is; the answer to `Question::Breaker`.
    Breaker {
        /// Closes of our own wait.
        tripped: bool,
        /// Owners for whose leases alone they wait.
        #[serde(default)]
        held_owners: Vec<String>,
        /// Those within the window, of each owner at most half of what may be.
        recent: u32,
        /// How many may be.
        allowed: u32,
        /// The leases that wait.
        waiting: Vec<String>,
        /// Why nothing passes; `None` when it is open.
        shut_because: Option<String>,
    },
    /// It is released; it had tripped or not.
    Released {
        /// False when there was nothing to release: for nobody had it tripped, and no records were missing.
        was_tripped: bool,
        /// The leases that waited.
        waited: Vec<String>,
    },
    /// What differed between chain, cluster and ledger.
    Scanned {
        /// A line for each difference; empty where there was none.
        findings: Vec<String>,
    },
    /// The leases that the provider looks after.
    Leases {
        /// All of them, those that are being ended included.
        leases: Vec<LeaseLine>,
    },
    /// The operators in its process.
    Operators {
        /// What each says of itself, by its name.
        operators: BTreeMap<String, Value>,
    },
    /// The lease has the isolation of the settings.
    Hardened,
    /// The close of the lease is on its way to the chain.
    Ending,
    /// It was not done.
    Refused {
        /// Why not, in words for the operator; they may hold words of the cluster.
        message: String,
    },
}
