//! The check of an outage of the nodes. The suite cannot cause an outage, so the tests of a client cause it.

use super::{ChainClient, Driver, Events, bid_id, commit, create_bid, resync, rule};
use crate::chain::{BidFilter, LeaseFilter, OrderFilter, PageRequest};
use crate::conformance::{Outage, Rule, SearchResult};
use crate::error::{Error, chain_text};
use crate::types::{BidId, BidState, ChainEvent};
use futures::future::{BoxFuture, FutureExt, join_all};
use std::fmt::Debug;
use std::time::Duration;

/// Time after which the suite cancels a query during an outage. A query without a response is not a
/// violation.
const SILENCE: Duration = Duration::from_secs(2);

/// Checks that every query returns an error or waits during an outage. After the outage, the events continue
/// with a `Resync`.
///
/// # Panics
/// Panics when the client violates the rule.
pub async fn a_failed_query_is_never_an_absence(
    client: &dyn ChainClient,
    driver: &dyn Driver,
    outage: &Outage<'_>,
) {
    let what = &rule("a failed query is never an absence");
    let order = what
        .answer("Driver::create_deployment", driver.create_deployment(1))
        .await
        .remove(0);
    what.answer("Driver::next_block", driver.next_block()).await;
    let id = bid_id(&order, &driver.provider());
    commit(client, driver, create_bid(&id, driver), what).await;
    let mut events = client.subscribe(&driver.provider());
    resync(&mut events, what).await;
    (outage.start)().await;
    for (call, result) in join_all(queries(client, &id)).await {
        fails(call, result, what);
    }
    (outage.end)().await;
    continues(&mut events, &id, what).await;
    let bid = what.there("bid", what.ok("bid", client.bid(&id)).await.value);
    what.holds(
        bid.state == BidState::Open,
        format!(
            "the bid was expected to be open after the outage and is {:?}",
            bid.state
        ),
    );
    what.answer(
        "Driver::close_deployment",
        driver.close_deployment(order.deployment()),
    )
    .await;
}

/// Name of a query and its result as text, or `None` if the query was still waiting after [`SILENCE`].
type Queried = (&'static str, Option<Result<String, Error>>);

fn query<'a, T: Debug>(
    call: &'static str,
    result: impl Future<Output = Result<T, Error>> + Send + 'a,
) -> BoxFuture<'a, Queried> {
    async move {
        let result = tokio::time::timeout(SILENCE, result).await.ok();
        (
            call,
            result.map(|result| result.map(|value| format!("{value:?}"))),
        )
    }
    .boxed()
}

fn queries<'a>(client: &'a dyn ChainClient, id: &'a BidId) -> Vec<BoxFuture<'a, Queried>> {
    let (us, group) = (&id.provider, &id.order.group);
    let page = PageRequest::default;
    vec![
        query("provider", client.provider(us)),
        query("orders", async move {
            client.orders(&OrderFilter::default(), page()).await
        }),
        query("order", client.order(&id.order)),
        query("bid", client.bid(id)),
        query(
            "bids",
            async move { client.bids(&BidFilter::default(), page()).await },
        ),
        query("group", client.group(group)),
        query("deployment", client.deployment(&group.deployment)),
        query("lease", client.lease(id)),
        query("leases", async move {
            client.leases(&LeaseFilter::default(), page()).await
        }),
        query("auditor_attributes", client.auditor_attributes(us.as_str(), us)),
        query("certificates", client.certificates(us, None)),
        query("account", client.account(us)),
        query("balance", client.balance(us, "uact")),
        query("sync_info", client.sync_info()),
        query("snapshot", client.snapshot(us)),
    ]
}

fn fails(call: &str, result: Option<Result<String, Error>>, what: &Rule) {
    match result {
        Some(Ok(value)) => what.broken(format!(
            "`{call}` was expected to fail while no node responds and returned {value}"
        )),
        Some(Err(error)) => what.holds(
            error.is_transient(),
            format!(
                "`{call}` was expected to fail with Unavailable or Timeout while no node responds and failed with \
                 {:?}: {}",
                error.kind(),
                chain_text(&error)
            ),
        ),
        None => {}
    }
}

/// Reads events until a `Resync` contains the bid.
async fn continues(events: &mut Events, id: &BidId, what: &Rule) {
    let found = what.find("subscribe", events, |event| match event {
        Ok(ChainEvent::Resync(snapshot)) => Some(snapshot.bids.iter().any(|bid| bid.id == *id)),
        _ => None,
    });
    let found = found.await;
    what.holds(
        found == SearchResult::Item(true),
        format!("a `Resync` with the open bid was expected after the outage: {found:?}"),
    );
}
