//! Operators: controllers that turn the records of the provider into cluster objects.
//!
//! Each operator has a pure index: watch events go in, the work for each name comes out. [`queue`] decides the order
//! of the names, and one writer does the work. This module holds the parts that all operators share.

mod change;
#[cfg(test)]
mod explore;
mod guard;
pub mod handover;
pub mod hostname;
pub mod inventory;
pub mod ip;
mod operator_state;
pub mod queue;
mod report;
mod sink;
mod worker;

pub use change::{Change, version_of};
pub use guard::{Hold, MissingRecord};
pub use operator_state::Counts;
pub use report::{IgnoredLease, LeaseParts, WatchStatus};
