//! The circuit breaker delays the lease closes that the provider decides, and not the closes of the chain.

use crate::engine::world::*;
use akash_provider_core::RestartState;
use akash_provider_core::cluster::Health;
use akash_provider_core::engine::{Input, Leadership, RefusalKind, Reply, Request};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{Agreement, BlockTime, Event, LeaseId};
use std::time::Duration;

fn sick(world: &mut World, dseqs: impl IntoIterator<Item = u64>) -> Vec<LeaseId> {
    let leases: Vec<_> = dseqs
        .into_iter()
        .map(|dseq| world.running(dseq, &web()))
        .collect();
    for lease in &leases {
        world.health(lease, Health::Bad);
        // The closes are requested in this order.
        world.wait(Duration::from_secs(1));
    }
    world.wait(HOUR + 3 * MINUTE);
    leases
}

/// Number of closed leases of each tenant.
fn closed(world: &World) -> [usize; 3] {
    let closes = world.closes();
    [1, 2, 3].map(|n| {
        let of = closes.iter().filter(|(id, _)| *id.owner() == tenant(n));
        of.count()
    })
}

fn is_trip(event: &Event) -> bool {
    matches!(event, Event::BreakerTripped { .. })
}

fn is_trip_for_one(event: &Event) -> bool {
    matches!(event, Event::BreakerTrippedFor { .. })
}

#[test]
fn breaker_trips_above_three_closes_until_released() {
    let mut world = World::new();
    sick(&mut world, [1, 2, 8001, 8002, 9001, 9002]);
    assert_eq!(world.closes().len(), 3);
    let breaker = world.status().breaker;
    assert_eq!(
        (breaker.tripped, breaker.allowed, breaker.waiting.len()),
        (true, 3, 3)
    );
    assert_eq!(world.count_facts(is_trip), 1);
    world.wait(24 * HOUR);
    assert_eq!(
        world.closes().len(),
        3,
        "the breaker stays tripped as time passes"
    );
    world.request(Request::ReleaseBreaker);
    assert_eq!(world.closes().len(), 6);
    assert!(!world.status().breaker.tripped);
}

#[test]
fn recovered_lease_is_not_closed_by_breaker_release() {
    let mut world = World::new();
    let leases = sick(&mut world, 1..=4);
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
fn breaker_stays_tripped_after_restart() {
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
fn breaker_never_holds_leases_closed_by_the_chain() {
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

/// Creates six leases, closes their deployments without an event to the provider, and restarts the provider.
fn leftovers(agreement: Agreement, tripped: bool) -> World {
    let mut world = World::new();
    for dseq in 1..=6 {
        world.running(dseq, &web());
    }
    world.deaf = true;
    for dseq in 1..=6 {
        let id = deployment_id(dseq);
        world.tenant(TenantMsg::CloseDeployment { id });
    }
    world.config.breaker_tripped = tripped;
    world.agreement = agreement;
    world.restart();
    world.blocks(3, BLOCK);
    world.wait(5 * MINUTE);
    world
}

#[test]
fn tripped_breaker_does_not_hold_workloads_of_confirmed_closes() {
    for agreement in [Agreement::Confirmed, Agreement::Single] {
        for tripped in [false, true] {
            let world = leftovers(agreement, tripped);
            let breaker = world.status().breaker;
            assert_eq!(
                (world.cluster.len(), breaker.waiting.len()),
                (0, 0),
                "{agreement:?}"
            );
            assert_eq!((breaker.tripped, breaker.recent), (tripped, 0), "{agreement:?}");
        }
    }
}

#[test]
fn tripped_breaker_holds_and_reports_unconfirmed_closes() {
    let mut world = leftovers(Agreement::Unreachable, false);
    world.wait(10 * MINUTE);
    assert_eq!(
        world.cluster.len(),
        3,
        "three closes pass before the breaker trips"
    );
    let asked = world.request(Request::Scan { dry_run: true });
    let Ok(Reply::Scan(findings)) = &world.replies[&asked] else {
        panic!("no findings")
    };
    let status = world.status();
    assert_eq!((status.breaker.held.len(), findings.len()), (3, 3));
    for end in &status.breaker.held {
        assert!(end.is_over && end.because.contains("breaker release"), "{end:?}");
        assert!(end.since > BlockTime(1_000_000), "{end:?}");
        let lease = end.lease.to_string();
        assert!(findings.iter().any(|f| f.contains(&lease)), "{findings:?}");
    }
    let is_hold = |e: &Event| matches!(e, Event::EndHeld { message, .. } if message.contains("release"));
    assert_eq!(world.count_facts(is_hold), 3, "each lease must be reported once");
    world.request(Request::ReleaseBreaker);
    world.wait(MINUTE);
    assert_eq!((world.cluster.len(), world.status().breaker.held.len()), (0, 0));
}

#[test]
fn second_endpoint_confirms_held_closes() {
    let mut world = leftovers(Agreement::Unreachable, true);
    world.wait(20 * MINUTE);
    assert_eq!((world.cluster.len(), world.status().breaker.held.len()), (6, 6));
    world.agreement = Agreement::Confirmed;
    world.wait(11 * MINUTE);
    assert_eq!(world.cluster.len(), 0, "the next scan reads the records again");
    let breaker = world.status().breaker;
    assert_eq!((breaker.tripped, breaker.held.len()), (true, 0));
}

/// Creates `count` leases for which no manifest was submitted.
fn bare(world: &mut World, count: u64) {
    for dseq in 1..=count {
        world.lease(dseq, &web());
    }
}

/// Waits until the manifest deadline and the grace period have passed.
fn past_the_deadline(world: &mut World) {
    world.wait(2 * MINUTE);
    world.blocks(70, BLOCK);
}

fn assert_counted(world: &World) {
    let breaker = world.status().breaker;
    assert_eq!((world.closes().len(), breaker.waiting.len()), (3, 3));
}

#[test]
fn breaker_does_not_count_leases_without_manifest() {
    for (tripped, tripped_owner) in [(false, None), (true, None), (false, Some(tenant(1)))] {
        let mut config = settings();
        config.breaker_tripped = tripped;
        config.breaker_held_owners = tripped_owner.into_iter().collect();
        let mut world = World::with(config);
        world.running(50, &web());
        bare(&mut world, 10);
        past_the_deadline(&mut world);
        let breaker = world.status().breaker;
        assert_eq!((world.closes().len(), breaker.recent), (10, 0));
        assert_eq!((breaker.tripped, breaker.waiting.len()), (tripped, 0));
    }
}

#[test]
fn leases_without_manifest_wait_during_warm_up() {
    for tripped in [false, true] {
        let mut config = settings();
        config.breaker_warmup = 10 * MINUTE;
        config.breaker_tripped = tripped;
        config.manifest_timeout = Some(Duration::from_secs(1));
        let mut world = World::with(config);
        bare(&mut world, 5);
        world.blocks(5, BLOCK);
        assert_eq!(world.closes(), []);
        let waits = world.status().leases[0].waiting_for.clone().unwrap();
        assert!(waits.contains("warm-up period"), "{waits}");
        world.wait(11 * MINUTE);
        assert_eq!(world.closes().len(), 5, "without a release");
    }
}

#[test]
fn breaker_counts_found_leases_without_manifest() {
    let mut world = World::new();
    world.running(50, &web());
    bare(&mut world, 6);
    world.restart();
    past_the_deadline(&mut world);
    assert_counted(&world);
}

#[test]
fn breaker_counts_leases_of_another_leader_without_manifest() {
    for won_by in [Leadership::Standby, Leadership::Leader { epoch: 1 }] {
        let mut world = World::new();
        world.lead(Leadership::Leader { epoch: 1 });
        world.wait(2 * MINUTE);
        world.running(50, &web());
        (1..=6).for_each(|dseq| drop(world.order(dseq, &web())));
        world.lead(won_by);
        (1..=6).for_each(|dseq| world.take_bids(dseq, &web()));
        world.lead(Leadership::Leader { epoch: 2 });
        past_the_deadline(&mut world);
        assert_counted(&world);
    }
}

#[test]
fn breaker_counts_leases_won_during_grace_of_previous_leader() {
    let mut world = World::new();
    world.running(50, &web());
    (1..=6).for_each(|dseq| drop(world.order(dseq, &web())));
    world.lead(Leadership::Leader { epoch: 2 });
    (1..=6).for_each(|dseq| world.take_bids(dseq, &web()));
    past_the_deadline(&mut world);
    assert_counted(&world);
}

#[test]
fn breaker_counts_lease_with_possibly_stored_manifest() {
    let mut world = World::new();
    world.running(50, &web());
    bare(&mut world, 6);
    world.fail = Some(is_record);
    (1..=6).for_each(|dseq| assert!(world.submit(dseq, &web()).is_err()));
    world.fail = None;
    world.wait(MINUTE);
    past_the_deadline(&mut world);
    assert_counted(&world);
}

#[test]
fn one_tenant_trips_breaker_for_its_own_leases_only() {
    let mut world = World::new();
    let leases = sick(&mut world, (1..=10).chain([8001]));
    assert_eq!(closed(&world), [3, 1, 0]);
    let status = world.status();
    let breaker = &status.breaker;
    assert_eq!((breaker.tripped, breaker.waiting.len()), (false, 7));
    assert_eq!(breaker.held_owners, [tenant(1)]);
    assert_eq!(
        (world.count_facts(is_trip), world.count_facts(is_trip_for_one)),
        (0, 1)
    );
    assert_eq!(breaker.shut_because, None, "other tenants are not held");
    let waits = status.leases.iter().find(|l| l.lease == leases[9]).unwrap();
    let waits = waits.waiting_for.clone().unwrap();
    assert!(waits.contains(tenant(1).as_str()), "{waits}");
    world.wait(24 * HOUR);
    sick(&mut world, [8002]);
    assert_eq!(
        closed(&world),
        [3, 2, 0],
        "the breaker stays tripped for one tenant only"
    );
    world.request(Request::ReleaseBreaker);
    assert_eq!(closed(&world), [10, 2, 0]);
    assert_eq!(world.status().breaker.held_owners, []);
}

#[test]
fn closes_of_two_tenants_trip_breaker_for_all() {
    let mut world = World::new();
    sick(&mut world, (1..=5).chain(8001..=8005).chain([9001]));
    assert_eq!(closed(&world), [3, 1, 0]);
    assert!(world.status().breaker.tripped);
    assert_eq!(world.count_facts(is_trip), 1);
    world.request(Request::ReleaseBreaker);
    assert_eq!(closed(&world), [5, 5, 1]);
}

#[test]
fn breaker_of_one_tenant_stays_tripped_after_restart_until_released() {
    let mut world = World::new();
    let leases = [1, 8001].map(|dseq| world.running(dseq, &web()));
    world.config.breaker_held_owners = [tenant(1), tenant(3)].into();
    world.restart();
    for lease in &leases {
        world.health(lease, Health::Bad);
    }
    world.wait(3 * HOUR);
    assert_eq!(closed(&world), [0, 1, 0]);
    let release = |number| Request::ReleaseBreakerFor {
        owner: tenant(number),
    };
    let asked = world.request(release(2));
    let refused = world.replies[&asked].clone().map_err(|refusal| refusal.kind);
    assert_eq!(refused, Err(RefusalKind::Rejected));
    world.request(release(1));
    assert_eq!(closed(&world), [1, 1, 0]);
    assert_eq!(world.status().breaker.held_owners, [tenant(3)]);
    let released = |e: &Event| matches!(e, Event::BreakerReleasedFor { .. });
    assert_eq!(world.count_facts(released), 1);
    world.lead(Leadership::Standby);
    let asked = world.request(release(3));
    let refused = world.replies[&asked].clone().map_err(|refusal| refusal.kind);
    assert_eq!(refused, Err(RefusalKind::NotLeader));
}

#[test]
fn new_leader_takes_over_breaker_state() {
    let mut world = World::new();
    world.lead(Leadership::Standby);
    let state = RestartState {
        breaker_tripped: true,
        breaker_held_owners: [tenant(2)].into(),
    };
    world.feed(Input::Kept(state.clone()));
    world.lead(Leadership::Leader { epoch: 1 });
    assert_eq!(RestartState::from_status(&world.status()), state);
    // The engine reports the state of another leader, so that the daemon stores it. The same state again is
    // not reported.
    world.feed(Input::Kept(state));
    assert_eq!(
        (world.count_facts(is_trip), world.count_facts(is_trip_for_one)),
        (1, 1)
    );
    sick(&mut world, [1, 8001]);
    assert_eq!(closed(&world), [0, 0, 0]);
    // Another leader released the breaker. Waiting leases request their close again.
    let released = RestartState {
        breaker_tripped: false,
        breaker_held_owners: [tenant(2)].into(),
    };
    world.feed(Input::Kept(released));
    world.wait(MINUTE);
    assert_eq!(closed(&world), [1, 0, 0]);
    assert_eq!(
        world.count_facts(|event| matches!(event, Event::BreakerReleased)),
        1
    );
    assert_eq!(
        world.count_facts(is_trip_for_one),
        2,
        "still tripped for this tenant, reported again"
    );
    world.feed(Input::Kept(RestartState::default()));
    world.wait(MINUTE);
    assert_eq!(closed(&world), [1, 1, 0]);
}
