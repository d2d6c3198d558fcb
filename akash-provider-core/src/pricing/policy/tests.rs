use super::*;
use crate::pricing::fixtures::{dec, request, request_with};
use crate::pricing::utilization::ResourceUsage;
use crate::pricing::{Utilization, fixtures};
use crate::types::{Attribute, Gpu, Storage};
use serde_json::{Value, json};

const GIB: u64 = 1 << 30;
const TENANT: &str = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";

/// Returns a price file with one change. One block takes one hour, so that prices are easy to compute.
fn file(change: impl FnOnce(&mut Value)) -> Value {
    let mut file = json!({
        "version": 1, "per": "hour", "block_seconds": 3600, "denominations": {"uact": 0.5},
        "prices": {"cpu": 2, "memory": "1.5", "storage": {"ephemeral": 0.25, "beta3": 1}, "gpu": {"nvidia/a100": 100, "*": 10}},
    });
    change(&mut file);
    file
}

fn made(change: impl FnOnce(&mut Value)) -> Policy {
    Policy::new(serde_json::from_value(file(change)).unwrap()).unwrap()
}

/// Loads a price file with one change. Returns the location and the text of the error.
fn refused(change: impl FnOnce(&mut Value)) -> String {
    let file = serde_json::from_value::<PolicyFile>(file(change));
    match file {
        Err(error) => error.to_string(),
        Ok(file) => Policy::new(file).unwrap_err().to_string(),
    }
}

/// Returns an order with a price of 12 per hour, which is 24 base units per block.
fn order() -> PriceRequest {
    request_with(|unit| {
        unit.resources.cpu.units = 2_000;
        unit.resources.memory.bytes = 4 * GIB;
        unit.resources.storage = vec![Storage::new("default", 8 * GIB, Vec::new())];
    })
}

fn with_gpu(model: &str) -> PriceRequest {
    let mut order = order();
    let mut unit = order.group.resources[0].clone();
    unit.resources.gpu = Gpu::new(
        1,
        vec![Attribute::new(format!("vendor/nvidia/model/{model}"), "true")],
    );
    order.group = std::sync::Arc::new(crate::types::GroupSpec {
        resources: vec![unit],
        ..(*order.group).clone()
    });
    order
}

fn amount(policy: &Policy, request: &PriceRequest) -> Result<String, PriceError> {
    let price = policy.price(request)?;
    let quote = policy.quote(request)?;
    assert_eq!(quote.price, price, "the quote has the same price");
    let sum = quote
        .lines
        .iter()
        .try_fold(Dec::ZERO, |sum, line| sum.checked_add(line.amount));
    assert_eq!(
        sum,
        Some(price.amount),
        "the sum of the lines is the price: {:?}",
        quote.lines
    );
    Ok(price.amount.to_plain())
}

#[test]
fn money_per_time_becomes_base_units_per_block() {
    assert_eq!(amount(&made(|_| {}), &order()).unwrap(), "24");
    let block = made(|file| file["per"] = "block".into());
    assert_eq!(
        amount(&block, &order()).unwrap(),
        "24",
        "one block takes one hour"
    );
    let half = made(|file| file["block_seconds"] = 1800.into());
    assert_eq!(amount(&half, &order()).unwrap(), "12");
    // 12 per month, in millionths, at the mean block time of the network: 12 / 0.000001 / (2629757 / 6.117) =
    // 27.9128…
    let month = made(|file| {
        *file =
            json!({"version": 1, "denominations": {"uact": "0.000001"}, "prices": file["prices"].clone()});
    });
    let price = month.price(&order()).unwrap().amount;
    assert!(
        dec("27.912844") < price && price < dec("27.912846"),
        "{}",
        price.to_plain()
    );
}

#[test]
fn an_order_in_an_unknown_denomination_has_no_price() {
    let mut foreign = order();
    let mut unit = foreign.group.resources[0].clone();
    unit.price.denom = "uakt".into();
    foreign.group = std::sync::Arc::new(crate::types::GroupSpec {
        resources: vec![unit],
        ..(*foreign.group).clone()
    });
    let error = amount(&made(|_| {}), &foreign).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the price policy has no value for the denomination `uakt`; add it to `denominations`"
    );
    let both = made(|file| file["denominations"]["uakt"] = 2.into());
    assert_eq!(amount(&both, &foreign).unwrap(), "6");
    assert_eq!(amount(&both, &order()).unwrap(), "24");
}

#[test]
fn only_the_first_matching_rule_applies() {
    let policy = made(|file| {
        file["rules"] = json!([
            {"name": "large", "when": {"cpu_at_least": 3}, "deny": true},
            {"name": "a100", "when": {"gpu": ["nvidia/a100"]}, "prices": {"gpu": {"*": 50}}},
            {"name": "friend", "when": {"tenants": [TENANT]}, "multiply": "0.5"},
            {"name": "all", "multiply": 10},
        ]);
    });
    assert_eq!(policy.quote(&order()).unwrap().rule.as_deref(), Some("friend"));
    assert_eq!(amount(&policy, &order()).unwrap(), "12");
    // The prices of the rule replace all prices of the policy: only GPUs have a price, and storage has none.
    let error = amount(&policy, &with_gpu("a100")).unwrap_err();
    assert!(matches!(error, PriceError::NoStorageClass { .. }), "{error}");
    assert_eq!(
        amount(&policy, &with_gpu("h100")).unwrap(),
        "22",
        "half of 24 + 20"
    );
    let mut large = order();
    large.owner = fixtures::request(Vec::new()).owner;
    let mut unit = large.group.resources[0].clone();
    unit.count = 2;
    large.group = std::sync::Arc::new(crate::types::GroupSpec {
        resources: vec![unit],
        ..(*large.group).clone()
    });
    let error = amount(&policy, &large).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the price policy's rule `large` denies this order"
    );
}

#[test]
fn all_conditions_of_a_rule_must_be_met() {
    let meets = |when: Value, request: &PriceRequest| {
        let policy = made(|file| file["rules"] = json!([{"name": "it", "when": when, "deny": true}]));
        policy.price(request).is_err()
    };
    let plain = order();
    for (when, expected) in [
        (json!({}), true),
        (json!({"cpu_at_least": 2, "cpu_at_most": 2}), true),
        (json!({"cpu_at_least": "2.001"}), false),
        (json!({"memory_at_most": "3.9"}), false),
        (json!({"memory_at_least": 4, "cpu_at_most": 1}), false),
        (json!({"storage": ["beta3"]}), false),
        (json!({"storage": ["beta3", "ephemeral"]}), true),
        (json!({"gpu": ["*"]}), false),
        (json!({"attributes": {"region": "eu"}}), false),
    ] {
        assert_eq!(meets(when.clone(), &plain), expected, "{when}");
    }
    for (gpu, expected) in [
        ("*", true),
        ("nvidia/*", true),
        ("nvidia/a100", false),
        ("amd/*", false),
        ("nvidia/h100", true),
    ] {
        assert_eq!(meets(json!({"gpu": [gpu]}), &with_gpu("h100")), expected, "{gpu}");
    }
    let mut of_region = order();
    let mut group = (*of_region.group).clone();
    group.requirements.attributes = vec![Attribute::new("region", "eu")];
    of_region.group = std::sync::Arc::new(group);
    assert!(meets(json!({"attributes": {"region": "eu"}}), &of_region));
    assert!(!meets(
        json!({"attributes": {"region": "eu", "tier": "one"}}),
        &of_region
    ));
}

fn used(total: u64, after: u64) -> ResourceUsage {
    ResourceUsage {
        total,
        before: 0,
        after,
    }
}

#[test]
fn scarce_resources_cost_more_for_orders_that_request_them() {
    let policy = made(|file| {
        file["scarcity"] = json!([{"above": 0.5, "multiply": 2}, {"above": "0.9", "multiply": 4}]);
    });
    let with = |cpu: u64, gpu: u64| {
        let mut order = order();
        order.utilization = Some(Box::new(Utilization {
            cpu: used(100, cpu),
            memory: used(100, 10),
            storage: used(100, 10),
            gpu: used(100, gpu),
            ..Utilization::default()
        }));
        order
    };
    assert_eq!(amount(&policy, &order()).unwrap(), "24", "utilization is unknown");
    for (cpu, gpu, price) in [
        (50, 0, "24"),
        (51, 0, "48"),
        (90, 0, "48"),
        (91, 0, "96"),
        (120, 0, "96"),
        (10, 99, "24"),
    ] {
        assert_eq!(amount(&policy, &with(cpu, gpu)).unwrap(), price, "{cpu} {gpu}");
    }
    let quote = policy.quote(&with(95, 0)).unwrap();
    assert_eq!(
        quote.lines.last().unwrap().what,
        "scarcity: CPU is in use to 0.95"
    );
}

#[test]
fn nothing_is_sold_below_the_minimum() {
    let policy = made(|file| {
        file["minimum"] = 20.into();
        file["rules"] =
            json!([{"name": "own", "when": {"cpu_at_least": 2}, "minimum": 5, "multiply": "0.1"}]);
    });
    assert_eq!(
        amount(&policy, &order()).unwrap(),
        "10",
        "the rule's own minimum, 5 an hour"
    );
    let small = request_with(|unit| unit.resources.cpu.units = 10);
    assert_eq!(amount(&policy, &small).unwrap(), "40");
    assert_eq!(
        policy.quote(&small).unwrap().lines.last().unwrap().what,
        "up to the minimum"
    );
}

fn assert_refused(change: &Value, expected: &str) {
    let text = refused(|file| {
        for (key, value) in change.as_object().unwrap() {
            file[key] = value.clone();
        }
    });
    assert!(text.contains(expected), "{change}: {text}");
}

#[test]
fn errors_of_a_policy_name_their_location() {
    for (change, expected) in [
        (json!({"version": 2}), "version: unknown version 2; it must be 1"),
        (
            json!({"denominations": {}}),
            "denominations: add at least one denomination, for example `uact: 0.000001`",
        ),
        (
            json!({"denominations": {"uact": 0}}),
            "denominations.uact: 0 must be above zero",
        ),
        (
            json!({"block_seconds": -6}),
            "block_seconds: -6 must be above zero",
        ),
        (json!({"prices": {"cpu": -1}}), "prices: the price of CPU is"),
        (
            json!({"prices": {}}),
            "prices: at least one bid price must be a non-zero number",
        ),
        (
            json!({"prices": {"cpu": 1, "gpu": {"a100": 1}}}),
            "prices: GPU `a100` must be",
        ),
        (
            json!({"prices": {"cpu": "many"}}),
            "`many` is not a decimal number such as 1.5",
        ),
        (json!({"prices": {"cpus": 1}}), "unknown field `cpus`"),
        (json!({"minimum": -1}), "minimum: "),
        (
            json!({"scarcity": [{"above": 0.5, "multiply": 2}, {"above": 0.5, "multiply": 3}]}),
            "scarcity[1].above: steps must be in ascending order",
        ),
        (
            json!({"scarcity": [{"above": 0.5, "multiply": 0}]}),
            "scarcity[0].multiply: 0 must be above zero",
        ),
    ] {
        assert_refused(&change, expected);
    }
}

#[test]
fn errors_of_a_rule_name_their_location() {
    for (change, expected) in [
        (
            json!({"rules": [{"name": " "}]}),
            "rules[0].name: a rule needs a name",
        ),
        (
            json!({"rules": [{"name": "a"}, {"name": "b"}]}),
            "rules[1]: the rule never applies",
        ),
        (
            json!({"rules": [{"name": "a", "deny": true, "multiply": 2}]}),
            "rules[0].deny: a denied order has no price",
        ),
        (
            json!({"rules": [{"name": "a", "when": {"gpu": ["nvidia"]}}]}),
            "rules[0].when.gpu[0]: `nvidia` must be",
        ),
        (
            json!({"rules": [{"name": "a", "when": {"gpu": ["*/a100"]}}]}),
            "rules[0].when.gpu[0]: ",
        ),
        (
            json!({"rules": [{"name": "a", "when": {"tenants": ["bob"]}}]}),
            "rules[0].when.tenants[0]: `bob`: ",
        ),
        (
            json!({"rules": [{"name": "a", "when": {"cpu_at_least": 2, "cpu_at_most": 1}}]}),
            "rules[0].when.cpu_at_least: ",
        ),
        (
            json!({"rules": [{"name": "a", "when": {"memory_at_least": -2}}]}),
            "rules[0].when.memory_at_least: -2 is not zero or above",
        ),
        (
            json!({"rules": [{"name": "a", "when": {"image": ["x"]}}]}),
            "unknown field `image`",
        ),
    ] {
        assert_refused(&change, expected);
    }
    let same = refused(|file| {
        file["rules"] = json!([{"name": "a", "when": {"cpu_at_least": 2}}, {"name": "a"}]);
    });
    assert_eq!(same, "rules[1].name: `a` is the name of two rules");
}

#[test]
fn a_policy_is_limited_in_size() {
    let many = |count: usize| {
        json!(
            (0..count)
                .map(|n| json!({"name": n.to_string(), "when": {"cpu_at_least": 1}}))
                .collect::<Vec<_>>()
        )
    };
    made(|file| file["rules"] = many(RULES_MAX));
    let error = refused(|file| file["rules"] = many(RULES_MAX + 1));
    assert_eq!(error, "rules: 1001 entries; the limit is 1000");
    let long = refused(|file| file["prices"]["cpu"] = "1".repeat(101).into());
    assert!(long.contains("is not a decimal number"), "{long}");
    let (before, behind) = ("1".repeat(50), format!("0.{}", "1".repeat(50)));
    for number in ["1e99", "1e999999999", "1e-999999999", &before, &behind] {
        for key in ["minimum", "block_seconds"] {
            let error = refused(|file| file[key] = number.into());
            assert!(error.contains("at most 40 digits"), "{key} {number}: {error}");
        }
        let error = refused(|file| file["prices"]["cpu"] = number.into());
        assert!(error.contains("at most 40 digits"), "{number}: {error}");
    }
}

#[test]
fn zero_and_too_large_prices_are_errors() {
    let nothing = made(|file| file["prices"] = json!({"ip": 1, "storage": {"ephemeral": 0}}));
    assert_eq!(amount(&nothing, &order()), Err(PriceError::Zero));
    let beyond = made(|file| file["rules"] = json!([{"name": "x", "multiply": "100000000000000000000"}]));
    assert_eq!(amount(&beyond, &order()), Err(PriceError::TooLarge));
    assert_eq!(
        made(|_| {}).price(&request(Vec::new())),
        Err(PriceError::NoMaximum)
    );
}

#[cfg(feature = "conformance")]
#[tokio::test]
async fn the_suite_passes() {
    crate::pricing::conformance::suite(std::sync::Arc::new(made(|_| {}))).await;
}
