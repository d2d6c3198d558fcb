//! The chain client: what the provider asks, sends and hears.

#[cfg(feature = "conformance")]
pub mod conformance;
mod memory;
mod port;
mod split;

pub use crate::types::Certificate;
pub use memory::{BlockMaker, Fate, Inclusion, MemoryChain, Outage};
pub use port::*;
pub use split::SplitChain;
