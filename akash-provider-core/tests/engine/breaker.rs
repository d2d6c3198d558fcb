//! The circuit breaker: no wave of our own closes, and no brake on the chain's.

use crate::world::*;
use akash_provider_core::cluster::Health;
use akash_provider_core::engine::Request;
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{Event, LeaseId};

fn sick(world: &mut World, count: u64) -> Vec<LeaseId> {
    let leases: Vec<_> = (1..=count).map(|dseq| world.running(dseq, &web())).collect();
    for lease in &leases {
        world.health(lease, Health::Bad);
    }
    world.wait(HOUR + 3 * MINUTE);
    leases
}

#[test]
fn it_trips_above_three_closes_and_waits_for_a_release() {
    let mut world = World::new();
    sick(&mut world, 6);
    assert_eq!(world.closes().len(), 3);
    let breaker = world.status().breaker;
    assert_eq!(
        (breaker.tripped, breaker.allowed, breaker.waiting.len()),
        (true, 3, 3)
    );
    assert_eq!(world.told(|e| matches!(e, Event::BreakerTripped { .. })), 1);
    world.wait(24 * HOUR);
    assert_eq!(world.closes().len(), 3, "time does not release it");
    world.request(Request::ReleaseBreaker);
    assert_eq!(world.closes().len(), 6);
    assert!(!world.status().breaker.tripped);
}

#[test]
fn a_lease_that_recovers_in_time_is_not_closed_by_the_release() {
    let mut world = World::new();
    let leases = sick(&mut world, 4);
    let waiting = world.status().breaker.waiting;
    assert_eq!(waiting.len(), 1);
    assert!(leases.contains(&waiting[0]));
    world.health(&waiting[0], Health::Good);
    assert_eq!(world.status().breaker.waiting, []);
    world.request(Request::ReleaseBreaker);
    assert_eq!(world.closes().len(), 3);
    assert!(world.engine.has_lease(&waiting[0]));
}

#[test]
fn it_stays_tripped_over_a_restart() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    world.config.breaker_tripped = true;
    world.restart();
    world.health(&lease, Health::Bad);
    world.wait(3 * HOUR);
    assert_eq!(world.closes(), []);
    world.request(Request::ReleaseBreaker);
    assert_eq!(world.closes().len(), 1);
}

#[test]
fn what_the_chain_closes_is_never_held() {
    let mut config = settings();
    config.breaker_tripped = true;
    let mut world = World::with(config);
    for dseq in 1..=6 {
        world.running(dseq, &web());
    }
    for dseq in 1..=6 {
        let id = deployment_id(dseq);
        world.tenant(TenantMsg::CloseDeployment { id });
    }
    world.blocks(2, BLOCK);
    world.wait(MINUTE);
    assert_eq!((world.cluster.len(), world.active()), (0, vec![]));
}

#[test]
fn teardowns_that_only_a_scan_asks_for_are_held() {
    let mut world = World::new();
    for dseq in 1..=6 {
        world.running(dseq, &web());
    }
    world.deaf = true;
    for dseq in 1..=6 {
        let id = deployment_id(dseq);
        world.tenant(TenantMsg::CloseDeployment { id });
    }
    world.restart();
    world.blocks(3, BLOCK);
    world.wait(5 * MINUTE);
    assert_eq!(world.cluster.len(), 3);
    world.request(Request::ReleaseBreaker);
    world.wait(MINUTE);
    assert_eq!(world.cluster.len(), 0);
}
