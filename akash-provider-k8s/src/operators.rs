//! What runs beside the provider and turns its records into objects of the cluster.
//!
//! An operator has an index, which is pure: what its watches say goes in, what is to be done comes out. [`queue`] says
//! whose turn it is, and one writer does it. What is here is the same for all of them.

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
