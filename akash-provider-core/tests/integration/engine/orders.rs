//! Orders and bids.
//!
//! Length: the ways of one order, each a story of its own on the same few lines of setting up.

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
fn an_order_is_reserved_once_and_bid_for_and_the_end_leaves_the_bid() {
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
fn a_bid_that_nobody_takes_is_closed_after_its_timeout() {
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
fn a_price_above_the_orders_is_no_bid() {
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
fn an_order_that_closes_releases_once_whatever_is_under_way() {
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
fn our_lease_keeps_the_reservation() {
    let mut world = World::new();
    let lease = world.lease(1, &web());
    assert_eq!((world.pending(), world.active()), (vec![], vec![lease.order]));
    assert_eq!(world.closes(), []);
}

#[test]
fn a_bid_from_before_is_taken_over_and_ends_with_its_order() {
    let mut world = World::new();
    let order = world.order(1, &web());
    world.restart();
    assert_eq!((world.count(is_bid), world.pending()), (0, vec![order]));
    world.tenant(close_deployment(1));
    // The chain has closed the bid with the order: there is nothing to send.
    assert_eq!((world.count(is_write), world.pending()), (0, vec![]));
}

#[test]
fn a_bid_that_is_over_is_never_repeated() {
    let mut world = World::new();
    let order = world.order(1, &web());
    world.blocks(60, BLOCK);
    assert_eq!(world.bid(&order).unwrap().state, BidState::Closed);
    world.restart();
    world.wait(HOUR);
    assert_eq!((world.count(is_write), world.pending()), (0, vec![]));
}

#[test]
fn a_bid_from_before_that_wins_keeps_its_reservation_and_sends_nothing() {
    let mut world = World::new();
    world.order(1, &web());
    world.restart();
    world.take_bids(1, &web());
    assert_eq!((world.count(is_write), world.active()), (0, vec![order_id(1)]));
}

#[test]
fn a_price_that_cannot_be_had_is_no_bid() {
    let mut world = World::new();
    world.price = Err(failure(false));
    world.order(1, &web());
    assert_eq!((world.count(is_write), world.pending()), (0, vec![]));
    assert_eq!(world.status().declines.get(&DeclineCode::Price), Some(&1));
}

#[test]
fn w9_our_record_counts_as_soon_as_it_changes() {
    let mut world = World::new();
    let region = Attribute {
        key: "region".into(),
        value: "west".into(),
    };
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

/// Node and engine are not of one mind about when a question was asked.
#[test]
fn our_record_is_asked_for_again_when_it_changes_while_it_is_read() {
    let mut world = World::new();
    let region = Attribute {
        key: "region".into(),
        value: "west".into(),
    };
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
    let asked = world.in_flight.iter().position(|(_, call)| is_asked(call));
    let (id, _) = world.in_flight.remove(asked.unwrap()).unwrap();
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
fn w9_an_auditor_is_asked_once_for_many_orders_and_again_when_it_signs() {
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
fn w12_what_we_cannot_meet_is_neither_reserved_nor_priced() {
    let mut world = World::new();
    world.order_as(deployment_id(1), &web(), Some(HOUR));
    assert_eq!((world.count(is_price), world.count(is_write)), (0, 0));
    assert_eq!(world.status().declines.values().sum::<u64>(), 1);
}

/// Somebody else's bid.
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
fn w12_an_order_with_too_many_bids_is_neither_kept_reserved_nor_priced() {
    let mut world = World::new();
    let mut params = world.market.params().clone();
    params.order_max_bids = 0;
    world.market.set_params(params);
    world.resync();
    // From before a start, so that the node is asked.
    world.deaf = true;
    let order = world.order(1, &web());
    rival_bids(&mut world, &order);
    world.restart();
    assert_eq!(world.count(is_count), 1);
    assert_eq!((world.count(is_price), world.count(is_write)), (0, 0));
    assert_eq!(world.status().declines[&DeclineCode::OrderFull], 1);
    assert_eq!(world.pending(), []);
    let free = world.order(2, &web());
    assert_eq!(world.pending(), [free], "the first bid still gets in");
}

#[test]
fn w12_bids_that_cannot_be_counted_keep_nobody_from_bidding() {
    let mut world = World::new();
    world.deaf = true;
    let order = world.order(1, &web());
    world.crash();
    world.fail = Some(is_count);
    world.start();
    assert_eq!(
        world.pending(),
        from_ref(&order),
        "it is reserved before it is counted"
    );
    world.wait(Duration::from_secs(3));
    assert_eq!(world.bid(&order).map(|b| b.state), Some(BidState::Open));
    assert_eq!(world.count(is_count), 2, "once more, and no more");
    assert_eq!(
        world.told(|e| matches!(e, Event::BidsNotCounted { message, .. } if message == "away")),
        1
    );
}

#[test]
fn bids_that_were_told_are_counted_without_a_question() {
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
    assert_eq!(world.pending(), [other], "it was full before the price was there");
    assert_eq!((world.count(is_count), world.count(is_bid)), (0, 1));
    // A gap: who bid in it was not told.
    world.hold = Some(|c| matches!(c, Call::FetchOrder(_)));
    let third = world.order(3, &web());
    world.resync();
    world.hold = None;
    world.settle();
    let asked = |call: &Call| *call == Call::CountBids(third.clone());
    assert_eq!(world.calls.iter().filter(|c| asked(c)).count(), 1);
    assert!(world.pending().contains(&third));
}

#[test]
fn a_bid_whose_refusal_costs_nothing_is_tried_without_a_question() {
    let mut config = settings();
    config.refused_bids_are_free = true;
    let mut world = World::with(config);
    world.deaf = true;
    let order = world.order(1, &web());
    world.restart();
    assert_eq!((world.pending(), world.count(is_count)), (vec![order], 0));
}

#[test]
fn w12_a_deposit_is_paid_in_a_denomination_that_the_chain_takes() {
    let mut config = settings();
    let uakt = |amount| akash_provider_core::types::Coin {
        denom: "uakt".into(),
        amount,
    };
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
fn an_order_whose_auditor_cannot_be_asked_is_looked_at_again_by_itself() {
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
        "the same is told once"
    );
    let asked = world.count(|c| matches!(c, Call::FetchAudit(_)));
    assert!((10..200).contains(&asked), "asked {asked} times in half an hour");
    world.fail = None;
    world.wait(2 * MINUTE);
    assert_eq!(world.pending(), [order]);
}

#[test]
fn a_refusal_does_not_stand_when_what_it_was_about_has_changed() {
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
    // The signature comes back in the same moment as the chain's refusal of the bid.
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
fn w20_one_order_is_in_hand_once_however_often_it_is_heard_of() {
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
fn w21_the_close_of_our_own_bid_is_noticed_and_no_others() {
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
        world.told(|e| matches!(e, Event::BidEnded { outcome, .. } if *outcome == BidOutcome::Closed)),
        1
    );
}

#[test]
fn w21_a_lease_of_a_later_order_of_the_group_does_not_touch_an_older_one() {
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
fn w22_the_age_of_a_bid_comes_from_its_record() {
    let mut world = World::new();
    let old = world.order(1, &web());
    world.deaf = true;
    world.blocks(40, BLOCK);
    world.crash();
    world.start();
    assert_eq!(world.closes(), [], "four minutes are not too old");
    world.deaf = true;
    world.blocks(15, BLOCK);
    world.restart();
    assert_eq!(
        world.closes(),
        [(bid_of(&old, us()), CloseReason::Unspecified)],
        "more than five minutes are"
    );
}

#[test]
fn w29_an_order_that_comes_before_capacity_is_known_waits_for_it() {
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
fn w31_a_lost_bid_is_released_without_a_transaction() {
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
        world.told(|e| matches!(e, Event::BidEnded { outcome, .. } if *outcome == BidOutcome::Lost)),
        1
    );
}

#[test]
fn w32_an_event_reaches_its_own_order_alone() {
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
fn w32_a_question_that_fails_for_a_moment_does_not_lose_the_order() {
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
fn w33_a_bid_whose_transaction_never_landed_is_not_taken_for_placed() {
    let mut world = World::new();
    world.lost_txs = u32::MAX;
    let order = world.order(1, &web());
    assert_eq!(world.told(|e| matches!(e, Event::BidPlaced { .. })), 0);
    assert_eq!(world.pending(), from_ref(&order), "it may still land");
    world.blocks(30, BLOCK);
    assert_eq!((world.bid(&order), world.pending()), (None, vec![]));
    world.lost_txs = 0;
    world.wait(11 * MINUTE);
    let state = world.bid(&order).map(|b| b.state);
    assert_eq!(state, Some(BidState::Open), "the next scan tries again");
}

#[test]
fn w33_a_close_that_failed_is_sent_again() {
    let mut world = World::new();
    let order = world.order(1, &web());
    world.fail = Some(is_close);
    world.blocks(60, BLOCK);
    assert_eq!(world.bid(&order).unwrap().state, BidState::Open);
    assert_eq!(
        world.pending(),
        from_ref(&order),
        "an open bid keeps what it promised"
    );
    world.fail = None;
    world.wait(2 * MINUTE);
    assert_eq!(world.bid(&order).unwrap().state, BidState::Closed);
    assert_eq!(world.pending(), []);
}

#[test]
fn w48_not_found_and_not_answered_are_told_apart_by_kind() {
    let mut world = World::new();
    world.lost_txs = u32::MAX;
    world.fail = Some(|c| matches!(c, Call::FetchBid(_)));
    let order = world.order(1, &web());
    world.blocks(30, BLOCK);
    world.wait(HOUR);
    assert_eq!(world.pending(), [order], "a node that is away says nothing");
    world.fail = None;
    // What comes after it is another attempt.
    world.hold = Some(|c| matches!(c, Call::FetchOrder(_)));
    world.wait(2 * MINUTE);
    assert_eq!(world.pending(), [], "a node that does not know it says a lot");
}

#[test]
fn a_group_that_closes_without_word_of_its_order_ends_the_bid() {
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
fn what_was_declined_by_the_chains_parameters_is_looked_at_again_when_a_scan_brings_others() {
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
