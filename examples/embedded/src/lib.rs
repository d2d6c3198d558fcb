//! What the examples share: a market with one tenant, and the play that all of them put on.
//!
//! ```text
//!   tenant: deployment ──► provider: bid ──► tenant: lease, manifest ──► provider: deploys, is healthy
//!                                            tenant: close           ──► provider: releases everything
//! ```
//! The example `embedded` plays it on the memory backends; each other example is the same program with one
//! port of its own.

#[cfg(feature = "runtime")]
mod play;
mod tenant;

#[cfg(feature = "runtime")]
pub use play::{Network, Play, Ports};
pub use tenant::{BLOCK, CHAIN_ID, DENOM, PROVIDER, SDL, TENANT, Tenant, cluster, config, market, prices};

/// Anything that can go wrong in an example ends it.
pub type Failed = Box<dyn std::error::Error>;
