//! Flags for metrics.

use crate::metrics::MetricsAddress;
use akash_provider_cli::setting::HaRule;
use clap::Args;

/// Metrics.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Metrics")]
pub struct MetricsArgs {
    /// Listen address of `/metrics` for Prometheus, without TLS; empty or `none` disables it
    #[arg(long, value_name = "HOST:PORT", default_value = "", value_parser = MetricsAddress::parse)]
    #[arg(add = HaRule::OUTPUT)]
    pub metrics_listener: MetricsAddress,
    /// Add metrics with one value per lease
    #[arg(long)]
    #[arg(add = HaRule::OUTPUT)]
    pub metrics_per_lease: bool,
}
