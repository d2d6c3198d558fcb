//! Deposits of bids: paid with what the account has, and waited for where it has nothing.

use crate::engine::world::*;
use akash_provider_core::Config;
use akash_provider_core::engine::{Call, Completion, Input, OrderPhase};
use akash_provider_core::types::{Coin, DeclineCode, Event, Msg, OrderId, TxError, TxOutcome};
use std::time::Duration;

fn uakt(amount: u128) -> Coin {
    Coin {
        denom: "uakt".into(),
        amount,
    }
}

/// The daemon's deposits: ACT first, AKT where there is none.
fn both() -> Config {
    let mut config = settings();
    config.bid_deposit = uact(500_000);
    config.other_bid_deposits = vec![uakt(500_000)];
    // What is found here is not found by a scan.
    config.scan_interval = 100 * HOUR;
    config
}

/// A world whose account has just this; it is read before the first order.
fn with(coins: &[Coin]) -> World {
    let mut world = World::with(both());
    world.market.account_mut(&us()).coins.clear();
    for coin in coins {
        world.market.fund(&us(), coin);
    }
    world.resync();
    world
}

fn deposits(world: &World) -> Vec<Coin> {
    let deposits = world.calls.iter().filter_map(|call| match call {
        Call::Broadcast(Msg::CreateBid { deposit, .. }) => Some(deposit.clone()),
        _ => None,
    });
    deposits.collect()
}

fn is_look(call: &Call) -> bool {
    matches!(call, Call::FetchBalances(_))
}

fn unfunded(world: &World) -> Vec<(OrderId, String)> {
    let told = world.facts.iter().filter_map(|fact| match fact {
        Event::BidUnfunded { order, message } => Some((order.clone(), message.clone())),
        _ => None,
    });
    told.collect()
}

fn phase(world: &World, order: &OrderId) -> OrderPhase {
    let orders = world.status().orders;
    let found = orders.into_iter().find(|o| o.order == *order);
    found.unwrap().phase
}

fn poor() -> Completion {
    Completion::Tx(Ok(TxOutcome::Rejected {
        error: TxError::InsufficientFunds,
        code: "sdk/5".to_owned(),
        log: "spendable balance is smaller".to_owned(),
    }))
}

#[test]
fn a_bid_is_paid_with_what_the_account_has() {
    for (has, paid) in [
        (vec![uakt(900_000)], uakt(500_000)),
        (vec![uact(900_000)], uact(500_000)),
        (vec![uact(900_000), uakt(900_000)], uact(500_000)),
        (vec![uact(499_999), uakt(500_000)], uakt(500_000)),
    ] {
        let mut world = with(&has);
        let order = world.order(1, &web());
        assert_eq!(
            (phase(&world, &order), deposits(&world)),
            (OrderPhase::Open, vec![paid]),
            "{has:?}"
        );
    }
}

#[test]
fn an_order_waits_for_money_and_is_bid_on_when_it_comes() {
    let mut world = with(&[uact(400_000), uakt(3)]);
    let order = world.order(1, &web());
    assert_eq!(
        (phase(&world, &order), world.count(is_bid)),
        (OrderPhase::Unfunded, 0)
    );
    let (_, message) = unfunded(&world).pop().unwrap();
    assert_eq!(
        message,
        "a bid takes 500000uact or 500000uakt, the account has 400000uact and 3uakt"
    );
    let before = world.count(is_look);
    world.wait(10 * MINUTE);
    let looks = world.count(is_look) - before;
    assert!((30..=61).contains(&looks), "looked {looks} times in ten minutes");
    assert_eq!(unfunded(&world).len(), 1, "it is told once");
    assert!(
        world.status().declines.is_empty(),
        "{:?}",
        world.status().declines
    );
    let priced = world.count(|c| matches!(c, Call::CalculatePrice(_)));
    world.market.fund(&us(), &uakt(1_000_000));
    world.wait(Duration::from_secs(11));
    assert_eq!(
        (phase(&world, &order), deposits(&world)),
        (OrderPhase::Open, vec![uakt(500_000)])
    );
    let again = world.count(|c| matches!(c, Call::CalculatePrice(_))) - priced;
    assert_eq!(again, 1, "the old price is not bid");
    let looks = world.count(is_look);
    world.wait(10 * MINUTE);
    assert!(world.count(is_look) <= looks + 1, "nobody waits any more");
}

#[test]
fn as_many_orders_are_bid_on_as_the_account_can_pay_for() {
    let mut world = with(&[uact(1_100_000), uakt(600_000)]);
    let orders: Vec<OrderId> = (1..=5).map(|dseq| world.order(dseq, &web())).collect();
    let paid = [uact(500_000), uact(500_000), uakt(500_000)];
    assert_eq!(deposits(&world), paid);
    world.wait(MINUTE);
    assert_eq!(deposits(&world), paid, "no refusal is paid for");
    world.market.fund(&us(), &uact(400_000));
    world.wait(Duration::from_secs(11));
    let phases: Vec<OrderPhase> = orders.iter().map(|order| phase(&world, order)).collect();
    assert_eq!(
        phases,
        [[OrderPhase::Open; 4].as_slice(), &[OrderPhase::Unfunded]].concat()
    );
}

#[test]
fn an_order_that_waits_for_money_hears_that_the_chain_takes_no_deposit_of_ours() {
    let mut world = with(&[]);
    let order = world.order(1, &web());
    assert_eq!(phase(&world, &order), OrderPhase::Unfunded);
    let mut params = world.market.params().clone();
    params.bid_min_deposits = vec![uakt(1 << 40)];
    world.market.set_params(params);
    world.resync();
    world.wait(Duration::from_secs(11));
    assert_eq!(world.status().declines[&DeclineCode::Deposit], 1);
    assert_eq!((world.pending(), world.count(is_bid)), (vec![], 0));
}

#[test]
fn bids_under_way_are_no_money_for_others() {
    let mut world = with(&[uact(600_000)]);
    world.hold = Some(is_bid);
    world.order(1, &web());
    let second = world.order(2, &web());
    world.wait(MINUTE);
    assert_eq!(
        (world.count(is_bid), phase(&world, &second)),
        (1, OrderPhase::Unfunded)
    );
}

#[test]
fn a_deposit_that_the_chain_cannot_take_from_the_account_is_tried_in_another_denomination() {
    let mut world = with(&[uact(900_000), uakt(900_000)]);
    world.hold = Some(is_bid);
    let order = world.order(1, &web());
    let (id, _) = world.in_flight.pop_front().unwrap();
    world.feed(Input::Completed(id, poor()));
    world.hold = None;
    world.settle();
    assert_eq!(deposits(&world), [uact(500_000), uakt(500_000)]);
    assert_eq!(phase(&world, &order), OrderPhase::Open);
}

#[test]
fn an_account_without_the_fee_is_not_asked_for_it_all_the_time() {
    let mut world = with(&[uact(900_000)]);
    world.hold = Some(is_bid);
    let order = world.order(1, &web());
    let (id, _) = world.in_flight.pop_front().unwrap();
    world.feed(Input::Completed(id, poor()));
    world.settle();
    let (_, message) = unfunded(&world).pop().unwrap();
    assert!(
        message.contains("cannot pay 500000uact and the fee") && message.contains("sdk/5"),
        "{message}"
    );
    world.wait(4 * MINUTE);
    assert_eq!(world.count(is_bid), 1);
    // More of another denomination may be what the fee lacked.
    world.hold = None;
    world.market.fund(&us(), &uakt(5_000));
    world.wait(Duration::from_secs(11));
    assert_eq!(
        (world.count(is_bid), phase(&world, &order)),
        (2, OrderPhase::Open)
    );
}

#[test]
fn an_account_that_cannot_be_read_keeps_nobody_from_bidding() {
    let mut world = World::with(both());
    world.fail = Some(is_look);
    world.restart();
    let order = world.order(1, &web());
    assert_eq!(phase(&world, &order), OrderPhase::Open);
    // Found poor by the chain, it tries the other deposit, and later both again.
    world.hold = Some(is_bid);
    let order = world.order(2, &web());
    for _ in 0..2 {
        let at = world.in_flight.iter().position(|(_, c)| is_bid(c)).unwrap();
        let (id, _) = world.in_flight.remove(at).unwrap();
        world.feed(Input::Completed(id, poor()));
        world.settle();
        world.wait(Duration::from_secs(11));
    }
    assert_eq!(phase(&world, &order), OrderPhase::Unfunded);
    assert_eq!(world.count(is_bid), 3);
    world.wait(5 * MINUTE);
    assert_eq!(world.count(is_bid), 4);
}
