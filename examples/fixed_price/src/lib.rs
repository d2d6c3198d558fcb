//! Custom price strategy: every order costs the same.

use akash_provider_core::Error;
use akash_provider_core::pricing::{PriceRequest, PricingStrategy};
use akash_provider_core::types::{Dec, DecCoin};
use async_trait::async_trait;

/// Constant price per block for every order.
#[derive(Debug, Clone, Copy)]
pub struct FixedPrice {
    amount: Dec,
}

impl FixedPrice {
    /// Creates a strategy with this price in the denomination of each order, or `None` for a price of zero or
    /// less.
    #[must_use]
    pub fn new(amount: Dec) -> Option<Self> {
        (amount > Dec::ZERO).then_some(Self { amount })
    }
}

#[async_trait]
impl PricingStrategy for FixedPrice {
    async fn calculate_price(&self, request: &PriceRequest) -> Result<DecCoin, Error> {
        // The denomination is that of the tenant's maximum price. A group without units has none.
        let maximum = request
            .maximum()
            .map_err(|e| e.into_error("price at a fixed rate"))?;
        Ok(DecCoin::new(&maximum.denom, self.amount))
    }
}

/// Doc tests of the page `docs/writing-a-pricing-strategy.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/writing-a-pricing-strategy.md")]
pub struct Guide;
