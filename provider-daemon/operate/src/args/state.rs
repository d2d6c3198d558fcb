//! Flags of `state`.

use akash_provider_service::args::{AuditLogArgs, OutputArgs};
use clap::{Args, Subcommand};

/// Actions on the state of a stopped provider.
#[derive(Debug, Subcommand)]
pub enum StateAction {
    /// Show the last processed block of each chain
    Show(OutputArgs),
    /// Delete the height of the last processed block, so that nodes with a lower height are accepted again
    ResetHeight(ResetHeightArgs),
}

/// Arguments of `state reset-height`.
#[derive(Debug, Args)]
pub struct ResetHeightArgs {
    /// Chain ID to reset [default: all chains]
    #[arg(long)]
    pub chain_id: Option<String>,
    /// Output options.
    #[command(flatten)]
    pub printed: OutputArgs,
    /// Audit log.
    #[command(flatten)]
    pub audit: AuditLogArgs,
}
