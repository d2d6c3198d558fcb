//! Flags of the order history.

use super::values;
use crate::history::{Bounds, LIMIT_MIN};
use akash_provider_cli::setting::HaRule;
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
