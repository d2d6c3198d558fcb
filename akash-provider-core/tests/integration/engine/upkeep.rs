//! Periodic work: repair of workloads and hostnames, payouts, and the number of closes that the breaker
//! counts.

use crate::engine::world::*;
use akash_provider_core::cluster::{
    ClusterChange, Health, HostnameDeclaration, RecordDefect, UnusableRecord,
};
use akash_provider_core::engine::{Call, Completion, Input, Leadership, Reply};
use akash_provider_core::types::{ChainEvent, Event, LeaseId, Msg, TxError, TxOutcome};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn manifest_is_accepted_after_all_groups_are_recorded() {
    let sdl = sdl_of("web", "nginx:1", &[], &["east", "north", "west"]);
    let mut world = World::new();
    world.lease(1, &sdl);
    world.hold = Some(is_record);
    let request = world.submit_later(1, &sdl);
    for _ in 0..3 {
        assert_eq!(
            world.replies.get(&request),
            None,
            "the manifest is not completely durable"
        );
        let at = world
            .in_flight
            .iter()
            .position(|(_, call)| is_record(call))
            .unwrap();
        let (id, call) = world.in_flight.remove(at).unwrap();
        let recorded = world.answer(&call);
        world.feed(Input::Completed(id, recorded));
        world.settle();
    }
    assert_eq!(world.replies.get(&request), Some(&Ok(Reply::Done)));
    assert_eq!(world.cluster.len(), 3);
}

#[test]
fn no_deploy_before_first_cluster_list() {
    let mut world = World::new();
    let lease = world.lease(1, &web());
    world.fail = Some(is_deploy);
    assert_eq!(world.submit(1, &web()).map(|_| ()), Ok(()));
    world.lead(Leadership::Standby);
    world.fail = None;
    world.hold = Some(is_list);
    world.lead(Leadership::Leader { epoch: 7 });
    world.calls.clear();
    world.wait(10 * MINUTE);
    assert_eq!(
        world.count(is_deploy),
        0,
        "another leader may have deployed another manifest"
    );
    world.hold = None;
    world.settle();
    world.wait(2 * MINUTE);
    assert_eq!(world.count(is_deploy), 1);
    assert_eq!(world.cluster[&lease].epoch, 7);
}

#[test]
fn workload_missing_in_cluster_is_deployed_again() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    world.cluster.clear();
    world.wait(11 * MINUTE);
    assert!(world.cluster.contains_key(&lease));
    let lost = |e: &Event| matches!(e, Event::DriftFound { findings } if findings[0].contains("missing or incomplete in the cluster"));
    assert_eq!(world.count_facts(lost), 1);
}

#[test]
fn lost_record_is_declared_again_within_seconds() {
    let mut world = World::new();
    let lease = world.running(1, &sdl_of("web", "nginx:1", &["a.example"], &["east"]));
    let mut without = (*world.cluster[&lease]).clone();
    let declared = std::mem::take(&mut without.hostnames);
    world.cluster.insert(lease.clone(), Arc::new(without));
    // The definition of the record is missing for five minutes.
    world.fail = Some(is_deploy);
    world.feed(Input::Cluster(ClusterChange::RecordsLost));
    world.wait(5 * MINUTE);
    let tries = world.count(is_deploy);
    assert!((9..=11).contains(&tries), "{tries} tries");
    world.fail = None;
    world.feed(Input::Cluster(ClusterChange::RecordsLost));
    world.wait(Duration::from_secs(2));
    assert_eq!(world.cluster[&lease].hostnames, declared);
}

/// Creates a lease with a declared hostname that its manifest does not contain.
fn with_unwanted_name(world: &mut World) -> LeaseId {
    let lease = world.running(1, &sdl_of("web", "nginx:1", &["a.example"], &["east"]));
    let mut deployed = (*world.cluster[&lease]).clone();
    deployed
        .hostnames
        .push(HostnameDeclaration::new("left.example", "web", 80));
    world.cluster.insert(lease.clone(), Arc::new(deployed));
    lease
}

#[test]
fn cluster_lists_do_not_shorten_deploy_back_off() {
    let mut world = World::new();
    with_unwanted_name(&mut world);
    // The workloads are listed every 20 seconds while an object is unusable.
    let other = world.lease(2, &web());
    world.unusable = vec![UnusableRecord {
        name: other.namespace(),
        lease: Some(other),
        remains: RecordDefect::Unreadable,
        problem: "no manifest".to_owned(),
    }];
    world.fail = Some(is_deploy);
    world.resync();
    let before = (world.count(is_list), world.count(is_deploy));
    world.wait(10 * MINUTE);
    let (lists, deploys) = (world.count(is_list) - before.0, world.count(is_deploy) - before.1);
    assert!(lists >= 28, "{lists} lists");
    assert!((14..=16).contains(&deploys), "{deploys} deploys in ten minutes");
}

#[test]
fn declared_hostname_not_in_manifest_is_withdrawn() {
    let mut world = World::new();
    let lease = with_unwanted_name(&mut world);
    world.wait(11 * MINUTE);
    let purged = world.calls.iter().any(
        |call| matches!(call, Call::Deploy { purge_hostnames, .. } if *purge_hostnames == ["left.example"]),
    );
    assert!(purged);
    let names: Vec<_> = world.cluster[&lease]
        .hostnames
        .iter()
        .map(|h| &*h.hostname)
        .collect();
    assert!(!names.contains(&"left.example"), "{names:?}");
}

#[test]
fn payout_is_due_one_day_after_previous_payout() {
    let mut world = World::new();
    world.running(1, &web());
    world.blocks(12_000, 13 * BLOCK / 12);
    assert_eq!(world.count(is_withdrawal), 0, "less than 22 hours");
    world.restart();
    world.blocks(2_000, 13 * BLOCK / 12);
    assert_eq!(world.count(is_withdrawal), 1, "more than 25 hours");
}

#[test]
fn failed_payout_is_retried_after_any_failure() {
    type Outcome = fn(&World) -> Completion;
    let unsent: Outcome = |_| Completion::Tx(Err(failure(false)));
    let refused: Outcome = |_| {
        let (error, code, log) = (TxError::Other, "escrow/1".to_owned(), "no".to_owned());
        Completion::Tx(Ok(TxOutcome::Rejected { error, code, log }))
    };
    let unknown: Outcome = |world| {
        let expires = world.market.time().plus(MINUTE);
        Completion::Tx(Ok(TxOutcome::Unknown { expires }))
    };
    for outcome in [unsent, refused, unknown] {
        let mut world = World::new();
        world.running(1, &web());
        world.hold = Some(is_withdrawal);
        world.blocks(2 * 25, HOUR / 2);
        let (id, _) = world.take_pending(is_withdrawal);
        world.hold = None;
        let failed = outcome(&world);
        world.feed(Input::Completed(id, failed));
        world.blocks(10, MINUTE);
        assert_eq!(
            world.count_facts(|e| matches!(e, Event::WithdrawFailed { .. })),
            1
        );
        assert_eq!(world.count_facts(|e| matches!(e, Event::Withdrawn { .. })), 1);
    }
}

#[test]
fn ended_lease_is_not_paid_out_again() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    world.hold = Some(is_withdrawal);
    world.blocks(2 * 25, HOUR / 2);
    world.hold = None;
    world.calls.clear();
    world.refuse(is_withdrawal, TxError::LeaseNotActive, "market/10");
    world.blocks(60, MINUTE);
    let again = world
        .calls
        .iter()
        .any(|call| *call == Call::Broadcast(Msg::WithdrawLease { id: lease.clone() }));
    assert!(!again, "the next read of the record decides");
}

/// Creates one lease per deployment, each unhealthy for longer than permitted.
fn sick(world: &mut World, dseqs: std::ops::RangeInclusive<u64>) {
    let leases: Vec<_> = dseqs.map(|dseq| world.running(dseq, &web())).collect();
    for lease in &leases {
        world.health(lease, Health::Bad);
    }
    world.wait(HOUR + 3 * MINUTE);
}

#[test]
fn breaker_allows_share_of_many_leases() {
    let mut config = settings();
    config.breaker_percent = 50;
    let mut world = World::with(config);
    sick(&mut world, 1..=12);
    assert!(
        world.closes().len() >= 5,
        "half of the remaining leases each time"
    );
    assert_eq!(world.status().breaker.held_owners, [tenant(1)]);
    assert!(world.closes().len() < 12);
}

#[test]
fn old_closes_do_not_trip_breaker() {
    let mut world = World::new();
    for round in 0..4 {
        sick(&mut world, 3 * round + 1..=3 * round + 3);
        world.blocks(2, BLOCK);
        world.wait(20 * MINUTE);
    }
    assert_eq!(
        (world.closes().len(), world.status().breaker.tripped),
        (12, false)
    );
}

#[test]
fn events_outside_the_status_do_not_change_it() {
    const LEASES: u64 = 1000;
    let mut world = World::new();
    world.looks = false;
    for dseq in 1..=LEASES {
        world.running(dseq, &web());
    }
    let looks = |world: &World| world.count(|call| matches!(call, Call::FetchDeployment(_)));
    let (before, mut changed) = (looks(&world), 0);
    for block in 0..600 {
        let changes = world.engine.changes();
        world.tell(vec![ChainEvent::DeploymentCreated {
            id: deployment_id(LEASES + block + 1),
        }]);
        world.blocks(1, BLOCK);
        changed += u32::from(world.engine.changes() != changes);
    }
    let looks = looks(&world) - before;
    assert!(looks >= 5 * 1000, "{looks} queries in an hour");
    // A full scan runs every ten minutes.
    assert!(changed <= 12, "the status changed in {changed} of 600 blocks");
    let changes = world.engine.changes();
    world.health(&lease_id(1), Health::Bad);
    assert_ne!(world.engine.changes(), changes);
}
