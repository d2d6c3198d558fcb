//! The chain client with a misbehaving node: the development network behind a proxy with faults.
//!
//! The test command runs a short form; `cargo xtask campaign chain` runs the long one. A failure prints its
//! seed: `CHAIN_SEED=7 CHAIN_SEEDS=1 cargo test -p provider-daemon --test integration chain_faults::`.

mod bidder;
mod cut;
mod grpc;
mod judge;
mod kills;
mod proxy;
mod seeds;
mod shutdown;
mod world;

/// Returns the number in the variable `name`, or `small` for a short test.
fn setting(name: &str, small: u64) -> u64 {
    std::env::var(name).map_or(small, |text| {
        text.parse().unwrap_or_else(|e| panic!("{name}: {e}"))
    })
}
