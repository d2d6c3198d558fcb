//! Evaluation of an order without side effects. The steps are those of a bid, in the same order, but no
//! capacity is reserved.

use super::{Decline, OrderContext, check_bid_count, judge_price, price_request, should_bid};
use crate::engine::reservations::Capacity;
use crate::error::Failure;
use crate::inventory::Explanation;
use crate::pricing::PriceRequest;
use crate::types::{DecCoin, Order, ResourceUnit};
use std::sync::Arc;

/// Result of the evaluation of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderVerdict {
    /// Bid that the provider would place, or the first reason not to bid.
    pub bid: Result<Offer, Decline>,
    /// Reasons why the order fits or does not fit on each node. Complete even if the order is declined.
    pub explanation: Explanation,
}

/// Content of a bid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Price of the whole group, per block.
    pub price: DecCoin,
    /// Units to reserve for the bid, with overcommit applied. Each unit with GPUs names one model.
    pub units: Arc<Vec<ResourceUnit>>,
}

impl Offer {
    /// Creates the offer from the response of a pricing strategy to `request`.
    ///
    /// # Errors
    /// Returns the errors of [`judge_price`].
    pub fn from_price(request: &PriceRequest, answer: Result<DecCoin, Failure>) -> Result<Self, Decline> {
        let price = judge_price(&request.group, answer).map_err(Decline::shortened)?;
        let units = request.allocated.clone().unwrap_or_default();
        Ok(Self { price, units })
    }
}

/// Runs all checks that precede the price calculation, and returns the price request. The call takes up to
/// some milliseconds.
///
/// # Errors
/// Returns the first reason not to bid. The engine reports the same reason.
pub fn evaluate(
    order: &Order,
    facts: &OrderContext<'_>,
    capacity: &mut Capacity,
) -> Result<PriceRequest, Decline> {
    should_bid(order, facts, capacity.config())?;
    let units = capacity.fit(&order.spec).map_err(Decline::shortened)?;
    // After the placement, as in the engine: bids of others are counted only for an order that can be placed.
    if let (Some(bids), Some(params)) = (facts.bids, facts.params) {
        check_bid_count(bids, params)?;
    }
    let utilization = capacity.utilization(&units);
    let mut request = price_request(order, Arc::new(units));
    request.utilization = Some(Box::new(utilization));
    Ok(request)
}

/// Evaluates an order, requests its price, and explains for each node whether the order fits.
///
/// The engine makes the same decision in the same state, with two exceptions: the chain refuses the bid, or
/// the account cannot pay for the bid.
#[cfg(feature = "runtime")]
pub async fn screen(
    order: &Order,
    facts: &OrderContext<'_>,
    capacity: &mut Capacity,
    pricing: &dyn crate::pricing::PricingStrategy,
) -> OrderVerdict {
    let explanation = capacity.explain(&order.spec);
    let bid = match evaluate(order, facts, capacity) {
        Ok(request) => Offer::request(&request, pricing, capacity.config().pricing_timeout).await,
        Err(decline) => Err(decline),
    };
    OrderVerdict { bid, explanation }
}

#[cfg(feature = "runtime")]
impl Offer {
    /// Requests the price from a strategy and waits for at most `limit`.
    ///
    /// # Errors
    /// Returns the errors of [`Offer::from_price`]. A timeout is reported as a failed price calculation.
    pub async fn request(
        request: &PriceRequest,
        pricing: &dyn crate::pricing::PricingStrategy,
        limit: std::time::Duration,
    ) -> Result<Self, Decline> {
        let answer = match tokio::time::timeout(limit, pricing.calculate_price(request)).await {
            Ok(answer) => answer.map_err(|error| error.to_failure()),
            Err(_) => Err(Failure::transient(
                crate::error::ErrorKind::Timeout,
                format!("calculate price: no response within {limit:?}"),
            )),
        };
        Self::from_price(request, answer)
    }
}
