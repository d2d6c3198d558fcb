//! What it takes to believe that a lease is over.
//!
//! Not found is never evidence. A record in a final state counts when it was read at a height later than what
//! made us look, and no second endpoint disputes it; a second endpoint that stays unreachable for the
//! configured grace no longer counts.

use crate::config::Config;
use crate::types::{Agreement, CloseReason, Height, LeaseRecord, Mono, Observed};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Who said that a lease is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HeardBy {
    /// The chain, by an event or by refusing a message for it.
    Chain,
    /// A full scan that did not find it among the live ones.
    Scan,
}

/// What made us look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Heard {
    /// Height it is about.
    pub height: Height,
    /// When we heard it.
    pub since: Mono,
    /// Whether the chain said so, or a scan did not find it.
    pub by: HeardBy,
    /// The reason given, if any.
    pub reason: Option<CloseReason>,
}

/// What a reading of the record is worth.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The lease is over.
    Over {
        /// Reason that the record names.
        reason: Option<CloseReason>,
        /// False when a second endpoint is configured and unreachable.
        confirmed: bool,
    },
    /// The lease is live: what we heard is refuted.
    Live(Arc<LeaseRecord>),
    /// It decides nothing; ask again.
    Undecided(&'static str),
}

/// Weighs a reading of the lease's record against what was heard of its end.
#[must_use]
pub fn weigh(config: &Config, now: Mono, heard: Option<&Heard>, seen: Observed<LeaseRecord>) -> Verdict {
    let Some(record) = seen.value else {
        return Verdict::Undecided("the record was not found");
    };
    // A node that is no further than the news may show the record as it was before.
    if heard.is_some_and(|h| seen.height <= h.height) {
        return Verdict::Undecided("the record was read at an older height");
    }
    let confirmed = matches!(seen.agreement, Agreement::Single | Agreement::Confirmed);
    match seen.agreement {
        Agreement::Single | Agreement::Confirmed => {}
        Agreement::Disputed => return Verdict::Undecided("two endpoints disagree"),
        Agreement::Unreachable => {
            // Where nothing was heard, the grace has not begun.
            let waited = heard.map(|h| now.since(h.since)).unwrap_or_default();
            if !record.lease.state.is_live() && waited < config.witness_grace {
                return Verdict::Undecided("the second endpoint is unreachable");
            }
        }
    }
    if record.lease.state.is_live() {
        Verdict::Live(Arc::new(record))
    } else {
        let reason = record.lease.reason;
        Verdict::Over { reason, confirmed }
    }
}
