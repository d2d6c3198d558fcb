//! Prices of leases.
//!
//! ```text
//!   PriceRequest ──► scale         an amount per CPU, MiB, endpoint, IP and GPU; pure
//!                ──► policy        a file of the operator: prices per month, scarcity, rules for orders; pure
//!                ──► random_range  a random number in the lower part of a range by memory; for tests; pure
//!                ──► shell_script  output of a program of the operator (feature `shell-script`)
//! ```
//! Without the `runtime` feature, the pure strategies can be called directly. With the `runtime` feature,
//! they also implement [`PricingStrategy`].

#[cfg(feature = "conformance")]
pub mod conformance;
mod gpu;
mod line;
pub mod policy;
pub mod random_range;
pub mod scale;
#[cfg(feature = "shell-script")]
pub mod shell_script;
mod utilization;

use crate::types::price::Dec;
use crate::types::{Address, DecCoin, Denom, GroupSpec, Height, ResourceUnit};
pub use policy::Policy;
pub use random_range::RandomRange;
pub use scale::{Scale, ScaleConfig};
use serde::{Deserialize, Serialize};
#[cfg(feature = "shell-script")]
pub use shell_script::{ShellScript, ShellScriptConfig, supervise};
use std::sync::Arc;
pub use utilization::{ResourceUsage, Utilization};

/// Number of decimal places passed to price scripts.
pub const PRICE_PRECISION: u32 = 6;

/// Maximum price, in whole units. The chain cannot sort decimals above this value.
const MAX_PRICE: i64 = 1_000_000_000_000_000_000;

/// Input of a price calculation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PriceRequest {
    /// Account of the tenant.
    pub owner: Address,
    /// Group that the tenant ordered.
    pub group: Arc<GroupSpec>,
    /// Reserved units, with overcommit applied and concrete GPU models; `None` if nothing is reserved.
    pub allocated: Option<Arc<Vec<ResourceUnit>>>,
    /// Number of decimal places of a price, for price scripts.
    pub precision: u32,
    /// Utilization of the cluster at the time of the request, without and with this order; `None` if unknown.
    pub utilization: Option<Box<Utilization>>,
    /// Height of the block with the order; `None` if the price of the order is calculated again. With the
    /// height, a strategy can use the same price list for all orders of a block.
    #[serde(default)]
    pub height: Option<Height>,
}

impl PriceRequest {
    /// Returns the units to price: the reserved units, or the units of the order if nothing is reserved.
    #[must_use]
    pub fn units(&self) -> &[ResourceUnit] {
        self.allocated.as_ref().map_or(&self.group.resources, |a| a)
    }

    /// Returns each unit of the order with its reserved unit, or with itself if nothing is reserved. The
    /// pairs are sorted as in the group.
    pub fn pairs(&self) -> impl Iterator<Item = (&ResourceUnit, &ResourceUnit)> {
        let reserved: &[ResourceUnit] = self.allocated.as_ref().map_or(&[], |a| a);
        self.group.resources.iter().enumerate().map(move |(at, ordered)| {
            let id = ordered.resources.id;
            // Usually at the same index, so the other units are searched only otherwise.
            let in_place = reserved.get(at).filter(|u| u.resources.id == id);
            let found = in_place.or_else(|| reserved.iter().find(|u| u.resources.id == id));
            (ordered, found.unwrap_or(ordered))
        })
    }

    /// Returns the maximum price that the tenant accepts, in the denomination of the order.
    ///
    /// # Errors
    /// Returns [`PriceError::NoMaximum`] if the group has no maximum price.
    pub fn maximum(&self) -> Result<DecCoin, PriceError> {
        self.group.max_price().ok_or(PriceError::NoMaximum)
    }
}

/// Reason why an order has no price.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PriceError {
    /// The group has no units, several denominations, or a maximum that overflows.
    #[error(
        "the order has no maximum price: its group has no units, several denominations, or a price that is too large"
    )]
    NoMaximum,
    /// A volume has a storage class for which no price is configured.
    #[error("no pricing configured for storage class `{class}`; set a storage price for it")]
    NoStorageClass {
        /// Storage class of the volume.
        class: String,
    },
    /// No configured GPU price matches this GPU.
    #[error("no pricing configured for GPU `{model}`; set a price for it, its vendor or `*`")]
    NoGpu {
        /// Vendor and model of the GPU.
        model: String,
    },
    /// The first matching rule of the policy denies the order.
    #[error("the price policy's rule `{rule}` denies this order")]
    Denied {
        /// Name of the policy rule.
        rule: String,
    },
    /// The policy has no conversion for the denomination.
    #[error("the price policy has no value for the denomination `{denom}`; add it to `denominations`")]
    NoDenomination {
        /// Denomination of the order.
        denom: String,
    },
    /// The calculated price is zero.
    #[error("the calculated price is zero")]
    Zero,
    /// The calculated price is negative.
    #[error("the calculated price is below zero")]
    Negative,
    /// The calculated price exceeds 10^18.
    #[error("the calculated price is above 10^18")]
    TooLarge,
}

impl PriceError {
    /// Converts the error to the error type of `PricingStrategy`.
    #[cfg(feature = "runtime")]
    #[must_use]
    pub fn into_error(self, operation: &'static str) -> crate::error::Error {
        crate::error::Error::new(
            crate::error::ErrorKind::Invalid,
            operation,
            "no price for this order",
        )
        .with_source(self)
    }
}

/// Creates a price from an amount above zero and at most 10^18.
fn price_of(denom: &Denom, amount: Dec) -> Result<DecCoin, PriceError> {
    if amount.is_zero() {
        Err(PriceError::Zero)
    } else if amount.is_negative() {
        Err(PriceError::Negative)
    } else if amount > Dec::from_int(MAX_PRICE) {
        Err(PriceError::TooLarge)
    } else {
        Ok(DecCoin::new(denom, amount))
    }
}

/// Calculates prices.
///
/// # Contract
/// The price is for the whole group per block, is above zero, and has the denomination of the group. A price
/// may exceed the maximum of the tenant, because the caller checks the maximum. The caller never uses a
/// price for another order.
///
/// # Behavior
/// - A group without units has no price: `Invalid`.
/// - An order without a price, for example in an unsupported denomination, is `Invalid`.
/// - Up to 32 calls run concurrently with independent results. The resources of a call, such as processes or
///   connections, are bounded.
/// - The caller drops a call that exceeds `pricing_timeout`. A dropped call stops its processes and does not
///   affect later calls.
/// - If the request has reserved units ([`PriceRequest::allocated`]), the price is that of the reserved
///   units.
///
/// # Errors
/// Returns `Invalid` if the order has no price, and `Timeout` or `Unavailable` if a data source did not
/// respond.
///
/// # Implementing
/// Run `pricing::conformance::suite` (feature `conformance`) with the implementation.
#[cfg(feature = "runtime")]
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait::async_trait]
#[auto_impl::auto_impl(Arc, Box)]
pub trait PricingStrategy: std::fmt::Debug + Send + Sync + 'static {
    /// Calculates the price of one order.
    async fn calculate_price(&self, request: &PriceRequest) -> Result<DecCoin, crate::error::Error>;

    /// Returns the components of the price of one order. Returns `None` if the strategy cannot explain its
    /// prices. The method must not block.
    fn price_lines(&self, request: &PriceRequest) -> Option<Vec<line::Line>> {
        let _ = request;
        None
    }
}

#[cfg(test)]
mod fixtures;
