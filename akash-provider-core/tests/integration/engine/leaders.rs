//! Two instances: the new leader continues from the records that the previous leader stored.

use crate::engine::world::*;
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::engine::{Call, Input, Leadership, RefusalKind, Request};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{CloseReason, LeaseId};
use std::sync::Arc;

fn image(world: &World, lease: &LeaseId) -> String {
    world.cluster[lease].group.services[0].image.clone()
}

fn update_by_other_leader(world: &mut World, lease: &LeaseId, sdl: &Sdl, epoch: u64) {
    world.tenant(TenantMsg::UpdateDeployment {
        id: lease.deployment().clone(),
        hash: sdl.hash,
    });
    let mut deployment: WorkloadSpec = (*world.cluster[lease]).clone();
    deployment.group = Arc::new(sdl.manifest.groups[0].clone());
    deployment.epoch = epoch;
    for name in &mut deployment.hostnames {
        if name.hostname == "a.example" {
            name.hostname = "b.example".to_owned();
        }
    }
    world.cluster.insert(lease.clone(), Arc::new(deployment));
}

#[test]
fn returning_leader_runs_update_of_interim_leader() {
    let mut world = World::new();
    world.lead(Leadership::Leader { epoch: 1 });
    let lease = world.running(1, &sdl_of("web", "nginx:1", &["a.example"], &["east"]));
    world.lead(Leadership::Standby);
    let update = sdl_of("web", "nginx:2", &["b.example"], &["east"]);
    update_by_other_leader(&mut world, &lease, &update, 2);
    // The scans of the standby see the update and change nothing.
    world.wait(30 * MINUTE);
    assert_eq!(
        (image(&world, &lease), world.cluster[&lease].epoch),
        ("nginx:2".to_owned(), 2)
    );
    world.lead(Leadership::Leader { epoch: 3 });
    assert_eq!(
        (image(&world, &lease), world.cluster[&lease].epoch),
        ("nginx:2".to_owned(), 3)
    );
    assert_eq!(world.status().hostnames.keys().collect::<Vec<_>>(), ["b.example"]);
    assert_eq!(world.closes(), []);
}

#[test]
fn list_older_than_takeover_is_ignored() {
    let mut world = World::new();
    world.lead(Leadership::Leader { epoch: 1 });
    let lease = world.running(1, &sdl_of("web", "nginx:1", &["a.example"], &["east"]));
    world.lead(Leadership::Standby);
    // A scan is in flight. Its list is older than the write of the other leader.
    world.hold = Some(|call| matches!(call, Call::FetchSnapshot));
    world.wait(11 * MINUTE);
    let update = sdl_of("web", "nginx:2", &["b.example"], &["east"]);
    update_by_other_leader(&mut world, &lease, &update, 2);
    world.lead(Leadership::Leader { epoch: 3 });
    let other = world.submit(1, &update).map_err(|refusal| refusal.kind);
    assert_eq!(other, Err(RefusalKind::Unavailable), "no state yet");
    world.hold = None;
    world.settle();
    world.wait(MINUTE);
    assert_eq!(image(&world, &lease), "nginx:2");
}

#[test]
fn manifest_recorded_by_deposed_leader_is_not_reported_as_accepted() {
    let mut world = World::new();
    world.lead(Leadership::Leader { epoch: 1 });
    world.lease(1, &web());
    world.hold = Some(is_record);
    let request = world.submit_later(1, &web());
    world.lead(Leadership::Standby);
    world.hold = None;
    world.settle();
    let kind = world.replies[&request].clone().map_err(|refusal| refusal.kind);
    assert_eq!(kind, Err(RefusalKind::NotLeader));
}

#[test]
fn foreign_epoch_reveals_interim_leader() {
    let mut world = World::new();
    world.lead(Leadership::Leader { epoch: 1 });
    let lease = world.running(1, &sdl_of("web", "nginx:1", &["a.example"], &["east"]));
    let update = sdl_of("web", "nginx:2", &["b.example"], &["east"]);
    update_by_other_leader(&mut world, &lease, &update, 2);
    world.lead(Leadership::Leader { epoch: 3 });
    assert_eq!(
        (image(&world, &lease), world.cluster[&lease].epoch),
        ("nginx:2".to_owned(), 3)
    );
}

#[test]
fn manifest_that_waited_through_takeover_is_recorded_after_new_list() {
    let mut world = World::new();
    world.lead(Leadership::Leader { epoch: 1 });
    let lease = world.running(1, &sdl_of("web", "nginx:1", &["a.example"], &["east"]));
    let update = sdl_of("web", "nginx:2", &["b.example"], &["east"]);
    world.tenant(TenantMsg::UpdateDeployment {
        id: lease.deployment().clone(),
        hash: update.hash,
    });
    world.hold = Some(|call| matches!(call, Call::FetchDeployment(_) | Call::ListWorkloads));
    let request = world.submit_later(1, &update);
    world.lead(Leadership::Standby);
    world.lead(Leadership::Leader { epoch: 2 });
    world.hold = Some(|call| matches!(call, Call::ListWorkloads));
    world.settle();
    assert!(
        !world.replies.contains_key(&request),
        "the cluster is not listed yet"
    );
    world.hold = None;
    world.settle();
    assert_eq!(image(&world, &lease), "nginx:1");
    world.wait(2 * SECOND);
    assert!(world.replies[&request].is_ok(), "{:?}", world.replies[&request]);
    assert_eq!(image(&world, &lease), "nginx:2");
}

#[test]
fn queued_write_is_not_sent_with_expired_epoch() {
    let mut world = World::new();
    world.lead(Leadership::Leader { epoch: 1 });
    let lease = world.lease(1, &web());
    world.hold = Some(is_deploy);
    assert!(world.submit(1, &web()).is_ok());
    let update = sdl_of("web", "nginx:2", &["b.example"], &["east"]);
    world.tenant(TenantMsg::UpdateDeployment {
        id: lease.deployment().clone(),
        hash: update.hash,
    });
    let recorded = world.count(is_record);
    let request = world.submit_later(1, &update);
    assert_eq!(
        world.count(is_record),
        recorded,
        "the record waits behind the deploy"
    );
    world.lead(Leadership::Standby);
    world.lead(Leadership::Leader { epoch: 2 });
    let before = world.calls.len();
    world.hold = None;
    world.settle();
    for call in &world.calls[before..] {
        if let Call::Record(deployment) | Call::Deploy { deployment, .. } = call {
            assert_eq!(deployment.epoch, 2, "{call:?}");
        }
    }
    let kind = world.replies[&request].clone().map_err(|refusal| refusal.kind);
    assert_eq!(kind, Err(RefusalKind::Unavailable));
    assert!(world.submit(1, &update).is_ok());
    assert_eq!(image(&world, &lease), "nginx:2");
}

#[test]
fn queued_teardown_is_sent_by_next_leader() {
    let mut world = World::new();
    world.lead(Leadership::Leader { epoch: 1 });
    let lease = world.running(1, &web());
    let update = sdl_of("web", "nginx:2", &[], &["east"]);
    world.tenant(TenantMsg::UpdateDeployment {
        id: lease.deployment().clone(),
        hash: update.hash,
    });
    world.hold = Some(is_record);
    world.submit_later(1, &update);
    world.tenant(TenantMsg::CloseDeployment {
        id: lease.deployment().clone(),
    });
    world.blocks(2, BLOCK);
    assert_eq!(
        world.count(is_teardown),
        0,
        "the teardown waits behind the record"
    );
    world.lead(Leadership::Standby);
    world.hold = None;
    world.settle();
    assert_eq!(world.count(is_teardown), 0, "another instance is the leader");
    world.lead(Leadership::Leader { epoch: 2 });
    world.wait(2 * MINUTE);
    assert!(!world.cluster.contains_key(&lease));
    assert_eq!(world.active(), []);
}

#[test]
fn first_leader_waits_for_grace_of_previous_leader() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    world.crash();
    world.lead(Leadership::Leader { epoch: 7 });
    world.start();
    let reason = CloseReason::Decommission;
    let end = Request::EndLease { lease, reason };
    world.request(end);
    world.wait(MINUTE);
    assert_eq!(
        world.closes(),
        [],
        "a transaction of the previous leader may still land"
    );
    world.wait(MINUTE);
    assert_eq!(world.closes().len(), 1);
}

#[test]
fn held_bids_are_sent_later_with_new_price() {
    let mut world = World::new();
    let why = "tenants cannot be served";
    world.feed(Input::HoldBids(Some(why.into())));
    let order = world.order(1, &web());
    world.wait(HOUR);
    assert_eq!((world.count(is_bid), world.count(is_price)), (0, 1));
    assert_eq!(
        world.pending(),
        std::slice::from_ref(&order),
        "the reservation is retained"
    );
    assert_eq!(world.status().bids_held.as_deref(), Some(why));
    world.price = Ok(price(20));
    world.feed(Input::HoldBids(None));
    world.settle();
    assert_eq!((world.count(is_bid), world.count(is_price)), (1, 2));
    assert_eq!(world.bid(&order).unwrap().price, price(20));
    assert_eq!(world.status().bids_held, None);
}

#[test]
fn lease_is_served_while_bids_are_held() {
    let mut world = World::new();
    let lease = world.lease(1, &web());
    world.feed(Input::HoldBids(Some("paused by the operator".into())));
    assert!(world.submit(1, &web()).is_ok());
    assert!(world.cluster.contains_key(&lease));
}
