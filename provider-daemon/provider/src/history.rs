//! Order history: one record for each order of the last days, with the decision, its numbers and its outcome.
//!
//! ```text
//! engine ─▶ HistoryRecorder ─▶ queue (bounded) ─▶ writer thread ─▶ orders.redb (bounded in days and bytes)
//!                                                                       │
//!             `orders`, `order`, `summary` ◀─ operator socket, or the file of a stopped provider
//! ```
//! The engine never waits. Facts that do not fit into the queue, or that cannot be written, are counted and
//! reported once. The history has its own file: after a failed write, the database library refuses all
//! further writes to the same file, and a failure of the history must not affect the other state of the
//! provider.

mod changes;
mod fact;
mod query;
mod queue;
mod record;
mod recorder;
mod store;
mod summary;
mod text;
mod writer;

pub use changes::SuggestedChange;
pub use query::{OrderFilter, OrderRef};
#[cfg(feature = "otlp")]
pub(crate) use record::cut;
pub use record::{HistoryOutcome, OrderRecord};
pub use recorder::HistoryRecorder;
pub(crate) use recorder::Recorders;
pub use store::{FILE, HistoryStore, LIMIT_MIN};
pub use summary::Summary;
pub use text::{line_of, summary_text, timeline};
pub use writer::{History, HistoryHealth};

use crate::state::has_space;
use akash_provider_core::pricing::PricingStrategy;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use writer::FileAccess;

/// Remedy for an interruption of the order history.
pub const INTERRUPTION_HELP: &str = "free space on the file system of --home, or remove the cause above; recording continues without a restart";
/// Pause of the order history after a failure other than a full disk.
const RETRY: Duration = Duration::from_secs(60);

/// Bounds of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum age of a record.
    pub age: Duration,
    /// Maximum size of all records, in bytes.
    pub bytes: u64,
}

/// Starts the order history of a provider. Its writer thread opens the file, so that a large or damaged file
/// delays nothing. Returns `None` if the maximum age is zero.
///
/// # Errors
/// Returns an error if the thread cannot be started.
pub fn start(
    home: &Path,
    bounds: Bounds,
    pricing: Arc<dyn PricingStrategy>,
) -> std::io::Result<Option<(HistoryRecorder, History)>> {
    if bounds.age.is_zero() {
        return Ok(None);
    }
    let (home, place) = (home.to_owned(), home.to_owned());
    let file = FileAccess {
        open: Box::new(move || HistoryStore::open(&home)),
        has_space: Box::new(move || has_space(&place)),
    };
    writer::start(file, bounds, pricing, RETRY).map(Some)
}

#[cfg(test)]
mod tests;
