//! Records that are missing or cannot be read: no lease is ended for them, and what is put right goes on.

use crate::engine::world::*;
use akash_provider_core::cluster::{DeclaredHostname, Listing, Remains, Unusable, WorkloadSpec};
use akash_provider_core::engine::{Completion, Input, Leadership, LeasePhase, Request, Status, Workloads};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{CloseReason, Event, LeaseId, LeaseState};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a cluster says of a lease whose record is gone or spoiled.
fn thing(lease: &LeaseId, remains: Remains) -> Unusable {
    Unusable {
        lease: Some(lease.clone()),
        name: lease.namespace(),
        remains,
        problem: format!("Manifest lease/{}: {remains:?}", lease.namespace()),
    }
}

/// Leases that run, before the process ends.
fn running(world: &mut World, count: u64) -> Vec<LeaseId> {
    (1..=count).map(|dseq| world.running(dseq, &web())).collect()
}

/// The cluster has these no longer; what it had of them.
fn take(world: &mut World, leases: &[LeaseId]) -> BTreeMap<LeaseId, Arc<WorkloadSpec>> {
    leases
        .iter()
        .map(|lease| (lease.clone(), world.cluster.remove(lease).unwrap()))
        .collect()
}

fn all_active(world: &World, leases: &[LeaseId]) -> bool {
    let active = |l: &LeaseId| world.lease_state(l) == Some(LeaseState::Active);
    leases.iter().all(active)
}

fn all_run(world: &World) -> bool {
    let status = world.status();
    status.leases.iter().all(|l| l.phase == LeasePhase::Running)
}

fn problem_of(status: &Status, lease: &LeaseId) -> Option<String> {
    let info = status.leases.iter().find(|l| l.lease == *lease)?;
    info.record_problem.clone()
}

fn unusable_told(world: &World) -> usize {
    world.told(|e| matches!(e, Event::RecordUnusable { .. }))
}

/// An hour of blocks, and the clock with them.
fn an_hour(world: &mut World) {
    for _ in 0..60 {
        world.blocks(10, BLOCK);
        world.wait(MINUTE);
    }
}

#[test]
fn a_lease_whose_record_is_lost_or_spoiled_is_never_ended_for_it() {
    for remains in [Remains::Unreadable, Remains::Unrecorded] {
        let mut config = settings();
        config.manifest_timeout = Some(Duration::from_secs(1));
        let mut world = World::with(config);
        let leases = running(&mut world, 2);
        let kept = take(&mut world, &leases[..1]);
        world.unusable = vec![thing(&leases[0], remains)];
        world.restart();
        an_hour(&mut world);
        assert!(all_active(&world, &leases), "{remains:?}");
        assert_eq!(world.count(is_teardown), 0);
        let problem = problem_of(&world.status(), &leases[0]).unwrap();
        assert!(problem.contains("Manifest lease/"), "{problem}");
        assert_eq!(unusable_told(&world), 1, "told once");
        assert_eq!(world.told(|e| matches!(e, Event::LeaseEnding { .. })), 0);
        // Somebody puts it right: it goes on within two minutes, and nothing is deployed twice.
        world.cluster.extend(kept);
        world.unusable.clear();
        world.wait(2 * MINUTE);
        assert_eq!(problem_of(&world.status(), &leases[0]), None);
        assert_eq!(world.told(|e| matches!(e, Event::RecordUsable { .. })), 1);
        assert!(all_run(&world));
    }
}

#[test]
fn one_that_does_not_say_whose_it_is_is_known_by_its_name() {
    let mut world = World::new();
    let leases = running(&mut world, 2);
    take(&mut world, &leases[..1]);
    let mut nameless = thing(&leases[0], Remains::Unreadable);
    nameless.lease = None;
    world.unusable = vec![nameless];
    world.restart();
    an_hour(&mut world);
    assert!(all_active(&world, &leases));
    assert!(problem_of(&world.status(), &leases[0]).is_some());
}

#[test]
fn a_tenant_who_submits_again_mends_a_lost_record() {
    let mut world = World::new();
    let leases = running(&mut world, 2);
    take(&mut world, &leases[..1]);
    world.unusable = vec![thing(&leases[0], Remains::Unrecorded)];
    world.restart();
    assert_eq!(world.submit(1, &web()).map(|_| ()), Ok(()));
    world.unusable.clear();
    an_hour(&mut world);
    assert!(world.cluster.contains_key(&leases[0]));
    assert!(all_active(&world, &leases));
    assert_eq!(problem_of(&world.status(), &leases[0]), None);
}

#[test]
fn a_start_that_finds_no_record_at_all_ends_nothing_until_one_is_found() {
    let mut world = World::new();
    let leases = running(&mut world, 5);
    let kept = take(&mut world, &leases);
    world.restart();
    an_hour(&mut world);
    assert!(all_active(&world, &leases));
    let missed = |e: &Event| matches!(e, Event::RecordsNotFound { leases: 5, .. });
    assert_eq!(world.told(missed), 1);
    let breaker = world.status().breaker;
    assert!(breaker.records_missing.is_some() && !breaker.tripped);
    assert!(breaker.shut_because.unwrap().contains("no record"));
    // What this process itself records proves nothing.
    assert_eq!(world.submit(1, &web()).map(|_| ()), Ok(()));
    an_hour(&mut world);
    assert!(all_active(&world, &leases));
    world.cluster.extend(kept);
    world.wait(2 * MINUTE);
    assert_eq!(world.told(|e| matches!(e, Event::RecordsFound)), 1);
    assert_eq!(world.status().breaker.shut_because, None);
    assert!(all_run(&world));
}

#[test]
fn the_word_of_an_operator_starts_the_clocks_of_leases_without_records() {
    let mut world = World::new();
    let leases = running(&mut world, 2);
    take(&mut world, &leases);
    world.restart();
    world.request(Request::ReleaseBreaker);
    world.wait(MINUTE);
    world.blocks(40, BLOCK);
    assert!(
        all_active(&world, &leases),
        "they have their time from the release"
    );
    world.blocks(30, BLOCK);
    for lease in &leases {
        let record = world.market.lease(lease).unwrap().lease;
        assert_eq!(record.reason, Some(CloseReason::ManifestTimeout));
    }
}

#[test]
fn a_lease_that_is_not_in_the_cluster_has_its_time_from_the_look() {
    let mut world = World::new();
    let leases = running(&mut world, 2);
    take(&mut world, &leases[..1]);
    world.hold = Some(is_list);
    world.restart();
    world.blocks(200, BLOCK);
    assert!(all_active(&world, &leases), "nobody has looked");
    world.hold = None;
    world.settle();
    world.blocks(45, BLOCK);
    assert!(all_active(&world, &leases), "five minutes are not over");
    world.blocks(10, BLOCK);
    assert_eq!(world.lease_state(&leases[0]), Some(LeaseState::Closed));
    assert_eq!(world.lease_state(&leases[1]), Some(LeaseState::Active));
}

#[test]
fn a_list_from_before_the_deadline_ends_no_lease() {
    let mut world = World::new();
    let other = world.running(2, &web());
    let lease = world.lease(1, &web());
    world.hold = Some(is_list);
    world.blocks(200, BLOCK);
    assert_eq!(
        world.lease_state(&lease),
        Some(LeaseState::Active),
        "nobody has looked"
    );
    // The cluster cannot be asked: unknown is not absent.
    world.hold = None;
    world.fail = Some(is_list);
    world.settle();
    world.blocks(200, BLOCK);
    assert_eq!(world.lease_state(&lease), Some(LeaseState::Active));
    world.fail = None;
    world.wait(10 * MINUTE);
    world.blocks(2, BLOCK);
    assert_eq!(world.lease_state(&lease), Some(LeaseState::Closed));
    assert_eq!(world.lease_state(&other), Some(LeaseState::Active));
}

#[test]
fn half_a_list_ends_no_lease() {
    let mut world = World::new();
    let leases = running(&mut world, 3);
    let kept = take(&mut world, &leases[1..]);
    world.restart();
    // The first list lacked two of three; the one that is asked for at the deadline has all.
    world.cluster.extend(kept);
    world.blocks(60, BLOCK);
    assert!(all_active(&world, &leases));
    an_hour(&mut world);
    assert!(all_active(&world, &leases));
    assert_eq!(world.told(|e| matches!(e, Event::LeaseEnding { .. })), 0);
}

#[test]
fn a_workload_that_is_gone_although_its_record_is_there_is_deployed_again() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    let deploys = world.count(is_deploy);
    world.incomplete = vec![lease.clone()];
    world.wait(11 * MINUTE);
    assert!(world.count(is_deploy) > deploys);
    assert!(world.told(|e| matches!(e, Event::DriftFound { .. })) > 0);
}

#[test]
fn nothing_is_ended_in_the_first_minutes_after_a_start() {
    let mut config = settings();
    config.unhealthy_limit = Some(MINUTE);
    config.breaker_warmup = 5 * MINUTE;
    let mut world = World::with(config);
    let lease = world.running(1, &web());
    world.restart();
    world.health(&lease, akash_provider_core::cluster::Health::Bad);
    world.wait(4 * MINUTE);
    assert_eq!(world.closes(), []);
    let status = world.status();
    let waits = status.leases[0].waiting_for.clone().unwrap();
    assert!(waits.contains("warm-up period"), "{waits}");
    world.wait(2 * MINUTE);
    assert_eq!(world.closes().len(), 1, "by itself");
}

#[test]
fn a_manifest_that_could_not_be_kept_gives_every_group_its_time_again() {
    let sdl = sdl_of("web", "nginx:1", &[], &["east", "west"]);
    let mut world = World::new();
    world.running(2, &web());
    world.lease(1, &sdl);
    // The deadline passes, and the list that is asked for then is still on its way.
    world.hold = Some(is_list);
    world.blocks(55, BLOCK);
    world.fail = Some(is_record);
    assert!(world.submit(1, &sdl).is_err());
    (world.hold, world.fail) = (None, None);
    world.settle();
    world.blocks(2, BLOCK);
    assert_eq!(world.active().len(), 3, "each has half a minute to be sent again");
    world.blocks(10, BLOCK);
    assert_eq!(world.active().len(), 1);
}

#[test]
fn a_leader_that_takes_over_and_finds_the_records_ends_leases_again() {
    let mut world = World::new();
    let leases = running(&mut world, 2);
    let kept = take(&mut world, &leases);
    world.restart();
    assert!(world.status().breaker.records_missing.is_some());
    world.cluster.extend(kept);
    world.lead(Leadership::Standby);
    world.lead(Leadership::Leader { epoch: 7 });
    world.wait(2 * MINUTE);
    assert_eq!(world.status().breaker.records_missing, None);
    assert_eq!(world.told(|e| matches!(e, Event::RecordsFound)), 1);
}

#[test]
fn what_the_chain_shows_to_be_over_goes_also_in_the_first_minutes() {
    let mut config = settings();
    config.breaker_warmup = 5 * MINUTE;
    let mut world = World::with(config);
    let lease = world.running(1, &web());
    world.deaf = true;
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(1) });
    world.restart();
    world.blocks(3, BLOCK);
    world.wait(MINUTE);
    assert!(!world.cluster.contains_key(&lease));
}

#[test]
fn a_list_from_before_the_end_of_a_lease_gives_it_no_names() {
    let mut world = World::new();
    let lease = world.running(1, &sdl_of("web", "nginx:1", &["a.example"], &["east"]));
    world.hold = Some(is_list);
    world.wait(11 * MINUTE);
    let at = world
        .in_flight
        .iter()
        .position(|(_, call)| is_list(call))
        .unwrap();
    let (id, _) = world.in_flight.remove(at).unwrap();
    world.tenant(TenantMsg::CloseLease { id: lease.clone() });
    world.blocks(2, BLOCK);
    assert_eq!(world.count(is_teardown), 1);
    assert_eq!(world.status().hostnames.len(), 0);
    let listing = Listing {
        unusable: vec![thing(&lease, Remains::Unrecorded)],
        ..Listing::default()
    };
    let hostname = "a.example".to_owned();
    let hostnames = Some(vec![DeclaredHostname { hostname, lease }]);
    world.feed(Input::Completed(
        id,
        Completion::Workloads(Ok(Workloads {
            listing,
            hostnames,
            ips: None,
        })),
    ));
    assert_eq!(world.status().hostnames.len(), 0);
}
