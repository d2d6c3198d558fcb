//! Flags of `config`.

use super::RunArgs;
use super::show::Shown;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// What `run` would go by.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print every setting of `run` with its value, and whether a flag, a variable or a file set it; secrets are hidden.
    Show(Box<ShowArgs>),
    /// Say what is wrong with the settings that `run` would have, or with those of a file; nothing is started.
    Check(Box<CheckArgs>),
}

/// Settings of `config show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The flags of `run`.
    #[command(flatten)]
    pub run: RunArgs,
    /// What they come to.
    #[arg(skip)]
    pub shown: Vec<Shown>,
}

/// Settings of `config check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// A provider.yaml or a file of settings to look at, as --config names one.
    pub file: Option<PathBuf>,
    /// The flags of `run`.
    #[command(flatten)]
    pub run: RunArgs,
}
