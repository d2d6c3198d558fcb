//! Fees of bids: a bid waits while the account of the provider cannot pay its fee.

use super::wallet::{empty, phase, uakt, unfunded, with, with_config, with_fee};
use crate::engine::world::*;
use akash_provider_core::engine::OrderPhase;
use akash_provider_core::types::TxError;
use std::time::Duration;

#[test]
fn missing_fee_stops_retries_until_account_changes() {
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
fn missing_fee_prevents_bids_and_is_reported() {
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
fn rejected_fee_is_retried_only_after_refill() {
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
fn unexpectedly_high_fee_is_retried_after_parameters_are_read() {
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
