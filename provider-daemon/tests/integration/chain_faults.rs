//! The chain client before a node that misbehaves: the development network behind a proxy with faults.
//!
//! The test command runs a small form; `cargo xtask campaign chain` the long one. A failure names its seed:
//! `CHAIN_SEED=7 CHAIN_SEEDS=1 cargo test -p provider-daemon --test integration chain_faults::`.

mod bidder;
mod cut;
mod grpc;
mod judge;
mod kills;
mod proxy;
mod seeds;
mod shutdown;
mod world;

/// A setting of the long form; what the test command uses otherwise.
fn setting(name: &str, small: u64) -> u64 {
    std::env::var(name).map_or(small, |text| {
        text.parse().unwrap_or_else(|e| panic!("{name}: {e}"))
    })
}
