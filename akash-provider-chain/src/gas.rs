//! Cost of transactions: the estimated gas, and a fee at the gas price that the node requires.
//!
//! An estimate is the gas of a simulation of the complete transaction, including its fee. The transaction
//! then uses about the same gas (within a few thousand units), so a margin of 20 % is sufficient. Bids with
//! the same resources use the same gas and are estimated once. The gas of a close or a withdrawal depends on
//! the state of the chain: a close uses 118,000 or 252,000 units. Each close and each withdrawal is therefore
//! estimated separately.

mod ceilings;
mod expenses;

use crate::signer::TxFee;
use akash_provider_core::types::{Address, Coin, Dec, DecCoin, Denom, Height, Msg};
pub use ceilings::{CeilingError, CeilingScope, Ceilings, Cost};
pub(crate) use expenses::Expenses;
pub use expenses::{ExpenseStore, MemoryExpenses, Minute};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum age of a gas estimate, in blocks. An upgrade of the chain may change the required gas.
const ESTIMATE_BLOCKS: u64 = 1_000;
/// Maximum number of stored estimates. Normally, fewer than ten are stored.
const SHAPES_MAX: usize = 64;
/// Gas limit of a typical bid, in units of gas. Bids with one resource unit use 134,760 units on the Akash
/// network.
const BID_GAS: u64 = 150_000;
/// 10^18, the scale of a decimal.
const ONE: i128 = 1_000_000_000_000_000_000;

/// Settings for fees.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct GasConfig {
    /// Denomination of fees.
    pub denom: Denom,
    /// Price of one unit of gas. If a node requires a higher price, the price of the node applies.
    pub price: Dec,
    /// Maximum price of one unit of gas. No transaction is sent while the node requires more.
    pub price_max: Dec,
    /// Gas limit of a transaction, in percent of the estimated gas.
    pub factor_percent: u32,
    /// Chain account that pays the fees by a fee grant. `None` if the signer pays.
    pub granter: Option<Address>,
    /// Maximum gas and fees, regardless of the values that nodes report.
    pub ceilings: Ceilings,
}

impl Default for GasConfig {
    /// Returns the settings that most providers use: a gas price of 0.025uakt, and a maximum of 20 times this price.
    fn default() -> Self {
        Self {
            denom: "uakt".into(),
            price: Dec::from_scaled(ONE / 40),
            price_max: Dec::from_scaled(ONE / 2),
            factor_percent: 120,
            granter: None,
            ceilings: Ceilings::for_price(Dec::from_scaled(ONE / 2)),
        }
    }
}

/// Reason why the fee that a node requires cannot be paid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FeeError {
    /// The node does not accept the configured denomination.
    #[error(
        "the node accepts fees in {accepted}, not in {denom}: set --gas-prices in an accepted denomination, or use \
         another node"
    )]
    Denom {
        /// Configured denomination.
        denom: Denom,
        /// Denominations that the node accepts, separated by commas.
        accepted: String,
    },
    /// The gas price of the node is above the configured maximum.
    #[error(
        "the node requires a gas price of {required}, above the maximum of {limit}: raise --gas-prices, or use another \
         node"
    )]
    PriceAboveLimit {
        /// Minimum gas price of the node, with its denomination.
        required: String,
        /// Configured maximum gas price, with its denomination.
        limit: String,
    },
}

impl GasConfig {
    /// Returns the price of one unit of gas. `minimum` contains the minimum gas prices of the node.
    ///
    /// # Errors
    /// Returns an error if the node does not accept the configured denomination, or if the minimum price of
    /// the node is above [`price_max`](Self::price_max).
    pub fn price_at(&self, minimum: &[DecCoin]) -> Result<Dec, FeeError> {
        let ours = minimum.iter().find(|c| c.denom == self.denom);
        let required = match ours {
            Some(coin) => coin.amount,
            // A node without a minimum price accepts transactions without a fee.
            None if minimum.is_empty() => Dec::ZERO,
            None => {
                let accepted: Vec<&str> = minimum.iter().map(|c| &*c.denom).collect();
                return Err(FeeError::Denom {
                    denom: Arc::clone(&self.denom),
                    accepted: accepted.join(", "),
                });
            }
        };
        // The limit applies to the price of the node only. The operator has configured the own price.
        if required > self.price_max {
            let show = |amount| DecCoin::new(&self.denom, amount).to_string();
            return Err(FeeError::PriceAboveLimit {
                required: show(required),
                limit: show(self.price_max),
            });
        }
        Ok(required.max(self.price))
    }

    /// Returns the gas limit and the fee of a transaction. The fee is `gas_limit` times the gas price `price`, rounded
    /// up.
    #[must_use]
    pub fn price(&self, gas_limit: u64, price: Dec) -> TxFee {
        TxFee {
            fee: Coin::new(Arc::clone(&self.denom), ceilings::cost(gas_limit, price)),
            gas_limit,
            granter: self.granter.clone(),
        }
    }

    /// Returns the expected fee of a bid. The amount is 0 if another account pays the fee by a fee grant.
    #[must_use]
    pub fn bid_fee(&self) -> Coin {
        let mut fee = self.price(BID_GAS, self.price).fee;
        if self.granter.is_some() {
            fee.amount = 0;
        }
        fee
    }

    /// Returns the gas limit of a transaction, at most the gas ceiling of the messages.
    ///
    /// `used` is the estimated gas, or `None` if no estimate exists.
    #[must_use]
    pub fn gas_limit(&self, msgs: &[Msg], used: Option<u64>) -> u64 {
        let limit = used.map_or_else(|| generous_limit(msgs), |used| self.limit(used));
        limit.min(self.ceilings.for_messages(msgs).gas)
    }

    /// Returns the gas limit for an estimate of `used` units of gas.
    #[must_use]
    pub fn limit(&self, used: u64) -> u64 {
        // With a limit below the estimate, every transaction would run out of gas.
        let percent = u128::from(self.factor_percent.max(100));
        u64::try_from((u128::from(used) * percent).div_ceil(100)).unwrap_or(u64::MAX)
    }
}

/// Properties that determine the gas of a transaction, encoded as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Shape(String);

impl Shape {
    /// Returns the shape of a transaction, or `None` if its gas depends on more than the messages.
    pub(crate) fn for_messages(msgs: &[Msg]) -> Option<Self> {
        match msgs {
            [
                Msg::CreateBid {
                    deposit,
                    resources_offer,
                    reclamation_window,
                    ..
                },
            ] => {
                // The gas of a bid depends on the size of its stored record, not on the order or the price.
                let volumes: usize = resources_offer.iter().map(|u| u.resources.storage.len()).sum();
                let (units, window) = (resources_offer.len(), reclamation_window.is_some());
                Some(Self(format!("bid {units} {volumes} {window} {}", deposit.denom)))
            }
            _ => None,
        }
    }
}

/// Returns a gas limit that is higher than these messages need.
pub(crate) fn generous_limit(msgs: &[Msg]) -> u64 {
    let of = |msg: &Msg| match msg {
        Msg::CreateBid { resources_offer, .. } => 200_000 + 20_000 * resources_offer.len() as u64,
        Msg::CloseBid { .. } | Msg::WithdrawLease { .. } => 400_000,
        Msg::StartReclaim { .. } | Msg::CreateProvider(_) | Msg::UpdateProvider(_) => 200_000,
        Msg::CreateCertificate { .. } | Msg::RevokeCertificate { .. } => 200_000,
    };
    msgs.iter().map(of).sum()
}

/// Gas estimates by [`Shape`], each with the height of the simulation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Estimates {
    values: BTreeMap<Shape, (u64, Height)>,
}

impl Estimates {
    /// Returns the stored estimate for a transaction, unless the estimate is too old.
    pub(crate) fn get(&self, msgs: &[Msg], height: Height) -> Option<u64> {
        let (used, at) = self.values.get(&Shape::for_messages(msgs)?)?;
        (height.saturating_sub(*at) <= ESTIMATE_BLOCKS).then_some(*used)
    }

    /// Stores the gas estimate of a transaction, if the transaction has a [`Shape`].
    pub(crate) fn put(&mut self, msgs: &[Msg], used: u64, height: Height) {
        if let Some(shape) = Shape::for_messages(msgs) {
            // A removed estimate costs one simulation, so the choice of the removed estimates does not matter.
            if self.values.len() >= SHAPES_MAX {
                self.values.clear();
            }
            self.values.insert(shape, (used, height));
        }
    }

    /// Removes an estimate that was too low.
    pub(crate) fn remove(&mut self, msgs: &[Msg]) {
        if let Some(shape) = Shape::for_messages(msgs) {
            self.values.remove(&shape);
        }
    }
}
