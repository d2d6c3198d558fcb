//! Exhaustive exploration of each state machine, without randomness.
//!
//! A world around one machine takes every possible choice of the chain, the cluster, the tenants and the
//! clock, in every order, with a limited number of failures. Named invariants hold in every reachable state.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failed test panics with the reason"
)]

#[path = "explore/deployment.rs"]
mod deployment;
#[path = "explore/escrow.rs"]
mod escrow;
#[path = "explore/fixture.rs"]
mod fixture;
#[path = "explore/order.rs"]
mod order;
#[path = "explore/search.rs"]
mod search;
#[path = "explore/workload.rs"]
mod workload;
