//! The form in which a policy is written.

use bigdecimal::BigDecimal;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;

/// The only version of the form there is.
pub const VERSION: u32 = 1;

/// A policy as it is written, in YAML, JSON or TOML. An unknown key is an error, so that a slip of the pen changes no price
/// in silence.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PolicyFile {
    /// [`VERSION`].
    pub version: u32,
    /// The time that all prices are for.
    #[serde(default)]
    pub per: Period,
    /// Seconds from block to block, by which prices become prices per block; the network's long mean is 6.117.
    #[serde(default = "mean_block_time")]
    pub block_seconds: Amount,
    /// What one base unit of each denomination is worth in the unit of the prices: `uact: 0.000001` for prices in ACT.
    /// An order in another denomination has no price.
    pub denominations: BTreeMap<String, Amount>,
    /// What resources cost where no rule says otherwise.
    pub prices: Prices,
    /// The least that an order costs.
    #[serde(default)]
    pub minimum: Option<Amount>,
    /// What is dearer when little of it is left, from the lowest share upwards.
    #[serde(default)]
    pub scarcity: Vec<Scarcity>,
    /// The first that an order meets counts for it, and no other.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

/// The time that prices are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Period {
    /// 30.437 days, a twelfth of a year.
    #[default]
    Month,
    /// An hour.
    Hour,
    /// A block, whatever time that takes.
    Block,
}

/// What resources cost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Prices {
    /// A core.
    pub cpu: Amount,
    /// A GiB of memory.
    pub memory: Amount,
    /// A GiB, by storage class; `ephemeral` is what is not persistent. A class without a price gets no bid.
    pub storage: BTreeMap<String, Amount>,
    /// An endpoint of a unit.
    pub endpoint: Amount,
    /// A leased IP.
    pub ip: Amount,
    /// A GPU, by `*`, `vendor/*` or `vendor/model`, the last with `/ram/<size>` or `/interface/<kind>` where wanted.
    /// Empty leaves GPUs without a price; with entries, a GPU that none of them fits gets no bid.
    pub gpu: BTreeMap<String, Amount>,
}

/// A mark-up from some share of use upwards.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Scarcity {
    /// Share of the cluster in use with the order, from 0 to 1: of the scarcest resource that the order asks for.
    pub above: Amount,
    /// What the price is multiplied by.
    pub multiply: Amount,
}

/// What some orders cost, or that they get no bid.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Rule {
    /// Named in the reason of a bid or decline.
    pub name: String,
    /// Which orders: those that meet all that is said here. Empty is every order.
    #[serde(default)]
    pub when: When,
    /// No bid for them.
    #[serde(default)]
    pub deny: bool,
    /// Prices instead of the policy's own.
    #[serde(default)]
    pub prices: Option<Prices>,
    /// What the price is multiplied by: 0.9 is a tenth off.
    #[serde(default)]
    pub multiply: Option<Amount>,
    /// The least that such an order costs, instead of the policy's own.
    #[serde(default)]
    pub minimum: Option<Amount>,
}

/// Which orders a rule is for. Several values of one line are alternatives; several lines must all be met.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct When {
    /// Accounts of tenants.
    pub tenants: Vec<String>,
    /// Attributes that the order asks of its provider, all of them.
    pub attributes: BTreeMap<String, String>,
    /// GPUs that the order gets: `*`, `vendor/*` or `vendor/model`.
    pub gpu: Vec<String>,
    /// Storage classes, one of which the order asks for.
    pub storage: Vec<String>,
    /// Cores of the whole order, at least.
    pub cpu_at_least: Option<Amount>,
    /// Cores of the whole order, at most.
    pub cpu_at_most: Option<Amount>,
    /// GiB of memory of the whole order, at least.
    pub memory_at_least: Option<Amount>,
    /// GiB of memory of the whole order, at most.
    pub memory_at_most: Option<Amount>,
}

/// A decimal number, written as a number or as text; what a reader of YAML takes for a binary fraction keeps the digits
/// that were written, up to fifteen of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Amount(BigDecimal);

/// Longest number, in bytes.
const NUMBER_MAX: usize = 100;
/// Most digits before and behind the point: what is written as `1e999999999` would cost a gigabyte to compute with.
const DIGITS_MAX: i64 = 40;

impl Amount {
    /// A number; `None` where it has more than 40 digits before or behind the point.
    #[must_use]
    pub fn new(number: BigDecimal) -> Option<Self> {
        let behind = number.fractional_digit_count();
        let before = i64::try_from(number.digits()).ok()?.checked_sub(behind)?;
        let digits = -DIGITS_MAX..=DIGITS_MAX;
        (digits.contains(&behind) && digits.contains(&before)).then_some(Self(number))
    }

    /// The number.
    #[must_use]
    pub const fn number(&self) -> &BigDecimal {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Number)
    }
}

struct Number;

impl Visitor<'_> for Number {
    type Value = Amount;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a decimal number")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Amount, E> {
        let parsed = Some(text).filter(|text| text.len() <= NUMBER_MAX);
        let parsed = parsed.and_then(|text| text.trim().parse().ok());
        parsed.and_then(Amount::new).ok_or_else(|| {
            let shown: String = text.chars().take(NUMBER_MAX).collect();
            E::custom(format!("`{shown}` is not a decimal number such as 1.5, of at most 40 digits before and behind the point"))
        })
    }

    fn visit_i64<E>(self, number: i64) -> Result<Amount, E> {
        Ok(Amount(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Amount, E> {
        Ok(Amount(number.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Amount, E> {
        if !number.is_finite() {
            return Err(E::custom(format!("{number} is not a decimal number")));
        }
        // The shortest text that is this number, which is what was written.
        self.visit_str(&number.to_string())
    }
}

fn mean_block_time() -> Amount {
    Amount(BigDecimal::new(6_117.into(), 3))
}
