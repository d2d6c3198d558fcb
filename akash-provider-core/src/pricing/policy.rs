//! Prices from a policy file of the operator: resource prices per month or hour, surcharges for scarce
//! resources, and rules for certain orders.
//!
//! ```text
//!  PriceRequest ──► first matching rule ──► deny?  PriceError::Denied
//!                          │ prices (of the rule or the policy), in the order's denomination, per block
//!                          ▼
//!               Σ resource × price ──► × rule ──► × scarcity ──► at least the minimum ──► price and its lines
//! ```
//! The calculation is pure: the same order at the same utilization always gets the same price. Prices are
//! exact to 18 fractional digits, in the base unit of the denomination.

mod file;
mod when;

pub use super::line::Line;
use super::scale::{Scale, ScaleConfig};
use super::{PriceError, PriceRequest, price_of};
use crate::types::price::Dec;
use crate::types::{DecCoin, Denom};
use bigdecimal::{BigDecimal, Zero};
pub use file::{Amount, Period, PolicyFile, Prices, Rule, Scarcity, VERSION, When};
use std::collections::{BTreeMap, BTreeSet};
use when::OrderMatcher;

/// Maximum number of rules, because each order is compared with each rule.
const RULES_MAX: usize = 1_000;
/// Maximum number of denominations.
const DENOMINATIONS_MAX: usize = 20;
/// Maximum number of entries in `scarcity`, the surcharges by utilization of the cluster.
const STEPS_MAX: usize = 100;
/// Maximum length of the name of a rule, in bytes.
const NAME_MAX: usize = 100;
/// Number of fractional digits of a price per block for one unit: a millicore, MiB, endpoint, IP or GPU.
const DIGITS: i64 = 36;
/// Seconds per month: a twelfth of a year of 365.244 days.
const MONTH_S: u64 = 2_629_757;
const HOUR_S: u64 = 3_600;

/// An invalid policy, with the location of the problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {problem}")]
pub struct PolicyError {
    at: String,
    problem: String,
}

impl PolicyError {
    fn new(at: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            at: at.into(),
            problem: problem.into(),
        }
    }

    /// Returns the path of the invalid key: `rules[2].when.gpu[0]`.
    #[must_use]
    pub fn at(&self) -> &str {
        &self.at
    }
}

/// Calculated price of an order, with its components.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quote {
    /// Price of the whole order, per block.
    pub price: DecCoin,
    /// Name of the applied rule; `None` if no rule matches.
    pub rule: Option<String>,
    /// Components of the price: first the resources, then the surcharges and discounts. The sum of all
    /// components is the price.
    pub lines: Vec<Line>,
}

/// Pricing strategy that applies the prices and rules of a policy file.
#[derive(Debug, Clone)]
pub struct Policy {
    prices: PriceList,
    minimum: BTreeMap<Denom, Dec>,
    scarcity: Vec<ScarcityStep>,
    rules: Vec<PricingRule>,
}

/// Prices of the resources, converted to each accepted denomination.
#[derive(Debug, Clone)]
struct PriceList(BTreeMap<Denom, Scale>);

#[derive(Debug, Clone)]
struct ScarcityStep {
    above: Dec,
    multiply: Dec,
}

#[derive(Debug, Clone)]
struct PricingRule {
    name: String,
    orders: OrderMatcher,
    is_denied: bool,
    prices: Option<PriceList>,
    multiply: Option<Dec>,
    minimum: Option<BTreeMap<Denom, Dec>>,
}

/// For each denomination, the factor that converts an amount in the file to base units per block.
struct Conversion(Vec<(Denom, BigDecimal)>);

impl Policy {
    /// Creates a policy from a parsed file.
    ///
    /// # Errors
    /// Returns [`PolicyError`] if the version is unknown, if a price is negative or has too many digits, if
    /// the policy has no price, if a rule can never match or has a duplicate name, or if a limit is exceeded.
    pub fn new(file: PolicyFile) -> Result<Self, PolicyError> {
        if file.version != VERSION {
            let problem = format!("unknown version {}; it must be {VERSION}", file.version);
            return Err(PolicyError::new("version", problem));
        }
        let conversion = Conversion::new(&file)?;
        let mut rules = Vec::new();
        at_most("rules", file.rules.len(), RULES_MAX)?;
        let mut names = BTreeSet::new();
        for (number, rule) in file.rules.into_iter().enumerate() {
            let at = format!("rules[{number}]");
            if !names.insert(rule.name.clone()) {
                let problem = format!("`{}` is the name of two rules", rule.name);
                return Err(PolicyError::new(format!("{at}.name"), problem));
            }
            if rules
                .last()
                .is_some_and(|last: &PricingRule| last.orders.is_all())
            {
                let problem = "the rule never applies: the previous rule matches every order";
                return Err(PolicyError::new(at, problem));
            }
            rules.push(PricingRule::new(&at, rule, &conversion)?);
        }
        Ok(Self {
            prices: PriceList::new("prices", file.prices, &conversion)?,
            minimum: conversion.minimum("minimum", file.minimum)?.unwrap_or_default(),
            scarcity: steps(file.scarcity)?,
            rules,
        })
    }

    /// Calculates the price of one order.
    ///
    /// # Errors
    /// Returns the errors of [`Self::quote`].
    pub fn price(&self, request: &PriceRequest) -> Result<DecCoin, PriceError> {
        let denom = request.maximum()?.denom;
        let rule = self.rule(request)?;
        let (base, factors, minimum) = self.parts(request, &denom, rule)?;
        let raised = factors
            .iter()
            .try_fold(base, |sum, (_, factor)| sum.checked_mul(*factor));
        let raised = raised.ok_or(PriceError::TooLarge)?;
        price_of(&denom, raised.max(minimum))
    }

    /// Calculates the price of one order with its components.
    ///
    /// # Errors
    /// Returns [`PriceError`] if a rule denies the order, or if the price is zero or too high. Also returns
    /// an error if the group has no single denomination, or if the policy has no price for a denomination,
    /// storage class or GPU.
    pub fn quote(&self, request: &PriceRequest) -> Result<Quote, PriceError> {
        let denom = request.maximum()?.denom;
        let rule = self.rule(request)?;
        let scale = self.scale(&denom, rule)?;
        let (base, factors, minimum) = self.parts(request, &denom, rule)?;
        let mut lines: Vec<Line> = scale
            .lines(request)?
            .into_iter()
            .map(|(what, amount)| Line { what, amount })
            .collect();
        let mut sum = base;
        for (what, factor) in factors {
            let raised = sum.checked_mul(factor).ok_or(PriceError::TooLarge)?;
            let amount = raised.checked_sub(sum).ok_or(PriceError::TooLarge)?;
            lines.push(Line { what, amount });
            sum = raised;
        }
        if let Some(amount) = minimum.checked_sub(sum).filter(|more| *more > Dec::ZERO) {
            let what = "up to the minimum".to_owned();
            lines.push(Line { what, amount });
        }
        Ok(Quote {
            price: price_of(&denom, sum.max(minimum))?,
            rule: rule.map(|rule| rule.name.clone()),
            lines,
        })
    }

    /// Returns the first rule that matches an order, or an error if this rule denies the order.
    fn rule(&self, request: &PriceRequest) -> Result<Option<&PricingRule>, PriceError> {
        let met = self.rules.iter().find(|rule| rule.orders.has(request));
        match met {
            Some(rule) if rule.is_denied => Err(PriceError::Denied {
                rule: rule.name.clone(),
            }),
            met => Ok(met),
        }
    }

    fn scale<'a>(&'a self, denom: &Denom, rule: Option<&'a PricingRule>) -> Result<&'a Scale, PriceError> {
        let own = rule.and_then(|rule| rule.prices.as_ref());
        let PriceList(prices) = own.unwrap_or(&self.prices);
        prices.get(denom).ok_or_else(|| PriceError::NoDenomination {
            denom: super::scale::shorten(denom),
        })
    }

    /// Returns three values: the sum of the resource prices, the factors for this sum, and the minimum price.
    #[expect(
        clippy::type_complexity,
        reason = "three values for two callers in this module"
    )]
    fn parts(
        &self,
        request: &PriceRequest,
        denom: &Denom,
        rule: Option<&PricingRule>,
    ) -> Result<(Dec, Vec<(String, Dec)>, Dec), PriceError> {
        let base = self.scale(denom, rule)?.sum(request)?;
        let of_rule = rule.and_then(|rule| Some((format!("rule `{}`", rule.name), rule.multiply?)));
        let factors = of_rule.into_iter().chain(self.scarcity(request)).collect();
        let minimum = rule
            .and_then(|rule| rule.minimum.as_ref())
            .unwrap_or(&self.minimum);
        Ok((base, factors, minimum.get(denom).copied().unwrap_or(Dec::ZERO)))
    }

    /// Returns the description and the factor of the scarcity surcharge. The utilization of the scarcest
    /// requested resource selects an entry of `scarcity`: the entry with the highest limit below this
    /// utilization. Returns `None` if no entry applies or the utilization is unknown.
    fn scarcity(&self, request: &PriceRequest) -> Option<(String, Dec)> {
        let (resource, share) = request.utilization.as_ref()?.scarcest(request.units())?;
        let step = self.scarcity.iter().rev().find(|step| share > step.above)?;
        Some((
            format!("scarcity: {resource} is in use to {}", share.to_plain()),
            step.multiply,
        ))
    }
}

#[cfg(feature = "runtime")]
#[async_trait::async_trait]
impl super::PricingStrategy for Policy {
    async fn calculate_price(&self, request: &PriceRequest) -> Result<DecCoin, crate::error::Error> {
        self.price(request).map_err(|e| e.into_error("price by policy"))
    }

    fn price_lines(&self, request: &PriceRequest) -> Option<Vec<Line>> {
        Some(self.quote(request).ok()?.lines)
    }
}

impl PricingRule {
    fn new(at: &str, rule: Rule, conversion: &Conversion) -> Result<Self, PolicyError> {
        if rule.name.trim().is_empty() || rule.name.len() > NAME_MAX {
            let problem = format!("a rule needs a name of at most {NAME_MAX} bytes");
            return Err(PolicyError::new(format!("{at}.name"), problem));
        }
        let changes = rule.prices.is_some() || rule.multiply.is_some() || rule.minimum.is_some();
        if rule.deny && changes {
            let problem = "a denied order has no price: remove `deny` or the prices";
            return Err(PolicyError::new(format!("{at}.deny"), problem));
        }
        let prices = rule
            .prices
            .map(|prices| PriceList::new(&format!("{at}.prices"), prices, conversion));
        let multiply = rule
            .multiply
            .map(|amount| factor(&format!("{at}.multiply"), &amount));
        Ok(Self {
            orders: OrderMatcher::new(at, rule.when)?,
            name: rule.name,
            is_denied: rule.deny,
            prices: prices.transpose()?,
            multiply: multiply.transpose()?,
            minimum: conversion.minimum(&format!("{at}.minimum"), rule.minimum)?,
        })
    }
}

impl PriceList {
    fn new(at: &str, prices: Prices, conversion: &Conversion) -> Result<Self, PolicyError> {
        let wrong = |error: super::scale::ScaleError| PolicyError::new(at, error.to_string());
        let in_each = conversion.0.iter().map(|(denom, factor)| {
            let per = |amount: &Amount, pieces: u32| {
                rounded(&(amount.number() * factor / BigDecimal::from(pieces)))
            };
            let all = |prices: &BTreeMap<String, Amount>, pieces: u32| {
                let one = |(name, amount): (&String, &Amount)| (name.clone(), per(amount, pieces));
                prices.iter().map(one).collect()
            };
            let config = ScaleConfig {
                cpu: per(&prices.cpu, 1000),
                memory: per(&prices.memory, 1024),
                storage: all(&prices.storage, 1024),
                endpoint: per(&prices.endpoint, 1),
                ip: per(&prices.ip, 1),
                gpu: all(&prices.gpu, 1),
            };
            Ok((denom.clone(), Scale::new(config).map_err(wrong)?))
        });
        in_each.collect::<Result<_, _>>().map(Self)
    }
}

impl Conversion {
    fn new(file: &PolicyFile) -> Result<Self, PolicyError> {
        at_most("denominations", file.denominations.len(), DENOMINATIONS_MAX)?;
        if file.denominations.is_empty() {
            let problem = "add at least one denomination, for example `uact: 0.000001`";
            return Err(PolicyError::new("denominations", problem));
        }
        let block = positive("block_seconds", &file.block_seconds)?;
        let blocks = match file.per {
            Period::Block => BigDecimal::from(1),
            Period::Hour => BigDecimal::from(HOUR_S) / block,
            Period::Month => BigDecimal::from(MONTH_S) / block,
        };
        let factors = file.denominations.iter().map(|(denom, worth)| {
            let worth = positive(&format!("denominations.{denom}"), worth)?;
            Ok((
                Denom::from(denom.as_str()),
                BigDecimal::from(1) / (worth * &blocks),
            ))
        });
        factors.collect::<Result<_, _>>().map(Self)
    }

    fn minimum(&self, at: &str, amount: Option<Amount>) -> Result<Option<BTreeMap<Denom, Dec>>, PolicyError> {
        let Some(amount) = amount else {
            return Ok(None);
        };
        let in_each = self.0.iter().map(|(denom, factor)| {
            let converted = decimal(at, &(amount.number() * factor))?;
            Ok((denom.clone(), converted))
        });
        in_each.collect::<Result<_, _>>().map(Some)
    }
}

fn steps(steps: Vec<Scarcity>) -> Result<Vec<ScarcityStep>, PolicyError> {
    at_most("scarcity", steps.len(), STEPS_MAX)?;
    let mut made: Vec<ScarcityStep> = Vec::new();
    for (number, step) in steps.into_iter().enumerate() {
        let at = format!("scarcity[{number}]");
        let above = decimal(&format!("{at}.above"), step.above.number())?;
        if made.last().is_some_and(|last| last.above >= above) {
            let problem = "steps must be in ascending order: this value must be above the previous one";
            return Err(PolicyError::new(format!("{at}.above"), problem));
        }
        let multiply = factor(&format!("{at}.multiply"), &step.multiply)?;
        made.push(ScarcityStep { above, multiply });
    }
    Ok(made)
}

fn at_most(at: &str, count: usize, most: usize) -> Result<(), PolicyError> {
    if count > most {
        return Err(PolicyError::new(
            at,
            format!("{count} entries; the limit is {most}"),
        ));
    }
    Ok(())
}

fn positive(at: &str, amount: &Amount) -> Result<BigDecimal, PolicyError> {
    let number = amount.number();
    if *number <= BigDecimal::zero() || decimal(at, number)?.is_zero() {
        return Err(PolicyError::new(at, format!("{number} must be above zero")));
    }
    Ok(number.clone())
}

fn factor(at: &str, amount: &Amount) -> Result<Dec, PolicyError> {
    positive(at, amount)?;
    decimal(at, amount.number())
}

/// Rounds a non-negative amount to 18 fractional digits.
fn decimal(at: &str, amount: &BigDecimal) -> Result<Dec, PolicyError> {
    let digits = amount
        .digits()
        .max(amount.fractional_digit_count().unsigned_abs());
    // A quotient has at most a hundred digits, an amount eighty.
    let plain = (digits <= 1_000).then(|| amount.with_scale_round(18, bigdecimal::RoundingMode::HalfUp));
    let parsed = plain.and_then(|plain| plain.to_plain_string().parse::<Dec>().ok());
    match parsed {
        Some(dec) if !dec.is_negative() => Ok(dec),
        Some(_) => Err(PolicyError::new(at, format!("{amount} is negative"))),
        None => Err(PolicyError::new(at, "the number is out of range")),
    }
}

fn rounded(amount: &BigDecimal) -> BigDecimal {
    amount.with_scale_round(DIGITS, bigdecimal::RoundingMode::HalfUp)
}

#[cfg(test)]
mod tests;
