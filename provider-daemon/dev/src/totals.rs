//! Totals of a load run: served orders, the reasons why other orders were not served, and durations.

use crate::DeploymentResult;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Reported percentiles of the durations.
const SHARES: [(&str, usize); 3] = [("p50", 50), ("p90", 90), ("p99", 99)];

/// Totals of all generated tenants.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TenantTotals {
    orders: usize,
    served: usize,
    waited: usize,
    /// Number of orders that were not served, by reason.
    not_served: BTreeMap<String, usize>,
    to_bid: Vec<Duration>,
    /// Duration for which each tenant waited for capacity.
    for_capacity: Vec<Duration>,
    to_run: Vec<Duration>,
}

impl TenantTotals {
    /// Returns the totals. `orders` is the number of created orders, and `ended` contains the outcome of each
    /// finished order.
    #[must_use]
    pub(crate) fn from_outcomes<'a>(orders: u32, ended: impl Iterator<Item = &'a DeploymentResult>) -> Self {
        let mut totals = Self {
            orders: orders as usize,
            ..Self::default()
        };
        let mut seen = 0;
        for outcome in ended {
            seen += 1;
            totals.waited += usize::from(outcome.waited.is_some());
            totals.for_capacity.extend(outcome.waited);
            match (&outcome.problem, &outcome.reason) {
                (None, _) => totals.served += 1,
                (Some(_), Some(reason)) => totals.count(format!("declined ({reason})"), 1),
                (Some(problem), None) => {
                    let what = problem.split(':').next().unwrap_or_default();
                    totals.count(what.to_owned(), 1);
                }
            }
            totals.to_bid.extend(outcome.to_bid);
            let running = outcome.to_run.zip(outcome.to_bid);
            totals
                .to_run
                .extend(running.map(|(run, bid)| run.saturating_sub(bid)));
        }
        totals.count(
            "not finished at the stop".to_owned(),
            totals.orders.saturating_sub(seen),
        );
        for times in [&mut totals.to_bid, &mut totals.for_capacity, &mut totals.to_run] {
            times.sort_unstable();
        }
        totals
    }

    fn count(&mut self, what: String, many: usize) {
        if many > 0 {
            *self.not_served.entry(what).or_default() += many;
        }
    }

    fn times(&self) -> [(&'static str, &'static str, &[Duration]); 3] {
        [
            ("wait for room", "wait_for_room_ms", &self.for_capacity),
            ("order to bid", "order_to_bid_ms", &self.to_bid),
            ("lease to running", "lease_to_running_ms", &self.to_run),
        ]
    }

    /// Returns the counts, the reasons and a table of durations in seconds.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        let (orders, served, waited) = (self.orders, self.served, self.waited);
        let mut text = format!("{orders} generated orders: {served} served, {waited} waited for capacity\n");
        for (what, many) in &self.not_served {
            text.push_str(&format!("{many:>9} {what}\n"));
        }
        text.push_str(&format!("\n{:<27}", ""));
        for (name, _) in SHARES.iter().chain([&("max", 100)]) {
            text.push_str(&format!("{name:>9}"));
        }
        for (name, _, times) in self.times() {
            text.push_str(&format!("\n{name:<27}"));
            for (_, percent) in SHARES.iter().chain([&("max", 100)]) {
                let time = share(times, *percent);
                let time = time.map_or_else(|| "-".to_owned(), |d| format!("{:.2}s", d.as_secs_f64()));
                text.push_str(&format!("{time:>9}"));
            }
        }
        text
    }

    /// Returns the totals as JSON, with durations in milliseconds.
    #[must_use]
    pub(crate) fn json(&self) -> Value {
        let mut value = json!({
            "event": "totals", "orders": self.orders, "served": self.served, "waited": self.waited,
            "not_served": self.not_served,
        });
        for (_, name, times) in self.times() {
            let ms = |percent| share(times, percent).map(|d| d.as_millis() as u64);
            let shares = SHARES.iter().chain([&("max", 100)]);
            let shares = shares.map(|(name, percent)| ((*name).to_owned(), json!(ms(*percent))));
            value[name] = Value::Object(shares.collect());
        }
        value
    }
}

/// Returns a percentile of sorted durations.
fn share(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_core::types::DeclineCode;

    #[test]
    fn calculates_percentiles() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        let of = |percent| share(&times, percent).unwrap().as_millis();
        assert_eq!((of(50), of(90), of(99), of(100)), (100, 180, 198, 200));
        assert_eq!(share(&times[..1], 50), Some(Duration::from_millis(1)));
        assert_eq!(share(&[], 50), None);
    }

    #[test]
    fn counts_every_order_once_with_its_reason() {
        let outcome = |problem: Option<&str>, reason: Option<DeclineCode>, waited: bool| DeploymentResult {
            problem: problem.map(str::to_owned),
            reason,
            waited: waited.then_some(Duration::from_secs(9)),
            to_bid: problem.is_none().then_some(Duration::from_secs(1)),
            to_run: problem.is_none().then_some(Duration::from_secs(3)),
            ..DeploymentResult::default()
        };
        let all = [
            outcome(None, None, false),
            outcome(None, None, true),
            outcome(Some("declined (gpu): x"), Some(DeclineCode::Gpu), false),
            outcome(Some("manifest rejected: y"), None, false),
        ];
        let totals = TenantTotals::from_outcomes(5, all.iter());
        let value = totals.json();
        assert_eq!((&value["served"], &value["waited"]), (&json!(2), &json!(1)));
        let reasons = json!({
            "declined (gpu)": 1, "manifest rejected": 1, "not finished at the stop": 1,
        });
        assert_eq!(value["not_served"], reasons);
        assert_eq!(value["lease_to_running_ms"]["p99"], 2000);
        let text = totals.text();
        assert!(
            text.contains("5 generated orders: 2 served, 1 waited") && text.contains("2.00s"),
            "{text}"
        );
    }
}
