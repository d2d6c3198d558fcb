//! Metrics of the export of traces.

use super::Traces;
use super::exporter::SpanCounts;
use crate::metrics::convert::number;
use crate::metrics::{Measure, MetricSource};
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[derive(Debug)]
pub(crate) struct OtlpSource {
    /// Counters of the trace export; `None` if the export is disabled.
    counts: Option<Arc<SpanCounts>>,
}

impl OtlpSource {
    pub(crate) fn new(traces: Option<&Traces>) -> Self {
        Self {
            counts: traces.map(Traces::counts),
        }
    }
}

impl MetricSource for OtlpSource {
    fn measures(&self) -> Vec<Measure> {
        let spans = Measure::counter("akash_provider_otlp_spans", "Trace spans by result of the export");
        let waiting = Measure::gauge(
            "akash_provider_otlp_waiting_spans",
            "Trace spans that wait for export",
        );
        let failures = Measure::counter(
            "akash_provider_otlp_failed_requests",
            "Failed requests to the trace collector",
        );
        let Some(counts) = &self.counts else {
            return vec![spans, waiting, failures];
        };
        let results = [
            ("exported", &counts.exported),
            ("queue_full", &counts.queue_full),
            ("rejected", &counts.rejected),
            ("unsent", &counts.unsent),
        ];
        let spans = results.into_iter().fold(spans, |spans, (result, count)| {
            spans.with([("result", result)], number(count.load(Ordering::Relaxed)))
        });
        vec![
            spans,
            waiting.with([], number(counts.waiting())),
            failures.with([], number(counts.failures.load(Ordering::Relaxed))),
        ]
    }
}
