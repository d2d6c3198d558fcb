//! Rules for the evidence that a lease is closed.
//!
//! A missing record is never evidence. A record in a final state is evidence if it was read at a later height
//! than the report of the close, and no second endpoint disputes the record. A second endpoint that is
//! unreachable for longer than the configured grace period is ignored.

use crate::config::Config;
use crate::types::{Agreement, CloseReason, Height, LeaseRecord, Mono, Observed};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Source of the report that a lease is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReportSource {
    /// A chain event, or the rejection of a message for the lease.
    Chain,
    /// A full scan that did not find the lease among the active leases.
    Scan,
}

/// Unverified information that a lease is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CloseReport {
    /// Height of the newest processed block when the report was received.
    pub height: Height,
    /// Time at which the close report was received.
    pub since: Mono,
    /// Source of the report.
    pub by: ReportSource,
    /// Close reason, if the report contains one.
    pub reason: Option<CloseReason>,
}

/// Result of evaluating a lease record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum LeaseVerdict {
    /// The lease is closed.
    Closed {
        /// Close reason in the record.
        reason: Option<CloseReason>,
        /// False if a second endpoint is configured but unreachable.
        confirmed: bool,
    },
    /// The record shows an active lease, so the close report is false.
    Live(Arc<LeaseRecord>),
    /// The record does not prove whether the lease is closed, and must be read again. Contains the reason.
    Undecided(&'static str),
}

/// Evaluates a lease record after a report that the lease is closed.
pub(crate) fn assess(
    config: &Config,
    now: Mono,
    report: Option<&CloseReport>,
    seen: Observed<LeaseRecord>,
) -> LeaseVerdict {
    let Some(record) = seen.value else {
        return LeaseVerdict::Undecided("the record was not found");
    };
    // A node at the height of the report, or below, may return the record from before the close.
    if report.is_some_and(|h| seen.height <= h.height) {
        return LeaseVerdict::Undecided("the record was read at an older height");
    }
    let confirmed = matches!(seen.agreement, Agreement::Single | Agreement::Confirmed);
    match seen.agreement {
        Agreement::Single | Agreement::Confirmed => {}
        Agreement::Disputed => return LeaseVerdict::Undecided("two endpoints disagree"),
        Agreement::Unreachable => {
            // Without a report, the grace period has not started.
            let waited = report.map(|h| now.since(h.since)).unwrap_or_default();
            if !record.lease.state.is_live() && waited < config.witness_grace {
                return LeaseVerdict::Undecided("the second endpoint is unreachable");
            }
        }
    }
    if record.lease.state.is_live() {
        LeaseVerdict::Live(Arc::new(record))
    } else {
        let reason = record.lease.reason;
        LeaseVerdict::Closed { reason, confirmed }
    }
}
