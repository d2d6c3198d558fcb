//! A pricing strategy of one's own: every order costs the same.

use akash_provider_core::Error;
use akash_provider_core::pricing::{PriceRequest, PricingStrategy};
use akash_provider_core::types::{Dec, DecCoin};
use async_trait::async_trait;

/// One price per block for every order, whatever it asks for.
#[derive(Debug, Clone, Copy)]
pub struct FixedPrice {
    amount: Dec,
}

impl FixedPrice {
    /// So much per block, in the denomination of each order; `None` unless it is above zero.
    #[must_use]
    pub fn new(amount: Dec) -> Option<Self> {
        (amount > Dec::ZERO).then_some(Self { amount })
    }
}

#[async_trait]
impl PricingStrategy for FixedPrice {
    async fn calculate_price(&self, request: &PriceRequest) -> Result<DecCoin, Error> {
        // The tenant's maximum tells the denomination. A group without units has none, and so no price.
        let maximum = request
            .maximum()
            .map_err(|e| e.into_error("price at a fixed rate"))?;
        Ok(DecCoin::new(&maximum.denom, self.amount))
    }
}

/// The guide is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/writing-a-pricing-strategy.md")]
pub struct Guide;
