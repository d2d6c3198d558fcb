//! The conformance suite of [`ChainClient`].
//!
//! The suite needs a [`Driver`] that acts as the tenant and makes blocks. On a live chain, the driver signs
//! the transactions of the tenant and waits for blocks. [`MemoryDriver`] drives a
//! [`MemoryChain`](super::MemoryChain).
//!
//! ```
//! use akash_provider_core::chain::conformance::{self, MemoryDriver};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let driver = MemoryDriver::new();
//! conformance::suite(&driver.client(), &driver).await;
//! # }
//! ```
//!
//! The suite cannot cause an outage of the chain. The tests of a client cause the outage and call
//! [`a_failed_query_is_never_an_absence`] themselves. The suite does not check unknown outcomes of
//! transactions.

mod driver;
mod leases;
mod outage;
#[cfg(test)]
mod tests;

use super::{ChainClient, OrderFilter, PageRequest};
pub use crate::conformance::{ActionFn, Outage};
use crate::conformance::{Rule, SearchResult};
use crate::error::Error;
use crate::types::{
    Address, Attribute, BidId, BidState, ChainEvent, Coin, DeploymentId, Height, Msg, OrderId, OrderState,
    ProviderInfo, Snapshot, TxError, TxOutcome,
};
pub use driver::{Driver, MemoryDriver, deployment_of};
use futures::stream::BoxStream;
pub use leases::{
    a_lost_bid_is_visible_without_an_event, a_snapshot_equals_the_queries, leases_follow_their_life_cycle,
};
pub use outage::a_failed_query_is_never_an_absence;
use std::pin::pin;
use std::time::Duration;

/// Maximum number of blocks until a transaction is included.
const BLOCKS_MAX: u32 = 20;
/// Maximum time to wait for a call or for the next item of a stream.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs every check. The provider and the competing provider of the driver must be registered and able to pay
/// deposits. The tenant must be able to pay for a few deployments.
///
/// # Panics
/// Panics when the client violates a rule. The message names the rule.
pub async fn suite(client: &dyn ChainClient, driver: &dyn Driver) {
    missing_records_are_empty_results(client, driver).await;
    events_come_block_by_block(client, driver).await;
    an_order_accepts_one_bid(client, driver).await;
    a_transaction_is_all_or_nothing(client, driver).await;
    a_provider_record_equals_the_sent_record(client, driver).await;
    pages_cover_everything_once(client, driver).await;
    a_lost_bid_is_visible_without_an_event(client, driver).await;
    leases_follow_their_life_cycle(client, driver).await;
    a_snapshot_equals_the_queries(client, driver).await;
}

type Events = BoxStream<'static, Result<ChainEvent, Error>>;

pub(super) fn bid_id(order: &OrderId, provider: &Address) -> BidId {
    order.clone().bid(provider.clone())
}

pub(super) fn create_bid(id: &BidId, driver: &dyn Driver) -> Msg {
    Msg::CreateBid {
        id: id.clone(),
        price: driver.price(),
        deposit: Coin::new(driver.price().denom, 500_000),
        resources_offer: Vec::new(),
        reclamation_window: None,
    }
}

/// Sends a transaction and makes blocks until the outcome is known.
pub(super) async fn send(
    client: &dyn ChainClient,
    driver: &dyn Driver,
    msgs: Vec<Msg>,
    what: &Rule,
) -> TxOutcome {
    let mut outcome = pin!(client.broadcast_msgs(msgs));
    for _ in 0..BLOCKS_MAX {
        tokio::select! {
            biased;
            outcome = &mut outcome => return outcome.unwrap_or_else(|e| what.failed("broadcast_msgs", &e)),
            () = what.answer("Driver::next_block", driver.next_block()) => {}
        }
    }
    what.ok("broadcast_msgs", outcome).await
}

fn rule(name: &'static str) -> Rule {
    Rule::new(name, PATIENCE)
}

pub(super) async fn commit(client: &dyn ChainClient, driver: &dyn Driver, msg: Msg, what: &Rule) -> Height {
    let outcome = send(client, driver, vec![msg], what).await;
    let height = match &outcome {
        TxOutcome::Committed { height } => Some(*height),
        TxOutcome::Rejected { .. } | TxOutcome::Unknown { .. } => None,
    };
    assert!(height.is_some(), "{what}: {outcome:?}");
    height.unwrap_or_default()
}

pub(super) async fn refused(client: &dyn ChainClient, driver: &dyn Driver, msg: Msg, what: &Rule) -> TxError {
    let outcome = send(client, driver, vec![msg], what).await;
    let error = match &outcome {
        TxOutcome::Rejected { error, .. } => Some(*error),
        TxOutcome::Committed { .. } | TxOutcome::Unknown { .. } => None,
    };
    assert!(error.is_some(), "{what}: {outcome:?}");
    error.unwrap_or(TxError::Other)
}

pub(super) async fn next(events: &mut Events, what: &Rule) -> ChainEvent {
    match what.find("subscribe", events, Some).await {
        SearchResult::Item(Ok(event)) => event,
        SearchResult::Item(Err(error)) => what.failed("subscribe", &error),
        SearchResult::Ended => what.broken("the events were expected to go on and ended"),
        SearchResult::Late => what.broken(format!(
            "the next event was expected within {PATIENCE:?}: nothing came in time"
        )),
    }
}

/// Expects a `Resync` as the first item of the stream.
pub(super) async fn resync(events: &mut Events, what: &Rule) -> Snapshot {
    match next(events, what).await {
        ChainEvent::Resync(snapshot) => snapshot.as_ref().clone(),
        other => what.broken(format!(
            "a subscription was expected to start with a `Resync` and started with {other:?}"
        )),
    }
}

/// Collects the events of a deployment up to the event `last`. Then reads the rest of the block.
pub(super) async fn facts_until(
    events: &mut Events,
    deployment: &DeploymentId,
    last: &ChainEvent,
    what: &Rule,
) -> Vec<ChainEvent> {
    let mut facts = Vec::new();
    loop {
        let event = next(events, what).await;
        let found = event == *last;
        if of_deployment(&event, deployment) {
            facts.push(event);
        }
        if found {
            break;
        }
    }
    while !matches!(next(events, what).await, ChainEvent::Block { .. }) {}
    facts
}

fn of_deployment(event: &ChainEvent, deployment: &DeploymentId) -> bool {
    match event {
        ChainEvent::DeploymentCreated { id }
        | ChainEvent::DeploymentUpdated { id, .. }
        | ChainEvent::DeploymentClosed { id } => id == deployment,
        ChainEvent::GroupStarted { id } | ChainEvent::GroupPaused { id } | ChainEvent::GroupClosed { id } => {
            id.deployment == *deployment
        }
        ChainEvent::OrderCreated { id } | ChainEvent::OrderClosed { id } => id.deployment() == deployment,
        ChainEvent::BidCreated { id, .. }
        | ChainEvent::BidClosed { id }
        | ChainEvent::LeaseCreated { id, .. }
        | ChainEvent::LeaseClosed { id, .. }
        | ChainEvent::LeaseReclaimStarted { id, .. } => id.deployment() == deployment,
        ChainEvent::Resync(_)
        | ChainEvent::Block { .. }
        | ChainEvent::ProviderUpdated { .. }
        | ChainEvent::AuditChanged { .. } => false,
    }
}

/// Checks that a query for a missing record returns an empty result, not an error.
///
/// # Panics
/// Panics when the client violates the rule.
pub async fn missing_records_are_empty_results(client: &dyn ChainClient, driver: &dyn Driver) {
    let what = &rule("missing records are empty results");
    let unknown = Address::from_bytes(&[77; 20]).expect("20 bytes are an address");
    let order = driver.no_order();
    let id = bid_id(&order, &driver.provider());
    assert_eq!(
        what.ok("provider", client.provider(&unknown)).await,
        None,
        "{what}"
    );
    assert_eq!(what.ok("order", client.order(&order)).await, None, "{what}");
    assert_eq!(what.ok("group", client.group(&order.group)).await, None, "{what}");
    assert_eq!(
        what.ok("deployment", client.deployment(order.deployment())).await,
        None,
        "{what}"
    );
    assert_eq!(what.ok("bid", client.bid(&id)).await.value, None, "{what}");
    assert_eq!(what.ok("lease", client.lease(&id)).await.value, None, "{what}");
    assert_eq!(what.ok("account", client.account(&unknown)).await, None, "{what}");
    assert_eq!(
        what.ok("certificates", client.certificates(&unknown, Some("1")))
            .await,
        [],
        "{what}"
    );
    let us = driver.provider();
    let audit = client.auditor_attributes(unknown.as_str(), &us);
    let audit = what.ok("auditor_attributes", audit).await;
    assert_eq!(audit, None, "{what}: no auditor has signed");
    assert_eq!(
        what.ok("balance", client.balance(&unknown, "uact")).await.amount,
        0,
        "{what}"
    );
    let there = what.ok("provider", client.provider(&driver.provider())).await;
    assert_eq!(
        there.map(|p| p.owner),
        Some(driver.provider()),
        "{what}: the provider is registered"
    );
    let sync = what.ok("sync_info", client.sync_info()).await;
    assert!(
        !sync.catching_up,
        "{what}: a node that is catching up must not be queried"
    );
    let ahead = what
        .ok("block_time", client.block_time(sync.height + 1_000_000))
        .await;
    assert_eq!(ahead, None, "{what}: a future block has no time");
}

/// Checks the order of events: first `Resync`, then the facts of each block, then a `Block` with a greater
/// height.
///
/// # Panics
/// Panics when the client violates the rule.
pub async fn events_come_block_by_block(client: &dyn ChainClient, driver: &dyn Driver) {
    let what = &rule("events come block by block");
    let mut events = client.subscribe(&driver.provider());
    let first = resync(&mut events, what).await;
    let sync = what.ok("sync_info", client.sync_info()).await;
    assert_eq!(first.chain_id, sync.chain_id, "{what}");
    let order = what
        .answer("Driver::create_deployment", driver.create_deployment(1))
        .await
        .remove(0);
    let id = order.deployment().clone();
    what.answer("Driver::next_block", driver.next_block()).await;
    let created = ChainEvent::OrderCreated { id: order.clone() };
    let facts = facts_until(&mut events, &id, &created, what).await;
    assert_eq!(
        facts,
        [ChainEvent::DeploymentCreated { id: id.clone() }, created],
        "{what}"
    );
    let mut height = first.height;
    for _ in 0..3 {
        what.answer("Driver::next_block", driver.next_block()).await;
        let block = loop {
            if let ChainEvent::Block { height, time } = next(&mut events, what).await {
                break (height, time);
            }
        };
        assert!(block.0 > height, "{what}: block {} after {height}", block.0);
        height = block.0;
        let time = what.ok("block_time", client.block_time(height)).await;
        assert_eq!(
            time,
            Some(block.1),
            "{what}: query and event report the same time"
        );
    }
    let late = resync(&mut client.subscribe(&driver.provider()), what).await;
    assert!(
        late.orders.iter().any(|o| o.id == order),
        "{what}: the order is in a late Resync"
    );
    assert!(
        late.height >= height,
        "{what}: a Resync is not older than the last event"
    );
    what.answer("Driver::close_deployment", driver.close_deployment(&id))
        .await;
}

/// Checks that a committed bid is visible by query and by event, and that a second bid on the order is
/// refused, even after the first bid is closed.
///
/// # Panics
/// Panics when the client violates the rule.
pub async fn an_order_accepts_one_bid(client: &dyn ChainClient, driver: &dyn Driver) {
    let what = &rule("an order accepts one bid");
    let order = what
        .answer("Driver::create_deployment", driver.create_deployment(1))
        .await
        .remove(0);
    what.answer("Driver::next_block", driver.next_block()).await;
    let id = bid_id(&order, &driver.provider());
    let mut events = client.subscribe(&driver.provider());
    resync(&mut events, what).await;
    let height = commit(client, driver, create_bid(&id, driver), what).await;
    let seen = what.ok("bid", client.bid(&id)).await;
    assert!(
        seen.height >= height,
        "{what}: read at {} after {height}",
        seen.height
    );
    let bid = what.there("the result", seen.value);
    assert_eq!((bid.state, bid.created_at), (BidState::Open, height), "{what}");
    assert_eq!(bid.price, driver.price(), "{what}");
    let price = driver.price();
    let created = ChainEvent::BidCreated {
        id: id.clone(),
        price,
    };
    let facts = facts_until(&mut events, order.deployment(), &created, what).await;
    assert_eq!(facts, [created], "{what}");
    let again = refused(client, driver, create_bid(&id, driver), what).await;
    assert_eq!(again, TxError::BidExists, "{what}");
    commit(client, driver, leases::close_bid(&id), what).await;
    let again = refused(client, driver, create_bid(&id, driver), what).await;
    assert_eq!(again, TxError::BidExists, "{what}: also after a close");
    what.answer(
        "Driver::close_deployment",
        driver.close_deployment(order.deployment()),
    )
    .await;
}

/// Checks that a transaction has no effect when one of its messages is refused.
///
/// # Panics
/// Panics when the client violates the rule.
pub async fn a_transaction_is_all_or_nothing(client: &dyn ChainClient, driver: &dyn Driver) {
    let what = &rule("a transaction is all or nothing");
    let order = what
        .answer("Driver::create_deployment", driver.create_deployment(1))
        .await
        .remove(0);
    what.answer("Driver::next_block", driver.next_block()).await;
    let good = bid_id(&order, &driver.provider());
    let bad = bid_id(&driver.no_order(), &driver.provider());
    commit(client, driver, create_bid(&good, driver), what).await;
    let msgs = [&good, &bad].map(leases::close_bid).to_vec();
    let outcome = send(client, driver, msgs, what).await;
    let rejected = matches!(outcome, TxOutcome::Rejected { .. });
    assert!(rejected, "{what}: {outcome:?}");
    let bid = what.there("bid", what.ok("bid", client.bid(&good)).await.value);
    assert_eq!(bid.state, BidState::Open, "{what}");
    what.answer(
        "Driver::close_deployment",
        driver.close_deployment(order.deployment()),
    )
    .await;
}

/// Checks that an update replaces the whole provider record, including the contact information.
///
/// # Panics
/// Panics when the client violates the rule.
pub async fn a_provider_record_equals_the_sent_record(client: &dyn ChainClient, driver: &dyn Driver) {
    let what = &rule("a provider's record equals the sent record");
    let before = what.ok("provider", client.provider(&driver.provider())).await;
    let before = what.there("the result", before);
    let mut record = before.clone();
    record.attributes.push(Attribute::new("conformance", "true"));
    record.info = ProviderInfo {
        email: "people@provider.example".to_owned(),
        website: "https://provider.example".to_owned(),
    };
    for record in [record, before] {
        commit(client, driver, Msg::UpdateProvider(record.clone()), what).await;
        let found = what.ok("provider", client.provider(&driver.provider())).await;
        assert_eq!(found, Some(record), "{what}");
    }
}

/// Checks that consecutive small pages return every matching record once.
///
/// # Panics
/// Panics when the client violates the rule.
pub async fn pages_cover_everything_once(client: &dyn ChainClient, driver: &dyn Driver) {
    let what = &rule("pages cover everything once");
    let mut wanted = what
        .answer("Driver::create_deployment", driver.create_deployment(3))
        .await;
    what.answer("Driver::next_block", driver.next_block()).await;
    let deployment = what.there(
        "Driver::create_deployment",
        wanted.first().map(|o| o.deployment().clone()),
    );
    let filter = OrderFilter {
        state: Some(OrderState::Open),
        deployment: Some(deployment.clone()),
    };
    let mut request = PageRequest { key: None, limit: 2 };
    let mut seen = Vec::new();
    loop {
        let page = what.ok("orders", client.orders(&filter, request.clone())).await;
        assert!(page.items.len() <= 2, "{what}: a page does not exceed its limit");
        seen.extend(page.items.into_iter().map(|o| o.id));
        match page.next {
            Some(key) => request.key = Some(key),
            None => break,
        }
        assert!(seen.len() <= wanted.len(), "{what}: pages end");
    }
    seen.sort();
    wanted.sort();
    assert_eq!(seen, wanted, "{what}");
    what.answer("Driver::close_deployment", driver.close_deployment(&deployment))
        .await;
}
