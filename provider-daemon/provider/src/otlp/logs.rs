//! Log records with the ids of the trace and of the span of their order.

use super::collector::CollectorClient;
use super::exporter::{ItemReceiver, ItemSender, queue};
use super::ids::{span_id, trace_id};
use super::signal::{Signal, connected};
use super::span::{LEASE, ORDER};
use crate::args::OtlpArgs;
use akash_provider_core::types::{Address, LeaseId};
use opentelemetry::InstrumentationScope;
use opentelemetry::logs::{AnyValue, LogRecord, Severity};
use opentelemetry::trace::{SpanId, TraceFlags, TraceId};
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_otlp::{ExporterBuildError, LogExporter};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{
    LogBatch, LogExporter as _, LogProcessor, SdkLogRecord, SdkLogger, SdkLoggerProvider,
};
use std::sync::Arc;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

/// Log targets that are not exported, because exporting a record would create further records.
const OWN: [&str; 2] = ["akash_provider_service::otlp", "hyper_util"];

/// URL and queue of the log export, until [`super::start`] takes both.
static RECORDS: Mutex<Option<(String, ItemReceiver<SdkLogRecord>)>> = Mutex::new(None);

/// Account of the provider; unset until the keys are read.
pub(super) static PROVIDER: OnceLock<Address> = OnceLock::new();

/// Log layer that adds log records to a queue.
type Bridge = OpenTelemetryTracingBridge<SdkLoggerProvider, SdkLogger>;

/// Returns the log layer of the export, or `None` if logs are not exported.
pub(crate) fn bridge(args: &OtlpArgs) -> Option<Bridge> {
    let url = super::endpoint(args, LogExporter::NAME, super::variable)?;
    let (sender, records) = queue();
    *RECORDS.lock().unwrap_or_else(PoisonError::into_inner) = Some((url, records));
    Some(layer(sender))
}

pub(super) fn layer(sender: ItemSender<SdkLogRecord>) -> Bridge {
    let provider = SdkLoggerProvider::builder().with_log_processor(LogQueue(sender));
    Bridge::new(&provider.build())
}

/// Removes and returns the URL and the queue; `None` if logs are not exported.
pub(super) fn take_records() -> Option<(String, ItemReceiver<SdkLogRecord>)> {
    RECORDS.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Log processor that adds records to the queue.
#[derive(Debug)]
struct LogQueue(ItemSender<SdkLogRecord>);

impl LogProcessor for LogQueue {
    fn emit(&self, record: &mut SdkLogRecord, _: &InstrumentationScope) {
        record.set_timestamp(SystemTime::now());
        if let Some((trace, span)) = context(record) {
            record.set_trace_context(trace, span, Some(TraceFlags::SAMPLED));
        }
        self.0.send(record.clone());
    }

    fn event_enabled(&self, _: Severity, target: &str, _: Option<&str>) -> bool {
        !OWN.iter().any(|own| target.starts_with(own))
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Returns the trace ID and the span ID for the order, bid or lease in a log record. The IDs are computed,
/// because the trace recorder creates the span later.
fn context(record: &SdkLogRecord) -> Option<(TraceId, SpanId)> {
    record.attributes_iter().find_map(|(key, value)| {
        let AnyValue::String(text) = value else {
            return None;
        };
        let text = text.as_str();
        let lease = || text.parse::<LeaseId>().ok().map(|id| (id.provider, id.order));
        let ((provider, order), span) = match key.as_str() {
            "order" => ((PROVIDER.get()?.clone(), text.parse().ok()?), ORDER),
            "bid" => (lease()?, ORDER),
            "lease" => (lease()?, LEASE),
            _ => return None,
        };
        Some((trace_id(&order), span_id(&provider, &order, span, None)))
    })
}

impl Signal for LogExporter {
    type Item = SdkLogRecord;
    const NAME: &str = "logs";

    fn build(
        url: &str,
        client: Arc<CollectorClient>,
        resource: &Resource,
    ) -> Result<Self, ExporterBuildError> {
        let mut exporter = connected(Self::builder().with_http(), url, client).build()?;
        exporter.set_resource(resource);
        Ok(exporter)
    }

    async fn send(&self, batch: &[SdkLogRecord]) -> OTelSdkResult {
        // The collector gets the target of each record as its scope.
        let scope = InstrumentationScope::default();
        let records: Vec<_> = batch.iter().map(|record| (record, &scope)).collect();
        self.export(LogBatch::new(&records)).await
    }
}
