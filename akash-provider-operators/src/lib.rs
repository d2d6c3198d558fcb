//! Operators of an Akash provider on Kubernetes: controllers that create and update cluster objects. Most of them read the
//! custom resources that the provider writes.
//!
//! Each operator has a pure index: it receives watch events and returns the work for each name. [`queue`] decides the
//! order of the names, and one writer does the work. This module holds the parts that all operators share.

mod change;
#[cfg(test)]
#[path = "../../akash-provider-k8s/kernel/tests/support/deletions.rs"]
mod deletions;
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
mod statistics;
mod worker;

pub use change::{ObjectChange, version_of};
pub use guard::Hold;
pub use operator_state::OperationCounts;
pub use queue::QueueDepth;
pub use report::{IgnoredLease, LeaseParts, WatchStatus};
pub use statistics::WorkStatistics;
