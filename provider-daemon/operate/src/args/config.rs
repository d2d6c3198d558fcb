//! Flags of `config`.

use akash_provider_service::args::RunArgs;
use akash_provider_service::args::show::Setting;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Actions of `config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print each setting of `run` with its value and source (flag, variable or file); secrets are hidden
    Show(Box<ShowArgs>),
    /// Check the settings of `run`, or those of a file, without starting the provider
    Check(Box<CheckArgs>),
    /// Print the JSON Schema of settings files, for editors and validators
    Schema,
}

/// Arguments of `config show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Flags of `run`.
    #[command(flatten)]
    pub run: RunArgs,
    /// Settings of `run` that result from the command line, the environment and the files.
    #[arg(skip)]
    pub settings: Vec<Setting>,
}

/// Arguments of `config check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// provider.yaml or settings file to check
    pub file: Option<PathBuf>,
    /// Flags of `run`.
    #[command(flatten)]
    pub run: RunArgs,
}
