//! Transactions: each message is sent once and ends in a known way.
//!
//! The planner decides, without a socket and without a clock; [`TxWriter`] signs, asks and answers;
//! [`api::TxApi`] is what it needs of a node.

pub mod api;
mod code;
#[cfg(test)]
pub(crate) mod fake;
mod node;
mod planner;
mod standing;
mod writer;

pub use crate::sequence::{LIFETIME, LIFETIME_BLOCKS};
pub use planner::{Nonces, PlannerConfig, WriterStatus};
pub(crate) use writer::Fence;
pub use writer::{SeenBlock, TxWriter};
