//! Operators: controllers that turn the records of the provider into cluster objects.
//!
//! Each operator has a pure index: watch events go in, the work for each name comes out. [`queue`] decides the order
//! of the names, and one writer does the work. This module holds the parts that all operators share.

mod board;
mod change;
#[cfg(test)]
mod explore;
mod guard;
pub mod handover;
pub mod hostname;
mod intake;
pub mod inventory;
pub mod ip;
pub mod queue;
mod said;
mod worker;

pub use board::Counts;
pub use change::{Change, version_of};
pub use guard::{Hold, MissingRecord};
pub use said::{Ignored, LeaseParts, WatchStatus};
