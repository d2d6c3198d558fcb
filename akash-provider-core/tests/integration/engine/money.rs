//! Money: how long it lasts, and when leases are paid out.

use crate::engine::world::*;
use akash_provider_core::engine::Call;
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{Coin, Event, LeaseState, TxError};
use std::time::Duration;

fn is_check(call: &Call) -> bool {
    matches!(call, Call::FetchDeployment(_))
}

#[test]
fn w18_payouts_are_made_however_often_the_provider_restarts() {
    let mut world = World::new();
    world.running(1, &web());
    let mut payouts = 0;
    for _ in 0..15 {
        world.blocks(2 * 600, BLOCK);
        payouts += world.count(is_withdrawal);
        world.restart();
    }
    payouts += world.count(is_withdrawal);
    assert!(payouts >= 1, "thirty hours have passed, in pieces of two");
}

#[test]
fn w23_a_lease_that_ends_in_the_middle_of_a_check_stops_nobodys_payouts() {
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
    assert!(world.count(is_check) > 10, "and the balance is looked at");
}

#[test]
fn w45_the_leases_of_a_deployment_share_one_look_at_its_money() {
    let sdl = sdl_of("web", "nginx:1", &[], &["east", "west", "north"]);
    let mut world = World::new();
    world.lease(1, &sdl);
    assert_eq!(world.submit(1, &sdl).map(|_| ()), Ok(()));
    assert_eq!(world.active().len(), 3);
    world.blocks(2, MINUTE);
    world.calls.clear();
    world.blocks(60, MINUTE);
    let looks = world.count(is_check);
    assert!((5..=7).contains(&looks), "{looks} looks in an hour");
}

#[test]
fn w45_a_payout_that_failed_is_repeated_and_told() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    world.fail = Some(is_withdrawal);
    world.blocks(52, HOUR / 2);
    assert!(world.told(|e| matches!(e, Event::WithdrawFailed { .. })) >= 2);
    assert_eq!(world.told(|e| matches!(e, Event::Withdrawn { .. })), 0);
    world.fail = None;
    world.blocks(2, HOUR / 2);
    assert_eq!(world.told(|e| matches!(e, Event::Withdrawn { .. })), 1);
    assert_eq!(world.lease_state(&lease), Some(LeaseState::Active));
}

#[test]
fn a_payout_without_money_for_the_fee_is_repeated_as_soon_as_the_account_has_more() {
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
    world.market.fund(
        &us(),
        &Coin {
            denom: "uakt".into(),
            amount: 10_000,
        },
    );
    world.blocks(2, BLOCK);
    assert_eq!(world.count(is_withdrawal), 2, "not after five minutes");
    let status = world.status();
    assert_eq!(
        (&status.leases[0].payout_error, status.deposit_missing),
        (&None, None)
    );
}

/// Deposits come back, and other leases are paid out.
#[test]
fn more_money_does_not_repeat_a_payout_that_was_refused_for_another_reason() {
    let mut world = World::new();
    world.running(1, &web());
    world.hold = Some(is_withdrawal);
    world.blocks(49, HOUR / 2);
    world.refuse(is_withdrawal, TxError::Other, "escrow/1");
    world.settle();
    for _ in 0..40 {
        let more = Coin {
            denom: "uakt".into(),
            amount: 10_000,
        };
        world.market.fund(&us(), &more);
        world.blocks(1, BLOCK);
    }
    assert_eq!(world.count(is_withdrawal), 1, "within five minutes");
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
    assert!(world.told(|e| matches!(e, Event::Withdrawn { .. })) >= 2);
    assert_eq!(world.told(|e| matches!(e, Event::WithdrawFailed { .. })), 0);
}

#[test]
fn money_that_has_run_out_ends_the_lease_by_the_chains_own_hand() {
    let mut world = World::new();
    let sdl = web();
    world.price = Ok(price(100));
    world.tenant(TenantMsg::CreateDeployment {
        id: deployment_id(1),
        groups: sdl.groups.clone(),
        hash: sdl.hash,
        deposit: uact(500_000),
        reclamation_min_window: None,
    });
    world.take_bids(1, &sdl);
    assert_eq!(world.submit(1, &sdl).map(|_| ()), Ok(()));
    let lease = lease_id(1);
    // 5,000 blocks at 100 a block.
    world.blocks(4_700, BLOCK);
    assert_eq!(world.lease_state(&lease), Some(LeaseState::Active));
    world.blocks(500, BLOCK);
    assert_eq!(world.lease_state(&lease), Some(LeaseState::InsufficientFunds));
    world.wait(MINUTE);
    assert_eq!(world.closes(), [], "a payout is all it takes");
    assert_eq!((world.cluster.len(), world.active()), (0, vec![]));
}

#[test]
fn money_that_ends_is_collected_before_whatever_the_blocks_take() {
    for millis in [2_000, 4_000, 12_000] {
        let mut world = World::new();
        let sdl = web();
        world.price = Ok(price(100));
        world.tenant(TenantMsg::CreateDeployment {
            id: deployment_id(1),
            groups: sdl.groups.clone(),
            hash: sdl.hash,
            deposit: uact(500_000),
            reclamation_min_window: None,
        });
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
        assert!(world.count(is_withdrawal) >= 2, "once before, and once to end it");
        let looks = world.count(is_check);
        let hours = usize::try_from(5_000 * millis / 3_600_000).unwrap();
        assert!(looks <= 7 * (hours + 1) + 20, "{looks} looks in {hours} hours");
    }
}
