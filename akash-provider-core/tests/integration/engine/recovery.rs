//! Restarts, gaps in the events, leadership and the two clocks.

use crate::engine::world::*;
use akash_provider_core::cluster::{ClusterChange, Health};
use akash_provider_core::engine::{Call, Input, Leadership, LeasePhase, Lifecycle, RefusalKind};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{BidState, ChainEvent, CloseReason, Event, LeaseState};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn w1_lease_closed_during_downtime_is_torn_down_with_evidence() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    let other = world.running(2, &web());
    world.deaf = true;
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(1) });
    world.crash();
    world.agreement = akash_provider_core::types::Agreement::Disputed;
    world.start();
    world.wait(MINUTE);
    assert!(world.cluster.contains_key(&lease), "two nodes disagree");
    world.agreement = akash_provider_core::types::Agreement::Confirmed;
    world.blocks(5, BLOCK);
    world.wait(5 * MINUTE);
    assert!(!world.cluster.contains_key(&lease));
    assert!(world.cluster.contains_key(&other));
    assert_eq!(world.active(), [other.order]);
    assert_eq!(world.count(is_withdrawal), 0, "a closed lease causes no query");
}

#[test]
fn w1_full_scan_finds_missed_lease_end() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    world.deaf = true;
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(1) });
    world.deaf = false;
    world.blocks(1, BLOCK);
    world.wait(11 * MINUTE);
    world.blocks(2, BLOCK);
    world.wait(MINUTE);
    assert!(!world.cluster.contains_key(&lease));
    assert_eq!(world.active(), []);
    assert!(world.count_facts(|e| matches!(e, Event::DriftFound { .. })) > 0);
}

#[test]
fn lease_not_found_on_node_is_not_torn_down() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    let real = world.market.clone();
    world.market = World::new().market;
    for _ in 0..real.height() + 10 {
        world.market.end_block(BLOCK);
    }
    world.resync();
    world.blocks(20, BLOCK);
    world.wait(HOUR);
    assert!(
        world.cluster.contains_key(&lease),
        "a missing record is not evidence"
    );
    assert_eq!((world.count(is_teardown), world.active()), (0, vec![lease.order]));
}

#[test]
fn unavailable_second_endpoint_is_ignored_after_grace() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    world.agreement = akash_provider_core::types::Agreement::Unreachable;
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(1) });
    world.blocks(2, BLOCK);
    world.wait(9 * MINUTE);
    assert!(world.cluster.contains_key(&lease));
    let waiting = world.status().leases[0].waiting_for.clone();
    assert_eq!(waiting.as_deref(), Some("evidence from the chain"));
    world.wait(3 * MINUTE);
    assert!(!world.cluster.contains_key(&lease));
}

#[test]
fn unregistered_provider_follows_chain_without_bidding() {
    let mut config = settings();
    config.provider = tenant(9);
    let mut world = World::with(config);
    world.order(1, &web());
    assert_eq!(world.count(is_write), 0);
    let status = world.status();
    assert_eq!(status.lifecycle, Lifecycle::Running);
    assert!(status.recent_declines[0].message.contains("not registered"));
}

#[test]
fn w2_lease_without_manifest_retains_reservation_after_restart() {
    let mut world = World::new();
    let lease = world.lease(1, &web());
    let before = world.status().inventory.active;
    world.restart();
    assert_eq!(
        world.status().inventory.active,
        before,
        "exactly the resources of the bid"
    );
    world.blocks(20, BLOCK);
    assert!(world.count_facts(|e| matches!(e, Event::BalanceChecked { .. })) > 0);
    assert_eq!(world.submit(1, &web()).map(|_| ()), Ok(()));
    assert!(world.cluster.contains_key(&lease));
    assert_eq!(world.count(is_deploy), 1, "the accepted manifest is deployed");
}

#[test]
fn w3_every_open_order_is_evaluated_at_start() {
    const ORDERS: u64 = 1_100;
    let mut config = settings();
    config.bid_timeout = None;
    let mut world = World::unstarted(config);
    for dseq in 1..=ORDERS {
        let sdl = web();
        let create = TenantMsg::CreateDeployment {
            id: deployment_id(dseq),
            groups: sdl.groups,
            hash: sdl.hash,
            deposit: uact(500_000),
            reclamation_min_window: None,
        };
        world.market.tenant(create).unwrap();
    }
    world.blocks(1, BLOCK);
    world.start();
    assert_eq!(world.pending().len() as u64, ORDERS);
    world.restart();
    assert_eq!(world.pending().len() as u64, ORDERS, "no order is skipped");
    assert_eq!(world.count(is_bid), 0);
}

#[test]
fn w4_open_bids_survive_shutdown_and_are_adopted() {
    let mut world = World::new();
    let order = world.order(1, &web());
    let before = world.status().inventory.pending;
    let bid = world.bid(&order).unwrap().price.clone();
    world.feed(Input::Shutdown);
    world.settle();
    assert_eq!(
        (world.bid(&order).unwrap().state, world.closes()),
        (BidState::Open, vec![])
    );
    world.restart();
    assert_eq!(world.status().inventory.pending, before);
    assert_eq!(world.status().orders[0].price.as_ref(), Some(&bid));
    assert_eq!(world.count_facts(|e| matches!(e, Event::BidAdopted { .. })), 1);
    world.take_bids(1, &web());
    assert!(world.engine.has_lease(&lease_id(1)));
}

#[test]
fn w4_bid_in_flight_at_shutdown_is_adopted_at_next_start() {
    let mut world = World::new();
    world.hold = Some(is_bid);
    let order = world.order(1, &web());
    world.feed(Input::Shutdown);
    assert!(!world.engine.is_idle(), "the bid waits for its outcome");
    world.hold = None;
    world.settle();
    assert!(world.engine.is_idle());
    world.restart();
    assert_eq!((world.pending(), world.count(is_bid)), (vec![order], 0));
}

#[test]
fn w18_bid_timeout_continues_across_restarts() {
    let mut world = World::new();
    let order = world.order(1, &web());
    for _ in 0..4 {
        world.blocks(14, BLOCK);
        world.restart();
    }
    assert_eq!(world.bid(&order).unwrap().state, BidState::Closed);
}

#[test]
fn w18_manifest_deadline_restarts_with_first_list_after_restart() {
    let mut world = World::new();
    let lease = world.lease(1, &web());
    let runs = world.running(2, &web());
    world.blocks(100, BLOCK);
    assert_eq!(
        world.lease_state(&lease),
        Some(LeaseState::Closed),
        "counted from the block of the lease"
    );
    let lease = world.lease(3, &web());
    world.blocks(14, BLOCK);
    world.restart();
    world.blocks(45, BLOCK);
    assert_eq!(
        world.lease_state(&lease),
        Some(LeaseState::Active),
        "counted from the cluster list"
    );
    world.blocks(10, BLOCK);
    assert_eq!(world.lease_state(&runs), Some(LeaseState::Active));
    assert_eq!(world.lease_state(&lease), Some(LeaseState::Closed));
    assert_eq!(
        world.market.lease(&lease).unwrap().lease.reason,
        Some(CloseReason::ManifestTimeout)
    );
}

#[test]
fn w19_gap_in_heights_triggers_full_scan() {
    let mut world = World::new();
    world.deaf = true;
    let order = world.order(1, &web());
    world.deaf = false;
    assert_eq!(world.bid(&order), None);
    world.blocks(1, BLOCK);
    assert_eq!(world.bid(&order).map(|b| b.state), Some(BidState::Open));
}

#[test]
fn snapshot_of_another_chain_or_of_the_past_is_ignored() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    let mut foreign = world.market.snapshot(&us());
    foreign.chain_id = "another".to_owned();
    foreign.leases.clear();
    let mut old = world.market.snapshot(&us());
    old.height = 1;
    old.leases.clear();
    for snapshot in [foreign, old] {
        let event = akash_provider_core::types::ChainEvent::Resync(snapshot.into());
        world.tell(vec![event]);
        world.settle();
        assert!(world.engine.has_lease(&lease));
    }
}

#[test]
fn standby_follows_chain_and_writes_nothing() {
    let mut world = World::unstarted(settings());
    world.lead(Leadership::Standby);
    world.start();
    let order = world.order(1, &web());
    let refusal = world.submit(1, &web()).unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::NotLeader);
    assert_eq!((world.count(is_write), world.pending()), (0, vec![order.clone()]));
    world.lead(Leadership::Leader { epoch: 1 });
    assert_eq!(
        world.bid(&order).map(|b| b.state),
        Some(BidState::Open),
        "the new leader bids at once"
    );
}

#[test]
fn standby_does_not_repair_drift() {
    let mut world = World::new();
    let named = sdl_of("web", "nginx:1", &["a.example.com"], &["east"]);
    let gone = world.running(1, &web());
    world.running(2, &named);
    world.lead(Leadership::Standby);
    let before = world.count(is_write);
    // One lease is missing in the cluster, and the name of the other one is not declared.
    world.cluster.remove(&gone);
    world.undeclared = true;
    world.wait(2 * HOUR);
    world.resync();
    world.wait(2 * HOUR);
    assert_eq!(world.count(is_write), before);
    assert_eq!(world.status().last_scan_findings, Vec::<String>::new());
    world.undeclared = false;
    world.lead(Leadership::Leader { epoch: 2 });
    world.wait(2 * HOUR);
    assert!(world.cluster.contains_key(&gone), "the leader restores it");
}

#[test]
fn deposed_leader_stops_writing_and_new_leader_closes_after_grace() {
    let mut world = World::new();
    let order = world.order(1, &web());
    let lease = world.running(2, &web());
    world.lead(Leadership::Standby);
    let before = world.count(is_write);
    world.health(&lease, Health::Bad);
    world.blocks(60, BLOCK);
    world.wait(3 * HOUR);
    assert_eq!(world.count(is_write), before);
    world.lead(Leadership::Leader { epoch: 2 });
    assert_eq!(world.closes(), []);
    world.wait(2 * MINUTE);
    assert!(
        world
            .closes()
            .contains(&(bid_of(&order, us()), CloseReason::Unspecified))
    );
}

#[test]
fn halted_chain_expires_nothing() {
    let mut world = World::new();
    let order = world.order(1, &web());
    let lease = world.lease(2, &web());
    world.wait(12 * HOUR);
    assert_eq!(world.closes(), []);
    assert_eq!(world.count(is_withdrawal), 0);
    assert_eq!(world.bid(&order).unwrap().state, BidState::Open);
    assert_eq!(world.lease_state(&lease), Some(LeaseState::Active));
    world.blocks(60, BLOCK);
    assert_eq!(world.bid(&order).unwrap().state, BidState::Closed);
    assert_eq!(world.lease_state(&lease), Some(LeaseState::Closed));
}

#[test]
fn w36_idle_leases_are_not_polled() {
    let mut world = World::new();
    for dseq in 1..=20 {
        world.running(dseq, &web());
    }
    let before = world.calls.len();
    world.wait(HOUR);
    let scans = |call: &Call| {
        matches!(
            call,
            Call::ListWorkloads | Call::FetchSnapshot | Call::FetchBalances(_)
        )
    };
    let looks = |which: fn(&Call) -> bool| world.calls[before..].iter().filter(|c| which(c)).count();
    let readings = looks(|call| matches!(call, Call::FetchBalances(_)));
    assert!(
        (60..=67).contains(&readings),
        "once a minute and a scan: {readings}"
    );
    let others: Vec<_> = world.calls.drain(before..).filter(|c| !scans(c)).collect();
    assert_eq!(others, [], "an idle hour needs only full scans");
}

#[test]
fn available_cluster_is_listed_at_once() {
    let lists = |call: &Call| matches!(call, Call::ListWorkloads);
    let shows = || {
        Input::Cluster(ClusterChange::Snapshot {
            health: BTreeMap::new(),
        })
    };
    let soon = Duration::from_secs(1);
    let mut world = World::unstarted(settings());
    world.fail = Some(lists);
    world.start();
    world.wait(10 * MINUTE);
    assert!(!world.status().cluster_known);
    // Events alone cause at most one list per second.
    let before = world.count(lists);
    for _ in 0..100 {
        world.feed(shows());
        world.settle();
    }
    assert_eq!(world.count(lists), before);
    world.wait(Duration::from_millis(1_500));
    assert_eq!(world.count(lists), before + 1);
    world.wait(10 * MINUTE);
    let waits = world.engine.next_deadline().unwrap();
    assert!(
        waits > world.now().mono.plus(2 * soon),
        "unexpected deadlines: {waits:?}"
    );
    world.fail = None;
    world.feed(shows());
    world.wait(soon);
    assert!(world.status().cluster_known);
    // Pending chain queries keep their back-off.
    world.fail = Some(|call| matches!(call, Call::FetchSnapshot));
    world.wait(2 * HOUR);
    let due = world.engine.next_deadline();
    world.feed(shows());
    assert_eq!(world.engine.next_deadline(), due);
}

#[test]
fn pending_deploys_and_teardowns_are_retried_when_cluster_is_available() {
    let of_cluster = |call: &Call| is_deploy(call) || is_teardown(call);
    let mut world = World::new();
    let (accepted, over) = (world.lease(1, &web()), world.running(2, &web()));
    world.fail = Some(of_cluster);
    world.submit(1, &web()).unwrap();
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(2) });
    world.blocks(3, BLOCK);
    world.feed(Input::Cluster(ClusterChange::Lost));
    world.wait(10 * MINUTE);
    let phase = |world: &World, lease| {
        let status = world.status();
        let found = status.leases.iter().find(|l| l.lease == lease);
        found.map(|l| l.phase)
    };
    assert_eq!(phase(&world, accepted.clone()), Some(LeasePhase::Retrying));
    assert!(world.cluster.contains_key(&over));
    world.fail = None;
    world.feed(Input::Cluster(ClusterChange::Snapshot {
        health: BTreeMap::new(),
    }));
    world.wait(Duration::from_secs(1));
    assert_eq!(phase(&world, accepted), Some(LeasePhase::Running));
    assert!(!world.cluster.contains_key(&over));
}

#[test]
fn blocked_work_has_no_deadline() {
    let mut world = World::unstarted(settings());
    assert_eq!(world.engine.next_deadline(), None, "before the first snapshot");
    world = World::new();
    world.running(1, &web());
    world.fail = Some(|c| matches!(c, Call::Teardown(_)));
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(1) });
    world.blocks(2, BLOCK);
    world.feed(Input::Shutdown);
    world.settle();
    let now = world.now().mono;
    let due = world.engine.next_deadline();
    assert!(due.is_none_or(|at| at > now), "{due:?} at {now:?}");
    world.wait(HOUR);
    let now = world.now().mono;
    assert!(world.engine.next_deadline().is_none_or(|at| at > now));
}

/// Sends a snapshot with a height that is 900 too high.
fn follow_false_chain(world: &mut World) {
    let mut higher = world.market.snapshot(&us());
    higher.height += 900;
    world.feed(Input::Chain(ChainEvent::Resync(Arc::new(higher))));
    world.settle();
}

#[test]
fn lower_snapshot_with_later_time_replaces_false_chain() {
    let mut world = World::new();
    follow_false_chain(&mut world);
    world.deaf = true;
    let order = world.order(1, &web());
    world.deaf = false;
    world.resync();
    assert!(world.bid(&order).is_some(), "the true chain is followed");
    let next = world.order(2, &web());
    assert!(
        world.bid(&next).is_some(),
        "blocks of the true chain are followed"
    );
}

#[test]
fn heights_of_false_chain_delay_no_lease_or_order() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    follow_false_chain(&mut world);
    world.deaf = true;
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(1) });
    let (id, reason) = (lease.clone(), CloseReason::Owner);
    world.feed(Input::Chain(ChainEvent::LeaseClosed { id, reason }));
    let bid = order_id(7).bid(us());
    let price = world.bid(&lease.order).unwrap().price.clone();
    world.feed(Input::Chain(ChainEvent::BidCreated { id: bid, price }));
    world.settle();
    assert!(world.cluster.contains_key(&lease), "read below the false height");
    assert_eq!(world.status().orders.len(), 1, "read below the false height");
    world.deaf = false;
    world.resync();
    world.blocks(2, BLOCK);
    world.wait(MINUTE);
    assert!(!world.cluster.contains_key(&lease));
    assert_eq!(world.status().orders.len(), 0);
}
