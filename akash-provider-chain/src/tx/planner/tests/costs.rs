//! False gas and prices of nodes: ceilings limit the cost, and the status reports the reason of the delay.

use super::*;
use crate::gas::CeilingScope;

/// False amount of gas that a node reports. With this amount, the fee of a bid is 1,500 AKT.
const LIE: u64 = 50_000_000_000;

fn max_fee(world: &World) -> u128 {
    let fees = world.fees.iter().copied();
    fees.max().unwrap_or_default()
}

#[test]
fn false_gas_is_not_paid_and_the_bid_is_sent_later() {
    let mut world = World::calm();
    let bids: Vec<Msg> = (1..=3).map(|d| world.node.bid(&world.node.order(d))).collect();
    world.faults.reported_gas = Some(LIE);
    let tickets: Vec<_> = bids.into_iter().map(|bid| world.submit(vec![bid])).collect();
    world.run(Duration::from_secs(25));
    assert_eq!(world.sends, 0, "nothing is sent");
    assert!(world.replies.is_empty(), "no call is dropped");
    let problem = world.planner.status().problem.unwrap();
    assert!(
        problem.contains("50000000000") && problem.contains("1250000 for bid"),
        "{problem}"
    );
    assert!(world.simulations < 40, "{} simulations", world.simulations);
    world.faults.reported_gas = None;
    world.run(Duration::from_secs(30));
    for ticket in tickets {
        world.committed(ticket);
    }
    assert!(max_fee(&world) < 10_000, "{}", max_fee(&world));
    assert_eq!(world.planner.status().problem, None);
    world.check();
}

#[test]
fn bid_that_waits_too_long_fails_with_the_reason() {
    let mut world = World::calm();
    world.faults.reported_gas = Some(LIE);
    let bid = world.node.bid(&world.node.order(1));
    let ticket = world.submit(vec![bid]);
    world.run(Duration::from_secs(70));
    let error = world.replies[&ticket].clone().unwrap_err();
    assert!(
        error.transient && error.message.contains("above the ceiling"),
        "{error:?}"
    );
    assert_eq!(world.sends, 0);
    // A later bid is sent as soon as the gas is true. The false gas is not stored.
    world.faults.reported_gas = None;
    let bid = world.node.bid(&world.node.order(2));
    let ticket = world.submit(vec![bid]);
    world.run(Duration::from_secs(20));
    world.committed(ticket);
    world.check();
}

#[test]
fn gas_limit_never_exceeds_the_ceiling() {
    let mut world = World::calm();
    world.faults.reported_gas = Some(1_250_000);
    let bid = world.node.bid(&world.node.order(1));
    let ticket = world.submit(vec![bid]);
    world.run(Duration::from_secs(20));
    world.committed(ticket);
    // Without the margin of 20 %: 1,250,000 gas at the price 0.025.
    assert_eq!(max_fee(&world), 31_250);
    world.faults.reported_gas = Some(1_250_001);
    let close = Node::close(&world.node.lease(5));
    world.submit(vec![close]);
    let bid = world.node.bid(&world.node.order(2));
    let (before, bid) = (world.sends, world.submit(vec![bid]));
    world.run(Duration::from_secs(10));
    // The estimate of the first bid is stored for this shape.
    world.committed(bid);
    assert_eq!(world.sends, before + 2, "a close may use more");
    world.check();
}

#[test]
fn transaction_above_the_fee_ceiling_waits_for_a_lower_price() {
    let mut config = PlannerConfig::new(CHAIN);
    config
        .gas
        .ceilings
        .change(CeilingScope::Close, |most| most.fee = 20_000);
    let mut world = World::new(1, Faults::default(), config);
    world.node.price_scaled = 500_000_000_000_000_000;
    let close = Node::close(&world.node.lease(1));
    let ticket = world.submit(vec![close]);
    world.run(Duration::from_secs(20));
    assert_eq!(world.sends, 0);
    let problem = world.planner.status().problem.unwrap();
    assert!(problem.contains("20000 for close"), "{problem}");
    world.node.price_scaled = 2_500_000_000_000_000;
    world.run(Duration::from_secs(30));
    world.committed(ticket);
    world.check();
}

#[test]
fn bids_leave_a_part_of_the_hourly_ceiling_for_closes() {
    let mut config = PlannerConfig::new(CHAIN);
    // The fee of a bid or a close is 3,750.
    config
        .gas
        .ceilings
        .change(CeilingScope::Hour, |most| most.fee = 20_000);
    let mut world = World::new(1, Faults::default(), config);
    let leases: Vec<BidId> = (11..=13).map(|d| world.node.lease(d)).collect();
    let bids: Vec<Msg> = (1..=6).map(|d| world.node.bid(&world.node.order(d))).collect();
    let bids: Vec<_> = bids.into_iter().map(|bid| world.submit(vec![bid])).collect();
    world.run(Duration::from_secs(20));
    let landed = |world: &World| bids.iter().filter(|t| world.replies.contains_key(t)).count();
    assert_eq!(landed(&world), 4, "three quarters of the ceiling: 15,000");
    let problem = world.planner.status().problem.unwrap();
    assert!(problem.contains("15000 for an hour (bid)"), "{problem}");
    let close = world.submit(vec![Node::close(&leases[0])]);
    world.run(Duration::from_secs(20));
    world.committed(close);
    // One hour later, the ceiling allows further bids.
    world.run(Duration::from_secs(60));
    let bid = world.node.bid(&world.node.order(7));
    world.now += 3_600_000;
    let late = world.submit(vec![bid]);
    world.run(Duration::from_secs(20));
    world.committed(late);
}
