//! Orders that the provider cannot price, and declined orders that are evaluated again when a reservation is released.

use crate::engine::world::*;
use akash_provider_core::Config;
use akash_provider_core::engine::{Call, Completion, Input};
use akash_provider_core::inventory::InventoryUpdate;
use akash_provider_core::inventory::node_inventory::NodeInventory;
use akash_provider_core::inventory::spec::{ClusterSpec, NodeSpec};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::pricing::ResourceUsage;
use akash_provider_core::types::{BidState, Dec, DecCoin, DeclineCode};
use std::sync::Arc;

fn is_fetch(call: &Call) -> bool {
    matches!(call, Call::FetchOrder(_))
}

/// Reports a cluster with `cpu` millicores of free capacity.
fn feed_cpu(world: &mut World, cpu: i64) {
    let node = NodeSpec::new("node-1", cpu, 1 << 42, 1 << 45);
    let inventory = Arc::new(NodeInventory::new(&ClusterSpec::from_nodes([node])));
    world.feed(Input::Inventory(InventoryUpdate::new(inventory, Vec::new())));
    world.settle();
}

fn without_scans() -> World {
    let mut config = settings();
    config.scan_interval = 100 * HOUR;
    World::with(config)
}

#[test]
fn failed_price_is_retried_with_back_off_and_then_given_up() {
    for transient in [true, false] {
        let mut world = without_scans();
        world.price = Err(failure(transient));
        world.order(1, &web());
        assert_eq!(
            (world.count(is_price), world.pending()),
            (1, vec![]),
            "one attempt"
        );
        for dseq in 2..=10 {
            world.order(dseq, &web());
        }
        world.wait(HOUR);
        assert_eq!(world.count(is_price), 60, "six attempts per order");
        assert_eq!(
            world.status().declines.get(&DeclineCode::Price),
            Some(&10),
            "each decline is reported once"
        );
        world.price = Ok(price(10));
        world.wait(200 * HOUR);
        assert_eq!(
            world.pending().len(),
            10,
            "the next full scan requests prices again"
        );
    }
}

#[test]
fn freed_capacity_does_not_wake_order_without_price() {
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
fn price_request_has_usage_before_and_after() {
    let mut world = without_scans();
    let mut node = NodeSpec::new("node-1", 4_000, 1 << 42, 1 << 45);
    node.cpu.allocated = 500;
    let inventory = Arc::new(NodeInventory::new(&ClusterSpec::from_nodes([node])));
    world.feed(Input::Inventory(InventoryUpdate::new(inventory, Vec::new())));
    world.settle();
    let asks = |cpu| {
        let mut order = web();
        order.groups[0].resources[0].resources.cpu.units = cpu;
        order
    };
    world.order(1, &asks(1_000));
    world.order(2, &asks(2_000));
    let usages = world.calls.iter().filter_map(|call| match call {
        Call::CalculatePrice(request) => request.utilization.as_ref().map(|used| used.cpu),
        _ => None,
    });
    let usages: Vec<ResourceUsage> = usages.collect();
    let used = |before, after| ResourceUsage {
        total: 4_000,
        before,
        after,
    };
    assert_eq!(
        usages,
        [used(500, 1_500), used(1_500, 3_500)],
        "other leases use 500"
    );
    assert_eq!(usages[1].share_after(), "0.875".parse().ok());
}

#[test]
fn released_reservation_wakes_only_orders_it_blocked() {
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
    assert_eq!(
        world.pending(),
        [late],
        "the reservation that blocked this order was released"
    );
    let looks = world
        .calls
        .iter()
        .filter(|c| **c == Call::FetchOrder(early.clone()));
    assert_eq!(looks.count(), 1, "the capacity for this order is still missing");
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
fn ended_lease_wakes_declined_order() {
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

/// Creates one declined order per price problem: too high, missing, in another denomination.
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
fn price_change_wakes_orders_declined_for_price() {
    let mut config = settings();
    config.scan_interval = 100 * HOUR;
    let mut world = declined_for_prices(config);
    // These prices do not depend on capacity.
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
        "one evaluation per price change: {heights:?}"
    );
}

#[test]
fn full_scan_retries_orders_declined_for_price() {
    let mut world = declined_for_prices(settings());
    world.resync();
    world.wait(HOUR);
    assert_eq!(world.pending().len(), 3);
}

#[test]
fn freed_capacity_wakes_orders_declined_for_price_if_prices_depend_on_it() {
    let mut config = settings();
    config.scan_interval = 100 * HOUR;
    config.prices_follow_capacity = true;
    let mut world = declined_for_prices(config);
    world.feed_capacity();
    world.wait(MINUTE);
    // The order without a price has its own retry.
    assert_eq!(world.pending().len(), 3);
}
