//! Open orders of a deployment, and the bids on them.

use akash_provider_chain::Reader;
use akash_provider_core::chain::{BidFilter, ChainQuery, OrderFilter, PageRequest};
use akash_provider_core::types::{Bid, BidState, DeploymentId, OrderId, OrderState};

/// Returns the open orders of a deployment.
///
/// # Errors
/// Returns an error if no node responds.
pub async fn open_orders(reader: &Reader, id: &DeploymentId) -> anyhow::Result<Vec<OrderId>> {
    let filter = OrderFilter {
        state: Some(OrderState::Open),
        deployment: Some(id.clone()),
    };
    let mut orders = Vec::new();
    let mut request = PageRequest::default();
    loop {
        let page = reader.orders(&filter, request.clone()).await?;
        orders.extend(page.items.into_iter().map(|o| o.id));
        match page.next {
            Some(key) => request.key = Some(key),
            None => return Ok(orders),
        }
    }
}

/// Returns the open bids on an order, the cheapest first.
///
/// # Errors
/// Returns an error if no node responds.
pub async fn open_bids(reader: &Reader, order: &OrderId) -> anyhow::Result<Vec<Bid>> {
    let filter = BidFilter {
        order: Some(order.clone()),
        state: Some(BidState::Open),
        ..BidFilter::default()
    };
    // An order has at most as many bids as a page.
    let mut bids: Vec<Bid> = reader.bids(&filter, PageRequest::default()).await?.items;
    bids.sort_by_key(|bid| bid.price.amount);
    Ok(bids)
}
