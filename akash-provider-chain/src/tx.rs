//! Transactions: each message is sent once and ends in a known way.
//!
//! [`planner::Planner`] decides, without a socket and without a clock; [`TxWriter`] signs, asks and answers;
//! [`api::TxApi`] is what it needs of a node.

pub mod api;
pub mod code;
#[cfg(test)]
pub(crate) mod fake;
mod node;
pub mod planner;
pub mod standing;
mod writer;

pub use planner::{Nonces, WriterStatus};
pub use writer::{SeenBlock, TxWriter};
