//! Flags that every command has.

use akash_provider_cli::setting::{FileKey, HaRule};
use akash_provider_cli::values;
use anyhow::Context;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

pub(crate) const DEFAULT_LEVEL: &str = "warn";

/// Flags of all commands.
#[derive(Debug, Clone, Args)]
pub struct GlobalArgs {
    /// Log level or filter: error, warn, info, debug, trace, off, or MODULE=LEVEL
    #[arg(
        long,
        global = true,
        env = "AP_LOG_LEVEL",
        default_value = DEFAULT_LEVEL,
        alias = "log_level"
    )]
    #[arg(add = HaRule::OUTPUT)]
    pub log_level: String,
    /// Format of log lines on stderr
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "plain",
        alias = "log_format"
    )]
    #[arg(add = HaRule::OUTPUT)]
    pub log_format: LogFormat,
    /// Color log lines [default: true on a terminal]
    #[arg(long, global = true, alias = "log_color", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = values::go_bool)]
    #[arg(add = HaRule::OUTPUT)]
    pub log_color: Option<bool>,
    /// Directory of keys, certificates and state [default: ~/.akash]
    #[arg(long, global = true, value_name = "DIR")]
    #[arg(add = HaRule::LOCATION, add = FileKey::Excluded)]
    pub home: Option<PathBuf>,
}

impl GlobalArgs {
    /// Returns the home directory of the provider.
    ///
    /// # Errors
    /// Returns an error if `--home` is not set and the user has no home directory.
    pub fn home(&self) -> anyhow::Result<PathBuf> {
        if let Some(home) = &self.home {
            return Ok(home.clone());
        }
        let user = std::env::home_dir().filter(|dir| !dir.as_os_str().is_empty());
        let user =
            user.context("the user has no home directory; set --home to the directory of keys and state")?;
        Ok(user.join(".akash"))
    }
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Human-readable text.
    #[value(alias = "text")]
    Plain,
    /// One JSON object per line.
    Json,
}
