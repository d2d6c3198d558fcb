//! Components of a price.

use crate::types::price::Dec;
use serde::{Deserialize, Serialize};

/// A component of a price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Line {
    /// Name of the resource, or the reason for the surcharge or discount.
    pub what: String,
    /// Amount per block, in the denomination of the price; negative for a discount.
    pub amount: Dec,
}
