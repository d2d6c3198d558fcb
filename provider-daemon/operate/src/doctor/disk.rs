//! File modes and free space of a directory.

use super::check::{Check, listed};
use std::path::PathBuf;

/// Minimum free disk space, in bytes. `doctor` warns if less space is free.
const SPACE_FEW: u64 = 1 << 30;
/// Free disk space, in bytes, below which the check fails.
const SPACE_MIN: u64 = 100 << 20;
pub(super) const FIX: &str = "run `doctor --fix`";
/// Maximum number of files that one check lists.
const FILES_MAX: usize = 3;

/// Returns the check result for file modes, or `None` if all files are private.
///
/// `open` lists the files that other system users can access. `failures` lists the files with an unreadable
/// mode. `is_mounted` is true if the files may be mounted secrets.
pub(super) fn judge_modes(
    subject: &str,
    open: &[(PathBuf, u32)],
    failures: &[String],
    is_mounted: bool,
) -> Option<Check> {
    if let Some(failure) = failures.first() {
        let help = "run `doctor` as the system user that runs the provider";
        return Some(Check::warning(subject, format!("cannot read {failure}"), help));
    }
    if open.is_empty() {
        return None;
    }
    let name = |(path, mode): &(PathBuf, u32)| format!("{} ({mode:04o})", path.display());
    let names = listed(open.iter().map(name), FILES_MAX);
    let detail = format!("other system users may access {names}");
    Some(Check::problem(is_mounted, subject, detail, FIX))
}

/// Judges the free space of the directory that `flag` sets.
pub(super) fn judge_space(subject: &str, flag: &str, free: Result<u64, String>) -> Check {
    let help = format!("delete files on the disk of {flag}, or set {flag} to a directory on a larger disk");
    let free = match free {
        Ok(free) => free,
        Err(why) => return Check::warning(subject, format!("free space cannot be read: {why}"), help),
    };
    let detail = format!("{} MiB free", free >> 20);
    match free {
        0..SPACE_MIN => Check::failure(subject, detail, help),
        SPACE_MIN..SPACE_FEW => Check::warning(subject, detail, help),
        _ => Check::ok(subject, detail),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Severity;
    use super::*;
    use akash_provider_service::files::free_bytes;
    use std::path::Path;

    #[test]
    fn disk_space_has_limits() {
        for (free, wanted) in [
            (Ok(SPACE_FEW), Severity::Ok),
            (Ok(SPACE_FEW - 1), Severity::Warning),
            (Ok(SPACE_MIN - 1), Severity::Failure),
            (Err("x".to_owned()), Severity::Warning),
        ] {
            let check = judge_space("disk space", "--home", free.clone());
            assert_eq!(check.severity(), wanted, "{free:?}");
        }
        assert!(free_bytes(Path::new("/tmp/missing/deeper")).is_ok());
    }
}
