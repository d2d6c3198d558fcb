//! Traces of orders: one trace for each order, from the order event to the teardown, exported to an OpenTelemetry
//! collector with OTLP over HTTP.
//!
//! ```text
//! engine ─▶ TraceRecorder ─▶ queue (bounded) ─▶ task ─▶ POST /v1/traces
//! ```
//! The engine never waits. Spans that do not fit into the queue, or that the collector rejects, are counted;
//! the log reports only the first such loss. The ids of traces and spans are derived from the order, so a
//! restarted provider continues the trace of an order.

mod calls;
mod collector;
mod exporter;
mod ids;
mod metrics;
mod orders;
mod recorder;
mod span;

pub(crate) use metrics::OtlpSource;
pub use recorder::{TraceRecorder, TransactionOf};

use crate::args::OtlpArgs;
use crate::error::WithHelp;
use akash_provider_chain::redact_address;
use akash_provider_core::types::Address;
use collector::CollectorClient;
use exporter::{Export, SpanCounts, SpanSender, Timing};
use opentelemetry::{Key, KeyValue};
use opentelemetry_otlp::{
    OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, Protocol, RetryPolicy, SpanExporter,
    WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter as _;
use std::sync::Arc;

/// Path of the endpoint for traces below the URL of the collector.
const PATH: &str = "v1/traces";
const SERVICE_NAME: &str = "service.name";

/// Handle of the trace export of a running provider.
#[derive(Debug)]
pub struct Traces {
    export: Export,
}

impl Traces {
    fn counts(&self) -> Arc<SpanCounts> {
        Arc::clone(self.export.counts())
    }

    /// Sends the remaining spans, for at most two seconds.
    pub async fn finish(self) {
        self.export.finish().await;
    }
}

/// Starts the export of traces. Returns `None` if `--otlp-endpoint` and the standard variables contain no
/// address of a collector.
///
/// # Errors
/// Returns an error if the settings of the exporter are invalid. An unavailable collector is not an error.
pub fn start(
    args: &OtlpArgs,
    provider: &Address,
    chain_id: &str,
    transaction_of: TransactionOf,
) -> anyhow::Result<Option<(TraceRecorder, Traces)>> {
    let endpoint = endpoint(args);
    let variables = [OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT];
    let variable = variables
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let Some(address) = endpoint.clone().or(variable) else {
        return Ok(None);
    };
    let resource = resource(provider, chain_id);
    let (sender, export) = export(endpoint, &address, &resource, Timing::DEFAULT)?;
    let recorder = TraceRecorder::new(sender, provider.clone(), transaction_of);
    Ok(Some((recorder, Traces { export })))
}

/// Returns the URL for traces if the flags contain the URL of a collector.
fn endpoint(args: &OtlpArgs) -> Option<String> {
    let base = args.otlp_endpoint.as_ref()?.as_str();
    Some(format!("{}/{PATH}", base.trim_end_matches('/')))
}

/// Starts the export to an endpoint. Without an endpoint, the exporter uses the standard variables.
fn export(
    endpoint: Option<String>,
    address: &str,
    resource: &Resource,
    timing: Timing,
) -> anyhow::Result<(SpanSender, Export)> {
    let client = Arc::new(CollectorClient::new(timing.request).map_err(invalid)?);
    let builder = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_shared_http_client(Arc::<CollectorClient>::clone(&client))
        // The task repeats failed requests, and the library would block its thread between them.
        .with_retry_policy(RetryPolicy::disabled());
    let builder = match endpoint {
        Some(endpoint) => builder.with_endpoint(endpoint),
        None => builder,
    };
    let mut exporter = builder.build().map_err(|error| invalid(error.to_string()))?;
    exporter.set_resource(resource);
    Ok(Export::start(exporter, client, redact_address(address), timing))
}

fn invalid(error: String) -> WithHelp {
    WithHelp::new(
        format!("cannot start the export of traces: {error}"),
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
#[path = "../tests/common/collector.rs"]
mod collector_of_tests;
#[cfg(test)]
mod tests;
