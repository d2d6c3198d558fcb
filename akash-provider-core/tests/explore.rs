//! Every interleaving of each machine, without randomness.
//!
//! A world around one machine makes every choice that chain, cluster, tenants and clock can make, in every
//! order, with a budget of failures; named invariants hold in every state that can be reached.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what broke and stops"
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
