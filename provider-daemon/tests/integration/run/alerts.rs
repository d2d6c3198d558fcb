//! Alerts of `deploy/monitoring/rules.yaml`: the cause of an alert is made in a running provider, and the
//! expression of the alert is evaluated over its scrape. The time for which a cause must last is not tested.

use crate::scrape::{self, Values};
use crate::stage::{Running, until};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Add;
use std::time::{Duration, UNIX_EPOCH};

/// Factor by which ages grow faster than in reality. Without this factor, the test would wait for minutes.
const TIME_SCALE: f64 = 20.0;

/// Minimum time between two scrapes.
const PAUSE: Duration = Duration::from_millis(200);

/// Alerts with their expressions.
pub(super) struct Alerts(Vec<(String, String)>);

impl Alerts {
    pub(super) fn read() -> Self {
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
    pub(super) fn firing(&self, before: &Values, now: &Values) -> BTreeSet<&str> {
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

/// A process that is scraped as a job of Prometheus.
pub(super) struct Monitored<'a> {
    alerts: Alerts,
    job: &'static str,
    process: &'a Running,
    port: u16,
    before: Values,
}

impl<'a> Monitored<'a> {
    /// Waits for the first successful scrape.
    #[track_caller]
    pub(super) fn new(job: &'static str, process: &'a Running, port: u16) -> Self {
        let mut monitored = Self {
            alerts: Alerts::read(),
            job,
            process,
            port,
            before: Values::new(),
        };
        let up = monitored.up();
        until(
            "a scrape",
            || process.dump(),
            || {
                monitored.restart();
                monitored.before[&up] == 1.0
            },
        );
        monitored
    }

    fn up(&self) -> String {
        format!("up{{job=\"{}\"}}", self.job)
    }

    /// Returns the samples of a scrape, and the sample `up`, which Prometheus adds.
    fn scrape(&self) -> Values {
        let response = scrape::get(self.port, "text/plain");
        let up = f64::from(u8::from(response.is_some()));
        let mut values = response.map(|(_, body)| scrape::parse(&body)).unwrap_or_default();
        values.insert(self.up(), up);
        values
    }

    /// Stores the current values. The alert function `increase` counts from these values.
    pub(super) fn restart(&mut self) {
        self.before = self.scrape();
    }

    /// Waits until the samples have these values.
    #[track_caller]
    pub(super) fn has(&self, expected: &[(&str, f64)]) {
        let is_met = |values: &Values| {
            let mut samples = expected.iter();
            samples.all(|(sample, value)| values.get(*sample) == Some(value))
        };
        scrape::scraped(self.port, self.process, &format!("{expected:?}"), is_met);
    }

    /// Waits until exactly these alerts fire.
    #[track_caller]
    pub(super) fn fires(&self, expected: &[&str]) {
        self.fires_while(expected, || {});
    }

    /// Waits until exactly these alerts fire, and calls `act` before each scrape.
    #[track_caller]
    pub(super) fn fires_while(&self, expected: &[&str], mut act: impl FnMut()) {
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        let last = RefCell::new(Values::new());
        let dump = || {
            let values = last.borrow();
            let firing = self.alerts.firing(&self.before, &values);
            format!("{firing:?}\n{values:#?}\n{}", self.process.dump())
        };
        until(&format!("{expected:?}"), dump, || {
            act();
            // Less often than `until`, because several tests wait at the same time.
            std::thread::sleep(PAUSE);
            *last.borrow_mut() = self.scrape();
            self.alerts.firing(&self.before, &last.borrow()) == expected
        });
    }
}
