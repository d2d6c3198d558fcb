//! Shared parts of the examples: a market with one tenant, and the scenario that every example runs.
//!
//! ```text
//!   tenant: deployment ──► provider: bid ──► tenant: lease, manifest ──► provider: deploys, is healthy
//!                                            tenant: close           ──► provider: releases everything
//! ```
//! The example `embedded` runs the scenario on the in-memory backends. Each other example is the same program with one
//! port replaced.

#[cfg(feature = "runtime")]
mod play;
mod tenant;

#[cfg(feature = "runtime")]
pub use play::{Network, Play, ProviderBackends};
pub use tenant::{BLOCK, CHAIN_ID, DENOM, PROVIDER, SDL, TENANT, Tenant, cluster, config, market, prices};

/// Error that ends an example.
pub type Failed = Box<dyn std::error::Error>;
