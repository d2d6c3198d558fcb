//! Bids and leases that the engine receives before it has read their resources: those of a previous process,
//! and those with a record that arrives before their event.

use crate::engine::world::*;
use akash_provider_core::engine::status::DeclineStatus;
use akash_provider_core::engine::{Call, Completion, Input, Leadership, LeasePhase, RefusalKind, Request};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{
    BidId, ChainEvent, CloseReason, DeclineCode, Event, Msg, OrderId, Snapshot,
};
use std::sync::Arc;

const IS_SNAPSHOT: Which = |call| matches!(call, Call::FetchSnapshot);
const IS_BID_READ: Which = |call| matches!(call, Call::FetchBid(_));
const IS_READ: Which = |call| IS_SNAPSHOT(call) || IS_BID_READ(call);

fn bid_by_other_process(world: &mut World, order: &OrderId, sdl: &Sdl) -> BidId {
    let id = bid_of(order, us());
    world.outside(&Msg::CreateBid {
        id: id.clone(),
        price: price(10),
        deposit: uact(500_000),
        resources_offer: sdl.groups[0].resources.clone(),
        reclamation_window: None,
    });
    id
}

fn decline(world: &World, order: &OrderId) -> Option<String> {
    let declines = world.status().recent_declines;
    let of = |d: &&DeclineStatus| d.order == *order;
    declines.iter().rfind(of).map(|d| d.message.clone())
}

#[test]
fn lease_ahead_of_event_stream_gets_full_manifest_time() {
    let mut config = settings();
    config.manifest_timeout = Some(MINUTE);
    let mut world = World::with(config);
    world.order(1, &web());
    // The stream falls behind by more than the manifest deadline, and a full scan shows the lease.
    world.deaf = true;
    world.blocks(1, 10 * MINUTE);
    world.take_bids(1, &web());
    world.request(Request::Scan { dry_run: false });
    world.deaf = false;
    assert_eq!(world.status().leases.len(), 1);
    world.blocks(3, BLOCK);
    assert_eq!(world.closes(), [], "the lease is half a minute old");
    world.blocks(12, BLOCK);
    assert_eq!(world.closes(), [(lease_id(1), CloseReason::ManifestTimeout)]);
}

#[test]
fn lease_first_seen_by_submission_gets_full_manifest_time() {
    let mut config = settings();
    config.manifest_timeout = Some(MINUTE);
    let mut world = World::with(config);
    let bid = bid_of(&world.order(1, &web()), us());
    // The stream falls behind, and the tenant submits first.
    let mut late = vec![world.market.end_block(BLOCK), world.market.end_block(10 * MINUTE)];
    late.extend(world.market.tenant(TenantMsg::CreateLease { bid }).unwrap());
    late.push(world.market.end_block(BLOCK));
    world.fail = Some(is_record);
    assert!(world.submit(1, &web()).is_err());
    world.fail = None;
    assert_eq!(world.status().leases.len(), 1);
    world.tell(late);
    world.settle();
    world.blocks(3, BLOCK);
    assert_eq!(world.closes(), [], "the lease is half a minute old");
    world.blocks(12, BLOCK);
    assert_eq!(world.closes(), [(lease_id(1), CloseReason::ManifestTimeout)]);
}

#[test]
fn no_bid_while_resources_of_a_lease_are_unread() {
    let mut world = World::new();
    world.hold = Some(IS_READ);
    world.price = Err(failure(false));
    let first = world.order(1, &web());
    let bid = bid_by_other_process(&mut world, &first, &web());
    world.price = Ok(price(10));
    world.tenant(TenantMsg::CreateLease { bid });
    let second = world.order(2, &web());
    assert_eq!(world.count(is_bid), 0);
    let why = decline(&world, &second).unwrap();
    assert!(why.contains("is not known before the next full scan"), "{why}");
    // The held resources are read, and the order gets its bid automatically.
    world.hold = None;
    world.wait(2 * MINUTE);
    assert_eq!((world.active(), world.pending()), (vec![first], vec![second]));
}

#[test]
fn priced_bid_waits_while_resources_of_a_lease_are_unread() {
    let mut world = World::new();
    world.hold = Some(|call| is_price(call) || IS_READ(call));
    let second = world.order(2, &web());
    // The first order no longer fits, but an earlier bid on it wins.
    let mut large = web();
    let unit = &mut large.groups[0].resources[0];
    (unit.count, unit.resources.cpu.units) = (50, 21_000);
    let first = world.order(1, &large);
    assert_eq!(world.status().declines[&DeclineCode::InsufficientCapacity], 1);
    let bid = bid_by_other_process(&mut world, &first, &large);
    let events = world.market.tenant(TenantMsg::CreateLease { bid }).unwrap();
    world.tell(events);
    world.hold = Some(IS_READ);
    world.settle();
    assert_eq!(world.count(is_bid), 0);
    let why = decline(&world, &second).unwrap();
    assert!(why.contains("is not known before the next full scan"), "{why}");
}

#[test]
fn existing_bid_reserves_capacity_at_its_event() {
    let mut world = World::new();
    world.hold = Some(IS_SNAPSHOT);
    world.price = Err(failure(false));
    let first = world.order(1, &web());
    world.price = Ok(price(10));
    bid_by_other_process(&mut world, &first, &web());
    assert_eq!(world.pending(), std::slice::from_ref(&first), "without a scan");
    // The bid ends like a bid of this process.
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(1) });
    assert_eq!((world.pending(), world.status().orders.len()), (vec![], 0));
}

#[test]
fn reported_bid_that_does_not_exist_is_released() {
    let mut world = World::new();
    world.hold = Some(IS_SNAPSHOT);
    world.price = Err(failure(false));
    let first = world.order(1, &web());
    world.price = Ok(price(10));
    // The node lies, or the block was rolled back.
    world.tell(vec![ChainEvent::BidCreated {
        id: bid_of(&first, us()),
        price: price(10),
    }]);
    world.settle();
    let second = world.order(2, &web());
    assert_eq!(world.count(is_bid), 0, "the unread bid may hold all capacity");
    for _ in 0..24 {
        world.blocks(1, BLOCK);
        world.wait(BLOCK);
    }
    assert_eq!(world.pending(), [second], "the first order gets no second bid");
}

/// A previous process may have stored the manifest of the lease.
#[test]
fn lease_of_existing_bid_is_looked_up_in_the_cluster() {
    let mut config = settings();
    config.manifest_timeout = Some(MINUTE);
    let mut world = World::with(config);
    world.order(1, &web());
    world.restart();
    world.hold = Some(is_list);
    world.take_bids(1, &web());
    world.blocks(20, BLOCK);
    assert_eq!(world.closes(), [], "the cluster is not listed yet");
    world.hold = None;
    world.settle();
    world.blocks(3, BLOCK);
    assert_eq!(world.closes(), [], "the deadline starts with the list");
    world.blocks(20, BLOCK);
    assert_eq!(world.closes().len(), 1);
}

#[test]
fn older_snapshot_causes_no_second_bid_on_leased_order() {
    let mut world = World::new();
    let bid = bid_of(&world.order(1, &web()), us());
    let behind = Arc::new(world.market.snapshot(&us()));
    let won = world.market.tenant(TenantMsg::CreateLease { bid }).unwrap();
    world.hold = Some(IS_SNAPSHOT);
    world.request(Request::Scan { dry_run: false });
    // Repeated submissions change nothing.
    for _ in 0..2 {
        assert_eq!(world.submit(1, &web()).map(|_| ()), Ok(()));
    }
    let mut older = Snapshot::clone(&behind);
    older.bids.clear();
    let (scan, _) = world.in_flight.pop_front().unwrap();
    world.feed(Input::Completed(scan, Completion::Snapshot(Ok(Arc::new(older)))));
    world.settle();
    world.tell(won);
    world.hold = None;
    world.blocks(3, BLOCK);
    assert_eq!(world.count(is_bid), 1);
}

/// A tenant can accept a bid before the provider receives the event of this bid.
#[test]
fn lease_event_before_bid_event_does_not_block_other_bids() {
    let mut world = World::new();
    world.hold = Some(is_bid);
    let first = world.order(1, &web());
    let (id, call) = world.in_flight.pop_front().unwrap();
    let answer = world.answer(&call);
    let bid = bid_of(&first, us());
    let events = world.market.tenant(TenantMsg::CreateLease { bid }).unwrap();
    world.tell(events);
    world.hold = Some(IS_SNAPSHOT);
    let second = world.order(2, &web());
    assert_eq!(world.pending(), [second]);
    world.feed(Input::Completed(id, answer));
    world.settle();
    assert_eq!((world.active(), world.status().declines.len()), (vec![first], 0));
    assert_eq!(
        world.count_facts(|e| matches!(e, Event::BidPlaced { .. })),
        2,
        "one bid per order"
    );
}

#[test]
fn order_won_before_restart_retains_reservation() {
    let mut world = World::new();
    world.hold = Some(is_price);
    let order = world.order(1, &web());
    // A bid from before the restart won, and its event is missing.
    world.deaf = true;
    let bid = bid_by_other_process(&mut world, &order, &web());
    world.tenant(TenantMsg::CreateLease { bid });
    world.deaf = false;
    world.hold = None;
    world.settle();
    assert_eq!(
        world.count(is_bid),
        1,
        "the chain refuses the bid, because the order is active"
    );
    assert_eq!(world.pending(), [order], "then the bid is read");
}

#[test]
fn manifest_is_not_accepted_before_bid_is_read() {
    let mut world = World::new();
    world.hold = Some(is_price);
    let order = world.order(1, &web());
    world.hold = Some(IS_READ);
    let bid = bid_by_other_process(&mut world, &order, &web());
    world.deaf = true;
    world.tenant(TenantMsg::CreateLease { bid });
    world.deaf = false;
    let request = world.submit_later(1, &web());
    world.wait(4 * SECOND);
    let refusal = world.replies[&request].clone().unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Unavailable, "{}", refusal.message);
    world.hold = None;
    world.settle();
    assert!(world.submit(1, &web()).is_ok());
}

#[test]
fn manifest_waits_for_result_of_own_bid() {
    let mut world = World::new();
    world.hold = Some(is_bid);
    let order = world.order(1, &web());
    let (id, call) = world.take_pending(is_bid);
    let answer = world.answer(&call);
    world.hold = Some(IS_READ);
    let bid = bid_of(&order, us());
    let events = world.market.tenant(TenantMsg::CreateLease { bid }).unwrap();
    world.tell(events);
    let request = world.submit_later(1, &web());
    assert!(
        !world.replies.contains_key(&request),
        "the result of the bid is missing"
    );
    world.feed(Input::Completed(id, answer));
    world.wait(2 * SECOND);
    assert!(world.replies[&request].is_ok(), "{:?}", world.replies[&request]);
}

#[test]
fn rejection_by_unread_bid_limit_is_retried() {
    let mut world = World::new();
    let before = world.market.params().clone();
    let mut params = before.clone();
    params.order_max_bids = 0;
    world.hold = Some(is_price);
    let order = world.order(1, &web());
    world.deaf = true;
    world.outside(&Msg::CreateBid {
        id: bid_of(&order, rival()),
        price: price(10),
        deposit: uact(500_000),
        resources_offer: web().groups[0].resources.clone(),
        reclamation_window: None,
    });
    world.deaf = false;
    world.market.set_params(params);
    world.hold = None;
    world.settle();
    assert_eq!(world.count(is_bid), 1);
    let reason = decline(&world, &order).unwrap();
    assert!(reason.contains("at most 0"), "the unread limit: {reason}");
    // The parameters have the values from before the first read.
    world.market.set_params(before);
    world.resync();
    assert_eq!(world.pending(), [order]);
}

#[test]
fn undeployed_workload_is_pending() {
    let mut world = World::new();
    world.running(1, &web());
    let phase = |world: &World| world.status().leases[0].phase;
    assert_eq!(phase(&world), LeasePhase::Running);
    world.crash();
    world.lead(Leadership::Standby);
    world.start();
    assert_eq!(
        phase(&world),
        LeasePhase::Pending,
        "a standby cannot tell whether the leader deployed it"
    );
}
