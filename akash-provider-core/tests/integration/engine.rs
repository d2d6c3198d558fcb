//! The engine with a simulated chain, a cluster in a map, and manual clocks.
//!
//! Test names with the prefix `w` and a number cover a known weakness of the Go provider. Test names with the
//! prefix `b` cover cases of bidding on the network. `docs/parity.md` lists them all.

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
