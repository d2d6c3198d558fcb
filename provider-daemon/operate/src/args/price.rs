//! Flags of `price`.

use akash_provider_cli::flags::Output;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Actions of `price`.
#[derive(Debug, Subcommand)]
pub enum PriceCommand {
    /// Check a price policy: errors with their positions, and resources without a price
    Check(PriceCheckArgs),
}

/// Arguments of `price check`.
#[derive(Debug, Args)]
pub struct PriceCheckArgs {
    /// File of the policy, in YAML or JSON
    pub file: PathBuf,
    /// Output format of the result
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
}
