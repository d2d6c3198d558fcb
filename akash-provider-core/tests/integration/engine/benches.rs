//! The engines of the benchmarks start. This test exists because benchmarks run in release builds only, so a
//! missing response in the fixture would stay unnoticed.

#[path = "../../../benches/support/fixture.rs"]
mod fixture;

use fixture::{World, now};

#[test]
fn engines_of_benchmarks_start_with_requested_size() {
    let world = World::new().unwrap();
    assert!(world.engine().unwrap().status(now(1)).orders.is_empty());
    assert_eq!(world.engine_with_bids(3).unwrap().status(now(1)).orders.len(), 3);
    assert_eq!(
        world.engine_with_leases(3).unwrap().status(now(1)).leases.len(),
        3
    );
}
