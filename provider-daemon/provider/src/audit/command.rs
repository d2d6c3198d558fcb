//! Log of a command, which writes each line immediately.

use super::files::AuditSettings;
use super::line::{AuditLine, LineFormat};
use super::log::unwritten;
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::node::block_on;
use akash_provider_core::audit::{Act, ActOutcome, AuditEntry, AuditLog, AuditedAct};
use akash_provider_core::error::Error;
use async_trait::async_trait;
use std::sync::{Arc, Once};

/// Audit log of a command. Writes each entry immediately.
#[derive(Debug)]
pub(super) struct FileLog {
    settings: AuditSettings,
    format: LineFormat,
    /// Ensures that only the first failed write prints a warning.
    warning: Once,
}

impl FileLog {
    pub(super) fn new(settings: AuditSettings) -> Self {
        Self {
            settings,
            format: LineFormat::new(),
            warning: Once::new(),
        }
    }

    fn append(&self, entry: &AuditEntry) -> anyhow::Result<()> {
        let line = AuditLine::new(&self.format, entry).to_json();
        self.settings.append(line.as_bytes())
    }
}

/// Records the intent to perform `act`. Returns `None` if the log is disabled.
///
/// # Errors
/// Returns an error unless the record is durable. After an error, the caller must not start the act.
pub async fn record_intent(settings: Option<&AuditSettings>, act: Act) -> anyhow::Result<Option<AuditedAct>> {
    let Some(settings) = settings else {
        return Ok(None);
    };
    let act = AuditedAct::new(Arc::new(FileLog::new(settings.clone())), act);
    act.record_intent().await.map_err(|error| {
        let help = "check the free disk space and the permissions of the --audit-log directory, or \
                    disable the audit log with --audit-log none";
        WithHelp::new(format!("nothing was done: {}", error.message()), help)
    })?;
    Ok(Some(act))
}

#[async_trait]
impl AuditLog for FileLog {
    async fn record(&self, entry: AuditEntry) -> Result<(), Error> {
        self.append(&entry)
            .map_err(|error| unwritten(&format!("{error:#}")))
    }

    fn submit(&self, entry: AuditEntry) {
        if let Err(error) = self.append(&entry) {
            self.warning.call_once(|| {
                eprintln!(
                    "warning: cannot write the audit log: {error:#}; check the directory of --audit-log"
                );
            });
        }
    }
}

/// Performs an act without a transaction, and records its intent and outcome.
///
/// # Errors
/// Returns the error of the act. Returns an error without starting the act if the intent cannot be recorded.
pub fn audited<T>(
    settings: Option<&AuditSettings>,
    act: Act,
    run: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let act = block_on(record_intent(settings, act))?;
    let result = run();
    record_result(act.as_ref(), &result);
    result
}

/// Records the result of an act that sends no transaction.
pub fn record_result<T>(act: Option<&AuditedAct>, result: &anyhow::Result<T>) {
    if let Some(act) = act {
        act.record_outcome(match result {
            Ok(_) => ActOutcome::new("done", None),
            Err(error) => ActOutcome::new("failed", Some(format!("{error:#}"))),
        });
    }
}
