//! Akash provider core.

pub mod bidding;
#[cfg(feature = "runtime")]
pub mod bus;
#[cfg(feature = "runtime")]
pub mod chain;
pub mod cluster;
pub mod config;
pub mod engine;
pub mod error;
#[cfg(feature = "runtime")]
mod feed;
#[cfg(feature = "runtime")]
mod forward;
pub mod inventory;
pub mod manifest;
pub mod market;
#[cfg(feature = "mock")]
pub mod mock;
pub mod pricing;
#[cfg(feature = "runtime")]
pub mod provider;
#[cfg(feature = "runtime")]
mod runtime;
pub mod sdl;
pub mod types;

pub use config::Config;
pub use error::{Error, ErrorKind, Failure};
