//! Missing or unreadable Manifest records: no lease ends because of them, and a repaired record is used
//! again.

use crate::engine::world::*;
use akash_provider_core::cluster::{DeclaredHostname, Listing, RecordDefect, UnusableRecord, WorkloadSpec};
use akash_provider_core::engine::{Completion, Input, Leadership, LeasePhase, Request, Status, Workloads};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{CloseReason, Event, LeaseId, LeaseState};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

fn unusable_record(lease: &LeaseId, remains: RecordDefect) -> UnusableRecord {
    UnusableRecord {
        lease: Some(lease.clone()),
        name: lease.namespace(),
        remains,
        problem: format!("Manifest lease/{}: {remains:?}", lease.namespace()),
    }
}

fn running(world: &mut World, count: u64) -> Vec<LeaseId> {
    (1..=count).map(|dseq| world.running(dseq, &web())).collect()
}

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

fn count_unusable(world: &World) -> usize {
    world.count_facts(|e| matches!(e, Event::RecordUnusable { .. }))
}

fn advance_one_hour(world: &mut World) {
    for _ in 0..60 {
        world.blocks(10, BLOCK);
        world.wait(MINUTE);
    }
}

#[test]
fn lost_or_unreadable_record_never_ends_lease() {
    for remains in [RecordDefect::Unreadable, RecordDefect::Unrecorded] {
        let mut config = settings();
        config.manifest_timeout = Some(Duration::from_secs(1));
        let mut world = World::with(config);
        let leases = running(&mut world, 2);
        let removed = take(&mut world, &leases[..1]);
        world.unusable = vec![unusable_record(&leases[0], remains)];
        world.restart();
        advance_one_hour(&mut world);
        assert!(all_active(&world, &leases), "{remains:?}");
        assert_eq!(world.count(is_teardown), 0);
        let problem = problem_of(&world.status(), &leases[0]).unwrap();
        assert!(problem.contains("Manifest lease/"), "{problem}");
        assert_eq!(count_unusable(&world), 1, "reported once");
        assert_eq!(world.count_facts(|e| matches!(e, Event::LeaseEnding { .. })), 0);
        // An operator restores the records. The leases continue within two minutes, without a second deploy.
        world.cluster.extend(removed);
        world.unusable.clear();
        world.wait(2 * MINUTE);
        assert_eq!(problem_of(&world.status(), &leases[0]), None);
        assert_eq!(world.count_facts(|e| matches!(e, Event::RecordUsable { .. })), 1);
        assert!(all_run(&world));
    }
}

#[test]
fn record_without_lease_id_is_matched_by_name() {
    let mut world = World::new();
    let leases = running(&mut world, 2);
    take(&mut world, &leases[..1]);
    let mut nameless = unusable_record(&leases[0], RecordDefect::Unreadable);
    nameless.lease = None;
    world.unusable = vec![nameless];
    world.restart();
    advance_one_hour(&mut world);
    assert!(all_active(&world, &leases));
    assert!(problem_of(&world.status(), &leases[0]).is_some());
}

#[test]
fn new_submission_replaces_lost_record() {
    let mut world = World::new();
    let leases = running(&mut world, 2);
    take(&mut world, &leases[..1]);
    world.unusable = vec![unusable_record(&leases[0], RecordDefect::Unrecorded)];
    world.restart();
    assert_eq!(world.submit(1, &web()).map(|_| ()), Ok(()));
    world.unusable.clear();
    advance_one_hour(&mut world);
    assert!(world.cluster.contains_key(&leases[0]));
    assert!(all_active(&world, &leases));
    assert_eq!(problem_of(&world.status(), &leases[0]), None);
}

#[test]
fn start_without_any_record_ends_no_lease() {
    let mut world = World::new();
    let leases = running(&mut world, 5);
    let removed = take(&mut world, &leases);
    world.restart();
    advance_one_hour(&mut world);
    assert!(all_active(&world, &leases));
    let missed = |e: &Event| matches!(e, Event::RecordsNotFound { leases: 5, .. });
    assert_eq!(world.count_facts(missed), 1);
    let breaker = world.status().breaker;
    assert!(breaker.records_missing.is_some() && !breaker.tripped);
    assert!(breaker.shut_because.unwrap().contains("no record"));
    // Records written by this process prove nothing.
    assert_eq!(world.submit(1, &web()).map(|_| ()), Ok(()));
    advance_one_hour(&mut world);
    assert!(all_active(&world, &leases));
    world.cluster.extend(removed);
    world.wait(2 * MINUTE);
    assert_eq!(world.count_facts(|e| matches!(e, Event::RecordsFound)), 1);
    assert_eq!(world.status().breaker.shut_because, None);
    assert!(all_run(&world));
}

#[test]
fn operator_release_starts_deadlines_of_leases_without_records() {
    let mut world = World::new();
    let leases = running(&mut world, 2);
    take(&mut world, &leases);
    world.restart();
    world.request(Request::ReleaseBreaker);
    world.wait(MINUTE);
    world.blocks(40, BLOCK);
    assert!(
        all_active(&world, &leases),
        "the deadline starts with the release"
    );
    world.blocks(30, BLOCK);
    for lease in &leases {
        let record = world.market.lease(lease).unwrap().lease;
        assert_eq!(record.reason, Some(CloseReason::ManifestTimeout));
    }
}

#[test]
fn deadline_of_lease_absent_from_cluster_starts_with_the_list() {
    let mut world = World::new();
    let leases = running(&mut world, 2);
    take(&mut world, &leases[..1]);
    world.hold = Some(is_list);
    world.restart();
    world.blocks(200, BLOCK);
    assert!(all_active(&world, &leases), "the cluster is not listed yet");
    world.hold = None;
    world.settle();
    world.blocks(45, BLOCK);
    assert!(all_active(&world, &leases), "five minutes have not passed");
    world.blocks(10, BLOCK);
    assert_eq!(world.lease_state(&leases[0]), Some(LeaseState::Closed));
    assert_eq!(world.lease_state(&leases[1]), Some(LeaseState::Active));
}

#[test]
fn list_older_than_deadline_ends_no_lease() {
    let mut world = World::new();
    let other = world.running(2, &web());
    let lease = world.lease(1, &web());
    world.hold = Some(is_list);
    world.blocks(200, BLOCK);
    assert_eq!(
        world.lease_state(&lease),
        Some(LeaseState::Active),
        "the cluster is not listed yet"
    );
    // The cluster is unavailable: unknown is not absent.
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
fn incomplete_list_ends_no_lease() {
    let mut world = World::new();
    let leases = running(&mut world, 3);
    let removed = take(&mut world, &leases[1..]);
    world.restart();
    // The first list lacks two of three leases. The list requested at the deadline is complete.
    world.cluster.extend(removed);
    world.blocks(60, BLOCK);
    assert!(all_active(&world, &leases));
    advance_one_hour(&mut world);
    assert!(all_active(&world, &leases));
    assert_eq!(world.count_facts(|e| matches!(e, Event::LeaseEnding { .. })), 0);
}

#[test]
fn missing_workload_with_record_is_deployed_again() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    let deploys = world.count(is_deploy);
    world.incomplete = vec![lease.clone()];
    world.wait(11 * MINUTE);
    assert!(world.count(is_deploy) > deploys);
    assert!(world.count_facts(|e| matches!(e, Event::DriftFound { .. })) > 0);
}

#[test]
fn no_lease_ends_during_warm_up() {
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
    assert_eq!(world.closes().len(), 1, "without a release");
}

#[test]
fn failed_recording_restarts_deadline_of_every_group() {
    let sdl = sdl_of("web", "nginx:1", &[], &["east", "west"]);
    let mut world = World::new();
    world.running(2, &web());
    world.lease(1, &sdl);
    // The deadline passes while the requested list is still in flight.
    world.hold = Some(is_list);
    world.blocks(55, BLOCK);
    world.fail = Some(is_record);
    assert!(world.submit(1, &sdl).is_err());
    (world.hold, world.fail) = (None, None);
    world.settle();
    world.blocks(2, BLOCK);
    assert_eq!(
        world.active().len(),
        3,
        "each lease has half a minute for another submission"
    );
    world.blocks(10, BLOCK);
    assert_eq!(world.active().len(), 1);
}

#[test]
fn new_leader_with_records_ends_leases_again() {
    let mut world = World::new();
    let leases = running(&mut world, 2);
    let removed = take(&mut world, &leases);
    world.restart();
    assert!(world.status().breaker.records_missing.is_some());
    world.cluster.extend(removed);
    world.lead(Leadership::Standby);
    world.lead(Leadership::Leader { epoch: 7 });
    world.wait(2 * MINUTE);
    assert_eq!(world.status().breaker.records_missing, None);
    assert_eq!(world.count_facts(|e| matches!(e, Event::RecordsFound)), 1);
}

#[test]
fn leases_closed_on_chain_are_torn_down_during_warm_up() {
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
fn list_older_than_lease_end_restores_no_hostnames() {
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
        unusable: vec![unusable_record(&lease, RecordDefect::Unrecorded)],
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
