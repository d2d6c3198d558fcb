//! The chain client before a node that misbehaves: the development network behind a proxy with faults.
//!
//! The test command runs a small form; `cargo xtask campaign chain` the long one. A failure names its seed:
//! `CHAIN_SEED=7 CHAIN_SEEDS=1 cargo test -p provider-daemon --test chain_faults`.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what broke and stops"
)]

#[path = "chain_faults/bidder.rs"]
mod bidder;
#[path = "chain_faults/cut.rs"]
mod cut;
#[path = "chain_faults/grpc.rs"]
mod grpc;
#[path = "chain_faults/judge.rs"]
mod judge;
#[path = "chain_faults/kills.rs"]
mod kills;
#[path = "chain_faults/proxy.rs"]
mod proxy;
#[path = "chain_faults/seeds.rs"]
mod seeds;
#[path = "chain_faults/shutdown.rs"]
mod shutdown;
#[path = "chain_faults/world.rs"]
mod world;

/// A setting of the long form; what the test command uses otherwise.
fn setting(name: &str, small: u64) -> u64 {
    std::env::var(name).map_or(small, |text| {
        text.parse().unwrap_or_else(|e| panic!("{name}: {e}"))
    })
}
