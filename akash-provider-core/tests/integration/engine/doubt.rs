//! Uncertain states: calls that took effect although they failed, lagging nodes, and hostnames that move to
//! another lease.

use crate::engine::world::*;
use akash_provider_core::engine::counts::ScanReason;
use akash_provider_core::engine::{
    Call, Completion, EffectId, Input, LeasePhase, Reply, Request, RequestId, Response,
};
use akash_provider_core::engine::{Refusal, RefusalKind};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{BidState, ChainEvent, Event, LeaseId, LeaseState, Msg, OrderId};
use std::slice::from_ref;
use std::sync::Arc;

fn kind(response: Response) -> Option<RefusalKind> {
    response.err().map(|Refusal { kind, .. }| kind)
}

fn hosted(hosts: &[&str]) -> Sdl {
    sdl_of("web", "nginx:1", hosts, &["east"])
}

fn runs_as(world: &World, lease: &LeaseId, name: &str) -> bool {
    let deployed = world.cluster.get(lease);
    deployed.is_some_and(|d| d.hostnames.iter().any(|h| h.hostname == name))
}

fn submit_for(world: &mut World, lease: &LeaseId, sdl: &Sdl) -> Response {
    let request = world.request(Request::SubmitManifest {
        deployment: lease.deployment().clone(),
        manifest: Arc::new(sdl.manifest.clone()),
        hashes: sdl.hash.into(),
    });
    world.replies[&request].clone()
}

#[test]
fn manifest_waits_for_first_snapshot_and_cluster_list() {
    let mut world = World::unstarted(settings());
    let sdl = web();
    assert_eq!(kind(world.submit(1, &sdl)), Some(RefusalKind::Unavailable));
    world.feed_capacity();
    world.hold = Some(is_list);
    world.resync();
    let lease = world.lease(1, &sdl);
    assert_eq!(kind(world.submit(1, &sdl)), Some(RefusalKind::Unavailable));
    world.hold = None;
    world.settle();
    assert_eq!(kind(world.submit(1, &sdl)), None);
    assert!(world.cluster.contains_key(&lease));
}

#[test]
fn list_older_than_deploy_is_not_drift() {
    let mut world = World::new();
    let lease = world.lease(1, &hosted(&["a.example.com"]));
    let other = world.running(2, &web());
    for sdl in [hosted(&["a.example.com"]), hosted(&["b.example.com"])] {
        let deploys = world.count(is_deploy);
        world.hold = Some(is_list);
        world.request(Request::Scan { dry_run: false });
        let (id, list) = world.in_flight.pop_front().unwrap();
        let completion = world.answer(&list);
        if deploys > 1 {
            world.tenant(TenantMsg::UpdateDeployment {
                id: lease.deployment().clone(),
                hash: sdl.hash,
            });
        }
        assert_eq!(kind(world.submit(1, &sdl)), None);
        world.hold = None;
        world.feed(Input::Completed(id, completion));
        world.settle();
        assert_eq!(world.count(is_deploy), deploys + 1);
        assert_eq!(world.count_facts(|e| matches!(e, Event::DriftFound { .. })), 0);
    }
    assert!(runs_as(&world, &lease, "b.example.com"));
    // The next list is newer.
    world.cluster.remove(&lease);
    world.cluster.remove(&other);
    world.wait(11 * MINUTE);
    assert!(world.cluster.contains_key(&lease) && world.cluster.contains_key(&other));
    assert_eq!(world.count_facts(|e| matches!(e, Event::DriftFound { .. })), 1);
}

#[test]
fn snapshot_ahead_of_events_is_not_drift() {
    let mut world = World::new();
    let order = world.order(1, &web());
    let bid = bid_of(&order, us());
    let mut events = world.market.tenant(TenantMsg::CreateLease { bid }).unwrap();
    events.push(world.market.end_block(BLOCK));
    world.wait(11 * MINUTE);
    world.tell(events);
    world.settle();
    assert!(world.status().leases.len() == 1);
    assert_eq!(world.count_facts(|e| matches!(e, Event::DriftFound { .. })), 0);
}

/// Removes and returns the calls of one scan: the cluster list, then the snapshot.
fn scan_calls(world: &mut World) -> [(EffectId, Call); 2] {
    let mut calls: Vec<_> = world.in_flight.drain(..).collect();
    calls.sort_by_key(|(_, call)| is_snapshot(call));
    calls.try_into().unwrap()
}

#[test]
fn lease_read_during_scan_is_not_drift() {
    let mut world = World::new();
    world.order(1, &web());
    world.hold = Some(|c| is_list(c) || is_snapshot(c));
    world.wait(11 * MINUTE);
    let calls = scan_calls(&mut world);
    let answers = calls.map(|(id, call)| (id, world.answer(&call)));
    // The manifest arrives before the event of the lease.
    world.deaf = true;
    world.take_bids(1, &web());
    world.submit_later(1, &web());
    assert!(world.engine.has_lease(&lease_id(1)));
    world.hold = None;
    for (id, answer) in answers {
        world.feed(Input::Completed(id, answer));
    }
    world.settle();
    assert_eq!(world.count_facts(|e| matches!(e, Event::DriftFound { .. })), 0);
    assert!(world.engine.has_lease(&lease_id(1)));
}

#[test]
fn teardown_during_scan_is_not_drift() {
    let mut world = World::new();
    let ended = world.running(1, &web());
    world.hold = Some(|c| is_list(c) || is_snapshot(c));
    world.wait(11 * MINUTE);
    let [(list, list_call), (snapshot, snapshot_call)] = scan_calls(&mut world);
    let listing = world.answer(&list_call);
    world.tenant(TenantMsg::CloseDeployment {
        id: ended.deployment().clone(),
    });
    world.blocks(1, BLOCK);
    assert_eq!(world.count(is_teardown), 1);
    world.hold = None;
    for (id, answer) in [(list, listing), (snapshot, world.answer(&snapshot_call))] {
        world.feed(Input::Completed(id, answer));
    }
    world.settle();
    assert_eq!(world.count_facts(|e| matches!(e, Event::DriftFound { .. })), 0);
    assert!(!world.engine.has_lease(&ended));
}

#[test]
fn workload_with_unknown_lease_is_adopted_when_lease_appears() {
    let mut world = World::new();
    let before = Arc::new(world.market.snapshot(&us()));
    let lease = world.running(1, &web());
    world.crash();
    world.feed_capacity();
    // The stream starts at a node that has not seen the lease yet.
    world.feed(Input::Chain(ChainEvent::Resync(before)));
    world.settle();
    world.wait(MINUTE);
    assert_eq!(world.active(), std::slice::from_ref(&lease.order));
    let reserved = world.status().inventory.active[0].cpu;
    assert_eq!(reserved, 100, "the resources of the bid");
    let phases: Vec<_> = world.status().leases.iter().map(|l| l.phase).collect();
    assert_eq!(phases, [LeasePhase::Running]);
    world.resync();
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(1) });
    world.blocks(2, BLOCK);
    assert_eq!((world.active(), world.cluster.len()), (vec![], 0));
}

#[test]
fn failed_recording_that_took_effect_takes_no_hostname_from_another_tenant() {
    let mut world = World::new();
    let first = world.lease(1, &hosted(&["a.example", "b.example"]));
    world.hold = Some(is_list);
    world.lie = Some(is_record);
    let refused = kind(world.submit(1, &hosted(&["a.example", "b.example"])));
    assert_eq!(refused, Some(RefusalKind::Unavailable));
    world.lie = None;
    let second = world.lease_of_another(&hosted(&["a.example"]));
    assert_eq!(
        kind(submit_for(&mut world, &second, &hosted(&["a.example"]))),
        None
    );
    world.hold = None;
    world.settle();
    let names = world.status().hostnames;
    assert_eq!((&names["a.example"], &names["b.example"]), (&second, &first));
    assert!(runs_as(&world, &second, "a.example") && !runs_as(&world, &first, "a.example"));
    assert!(runs_as(&world, &first, "b.example"), "the recorded manifest runs");
}

#[test]
fn lease_is_not_ended_while_its_manifest_may_be_in_the_cluster() {
    for durable in [true, false] {
        let mut world = World::new();
        let lease = world.lease(1, &web());
        world.hold = Some(is_list);
        if durable {
            world.lie = Some(is_record);
        } else {
            world.fail = Some(is_record);
        }
        assert_eq!(kind(world.submit(1, &web())), Some(RefusalKind::Unavailable));
        world.blocks(100, BLOCK);
        assert_eq!(world.closes(), [], "the cluster is not listed yet");
        world.hold = None;
        world.settle();
        world.blocks(10, BLOCK);
        assert_eq!(world.closes().is_empty(), durable);
        assert_eq!(world.cluster.contains_key(&lease), durable);
    }
}

#[test]
fn leases_are_not_ended_while_their_manifest_is_recorded() {
    let sdl = sdl_of("web", "nginx:1", &[], &["east", "west"]);
    let mut world = World::new();
    world.lease(1, &sdl);
    world.fail = Some(is_close);
    world.blocks(52, BLOCK);
    let tried = world.closes().len();
    assert!(tried >= 2, "both closes were attempted");
    world.fail = None;
    world.hold = Some(is_record);
    world.submit_later(1, &sdl);
    world.wait(5 * MINUTE);
    world.blocks(10, BLOCK);
    assert_eq!(world.closes().len(), tried);
    world.hold = None;
    world.settle();
    let states: Vec<_> = world.market.leases().map(|r| r.lease.state).collect();
    assert_eq!(states, [LeaseState::Active, LeaseState::Active]);
    assert_eq!(world.cluster.len(), 2);
}

#[test]
fn hostnames_of_unstored_manifest_go_to_waiting_deployment() {
    let mut world = World::new();
    world.lease(1, &hosted(&["a.example"]));
    world.hold = Some(is_record);
    world.submit_later(1, &hosted(&["a.example"]));
    world.hold = None;
    // The first recording hangs. The second one completes at once.
    let hanging = world.in_flight.pop_front().unwrap();
    let waits = world.running(2, &hosted(&["a.example"]));
    assert!(!runs_as(&world, &waits, "a.example"));
    world.fail = Some(is_record);
    world.in_flight.push_back(hanging);
    world.settle();
    assert_eq!(world.status().hostnames["a.example"], waits);
    assert!(runs_as(&world, &waits, "a.example"));
}

#[test]
fn moved_hostname_stays_moved_when_older_recording_completes() {
    let mut world = World::new();
    let old = world.running(1, &hosted(&["a.example", "b.example"]));
    let new = world.running(2, &hosted(&["a.example"]));
    let update = sdl_of("web", "nginx:2", &["a.example", "b.example"], &["east"]);
    world.tenant(TenantMsg::UpdateDeployment {
        id: deployment_id(1),
        hash: update.hash,
    });
    world.hold = Some(is_record);
    let submitted = world.submit_later(1, &update);
    let moved = world.request(Request::TransferHostnames {
        lease: new.clone(),
        hostnames: vec!["a.example".to_owned()],
    });
    assert_eq!(kind(world.replies[&moved].clone()), None);
    world.hold = None;
    world.settle();
    assert_eq!(kind(world.replies[&submitted].clone()), None);
    assert_eq!(world.status().hostnames["a.example"], new);
    assert!(runs_as(&world, &new, "a.example") && !runs_as(&world, &old, "a.example"));
    assert!(runs_as(&world, &old, "b.example"));
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(2) });
    world.blocks(2, BLOCK);
    assert!(
        runs_as(&world, &old, "a.example"),
        "this manifest lists the name and waited for it"
    );
}

#[test]
fn hostname_follows_live_lease_of_its_group() {
    let mut world = World::new();
    let sdl = hosted(&["a.example"]);
    let old = world.running(1, &sdl);
    world.hold = Some(is_teardown);
    world.tenant(TenantMsg::PauseGroup { id: group_id(1, 1) });
    world.tenant(TenantMsg::StartGroup { id: group_id(1, 1) });
    let order = OrderId {
        oseq: 2,
        ..old.order.clone()
    };
    let new = bid_of(&order, us());
    world.tenant(TenantMsg::CreateLease { bid: new.clone() });
    assert!(runs_as(&world, &new, "a.example"));
    world.restart();
    world.blocks(2, BLOCK);
    assert!(world.cluster.contains_key(&old), "its teardown is still running");
    world.hold = None;
    world.settle();
    world.wait(MINUTE);
    assert!(!world.cluster.contains_key(&old));
    assert_eq!(world.status().hostnames["a.example"], new);
    let thief = world.lease_of_another(&sdl);
    assert_eq!(
        kind(submit_for(&mut world, &thief, &sdl)),
        Some(RefusalKind::Hostname)
    );
}

#[test]
fn older_snapshot_does_not_end_unlisted_order() {
    let mut world = World::new();
    let before = Arc::new(world.market.snapshot(&us()));
    let order = world.order(1, &web());
    world.feed(Input::Chain(ChainEvent::Resync(Arc::clone(&before))));
    world.settle();
    assert_eq!((world.closes(), world.pending()), (vec![], vec![order.clone()]));
    // A snapshot of the same height does not end the order either, if the order is in the next block.
    let same = Arc::new(world.market.snapshot(&us()));
    world.hold = Some(is_bid);
    let sdl = web();
    let events = world.market.tenant(TenantMsg::CreateDeployment {
        id: deployment_id(2),
        groups: sdl.groups,
        hash: sdl.hash,
        deposit: uact(50_000_000),
        reclamation_min_window: None,
    });
    world.tell(events.unwrap());
    world.settle();
    world.feed(Input::Chain(ChainEvent::Resync(same)));
    world.settle();
    assert_eq!(world.pending(), [order, order_id(2)]);
}

#[test]
fn lagging_node_does_not_cause_close_of_lost_bid() {
    let mut world = World::new();
    let order = world.order(1, &web());
    world.lagging = Some(world.market.clone());
    world.deaf = true;
    let rivals = bid_of(&order, rival());
    world.outside(&Msg::CreateBid {
        id: rivals.clone(),
        price: price(1),
        deposit: uact(500_000),
        resources_offer: Vec::new(),
        reclamation_window: None,
    });
    world.tenant(TenantMsg::CreateLease { bid: rivals });
    world.deaf = false;
    world.resync();
    world.wait(MINUTE);
    assert_eq!(world.bid(&order).map(|b| b.state), Some(BidState::Lost));
    assert_eq!(world.pending(), [order], "the node has not seen the end yet");
    world.lagging = None;
    world.wait(2 * MINUTE);
    assert_eq!((world.pending(), world.closes()), (vec![], vec![]));
}

#[test]
fn request_before_first_snapshot_gets_one_reply() {
    let mut world = World::unstarted(settings());
    world.feed(Input::Request(RequestId(77), Request::Scan { dry_run: true }));
    assert_eq!(kind(world.replies[&77].clone()), Some(RefusalKind::Unavailable));
}

#[test]
fn restarted_stream_behind_a_scan_ends_no_order_of_the_scan() {
    let mut world = World::new();
    let behind = Arc::new(world.market.snapshot(&us()));
    world.deaf = true;
    world.order(1, &web());
    world.request(Request::Scan { dry_run: false });
    assert_eq!(world.pending(), [order_id(1)], "the scan found the order");
    world.deaf = false;
    world.feed(Input::Chain(ChainEvent::Resync(behind)));
    world.settle();
    world.wait(MINUTE);
    assert_eq!((world.closes(), world.pending()), (vec![], vec![order_id(1)]));
}

#[test]
fn late_pause_event_does_not_end_next_order() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    world.deaf = true;
    world.tenant(TenantMsg::PauseGroup { id: group_id(1, 1) });
    world.tenant(TenantMsg::StartGroup { id: group_id(1, 1) });
    world.request(Request::Scan { dry_run: false });
    let order = OrderId {
        oseq: 2,
        ..lease.order.clone()
    };
    assert_eq!(world.pending(), from_ref(&order));
    world.feed(Input::Chain(ChainEvent::GroupPaused { id: group_id(1, 1) }));
    world.settle();
    assert_eq!((world.closes(), world.pending()), (vec![], vec![order]));
}

#[test]
fn repeated_pause_event_does_not_end_next_order() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    let behind = Arc::new(world.market.snapshot(&us()));
    world.hold = Some(|call| is_bid(call) || matches!(call, Call::FetchSnapshot));
    let id = group_id(1, 1);
    let pause = world
        .market
        .tenant(TenantMsg::PauseGroup { id: id.clone() })
        .unwrap();
    let start = world.market.tenant(TenantMsg::StartGroup { id }).unwrap();
    for events in [&pause, &start] {
        world.tell(events.clone());
        world.settle();
    }
    let order = OrderId {
        oseq: 2,
        ..lease.order.clone()
    };
    assert!(world.pending().contains(&order));
    // The stream breaks within the block and restarts before it.
    world.feed(Input::Chain(ChainEvent::Resync(behind)));
    world.tell(pause);
    world.hold = None;
    world.settle();
    assert!(!world.closes().iter().any(|(bid, _)| bid.order == order));
    assert_eq!(world.bid(&order).map(|b| b.state), Some(BidState::Open));
}

#[test]
fn uncertain_lease_gets_full_manifest_time() {
    let mut world = World::new();
    let order = world.order(1, &web());
    let lease = bid_of(&order, us());
    let behind = Arc::new(world.market.snapshot(&us()));
    // A manifest arrives before the event of the lease, then a scan that was read before the lease started.
    let won = world
        .market
        .tenant(TenantMsg::CreateLease { bid: lease.clone() })
        .unwrap();
    world.hold = Some(|call| is_record(call) || matches!(call, Call::FetchLease(_) | Call::FetchSnapshot));
    world.submit_later(1, &web());
    world.request(Request::Scan { dry_run: false });
    let at = world
        .in_flight
        .iter()
        .position(|(_, c)| matches!(c, Call::FetchSnapshot));
    let (scan, _) = world.in_flight.remove(at.unwrap()).unwrap();
    world.feed(Input::Completed(scan, Completion::Snapshot(Ok(behind))));
    world.settle();
    assert!(!world.engine.has_lease(&lease), "the lease is uncertain");
    world.tell(won);
    world.blocks(1, BLOCK);
    let began = world.market.time();
    world.hold = Some(is_record);
    world.settle();
    assert!(world.engine.has_lease(&lease));
    let deadline = world.status().deployments[0].manifest_deadline;
    assert_eq!(deadline, world.config.manifest_timeout.map(|t| began.plus(t)));
}

/// Creates a lease from a bid of a previous process. The engine has not read this bid, and a price request is
/// pending.
fn won_with_a_bid_from_before() -> (World, LeaseId) {
    let mut world = World::new();
    world.hold = Some(is_price);
    let order = world.order(1, &web());
    world.hold = Some(|call| {
        let reads = matches!(call, Call::FetchBid(_) | Call::FetchSnapshot);
        reads || is_price(call) || is_list(call)
    });
    let mut promised = web().groups[0].resources.clone();
    promised[0].resources.cpu.units += 700;
    let lease = bid_of(&order, us());
    world.outside(&Msg::CreateBid {
        id: lease.clone(),
        price: price(10),
        deposit: uact(500_000),
        resources_offer: promised,
        reclamation_window: None,
    });
    world.tenant(TenantMsg::CreateLease { bid: lease.clone() });
    (world, lease)
}

fn reserved_cpu(world: &World) -> Vec<u64> {
    let active = world.status().inventory.active;
    active.into_iter().map(|r| r.cpu).collect()
}

#[test]
fn manifest_waits_until_winning_bid_is_read() {
    let (mut world, lease) = won_with_a_bid_from_before();
    assert_eq!(reserved_cpu(&world), [100]);
    let early = world.submit_later(1, &web());
    world.wait(4 * SECOND);
    let early = world.replies[&early].clone();
    assert_eq!(kind(early), Some(RefusalKind::Unavailable));
    world.hold = None;
    world.settle();
    assert_eq!(reserved_cpu(&world), [800]);
    assert!(world.submit(1, &web()).is_ok());
    assert!(world.cluster.contains_key(&lease));
}

#[test]
fn bid_read_after_win_sets_reservation() {
    let (mut world, _) = won_with_a_bid_from_before();
    world.hold = Some(|call| matches!(call, Call::FetchSnapshot) || is_list(call));
    world.settle();
    assert_eq!(reserved_cpu(&world), [800]);
    assert!(world.submit(1, &web()).is_ok());
}

#[test]
fn scan_requested_during_dry_run_runs_afterwards() {
    let mut world = World::new();
    world.running(1, &web());
    world.hold = Some(|call| matches!(call, Call::FetchSnapshot));
    let dry = world.request(Request::Scan { dry_run: true });
    let real = world.request(Request::Scan { dry_run: false });
    let scans = |world: &World| world.count(|call| matches!(call, Call::FetchSnapshot));
    let before = scans(&world);
    world.hold = None;
    world.settle();
    assert_eq!(scans(&world), before + 1, "one scan per request");
    assert!(world.replies.contains_key(&dry) && world.replies.contains_key(&real));
}

/// Completes the next snapshot call with the state before the last block.
fn answer_late(world: &mut World) {
    let (id, call) = world.take_pending(|call| matches!(call, Call::FetchSnapshot));
    let snapshot = world.answer(&call);
    world.blocks(1, BLOCK);
    world.feed(Input::Completed(id, snapshot));
}

#[test]
fn requested_scan_starts_again_if_a_block_is_processed_during_the_scan() {
    for dry_run in [true, false] {
        let mut world = World::new();
        world.running(1, &web());
        world.hold = Some(|call| matches!(call, Call::FetchSnapshot));
        let scan = world.request(Request::Scan { dry_run });
        for _ in 0..3 {
            answer_late(&mut world);
            world.settle();
            assert!(!world.replies.contains_key(&scan));
        }
        world.hold = None;
        world.settle();
        assert!(matches!(world.replies[&scan], Ok(Reply::Scan(_))), "{dry_run}");
    }
}

#[test]
fn requested_scan_fails_after_three_repetitions() {
    let mut world = World::new();
    world.hold = Some(|call| matches!(call, Call::FetchSnapshot));
    let scan = world.request(Request::Scan { dry_run: true });
    for _ in 0..4 {
        assert!(!world.replies.contains_key(&scan));
        answer_late(&mut world);
        world.settle();
    }
    assert_eq!(kind(world.replies[&scan].clone()), Some(RefusalKind::Unavailable));
}

#[test]
fn missed_and_repeated_blocks_are_counted_with_the_scan_that_follows_a_gap() {
    let mut world = World::new();
    world.blocks(1, BLOCK);
    let before = world.engine.counts().clone();
    world.deaf = true;
    world.blocks(3, BLOCK);
    world.deaf = false;
    world.blocks(2, BLOCK);
    let (height, time) = (world.market.height(), world.market.time());
    world.feed(Input::Chain(ChainEvent::Block { height, time }));
    let after = world.engine.counts();
    assert_eq!((before.gaps, after.gaps), (0, 1));
    assert_eq!(
        (after.missed_blocks, after.repeated_blocks),
        (3, before.repeated_blocks + 1)
    );
    assert_eq!(after.full_scans, [(ScanReason::Gap, 1)].into());
    world.wait(world.config.scan_interval + MINUTE);
    world.request(Request::Scan { dry_run: false });
    let scans = [
        (ScanReason::Interval, 1),
        (ScanReason::Gap, 1),
        (ScanReason::Request, 1),
    ];
    assert_eq!(world.engine.counts().full_scans, scans.into());
    assert_eq!(
        world.engine.counts().cluster_scans,
        [(ScanReason::Resync, 1)].into()
    );
}

#[test]
fn scan_replaces_a_ledger_that_differs_from_its_recount() {
    let mut world = World::new();
    let mut state = serde_json::to_value(&world.engine).unwrap();
    state["reservations"]["pools"]["ports_taken"] = 7.into();
    world.engine = serde_json::from_value(state).unwrap();
    let before = world.engine.counts().clone();
    let findings = |world: &mut World, dry_run| {
        let scan = world.request(Request::Scan { dry_run });
        match &world.replies[&scan] {
            Ok(Reply::Scan(findings)) => findings.len(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(findings(&mut world, true), 1);
    assert!(!world.engine.recount_matches(), "a dry run changes nothing");
    assert_eq!(findings(&mut world, false), 1);
    assert!(world.engine.recount_matches());
    assert_eq!(findings(&mut world, false), 0);
    let after = world.engine.counts();
    assert_eq!(after.recounts - before.recounts, 3);
    assert_eq!((before.recount_mismatches, after.recount_mismatches), (0, 2));
    assert_eq!(after.last_recount, Some(world.market.time()));
}
