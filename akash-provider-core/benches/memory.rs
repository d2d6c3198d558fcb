//! Memory benchmarks. Each line of the output is one JSON object: `{"name", "value", "unit"}`. `cargo xtask
//! bench` compares the figures with their targets.
//!
//! The global allocator of this program counts every allocation, which makes the program slower. The bench
//! `figures` measures speed.

#[path = "support/fixture.rs"]
#[expect(dead_code, reason = "each bench uses a part of the shared module")]
mod fixture;

use akash_provider_core::inventory::node_inventory::NodeInventory;
use akash_provider_core::inventory::{AdjustOptions, Inventory};
use fixture::{World, uniform_nodes};

/// Number of active leases of the measured engine.
const LEASES: u64 = if cfg!(debug_assertions) { 1_000 } else { 100_000 };

type BenchError = Box<dyn std::error::Error>;

fn main() -> Result<(), BenchError> {
    let world = World::new()?;
    let empty = retained_bytes(|| world.engine())?;
    print("engine_empty_bytes", empty, "bytes");
    let full = retained_bytes(|| world.engine_with_leases(LEASES))?;
    print(
        "engine_bytes_per_idle_lease",
        (full - empty) / i64::try_from(LEASES)?,
        "bytes",
    );
    print("fit_100_alloc_bytes", fit_bytes(&world, 100), "bytes");
    print("fit_1000_alloc_bytes", fit_bytes(&world, 1_000), "bytes");
    Ok(())
}

/// Returns the number of bytes that the placement of one order allocates. Of the `nodes` nodes, only the last
/// has enough capacity.
fn fit_bytes(world: &World, nodes: usize) -> i64 {
    let mut spec = uniform_nodes(nodes, 10);
    if let Some(last) = spec.nodes.last_mut() {
        last.cpu.allocatable = 1_000;
    }
    let mut inventory = NodeInventory::new(&spec);
    let fit = || drop(inventory.adjust(&world.spec.resources, AdjustOptions::default()));
    i64::try_from(allocation_counter::measure(fit).bytes_total).unwrap_or(i64::MAX)
}

/// Returns the number of bytes that the value from `make` occupies.
fn retained_bytes<T>(make: impl FnOnce() -> Result<T, BenchError>) -> Result<i64, BenchError> {
    let mut made = None;
    let bytes = allocation_counter::measure(|| made = Some(make())).bytes_current;
    match made {
        Some(Err(failed)) => Err(failed),
        Some(Ok(_)) | None => Ok(bytes),
    }
}

fn print(name: &str, value: i64, unit: &str) {
    println!(
        "{}",
        serde_json::json!({"name": name, "value": value, "unit": unit})
    );
}
