//! Flags of the export of traces and logs.

use super::values;
use akash_provider_cli::setting::HaRule;
use clap::Args;
use url::Url;

/// Flags of the export of traces and logs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Recording")]
pub struct OtlpArgs {
    /// OpenTelemetry collector (OTLP over HTTP) for the log and one trace per order, such as http://collector:4318
    #[arg(long, value_name = "URL", value_parser = values::web_url)]
    #[arg(add = HaRule::OUTPUT)]
    pub otlp_endpoint: Option<Url>,
}
