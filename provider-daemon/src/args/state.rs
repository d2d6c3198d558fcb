//! Flags of `state`.

use super::operator::Printed;
use clap::{Args, Subcommand};

/// What to do with the state of a provider that is stopped.
#[derive(Debug, Subcommand)]
pub enum StateAction {
    /// Show the last processed block of each chain.
    Show(Printed),
    /// Remove the last processed height, so that nodes below it are trusted again.
    ResetHeight(ResetHeightArgs),
}

/// Settings of `state reset-height`.
#[derive(Debug, Args)]
pub struct ResetHeightArgs {
    /// Chain ID to reset [default: all chains]
    #[arg(long)]
    pub chain_id: Option<String>,
}
