//! What is asked for a price, and whether the answer is worth a bid.

use super::Decline;
use crate::error::Failure;
use crate::pricing::{PRICE_PRECISION, PriceRequest};
use crate::types::{DecCoin, GroupSpec, Order, ResourceUnit};
use std::sync::Arc;

/// What a price is asked for: an order with the units that are, or would be, reserved for it. How much of the cluster
/// is in use only the ledger knows, which adds it.
#[must_use]
pub fn price_request(order: &Order, units: Arc<Vec<ResourceUnit>>) -> PriceRequest {
    PriceRequest {
        owner: order.id.owner().clone(),
        group: Arc::clone(&order.spec),
        allocated: Some(units),
        precision: PRICE_PRECISION,
        utilization: None,
        height: None,
    }
}

/// The price to bid for a group, from what a strategy has answered.
///
/// # Errors
/// [`Decline::Price`] when there is none, [`Decline::InvalidGroup`] when the units of the group have no common price,
/// and what [`check_price`] has against it.
pub fn judge_price(group: &GroupSpec, answer: Result<DecCoin, Failure>) -> Result<DecCoin, Decline> {
    let price = answer.map_err(|failure| Decline::Price {
        message: failure.message,
    })?;
    let maximum = group.max_price().ok_or_else(|| Decline::InvalidGroup {
        problem: "its units have no common price".to_owned(),
    })?;
    check_price(&price, &maximum)?;
    Ok(price)
}

/// Whether a price is worth a bid: the tenant's denomination, above zero and not above `maximum`, which may
/// be reached.
///
/// # Errors
/// [`Decline::PriceDenom`], [`Decline::Price`] or [`Decline::PriceTooHigh`]. The denomination is first: a
/// price in another one makes the chain fail instead of refuse.
pub fn check_price(price: &DecCoin, maximum: &DecCoin) -> Result<(), Decline> {
    if price.denom != maximum.denom {
        return Err(Decline::PriceDenom {
            price: price.denom.to_string(),
            order: maximum.denom.to_string(),
        });
    }
    if price.amount.is_negative() || price.amount.is_zero() {
        return Err(Decline::Price {
            message: format!("{price} is not above zero"),
        });
    }
    if price.amount > maximum.amount {
        return Err(Decline::PriceTooHigh {
            price: price.to_string(),
            maximum: maximum.to_string(),
        });
    }
    Ok(())
}
