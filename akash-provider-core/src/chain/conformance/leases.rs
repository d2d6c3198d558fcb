//! The checks that need leases.

use super::{Driver, bid_id, commit, create_bid, facts_until, refused, resync};
use crate::chain::{BidFilter, ChainClient, LeaseFilter, PageRequest};
use crate::types::{
    BidId, BidState, ChainEvent, CloseReason, GroupState, LeaseState, Msg, OrderState, Snapshot, TxError,
};

pub(super) fn close_bid(id: &BidId) -> Msg {
    Msg::CloseBid {
        id: id.clone(),
        reason: CloseReason::Unspecified,
    }
}

/// When another provider wins, our bid reads as lost, no `BidClosed` is told, and closing it is `UnknownBid`.
///
/// # Panics
/// When it is not so.
pub async fn a_lost_bid_is_known_without_an_event(client: &dyn ChainClient, driver: &dyn Driver) {
    let what = "a lost bid is known without an event";
    let order = driver.create_deployment(1).await.remove(0);
    driver.next_block().await;
    let (ours, theirs) = (
        bid_id(&order, &driver.provider()),
        bid_id(&order, &driver.rival()),
    );
    commit(client, driver, create_bid(&ours, driver), what).await;
    driver.rival_bid(&order).await;
    let mut events = client.subscribe(&driver.provider());
    resync(&mut events, what).await;
    driver.create_lease(&theirs).await;
    driver.next_block().await;
    let won = ChainEvent::LeaseCreated {
        id: theirs,
        price: driver.price(),
    };
    let facts = facts_until(&mut events, order.deployment(), &won, what).await;
    assert_eq!(facts, [won], "{what}");
    let bid = client.bid(&ours).await.expect(what).value.expect(what);
    assert_eq!(bid.state, BidState::Lost, "{what}");
    let error = refused(client, driver, close_bid(&ours), what).await;
    assert_eq!(error, TxError::UnknownBid, "{what}");
    driver.close_deployment(order.deployment()).await;
}

/// A lease is won, pays, is closed by us with its reason; the group is then paused. A second one is closed by
/// the tenant, and its group gets a new order at once.
///
/// # Panics
/// When it is not so.
pub async fn a_lease_lives_and_dies(client: &dyn ChainClient, driver: &dyn Driver) {
    let what = "a lease lives and dies";
    let mut events = client.subscribe(&driver.provider());
    resync(&mut events, what).await;
    let orders = driver.create_deployment(2).await;
    driver.next_block().await;
    let ids: Vec<BidId> = orders.iter().map(|o| bid_id(o, &driver.provider())).collect();
    for id in &ids {
        commit(client, driver, create_bid(id, driver), what).await;
        driver.create_lease(id).await;
        driver.next_block().await;
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
    let lease = client.lease(first).await.expect(what).value.expect(what).lease;
    let ended = (lease.state, lease.closed_on, lease.reason);
    assert_eq!(ended, (LeaseState::Closed, height, Some(reason)), "{what}");
    let group = client.group(&group).await.expect(what).expect(what);
    assert_eq!(group.state, GroupState::Paused, "{what}");
    driver.close_lease(second).await;
    driver.next_block().await;
    let mut again = second.order.clone();
    again.oseq += 1;
    let created = ChainEvent::OrderCreated { id: again.clone() };
    let order = ChainEvent::OrderClosed {
        id: second.order.clone(),
    };
    let facts = facts_until(&mut events, second.deployment(), &created, what).await;
    let expected = [closed(second, CloseReason::Owner), bid(second), order, created];
    assert_eq!(facts, expected, "{what}");
    let order = client.order(&again).await.expect(what).expect(what);
    assert_eq!(order.state, OrderState::Open, "{what}");
    driver.close_deployment(first.deployment()).await;
}

async fn it_pays(client: &dyn ChainClient, driver: &dyn Driver, id: &BidId, what: &str) {
    let (us, denom) = (driver.provider(), driver.price().denom);
    let before = client.balance(&us, &denom).await.expect(what);
    driver.next_block().await;
    commit(client, driver, Msg::WithdrawLease { id: id.clone() }, what).await;
    let record = client.lease(id).await.expect(what).value.expect(what);
    assert_eq!(record.lease.state, LeaseState::Active, "{what}");
    let withdrawn = record.payment.expect(what).withdrawn.amount;
    assert!(withdrawn > 0, "{what}: it pays");
    let after = client.balance(&us, &denom).await.expect(what);
    assert!(after.amount > before.amount, "{what}: it pays us");
}

/// Snapshot, listings and single queries tell the same about our bids and leases.
///
/// # Panics
/// When it is not so.
pub async fn a_snapshot_says_what_queries_say(client: &dyn ChainClient, driver: &dyn Driver) {
    let what = "a snapshot says what queries say";
    let us = driver.provider();
    let orders = driver.create_deployment(3).await;
    driver.next_block().await;
    let ids: Vec<BidId> = orders.iter().map(|o| bid_id(o, &us)).collect();
    for id in &ids {
        commit(client, driver, create_bid(id, driver), what).await;
    }
    driver.create_lease(&ids[0]).await;
    driver.next_block().await;
    commit(client, driver, close_bid(&ids[1]), what).await;
    let snapshot = client.snapshot(&us).await.expect(what);
    assert_eq!(
        snapshot.provider,
        client.provider(&us).await.expect(what),
        "{what}"
    );
    assert_eq!(snapshot.params, client.params().await.expect(what), "{what}");
    for (id, state) in ids
        .iter()
        .zip([BidState::Active, BidState::Closed, BidState::Open])
    {
        let bid = client.bid(id).await.expect(what).value.expect(what);
        assert_eq!(bid.state, state, "{what}");
        let same = snapshot.bids.iter().filter(|b| b.id == *id);
        assert!(
            same.eq([&bid]),
            "{what}: {state:?} bids on open orders and live ones are in it once"
        );
        let order = client.order(&id.order).await.expect(what).expect(what);
        let open = order.state == OrderState::Open;
        assert_eq!(
            snapshot.orders.contains(&order),
            open,
            "{what}: open orders alone are in it"
        );
    }
    listings_agree(client, &ids, &snapshot, what).await;
    driver.close_deployment(orders[0].deployment()).await;
}

async fn listings_agree(client: &dyn ChainClient, ids: &[BidId], snapshot: &Snapshot, what: &str) {
    let (us, deployment) = (&ids[0].provider, ids[0].deployment());
    let leases = LeaseFilter {
        provider: Some(us.clone()),
        deployment: Some(deployment.clone()),
        state: Some(LeaseState::Active),
    };
    let listed = client
        .leases(&leases, PageRequest::default())
        .await
        .expect(what)
        .items;
    let ours = |l: &&crate::types::LeaseRecord| l.lease.id.deployment() == deployment;
    assert_eq!(
        listed.iter().map(|l| &l.lease.id).collect::<Vec<_>>(),
        [&ids[0]],
        "{what}"
    );
    assert!(snapshot.leases.iter().filter(ours).eq(&listed), "{what}");
    let record = client.deployment(deployment).await.expect(what).expect(what);
    assert!(snapshot.deployments.contains(&record), "{what}");
    assert_eq!(record.groups.len(), 3, "{what}");
    let bids = BidFilter {
        order: None,
        provider: Some(us.clone()),
        state: Some(BidState::Open),
    };
    let open = client
        .bids(&bids, PageRequest::default())
        .await
        .expect(what)
        .items;
    assert!(
        open.iter().any(|b| b.id == ids[2]),
        "{what}: open bids are listed"
    );
    assert!(
        open.iter().all(|b| b.state == BidState::Open),
        "{what}: and no others"
    );
    let bids = BidFilter {
        order: Some(ids[2].order.clone()),
        ..BidFilter::default()
    };
    let of_order = client
        .bids(&bids, PageRequest::default())
        .await
        .expect(what)
        .items;
    assert!(
        of_order.iter().any(|b| b.id == ids[2]) && of_order.iter().all(|b| b.id.order == ids[2].order),
        "{what}: the bids of one order are listed, and no others"
    );
}
