use super::fixtures::{group, order, unit};
use super::*;
use crate::types::price::Dec;
use crate::types::{Coin, DecCoin, Endpoint, Gpu, Storage};
use std::sync::Arc;

const HOUR: Duration = Duration::from_secs(3600);

fn config() -> Config {
    let provider = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse().unwrap();
    Config::new(provider, "akashnet-2")
}

fn params() -> MarketParams {
    MarketParams {
        bid_min_deposits: vec!["500000uakt".parse().unwrap(), "500000uact".parse().unwrap()],
        order_max_bids: 20,
        min_reclamation_window: HOUR,
        max_reclamation_window: 720 * HOUR,
    }
}

const NOTHING: OrderContext<'_> = OrderContext {
    attributes: Some(&[]),
    audited: &[],
    params: None,
    bids: None,
};

fn attribute(key: &str, value: &str) -> Attribute {
    Attribute::new(key, value)
}

#[test]
fn a_plain_order_is_worth_a_bid() {
    let params = params();
    let facts = OrderContext {
        params: Some(&params),
        ..NOTHING
    };
    assert_eq!(should_bid(&order(group()), &facts, &config()), Ok(()));
}

#[test]
fn orders_with_undeclared_attributes_are_declined() {
    let mut group = group();
    group.requirements.attributes = vec![attribute("region/*", "us")];
    let order = order(group);
    let decline = should_bid(&order, &NOTHING, &config()).unwrap_err();
    assert_eq!(decline.code().as_str(), "attributes");
    assert_eq!(
        decline.to_string(),
        "the order requires region/*=us, which this provider does not declare"
    );
    let ours = [attribute("region/west", "us")];
    assert_eq!(
        should_bid(
            &order,
            &OrderContext {
                attributes: Some(&ours),
                ..NOTHING
            },
            &config()
        ),
        Ok(())
    );
}

#[test]
fn unsupported_features_are_declined_even_if_declared() {
    let ours = [
        attribute("tee/type", "cpu"),
        attribute("confidential-compute", "true"),
    ];
    let facts = OrderContext {
        attributes: Some(&ours),
        ..NOTHING
    };
    let verdict = |required: &Attribute, gpu: &str| {
        let mut group = group();
        group.requirements.attributes = vec![required.clone()];
        let gpu = vec![attribute("vendor/nvidia/model/*", "true"), attribute(gpu, "auto")];
        group.resources[0].resources.gpu = Gpu::new(1, gpu);
        should_bid(&order(group), &facts, &config()).map_err(|decline| decline.to_string())
    };
    let [tee, confidential] = &ours;
    let declined = |wanted: &str| {
        Err(format!(
            "the order requires {wanted}, which this provider does not offer"
        ))
    };
    for required in [tee, &attribute("tee/*", "cpu")] {
        let wanted = format!("confidential computing ({}=cpu)", required.key);
        assert_eq!(verdict(required, "other"), declined(&wanted));
    }
    let interconnect = "a GPU interconnect (interconnect/group=auto)";
    assert_eq!(
        verdict(confidential, "interconnect/group"),
        declined(interconnect)
    );
    // The operator may declare nodes that all run with confidential computing.
    let undeclared_model = verdict(confidential, "other").unwrap_err();
    assert!(
        undeclared_model.contains("none of the GPU models"),
        "{undeclared_model}"
    );
}

#[test]
fn hostnames_are_declined_without_the_hostname_facet() {
    let mut config = config();
    config.hostnames = false;
    let mut group = group();
    let endpoint = |kind| Endpoint::new(kind, 0);
    group.resources[0].resources.endpoints = vec![endpoint(EndpointKind::RandomPort)];
    assert_eq!(should_bid(&order(group.clone()), &NOTHING, &config), Ok(()));
    let http = endpoint(EndpointKind::SharedHttp);
    group.resources[0].resources.endpoints.push(http);
    let decline = should_bid(&order(group.clone()), &NOTHING, &config).unwrap_err();
    assert_eq!(decline, Decline::NoHostnames { wanted: 1 });
    config.hostnames = true;
    assert_eq!(should_bid(&order(group), &NOTHING, &config), Ok(()));
}

#[test]
fn orders_without_the_configured_attributes_are_declined() {
    let mut config = config();
    config.required_attributes = vec![attribute("owner", "me")];
    let decline = should_bid(&order(group()), &NOTHING, &config).unwrap_err();
    assert_eq!(
        decline,
        Decline::NotForUs {
            key: "owner".to_owned(),
            value: "me".to_owned()
        }
    );

    let mut mine = group();
    mine.requirements.attributes = vec![attribute("owner", "me"), attribute("region", "us")];
    let ours = [attribute("owner", "me"), attribute("region", "us")];
    assert_eq!(
        should_bid(
            &order(mine),
            &OrderContext {
                attributes: Some(&ours),
                ..NOTHING
            },
            &config
        ),
        Ok(())
    );
}

#[test]
fn more_than_four_volumes_are_declined() {
    let with = |volumes: usize| {
        let mut group = group();
        let volume = |n| Storage::new(format!("v{n}"), 1 << 30, Vec::new());
        group.resources[0].resources.storage = (0..volumes).map(volume).collect();
        should_bid(&order(group), &NOTHING, &config())
    };
    assert_eq!(with(4), Ok(()));
    assert_eq!(
        with(5),
        Err(Decline::TooManyVolumes {
            unit: 1,
            volumes: 5,
            limit: 4
        })
    );
}

#[test]
fn w9_changed_attributes_and_audits_count_at_once() {
    let mut group = group();
    group.requirements.attributes = vec![attribute("region", "us")];
    group.requirements.signed_by.any_of = vec!["auditor".to_owned()];
    let order = order(group);
    let (eu, us) = ([attribute("region", "eu")], [attribute("region", "us")]);
    let audit = [AuditedAttributes::new("auditor", us.to_vec())];
    let code = |facts: OrderContext<'_>| {
        should_bid(&order, &facts, &config())
            .err()
            .map(|d| d.code().as_str())
    };
    assert_eq!(
        code(OrderContext {
            attributes: Some(&eu),
            audited: &audit,
            params: None,
            bids: None,
        }),
        Some("attributes")
    );
    assert_eq!(
        code(OrderContext {
            attributes: Some(&us),
            audited: &audit,
            params: None,
            bids: None,
        }),
        None
    );
    assert_eq!(
        code(OrderContext {
            attributes: Some(&us),
            audited: &[],
            params: None,
            bids: None,
        }),
        Some("signed_by")
    );
}

/// Returns an order that fails every check of a provider without declared attributes.
fn wrong_in_every_way() -> Order {
    let mut group = group();
    group.requirements.attributes = vec![attribute("region", "us")];
    group.requirements.signed_by.all_of = vec!["auditor".to_owned()];
    let volume = Storage::new("v", 1, vec![attribute("class", "beta3")]);
    group.resources[0].resources.storage = vec![volume; 5];
    let mut order = order(group);
    order.reclamation_min_window = Some(HOUR);
    order
}

#[test]
fn the_first_failing_check_gives_the_reason() {
    let mut config = config();
    config.required_attributes = vec![attribute("owner", "me")];
    let mut order = wrong_in_every_way();
    let mut reasons = Vec::new();
    let ours = [attribute("region", "us")];
    let class = [
        attribute("region", "us"),
        attribute("capabilities/storage/1/class", "beta3"),
    ];
    let audit = [AuditedAttributes::new("auditor", ours.to_vec())];
    let params = MarketParams {
        bid_min_deposits: Vec::new(),
        ..params()
    };
    let mut facts = OrderContext {
        params: Some(&params),
        ..NOTHING
    };
    let mut reason = |order: &Order, facts: &OrderContext<'_>, config: &Config| {
        reasons.push(should_bid(order, facts, config).map_or_else(|d| d.code().as_str(), |()| "none"));
    };
    reason(&order, &facts, &config);
    facts.attributes = Some(&ours);
    reason(&order, &facts, &config);
    config.required_attributes.clear();
    reason(&order, &facts, &config);
    facts.attributes = Some(&class);
    reason(&order, &facts, &config);
    config.max_volumes_per_unit = 5;
    reason(&order, &facts, &config);
    facts.audited = &audit;
    reason(&order, &facts, &config);
    for volume in &mut Arc::make_mut(&mut order.spec).resources[0].resources.storage {
        volume.bytes = 1 << 30;
    }
    reason(&order, &facts, &config);
    config.reclamation_window = Some(HOUR);
    reason(&order, &facts, &config);
    facts.params = None;
    reason(&order, &facts, &config);
    assert_eq!(
        reasons,
        [
            "attributes",
            "not_for_us",
            "storage",
            "too_many_volumes",
            "signed_by",
            "invalid_group",
            "reclamation",
            "deposit",
            "none"
        ]
    );
}

#[test]
fn w12_the_reclamation_window_is_checked_before_anything_is_reserved() {
    let params = params();
    let facts = OrderContext {
        params: Some(&params),
        ..NOTHING
    };
    let code = |wanted: Option<Duration>, offered: Option<Duration>| {
        let mut order = order(group());
        order.reclamation_min_window = wanted;
        let config = Config {
            reclamation_window: offered,
            ..config()
        };
        should_bid(&order, &facts, &config)
            .err()
            .map(|d| d.code().as_str())
    };
    assert_eq!(code(Some(2 * HOUR), None), Some("reclamation"));
    assert_eq!(code(Some(2 * HOUR), Some(Duration::ZERO)), Some("reclamation"));
    assert_eq!(code(Some(2 * HOUR), Some(HOUR)), Some("reclamation"));
    assert_eq!(code(Some(2 * HOUR), Some(2 * HOUR)), None);
    assert_eq!(code(Some(2 * HOUR), Some(3 * HOUR)), None);
    assert_eq!(code(None, Some(HOUR)), None);
    assert_eq!(code(None, Some(HOUR / 2)), Some("reclamation_range"));
    assert_eq!(code(None, Some(721 * HOUR)), Some("reclamation_range"));
    let mut wants = order(group());
    wants.reclamation_min_window = Some(2 * HOUR);
    assert_eq!(
        should_bid(&wants, &facts, &config()).unwrap_err().to_string(),
        "the order requires a reclamation window of at least 7200 s; this provider offers none"
    );
}

#[test]
fn w12_the_deposit_is_checked_against_the_chains_minimum() {
    let params = params();
    let facts = OrderContext {
        params: Some(&params),
        ..NOTHING
    };
    let with = |deposit: &str| {
        let config = Config {
            bid_deposit: deposit.parse::<Coin>().unwrap(),
            ..config()
        };
        should_bid(&order(group()), &facts, &config)
    };
    assert_eq!(with("500000uact"), Ok(()));
    assert_eq!(with("500000uakt"), Ok(()));
    let low = with("499999uact").unwrap_err();
    assert_eq!(
        low.to_string(),
        "the configured bid deposit 499999uact is below the minimum of the chain: 500000uakt or 500000uact"
    );
    assert_eq!(with("9999999uatom").unwrap_err().code().as_str(), "deposit");
}

#[test]
fn w12_an_order_with_too_many_bids_is_declined() {
    let params = params();
    assert_eq!(
        check_bid_count(20, &params),
        Ok(()),
        "the chain accepts a 21st bid"
    );
    assert_eq!(
        check_bid_count(21, &params),
        Err(Decline::OrderFull { bids: 21, limit: 20 })
    );
}

#[test]
fn a_price_must_be_in_the_orders_denomination_above_zero_and_not_above_the_maximum() {
    let coin = |amount: &str, denom: &str| DecCoin::new(&denom.into(), amount.parse::<Dec>().unwrap());
    let maximum = coin("23", "uact");
    let code = |amount: &str, denom: &str| {
        check_price(&coin(amount, denom), &maximum)
            .err()
            .map(|d| d.code().as_str())
    };
    assert_eq!(code("23", "uact"), None, "equal is allowed");
    assert_eq!(code("0.000000000000000001", "uact"), None);
    assert_eq!(code("23.000000000000000001", "uact"), Some("price_too_high"));
    assert_eq!(code("0", "uact"), Some("price"));
    assert_eq!(code("-1", "uact"), Some("price"));
    assert_eq!(code("1", "uakt"), Some("price_denom"));
    assert_eq!(code("99", "uakt"), Some("price_denom"));
    assert_eq!(
        check_price(&coin("25.5", "uact"), &maximum)
            .unwrap_err()
            .to_string(),
        "the price 25.5uact is above the tenant's maximum 23uact"
    );
}

#[test]
fn an_order_without_one_computable_price_is_declined() {
    let mut mixed = group();
    mixed.resources.push(unit(2));
    mixed.resources[1].price.denom = "uakt".into();
    let decline = should_bid(&order(mixed), &NOTHING, &config()).unwrap_err();
    assert_eq!(decline.code().as_str(), "invalid_group");
    let mut empty = group();
    empty.resources.clear();
    assert_eq!(
        should_bid(&order(empty), &NOTHING, &config())
            .unwrap_err()
            .code()
            .as_str(),
        "invalid_group"
    );
}

fn demanding_groups() -> Vec<GroupSpec> {
    let mut first = group();
    first.requirements.attributes = vec![attribute("region/*", "us"), attribute("tier*", "1")];
    first.requirements.signed_by.all_of = vec!["akash1auditor".to_owned(), "odd auditor".to_owned()];
    let resources = &mut first.resources[0].resources;
    resources.gpu.units = 1;
    resources.gpu.attributes = vec![
        attribute("vendor/nvidia/model/*", "true"),
        attribute("vendor/amd/model/mi100/ram/32Gi", "true"),
    ];
    let volume = |name: &str, pairs: &[(&str, &str)]| Storage {
        name: name.to_owned(),
        bytes: 1 << 30,
        attributes: pairs.iter().map(|(k, v)| attribute(k, v)).collect(),
    };
    resources
        .storage
        .push(volume("data", &[("class", "beta3"), ("persistent", "true")]));
    resources
        .storage
        .push(volume("shm", &[("class", "ram"), ("persistent", "false")]));
    let mut second = group();
    second.requirements.attributes = vec![attribute("region/west", "eu")];
    second.requirements.signed_by.any_of = vec!["someone else".to_owned()];
    second.resources[0].resources.storage[0] = volume("data", &[("class", "beta2"), ("persistent", "true")]);
    vec![first, second, group()]
}

#[test]
fn an_accepting_profile_makes_every_given_group_acceptable() {
    let groups = demanding_groups();
    let (attributes, audited) = accepting_profile(&groups, "akash1dev");
    let facts = OrderContext {
        attributes: Some(&attributes),
        audited: &audited,
        params: None,
        bids: None,
    };
    for group in groups {
        let order = order(group);
        if !order.spec.requirements.attributes.is_empty() {
            assert!(
                should_bid(&order, &NOTHING, &config()).is_err(),
                "nothing is declared yet"
            );
        }
        assert_eq!(should_bid(&order, &facts, &config()), Ok(()));
    }
    assert!(audited.iter().any(|a| a.auditor == "akash1dev"));
    assert!(attributes.iter().all(|a| !a.key.contains('*')));
    assert!(attributes.contains(&attribute("region/any", "us")));
    assert!(attributes.contains(&attribute("capabilities/gpu/vendor/nvidia/model/any", "true")));
}

#[test]
fn every_decline_has_its_own_code() {
    let text = || "x".to_owned();
    let declines = [
        Decline::Attributes {
            key: text(),
            value: text(),
        },
        Decline::NotForUs {
            key: text(),
            value: text(),
        },
        Decline::Storage {
            unit: 1,
            volume: text(),
            wanted: text(),
        },
        Decline::Gpu {
            unit: 1,
            wanted: text(),
        },
        Decline::TooManyVolumes {
            unit: 1,
            volumes: 5,
            limit: 4,
        },
        Decline::SignedBy { missing: text() },
        Decline::TooManyAuditors {
            auditors: 33,
            limit: 32,
        },
        Decline::TooLarge {
            what: text(),
            value: 2,
            limit: 1,
        },
        Decline::InvalidGroup { problem: text() },
        Decline::Reclamation {
            wanted_s: 1,
            offered: text(),
        },
        Decline::ReclamationRange {
            offered_s: 1,
            min_s: 2,
            max_s: 3,
        },
        Decline::OrderFull { bids: 21, limit: 20 },
        Decline::Deposit {
            configured: text(),
            minimum: text(),
        },
        Decline::Price { message: text() },
        Decline::PriceDenom {
            price: text(),
            order: text(),
        },
        Decline::PriceTooHigh {
            price: text(),
            maximum: text(),
        },
    ];
    let codes: std::collections::BTreeSet<_> = declines.iter().map(Decline::code).collect();
    assert_eq!(codes.len(), declines.len());
    // The code is also the tag of the reason in JSON, so that logs, events and status use the same names.
    for decline in &declines {
        let json = serde_json::to_value(decline).unwrap();
        assert_eq!(json["reason"], decline.code().as_str());
        assert_eq!(json["reason"], serde_json::to_value(decline.code()).unwrap());
    }
}
