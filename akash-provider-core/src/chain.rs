//! The chain client: queries, transactions and events.

#[cfg(feature = "conformance")]
pub mod conformance;
mod memory;
mod port;
mod split;

pub use crate::types::Certificate;
pub use memory::{BlockMaker, BroadcastResult, Inclusion, MemoryChain, QueryOutage};
pub use port::*;
pub use split::SplitChain;
