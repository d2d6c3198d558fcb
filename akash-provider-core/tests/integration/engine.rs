//! The engine against a small world: a real market as a value, a cluster in a map, and clocks moved by hand.
//!
//! Tests whose names begin with `w` and a number hold what a known weakness of today's provider must not do
//! here, and those with `b` the network's cases of a bid; `docs/parity.md` lists them all.

mod benches;
mod breaker;
mod doubt;
mod leaders;
mod leases;
mod manifests;
mod memory;
mod money;
mod names;
mod orders;
mod prices;
mod readings;
mod records;
mod recovery;
mod screening;
mod size;
mod unread;
mod upkeep;
mod wallet;
mod world;
