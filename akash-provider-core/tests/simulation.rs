//! Complete histories of a provider, each generated from a seed. The chain, the cluster, the tenants and the
//! clock have faults of every kind, and the invariants must hold in each state.
//!
//! A failed seed prints the command that repeats it and writes its event log. Environment variables select
//! the seeds; `xtask/src/sim.rs` lists them.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failed test panics with the reason"
)]

#[path = "simulation/calls.rs"]
mod calls;
#[path = "simulation/campaign.rs"]
mod campaign;
#[path = "simulation/capacity.rs"]
mod capacity;
#[path = "simulation/chain.rs"]
mod chain;
#[path = "simulation/cluster_state.rs"]
mod cluster_state;
#[path = "simulation/faults.rs"]
mod faults;
#[path = "simulation/features.rs"]
mod features;
#[path = "simulation/history.rs"]
mod history;
#[path = "simulation/ids.rs"]
mod ids;
#[path = "simulation/instances.rs"]
mod instances;
#[path = "simulation/invalid_records.rs"]
mod invalid_records;
#[path = "simulation/invariants.rs"]
mod invariants;
#[path = "simulation/money.rs"]
mod money;
#[path = "simulation/oracle.rs"]
mod oracle;
#[path = "simulation/params.rs"]
mod params;
#[path = "simulation/partial_deploys.rs"]
mod partial_deploys;
#[path = "simulation/promises.rs"]
mod promises;
#[path = "simulation/random.rs"]
mod random;
#[path = "simulation/recording.rs"]
mod recording;
#[path = "simulation/replay.rs"]
mod replay;
#[path = "simulation/tenants.rs"]
mod tenants;
#[path = "simulation/world.rs"]
mod world;

use replay::Trace;

#[test]
fn histories_satisfy_every_rule() {
    if let Some(file) = std::env::var_os("SIM_REPLAY") {
        return campaign::replay(file.as_ref());
    }
    campaign::run();
}

#[test]
fn same_seed_gives_same_history() {
    let hash = |seed| history::run(seed, Trace::default()).0.hash();
    for seed in 1..=20 {
        assert_eq!(hash(seed), hash(seed), "seed {seed}");
    }
    assert_ne!(hash(1), hash(2));
}

#[test]
fn recorded_history_replays_to_same_effects() {
    campaign::tapes();
}
