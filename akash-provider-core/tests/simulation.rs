//! Whole histories of a provider, each from a seed: a chain, a cluster, tenants and a clock that go wrong in
//! every way they can, and rules that hold all the same.
//!
//! A seed that fails prints how to run it alone and leaves its event log. Environment variables say which
//! seeds to run; `docs/testing.md` lists them.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what broke and stops"
)]

#[path = "simulation/calls.rs"]
mod calls;
#[path = "simulation/campaign.rs"]
mod campaign;
#[path = "simulation/capacity.rs"]
mod capacity;
#[path = "simulation/chain.rs"]
mod chain;
#[path = "simulation/faults.rs"]
mod faults;
#[path = "simulation/flavour.rs"]
mod flavour;
#[path = "simulation/halves.rs"]
mod halves;
#[path = "simulation/history.rs"]
mod history;
#[path = "simulation/hostile.rs"]
mod hostile;
#[path = "simulation/ids.rs"]
mod ids;
#[path = "simulation/invariants.rs"]
mod invariants;
#[path = "simulation/money.rs"]
mod money;
#[path = "simulation/oracle.rs"]
mod oracle;
#[path = "simulation/params.rs"]
mod params;
#[path = "simulation/promises.rs"]
mod promises;
#[path = "simulation/rack.rs"]
mod rack;
#[path = "simulation/random.rs"]
mod random;
#[path = "simulation/replay.rs"]
mod replay;
#[path = "simulation/seats.rs"]
mod seats;
#[path = "simulation/tape.rs"]
mod tape;
#[path = "simulation/tenants.rs"]
mod tenants;
#[path = "simulation/world.rs"]
mod world;

use replay::Trace;

#[test]
fn histories_keep_every_rule() {
    if let Some(file) = std::env::var_os("SIM_REPLAY") {
        return campaign::replay(file.as_ref());
    }
    campaign::run();
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let hash = |seed| history::run(seed, Trace::default()).0.hash();
    for seed in 1..=20 {
        assert_eq!(hash(seed), hash(seed), "seed {seed}");
    }
    assert_ne!(hash(1), hash(2));
}

#[test]
fn what_was_recorded_of_a_history_gives_the_same_effects() {
    campaign::tapes();
}
