//! Flags of the order history and of the commands that read it.

use super::output::OutputArgs;
use super::values;
use crate::history::{Bounds, LIMIT_MIN, OrderRef};
use akash_provider_cli::setting::HaRule;
use akash_provider_core::types::DeclineCode;
use clap::Args;
use std::time::Duration;

/// Flags of the order history.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Recording")]
pub struct OrderHistoryArgs {
    /// Time for which the home directory stores each order with its decision and outcome; 0 disables the
    /// history
    #[arg(long, value_name = "DURATION", default_value = "168h", value_parser = values::go_duration)]
    #[arg(add = HaRule::OUTPUT)]
    pub order_history: Duration,
    /// Maximum size of the recorded orders, in bytes, at least 64Ki; the oldest orders are removed first
    #[arg(long, value_name = "BYTES", default_value = "64Mi", value_parser = limit)]
    #[arg(add = HaRule::OUTPUT)]
    pub order_history_bytes: u64,
}

impl OrderHistoryArgs {
    /// Returns the bounds of the history.
    #[must_use]
    pub const fn bounds(&self) -> Bounds {
        Bounds {
            age: self.order_history,
            bytes: self.order_history_bytes,
        }
    }
}

fn limit(text: &str) -> Result<u64, String> {
    match u64::try_from(values::bytes(text)?) {
        Ok(bytes) if bytes >= LIMIT_MIN => Ok(bytes),
        _ => Err("must be at least 64Ki".to_owned()),
    }
}

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
