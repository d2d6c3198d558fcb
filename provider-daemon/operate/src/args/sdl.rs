//! Flags of `sdl`.

use akash_provider_cli::flags::DataOutput;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Arguments of `sdl`.
#[derive(Debug, Args)]
pub struct SdlArgs {
    /// Part of the SDL to print
    #[arg(value_enum)]
    pub what: SdlPart,
    /// SDL file; `-` reads standard input
    pub file: PathBuf,
    /// Output format [default: json for manifest and groups, else text]
    #[arg(long, short, value_enum)]
    pub output: Option<DataOutput>,
    /// Treat warnings, such as an unknown field, as errors
    #[arg(long)]
    pub strict: bool,
}

/// Output of `sdl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SdlPart {
    /// Manifest that a tenant sends to the provider
    Manifest,
    /// Groups that a tenant puts on the chain
    Groups,
    /// Hash of the manifest, as the chain stores it
    Hash,
    /// Errors and warnings of the SDL, with line numbers
    Validate,
}
