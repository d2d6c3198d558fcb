//! The conformance suite of [`PricingStrategy`], to be called from a test:
//!
//! ```
//! # use akash_provider_core::pricing::{RandomRange, conformance};
//! # use std::sync::Arc;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! conformance::suite(Arc::new(RandomRange::new(1))).await;
//! # }
//! ```
//! The suite requests prices of plain orders: CPU, memory, ephemeral storage, one HTTP endpoint. A [`Setup`]
//! describes a strategy that does not price such orders, or not in `uact`. Every call has a time limit. A
//! failure names the rule and the expected result.

use super::{PRICE_PRECISION, PriceRequest, PricingStrategy};
use crate::conformance::Rule;
use crate::error::{Error, ErrorKind, chain_text};
use crate::types::price::Dec;
use crate::types::{
    Address, Attribute, Cpu, DecCoin, Endpoint, Gpu, GroupSpec, Memory, PlacementRequirements, ResourceUnit,
    Resources, Storage,
};
use futures::future::join_all;
use std::sync::Arc;
use std::time::Duration;

const CALL: &str = "calculate_price";
/// Number of concurrent calls that a check makes. A provider never makes more concurrent calls.
const CALLS: usize = 32;

/// Parameters of the suite for one strategy.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Setup {
    /// Denominations in which the strategy calculates prices, at least one.
    pub denoms: Vec<String>,
    /// A unit for which the strategy calculates a price. The `price` of the unit is the tenant's maximum
    /// price in each denomination of `denoms`.
    pub unit: ResourceUnit,
    /// Time limit of one call.
    pub timeout: Duration,
    /// Whether the price source of the strategy is unavailable. If true, every call must fail with
    /// `Unavailable` or `Timeout`.
    pub source_is_away: bool,
}

impl Default for Setup {
    /// Returns parameters for a strategy that prices in `uact`. The price source is available. The ordered
    /// unit has one replica with one core, 512 MiB memory, 1 GiB ephemeral storage and an HTTP endpoint. The
    /// maximum price is 1000 uact, and the time limit is 30 s.
    fn default() -> Self {
        Self {
            denoms: vec!["uact".to_owned()],
            unit: plain_unit(),
            timeout: Duration::from_secs(30),
            source_is_away: false,
        }
    }
}

impl Setup {
    fn rule(&self, name: &'static str) -> Rule {
        Rule::new(name, self.timeout)
    }

    fn unit(&self, denom: &str) -> ResourceUnit {
        let mut unit = self.unit.clone();
        unit.price.denom = denom.into();
        unit
    }

    /// Returns the first denomination.
    fn denom(&self) -> &str {
        self.denoms.first().map_or("uact", |denom| denom)
    }

    fn order(&self, denom: &str) -> PriceRequest {
        request(vec![self.unit(denom)])
    }
}

/// Checks every rule for a strategy that prices plain orders in `uact`.
///
/// # Panics
/// Panics when the strategy violates a rule. The message names the rule.
pub async fn suite(strategy: Arc<dyn PricingStrategy>) {
    suite_with_setup(strategy, &Setup::default()).await;
}

/// Runs [`suite`] with the orders described by the setup.
///
/// # Panics
/// Panics when the strategy violates a rule. The message names the rule.
pub async fn suite_with_setup(strategy: Arc<dyn PricingStrategy>, setup: &Setup) {
    let strategy = strategy.as_ref();
    if setup.source_is_away {
        return a_strategy_without_its_source_says_so(strategy, setup).await;
    }
    a_plain_order_has_a_price_in_its_denomination(strategy, setup).await;
    a_group_without_units_is_invalid(strategy, setup).await;
    calls_at_once_keep_their_answers(strategy, setup).await;
    reserved_units_are_priced(strategy, setup).await;
    odd_orders_get_a_price_or_an_error(strategy, setup).await;
    other_denominations_get_their_own_price_or_an_error(strategy, setup).await;
    a_call_given_up_harms_no_later_one(strategy, setup).await;
}

/// Runs [`suite`], and checks that equal orders have equal prices. Use this suite for a strategy with prices
/// that depend only on the order.
///
/// # Panics
/// Panics when the strategy violates a rule. The message names the rule.
pub async fn suite_deterministic(strategy: Arc<dyn PricingStrategy>) {
    suite_deterministic_with_setup(strategy, &Setup::default()).await;
}

/// Runs [`suite_deterministic`] with the orders described by the setup.
///
/// # Panics
/// Panics when the strategy violates a rule. The message names the rule.
pub async fn suite_deterministic_with_setup(strategy: Arc<dyn PricingStrategy>, setup: &Setup) {
    suite_with_setup(Arc::clone(&strategy), setup).await;
    if setup.source_is_away {
        return;
    }
    let rule = setup.rule("the same order has the same price");
    let request = setup.order(setup.denom());
    let first = price(&rule, strategy.as_ref(), &request).await;
    for _ in 0..5 {
        let again = price(&rule, strategy.as_ref(), &request).await;
        rule.holds(
            again == first,
            format!("the price was expected to be {first} again and is {again}"),
        );
    }
    more_costs_no_less(strategy.as_ref(), setup, &first).await;
}

/// Checks that a larger order does not cost less.
async fn more_costs_no_less(strategy: &dyn PricingStrategy, setup: &Setup, first: &DecCoin) {
    let rule = setup.rule("more costs no less");
    for (count, factor) in [(50, 1), (50, 1 << 20), (u32::MAX, 1 << 20), (u32::MAX, 1 << 33)] {
        let mut unit = setup.unit(setup.denom());
        unit.count = count;
        let resources = &mut unit.resources;
        resources.cpu.units = resources.cpu.units.saturating_mul(factor);
        resources.memory.bytes = resources.memory.bytes.saturating_mul(factor);
        for volume in &mut resources.storage {
            volume.bytes = volume.bytes.saturating_mul(factor);
        }
        let request = request(vec![unit]);
        if let Some(price) = price_or_error(&rule, strategy, &request).await {
            rule.holds(
                price.amount >= first.amount,
                format!("{count} replicas of {factor} times the size were expected to cost {first} or more, and cost {price}"),
            );
        }
    }
}

/// Checks that every call fails with a transient error while the price source is unavailable.
async fn a_strategy_without_its_source_says_so(strategy: &dyn PricingStrategy, setup: &Setup) {
    let rule = setup.rule("an unavailable source is a transient failure");
    for denom in &setup.denoms {
        let answer = rule
            .answer(CALL, strategy.calculate_price(&setup.order(denom)))
            .await;
        let is_transient = answer.as_ref().is_err_and(Error::is_transient);
        rule.holds(
            is_transient,
            format!("`{CALL}` was expected to fail with Unavailable or Timeout, and returned {answer:?}"),
        );
    }
}

/// Returns the price of an order. Panics if the strategy returns an error or an invalid price.
async fn price(rule: &Rule, strategy: &dyn PricingStrategy, request: &PriceRequest) -> DecCoin {
    let answer = rule.answer(CALL, strategy.calculate_price(request)).await;
    let price = match answer {
        Ok(price) => price,
        Err(error) => rule.broken(format!(
            "`{CALL}` was expected to return a price for {:?} (Setup::unit, Setup::denoms) and failed: {}",
            request.units(),
            chain_text(&error)
        )),
    };
    is_a_price(rule, request, &price);
    price
}

fn is_a_price(rule: &Rule, request: &PriceRequest, price: &DecCoin) {
    let denom = request.group.resources.first().map(|u| &u.price.denom);
    rule.holds(
        Some(&price.denom) == denom,
        format!("the price was expected in the order's denomination, {denom:?}, and is {price}"),
    );
    rule.holds(
        price.amount > Dec::ZERO,
        format!("the price was expected above zero and is {price}"),
    );
}

async fn a_plain_order_has_a_price_in_its_denomination(strategy: &dyn PricingStrategy, setup: &Setup) {
    let rule = setup.rule("a plain order has a price in its denomination");
    rule.holds(
        !setup.denoms.is_empty(),
        "Setup::denoms was expected to have a denomination",
    );
    for denom in &setup.denoms {
        price(&rule, strategy, &setup.order(denom)).await;
    }
}

async fn a_group_without_units_is_invalid(strategy: &dyn PricingStrategy, setup: &Setup) {
    let rule = setup.rule("a group without units is invalid");
    let empty = request(Vec::new());
    let why = "a group without units has no price";
    let call = strategy.calculate_price(&empty);
    rule.refused(CALL, ErrorKind::Invalid, why, call).await;
}

/// Checks that concurrent calls do not mix up their prices.
async fn calls_at_once_keep_their_answers(strategy: &dyn PricingStrategy, setup: &Setup) {
    let rule = setup.rule("concurrent calls return their own prices");
    let requests: Vec<PriceRequest> = setup
        .denoms
        .iter()
        .cycle()
        .take(CALLS)
        .map(|d| setup.order(d))
        .collect();
    join_all(requests.iter().map(|request| price(&rule, strategy, request))).await;
}

async fn reserved_units_are_priced(strategy: &dyn PricingStrategy, setup: &Setup) {
    let rule = setup.rule("reserved units are priced");
    let mut request = setup.order(setup.denom());
    let mut reserved = request.group.resources.clone();
    for unit in &mut reserved {
        unit.resources.cpu.units = (unit.resources.cpu.units / 2).max(1);
    }
    request.allocated = Some(Arc::new(reserved));
    price(&rule, strategy, &request).await;
}

async fn odd_orders_get_a_price_or_an_error(strategy: &dyn PricingStrategy, setup: &Setup) {
    let rule = setup.rule("unusual orders get a price or an error");
    let unit = || {
        let mut unit = plain_unit();
        unit.price.denom = setup.denom().into();
        unit
    };
    let mut malformed_gpu = unit();
    malformed_gpu.resources.gpu = Gpu::new(
        1,
        ["", "vendor", "vendor/x/model", "vendor/x/model/y/ram"]
            .map(|k| Attribute::new(k, "true"))
            .into(),
    );
    let mut unknown_class = unit();
    unknown_class.resources.storage[0].attributes = vec![
        Attribute::new("class", "no such \"class\"\n"),
        Attribute::new("persistent", "true"),
    ];
    let mut largest = unit();
    largest.count = 50;
    largest.resources.cpu.units = 384_000;
    largest.resources.memory.bytes = 2 << 40;
    largest.resources.storage[0].bytes = 32 << 40;
    let mut odd_size = unit();
    odd_size.resources.memory.bytes = (512 << 20) + 1;
    for unit in [malformed_gpu, unknown_class, largest, odd_size] {
        price_or_error(&rule, strategy, &request(vec![unit])).await;
    }
}

/// Returns the price of an order, or `None` for an error that the contract allows.
async fn price_or_error(
    rule: &Rule,
    strategy: &dyn PricingStrategy,
    request: &PriceRequest,
) -> Option<DecCoin> {
    match rule.answer(CALL, strategy.calculate_price(request)).await {
        Ok(price) => {
            is_a_price(rule, request, &price);
            Some(price)
        }
        Err(error) => {
            let allowed = [ErrorKind::Invalid, ErrorKind::Timeout, ErrorKind::Unavailable];
            rule.holds(
                allowed.contains(&error.kind()),
                format!(
                    "an error was expected to be Invalid, Timeout or Unavailable and is {:?}: {}",
                    error.kind(),
                    chain_text(&error)
                ),
            );
            None
        }
    }
}

async fn other_denominations_get_their_own_price_or_an_error(strategy: &dyn PricingStrategy, setup: &Setup) {
    let rule = setup.rule("other denominations get their own price or an error");
    for denom in ["uact", "uakt", "uother"] {
        price_or_error(&rule, strategy, &setup.order(denom)).await;
    }
}

async fn a_call_given_up_harms_no_later_one(strategy: &dyn PricingStrategy, setup: &Setup) {
    let rule = setup.rule("a dropped call does not affect later calls");
    let request = setup.order(setup.denom());
    for _ in 0..40 {
        let mut call = strategy.calculate_price(&request);
        let _ = rule.answer(CALL, async { futures::poll!(&mut call) }).await;
    }
    price(&rule, strategy, &request).await;
}

/// Returns a unit with one replica and a maximum price of 1000 uact. The replica has one core, 512 MiB of
/// memory, 1 GiB of ephemeral storage and an HTTP endpoint.
fn plain_unit() -> ResourceUnit {
    let resources = Resources {
        id: 1,
        cpu: Cpu::new(1000, Vec::new()),
        memory: Memory::new(512 << 20, Vec::new()),
        storage: vec![Storage::new("default", 1 << 30, Vec::new())],
        gpu: Gpu::default(),
        endpoints: vec![Endpoint::default()],
    };
    ResourceUnit::new(resources, 1, DecCoin::new(&"uact".into(), Dec::from_int(1000)))
}

fn request(resources: Vec<ResourceUnit>) -> PriceRequest {
    let requirements = PlacementRequirements::default();
    let group = GroupSpec {
        name: "westcoast".to_owned(),
        requirements,
        resources,
    };
    PriceRequest {
        owner: Address::from_bytes(&[7; 20]).expect("20 bytes are an address"),
        group: Arc::new(group),
        allocated: None,
        precision: PRICE_PRECISION,
        utilization: None,
        height: None,
    }
}

#[cfg(test)]
mod tests;
