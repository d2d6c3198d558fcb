//! Flags of the commands that read the order history.

use akash_provider_cli::values;
use akash_provider_core::types::DeclineCode;
use akash_provider_service::args::OutputArgs;
use akash_provider_service::history::OrderRef;
use clap::Args;
use std::time::Duration;

/// Arguments of `orders`.
#[derive(Debug, Args)]
pub struct OrdersArgs {
    /// List declined orders only
    #[arg(long)]
    pub declined: bool,
    /// List orders that were declined with this code, such as gpu or price_too_high
    #[arg(long, value_name = "CODE", value_parser = decline_code)]
    pub code: Option<DeclineCode>,
    /// Maximum age of the listed orders, counted from their receipt
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = values::go_duration)]
    pub since: Duration,
    /// Maximum number of listed orders; the newest are listed
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Output options.
    #[command(flatten)]
    pub printed: OutputArgs,
}

/// Arguments of `order`.
#[derive(Debug, Args)]
pub struct OrderArgs {
    /// Order as OWNER/DSEQ/GSEQ/OSEQ, or its lease ID; OWNER/DSEQ or DSEQ for all orders of a deployment
    pub id: OrderRef,
    /// Output options.
    #[command(flatten)]
    pub printed: OutputArgs,
}

/// Arguments of `summary`.
#[derive(Debug, Args)]
pub struct SummaryArgs {
    /// Maximum age of the summarized orders, counted from their receipt
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = values::go_duration)]
    pub since: Duration,
    /// Output options.
    #[command(flatten)]
    pub printed: OutputArgs,
}

fn decline_code(text: &str) -> Result<DeclineCode, String> {
    let name = text.replace('-', "_").into();
    serde_json::from_value(name).map_err(|error| error.to_string())
}
