//! Flags of the audit log and of the command that reads it.

use super::output::OutputArgs;
use super::values;
use crate::audit::AuditSettings;
use akash_provider_cli::setting::HaRule;
use akash_provider_core::types::LeaseId;
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Minimum value of `--audit-log-bytes`, in bytes.
const LIMIT_MIN: u64 = 1 << 20;
/// Default of `--audit-log-bytes`.
const BYTES: &str = "256Mi";
/// Default of `--audit-log-files`.
const FILES: u16 = 16;
/// Value that disables the log.
const NONE: &str = "none";

/// Flags of the audit log.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Recording")]
pub struct AuditLogArgs {
    /// Directory of the log of acts that spend money or destroy data; `none` disables it [default: audit in
    /// --home]
    #[arg(long, value_name = "DIR", global = true)]
    #[arg(add = HaRule::OUTPUT)]
    pub audit_log: Option<PathBuf>,
    /// Maximum size of the audit log, in bytes, at least 1Mi; the oldest file is removed first
    #[arg(long, value_name = "BYTES", default_value = BYTES, value_parser = limit, global = true)]
    #[arg(add = HaRule::OUTPUT)]
    pub audit_log_bytes: u64,
    /// Maximum number of files of the audit log, from 2 to 1000
    #[arg(long, value_name = "N", default_value_t = FILES, value_parser = clap::value_parser!(u16).range(2..=1000),
          global = true)]
    #[arg(add = HaRule::OUTPUT)]
    pub audit_log_files: u16,
}

fn limit(text: &str) -> Result<u64, String> {
    match u64::try_from(values::bytes(text)?) {
        Ok(bytes) if bytes >= LIMIT_MIN => Ok(bytes),
        _ => Err("must be at least 1Mi".to_owned()),
    }
}

impl AuditLogArgs {
    /// Returns the settings of the audit log, or `None` if the log is disabled. The default directory is
    /// below `home`.
    #[must_use]
    pub fn settings(&self, home: &Path) -> Option<AuditSettings> {
        Some(AuditSettings {
            dir: directory(self.audit_log.as_deref(), Some(home.join("audit")))?,
            bytes: self.audit_log_bytes,
            files: self.audit_log_files.into(),
        })
    }

    /// Returns the directory in `--audit-log`, or `None` if the log is disabled or in its default directory.
    pub(crate) fn chosen_directory(&self) -> Option<PathBuf> {
        directory(self.audit_log.as_deref(), None)
    }
}

/// Returns the settings of a log in `dir` with the default limits.
pub(in crate::args) fn default_settings(dir: PathBuf) -> anyhow::Result<AuditSettings> {
    Ok(AuditSettings {
        dir,
        bytes: limit(BYTES).map_err(anyhow::Error::msg)?,
        files: FILES.into(),
    })
}

/// Returns the directory of the audit log, or `None` if the log is disabled.
pub(in crate::args) fn directory(flag: Option<&Path>, default: Option<PathBuf>) -> Option<PathBuf> {
    match flag {
        Some(dir) if dir == Path::new(NONE) => None,
        Some(dir) if !dir.as_os_str().is_empty() => Some(dir.to_owned()),
        _ => default,
    }
}

/// Arguments of `audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// Maximum age of the listed acts
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = values::go_duration)]
    pub since: Duration,
    /// List only acts on this lease or its bid, as OWNER/DSEQ/GSEQ/OSEQ/PROVIDER
    #[arg(long, value_name = "ID")]
    pub lease: Option<LeaseId>,
    /// Directory of the audit log, as for `run` [default: audit in --home]
    #[arg(long, value_name = "DIR")]
    pub audit_log: Option<PathBuf>,
    /// Output options.
    #[command(flatten)]
    pub printed: OutputArgs,
}

impl AuditArgs {
    /// Returns the directory of the audit log, or `None` if the flag disables the log.
    #[must_use]
    pub fn directory(&self, home: &Path) -> Option<PathBuf> {
        directory(self.audit_log.as_deref(), Some(home.join("audit")))
    }
}
