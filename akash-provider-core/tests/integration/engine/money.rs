//! Money: for how long the deposit of a deployment pays for its leases, and when the provider withdraws
//! earnings.

use crate::engine::world::*;
use akash_provider_core::engine::Call;
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{Coin, Event, LeaseState, TxError};
use std::time::Duration;

fn is_check(call: &Call) -> bool {
    matches!(call, Call::FetchDeployment(_))
}

#[test]
fn w18_payouts_continue_across_restarts() {
    let mut world = World::new();
    world.running(1, &web());
    let mut payouts = 0;
    for _ in 0..15 {
        world.blocks(2 * 600, BLOCK);
        payouts += world.count(is_withdrawal);
        world.restart();
    }
    payouts += world.count(is_withdrawal);
    assert!(
        payouts >= 1,
        "thirty hours have passed, with a restart every two hours"
    );
}

#[test]
fn w23_lease_that_ends_during_a_check_does_not_stop_other_payouts() {
    let mut world = World::new();
    world.running(1, &web());
    let stays = world.running(2, &web());
    world.hold = Some(is_check);
    world.blocks(20, MINUTE);
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(1) });
    world.hold = None;
    world.settle();
    world.blocks(2, BLOCK);
    world.wait(MINUTE);
    world.calls.clear();
    world.blocks(50, HOUR / 2);
    let paid: Vec<_> = world.calls.iter().filter(|c| is_withdrawal(c)).collect();
    assert!(!paid.is_empty());
    let other = |c: &&&Call| !matches!(c, Call::Broadcast(akash_provider_core::types::Msg::WithdrawLease { id }) if *id == stays);
    assert_eq!(paid.iter().filter(other).count(), 0);
    assert!(world.count(is_check) > 10, "the balance is queried");
}

#[test]
fn w45_leases_of_a_deployment_share_one_balance_query() {
    let sdl = sdl_of("web", "nginx:1", &[], &["east", "west", "north"]);
    let mut world = World::new();
    world.lease(1, &sdl);
    assert_eq!(world.submit(1, &sdl).map(|_| ()), Ok(()));
    assert_eq!(world.active().len(), 3);
    world.blocks(2, MINUTE);
    world.calls.clear();
    world.blocks(60, MINUTE);
    let looks = world.count(is_check);
    assert!((5..=7).contains(&looks), "{looks} queries in an hour");
}

#[test]
fn w45_failed_payout_is_retried_and_reported() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    world.fail = Some(is_withdrawal);
    world.blocks(52, HOUR / 2);
    assert!(world.count_facts(|e| matches!(e, Event::WithdrawFailed { .. })) >= 2);
    assert_eq!(world.count_facts(|e| matches!(e, Event::Withdrawn { .. })), 0);
    world.fail = None;
    world.blocks(2, HOUR / 2);
    assert_eq!(world.count_facts(|e| matches!(e, Event::Withdrawn { .. })), 1);
    assert_eq!(world.lease_state(&lease), Some(LeaseState::Active));
}

#[test]
fn payout_without_fee_is_retried_after_a_refill() {
    let mut world = World::new();
    world.running(1, &web());
    world.hold = Some(is_withdrawal);
    world.blocks(49, HOUR / 2);
    world.refuse(is_withdrawal, TxError::FeeUnpaid, "sdk/5");
    world.settle();
    let status = world.status();
    assert_eq!(status.leases[0].payout_error.as_deref(), Some("sdk/5: refused"));
    assert!(status.deposit_missing.unwrap().contains("cannot pay the fee"));
    world.blocks(10, BLOCK);
    assert_eq!(world.count(is_withdrawal), 1);
    world.hold = None;
    world.market.fund(&us(), &Coin::new("uakt", 10_000));
    world.blocks(2, BLOCK);
    assert_eq!(world.count(is_withdrawal), 2, "without a wait of five minutes");
    let status = world.status();
    assert_eq!(
        (&status.leases[0].payout_error, status.deposit_missing),
        (&None, None)
    );
}

#[test]
fn refill_does_not_retry_payout_rejected_for_another_reason() {
    let mut world = World::new();
    world.running(1, &web());
    world.hold = Some(is_withdrawal);
    world.blocks(49, HOUR / 2);
    world.refuse(is_withdrawal, TxError::Other, "escrow/1");
    world.settle();
    for _ in 0..40 {
        let more = Coin::new("uakt", 10_000);
        world.market.fund(&us(), &more);
        world.blocks(1, BLOCK);
    }
    assert_eq!(
        world.count(is_withdrawal),
        1,
        "no second attempt within five minutes"
    );
    world.blocks(20, BLOCK);
    assert_eq!(world.count(is_withdrawal), 2);
}

#[test]
fn two_leases_of_a_deployment_are_never_paid_out_in_one_block() {
    let sdl = sdl_of("web", "nginx:1", &[], &["east", "west"]);
    let mut world = World::new();
    world.lease(1, &sdl);
    assert_eq!(world.submit(1, &sdl).map(|_| ()), Ok(()));
    world.blocks(54, HOUR / 2);
    assert!(world.count_facts(|e| matches!(e, Event::Withdrawn { .. })) >= 2);
    assert_eq!(
        world.count_facts(|e| matches!(e, Event::WithdrawFailed { .. })),
        0
    );
}

#[test]
fn payout_of_exhausted_deployment_ends_lease_on_chain() {
    let mut world = World::new();
    let sdl = web();
    world.price = Ok(price(100));
    world.tenant(TenantMsg::create_deployment(
        deployment_id(1),
        &sdl,
        uact(500_000),
    ));
    world.take_bids(1, &sdl);
    assert_eq!(world.submit(1, &sdl).map(|_| ()), Ok(()));
    let lease = lease_id(1);
    // 5,000 blocks at 100 a block.
    world.blocks(4_700, BLOCK);
    assert_eq!(world.lease_state(&lease), Some(LeaseState::Active));
    world.blocks(500, BLOCK);
    assert_eq!(world.lease_state(&lease), Some(LeaseState::InsufficientFunds));
    world.wait(MINUTE);
    assert_eq!(world.closes(), [], "the payout ends the lease");
    assert_eq!((world.cluster.len(), world.active()), (0, vec![]));
}

#[test]
fn exhausted_funds_are_collected_in_time_at_any_block_time() {
    for millis in [2_000, 4_000, 12_000] {
        let mut world = World::new();
        let sdl = web();
        world.price = Ok(price(100));
        world.tenant(TenantMsg::create_deployment(
            deployment_id(1),
            &sdl,
            uact(500_000),
        ));
        world.take_bids(1, &sdl);
        assert_eq!(world.submit(1, &sdl).map(|_| ()), Ok(()));
        let lease = lease_id(1);
        world.calls.clear();
        // 5,000 blocks at 100 a block.
        let each = Duration::from_millis(millis);
        world.blocks(4_980, each);
        assert_eq!(world.lease_state(&lease), Some(LeaseState::Active));
        world.blocks(40, each);
        let record = world.market.lease(&lease).unwrap().lease;
        assert_eq!(record.state, LeaseState::InsufficientFunds);
        let lasted = record.closed_on - record.created_at;
        assert!(
            (5_000..=5_003).contains(&lasted),
            "{lasted} blocks of {millis} ms"
        );
        assert!(
            world.count(is_withdrawal) >= 2,
            "one payout before, and one that ends the lease"
        );
        let looks = world.count(is_check);
        let hours = usize::try_from(5_000 * millis / 3_600_000).unwrap();
        assert!(looks <= 7 * (hours + 1) + 20, "{looks} queries in {hours} hours");
    }
}
