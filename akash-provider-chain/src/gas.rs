//! What a transaction costs: gas as estimated, a fee at the price the node asks for.
//!
//! An estimate comes from simulating the complete transaction with its fee; what it then uses is within a few
//! thousand of that, so a fifth more is plenty. Bids of one shape use the same gas and are estimated once. What a
//! close or a withdrawal uses depends on what it meets (118k or 252k for a close), so each is estimated anew.

mod ceilings;
mod spent;

use crate::signer::Price;
use akash_provider_core::types::{Address, Coin, Dec, DecCoin, Denom, Height, Msg};
pub use ceilings::{Ceilings, Most, Scope, TooMuch};
pub use spent::{MemorySpent, Minute, Spent, SpentStore};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Blocks an estimate is good for: an upgrade of the chain may change what things cost.
const ESTIMATE_BLOCKS: u64 = 1_000;
/// Shapes that are remembered; there are a handful.
const SHAPES_MAX: usize = 64;
/// Gas limit of a usual bid. The network's bids of one unit have 134,760.
const BID_GAS: u64 = 150_000;
/// 10^18, the scale of a decimal.
const ONE: i128 = 1_000_000_000_000_000_000;

/// How gas is paid.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GasConfig {
    /// The token fees are paid in.
    pub denom: Denom,
    /// What is paid per unit of gas; more when the node asks for more.
    pub price: Dec,
    /// What is never exceeded, whatever a node asks for.
    pub price_max: Dec,
    /// Gas limit in per cent of the estimate.
    pub factor_percent: u32,
    /// Whose allowance pays; `None` for the signer.
    pub granter: Option<Address>,
    /// What is never paid, whatever a node says.
    pub ceilings: Ceilings,
}

impl Default for GasConfig {
    /// What the network's operators pay: 0.025uakt, up to twenty times that.
    fn default() -> Self {
        Self {
            denom: "uakt".into(),
            price: Dec::from_scaled(ONE / 40),
            price_max: Dec::from_scaled(ONE / 2),
            factor_percent: 120,
            granter: None,
            ceilings: Ceilings::at(Dec::from_scaled(ONE / 2)),
        }
    }
}

/// Why no fee can be offered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFee {
    /// The node takes other tokens.
    #[error("the node takes fees in {accepted}, not in {denom}: set another denomination or another node")]
    Denom {
        /// The token that fees are paid in here.
        denom: Denom,
        /// Tokens that the node takes, with commas between.
        accepted: String,
    },
    /// The node asks for too much.
    #[error(
        "the node asks for {asked} per unit of gas, the limit is {limit}: raise the limit or use another node"
    )]
    TooDear {
        /// Least price of the node, with its token.
        asked: String,
        /// Highest price that is paid here, with its token.
        limit: String,
    },
}

impl GasConfig {
    /// What to pay per unit of gas, given what the node asks for.
    ///
    /// # Errors
    /// When it does not take our token or asks for more than the limit.
    pub fn price_at(&self, minimum: &[DecCoin]) -> Result<Dec, NoFee> {
        let ours = minimum.iter().find(|c| c.denom == self.denom);
        let asked = match ours {
            Some(coin) => coin.amount,
            // A node that names no price takes transactions for nothing.
            None if minimum.is_empty() => Dec::ZERO,
            None => {
                let accepted: Vec<&str> = minimum.iter().map(|c| &*c.denom).collect();
                return Err(NoFee::Denom {
                    denom: Arc::clone(&self.denom),
                    accepted: accepted.join(", "),
                });
            }
        };
        // Only what the node asks is held against the limit: our own price was set by the operator.
        if asked > self.price_max {
            let show = |amount| DecCoin::new(&self.denom, amount).to_string();
            return Err(NoFee::TooDear {
                asked: show(asked),
                limit: show(self.price_max),
            });
        }
        Ok(asked.max(self.price))
    }

    /// The fee for a gas limit: the whole amount that is not below the price.
    #[must_use]
    pub fn price(&self, gas_limit: u64, price: Dec) -> Price {
        Price {
            fee: Coin {
                denom: Arc::clone(&self.denom),
                amount: ceilings::cost(gas_limit, price),
            },
            gas_limit,
            granter: self.granter.clone(),
        }
    }

    /// The expected fee of a bid; an amount of 0 where a grant pays.
    #[must_use]
    pub fn bid_fee(&self) -> Coin {
        let mut fee = self.price(BID_GAS, self.price).fee;
        if self.granter.is_some() {
            fee.amount = 0;
        }
        fee
    }

    /// The gas limit of a transaction that was estimated at `used`; where there is no estimate, a generous one. It is
    /// never above the ceiling.
    #[must_use]
    pub fn limit_of(&self, msgs: &[Msg], used: Option<u64>) -> u64 {
        let limit = used.map_or_else(|| generous(msgs), |used| self.limit(used));
        limit.min(self.ceilings.of_messages(msgs).gas)
    }

    /// The gas limit for an estimate.
    #[must_use]
    pub fn limit(&self, used: u64) -> u64 {
        // A limit below the estimate would run out of gas each time.
        let percent = u128::from(self.factor_percent.max(100));
        u64::try_from((u128::from(used) * percent).div_ceil(100)).unwrap_or(u64::MAX)
    }
}

/// What makes two transactions use the same gas.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Shape(String);

impl Shape {
    /// The shape of a transaction; `None` where the gas depends on more than the messages.
    #[must_use]
    pub(crate) fn of(msgs: &[Msg]) -> Option<Self> {
        match msgs {
            [
                Msg::CreateBid {
                    deposit,
                    resources_offer,
                    reclamation_window,
                    ..
                },
            ] => {
                // The gas of a bid follows from how much of it is stored, not from its order or its price.
                let volumes: usize = resources_offer.iter().map(|u| u.resources.storage.len()).sum();
                let (units, window) = (resources_offer.len(), reclamation_window.is_some());
                Some(Self(format!("bid {units} {volumes} {window} {}", deposit.denom)))
            }
            _ => None,
        }
    }
}

/// Gas for a simulation, and for sending where simulating does not work: generous for what the messages use.
#[must_use]
pub(crate) fn generous(msgs: &[Msg]) -> u64 {
    let of = |msg: &Msg| match msg {
        Msg::CreateBid { resources_offer, .. } => 200_000 + 20_000 * resources_offer.len() as u64,
        Msg::CloseBid { .. } | Msg::WithdrawLease { .. } => 400_000,
        Msg::StartReclaim { .. } | Msg::CreateProvider(_) | Msg::UpdateProvider(_) => 200_000,
        Msg::CreateCertificate { .. } | Msg::RevokeCertificate { .. } => 200_000,
    };
    msgs.iter().map(of).sum()
}

/// Estimates of gas by shape, with the height they were made at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Estimates {
    known: BTreeMap<Shape, (u64, Height)>,
}

impl Estimates {
    /// The estimate for a transaction, if there is one that is still good.
    #[must_use]
    pub(crate) fn get(&self, msgs: &[Msg], height: Height) -> Option<u64> {
        let (used, at) = self.known.get(&Shape::of(msgs)?)?;
        (height.saturating_sub(*at) <= ESTIMATE_BLOCKS).then_some(*used)
    }

    /// Remembers an estimate made at a height; nothing where the transaction has no shape.
    pub(crate) fn put(&mut self, msgs: &[Msg], used: u64, height: Height) {
        if let Some(shape) = Shape::of(msgs) {
            // A shape that is forgotten costs one simulation; which to drop is not worth knowing.
            if self.known.len() >= SHAPES_MAX {
                self.known.clear();
            }
            self.known.insert(shape, (used, height));
        }
    }

    /// Forgets an estimate that was too low.
    pub(crate) fn forget(&mut self, msgs: &[Msg]) {
        if let Some(shape) = Shape::of(msgs) {
            self.known.remove(&shape);
        }
    }
}
