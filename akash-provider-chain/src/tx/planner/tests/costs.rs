//! Nodes that lie about what things cost: nothing is paid beyond the ceilings, and what waits says so.

use super::*;
use crate::gas::Scope;

/// Fifty thousand million units of gas, for which a bid would cost 1,500 AKT.
const LIE: u64 = 50_000_000_000;

/// The most that was offered for anything that was sent.
fn dearest(world: &World) -> u128 {
    let fees = world.fees.iter().copied();
    fees.max().unwrap_or_default()
}

#[test]
fn a_node_that_claims_any_gas_is_not_paid_and_the_bid_goes_when_it_stops() {
    let mut world = World::calm();
    let bids: Vec<Msg> = (1..=3).map(|d| world.node.bid(&world.node.order(d))).collect();
    world.faults.claims = Some(LIE);
    let tickets: Vec<_> = bids.into_iter().map(|bid| world.submit(vec![bid])).collect();
    world.run(Duration::from_secs(25));
    assert_eq!(world.sends, 0, "nothing is sent");
    assert!(world.replies.is_empty(), "and nothing is dropped");
    let trouble = world.planner.status().trouble.unwrap();
    assert!(
        trouble.contains("50000000000") && trouble.contains("1250000 for bid"),
        "{trouble}"
    );
    assert!(world.simulations < 40, "{} questions", world.simulations);
    world.faults.claims = None;
    world.run(Duration::from_secs(30));
    for ticket in tickets {
        world.committed(ticket);
    }
    assert!(dearest(&world) < 10_000, "{}", dearest(&world));
    assert_eq!(world.planner.status().trouble, None);
    world.judge();
}

#[test]
fn a_bid_that_waits_past_its_use_ends_as_not_sent_and_says_why() {
    let mut world = World::calm();
    world.faults.claims = Some(LIE);
    let bid = world.node.bid(&world.node.order(1));
    let ticket = world.submit(vec![bid]);
    world.run(Duration::from_secs(70));
    let error = world.replies[&ticket].clone().unwrap_err();
    assert!(
        error.transient && error.message.contains("above the ceiling"),
        "{error:?}"
    );
    assert_eq!(world.sends, 0);
    // Whoever asks again is served as soon as it is honest: nothing of the lie is kept.
    world.faults.claims = None;
    let bid = world.node.bid(&world.node.order(2));
    let ticket = world.submit(vec![bid]);
    world.run(Duration::from_secs(20));
    world.committed(ticket);
    world.judge();
}

#[test]
fn gas_just_below_the_ceiling_is_paid_up_to_the_ceiling() {
    let mut world = World::calm();
    world.faults.claims = Some(1_250_000);
    let bid = world.node.bid(&world.node.order(1));
    let ticket = world.submit(vec![bid]);
    world.run(Duration::from_secs(20));
    world.committed(ticket);
    // Not a fifth more: 1,250,000 at 0.025.
    assert_eq!(dearest(&world), 31_250);
    world.faults.claims = Some(1_250_001);
    let close = Node::close(&world.node.lease(5));
    world.submit(vec![close]);
    let bid = world.node.bid(&world.node.order(2));
    let (before, bid) = (world.sends, world.submit(vec![bid]));
    world.run(Duration::from_secs(10));
    // The bid is of a shape whose gas was learnt before: it is that.
    world.committed(bid);
    assert_eq!(world.sends, before + 2, "a close may use more");
    world.judge();
}

#[test]
fn a_price_that_makes_it_too_dear_waits_for_a_better_one() {
    let mut config = PlannerConfig::new(CHAIN);
    config.gas.ceilings.change(Scope::Close, |most| most.fee = 20_000);
    let mut world = World::new(1, Faults::default(), config);
    world.node.price_scaled = 500_000_000_000_000_000;
    let close = Node::close(&world.node.lease(1));
    let ticket = world.submit(vec![close]);
    world.run(Duration::from_secs(20));
    assert_eq!(world.sends, 0);
    let trouble = world.planner.status().trouble.unwrap();
    assert!(trouble.contains("20000 for close"), "{trouble}");
    world.node.price_scaled = 2_500_000_000_000_000;
    world.run(Duration::from_secs(30));
    world.committed(ticket);
    world.judge();
}

#[test]
fn an_hour_has_its_ceiling_and_bids_leave_some_of_it_for_closes() {
    let mut config = PlannerConfig::new(CHAIN);
    // A bid or a close costs 3,750 here.
    config.gas.ceilings.change(Scope::Hour, |most| most.fee = 20_000);
    let mut world = World::new(1, Faults::default(), config);
    let leases: Vec<BidId> = (11..=13).map(|d| world.node.lease(d)).collect();
    let bids: Vec<Msg> = (1..=6).map(|d| world.node.bid(&world.node.order(d))).collect();
    let bids: Vec<_> = bids.into_iter().map(|bid| world.submit(vec![bid])).collect();
    world.run(Duration::from_secs(20));
    let landed = |world: &World| bids.iter().filter(|t| world.replies.contains_key(t)).count();
    assert_eq!(landed(&world), 4, "three quarters of it: 15,000");
    let trouble = world.planner.status().trouble.unwrap();
    assert!(trouble.contains("15000 for an hour (bid)"), "{trouble}");
    let close = world.submit(vec![Node::close(&leases[0])]);
    world.run(Duration::from_secs(20));
    world.committed(close);
    // An hour later there is room again.
    world.run(Duration::from_secs(60));
    let bid = world.node.bid(&world.node.order(7));
    world.now += 3_600_000;
    let late = world.submit(vec![bid]);
    world.run(Duration::from_secs(20));
    world.committed(late);
}
