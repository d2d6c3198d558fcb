//! Transactions. Each message is included in a block at most once, and its outcome is reported to the caller.
//!
//! The planner decides the next steps, without I/O and without a clock. [`TxWriter`] signs transactions,
//! calls nodes and replies to callers. [`api::TxApi`] contains the queries that the writer needs.

pub mod api;
mod code;
#[cfg(test)]
pub(crate) mod fake;
mod node;
mod object_state;
mod planner;
mod sent;
mod statistics;
mod tx_signer;
mod writer;

pub use crate::sequence::{LIFETIME, LIFETIME_BLOCKS};
pub use planner::{Nonces, PlannerConfig, WriterStatus};
pub use statistics::{MessageOutcome, TxStatistics};
pub use tx_signer::TxSigner;
pub use writer::{ObservedBlock, TxWriter};
