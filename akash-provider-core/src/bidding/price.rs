//! The request for a price, and the check of the calculated price.

use super::Decline;
use crate::error::Failure;
use crate::pricing::{PRICE_PRECISION, PriceRequest};
use crate::types::{DecCoin, GroupSpec, MarketParams, Order, ResourceUnit};
use std::sync::Arc;

/// Creates the price request for an order, without the utilization of the cluster. `units` are the resource
/// units to reserve.
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

/// Checks the response of a pricing strategy, and returns the price to bid for the group.
///
/// # Errors
/// Returns [`Decline::Price`] after a failure of the strategy, [`Decline::InvalidGroup`] for units with
/// several denominations, and the errors of [`check_price`].
pub fn judge_price(group: &GroupSpec, answer: Result<DecCoin, Failure>) -> Result<DecCoin, Decline> {
    let price = answer.map_err(|failure| Decline::Price {
        message: failure.message,
    })?;
    let maximum = group.max_price().ok_or_else(|| Decline::InvalidGroup {
        problem: "its units have no valid total price in one token".to_owned(),
    })?;
    check_price(&price, &maximum)?;
    Ok(price)
}

/// Checks that the chain accepts prices in the denomination of a group.
///
/// # Errors
/// Returns [`Decline::PriceDenom`] if the chain does not accept this denomination.
pub fn check_denom(group: &GroupSpec, params: &MarketParams) -> Result<(), Decline> {
    let order = group.max_price().map(|price| price.denom).unwrap_or_default();
    let accepted = || params.bid_min_deposits.iter().map(|deposit| &deposit.denom);
    if accepted().any(|denom| *denom == order) {
        return Ok(());
    }
    let accepted: Vec<&str> = accepted().map(|denom| &**denom).collect();
    Err(Decline::PriceDenom {
        price: accepted.join(" or "),
        order: order.to_string(),
    })
}

/// Checks that a price has the denomination of the tenant, is above zero and does not exceed `maximum`.
///
/// # Errors
/// Returns [`Decline::PriceDenom`], [`Decline::Price`] or [`Decline::PriceTooHigh`].
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
