//! Flags of `doctor`.

use super::RunArgs;
use clap::Args;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Flags of `run`.
    #[command(flatten)]
    pub run: RunArgs,
    /// Create missing directories and remove the access of other accounts to the files of the provider
    #[arg(long)]
    pub fix: bool,
}
