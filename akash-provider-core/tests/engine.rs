//! The engine against a small world: a real market as a value, a cluster in a map, and clocks moved by hand.
//!
//! Tests whose names begin with `w` and a number hold what a known weakness of today's provider must not do
//! here, and those with `b` the network's cases of a bid; `docs/parity.md` lists them all.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what broke and stops"
)]

#[path = "engine/benches.rs"]
mod benches;
#[path = "engine/breaker.rs"]
mod breaker;
#[path = "engine/doubt.rs"]
mod doubt;
#[path = "engine/leaders.rs"]
mod leaders;
#[path = "engine/leases.rs"]
mod leases;
#[path = "engine/manifests.rs"]
mod manifests;
#[path = "engine/memory.rs"]
mod memory;
#[path = "engine/money.rs"]
mod money;
#[path = "engine/names.rs"]
mod names;
#[path = "engine/orders.rs"]
mod orders;
#[path = "engine/prices.rs"]
mod prices;
#[path = "engine/readings.rs"]
mod readings;
#[path = "engine/records.rs"]
mod records;
#[path = "engine/recovery.rs"]
mod recovery;
#[path = "engine/screening.rs"]
mod screening;
#[path = "engine/size.rs"]
mod size;
#[path = "engine/unread.rs"]
mod unread;
#[path = "engine/upkeep.rs"]
mod upkeep;
#[path = "engine/wallet.rs"]
mod wallet;
#[path = "engine/world.rs"]
mod world;
