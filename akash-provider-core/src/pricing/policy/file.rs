//! File format of a price policy.

use bigdecimal::BigDecimal;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;

/// The only supported version of the format.
pub const VERSION: u32 = 1;

/// A policy file in YAML, JSON or TOML. An unknown key is an error.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PolicyFile {
    /// Version of the format, [`VERSION`].
    pub version: u32,
    /// Period to which all prices in the file refer: a month, an hour or a block.
    #[serde(default)]
    pub per: Period,
    /// Average block time in seconds, to convert prices per month or hour to prices per block. The long-term
    /// mean of the Akash network is 6.117.
    #[serde(default = "mean_block_time")]
    pub block_seconds: Amount,
    /// Value of one base unit of each denomination, in the currency of the prices. For prices in ACT: `uact:
    /// 0.000001`. Orders in other denominations have no price.
    pub denominations: BTreeMap<String, Amount>,
    /// Prices of resources. A rule can replace these prices.
    pub prices: Prices,
    /// Minimum price of an order.
    #[serde(default)]
    pub minimum: Option<Amount>,
    /// Surcharges for scarce resources, in ascending order of `above`.
    #[serde(default)]
    pub scarcity: Vec<Scarcity>,
    /// Rules. Only the first matching rule applies to an order.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

/// Period to which the prices of a policy file refer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Period {
    /// A twelfth of a year, 30.437 days.
    #[default]
    Month,
    /// One hour.
    Hour,
    /// One block, of any duration.
    Block,
}

/// Prices of resources.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Prices {
    /// Price of a core.
    pub cpu: Amount,
    /// Price of a GiB of memory.
    pub memory: Amount,
    /// Price of a GiB of storage, by storage class. The class of ephemeral volumes is `ephemeral`. The
    /// provider does not bid on an order with any other class.
    pub storage: BTreeMap<String, Amount>,
    /// Price of an endpoint. The replicas of a resource unit share the endpoints, so the price does not
    /// depend on the number of replicas.
    pub endpoint: Amount,
    /// Price of a leased IP.
    pub ip: Amount,
    /// Price of a GPU, by `*`, `vendor/*` or `vendor/model`. The form `vendor/model` can be followed by
    /// `/ram/<size>` or `/interface/<kind>`. Without entries, GPUs cost nothing. With entries, the provider
    /// declines an order with a GPU that no entry matches.
    pub gpu: BTreeMap<String, Amount>,
}

/// Surcharge that applies if a requested resource is scarce.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Scarcity {
    /// Threshold of the surcharge, from 0 to 1: the share of the scarcest requested resource that is in use.
    /// The resources of the order count as in use.
    pub above: Amount,
    /// Factor by which the price is multiplied.
    pub multiply: Amount,
}

/// Prices for certain orders, or the instruction to decline these orders.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Rule {
    /// Name of the rule, shown in the reason for a bid or a decline.
    pub name: String,
    /// Conditions of the rule. All of them must be met. A rule without conditions matches every order.
    #[serde(default)]
    pub when: When,
    /// Whether matching orders are declined.
    #[serde(default)]
    pub deny: bool,
    /// Prices that replace the prices of the policy.
    #[serde(default)]
    pub prices: Option<Prices>,
    /// Factor by which the price is multiplied; 0.9 is a discount of 10 %.
    #[serde(default)]
    pub multiply: Option<Amount>,
    /// Minimum price of a matching order, instead of the minimum of the policy.
    #[serde(default)]
    pub minimum: Option<Amount>,
}

/// Conditions of a rule. All conditions must be met. If a condition has several values, one matching value is
/// sufficient, except for `attributes`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct When {
    /// Accounts of the tenants to which the rule applies.
    pub tenants: Vec<String>,
    /// Attributes of the provider. The order must require each of these attributes.
    pub attributes: BTreeMap<String, String>,
    /// GPU kinds: `*`, `vendor/*` or `vendor/model`. The order must request at least one of them.
    pub gpu: Vec<String>,
    /// Storage classes. The order must request at least one of them.
    pub storage: Vec<String>,
    /// Minimum number of cores of the whole order.
    pub cpu_at_least: Option<Amount>,
    /// Maximum number of cores of the whole order.
    pub cpu_at_most: Option<Amount>,
    /// Minimum memory of the whole order, in GiB.
    pub memory_at_least: Option<Amount>,
    /// Maximum memory of the whole order, in GiB.
    pub memory_at_most: Option<Amount>,
}

/// A decimal number, written as a number or as text. If the YAML parser reads the number as a float, at most
/// fifteen digits are exact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Amount(BigDecimal);

/// Maximum length of a number, in bytes.
const NUMBER_MAX: usize = 100;
/// Maximum number of digits on each side of the decimal point. Without this limit, `1e999999999` would need a
/// gigabyte.
const DIGITS_MAX: i64 = 40;

impl Amount {
    /// Creates an amount, or returns `None` for more than 40 digits before or after the decimal point.
    #[must_use]
    pub fn new(number: BigDecimal) -> Option<Self> {
        let behind = number.fractional_digit_count();
        let before = i64::try_from(number.digits()).ok()?.checked_sub(behind)?;
        let digits = -DIGITS_MAX..=DIGITS_MAX;
        (digits.contains(&behind) && digits.contains(&before)).then_some(Self(number))
    }

    /// Returns the number.
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
            let short: String = text.chars().take(NUMBER_MAX).collect();
            E::custom(format!("`{short}` is not a decimal number such as 1.5, with at most 40 digits before and after the decimal point"))
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
        // The shortest text that represents the number equals the written text.
        self.visit_str(&number.to_string())
    }
}

fn mean_block_time() -> Amount {
    Amount(BigDecimal::new(6_117.into(), 3))
}
