//! Audit log: write access to its directory, file modes and disk space.

use super::check::{Check, Severity};
use super::disk::{judge_modes, judge_space};
use akash_provider_core::audit::{Act, ActKind};
use akash_provider_service::args::RunArgs;
use akash_provider_service::audit::{AuditSettings, audited, this_process};
use akash_provider_service::files::free_bytes;
use akash_provider_service::state::State;
use anyhow::anyhow;
use std::path::Path;

const SUBJECT: &str = "audit log";

/// Checks the directory of the audit log. Checks file modes and disk space only if the directory is outside
/// of `home`.
pub(super) fn checks(args: &RunArgs, home: &Path) -> Vec<Check> {
    let Some(settings) = args.audit.settings(home) else {
        return vec![Check::skipped(SUBJECT, "disabled by --audit-log none")];
    };
    let mut checks = vec![judge(&settings)];
    let dir = &settings.dir;
    if !dir.starts_with(home) {
        if dir.is_dir() {
            let (open, failures) = State::accessible_files(dir);
            checks.extend(judge_modes(SUBJECT, &open, &failures, false));
        }
        checks.push(judge_space(SUBJECT, "--audit-log", free_bytes(dir)));
    }
    checks
}

/// Records the changes of `--fix` in the audit log. Called after the changes, because a change can make the
/// log writable. A failed write is only a warning, because the changes destroy no data.
pub(super) fn record_changes(args: &RunArgs, home: Option<&Path>, changes: &[Check]) {
    let (Some(home), false) = (home, changes.is_empty()) else {
        return;
    };
    let kind = ActKind::Command {
        name: "doctor_fix",
        destroys: false,
    };
    let mut act = Act::new(kind, this_process(), home.display().to_string());
    let details: Vec<&str> = changes.iter().map(Check::detail).collect();
    act.evidence.request = Some(details.join("; "));
    let failed: Vec<&str> = changes
        .iter()
        .filter(|change| change.severity() == Severity::Failure)
        .map(Check::detail)
        .collect();
    let result = if failed.is_empty() {
        Ok(())
    } else {
        Err(anyhow!(failed.join("; ")))
    };
    // The report contains the failed changes.
    drop(audited(args.audit.settings(home).as_ref(), act, || result));
}

fn judge(settings: &AuditSettings) -> Check {
    let dir = settings.dir.display();
    match settings.check_access() {
        Ok(()) => Check::ok(SUBJECT, dir.to_string()),
        Err(why) => Check::failure(
            SUBJECT,
            format!("not writable, so closes of leases and teardowns wait: {why}"),
            format!("give the system user of the provider write access to {dir}, or set --audit-log"),
        ),
    }
}
