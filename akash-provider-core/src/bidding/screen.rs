//! What would become of an order: every question of a bid in its order, and nothing is kept of the answers.

use super::{Decline, Facts, check_bid_count, judge_price, price_request, should_bid};
use crate::engine::reservations::Capacity;
use crate::error::Failure;
use crate::inventory::Explanation;
use crate::pricing::PriceRequest;
use crate::types::{DecCoin, Order, ResourceUnit};
use std::sync::Arc;

/// What would become of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What would be bid, or the first reason not to bid.
    pub bid: Result<Offer, Decline>,
    /// Which nodes have room for it, whatever else speaks against a bid.
    pub explanation: Explanation,
}

/// What a bid would say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// For the whole group, per block.
    pub price: DecCoin,
    /// The units that would be reserved: commit levels applied, GPU models concrete.
    pub units: Arc<Vec<ResourceUnit>>,
}

impl Offer {
    /// The bid that follows from an answer to what [`consider`] said to ask for.
    ///
    /// # Errors
    /// What [`judge_price`] has against the answer.
    pub fn priced(request: &PriceRequest, answer: Result<DecCoin, Failure>) -> Result<Self, Decline> {
        let price = judge_price(&request.group, answer).map_err(Decline::shortened)?;
        let units = request.allocated.clone().unwrap_or_default();
        Ok(Self { price, units })
    }
}

/// Everything that is looked at before a price is asked for, and what to ask it for. It takes as long as the group is
/// large and the cluster has nodes: up to some milliseconds.
///
/// # Errors
/// The first reason not to bid: the one for which the engine would decline the order.
pub fn consider(order: &Order, facts: &Facts<'_>, capacity: &mut Capacity) -> Result<PriceRequest, Decline> {
    should_bid(order, facts, capacity.config())?;
    let units = capacity.fit(&order.spec).map_err(Decline::shortened)?;
    // After the place, as in the engine: the bids of others are counted only for an order that has one.
    if let (Some(bids), Some(params)) = (facts.bids, facts.params) {
        check_bid_count(bids, params)?;
    }
    let utilization = capacity.utilization(&units);
    let mut request = price_request(order, Arc::new(units));
    request.utilization = Some(Box::new(utilization));
    Ok(request)
}

/// What would become of an order: [`consider`], the price within
/// [`pricing_timeout`](crate::config::Config::pricing_timeout), and why each node has room or not.
///
/// It is what the engine does with the order when nothing happens in between, but for what only doing it shows: whether
/// the chain takes the bid, and whether the account can pay for it.
#[cfg(feature = "runtime")]
pub async fn screen(
    order: &Order,
    facts: &Facts<'_>,
    capacity: &mut Capacity,
    pricing: &dyn crate::pricing::PricingStrategy,
) -> Verdict {
    let explanation = capacity.explain(&order.spec);
    let bid = match consider(order, facts, capacity) {
        Ok(request) => Offer::asked(&request, pricing, capacity.config().pricing_timeout).await,
        Err(decline) => Err(decline),
    };
    Verdict { bid, explanation }
}

#[cfg(feature = "runtime")]
impl Offer {
    /// Asks a strategy for the price, for at most so long.
    ///
    /// # Errors
    /// As of [`Offer::priced`]; no answer in time is no price.
    pub async fn asked(
        request: &PriceRequest,
        pricing: &dyn crate::pricing::PricingStrategy,
        limit: std::time::Duration,
    ) -> Result<Self, Decline> {
        let answer = match tokio::time::timeout(limit, pricing.calculate_price(request)).await {
            Ok(answer) => answer.map_err(|error| error.to_failure()),
            Err(_) => Err(Failure {
                kind: crate::error::ErrorKind::Timeout,
                transient: true,
                message: format!("calculate price: no answer within {limit:?}"),
            }),
        };
        Self::priced(request, answer)
    }
}
