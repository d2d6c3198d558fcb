//! Which query results the engine uses, depending on their height, and which records come from snapshots.

use crate::engine::world::*;
use akash_provider_core::engine::{Call, Completion, Effect, EffectId, Input};
use akash_provider_core::market::{Market, TenantMsg};
use akash_provider_core::types::{
    Agreement, BidState, BlockTime, ChainEvent, CloseReason, LeaseState, Mono, Msg, Now, Observed, TxOutcome,
};
use std::slice::from_ref;
use std::sync::Arc;

fn is_look(call: &Call) -> bool {
    matches!(call, Call::FetchLease(_))
}

fn pending_call(world: &mut World, which: Which) -> (EffectId, Call) {
    let at = world.in_flight.iter().position(|(_, call)| which(call));
    world
        .in_flight
        .remove(at.unwrap_or_else(|| panic!("nothing is held")))
        .unwrap()
}

#[test]
fn bid_of_a_snapshot_is_not_treated_as_absent() {
    let mut world = World::new();
    let order = world.order(1, &web());
    // The order ended while its bid is open. A node at the same height then does not find the bid.
    let mut snapshot = world.market.snapshot(&us());
    snapshot.orders.clear();
    world.crash();
    world.feed_capacity();
    let is_fetch: Which = |call| matches!(call, Call::FetchBid(_));
    world.hold = Some(is_fetch);
    world.feed(Input::Chain(ChainEvent::Resync(Arc::new(snapshot))));
    world.settle();
    let (id, _) = pending_call(&mut world, is_fetch);
    let absent = Observed::new(None, world.market.height(), Agreement::Single);
    world.feed(Input::Completed(id, Completion::Bid(Ok(absent))));
    assert_eq!(world.status().orders[0].price, Some(price(10)));
    world.hold = None;
    world.wait(MINUTE);
    assert_eq!(world.bid(&order).unwrap().state, BidState::Closed);
}

#[test]
fn bid_missing_on_lagging_node_is_not_treated_as_lost() {
    let mut world = World::new();
    world.hold = Some(is_bid);
    let order = world.order(1, &web());
    let (id, call) = pending_call(&mut world, is_bid);
    world.hold = None;
    let behind = world.market.clone();
    // The bid lands, and the provider receives no outcome and no event.
    let Call::Broadcast(msg) = call else {
        panic!("{call:?}")
    };
    world.market.execute(&msg).unwrap();
    let expires = world.market.time().plus(MINUTE);
    let unknown = TxOutcome::Unknown { expires };
    world.hold = Some(is_bid);
    world.feed(Input::Completed(id, Completion::Tx(Ok(unknown))));
    world.lagging = Some(behind);
    // Repeated transactions are lost.
    for _ in 0..30 {
        world.blocks(1, BLOCK);
        while let Some(at) = world.in_flight.iter().position(|(_, call)| is_bid(call)) {
            let (id, _) = world.in_flight.remove(at).unwrap();
            let unknown = TxOutcome::Unknown { expires };
            world.feed(Input::Completed(id, Completion::Tx(Ok(unknown))));
        }
        world.settle();
    }
    assert_eq!(world.pending(), from_ref(&order), "the node lags behind");
    world.lagging = None;
    world.wait(2 * MINUTE);
    assert_eq!(world.pending(), from_ref(&order));
    assert_eq!(world.bid(&order).map(|b| b.state), Some(BidState::Open));
    assert_eq!(world.status().declines.len(), 0);
}

#[test]
fn lease_end_counts_only_if_read_after_the_triggering_event() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    let height = world.market.height();
    let mut closed = world.market.clone();
    closed
        .tenant(TenantMsg::CloseDeployment { id: deployment_id(1) })
        .unwrap();
    let record = closed.lease(&lease);
    assert_eq!(record.as_ref().unwrap().lease.state, LeaseState::Closed);
    world.hold = Some(is_look);
    world.tell(vec![ChainEvent::LeaseClosed {
        id: lease.clone(),
        reason: CloseReason::Unspecified,
    }]);
    let answer = |world: &mut World, height| {
        let (id, _) = pending_call(world, is_look);
        let seen = Observed::new(record.clone(), height, Agreement::Single);
        world.feed(Input::Completed(id, Completion::Lease(Ok(seen))));
        world.settle();
        world.wait(MINUTE);
    };
    answer(&mut world, height);
    assert!(
        world.cluster.contains_key(&lease),
        "the older record decides nothing"
    );
    assert_eq!(world.count(is_teardown), 0);
    answer(&mut world, height + 1);
    assert!(!world.cluster.contains_key(&lease));
}

#[test]
fn reclamation_announced_elsewhere_is_carried_out() {
    let mut config = settings();
    config.reclamation_window = Some(2 * HOUR);
    let mut world = World::with(config);
    let lease = world.running(1, &web());
    world.deaf = true;
    // Another instance with the same key announced the end.
    world.outside(&Msg::StartReclaim {
        id: lease.clone(),
        reason: CloseReason::Decommission,
    });
    world.deaf = false;
    world.resync();
    world.blocks(118, MINUTE);
    assert_eq!(world.closes(), [], "the deadline has not passed");
    world.blocks(4, MINUTE);
    assert_eq!(world.closes(), [(lease, CloseReason::Decommission)]);
}

fn answer_scan(world: &mut World, node: &Market) {
    let (id, _) = pending_call(world, is_snapshot);
    let snapshot = Arc::new(node.snapshot(&us()));
    world.feed(Input::Completed(id, Completion::Snapshot(Ok(snapshot))));
    world.settle();
}

#[test]
fn scan_older_than_previous_scan_is_ignored() {
    let mut world = World::new();
    world.order(1, &web());
    world.deaf = true;
    world.blocks(2, BLOCK);
    let behind = world.market.clone();
    world.take_bids(1, &web());
    let lease = lease_id(1);
    world.hold = Some(|c| is_snapshot(c) || is_look(c));
    world.wait(11 * MINUTE);
    let ahead = world.market.clone();
    answer_scan(&mut world, &ahead);
    assert!(
        world.engine.has_lease(&lease),
        "a scan may be ahead of the stream"
    );
    world.wait(11 * MINUTE);
    answer_scan(&mut world, &behind);
    assert_eq!(
        world.count(is_look),
        0,
        "an absent record may be newer than the snapshot"
    );
    assert!(world.engine.has_lease(&lease));
}

#[test]
fn monotonic_clock_never_goes_back() {
    let mut world = World::new();
    world.fail = Some(|c| matches!(c, Call::FetchOrder(_)));
    world.wait(HOUR);
    let late = world.mono;
    let order = order_id(1);
    let early = |mono| Now {
        mono,
        block_time: BlockTime::default(),
    };
    let event = Input::Chain(ChainEvent::OrderCreated { id: order });
    let effects = world.engine.step(early(Mono(0)), event);
    let [.., Effect::Publish(_), Effect::Call(id, Call::FetchOrder(_))] = effects[..] else {
        panic!("{effects:?}")
    };
    let failed = Completion::Order(Err(failure(true)));
    world.engine.step(early(Mono(5)), Input::Completed(id, failed));
    let next = world.engine.next_deadline().unwrap();
    assert!(next > late, "{next:?} is before {late:?}");
    assert_eq!(world.engine.handle_timeout(early(Mono(0))), []);
}

#[test]
fn rejection_by_unread_parameters_is_retried() {
    let mut config = settings();
    config.scan_interval = 100 * HOUR;
    let mut world = World::with(config);
    let before = world.market.params().clone();
    let mut params = before.clone();
    params.bid_min_deposits = vec![uact(1 << 40)];
    world.market.set_params(params);
    let order = world.order(1, &web());
    world.wait(HOUR);
    assert_eq!(world.count(is_bid), 1, "no parameter changed");
    // The parameters have their previous values, so no scan can show a change.
    world.market.set_params(before);
    world.resync();
    assert!(world.bid(&order).is_some_and(|bid| bid.state == BidState::Open));
}
