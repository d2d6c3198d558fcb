//! The engine with a simulated chain, a cluster in a map, and manual clocks.
//!
//! Test names with the prefix `w` and a number cover a known weakness of the Go provider. `docs/parity.md` lists
//! all of these tests.

mod benches;
mod breaker;
mod doubt;
mod fees;
mod hostnames;
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
