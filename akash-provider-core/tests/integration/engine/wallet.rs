//! Deposits of bids: paid with what the account has, and waited for where it has nothing.

use crate::engine::world::*;
use akash_provider_core::Config;
use akash_provider_core::engine::{Call, Input, OrderPhase};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{Coin, DeclineCode, Event, Msg, OrderId, TxError};
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
    with_config(both(), coins)
}

fn with_config(config: Config, coins: &[Coin]) -> World {
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
        "a bid requires 500000uact or 500000uakt, the account has 400000uact and 3uakt"
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
    let looks = world.count(is_look) - looks;
    assert!(
        (9..=12).contains(&looks),
        "no order waits: {looks} readings in ten minutes"
    );
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
fn a_reading_from_before_a_bid_landed_is_no_money_for_others() {
    // The reading starts while the bid is under way, and before the bid is sent.
    let cases: [Which; 2] = [is_bid, is_price];
    for held in cases {
        let mut world = with(&[uact(600_000)]);
        world.hold = Some(held);
        world.order(1, &web());
        world.hold = Some(|call| is_bid(call) || is_price(call) || is_look(call));
        world.wait(MINUTE + Duration::from_secs(1));
        let (look, call) = world.take_held(is_look);
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

/// Money leaves the account without a message of the engine.
fn empty(world: &mut World, denom: &str) {
    world.market.account_mut(&us()).coins.insert(denom.into(), 0);
}

#[test]
fn a_deposit_that_the_chain_cannot_take_from_the_account_is_tried_in_another_denomination() {
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
fn of_twenty_orders_one_bid_for_each_coin_fails_when_the_account_is_emptied() {
    // Emptied before the reading for a block of orders, and after it.
    for is_seen in [true, false] {
        let mut config = both();
        // No deposit comes back.
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
        // The refill is seen with the next block, and the bids are in the one after it.
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
fn a_refusal_that_the_balance_does_not_explain_is_tried_again_once_the_parameters_were_read() {
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
fn a_reading_that_is_older_than_the_refusal_brings_no_second_bid() {
    let mut world = with(&[uact(400_000)]);
    let order = world.order(1, &web());
    assert_eq!(phase(&world, &order), OrderPhase::Unfunded);
    world.market.fund(&us(), &uact(500_000));
    world.hold = Some(is_bid);
    world.wait(Duration::from_secs(11));
    // A reading with more money is on its way while the chain refuses the bid.
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
fn money_that_an_outdated_reading_shows_first_is_bid_with_after_the_next_one() {
    let mut world = with(&[uact(900_000), uakt(900_000)]);
    world.hold = Some(is_bid);
    let order = world.order(1, &web());
    empty(&mut world, "uact");
    world.refuse(is_bid, TxError::InsufficientFunds, "undefined/1");
    // The next reading explains the refusal, and the second bid uses the other coin.
    world.settle();
    assert_eq!(world.count(is_bid), 2);
    // Money comes while the second bid is under way, and a reading that shows it while the bid is refused.
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
fn a_bid_that_parameters_refuse_waits_until_they_were_read() {
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
fn a_close_that_the_chain_refuses_is_repeated_ever_more_rarely() {
    for (error, code) in [
        (TxError::FeeUnpaid, "sdk/5"),
        (TxError::Other, "market/33"),
        // By a node ahead of the one that reports the bid as open.
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
fn an_account_without_the_fee_is_not_asked_for_it_all_the_time() {
    let mut world = with(&[uact(900_000)]);
    world.hold = Some(is_bid);
    let order = world.order(1, &web());
    world.refuse(is_bid, TxError::FeeUnpaid, "sdk/5");
    world.settle();
    let (_, message) = unfunded(&world).pop().unwrap();
    assert!(
        message.contains("cannot pay the fee of a transaction in uakt") && message.contains("sdk/5"),
        "{message}"
    );
    world.market.fund(&us(), &uact(5_000));
    world.wait(4 * MINUTE);
    assert_eq!(world.count(is_bid), 1, "more of another denomination pays no fee");
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
    // Refused by the chain for lack of money, the order is bid on with the other deposit.
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
    assert_eq!(world.count(is_bid), 3, "nothing is known to have changed");
    world.fail = None;
    world.wait(Duration::from_secs(11));
    assert_eq!(world.count(is_bid), 4);
}

/// Settings with a known fee for each bid, and no bid that is taken back.
fn with_fee(amount: u128) -> Config {
    let mut config = both();
    config.bid_fee = uakt(amount);
    config.bid_timeout = None;
    config
}

/// Twenty orders in one block.
fn twenty(world: &mut World) -> Vec<OrderId> {
    let sdl = web();
    for dseq in 1..=20 {
        let events = world.market.tenant(TenantMsg::CreateDeployment {
            id: deployment_id(dseq),
            groups: sdl.groups.clone(),
            hash: sdl.hash,
            deposit: uact(50_000_000),
            reclamation_min_window: None,
        });
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
fn twenty_orders_of_a_block_get_as_many_bids_as_each_coin_pays_for_and_the_rest_after_the_refill() {
    // Three deposits of each coin, in AKT with and without the fees of all six.
    for (held, sent) in [(1_529_999, 5), (1_530_000, 6), (1_500_000, 5)] {
        let mut world = with_config(with_fee(5_000), &[uact(1_500_000), uakt(held)]);
        world.hold = Some(is_bid);
        let orders = twenty(&mut world);
        assert_eq!(world.count(is_bid), sent, "{held}");
        let (_, why) = unfunded(&world).pop().unwrap();
        assert!(why.contains("and about 5000uakt for its fee"), "{why}");
        // This market takes no fees.
        let fees = 5_000 * u128::try_from(sent).unwrap();
        let coins = &mut world.market.account_mut(&us()).coins;
        coins.insert("uakt".into(), held - fees);
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
fn of_twenty_orders_of_a_block_none_fails_when_the_account_was_emptied_before_it() {
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
fn after_an_unexplained_refusal_one_bid_goes_before_the_others() {
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
            "one try after each reading of the parameters"
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

/// Five orders in blocks of their own.
fn five_more(world: &mut World) {
    for dseq in 2..=6 {
        world.order(dseq, &web());
    }
}

#[test]
fn while_the_account_cannot_be_read_one_bid_goes_before_the_others() {
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
fn without_money_for_the_fee_no_bid_is_sent_and_the_reason_is_the_fee() {
    let mut world = with_config(with_fee(5_000), &[uact(100_000_000), uakt(1_000)]);
    let order = world.order(1, &web());
    assert_eq!(
        (phase(&world, &order), world.count(is_bid)),
        (OrderPhase::Unfunded, 0)
    );
    let missing = world.status().deposit_missing.unwrap();
    assert_eq!(
        missing,
        "a bid requires 500000uact or 500000uakt and about 5000uakt for its fee, the account has 100000000uact and 1000uakt"
    );
    world.market.fund(&us(), &uakt(4_000));
    world.wait(Duration::from_secs(11));
    assert_eq!(phase(&world, &order), OrderPhase::Open);
}

#[test]
fn a_refused_fee_is_not_tried_again_before_the_account_has_more_for_it() {
    // The fee is known, or another account pays it.
    for (fee, bids) in [(5_000, 1), (0, 2)] {
        let mut world = with_config(with_fee(fee), &[uact(100_000_000), uakt(6_000)]);
        world.hold = Some(is_bid);
        world.order(1, &web());
        empty(&mut world, "uakt");
        world.refuse(is_bid, TxError::FeeUnpaid, "sdk/5");
        world.settle();
        world.wait(MINUTE);
        world.resync();
        world.wait(MINUTE);
        assert_eq!(
            world.count(is_bid),
            bids,
            "{fee}: full scans change nothing in the account"
        );
        if bids == 1 {
            world.market.fund(&us(), &uakt(5_000));
            world.wait(Duration::from_secs(11));
            assert_eq!(world.count(is_bid), 2);
        }
    }
}

#[test]
fn a_fee_that_is_higher_than_expected_is_not_tried_again_before_the_parameters_were_read() {
    // Enough for the expected fee.
    let mut world = with_config(with_fee(5_000), &[uact(100_000_000), uakt(6_000)]);
    world.hold = Some(is_bid);
    world.order(1, &web());
    world.refuse(is_bid, TxError::FeeUnpaid, "sdk/5");
    world.settle();
    world.wait(10 * MINUTE);
    assert_eq!(world.count(is_bid), 1);
    world.resync();
    assert_eq!(world.count(is_bid), 2);
}

#[test]
fn the_account_is_read_after_each_transaction_and_every_minute() {
    let mut world = with_config(with_fee(0), &[uact(100_000_000)]);
    world.order(1, &web());
    let read = world.count(is_look);
    world.wait(Duration::from_secs(2));
    assert_eq!(world.count(is_look), read + 1, "after the bid");
    world.wait(5 * MINUTE);
    let looks = world.count(is_look) - read - 1;
    assert!((4..=5).contains(&looks), "{looks} readings in five minutes");
    // Money that the operator moved is known without an order.
    world.market.account_mut(&us()).coins.clear();
    world.wait(MINUTE + Duration::from_secs(1));
    assert!(world.status().deposit_missing.is_some());
}
