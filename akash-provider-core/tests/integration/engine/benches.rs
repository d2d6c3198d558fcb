//! What the benches measure can be made. They run in release alone, and nobody would see for long that their engine has
//! no answer to a call that came since.

#[path = "../../../benches/support/fixture.rs"]
mod fixture;

use fixture::{World, now};

#[test]
fn the_engines_of_the_benches_start_with_what_they_are_asked_for() {
    let world = World::new().unwrap();
    assert!(world.engine().unwrap().status(now(1)).orders.is_empty());
    assert_eq!(world.engine_with_bids(3).unwrap().status(now(1)).orders.len(), 3);
    assert_eq!(
        world.engine_with_leases(3).unwrap().status(now(1)).leases.len(),
        3
    );
}
