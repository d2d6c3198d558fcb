//! What a lease is to cost.

use crate::types::{Address, DecCoin, GroupSpec, ResourceUnit};
use std::sync::Arc;

/// Decimal places passed to price scripts.
pub const PRICE_PRECISION: u32 = 6;

/// What is to be priced.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PriceRequest {
    /// The tenant.
    pub owner: Address,
    /// The group as ordered.
    pub group: Arc<GroupSpec>,
    /// The units as reserved (commit levels applied, GPU models concrete); `None` without a reservation.
    pub allocated: Option<Arc<Vec<ResourceUnit>>>,
    /// Decimal places wanted.
    pub precision: u32,
}

impl PriceRequest {
    /// The units to price: the reserved ones where there are any, else the ordered ones.
    #[must_use]
    pub fn units(&self) -> &[ResourceUnit] {
        self.allocated.as_ref().map_or(&self.group.resources, |a| a)
    }
}

/// Calculates prices.
///
/// # Contract
/// The price is in the group's denomination, above zero, for the whole group per block. It may be above what
/// the tenant pays; the caller compares. A price is never reused for another order.
///
/// # Errors
/// `Invalid` when there is no price for this order, `Timeout` or `Unavailable` when a source did not answer.
///
/// # Implementing
/// Run `pricing::conformance::suite` (feature `conformance`) on it.
#[cfg(feature = "runtime")]
#[async_trait::async_trait]
pub trait PricingStrategy: std::fmt::Debug + Send + Sync + 'static {
    /// The price of one order.
    async fn calculate_price(&self, request: &PriceRequest) -> Result<DecCoin, crate::error::Error>;
}
