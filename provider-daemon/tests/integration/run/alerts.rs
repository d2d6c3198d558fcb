//! Alerts of `deploy/monitoring/rules.yaml`: the cause of an alert is made in a running provider, and the
//! expression of the alert is evaluated over its scrape. The time for which a cause must last is not tested.

use crate::scrape::{self, Values, scraped};
use crate::stage::{ADDRESS, Running, Stage};
use std::collections::BTreeSet;
use std::ops::Add;
use std::time::{Duration, UNIX_EPOCH};
use testbed::free_port;

/// Factor for the growth of ages since the earlier scrape, so that the test need not wait for minutes.
const TIME_SCALE: f64 = 20.0;

/// Alerts with their expressions.
struct Alerts(Vec<(String, String)>);

impl Alerts {
    fn read() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/monitoring/rules.yaml");
        let rules: serde_json::Value =
            serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let rules = rules["groups"][0]["rules"].as_array().unwrap();
        let text = |rule: &serde_json::Value, key: &str| rule[key].as_str().unwrap().to_owned();
        Self(
            rules
                .iter()
                .map(|rule| (text(rule, "alert"), text(rule, "expr")))
                .collect(),
        )
    }

    /// Returns the alerts that fire for the scrapes `before` and `now`.
    fn firing(&self, before: &Values, now: &Values) -> BTreeSet<&str> {
        let fires = |expression: &str| expression.split(" or ").any(|part| is_met(part, before, now));
        let firing = self.0.iter().filter(|(_, expression)| fires(expression));
        firing.map(|(name, _)| name.as_str()).collect()
    }
}

/// Evaluates `VALUE OPERATOR LIMIT`. Without samples, no condition is met.
fn is_met(condition: &str, before: &Values, now: &Values) -> bool {
    let operator = [" == ", " > ", " < "].into_iter().find(|o| condition.contains(o));
    let operator = operator.unwrap_or_else(|| panic!("no comparison: {condition}"));
    let (value, limit) = condition.split_once(operator).unwrap();
    let limit: f64 = limit
        .split(" * ")
        .map(|factor| factor.parse::<f64>().unwrap())
        .product();
    values(value, before, now)
        .into_iter()
        .any(|value| match operator {
            " == " => value == limit,
            " > " => value > limit,
            _ => value < limit,
        })
}

fn values(expression: &str, before: &Values, now: &Values) -> Vec<f64> {
    if let Some(time) = expression.strip_suffix(" - time()") {
        let seconds = UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
        return values(time, before, now)
            .into_iter()
            .map(|value| value - seconds)
            .collect();
    }
    if let Some(inner) = expression
        .strip_suffix("])")
        .and_then(|e| e.strip_prefix("increase("))
    {
        let (selector, _) = inner.split_once('[').unwrap();
        let started = |sample: &str| before.get(sample).copied().unwrap_or_default();
        return select(selector, now)
            .map(|(sample, value)| value - started(sample))
            .collect();
    }
    for (function, fold) in [
        ("sum by ", f64::add as fn(f64, f64) -> f64),
        ("max by ", f64::max),
    ] {
        if let Some(grouped) = expression.strip_prefix(function) {
            let (_, inner) = grouped
                .split_once(") (")
                .or_else(|| grouped.split_once(")("))
                .unwrap();
            // Samples of one provider form one group.
            let of_group = values(inner.strip_suffix(')').unwrap(), before, now);
            return of_group.into_iter().reduce(fold).into_iter().collect();
        }
    }
    let selected = select(expression, now);
    let is_age = expression.ends_with("_age_seconds");
    let growth = |sample: &str, age: f64| (age - before.get(sample).unwrap_or(&age)) * TIME_SCALE;
    let value = |(sample, value)| if is_age { growth(sample, value) } else { value };
    selected.map(value).collect()
}

/// Returns the samples that a selector such as `name{label="value", other!="value"}` matches.
fn select<'a>(selector: &'a str, values: &'a Values) -> impl Iterator<Item = (&'a str, f64)> {
    let (name, matchers) = selector.split_once('{').unwrap_or((selector, ""));
    let is_selected = move |sample: &str| {
        let (found, labels) = sample.split_once('{').unwrap_or((sample, ""));
        let matchers = matchers
            .trim_end_matches('}')
            .split(", ")
            .filter(|matcher| !matcher.is_empty());
        found == name
            && matchers
                .into_iter()
                .all(|matcher| match matcher.split_once("!=") {
                    Some((label, value)) => !labels.contains(&format!("{label}={value}")),
                    None => labels.contains(matcher),
                })
    };
    let selected = values.iter().filter(move |(sample, _)| is_selected(sample));
    selected.map(|(sample, value)| (sample.as_str(), *value))
}

struct Monitored<'a> {
    alerts: &'a Alerts,
    before: Values,
    provider: &'a Running,
    port: u16,
}

impl Monitored<'_> {
    /// Waits until exactly these alerts fire.
    #[track_caller]
    fn fires(&self, expected: &[&str]) {
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        scraped(self.port, self.provider, &format!("{expected:?}"), |values| {
            self.alerts.firing(&self.before, values) == expected
        });
    }
}

#[test]
fn each_cause_fires_its_alert_until_it_ends() {
    let mut stage = Stage::new("alerts", true);
    stage.start_node(Some(Duration::from_millis(250)));
    std::fs::write(
        stage.path(&format!("{ADDRESS}.devnet.breaker-tripped")),
        "tripped",
    )
    .unwrap();
    let port = free_port().unwrap();
    let listener = format!("--metrics-listener=127.0.0.1:{port}");
    // More than the account has.
    let provider = stage.provider("provider", &[&listener, "--bid-deposit=1500000000000uact"]);
    provider.says("the circuit breaker to be released");
    let alerts = Alerts::read();
    let before = scrape::parse(&scrape::get(port, "text/plain").unwrap().1);
    let monitored = Monitored {
        alerts: &alerts,
        before,
        provider: &provider,
        port,
    };
    stage.order(1);
    let with = |more: &[&'static str]| -> Vec<&'static str> {
        let unfunded = ["AkashProviderNotReady", "AkashProviderOrdersUnfunded"];
        unfunded.into_iter().chain(more.iter().copied()).collect()
    };
    monitored.fires(&with(&["AkashProviderBreakerTripped"]));
    assert_eq!(stage.ran(&["breaker", "release"]).0, 0);
    monitored.fires(&with(&[]));
    // The newest file cannot be opened, because it is a directory.
    let newest = stage.path("audit/000002.jsonl");
    std::fs::create_dir(&newest).unwrap();
    assert_eq!(stage.ran(&["log-level", "warn"]).0, 0);
    monitored.fires(&with(&["AkashProviderAuditLogUnwritable"]));
    std::fs::remove_dir(&newest).unwrap();
    monitored.fires(&with(&[]));
    stage.stop_node();
    monitored.fires(&with(&["AkashProviderNoBlocks", "AkashProviderNodesUnavailable"]));
}
