//! Signals of OpenTelemetry that the provider exports.

use super::collector::CollectorClient;
use opentelemetry_otlp::{
    ExporterBuildError, Protocol, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use std::sync::Arc;

/// Exporter of one signal.
pub(super) trait Signal: Sized + Send + Sync + 'static {
    /// Exported unit: a span or a log record.
    type Item: Send + Sync + 'static;
    /// Name of the signal in URLs, standard variables and messages.
    const NAME: &str;

    /// Creates an exporter with the process attributes `resource`.
    fn build(
        url: &str,
        client: Arc<CollectorClient>,
        resource: &Resource,
    ) -> Result<Self, ExporterBuildError>;

    /// Sends a batch in one request.
    fn send(&self, batch: &[Self::Item]) -> impl Future<Output = OTelSdkResult> + Send;
}

/// Adds the connection to an exporter.
pub(super) fn connected<B>(builder: B, url: &str, client: Arc<CollectorClient>) -> B
where
    B: WithExportConfig + WithHttpConfig,
{
    builder
        .with_protocol(Protocol::HttpBinary)
        .with_shared_http_client(client)
        // The task repeats failed requests, and the library would block its thread between them.
        .with_retry_policy(RetryPolicy::disabled())
        .with_endpoint(url)
}

impl Signal for SpanExporter {
    type Item = SpanData;
    const NAME: &str = "traces";

    fn build(
        url: &str,
        client: Arc<CollectorClient>,
        resource: &Resource,
    ) -> Result<Self, ExporterBuildError> {
        let mut exporter = connected(Self::builder().with_http(), url, client).build()?;
        exporter.set_resource(resource);
        Ok(exporter)
    }

    fn send(&self, batch: &[SpanData]) -> impl Future<Output = OTelSdkResult> + Send {
        self.export(batch.to_vec())
    }
}
