//! Leases and their workloads.

use crate::engine::world::*;
use akash_provider_core::cluster::{ClusterChange, Health, Outage};
use akash_provider_core::engine::{Call, Input, Reply, Request};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::sdl::{self, Sdl};
use akash_provider_core::types::{CloseReason, Event, LeaseId, LeaseState, Msg, TxError};
use std::collections::BTreeMap;
use std::slice::from_ref;
use std::time::Duration;

fn is_reclaim(call: &Call) -> bool {
    matches!(call, Call::Broadcast(Msg::StartReclaim { .. }))
}

fn offering_reclamation() -> World {
    let mut config = settings();
    config.reclamation_window = Some(2 * HOUR);
    World::with(config)
}

#[test]
fn w5_lease_with_reclamation_terms_is_announced_then_closed_after_deadline() {
    let mut world = offering_reclamation();
    let lease = world.running(1, &web());
    world.health(&lease, Health::Bad);
    world.wait(HOUR + MINUTE);
    assert_eq!((world.count(is_reclaim), world.closes()), (1, vec![]));
    assert_eq!(world.lease_state(&lease), Some(LeaseState::Reclaiming));
    world.blocks(119, MINUTE);
    assert_eq!(world.closes(), [], "the deadline has not passed");
    world.blocks(3, MINUTE);
    assert_eq!(world.count(is_reclaim), 1, "it is announced once");
    assert_eq!(world.closes(), [(lease.clone(), CloseReason::Unstable)]);
    world.blocks(2, BLOCK);
    world.wait(MINUTE);
    assert!(!world.cluster.contains_key(&lease));
}

#[test]
fn w5_announced_end_is_carried_out_after_restart() {
    let mut world = offering_reclamation();
    let lease = world.running(1, &web());
    world.request(Request::EndLease {
        lease: lease.clone(),
        reason: CloseReason::Decommission,
    });
    assert_eq!(world.lease_state(&lease), Some(LeaseState::Reclaiming));
    world.restart();
    world.blocks(118, MINUTE);
    assert_eq!((world.count(is_reclaim), world.closes()), (0, vec![]));
    world.blocks(4, MINUTE);
    assert_eq!(world.closes(), [(lease.clone(), CloseReason::Decommission)]);
    world.wait(MINUTE);
    assert!(!world.cluster.contains_key(&lease));
}

#[test]
fn w5_missing_manifest_ends_lease_with_reclamation_terms() {
    let mut world = offering_reclamation();
    let lease = world.lease(1, &web());
    world.blocks(60, BLOCK);
    assert_eq!((world.count(is_reclaim), world.closes()), (1, vec![]));
    world.blocks(123, MINUTE);
    assert_eq!(world.closes(), [(lease.clone(), CloseReason::ManifestTimeout)]);
    assert_eq!(world.lease_state(&lease), Some(LeaseState::Closed));
    world.wait(MINUTE);
    assert_eq!(world.active(), []);
}

#[test]
fn w5_a_lease_being_reclaimed_is_still_served() {
    let mut world = offering_reclamation();
    let lease = world.running(1, &web());
    let reason = CloseReason::Decommission;
    world.request(Request::EndLease {
        lease: lease.clone(),
        reason,
    });
    assert_eq!(world.lease_state(&lease), Some(LeaseState::Reclaiming));
    let new = sdl_of("web", "nginx:2", &[], &["east"]);
    world.tenant(TenantMsg::UpdateDeployment {
        id: deployment_id(1),
        hash: new.hash,
    });
    assert_eq!(world.submit(1, &new).map(|_| ()), Ok(()));
    assert_eq!(world.cluster[&lease].group.services[0].image, "nginx:2");
    let checked = world.count_facts(|e| matches!(e, Event::BalanceChecked { .. }));
    world.blocks(15, MINUTE);
    assert!(
        world.count_facts(|e| matches!(
            e,
            Event::BalanceChecked {
                blocks_left: Some(1..),
                ..
            }
        )) > 0
    );
    assert!(world.count_facts(|e| matches!(e, Event::BalanceChecked { .. })) > checked);
}

#[test]
fn w16_failed_deploy_with_pending_update_does_not_end_lease() {
    let mut world = World::new();
    let lease = world.lease(1, &web());
    world.hold = Some(is_deploy);
    assert_eq!(world.submit(1, &web()).map(|_| ()), Ok(()));
    let new = sdl_of("web", "nginx:2", &[], &["east"]);
    world.tenant(TenantMsg::UpdateDeployment {
        id: deployment_id(1),
        hash: new.hash,
    });
    let update = world.submit_later(1, &new);
    assert_eq!(world.replies.get(&update), None, "one call per lease at a time");
    world.fail = Some(is_deploy);
    world.hold = None;
    world.settle();
    assert_eq!(world.replies[&update], Ok(Reply::Done));
    assert_eq!(world.active(), from_ref(&lease.order));
    let status = world.status();
    assert_eq!(
        status.leases[0].last_error.as_deref(),
        Some("away"),
        "the status reports the failure"
    );
    world.fail = None;
    world.wait(2 * MINUTE);
    assert_eq!(world.status().leases[0].last_error, None);
    assert_eq!(world.cluster[&lease].group.services[0].image, "nginx:2");
    assert_eq!(world.status().leases[0].generation, Some(2));
}

#[test]
fn w16_failed_deploy_is_retried_until_it_succeeds() {
    let mut world = World::new();
    let lease = world.lease(1, &web());
    world.fail = Some(is_deploy);
    assert_eq!(world.submit(1, &web()).map(|_| ()), Ok(()));
    world.wait(6 * HOUR);
    assert_eq!(
        world.closes(),
        [],
        "a workload that never ran does not count as unhealthy"
    );
    world.fail = None;
    world.wait(2 * MINUTE);
    assert_eq!(world.count_facts(|e| matches!(e, Event::Deployed { .. })), 1);
    assert!(world.engine.has_lease(&lease));
}

#[test]
fn status_finds_only_the_live_lease_of_a_group() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    let group = group_id(1, 1);
    assert_eq!(world.engine.lease_of(&group), Some(lease));
    assert_eq!(world.engine.lease_of(&group_id(1, 2)), None);
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(1) });
    assert_eq!(world.engine.lease_of(&group), None);
}

#[test]
fn w35_an_outage_of_the_cluster_closes_nothing() {
    let mut world = World::new();
    let leases: Vec<_> = (1..=3).map(|dseq| world.running(dseq, &web())).collect();
    world.fail = Some(|c| {
        matches!(
            c,
            Call::ListWorkloads | Call::Deploy { .. } | Call::Record(_) | Call::Teardown(_)
        )
    });
    world.feed(Input::Cluster(ClusterChange::Lost));
    world.wait(48 * HOUR);
    world.blocks(10, HOUR);
    assert_eq!(world.closes(), []);
    for lease in &leases {
        assert_eq!(world.lease_state(lease), Some(LeaseState::Active));
    }
}

#[test]
fn w35_only_observed_unhealthy_time_counts_in_full() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    world.health(&lease, Health::Bad);
    world.wait(30 * MINUTE);
    world.feed(Input::Cluster(ClusterChange::Lost));
    world.wait(10 * HOUR);
    world.health(&lease, Health::Bad);
    world.wait(29 * MINUTE);
    assert_eq!(world.closes(), []);
    world.wait(2 * MINUTE);
    assert_eq!(world.closes(), [(lease, CloseReason::Unstable)]);
}

#[test]
fn only_failing_containers_of_the_tenant_count_as_unhealthy() {
    let mut config = settings();
    config.unhealthy_limit = Some(MINUTE);
    let mut world = World::with(config);
    let lease = world.running(1, &web());
    let clock = |world: &World| {
        let info = &world.status().leases[0];
        (info.health, info.known_unhealthy_ms, info.unhealthy_limit_ms)
    };
    world.health(&lease, Health::Bad);
    world.wait(50 * SECOND);
    for outage in Outage::ALL {
        world.health(&lease, Health::Out(outage));
        world.wait(10 * MINUTE);
        assert_eq!(clock(&world), (Health::Out(outage), 50_000, Some(60_000)));
    }
    // No object of the lease exists, and no container fails.
    let health = BTreeMap::new();
    world.feed(Input::Cluster(ClusterChange::Snapshot { health }));
    world.wait(10 * MINUTE);
    assert_eq!((world.closes(), clock(&world).1), (vec![], 50_000));
    let away = |e: &Event| {
        matches!(
            e,
            Event::HealthChanged {
                health: Health::Out(Outage::NodeAway),
                ..
            }
        )
    };
    assert_eq!(world.count_facts(away), 1);
    world.health(&lease, Health::Bad);
    world.wait(9 * SECOND);
    assert_eq!(world.closes(), []);
    world.wait(2 * SECOND);
    assert_eq!(world.closes(), [(lease, CloseReason::Unstable)]);
}

#[test]
fn w35_time_before_deploy_does_not_count() {
    let mut world = World::new();
    let lease = world.lease(1, &web());
    let health = BTreeMap::from([(lease.clone(), Health::Bad)]);
    world.feed(Input::Cluster(ClusterChange::Snapshot { health }));
    world.wait(2 * HOUR);
    assert_eq!(world.submit(1, &web()).map(|_| ()), Ok(()));
    assert_eq!(world.status().leases[0].known_unhealthy_ms, 0);
    world.wait(HOUR - MINUTE);
    assert_eq!(world.closes(), [], "two hours without a workload do not count");
    world.wait(2 * MINUTE);
    assert_eq!(world.closes(), [(lease, CloseReason::Unstable)]);
}

#[test]
fn w35_new_manifest_restarts_unhealthy_clock() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    world.health(&lease, Health::Bad);
    world.wait(50 * MINUTE);
    assert_eq!(world.submit(1, &web()).map(|_| ()), Ok(()));
    assert_eq!(
        world.status().leases[0].known_unhealthy_ms,
        50 * 60_000,
        "the same manifest does not reset the clock"
    );
    let new = sdl_of("web", "nginx:2", &[], &["east"]);
    world.tenant(TenantMsg::UpdateDeployment {
        id: deployment_id(1),
        hash: new.hash,
    });
    assert_eq!(world.submit(1, &new).map(|_| ()), Ok(()));
    world.wait(HOUR - MINUTE);
    assert_eq!(world.closes(), []);
    world.wait(2 * MINUTE);
    assert_eq!(world.closes(), [(lease, CloseReason::Unstable)]);
}

#[test]
fn w35_a_close_that_failed_is_sent_again() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    world.health(&lease, Health::Bad);
    world.fail = Some(is_close);
    world.wait(3 * HOUR);
    assert!(world.closes().len() > 3);
    assert_eq!(world.lease_state(&lease), Some(LeaseState::Active));
    world.fail = None;
    world.wait(2 * MINUTE);
    assert_eq!(world.lease_state(&lease), Some(LeaseState::Closed));
}

#[test]
fn w39_a_teardown_is_never_given_up_and_holds_the_capacity() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    world.fail = Some(is_teardown);
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(1) });
    world.blocks(1, BLOCK);
    world.wait(24 * HOUR);
    assert!(
        world.count(is_teardown) > 100,
        "{} tries",
        world.count(is_teardown)
    );
    assert_eq!(world.active(), from_ref(&lease.order));
    assert!(world.cluster.contains_key(&lease));
    world.fail = None;
    world.wait(2 * MINUTE);
    assert_eq!((world.cluster.len(), world.active()), (0, vec![]));
    assert_eq!(world.status().hostnames.len(), 0);
}

#[test]
fn ended_lease_releases_all_resources() {
    let mut world = World::new();
    world.running(1, &sdl_of("web", "nginx:1", &["a.example"], &["east"]));
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(1) });
    world.blocks(2, BLOCK);
    world.wait(10 * MINUTE);
    let status = world.status();
    assert_eq!((status.orders, status.leases), (vec![], vec![]));
    assert_eq!((status.deployments, status.hostnames.len()), (vec![], 0));
    assert_eq!(
        (status.inventory.active, status.inventory.pending),
        (vec![], vec![])
    );
    assert_eq!((world.cluster.len(), world.engine.is_idle()), (0, true));
}

#[test]
fn lease_closed_by_tenant_causes_new_order_and_resumed_group_runs_again() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    world.tenant(TenantMsg::PauseGroup { id: group_id(1, 1) });
    world.blocks(2, BLOCK);
    assert_eq!((world.cluster.len(), world.active()), (0, vec![]));
    world.tenant(TenantMsg::StartGroup { id: group_id(1, 1) });
    let mut order = lease.order.clone();
    order.oseq = 2;
    let bid = bid_of(&order, us());
    world.tenant(TenantMsg::CreateLease { bid: bid.clone() });
    assert!(
        world.cluster.contains_key(&bid),
        "the previous manifest is still current"
    );
}

#[test]
fn lease_ends_by_terms_of_its_record_not_of_settings() {
    let mut config = settings();
    config.reclamation_window = None;
    let mut world = World::with(config);
    world.running(2, &web());
    let order = world.order(1, &web());
    assert!(world.bid(&order).is_some());
    // The winning bid dates from before the provider offered a reclamation window.
    world.config.reclamation_window = Some(HOUR);
    world.restart();
    let lease = bid_of(&order, us());
    world.tenant(TenantMsg::CreateLease { bid: lease.clone() });
    world.blocks(60, BLOCK);
    world.wait(2 * MINUTE);
    world.blocks(2, BLOCK);
    assert_eq!(world.lease_state(&lease), Some(LeaseState::Closed));
}

#[test]
fn hostname_overwritten_by_late_deploy_is_declared_again() {
    let mut world = World::new();
    let sdl = sdl_of("web", "nginx:1", &["a.example"], &["east"]);
    let lease = world.running(1, &sdl);
    let deploys = world.count(is_deploy);
    world.undeclared = true;
    world.wait(11 * MINUTE);
    assert!(world.count(is_deploy) > deploys);
    let about_it = |f: &String| f.contains("is not declared as deployed") && f.contains(&lease.to_string());
    let is_drift = |e: &Event| matches!(e, Event::DriftFound { findings } if findings.iter().any(about_it));
    assert!(world.facts.iter().any(is_drift));
    world.undeclared = false;
    let deploys = world.count(is_deploy);
    world.wait(HOUR);
    assert_eq!(
        world.count(is_deploy),
        deploys,
        "nothing is declared when nothing is missing"
    );
}

/// A web service with a leased IP address.
fn with_address() -> Sdl {
    let text = "version: \"2.1\"\nendpoints: {front: {kind: ip}}\nservices:\n  web:\n    image: nginx:1\n    expose:\n      - port: 8080\n        \
                to: [{global: true, ip: front}]\nprofiles:\n  compute:\n    web:\n      resources:\n        cpu: {units: 100m}\n        \
                memory: {size: 128Mi}\n        storage: {size: 512Mi}\n  placement:\n    east:\n      pricing:\n        \
                web: {denom: uact, amount: 100}\ndeployment:\n  web:\n    east: {profile: web, count: 1}\n";
    sdl::parse(text).unwrap()
}

#[test]
fn addresses_that_differ_from_what_was_deployed_are_declared_again() {
    let mut config = settings();
    config.leased_ips = true;
    let mut world = World::with(config);
    let lease = world.running(1, &with_address());
    let other = world.running(2, &with_address());
    let declared = world.cluster[&lease].ips.clone();
    assert_eq!(declared.len(), 1);
    let mut edited = declared.clone();
    edited[0].external_port += 1;
    let surplus = [declared.clone(), edited.clone()].concat();
    let key = &declared[0].sharing_key;
    assert_eq!(
        *key, world.cluster[&other].ips[0].sharing_key,
        "one tenant, one hostname"
    );
    let none = Vec::new();
    for (what, first, second, again) in [
        ("both as deployed", &declared, &declared, 0),
        ("no lease has the address", &none, &none, 2),
        ("the other lease has the address", &none, &declared, 0),
        ("another port", &edited, &declared, 1),
        ("one extra address", &surplus, &declared, 1),
    ] {
        world.ips = Some(vec![
            (lease.clone(), first.clone()),
            (other.clone(), second.clone()),
        ]);
        let deploys = world.count(is_deploy);
        let scan = world.request(Request::Scan { dry_run: false });
        let Ok(Reply::Scan(findings)) = &world.replies[&scan] else {
            panic!("{what}: {:?}", world.replies[&scan]);
        };
        assert_eq!(findings.len(), again, "{what}: {findings:?}");
        assert_eq!(world.count(is_deploy) - deploys, again, "{what}");
    }
}

/// Creates a lease in a cluster that permanently rejects every deploy.
fn refusing() -> (World, LeaseId) {
    let mut world = World::new();
    world.permanent = true;
    world.fail = Some(is_deploy);
    let lease = world.running(1, &web());
    (world, lease)
}

#[test]
fn permanently_rejected_deploy_ends_lease_at_unhealthy_limit() {
    let (mut world, lease) = refusing();
    // The clock starts with the rejection and ignores earlier health.
    world.wait(HOUR - 2 * MINUTE);
    assert_eq!(world.closes(), []);
    let status = world.status();
    assert_eq!(status.leases[0].last_error.as_deref(), Some("away"));
    assert!(status.leases[0].known_unhealthy_ms > 50 * 60_000);
    world.wait(5 * MINUTE);
    assert_eq!(world.closes(), [(lease, CloseReason::Unstable)]);
}

#[test]
fn new_manifest_or_successful_deploy_restarts_unhealthy_clock() {
    let (mut world, lease) = refusing();
    world.wait(HOUR / 2);
    let changed = sdl_of("web", "nginx:2", &[], &["east"]);
    world.tenant(TenantMsg::UpdateDeployment {
        id: deployment_id(1),
        hash: changed.hash,
    });
    assert!(world.submit(1, &changed).is_ok());
    world.wait(HOUR - 2 * MINUTE);
    assert_eq!(
        world.closes(),
        [],
        "half an hour of the first manifest does not count"
    );
    world.fail = None;
    world.wait(MINUTE);
    world.health(&lease, Health::Good);
    world.wait(3 * HOUR);
    assert_eq!(
        (world.closes(), world.status().leases[0].known_unhealthy_ms),
        (vec![], 0)
    );
}

/// Creates a healthy lease and submits an update that fails. The failure is permanent if `is_refused` is
/// true, otherwise temporary.
fn failed_update(is_refused: bool) -> (World, LeaseId) {
    let mut world = World::new();
    let lease = world.running(1, &web());
    world.health(&lease, Health::Good);
    world.permanent = is_refused;
    world.fail = Some(is_deploy);
    let changed = sdl_of("web", "nginx:2", &[], &["east"]);
    world.tenant(TenantMsg::UpdateDeployment {
        id: deployment_id(1),
        hash: changed.hash,
    });
    assert!(world.submit(1, &changed).is_ok());
    (world, lease)
}

#[test]
fn rejected_update_does_not_affect_running_workload() {
    let (mut world, _) = failed_update(true);
    world.wait(3 * HOUR);
    assert_eq!(world.closes(), []);
}

/// Retries are expected 1, 3, 7, 15, 31 and 63 seconds after the first failure, then once a minute.
#[test]
fn health_update_does_not_shorten_deploy_back_off() {
    for is_refused in [true, false] {
        let (mut world, lease) = failed_update(is_refused);
        let before = world.count(is_deploy);
        for _ in 0..600 {
            world.health(&lease, Health::Unknown);
            world.health(&lease, Health::Good);
            world.wait(SECOND);
        }
        let tries = world.count(is_deploy) - before;
        assert!((13..=15).contains(&tries), "{tries} tries");
    }
}

#[test]
fn rejected_close_of_live_lease_is_retried_with_growing_back_off() {
    for (error, code) in [
        (TxError::UnknownBid, "market/10"),
        (TxError::LeaseNotActive, "market/33"),
        (TxError::Other, "market/1"),
    ] {
        let mut world = World::new();
        let lease = world.running(1, &web());
        world.hold = Some(is_close);
        world.request(Request::EndLease {
            lease: lease.clone(),
            reason: CloseReason::Unspecified,
        });
        for _ in 0..600 {
            if world.in_flight.iter().any(|(_, call)| is_close(call)) {
                world.refuse(is_close, error, code);
                world.settle();
            }
            world.blocks(1, SECOND);
            world.wait(Duration::ZERO);
        }
        let closes = world.closes().len();
        assert!(
            (5..=20).contains(&closes),
            "{code}: {closes} closes in ten minutes"
        );
    }
}
