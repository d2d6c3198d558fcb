//! Orders and bids.
//!
//! Length: one scenario per path of an order, all with the same short setup.

use crate::engine::world::*;
use akash_provider_core::engine::{Call, Completion, Input};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{
    Attribute, BidOutcome, BidState, ChainEvent, CloseReason, DeclineCode, Event, Msg, OrderId,
    ProviderRecord, SignedBy,
};
use std::slice::from_ref;
use std::time::Duration;

fn close_deployment(dseq: u64) -> TenantMsg {
    let id = deployment_id(dseq);
    TenantMsg::CloseDeployment { id }
}

#[test]
fn order_gets_one_reservation_and_shutdown_leaves_its_bid() {
    let mut world = World::new();
    let order = world.order(1, &web());
    let sent: Vec<_> = world.calls.iter().filter(|c| is_bid(c)).collect();
    let [
        Call::Broadcast(Msg::CreateBid {
            id, price, deposit, ..
        }),
    ] = sent[..]
    else {
        panic!("{sent:?}")
    };
    assert_eq!(
        (&id.order, &*price.denom, deposit),
        (&order, "uact", &uact(500_000))
    );
    assert_eq!(world.pending(), from_ref(&order));
    world.feed(akash_provider_core::engine::Input::Shutdown);
    world.settle();
    assert_eq!(world.bid(&order).unwrap().state, BidState::Open);
    assert!(world.engine.is_idle());
}

#[test]
fn unaccepted_bid_is_closed_after_timeout() {
    let mut world = World::new();
    let order = world.order(1, &web());
    world.blocks(48, BLOCK);
    assert_eq!(world.closes(), []);
    world.blocks(4, BLOCK);
    let bid = bid_of(&order, us());
    assert_eq!(world.closes(), [(bid, CloseReason::Unspecified)]);
    assert_eq!(world.bid(&order).unwrap().state, BidState::Closed);
    assert_eq!(world.pending(), []);
}

#[test]
fn price_above_maximum_of_order_is_declined() {
    let mut world = World::new();
    world.price = Ok(price(9_999_999_999));
    world.order(1, &web());
    assert_eq!(
        (world.count(is_bid), world.count(is_write), world.pending()),
        (0, 0, vec![])
    );
    assert_eq!(world.status().declines.values().sum::<u64>(), 1);
}

#[test]
fn closed_order_releases_reservation_once_in_any_phase() {
    let mut world = World::new();
    let order = world.order(1, &web());
    world.tenant(close_deployment(1));
    assert_eq!((world.pending(), world.closes()), (vec![], vec![]));
    assert_eq!(world.bid(&order).unwrap().state, BidState::Closed);

    world.hold = Some(is_price);
    world.order(2, &web());
    assert_eq!(world.pending().len(), 1);
    world.tenant(close_deployment(2));
    assert_eq!(world.pending(), []);
    world.hold = None;
    world.settle();
    assert_eq!((world.count(is_bid), world.pending()), (1, vec![]));
}

#[test]
fn won_lease_retains_reservation() {
    let mut world = World::new();
    let lease = world.lease(1, &web());
    assert_eq!((world.pending(), world.active()), (vec![], vec![lease.order]));
    assert_eq!(world.closes(), []);
}

#[test]
fn existing_bid_is_adopted_and_ends_with_its_order() {
    let mut world = World::new();
    let order = world.order(1, &web());
    world.restart();
    assert_eq!((world.count(is_bid), world.pending()), (0, vec![order]));
    world.tenant(close_deployment(1));
    // The chain closed the bid together with the order, so no transaction is needed.
    assert_eq!((world.count(is_write), world.pending()), (0, vec![]));
}

#[test]
fn ended_bid_is_never_sent_again() {
    let mut world = World::new();
    let order = world.order(1, &web());
    world.blocks(60, BLOCK);
    assert_eq!(world.bid(&order).unwrap().state, BidState::Closed);
    world.restart();
    world.wait(HOUR);
    assert_eq!((world.count(is_write), world.pending()), (0, vec![]));
}

#[test]
fn adopted_bid_that_wins_retains_reservation() {
    let mut world = World::new();
    world.order(1, &web());
    world.restart();
    world.take_bids(1, &web());
    assert_eq!((world.count(is_write), world.active()), (0, vec![order_id(1)]));
}

#[test]
fn order_without_price_is_declined() {
    let mut world = World::new();
    world.price = Err(failure(false));
    world.order(1, &web());
    assert_eq!((world.count(is_write), world.pending()), (0, vec![]));
    assert_eq!(world.status().declines.get(&DeclineCode::Price), Some(&1));
}

#[test]
fn w9_changed_provider_record_applies_at_once() {
    let mut world = World::new();
    let region = Attribute::new("region", "west");
    let mut sdl = web();
    sdl.groups[0].requirements.attributes = vec![region.clone()];
    let order = world.order(1, &sdl);
    assert_eq!(world.bid(&order), None);
    world.outside(&Msg::UpdateProvider(ProviderRecord {
        owner: us(),
        host_uri: "https://provider.example:8443".to_owned(),
        info: Default::default(),
        attributes: vec![region],
    }));
    world.wait(MINUTE);
    assert_eq!(world.bid(&order).map(|b| b.state), Some(BidState::Open));
}

/// The provider record changes between the response of the node and its receipt by the engine.
#[test]
fn provider_record_is_read_again_if_it_changes_during_a_read() {
    let mut world = World::new();
    let region = Attribute::new("region", "west");
    let mut sdl = web();
    sdl.groups[0].requirements.attributes = vec![region.clone()];
    let order = world.order(1, &sdl);
    let mut record = ProviderRecord {
        owner: us(),
        host_uri: "https://provider.example:8443".to_owned(),
        info: Default::default(),
        attributes: Vec::new(),
    };
    let is_asked = |call: &Call| matches!(call, Call::FetchProvider);
    world.hold = Some(is_asked);
    world.outside(&Msg::UpdateProvider(record.clone()));
    let before = record.clone();
    record.attributes.push(region);
    world.outside(&Msg::UpdateProvider(record));
    let queries = world.in_flight.iter().position(|(_, call)| is_asked(call));
    let (id, _) = world.in_flight.remove(queries.unwrap()).unwrap();
    world.hold = None;
    world.feed(Input::Completed(id, Completion::Provider(Ok(Some(before)))));
    world.wait(MINUTE);
    assert_eq!(world.count(is_asked), 2);
    assert_eq!(world.bid(&order).map(|b| b.state), Some(BidState::Open));
}

fn signed() -> akash_provider_core::sdl::Sdl {
    let mut sdl = web();
    sdl.groups[0].requirements.signed_by = SignedBy {
        all_of: vec![auditor().to_string()],
        any_of: Vec::new(),
    };
    sdl
}

#[test]
fn w9_auditor_is_queried_once_for_many_orders_and_again_after_signing() {
    let mut world = World::new();
    for dseq in 1..=5 {
        world.order(dseq, &signed());
    }
    assert_eq!(world.count(|c| matches!(c, Call::FetchAudit(_))), 1);
    assert_eq!(world.count(is_bid), 0);
    world.tenant(TenantMsg::SignProvider {
        auditor: auditor(),
        owner: us(),
        attributes: Vec::new(),
    });
    world.wait(MINUTE);
    assert_eq!(world.count(|c| matches!(c, Call::FetchAudit(_))), 2);
    assert_eq!(world.count(is_bid), 5);
}

#[test]
fn w12_unsatisfiable_order_is_not_reserved_or_priced() {
    let mut world = World::new();
    world.order_as(deployment_id(1), &web(), Some(HOUR));
    assert_eq!((world.count(is_price), world.count(is_write)), (0, 0));
    assert_eq!(world.status().declines.values().sum::<u64>(), 1);
}

fn rival_bids(world: &mut World, order: &OrderId) {
    world.outside(&Msg::CreateBid {
        id: bid_of(order, rival()),
        price: price(1),
        deposit: uact(500_000),
        resources_offer: Vec::new(),
        reclamation_window: None,
    });
}

fn is_count(call: &Call) -> bool {
    matches!(call, Call::CountBids(_))
}

#[test]
fn w12_order_at_bid_limit_is_not_reserved_or_priced() {
    let mut world = World::new();
    let mut params = world.market.params().clone();
    params.order_max_bids = 0;
    world.market.set_params(params);
    world.resync();
    // The order existed before the start, so its bids are queried.
    world.deaf = true;
    let order = world.order(1, &web());
    rival_bids(&mut world, &order);
    world.restart();
    assert_eq!(world.count(is_count), 1);
    assert_eq!((world.count(is_price), world.count(is_write)), (0, 0));
    assert_eq!(world.status().declines[&DeclineCode::OrderFull], 1);
    assert_eq!(world.pending(), []);
    let free = world.order(2, &web());
    assert_eq!(world.pending(), [free], "the first order is below the limit");
}

#[test]
fn w12_failed_bid_count_does_not_prevent_bid() {
    let mut world = World::new();
    world.deaf = true;
    let order = world.order(1, &web());
    world.crash();
    world.fail = Some(is_count);
    world.start();
    assert_eq!(
        world.pending(),
        from_ref(&order),
        "capacity is reserved before the bids are counted"
    );
    world.wait(Duration::from_secs(3));
    assert_eq!(world.bid(&order).map(|b| b.state), Some(BidState::Open));
    assert_eq!(world.count(is_count), 2, "exactly one retry");
    assert_eq!(
        world.count_facts(|e| matches!(e, Event::BidsNotCounted { message, .. } if message == "away")),
        1
    );
}

#[test]
fn bids_seen_as_events_are_counted_without_a_query() {
    let mut world = World::new();
    let mut params = world.market.params().clone();
    params.order_max_bids = 0;
    world.market.set_params(params);
    world.resync();
    world.hold = Some(is_price);
    let order = world.order(1, &web());
    let other = world.order(2, &web());
    rival_bids(&mut world, &order);
    world.hold = None;
    world.settle();
    assert_eq!(world.status().declines[&DeclineCode::OrderFull], 1);
    assert_eq!(
        world.pending(),
        [other],
        "the limit was reached before the price arrived"
    );
    assert_eq!((world.count(is_count), world.count(is_bid)), (0, 1));
    // Bids placed during a gap in the events are unknown.
    world.hold = Some(|c| matches!(c, Call::FetchOrder(_)));
    let third = world.order(3, &web());
    world.resync();
    world.hold = None;
    world.settle();
    let queries = |call: &Call| *call == Call::CountBids(third.clone());
    assert_eq!(world.calls.iter().filter(|c| queries(c)).count(), 1);
    assert!(world.pending().contains(&third));
}

#[test]
fn bid_with_free_rejection_is_sent_without_a_query() {
    let mut config = settings();
    config.refused_bids_are_free = true;
    let mut world = World::with(config);
    world.deaf = true;
    let order = world.order(1, &web());
    world.restart();
    assert_eq!((world.pending(), world.count(is_count)), (vec![order], 0));
}

#[test]
fn order_is_declined_as_full_if_the_chain_refuses_the_bid() {
    let mut config = settings();
    config.refused_bids_are_free = true;
    let mut world = World::with(config);
    let mut params = world.market.params().clone();
    params.order_max_bids = 0;
    world.market.set_params(params.clone());
    // The provider receives no event of the order and of the other bid.
    world.deaf = true;
    let order = world.order(1, &web());
    rival_bids(&mut world, &order);
    world.restart();
    assert_eq!((world.count(is_count), world.count(is_bid)), (0, 1));
    assert_eq!(world.status().declines[&DeclineCode::OrderFull], 1);
    // The number of bids on an order does not fall, so only a higher limit permits a bid.
    world.wait(Duration::from_secs(3600));
    assert_eq!(world.count(is_bid), 1);
    params.order_max_bids = 1;
    world.market.set_params(params);
    world.resync();
    assert_eq!(world.pending(), [order]);
}

#[test]
fn w12_deposit_uses_denomination_accepted_by_chain() {
    let mut config = settings();
    let uakt = |amount| akash_provider_core::types::Coin::new("uakt", amount);
    config.other_bid_deposits = vec![uakt(1), uakt(700_000)];
    let mut world = World::with(config);
    world.market.fund(&us(), &uakt(1 << 40));
    let mut params = world.market.params().clone();
    params.bid_min_deposits.retain(|coin| *coin.denom == *"uakt");
    world.market.set_params(params);
    world.resync();
    let order = world.order(1, &web());
    assert_eq!(world.pending(), [order]);
    let deposits = world.calls.iter().filter_map(|call| match call {
        Call::Broadcast(Msg::CreateBid { deposit, .. }) => Some(deposit.clone()),
        _ => None,
    });
    assert_eq!(deposits.collect::<Vec<_>>(), [uakt(700_000)]);
}

#[test]
fn order_with_unavailable_auditor_is_retried_automatically() {
    let mut config = settings();
    config.scan_interval = 100 * HOUR;
    let mut world = World::with(config);
    world.tenant(TenantMsg::SignProvider {
        auditor: auditor(),
        owner: us(),
        attributes: Vec::new(),
    });
    world.fail = Some(|c| matches!(c, Call::FetchAudit(_)));
    let order = world.order(1, &signed());
    world.wait(30 * MINUTE);
    assert_eq!(
        world.status().declines[&DeclineCode::Unknown],
        1,
        "the same decline is reported once"
    );
    let queries = world.count(|c| matches!(c, Call::FetchAudit(_)));
    assert!(
        (10..200).contains(&queries),
        "queried {queries} times in half an hour"
    );
    world.fail = None;
    world.wait(2 * MINUTE);
    assert_eq!(world.pending(), [order]);
}

#[test]
fn rejected_bid_is_retried_after_its_reason_changes() {
    let mut world = World::new();
    let sign = || TenantMsg::SignProvider {
        auditor: auditor(),
        owner: us(),
        attributes: Vec::new(),
    };
    world.tenant(sign());
    world.hold = Some(is_bid);
    let order = world.order(1, &signed());
    world.deaf = true;
    world.tenant(TenantMsg::UnsignProvider {
        auditor: auditor(),
        owner: us(),
    });
    world.deaf = false;
    // The signature returns at the moment in which the chain refuses the bid.
    let market = world.market.clone();
    world.tenant(sign());
    let signed_again = std::mem::replace(&mut world.market, market);
    let (id, call) = world.in_flight.pop_front().unwrap();
    let refusal = world.answer(&call);
    world.market = signed_again;
    world.hold = None;
    world.feed(akash_provider_core::engine::Input::Completed(id, refusal));
    world.settle();
    world.wait(2 * MINUTE);
    assert_eq!(world.pending(), [order]);
    assert_eq!(world.count(is_bid), 2);
}

#[test]
fn w20_repeated_order_events_start_one_machine() {
    let mut world = World::new();
    world.hold = Some(is_price);
    let order = world.order(1, &web());
    let again = ChainEvent::OrderCreated { id: order.clone() };
    world.tell(vec![again.clone()]);
    world.resync();
    world.tell(vec![again.clone()]);
    world.hold = None;
    world.settle();
    world.tell(vec![again]);
    world.resync();
    assert_eq!((world.count(is_price), world.count(is_bid)), (1, 1));
    assert_eq!((world.pending(), world.status().orders.len()), (vec![order], 1));
}

#[test]
fn w21_only_the_close_of_own_bid_matters() {
    let mut world = World::new();
    let order = world.order(1, &web());
    let theirs = bid_of(&order, rival());
    world.tell(vec![ChainEvent::BidClosed { id: theirs }]);
    assert_eq!(world.pending(), from_ref(&order));
    world.outside(&Msg::CloseBid {
        id: bid_of(&order, us()),
        reason: CloseReason::Unspecified,
    });
    assert_eq!((world.pending(), world.closes()), (vec![], vec![]));
    assert_eq!(
        world.count_facts(|e| matches!(e, Event::BidEnded { outcome, .. } if *outcome == BidOutcome::Closed)),
        1
    );
}

#[test]
fn w21_lease_of_later_order_does_not_affect_older_order() {
    let mut world = World::new();
    let order = world.order(1, &web());
    let later = OrderId {
        oseq: 2,
        ..order.clone()
    };
    for provider in [rival(), us()] {
        let id = bid_of(&later, provider);
        world.tell(vec![ChainEvent::LeaseCreated { id, price: price(9) }]);
        assert_eq!(world.pending(), from_ref(&order));
    }
}

#[test]
fn w22_age_of_a_bid_is_read_from_its_record() {
    let mut world = World::new();
    let old = world.order(1, &web());
    world.deaf = true;
    world.blocks(40, BLOCK);
    world.crash();
    world.start();
    assert_eq!(world.closes(), [], "a bid of four minutes stays");
    world.deaf = true;
    world.blocks(15, BLOCK);
    world.restart();
    assert_eq!(
        world.closes(),
        [(bid_of(&old, us()), CloseReason::Unspecified)],
        "a bid older than five minutes is closed"
    );
}

#[test]
fn w29_order_waits_for_first_inventory() {
    let mut world = World::unstarted(settings());
    world.resync();
    let order = world.order(1, &web());
    assert_eq!(
        (world.count(is_price), world.status().inventory_known),
        (0, false)
    );
    world.feed_capacity();
    assert_eq!(world.bid(&order).map(|b| b.state), Some(BidState::Open));
}

#[test]
fn w31_lost_bid_is_released_without_transaction() {
    let mut world = World::new();
    let order = world.order(1, &web());
    let theirs = bid_of(&order, rival());
    world.outside(&Msg::CreateBid {
        id: theirs.clone(),
        price: price(9),
        deposit: uact(500_000),
        resources_offer: Vec::new(),
        reclamation_window: None,
    });
    world.tenant(TenantMsg::CreateLease { bid: theirs });
    world.blocks(100, BLOCK);
    assert_eq!((world.closes(), world.pending()), (vec![], vec![]));
    assert_eq!(
        world.count_facts(|e| matches!(e, Event::BidEnded { outcome, .. } if *outcome == BidOutcome::Lost)),
        1
    );
}

#[test]
fn w32_event_reaches_only_its_own_order() {
    let mut world = World::new();
    for dseq in 1..=50 {
        world.order(dseq, &web());
    }
    let before = world.calls.len();
    let events = world.market.tenant(close_deployment(7)).unwrap();
    world.hold = Some(|_| true);
    world.tell(events);
    let caused: Vec<_> = world.calls.drain(before..).collect();
    assert!(caused.len() <= 1, "{caused:?}");
    let elsewhere = |call: &Call| !matches!(call, Call::FetchBid(id) if id.order == order_id(7));
    assert!(!caused.iter().any(elsewhere), "{caused:?}");
}

#[test]
fn w32_transient_query_failure_does_not_lose_order() {
    let mut world = World::new();
    world.fail = Some(|c| matches!(c, Call::FetchOrder(_) | Call::CalculatePrice(_)));
    let order = world.order(1, &web());
    world.wait(Duration::from_secs(1));
    assert_eq!(world.bid(&order), None);
    world.fail = None;
    world.wait(MINUTE);
    assert_eq!(world.bid(&order).map(|b| b.state), Some(BidState::Open));
}

#[test]
fn w33_bid_is_not_placed_if_transaction_never_landed() {
    let mut world = World::new();
    world.lost_txs = u32::MAX;
    let order = world.order(1, &web());
    assert_eq!(world.count_facts(|e| matches!(e, Event::BidPlaced { .. })), 0);
    assert_eq!(world.pending(), from_ref(&order), "the bid may still land");
    world.blocks(30, BLOCK);
    assert_eq!((world.bid(&order), world.pending()), (None, vec![]));
    world.lost_txs = 0;
    world.wait(11 * MINUTE);
    let state = world.bid(&order).map(|b| b.state);
    assert_eq!(state, Some(BidState::Open), "the next scan tries again");
}

#[test]
fn w33_failed_close_is_retried() {
    let mut world = World::new();
    let order = world.order(1, &web());
    world.fail = Some(is_close);
    world.blocks(60, BLOCK);
    assert_eq!(world.bid(&order).unwrap().state, BidState::Open);
    assert_eq!(
        world.pending(),
        from_ref(&order),
        "an open bid retains its reservation"
    );
    world.fail = None;
    world.wait(2 * MINUTE);
    assert_eq!(world.bid(&order).unwrap().state, BidState::Closed);
    assert_eq!(world.pending(), []);
}

#[test]
fn w48_not_found_differs_from_failed_query() {
    let mut world = World::new();
    world.lost_txs = u32::MAX;
    world.fail = Some(|c| matches!(c, Call::FetchBid(_)));
    let order = world.order(1, &web());
    world.blocks(30, BLOCK);
    world.wait(HOUR);
    assert_eq!(world.pending(), [order], "a failed query proves nothing");
    world.fail = None;
    // The next query is another attempt.
    world.hold = Some(|c| matches!(c, Call::FetchOrder(_)));
    world.wait(2 * MINUTE);
    assert_eq!(
        world.pending(),
        [],
        "a successful response without the order ends it"
    );
}

#[test]
fn closed_group_ends_bid_without_order_event() {
    let mut world = World::new();
    let order = world.order(1, &web());
    let id = deployment_id(1);
    let events = world.market.tenant(TenantMsg::CloseDeployment { id }).unwrap();
    let group = |e: &ChainEvent| matches!(e, ChainEvent::GroupClosed { .. });
    world.tell(events.into_iter().filter(group).collect());
    world.blocks(1, BLOCK);
    assert_eq!((world.pending(), world.closes()), (vec![], vec![]));
    assert_eq!(world.bid(&order).unwrap().state, BidState::Closed);
}

#[test]
fn order_declined_by_chain_parameters_is_retried_after_they_change() {
    let mut world = World::new();
    let before = world.market.params().clone();
    let mut params = before.clone();
    params.bid_min_deposits = vec![uact(1 << 40)];
    world.market.set_params(params);
    world.resync();
    let order = world.order(1, &web());
    assert_eq!(world.status().declines[&DeclineCode::Deposit], 1);
    world.market.set_params(before);
    world.wait(11 * MINUTE);
    assert_eq!(world.pending(), [order]);
}
