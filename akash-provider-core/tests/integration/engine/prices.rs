//! Orders without a price, and whom a reservation that comes to nothing wakes.

use crate::engine::world::*;
use akash_provider_core::Config;
use akash_provider_core::engine::{Call, Completion, Input};
use akash_provider_core::inventory::InventoryUpdate;
use akash_provider_core::inventory::node_inventory::NodeInventory;
use akash_provider_core::inventory::spec::{ClusterSpec, NodeSpec};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::pricing::Used;
use akash_provider_core::types::{BidState, Dec, DecCoin, DeclineCode};
use std::sync::Arc;

fn is_fetch(call: &Call) -> bool {
    matches!(call, Call::FetchOrder(_))
}

/// Capacity for so many thousandths of a core.
fn feed_cpu(world: &mut World, cpu: i64) {
    let node = NodeSpec::new("node-1", cpu, 1 << 42, 1 << 45);
    let inventory = Arc::new(NodeInventory::new(&ClusterSpec::of_nodes([node])));
    world.feed(Input::Inventory(InventoryUpdate {
        inventory,
        placements: Vec::new(),
        leased_ips: None,
    }));
    world.settle();
}

fn without_scans() -> World {
    let mut config = settings();
    config.scan_interval = 100 * HOUR;
    World::with(config)
}

#[test]
fn a_price_that_fails_is_asked_for_ever_more_rarely_and_then_no_more() {
    for transient in [true, false] {
        let mut world = without_scans();
        world.price = Err(failure(transient));
        world.order(1, &web());
        assert_eq!((world.count(is_price), world.pending()), (1, vec![]), "one try");
        for dseq in 2..=10 {
            world.order(dseq, &web());
        }
        world.wait(HOUR);
        assert_eq!(world.count(is_price), 60, "six times for each");
        assert_eq!(
            world.status().declines.get(&DeclineCode::Price),
            Some(&10),
            "and told once"
        );
        world.price = Ok(price(10));
        world.wait(200 * HOUR);
        assert_eq!(world.pending().len(), 10, "the next full scan asks again");
    }
}

#[test]
fn an_order_without_a_price_is_no_matter_of_capacity() {
    let mut world = without_scans();
    world.price = Err(failure(false));
    world.order(1, &web());
    world.calls.clear();
    for _ in 0..50 {
        world.feed_capacity();
    }
    assert_eq!((world.count(is_fetch), world.count(is_price)), (0, 0));
}

#[test]
fn a_price_is_asked_for_with_what_is_in_use_before_and_after() {
    let mut world = without_scans();
    let mut node = NodeSpec::new("node-1", 4_000, 1 << 42, 1 << 45);
    node.cpu.allocated = 500;
    let inventory = Arc::new(NodeInventory::new(&ClusterSpec::of_nodes([node])));
    world.feed(Input::Inventory(InventoryUpdate {
        inventory,
        placements: Vec::new(),
        leased_ips: None,
    }));
    world.settle();
    let asks = |cpu| {
        let mut order = web();
        order.groups[0].resources[0].resources.cpu.units = cpu;
        order
    };
    world.order(1, &asks(1_000));
    world.order(2, &asks(2_000));
    let told = world.calls.iter().filter_map(|call| match call {
        Call::CalculatePrice(request) => request.utilization.as_ref().map(|used| used.cpu),
        _ => None,
    });
    let told: Vec<Used> = told.collect();
    let used = |before, after| Used {
        total: 4_000,
        before,
        after,
    };
    assert_eq!(told, [used(500, 1_500), used(1_500, 3_500)], "others use 500");
    assert_eq!(told[1].share_after(), "0.875".parse().ok());
}

#[test]
fn what_was_never_reserved_for_a_bid_wakes_only_who_was_kept_out_by_it() {
    let mut world = without_scans();
    feed_cpu(&mut world, 150);
    let mut large = web();
    large.groups[0].resources[0].resources.cpu.units = 1_000;
    let early = world.order(1, &large);
    world.hold = Some(is_price);
    let tried = world.order(2, &web());
    let late = world.order(3, &web());
    assert_eq!(world.pending(), [tried]);
    assert_eq!(world.status().declines[&DeclineCode::InsufficientCapacity], 2);
    let (id, _) = world.in_flight.pop_front().unwrap();
    world.feed(Input::Completed(id, Completion::Price(Err(failure(false)))));
    world.hold = None;
    world.settle();
    assert_eq!(world.pending(), [late], "the room was kept from it for nothing");
    let looks = world
        .calls
        .iter()
        .filter(|c| **c == Call::FetchOrder(early.clone()));
    assert_eq!(looks.count(), 1, "nothing that it waits for has come");
}

#[test]
fn freed_capacity_wakes_a_declined_order() {
    let mut world = without_scans();
    feed_cpu(&mut world, 150);
    let first = world.order(1, &web());
    let second = world.order(2, &web());
    assert_eq!(world.pending(), [first]);
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(1) });
    world.wait(MINUTE);
    assert_eq!(world.bid(&second).map(|b| b.state), Some(BidState::Open));
}

#[test]
fn new_capacity_wakes_a_declined_order() {
    let mut world = without_scans();
    feed_cpu(&mut world, 50);
    let order = world.order(1, &web());
    assert_eq!((world.bid(&order), world.pending()), (None, vec![]));
    feed_cpu(&mut world, 150);
    world.wait(MINUTE);
    assert_eq!(world.bid(&order).map(|b| b.state), Some(BidState::Open));
}

#[test]
fn the_end_of_a_lease_wakes_a_declined_order() {
    let mut world = without_scans();
    feed_cpu(&mut world, 150);
    let lease = world.running(1, &web());
    let order = world.order(2, &web());
    assert_eq!((world.bid(&order), world.active()), (None, vec![lease.order]));
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(1) });
    world.blocks(2, BLOCK);
    world.wait(MINUTE);
    assert_eq!(world.bid(&order).map(|b| b.state), Some(BidState::Open));
}

/// Orders too dear, one without a price, and one in another denomination.
fn declined_for_prices(config: Config) -> World {
    let mut world = World::with(config);
    world.price = Ok(price(1_000_000));
    world.order(1, &web());
    world.price = Err(failure(false));
    world.order(2, &web());
    world.price = Ok(DecCoin::new(&"uakt".into(), Dec::from_int(1)));
    world.order(3, &web());
    assert_eq!(world.pending(), []);
    let declines = [
        DeclineCode::PriceTooHigh,
        DeclineCode::Price,
        DeclineCode::PriceDenom,
    ];
    assert!(
        declines
            .iter()
            .all(|code| world.status().declines.get(code) == Some(&1))
    );
    world.price = Ok(price(10));
    world
}

#[test]
fn orders_declined_for_their_price_are_judged_again_when_prices_change() {
    let mut config = settings();
    config.scan_interval = 100 * HOUR;
    let mut world = declined_for_prices(config);
    // Capacity has no part in these prices.
    for _ in 0..5 {
        world.feed_capacity();
    }
    assert_eq!(world.pending(), []);
    world.feed(Input::PricesChanged);
    world.wait(MINUTE);
    assert_eq!(world.pending().len(), 3);
    let heights = world.calls.iter().filter_map(|call| match call {
        Call::CalculatePrice(request) => Some(request.height.is_some()),
        _ => None,
    });
    let heights: Vec<bool> = heights.collect();
    assert_eq!(
        heights.iter().filter(|first| **first).count(),
        3,
        "one look by the block's prices: {heights:?}"
    );
}

#[test]
fn a_full_scan_judges_orders_declined_for_their_price_again() {
    let mut world = declined_for_prices(settings());
    world.resync();
    world.wait(HOUR);
    assert_eq!(world.pending().len(), 3);
}

#[test]
fn capacity_that_comes_back_wakes_an_order_too_dear_where_prices_follow_it() {
    let mut config = settings();
    config.scan_interval = 100 * HOUR;
    config.prices_follow_capacity = true;
    let mut world = declined_for_prices(config);
    world.feed_capacity();
    world.wait(MINUTE);
    // The order without a price has a retry of its own.
    assert_eq!(world.pending().len(), 3);
}
