//! What a lease is to cost.
//!
//! ```text
//!   PriceRequest ──► scale         so much per CPU, MiB, endpoint, IP (and GPU, where set); pure
//!                ──► policy        a file of the operator: money per month, scarcity, rules for some orders; pure
//!                ──► random_range  a number in the low end of a range by memory; for tests; pure
//!                ──► shell_script  whatever a program of the operator prints (feature `shell-script`)
//! ```
//! The pure strategies are called directly without the `runtime` feature and through [`PricingStrategy`] with it.

#[cfg(feature = "conformance")]
pub mod conformance;
mod gpu;
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
pub use utilization::{Used, Utilization};

/// Decimal places passed to price scripts.
pub const PRICE_PRECISION: u32 = 6;

/// Highest price the chain's decimals are sorted up to, in whole units.
const MAX_PRICE: i64 = 1_000_000_000_000_000_000;

/// What is to be priced.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PriceRequest {
    /// Account of the tenant whose order it is.
    pub owner: Address,
    /// The group as ordered.
    pub group: Arc<GroupSpec>,
    /// The units as reserved (commit levels applied, GPU models concrete); `None` without a reservation.
    pub allocated: Option<Arc<Vec<ResourceUnit>>>,
    /// Decimal places that a price script is told.
    pub precision: u32,
    /// How much of the cluster is in use before and after this order; `None` where that is not known. It is of the
    /// moment at which the price is asked for.
    pub utilization: Option<Box<Utilization>>,
    /// Height of the order's block, where the order is priced for the first time; `None` for a later look and for a
    /// screening. Orders of one block are to have one price list.
    #[serde(default)]
    pub height: Option<Height>,
}

impl PriceRequest {
    /// The units to price: the reserved ones where there are any, else the ordered ones.
    #[must_use]
    pub fn units(&self) -> &[ResourceUnit] {
        self.allocated.as_ref().map_or(&self.group.resources, |a| a)
    }

    /// In the order of the group: each unit as ordered, and as reserved where it is.
    pub fn pairs(&self) -> impl Iterator<Item = (&ResourceUnit, &ResourceUnit)> {
        let reserved: &[ResourceUnit] = self.allocated.as_ref().map_or(&[], |a| a);
        self.group.resources.iter().enumerate().map(move |(at, ordered)| {
            let id = ordered.resources.id;
            // Mostly it is at the same place, so the others are looked at only where it is not.
            let in_place = reserved.get(at).filter(|u| u.resources.id == id);
            let found = in_place.or_else(|| reserved.iter().find(|u| u.resources.id == id));
            (ordered, found.unwrap_or(ordered))
        })
    }

    /// The most the tenant pays, in the denomination a price must have.
    ///
    /// # Errors
    /// [`PriceError::NoMaximum`] when the group has none.
    pub fn maximum(&self) -> Result<DecCoin, PriceError> {
        self.group.max_price().ok_or(PriceError::NoMaximum)
    }
}

/// Why there is no price for an order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PriceError {
    /// No units, several denominations, or a maximum beyond what a price can be.
    #[error("the group has no single price: it has no units, mixes denominations or asks for too much")]
    NoMaximum,
    /// A volume of a class that has no price.
    #[error("no pricing configured for storage class `{class}`; set a storage price for it")]
    NoStorageClass {
        /// Storage class that the volume asks for.
        class: String,
    },
    /// GPUs have prices and none fits this one.
    #[error("no pricing configured for GPU `{model}`; set a price for it, its vendor or `*`")]
    NoGpu {
        /// Vendor and model of the GPU.
        model: String,
    },
    /// The policy's first rule that the order meets denies it.
    #[error("the price policy's rule `{rule}` denies this order")]
    Denied {
        /// Name of the rule.
        rule: String,
    },
    /// A denomination whose worth the policy does not say.
    #[error("the price policy has no worth for the denomination `{denom}`; add it to `denominations`")]
    NoDenomination {
        /// Denomination of the order.
        denom: String,
    },
    /// The price came out as zero.
    #[error("a bid of zero was produced")]
    Zero,
    /// The price came out below zero.
    #[error("the bid quantity is invalid: it is below zero")]
    Negative,
    /// The price is beyond 10^18.
    #[error("the bid quantity is invalid: it is above 10^18")]
    TooLarge,
}

impl PriceError {
    /// The same as an error of a port.
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

/// A price from an amount: above zero and at most 10^18.
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
/// The price is in the group's denomination, above zero, for the whole group per block. It may be above what
/// the tenant pays; the caller compares. A price is never reused for another order.
///
/// # Behavior
/// - A group without units has no price: `Invalid`.
/// - An order that it does not price, such as one in a denomination that it has no prices in: `Invalid`.
/// - Up to 32 calls run at the same time and do not mix up their answers. What each may start, such as processes or
///   connections, has a limit.
/// - A call that takes longer than `pricing_timeout` is dropped. A call whose future is dropped leaves nothing running
///   and later calls unharmed.
/// - Where units are reserved ([`PriceRequest::allocated`]) those are what is sold.
///
/// # Errors
/// `Invalid` when there is no price for this order, `Timeout` or `Unavailable` when a source did not answer.
///
/// # Implementing
/// Run `pricing::conformance::suite` (feature `conformance`) on it.
#[cfg(feature = "runtime")]
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait::async_trait]
#[auto_impl::auto_impl(Arc, Box)]
pub trait PricingStrategy: std::fmt::Debug + Send + Sync + 'static {
    /// The price of one order.
    async fn calculate_price(&self, request: &PriceRequest) -> Result<DecCoin, crate::error::Error>;
}

#[cfg(test)]
mod fixtures;
