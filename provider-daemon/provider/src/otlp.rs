//! Export of traces and of the log to an OpenTelemetry collector with OTLP over HTTP. Each order has one trace,
//! from the order event to the teardown.
//!
//! ```text
//! engine ─▶ TraceRecorder ─▶ queue (bounded) ─▶ task ─▶ POST /v1/traces
//! log    ─▶ LogQueue      ─▶ queue (bounded) ─▶ task ─▶ POST /v1/logs
//! ```
//! The engine and the log never wait. Spans and log records that do not fit into the queue, or that the collector
//! rejects, are counted; the log reports only the first such loss of each signal. The ids of traces and spans are
//! derived from the order, so a restarted provider continues the trace of an order.

mod calls;
mod collector;
mod exporter;
mod ids;
mod logs;
mod metrics;
mod orders;
mod recorder;
mod signal;
mod span;

pub(crate) use logs::bridge;
pub(crate) use metrics::OtlpSource;
pub use recorder::{TraceRecorder, TransactionOf};

use crate::args::OtlpArgs;
use akash_provider_chain::redact_address;
use akash_provider_cli::error::WithHelp;
use akash_provider_core::types::Address;
use collector::CollectorClient;
use exporter::{Export, ExportTiming, ItemReceiver, queue};
use opentelemetry::{Key, KeyValue};
use opentelemetry_otlp::{LogExporter, SpanExporter};
use opentelemetry_sdk::Resource;
use signal::Signal;
use std::env;
use std::sync::Arc;

const SERVICE_NAME: &str = "service.name";

/// Handle of the exports of a running provider.
#[derive(Debug)]
pub struct Otlp {
    traces: Option<Export>,
    logs: Option<Export>,
}

impl Otlp {
    /// Sends the remaining spans and log records, for at most two seconds.
    pub async fn finish(self) {
        let finish = async |export: Option<Export>| {
            if let Some(export) = export {
                export.finish().await;
            }
        };
        tokio::join!(finish(self.traces), finish(self.logs));
    }
}

/// Starts the enabled exports. Returns no recorder if traces are not exported.
///
/// # Errors
/// Returns an error if the settings of the exporter are invalid. An unavailable collector is not an error.
pub fn start(
    args: &OtlpArgs,
    provider: &Address,
    chain_id: &str,
    transaction_of: TransactionOf,
) -> anyhow::Result<(Option<TraceRecorder>, Otlp)> {
    let resource = resource(provider, chain_id);
    let (sender, spans) = queue();
    let traces = endpoint(args, SpanExporter::NAME, variable)
        .map(|url| export::<SpanExporter>(&url, spans, &resource, ExportTiming::DEFAULT))
        .transpose()?;
    let recorder = traces
        .as_ref()
        .map(|_| TraceRecorder::new(sender, provider.clone(), transaction_of));
    logs::PROVIDER.get_or_init(|| provider.clone());
    let logs = logs::take_records()
        .map(|(url, records)| export::<LogExporter>(&url, records, &resource, ExportTiming::DEFAULT))
        .transpose()?;
    Ok((recorder, Otlp { traces, logs }))
}

/// Returns the collector URL of a signal. Returns `None` without a URL, or if a standard variable disables
/// the signal.
fn endpoint(args: &OtlpArgs, signal: &str, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let name = signal.to_uppercase();
    if variable(&format!("OTEL_{name}_EXPORTER")).is_some_and(|exporter| exporter == "none") {
        return None;
    }
    let below = |base: &str| format!("{}/v1/{signal}", base.trim_end_matches('/'));
    match &args.otlp_endpoint {
        Some(base) => Some(below(base.as_str())),
        None => variable(&format!("OTEL_EXPORTER_OTLP_{name}_ENDPOINT"))
            .or_else(|| Some(below(&variable("OTEL_EXPORTER_OTLP_ENDPOINT")?))),
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Starts the export of a queue to a URL.
fn export<S: Signal>(
    url: &str,
    queue: ItemReceiver<S::Item>,
    resource: &Resource,
    timing: ExportTiming,
) -> anyhow::Result<Export> {
    let client = Arc::new(CollectorClient::new(timing.request).map_err(invalid)?);
    let exporter =
        S::build(url, Arc::clone(&client), resource).map_err(|error| invalid(error.to_string()))?;
    Ok(Export::start(
        exporter,
        client,
        redact_address(url),
        timing,
        queue,
    ))
}

fn invalid(error: String) -> WithHelp {
    WithHelp::new(
        format!("cannot start the export to the OpenTelemetry collector: {error}"),
        "check --otlp-endpoint and the variables OTEL_EXPORTER_OTLP_…",
    )
}

/// Returns the attributes of this process, including the attributes from `OTEL_SERVICE_NAME` and
/// `OTEL_RESOURCE_ATTRIBUTES`.
fn resource(provider: &Address, chain_id: &str) -> Resource {
    let own = [
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("akash.provider", provider.to_string()),
        KeyValue::new("akash.chain_id", chain_id.to_owned()),
    ];
    let builder = || Resource::builder().with_attributes(own.clone());
    let resource = builder().build();
    let name = resource.get(&Key::from_static_str(SERVICE_NAME));
    let is_unnamed = name.is_none_or(|name| name.as_str().starts_with("unknown_service"));
    if is_unnamed {
        builder().with_service_name("akash-provider").build()
    } else {
        resource
    }
}

#[cfg(test)]
#[path = "../../tests/common/collector.rs"]
mod collector_of_tests;
#[cfg(test)]
mod tests;
