//! Deposits of bids: paid from the account of the provider, and postponed while the balance is too low.

use crate::engine::world::*;
use akash_provider_core::Config;
use akash_provider_core::engine::{Call, Input, OrderPhase};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{Coin, DeclineCode, Event, Msg, OrderId, TxError};
use std::time::Duration;

pub(super) fn uakt(amount: u128) -> Coin {
    Coin::new("uakt", amount)
}

/// Returns settings with a bid deposit in ACT. If the ACT balance is too low, the deposit is paid in AKT.
fn both() -> Config {
    let mut config = settings();
    config.bid_deposit = uact(500_000);
    config.other_bid_deposits = vec![uakt(500_000)];
    // Scans must not wake the orders of these tests.
    config.scan_interval = 100 * HOUR;
    config
}

/// Creates a world in which the provider account has exactly `coins`.
pub(super) fn with(coins: &[Coin]) -> World {
    with_config(both(), coins)
}

pub(super) fn with_config(config: Config, coins: &[Coin]) -> World {
    let mut world = World::with(config);
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

pub(super) fn unfunded(world: &World) -> Vec<(OrderId, String)> {
    let reports = world.facts.iter().filter_map(|fact| match fact {
        Event::BidUnfunded { order, message } => Some((order.clone(), message.clone())),
        _ => None,
    });
    reports.collect()
}

pub(super) fn phase(world: &World, order: &OrderId) -> OrderPhase {
    let orders = world.status().orders;
    let found = orders.into_iter().find(|o| o.order == *order);
    found.unwrap().phase
}

#[test]
fn bid_uses_available_deposit_coin() {
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
fn order_waits_for_money_and_gets_bid_after_refill() {
    let mut world = with(&[uact(400_000), uakt(3)]);
    let order = world.order(1, &web());
    assert_eq!(
        (phase(&world, &order), world.count(is_bid)),
        (OrderPhase::Unfunded, 0)
    );
    let (_, message) = unfunded(&world).pop().unwrap();
    assert_eq!(
        message,
        "a bid requires 500000uact or 500000uakt, the account has 400000uact and 3uakt"
    );
    let before = world.count(is_look);
    world.wait(10 * MINUTE);
    let looks = world.count(is_look) - before;
    assert!((30..=61).contains(&looks), "{looks} queries in ten minutes");
    assert_eq!(unfunded(&world).len(), 1, "reported once");
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
    assert_eq!(again, 1, "the old price is not used");
    let looks = world.count(is_look);
    world.wait(10 * MINUTE);
    let looks = world.count(is_look) - looks;
    assert!(
        (9..=12).contains(&looks),
        "no order waits: {looks} readings in ten minutes"
    );
}

#[test]
fn number_of_bids_is_limited_by_the_account() {
    let mut world = with(&[uact(1_100_000), uakt(600_000)]);
    let orders: Vec<OrderId> = (1..=5).map(|dseq| world.order(dseq, &web())).collect();
    let paid = [uact(500_000), uact(500_000), uakt(500_000)];
    assert_eq!(deposits(&world), paid);
    world.wait(MINUTE);
    assert_eq!(deposits(&world), paid, "no rejected transaction");
    world.market.fund(&us(), &uact(400_000));
    world.wait(Duration::from_secs(11));
    let phases: Vec<OrderPhase> = orders.iter().map(|order| phase(&world, order)).collect();
    assert_eq!(
        phases,
        [[OrderPhase::Open; 4].as_slice(), &[OrderPhase::Unfunded]].concat()
    );
}

#[test]
fn order_waiting_for_money_is_declined_if_chain_accepts_no_deposit_coin() {
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
fn deposits_in_flight_are_not_available_for_other_bids() {
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
fn balance_read_before_a_bid_landed_is_reduced_by_its_deposit() {
    // The account is read while a bid is in flight, or before the bid is sent.
    let cases: [Which; 2] = [is_bid, is_price];
    for is_pending in cases {
        let mut world = with(&[uact(600_000)]);
        world.hold = Some(is_pending);
        world.order(1, &web());
        world.hold = Some(|call| is_bid(call) || is_price(call) || is_look(call));
        world.wait(MINUTE + Duration::from_secs(1));
        let (look, call) = world.take_pending(is_look);
        let outdated = world.answer(&call);
        world.hold = None;
        world.settle();
        assert!(world.bid(&order_id(1)).is_some());
        let second = world.order(2, &web());
        world.feed(Input::Completed(look, outdated));
        world.settle();
        assert_eq!(
            (world.count(is_bid), phase(&world, &second)),
            (1, OrderPhase::Unfunded)
        );
    }
}

pub(super) fn empty(world: &mut World, denom: &str) {
    world.market.account_mut(&us()).coins.insert(denom.into(), 0);
}

#[test]
fn rejected_deposit_is_retried_in_another_denomination() {
    let mut world = with(&[uact(900_000), uakt(900_000)]);
    world.hold = Some(is_bid);
    let order = world.order(1, &web());
    world.refuse(is_bid, TxError::InsufficientFunds, "undefined/1");
    world.hold = None;
    world.settle();
    assert_eq!(deposits(&world), [uact(500_000), uakt(500_000)]);
    assert_eq!(phase(&world, &order), OrderPhase::Open);
}

#[test]
fn emptied_account_fails_at_most_one_bid_per_coin() {
    // The account is emptied before the balance query of a block of orders, or after it.
    for is_seen in [true, false] {
        let mut config = both();
        // No deposit returns.
        config.bid_timeout = None;
        let mut world = with_config(config, &[uact(100_000_000), uakt(100_000_000)]);
        let mut failed = 0;
        for dseq in 1..=20 {
            let emptied = [(6, "uact"), (13, "uakt")]
                .into_iter()
                .find(|(at, _)| *at == dseq);
            if !is_seen && emptied.is_some() {
                world.hold = Some(is_bid);
            }
            if let Some((_, denom)) = emptied.filter(|_| is_seen) {
                empty(&mut world, denom);
            }
            let order = world.order(dseq, &web());
            if let Some((_, denom)) = emptied.filter(|_| !is_seen) {
                empty(&mut world, denom);
                world.hold = None;
                world.settle();
                failed += 1;
            }
            let expected = if dseq < 13 {
                OrderPhase::Open
            } else {
                OrderPhase::Unfunded
            };
            assert_eq!(phase(&world, &order), expected, "{dseq} {is_seen}");
        }
        world.blocks(20, BLOCK);
        assert_eq!(world.count(is_bid), 12 + failed, "{is_seen}");
        let missing = world.status().deposit_missing.unwrap();
        assert!(missing.contains("the account has 0uact and 0uakt"), "{missing}");
        world.market.fund(&us(), &uakt(100_000_000));
        // The refill is visible in the next block, and the bids follow one block later.
        world.blocks(1, BLOCK);
        world.wait(Duration::from_secs(2));
        let phases = (1..=20).map(|dseq| phase(&world, &order_id(dseq)));
        assert!(phases.eq([OrderPhase::Open; 20]), "{is_seen}");
        assert_eq!(
            (world.count(is_bid), world.status().deposit_missing),
            (20 + failed, None)
        );
    }
}

#[test]
fn unexplained_rejection_is_retried_after_parameters_are_read() {
    let mut world = with(&[uact(900_000)]);
    world.hold = Some(is_bid);
    let order = world.order(1, &web());
    world.refuse(is_bid, TxError::InsufficientFunds, "undefined/1");
    world.settle();
    world.wait(HOUR);
    assert_eq!(
        (world.count(is_bid), phase(&world, &order)),
        (1, OrderPhase::Unfunded)
    );
    assert!(world.status().deposit_missing.unwrap().contains("undefined/1"));
    world.resync();
    assert_eq!(world.count(is_bid), 2);
}

#[test]
fn balance_older_than_rejection_causes_no_second_bid() {
    let mut world = with(&[uact(400_000)]);
    let order = world.order(1, &web());
    assert_eq!(phase(&world, &order), OrderPhase::Unfunded);
    world.market.fund(&us(), &uact(500_000));
    world.hold = Some(is_bid);
    world.wait(Duration::from_secs(11));
    // A query result with more money is in flight while the chain refuses the bid.
    world.blocks(1, BLOCK);
    world.hold = Some(|call| is_bid(call) || is_look(call));
    world.market.fund(&us(), &uact(1));
    world.order(2, &web());
    world.refuse(is_bid, TxError::InsufficientFunds, "undefined/1");
    world.hold = Some(is_bid);
    world.settle();
    world.wait(MINUTE);
    assert_eq!(world.count(is_bid), 1);
}

#[test]
fn money_in_outdated_balance_is_used_after_next_query() {
    let mut world = with(&[uact(900_000), uakt(900_000)]);
    world.hold = Some(is_bid);
    let order = world.order(1, &web());
    empty(&mut world, "uact");
    world.refuse(is_bid, TxError::InsufficientFunds, "undefined/1");
    // The next query explains the rejection, and the second bid uses the other coin.
    world.settle();
    assert_eq!(world.count(is_bid), 2);
    // Money arrives while the second bid is in flight. A query result that includes it is in flight while the
    // chain refuses the bid.
    world.market.fund(&us(), &uact(900_000));
    world.hold = Some(|call| is_bid(call) || is_look(call));
    world.wait(MINUTE + Duration::from_secs(1));
    world.refuse(is_bid, TxError::InsufficientFunds, "undefined/1");
    world.hold = None;
    world.settle();
    world.wait(MINUTE);
    assert_eq!(phase(&world, &order), OrderPhase::Open);
}

#[test]
fn bid_rejected_by_parameters_waits_for_their_query() {
    for (error, code) in [
        (TxError::Deposit, "market/28"),
        (TxError::InvalidBid, "market/31"),
        (TxError::Reclamation, "market/39"),
    ] {
        let mut world = with(&[uact(5_000_000)]);
        world.hold = Some(is_bid);
        world.order(1, &web());
        world.refuse(is_bid, error, code);
        world.settle();
        world.wait(HOUR);
        assert_eq!(world.count(is_bid), 1, "{code}");
        world.resync();
        assert_eq!(world.count(is_bid), 2, "{code}");
    }
}

#[test]
fn rejected_close_is_retried_with_growing_back_off() {
    for (error, code) in [
        (TxError::FeeUnpaid, "sdk/5"),
        (TxError::Other, "market/33"),
        // Returned by a node that is ahead of the node that reports the bid as open.
        (TxError::UnknownBid, "market/10"),
    ] {
        let mut world = with(&[uact(5_000_000)]);
        let order = world.order(1, &web());
        world.hold = Some(is_close);
        world.blocks(1, 6 * MINUTE);
        for _ in 0..600 {
            if world.in_flight.iter().any(|(_, call)| is_close(call)) {
                world.refuse(is_close, error, code);
                world.settle();
            }
            world.wait(Duration::from_secs(1));
        }
        let closes = world.count(is_close);
        assert!(
            (5..=20).contains(&closes),
            "{code}: {closes} closes in ten minutes"
        );
        world.hold = None;
        world.settle();
        world.wait(2 * MINUTE);
        assert!(world.status().orders.iter().all(|o| o.order != order), "{code}");
    }
}

#[test]
fn unreadable_account_does_not_prevent_bids() {
    let mut world = World::with(both());
    world.fail = Some(is_look);
    world.restart();
    let order = world.order(1, &web());
    assert_eq!(phase(&world, &order), OrderPhase::Open);
    // The chain refuses the bid for lack of money, and the second bid uses the other deposit.
    world.hold = Some(is_bid);
    let order = world.order(2, &web());
    for _ in 0..2 {
        world.refuse(is_bid, TxError::InsufficientFunds, "undefined/1");
        world.settle();
        world.wait(Duration::from_secs(11));
    }
    assert_eq!(phase(&world, &order), OrderPhase::Unfunded);
    assert_eq!(world.count(is_bid), 3);
    world.wait(HOUR);
    assert_eq!(world.count(is_bid), 3, "no reason to retry");
    world.fail = None;
    world.wait(Duration::from_secs(11));
    assert_eq!(world.count(is_bid), 4);
}

/// Returns settings with a bid fee of `amount` uakt and without a bid timeout.
pub(super) fn with_fee(amount: u128) -> Config {
    let mut config = both();
    config.bid_fee = uakt(amount);
    config.bid_timeout = None;
    config
}

/// Creates twenty orders in one block.
fn twenty(world: &mut World) -> Vec<OrderId> {
    let sdl = web();
    for dseq in 1..=20 {
        let events = world.market.tenant(TenantMsg::create_deployment(
            deployment_id(dseq),
            &sdl,
            uact(50_000_000),
        ));
        world.tell(events.unwrap());
    }
    world.blocks(1, BLOCK);
    (1..=20).map(order_id).collect()
}

fn count_in(world: &World, phase: OrderPhase) -> usize {
    let orders = world.status().orders;
    orders.iter().filter(|order| order.phase == phase).count()
}

#[test]
fn orders_of_a_block_get_affordable_bids_and_the_rest_after_refill() {
    // Three deposits of each coin, in AKT with and without the fees of all six bids.
    for (balance, sent) in [(1_529_999, 5), (1_530_000, 6), (1_500_000, 5)] {
        let mut world = with_config(with_fee(5_000), &[uact(1_500_000), uakt(balance)]);
        world.hold = Some(is_bid);
        let orders = twenty(&mut world);
        assert_eq!(world.count(is_bid), sent, "{balance}");
        let (_, why) = unfunded(&world).pop().unwrap();
        assert!(why.contains("and about 5000uakt for its fee"), "{why}");
        // The simulated market charges no fees.
        let fees = 5_000 * u128::try_from(sent).unwrap();
        let coins = &mut world.market.account_mut(&us()).coins;
        coins.insert("uakt".into(), balance - fees);
        world.hold = None;
        world.settle();
        world.wait(MINUTE);
        assert_eq!(
            (world.count(is_bid), count_in(&world, OrderPhase::Open)),
            (sent, sent)
        );
        world.market.fund(&us(), &uakt(100_000_000));
        world.blocks(1, BLOCK);
        world.wait(Duration::from_secs(2));
        assert_eq!(count_in(&world, OrderPhase::Open), orders.len());
        assert_eq!(world.count(is_bid), orders.len(), "no bid failed");
    }
}

#[test]
fn no_bid_fails_if_account_was_emptied_before_the_block() {
    let mut world = with_config(with_fee(5_000), &[uact(100_000_000), uakt(100_000_000)]);
    empty(&mut world, "uact");
    world
        .market
        .account_mut(&us())
        .coins
        .insert("uakt".into(), 1_014_999);
    twenty(&mut world);
    assert_eq!(deposits(&world), [uakt(500_000), uakt(500_000)]);
    assert_eq!(count_in(&world, OrderPhase::Unfunded), 18);
}

#[test]
fn one_probe_bid_follows_unexplained_rejection() {
    let mut world = with_config(with_fee(0), &[uact(100_000_000)]);
    world.hold = Some(is_bid);
    world.order(1, &web());
    world.refuse(is_bid, TxError::InsufficientFunds, "undefined/1");
    world.settle();
    five_more(&mut world);
    assert_eq!(
        (world.count(is_bid), count_in(&world, OrderPhase::Unfunded)),
        (1, 6)
    );
    for refused in 2..=4 {
        world.resync();
        world.wait(MINUTE);
        assert_eq!(
            world.count(is_bid),
            refused,
            "one attempt after each read of the parameters"
        );
        world.refuse(is_bid, TxError::InsufficientFunds, "undefined/1");
        world.settle();
        world.wait(MINUTE);
    }
    world.resync();
    world.wait(MINUTE);
    let missing = world.status().deposit_missing;
    assert_eq!((world.count(is_bid), missing), (5, None));
    world.hold = None;
    world.settle();
    assert_eq!((count_in(&world, OrderPhase::Open), world.count(is_bid)), (6, 10));
}

/// Creates five orders, each in its own block.
fn five_more(world: &mut World) {
    for dseq in 2..=6 {
        world.order(dseq, &web());
    }
}

#[test]
fn one_probe_bid_is_sent_while_account_is_unreadable() {
    let mut world = World::with(both());
    world.hold = Some(is_bid);
    world.fail = Some(is_look);
    twenty(&mut world);
    assert_eq!(
        (world.count(is_bid), count_in(&world, OrderPhase::Unfunded)),
        (1, 19)
    );
    let waits = unfunded(&world);
    assert!(
        waits
            .iter()
            .all(|(_, why)| why.contains("one bid is tried before the others"))
    );
    world.hold = None;
    world.settle();
    assert_eq!(count_in(&world, OrderPhase::Open), 20);
}

#[test]
fn account_is_read_after_each_transaction_and_every_minute() {
    let mut world = with_config(with_fee(0), &[uact(100_000_000)]);
    world.order(1, &web());
    let read = world.count(is_look);
    world.wait(Duration::from_secs(2));
    assert_eq!(world.count(is_look), read + 1, "after the bid");
    world.wait(5 * MINUTE);
    let looks = world.count(is_look) - read - 1;
    assert!((4..=5).contains(&looks), "{looks} queries in five minutes");
    // A transfer by the operator is noticed without an order.
    world.market.account_mut(&us()).coins.clear();
    world.wait(MINUTE + Duration::from_secs(1));
    assert!(world.status().deposit_missing.is_some());
}
