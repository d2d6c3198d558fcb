//! Audit log: write access to its directory, file modes and disk space.

use super::check::Check;
use super::host::{judge_modes, judge_space};
use crate::args::RunArgs;
use crate::audit::AuditSettings;
use crate::files::free_bytes;
use crate::state::State;
use std::path::Path;

const SUBJECT: &str = "audit log";

/// Checks the directory of the audit log. Another area checks modes and disk space below `home`.
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
