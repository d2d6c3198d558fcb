//! Flags of `doctor`.

use akash_provider_service::args::RunArgs;
use clap::Args;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Flags of `run`.
    #[command(flatten)]
    pub run: RunArgs,
    /// Create missing directories, and deny other system users access to the files of the provider
    #[arg(long)]
    pub fix: bool,
}
