//! Bids and leases that come to light before anybody has read what they promise: those of a process before ours,
//! and those that records show earlier than events.

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

/// A bid that another process with our key sends.
fn bid_elsewhere(world: &mut World, order: &OrderId, sdl: &Sdl) -> BidId {
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
fn a_lease_newer_than_the_newest_block_told_has_its_whole_time() {
    let mut config = settings();
    config.manifest_timeout = Some(MINUTE);
    let mut world = World::with(config);
    world.order(1, &web());
    // The stream falls behind by more than the time a manifest has, and a full scan shows the lease.
    world.deaf = true;
    world.blocks(1, 10 * MINUTE);
    world.take_bids(1, &web());
    world.request(Request::Scan { dry_run: false });
    world.deaf = false;
    assert_eq!(world.status().leases.len(), 1);
    world.blocks(3, BLOCK);
    assert_eq!(world.closes(), [], "it is half a minute old");
    world.blocks(12, BLOCK);
    assert_eq!(world.closes(), [(lease_id(1), CloseReason::ManifestTimeout)]);
}

#[test]
fn a_lease_that_a_manifest_shows_before_its_block_has_its_whole_time() {
    let mut config = settings();
    config.manifest_timeout = Some(MINUTE);
    let mut world = World::with(config);
    let bid = bid_of(&world.order(1, &web()), us());
    // The stream falls behind, and the tenant is quicker.
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
    assert_eq!(world.closes(), [], "it is half a minute old");
    world.blocks(12, BLOCK);
    assert_eq!(world.closes(), [(lease_id(1), CloseReason::ManifestTimeout)]);
}

#[test]
fn nothing_is_sold_while_it_is_not_known_what_a_lease_holds() {
    let mut world = World::new();
    world.hold = Some(IS_READ);
    world.price = Err(failure(false));
    let first = world.order(1, &web());
    let bid = bid_elsewhere(&mut world, &first, &web());
    world.price = Ok(price(10));
    world.tenant(TenantMsg::CreateLease { bid });
    let second = world.order(2, &web());
    assert_eq!(world.count(is_bid), 0);
    let why = decline(&world, &second).unwrap();
    assert!(why.contains("is not known before the next full scan"), "{why}");
    // It is known, and the order gets its bid without anybody asking.
    world.hold = None;
    world.wait(2 * MINUTE);
    assert_eq!((world.active(), world.pending()), (vec![first], vec![second]));
}

#[test]
fn a_bid_that_was_priced_waits_too() {
    let mut world = World::new();
    world.hold = Some(|call| is_price(call) || IS_READ(call));
    let second = world.order(2, &web());
    // There is no room for the first order any more, but there was, and our bid on it wins.
    let mut large = web();
    let unit = &mut large.groups[0].resources[0];
    (unit.count, unit.resources.cpu.units) = (50, 21_000);
    let first = world.order(1, &large);
    assert_eq!(world.status().declines[&DeclineCode::InsufficientCapacity], 1);
    let bid = bid_elsewhere(&mut world, &first, &large);
    let events = world.market.tenant(TenantMsg::CreateLease { bid }).unwrap();
    world.tell(events);
    world.hold = Some(IS_READ);
    world.settle();
    assert_eq!(world.count(is_bid), 0);
    let why = decline(&world, &second).unwrap();
    assert!(why.contains("is not known before the next full scan"), "{why}");
}

#[test]
fn a_bid_from_before_holds_its_place_as_soon_as_it_is_told() {
    let mut world = World::new();
    world.hold = Some(IS_SNAPSHOT);
    world.price = Err(failure(false));
    let first = world.order(1, &web());
    world.price = Ok(price(10));
    bid_elsewhere(&mut world, &first, &web());
    assert_eq!(world.pending(), std::slice::from_ref(&first), "no scan was made");
    // It ends like one of this process.
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(1) });
    assert_eq!((world.pending(), world.status().orders.len()), (vec![], 0));
}

#[test]
fn a_bid_that_is_told_and_not_there_holds_nothing_for_long() {
    let mut world = World::new();
    world.hold = Some(IS_SNAPSHOT);
    world.price = Err(failure(false));
    let first = world.order(1, &web());
    world.price = Ok(price(10));
    // A node that lies, or a block that was taken back.
    world.tell(vec![ChainEvent::BidCreated {
        id: bid_of(&first, us()),
        price: price(10),
    }]);
    world.settle();
    let second = world.order(2, &web());
    assert_eq!(world.count(is_bid), 0, "it may hold everything");
    for _ in 0..24 {
        world.blocks(1, BLOCK);
        world.wait(BLOCK);
    }
    assert_eq!(world.pending(), [second], "and the first order no second one");
}

/// A process before this one may have taken its manifest.
#[test]
fn a_lease_won_by_a_bid_from_before_is_looked_for_in_the_cluster() {
    let mut config = settings();
    config.manifest_timeout = Some(MINUTE);
    let mut world = World::with(config);
    world.order(1, &web());
    world.restart();
    world.hold = Some(is_list);
    world.take_bids(1, &web());
    world.blocks(20, BLOCK);
    assert_eq!(world.closes(), [], "nobody has looked");
    world.hold = None;
    world.settle();
    world.blocks(3, BLOCK);
    assert_eq!(world.closes(), [], "its time starts with the look");
    world.blocks(20, BLOCK);
    assert_eq!(world.closes().len(), 1);
}

#[test]
fn a_lease_that_a_manifest_shows_early_gets_no_second_bid_by_an_older_snapshot() {
    let mut world = World::new();
    let bid = bid_of(&world.order(1, &web()), us());
    let behind = Arc::new(world.market.snapshot(&us()));
    let won = world.market.tenant(TenantMsg::CreateLease { bid }).unwrap();
    world.hold = Some(IS_SNAPSHOT);
    world.request(Request::Scan { dry_run: false });
    // However often the tenant sends it.
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

/// The tenant may choose a bid before we have heard that it landed.
#[test]
fn a_lease_that_is_told_before_its_bid_keeps_nobody_from_a_bid() {
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
        world.told(|e| matches!(e, Event::BidPlaced { .. })),
        2,
        "each once"
    );
}

#[test]
fn an_order_that_is_active_by_a_bid_of_ours_keeps_its_place() {
    let mut world = World::new();
    world.hold = Some(is_price);
    let order = world.order(1, &web());
    // Before a restart we bid, and it won; nobody has told us yet.
    world.deaf = true;
    let bid = bid_elsewhere(&mut world, &order, &web());
    world.tenant(TenantMsg::CreateLease { bid });
    world.deaf = false;
    world.hold = None;
    world.settle();
    assert_eq!(world.count(is_bid), 1, "it is refused, for the order is active");
    assert_eq!(world.pending(), [order], "and read");
}

#[test]
fn no_manifest_is_taken_before_our_bid_is_read() {
    let mut world = World::new();
    world.hold = Some(is_price);
    let order = world.order(1, &web());
    world.hold = Some(IS_BID_READ);
    let bid = bid_elsewhere(&mut world, &order, &web());
    world.deaf = true;
    world.tenant(TenantMsg::CreateLease { bid });
    world.deaf = false;
    let refusal = world.submit(1, &web()).unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Unavailable, "{}", refusal.message);
    world.hold = None;
    world.settle();
    assert!(world.submit(1, &web()).is_ok());
}

#[test]
fn a_bid_too_many_by_parameters_that_nobody_has_read_is_not_refused_for_ever() {
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
    assert!(decline(&world, &order).is_some_and(|why| why.starts_with("not decided")));
    // As they were before anybody has read them.
    world.market.set_params(before);
    world.resync();
    assert_eq!(world.pending(), [order]);
}

#[test]
fn a_workload_that_nobody_deploys_is_pending() {
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
        "the leader may have deployed it or not"
    );
}
