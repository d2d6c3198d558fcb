//! Output options of a command.

use super::Output;
use clap::Args;

/// Output options of a command.
#[derive(Debug, Clone, Copy, Args)]
pub struct OutputArgs {
    /// Output format of the result
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
}
