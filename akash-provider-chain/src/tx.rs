//! Transactions: each message is included once, with a known outcome.
//!
//! The planner decides about the next steps, without I/O and without a clock. [`TxWriter`] signs, calls nodes and
//! replies to callers. [`api::TxApi`] contains the required queries.

pub mod api;
mod code;
#[cfg(test)]
pub(crate) mod fake;
mod node;
mod object_state;
mod planner;
mod writer;

pub use crate::sequence::{LIFETIME, LIFETIME_BLOCKS};
pub use planner::{Nonces, PlannerConfig, WriterStatus};
pub(crate) use writer::Fence;
pub use writer::{ObservedBlock, TxWriter};
