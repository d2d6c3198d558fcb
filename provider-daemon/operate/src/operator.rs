//! Commands that control a running provider, over the socket in its home directory.

mod capacity;
mod client;
mod connection;
mod orders;

pub(crate) use client::{RunningProvider, running_provider};
pub use client::{operators, run};
