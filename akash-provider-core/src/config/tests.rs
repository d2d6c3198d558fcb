use super::*;
use serde_json::{Value, json};

const ACCOUNT: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

fn part(settings: Value) -> Value {
    let mut part = json!({"provider": ACCOUNT, "chain_id": "akashnet-2"});
    for (name, value) in settings.as_object().unwrap() {
        part[name] = value.clone();
    }
    part
}

#[test]
fn missing_settings_have_their_default() {
    let defaults = Config::new(ACCOUNT.parse().unwrap(), "akashnet-2");
    assert_eq!(Config::read(part(json!({}))).unwrap(), defaults);
    let some = json!({"query_timeout": "30s", "average_block_time": "6s 500ms", "unhealthy_limit": "never",
        "withdrawal_period": null, "breaker_floor": 7});
    let expected = Config {
        query_timeout: Duration::from_secs(30),
        unhealthy_limit: None,
        withdrawal_period: None,
        breaker_floor: 7,
        ..defaults
    };
    assert_eq!(Config::read(part(some)).unwrap(), expected);
}

#[test]
fn settings_round_trip_in_all_formats() {
    let mut config = Config::new(ACCOUNT.parse().unwrap(), "akashnet-2");
    config.bid_timeout = None;
    let text = serde_json::to_value(&config).unwrap();
    assert_eq!(
        (&text["query_timeout"], &text["bid_timeout"]),
        (&json!("1m"), &json!("never"))
    );
    assert_eq!(Config::read(text).unwrap(), config);
    let bytes = rmp_serde::to_vec(&config).unwrap();
    assert_eq!(rmp_serde::from_slice::<Config>(&bytes).unwrap(), config);
    // The older form, before durations were text.
    let older = json!({"query_timeout": {"secs": 60, "nanos": 0}, "bid_timeout": null});
    assert_eq!(Config::read(part(older)).unwrap(), config);
}

#[test]
fn errors_name_the_setting_the_value_and_the_help() {
    for (settings, message) in [
        (
            json!({"query_timeout": "5 parsecs"}),
            "setting query_timeout: invalid duration `5 parsecs`; write it as 500ms, 30s, 5m or 1h30m",
        ),
        (
            json!({"bid_timeout": "soon"}),
            "setting bid_timeout: invalid duration `soon`; write it as 500ms, 30s, 5m or 1h30m",
        ),
        (
            json!({"tx_timeout": 30}),
            "setting tx_timeout: invalid type: integer `30`, expected a duration as text, such as 500ms, 30s, 5m or 1h30m",
        ),
        (
            json!({"bid_deposit": {"denom": "uact", "amount": "much"}}),
            "setting bid_deposit.amount: invalid digit found in string",
        ),
        (json!({"provider": "unknown"}), "setting provider: "),
        (
            json!({"query_timeout": "0s"}),
            "setting query_timeout = 0ns: must be above zero",
        ),
        (
            json!({"quarry_timeout": "1s"}),
            "setting quarry_timeout: unknown field `quarry_timeout`, expected one of `provider`",
        ),
    ] {
        let error = Config::read(part(settings.clone())).unwrap_err().to_string();
        assert!(error.starts_with(message), "{settings}: {error}");
    }
    let empty = Config::read(json!({"chain_id": "x"})).unwrap_err();
    assert_eq!(
        empty.to_string(),
        "setting provider: missing; set the address of the provider's account, such as akash1…"
    );
    let empty = Config::read(json!({"provider": ACCOUNT})).unwrap_err();
    assert_eq!(
        empty.to_string(),
        "setting chain_id: missing; set the id of the chain, such as akashnet-2"
    );
}
