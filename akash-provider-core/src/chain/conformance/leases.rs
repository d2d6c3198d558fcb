//! Checks that need leases.

use super::{Driver, bid_id, commit, create_bid, facts_until, refused, resync, rule};
use crate::chain::{BidFilter, ChainClient, LeaseFilter, PageRequest};
use crate::conformance::Rule;
use crate::types::{
    BidId, BidState, ChainEvent, CloseReason, GroupState, LeaseState, Msg, OrderState, Snapshot, TxError,
};

pub(super) fn close_bid(id: &BidId) -> Msg {
    Msg::CloseBid {
        id: id.clone(),
        reason: CloseReason::Unspecified,
    }
}

/// Checks a bid on an order that another provider wins. The bid has the state `Lost`, no `BidClosed` event
/// arrives, and closing the bid fails with `UnknownBid`.
///
/// # Panics
/// Panics when the client violates the rule.
pub async fn a_lost_bid_is_visible_without_an_event(client: &dyn ChainClient, driver: &dyn Driver) {
    let what = &rule("a lost bid is visible without an event");
    let order = what
        .answer("Driver::create_deployment", driver.create_deployment(1))
        .await
        .remove(0);
    what.answer("Driver::next_block", driver.next_block()).await;
    let (ours, theirs) = (
        bid_id(&order, &driver.provider()),
        bid_id(&order, &driver.competitor()),
    );
    commit(client, driver, create_bid(&ours, driver), what).await;
    what.answer("Driver::competing_bid", driver.competing_bid(&order))
        .await;
    let mut events = client.subscribe(&driver.provider());
    resync(&mut events, what).await;
    what.answer("Driver::create_lease", driver.create_lease(&theirs))
        .await;
    what.answer("Driver::next_block", driver.next_block()).await;
    let won = ChainEvent::LeaseCreated {
        id: theirs,
        price: driver.price(),
    };
    let facts = facts_until(&mut events, order.deployment(), &won, what).await;
    assert_eq!(facts, [won], "{what}");
    let bid = what.there("bid", what.ok("bid", client.bid(&ours)).await.value);
    assert_eq!(bid.state, BidState::Lost, "{what}");
    let error = refused(client, driver, close_bid(&ours), what).await;
    assert_eq!(error, TxError::UnknownBid, "{what}");
    what.answer(
        "Driver::close_deployment",
        driver.close_deployment(order.deployment()),
    )
    .await;
}

/// Checks the life cycle of a lease. If the provider closes the lease, the group is paused. If the tenant
/// closes the lease, the group gets a new order.
///
/// # Panics
/// Panics when the client violates the rule.
pub async fn leases_follow_their_life_cycle(client: &dyn ChainClient, driver: &dyn Driver) {
    let what = &rule("leases follow their life cycle");
    let mut events = client.subscribe(&driver.provider());
    resync(&mut events, what).await;
    let orders = what
        .answer("Driver::create_deployment", driver.create_deployment(2))
        .await;
    what.answer("Driver::next_block", driver.next_block()).await;
    let ids: Vec<BidId> = orders.iter().map(|o| bid_id(o, &driver.provider())).collect();
    for id in &ids {
        commit(client, driver, create_bid(id, driver), what).await;
        what.answer("Driver::create_lease", driver.create_lease(id)).await;
        what.answer("Driver::next_block", driver.next_block()).await;
        let price = driver.price();
        let won = ChainEvent::LeaseCreated {
            id: id.clone(),
            price,
        };
        facts_until(&mut events, id.deployment(), &won, what).await;
    }
    let [first, second] = [&ids[0], &ids[1]];
    it_pays(client, driver, first, what).await;
    let height = commit(client, driver, close_bid(first), what).await;
    let reason = CloseReason::Unspecified;
    let order = ChainEvent::OrderClosed {
        id: first.order.clone(),
    };
    let facts = facts_until(&mut events, first.deployment(), &order, what).await;
    let group = first.order.group.clone();
    let paused = ChainEvent::GroupPaused { id: group.clone() };
    let closed = |id: &BidId, reason| ChainEvent::LeaseClosed {
        id: id.clone(),
        reason,
    };
    let bid = |id: &BidId| ChainEvent::BidClosed { id: id.clone() };
    assert_eq!(
        facts,
        [paused, closed(first, reason), bid(first), order],
        "{what}"
    );
    let lease = what
        .there("lease", what.ok("lease", client.lease(first)).await.value)
        .lease;
    let ended = (lease.state, lease.closed_on, lease.reason);
    assert_eq!(ended, (LeaseState::Closed, height, Some(reason)), "{what}");
    let group = what.there("group", what.ok("group", client.group(&group)).await);
    assert_eq!(group.state, GroupState::Paused, "{what}");
    what.answer("Driver::close_lease", driver.close_lease(second))
        .await;
    what.answer("Driver::next_block", driver.next_block()).await;
    let mut again = second.order.clone();
    again.oseq += 1;
    let created = ChainEvent::OrderCreated { id: again.clone() };
    let order = ChainEvent::OrderClosed {
        id: second.order.clone(),
    };
    let facts = facts_until(&mut events, second.deployment(), &created, what).await;
    let expected = [closed(second, CloseReason::Owner), bid(second), order, created];
    assert_eq!(facts, expected, "{what}");
    let order = what.there("order", what.ok("order", client.order(&again)).await);
    assert_eq!(order.state, OrderState::Open, "{what}");
    what.answer(
        "Driver::close_deployment",
        driver.close_deployment(first.deployment()),
    )
    .await;
}

async fn it_pays(client: &dyn ChainClient, driver: &dyn Driver, id: &BidId, what: &Rule) {
    let (us, denom) = (driver.provider(), driver.price().denom);
    let before = what.ok("balance", client.balance(&us, &denom)).await;
    what.answer("Driver::next_block", driver.next_block()).await;
    commit(client, driver, Msg::WithdrawLease { id: id.clone() }, what).await;
    let record = what.there("lease", what.ok("lease", client.lease(id)).await.value);
    assert_eq!(record.lease.state, LeaseState::Active, "{what}");
    let withdrawn = what.there("the result", record.payment).withdrawn.amount;
    assert!(withdrawn > 0, "{what}: the lease pays");
    let after = what.ok("balance", client.balance(&us, &denom)).await;
    assert!(
        after.amount > before.amount,
        "{what}: the lease pays the provider"
    );
}

/// Checks that snapshot, listings and single queries return the same bids and leases of the provider.
///
/// # Panics
/// Panics when the client violates the rule.
pub async fn a_snapshot_equals_the_queries(client: &dyn ChainClient, driver: &dyn Driver) {
    let what = &rule("a snapshot equals the queries");
    let us = driver.provider();
    let orders = what
        .answer("Driver::create_deployment", driver.create_deployment(4))
        .await;
    what.answer("Driver::next_block", driver.next_block()).await;
    // Another provider bids on the same orders and gets a lease of the same deployment.
    for order in &orders[2..] {
        what.answer("Driver::competing_bid", driver.competing_bid(order))
            .await;
    }
    let theirs = bid_id(&orders[3], &driver.competitor());
    what.answer("Driver::create_lease", driver.create_lease(&theirs))
        .await;
    let ids: Vec<BidId> = orders[..3].iter().map(|o| bid_id(o, &us)).collect();
    for id in &ids {
        commit(client, driver, create_bid(id, driver), what).await;
    }
    what.answer("Driver::create_lease", driver.create_lease(&ids[0]))
        .await;
    what.answer("Driver::next_block", driver.next_block()).await;
    commit(client, driver, close_bid(&ids[1]), what).await;
    let snapshot = what.ok("snapshot", client.snapshot(&us)).await;
    assert_eq!(
        snapshot.provider,
        what.ok("provider", client.provider(&us)).await,
        "{what}"
    );
    assert_eq!(
        snapshot.params,
        what.ok("params", client.params()).await,
        "{what}"
    );
    for (id, state) in ids
        .iter()
        .zip([BidState::Active, BidState::Closed, BidState::Open])
    {
        let bid = what.there("bid", what.ok("bid", client.bid(id)).await.value);
        assert_eq!(bid.state, state, "{what}");
        let same = snapshot.bids.iter().filter(|b| b.id == *id);
        assert!(
            same.eq([&bid]),
            "{what}: {state:?} the snapshot has bids on open orders and live bids once"
        );
        let order = what.there("order", what.ok("order", client.order(&id.order)).await);
        let open = order.state == OrderState::Open;
        assert_eq!(
            snapshot.orders.contains(&order),
            open,
            "{what}: the snapshot has open orders only"
        );
    }
    let mut of_all = snapshot
        .bids
        .iter()
        .map(|b| &b.id)
        .chain(snapshot.leases.iter().map(|l| &l.lease.id));
    assert!(
        of_all.all(|id| id.provider == us),
        "{what}: bids and leases of other providers are not in the snapshot"
    );
    listings_agree(client, &ids, &snapshot, what).await;
    what.answer(
        "Driver::close_deployment",
        driver.close_deployment(orders[0].deployment()),
    )
    .await;
}

async fn listings_agree(client: &dyn ChainClient, ids: &[BidId], snapshot: &Snapshot, what: &Rule) {
    let (us, deployment) = (&ids[0].provider, ids[0].deployment());
    let leases = LeaseFilter {
        provider: Some(us.clone()),
        deployment: Some(deployment.clone()),
        state: Some(LeaseState::Active),
    };
    let listed = what
        .ok("leases", client.leases(&leases, PageRequest::default()))
        .await
        .items;
    let ours = |l: &&crate::types::LeaseRecord| l.lease.id.deployment() == deployment;
    assert_eq!(
        listed.iter().map(|l| &l.lease.id).collect::<Vec<_>>(),
        [&ids[0]],
        "{what}"
    );
    assert!(snapshot.leases.iter().filter(ours).eq(&listed), "{what}");
    let record = what.there(
        "deployment",
        what.ok("deployment", client.deployment(deployment)).await,
    );
    assert!(snapshot.deployments.contains(&record), "{what}");
    assert_eq!(record.groups.len(), 4, "{what}");
    let bids = BidFilter {
        order: None,
        provider: Some(us.clone()),
        state: Some(BidState::Open),
    };
    let open = what
        .ok("bids", client.bids(&bids, PageRequest::default()))
        .await
        .items;
    assert!(
        open.iter().any(|b| b.id == ids[2]),
        "{what}: open bids are listed"
    );
    assert!(
        open.iter()
            .all(|b| b.state == BidState::Open && b.id.provider == *us),
        "{what}: no other bids are listed"
    );
    let bids = BidFilter {
        order: Some(ids[2].order.clone()),
        ..BidFilter::default()
    };
    let of_order = what
        .ok("bids", client.bids(&bids, PageRequest::default()))
        .await
        .items;
    assert!(
        of_order.iter().any(|b| b.id == ids[2]) && of_order.iter().all(|b| b.id.order == ids[2].order),
        "{what}: exactly the bids of one order are listed"
    );
}
