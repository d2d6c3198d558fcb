//! The chain client: what the provider asks, sends and hears.

mod port;
pub use port::*;
