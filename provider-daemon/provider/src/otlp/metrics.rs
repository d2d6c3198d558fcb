//! Metrics of the export of traces and logs.

use super::Otlp;
use super::exporter::{Export, ItemCounts};
use crate::metrics::convert::number;
use crate::metrics::{Measure, MetricSource};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Source of metrics about the exports of traces and logs.
#[derive(Debug)]
pub(crate) struct OtlpSource {
    /// Counters of the trace export; `None` if disabled.
    traces: Option<Arc<ItemCounts>>,
    /// Counters of the log export; `None` if disabled.
    logs: Option<Arc<ItemCounts>>,
}

impl OtlpSource {
    pub(crate) fn new(otlp: &Otlp) -> Self {
        let counts = |export: &Option<Export>| Some(Arc::clone(export.as_ref()?.counts()));
        Self {
            traces: counts(&otlp.traces),
            logs: counts(&otlp.logs),
        }
    }
}

impl MetricSource for OtlpSource {
    fn measures(&self) -> Vec<Measure> {
        let mut failures = Measure::counter(
            "akash_provider_otlp_failed_requests",
            "Failed requests to the OpenTelemetry collector, by exported signal",
        );
        let spans = (
            Measure::counter("akash_provider_otlp_spans", "Trace spans by result of the export"),
            Measure::gauge(
                "akash_provider_otlp_waiting_spans",
                "Trace spans that wait for export",
            ),
        );
        let records = (
            Measure::counter(
                "akash_provider_otlp_log_records",
                "Log records by result of the export",
            ),
            Measure::gauge(
                "akash_provider_otlp_waiting_log_records",
                "Log records that wait for export",
            ),
        );
        let value = |count: &AtomicU64| number(count.load(Ordering::Relaxed));
        let mut measures = Vec::new();
        for (signal, counts, (mut items, mut waiting)) in
            [("traces", &self.traces, spans), ("logs", &self.logs, records)]
        {
            if let Some(counts) = counts {
                items = items
                    .with([("result", "exported")], value(&counts.exported))
                    .with([("result", "queue_full")], value(&counts.queue_full))
                    .with([("result", "rejected")], value(&counts.rejected))
                    .with([("result", "unsent")], value(&counts.unsent));
                waiting = waiting.with([], number(counts.waiting()));
                failures = failures.with([("signal", signal)], value(&counts.failures));
            }
            measures.extend([items, waiting]);
        }
        measures.push(failures);
        measures
    }
}
