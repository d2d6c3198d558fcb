//! Prometheus metrics of an operator, computed from the operator's status on each request.

use crate::metrics::convert::{flag, number, seconds};
use crate::metrics::{Measure, MeasureCollector, queue_states};
use akash_provider_operators::{OperationCounts, WatchStatus, WorkStatistics};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use std::borrow::Cow;
use std::collections::BTreeMap;

pub(super) fn count_metrics(counts: OperationCounts) -> [Measure; 3] {
    let one = |name, help, count: u64| Measure::counter(name, help).with([], number(count));
    [
        one("writes", "Objects created or updated", counts.written),
        one("deletes", "Objects deleted", counts.deleted),
        one("failures", "Failed writes and deletes", counts.failed),
    ]
}

pub(super) fn work_metrics(work: &WorkStatistics) -> [Measure; 2] {
    let queue = Measure::gauge("queue_depth", "Names in the work queue by state");
    let durations = Measure::histogram(
        "reconcile_duration_seconds",
        "Duration of the writes for one object name",
    );
    [
        queue.counted("state", queue_states(work.queue)),
        durations.with_histogram([], seconds(&work.durations)),
    ]
}

pub(super) fn watch_metrics(watches: &BTreeMap<&'static str, WatchStatus>) -> [Measure; 2] {
    let mut synced = Measure::gauge("watch_synced", "1 after the initial list of this kind");
    let mut down = Measure::gauge(
        "watch_down_seconds",
        "Seconds since the watch of this kind failed; 0 while it works",
    );
    for (kind, watch) in watches {
        let labels = [("kind", *kind)];
        synced = synced.with(labels, flag(watch.synced));
        down = down.with(labels, number(watch.down_for_seconds.unwrap_or(0)));
    }
    [synced, down]
}

pub(super) fn text(operator: &'static str, measures: Vec<Measure>) -> Option<String> {
    let label = (Cow::Borrowed("operator"), Cow::Borrowed(operator));
    let mut registry = Registry::with_prefix_and_labels("provider_operator", [label].into_iter());
    registry.register_collector(Box::new(MeasureCollector::new(measures)));
    let mut text = String::new();
    encode(&mut text, &registry).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_encoded_as_openmetrics_text() {
        let measures = vec![
            Measure::gauge("objects", "Objects by state")
                .with([("state", "written")], 3.0)
                .with([("state", "a \"b\"\n\\")], 0.0),
            Measure::counter("writes", "Objects written").with([], 7.0),
        ];
        let text = text("hostname", measures).unwrap();
        let expected = "# HELP provider_operator_objects Objects by state\n\
                        # TYPE provider_operator_objects gauge\n\
                        provider_operator_objects{operator=\"hostname\",state=\"a \\\"b\\\"\\n\\\\\"} 0.0\n\
                        provider_operator_objects{operator=\"hostname\",state=\"written\"} 3.0\n\
                        # HELP provider_operator_writes Objects written\n\
                        # TYPE provider_operator_writes counter\n\
                        provider_operator_writes_total{operator=\"hostname\"} 7.0\n\
                        # EOF\n";
        assert_eq!(text, expected);
    }
}
